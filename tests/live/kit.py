"""What trials against real services share: a scratch environment, and the story every provider must tell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FACT = "My parrot is called Humboldt and lives in Lisbon."
ENTRY = "Deploys happen on Thursdays."


@dataclass(frozen=True, kw_only=True)
class Trial:
    name: str
    url: str
    key: str
    scratch: str
    home: str


def say(text: str) -> None:
    print(text, flush=True)


def environment_with(scratch: str, *packages: str) -> str:
    """A Python that has these packages and this project, in the scratch directory; what is there is used again."""
    venv = os.path.join(scratch, "venv")
    python = os.path.join(venv, "bin", "python")
    mark = os.path.join(venv, "installed.txt")  # written last: an installation that was broken off is made anew
    began = time.monotonic()
    if not os.path.exists(mark):
        say(f"installing {', '.join(packages)}")
        shutil.rmtree(venv, ignore_errors=True)
        if shutil.which("uv"):
            _run("uv", "venv", "-q", "--python", sys.executable, venv)
            _run("uv", "pip", "install", "-q", "--python", python, *packages)
        else:
            _run(sys.executable, "-m", "venv", venv)
            _run(python, "-m", "pip", "install", "-q", *packages)
        # At the end of the path: what the service's own packages need goes first.
        lines = [os.path.join(ROOT, "src"), os.path.join(ROOT, "tests"), sysconfig.get_path("purelib")]
        with open(os.path.join(packages_of(python), "zz-hermes-live.pth"), "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        with open(mark, "w", encoding="utf-8") as file:
            file.writelines(f"{package}\n" for package in packages)
        say(f"installed in {time.monotonic() - began:.0f} s")
    return python


def packages_of(python: str) -> str:
    """Where the packages of that Python lie."""
    return _output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")


def inside(python: str, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> int:
    """Runs a module of ours with another Python."""
    return subprocess.run(
        [python, "-m", module, *arguments], env={**os.environ, **(environment or {})}, check=False
    ).returncode


def story(
    provider: str,
    home: str,
    config: Mapping[str, Any],
    secrets: Mapping[str, str],
    *,
    forget: Callable[[Callable[..., Any]], None],
    patience: float = 20.0,
    at_the_end: bool = False,
) -> int:
    """Store a turn, recall it, mirror an entry and change it, forget: through the manager, for real.

    `at_the_end` is for services that make memories of a session when it ends.
    """
    from hermes.providers.config import save_config
    from hermes.providers.discovery import load_provider
    from hermes.providers.manager import Limits, MemoryManager

    os.makedirs(home, exist_ok=True)
    save_config(provider, home, config)
    with open(os.path.join(home, ".env"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}={text}\n" for name, text in secrets.items() if text)
    limits = Limits(recall_seconds=patience, tool_seconds=patience * 3, drain_seconds=patience)
    manager = MemoryManager(home, limits=limits, tell=lambda text: say(f"  notice: {text}"))
    manager.add_provider(load_provider(provider, home))
    failures: list[str] = []

    def step(name: str, check: Callable[[], bool]) -> None:
        began = time.monotonic()
        ok = _within(patience, check)
        say(f"{'ok  ' if ok else 'FAIL'} {name} ({time.monotonic() - began:.1f} s)")
        if not ok:
            failures.append(name)

    def call(name: str, **arguments: Any) -> Any:
        return json.loads(manager.handle_tool_call(name, arguments))

    manager.initialize_all("live-1", platform="cli", agent_context="primary")
    step("the connection", lambda: bool(manager.get_provider(provider).check_connection()))
    manager.sync_all(FACT, "Noted.", session_id="live-1")
    if at_the_end:
        manager.on_session_end([], session_id="live-1")
    step("a turn is stored", lambda: manager.flush(patience))
    step("and recalled", lambda: "Humboldt" in manager.prefetch_all("What is the parrot called?", session_id="live-1"))
    manager.on_memory_write("add", "memory", ENTRY, {"session_id": "live-1"})
    step(
        "an entry is mirrored",
        lambda: manager.flush(patience) and "Thursdays" in manager.prefetch_all("When are deploys?"),
    )
    changed = "Deploys happen on Mondays."
    manager.on_memory_write("replace", "memory", changed, {"session_id": "live-1", "old_text": ENTRY})
    step("and replaced", lambda: manager.flush(patience) and "Mondays" in manager.prefetch_all("When are deploys?"))
    step("without the old one", lambda: "Thursdays" not in manager.prefetch_all("When are deploys?"))
    manager.on_memory_write("remove", "memory", "", {"session_id": "live-1", "old_text": changed})
    step("and removed", lambda: manager.flush(patience) and "Mondays" not in manager.prefetch_all("When are deploys?"))
    forget(call)
    step("the turn is forgotten", lambda: "Humboldt" not in manager.prefetch_all("What is the parrot called?"))
    status = manager.status()[0]
    say(f"state {status['state']}, waiting {status['waiting']}, slowest recall {status['slowest_recall_ms']} ms")
    manager.shutdown_all()
    say(f"{provider}: {'FAILED: ' + ', '.join(failures) if failures else 'all of it works'}")
    return 1 if failures else 0


def _within(seconds: float, check: Callable[[], bool]) -> bool:
    """Services index in their own time: asks again until it holds or the time is over."""
    end = time.monotonic() + seconds
    while True:
        try:
            if check():
                return True
        except Exception as error:  # noqa: BLE001 - whatever the service did is a failed step
            say(f"  {type(error).__name__}: {error}")
        if time.monotonic() > end:
            return False
        time.sleep(0.5)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
