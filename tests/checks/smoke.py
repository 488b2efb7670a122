"""What a new user does first, with the installed package and nothing else: bin/wheel-test runs it."""

import json
import os
import subprocess
import sys
import time

SESSION = (
    '{"role": "user", "content": "JWT or sessions?"}\n{"role": "assistant", "content": "Server sessions for auth."}\n'
)


def hermes(*words: str, code: int = 0) -> str:
    command = [os.path.join(os.path.dirname(sys.executable), "hermes"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"hermes {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def main() -> None:
    began = time.monotonic()
    assert hermes("--version").startswith("hermes ")
    assert "Its files are removed" in hermes("demo", "--scripted")
    hermes("memory", "add", "--target", "user", "Prefers short answers.")
    assert "Prefers short answers." in hermes("prompt")
    with open("past.jsonl", "w", encoding="utf-8") as file:
        file.write(SESSION)
    hermes("sessions", "import", "past.jsonl")
    assert "Server sessions" in hermes("sessions", "search", "what did we decide about auth?")
    assert "success" in hermes("tool", "session_search", '{"query": "auth"}')
    assert json.loads(hermes("doctor", "--offline", "--json"))["healthy"]
    assert "install jinja2 mcp starlette uvicorn" in hermes(
        "mcp", code=1
    )  # the extra is not there, and it says what to do
    assert "install jinja2 mcp starlette uvicorn" in hermes("mcp", "install", "claude-code", "--yes", code=1)
    assert not os.path.exists(os.path.expanduser("~/.claude.json"))
    library()
    print(f"{sys.version.split()[0]}: works ({time.monotonic() - began:.0f} s)")


def library() -> None:
    from hermes import MemorySession

    with MemorySession.open(source="smoke") as session:
        assert "Prefers short answers." in session.prepare_turn("Hello").system
        session.finish_turn("Hello.")


if __name__ == "__main__":
    main()
