"""`hermes mcp install` and the hooks it puts in place."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.errors import NotFound, SettingsError
from hermes.server.hosts import HOSTS, Launch, carry_out, list_tools, plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "person").mkdir()
    return tmp_path / "person"


def files(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if "before-hermes" not in name}


@pytest.mark.proves("mcp.install")
def test_nothing_is_written_before_somebody_agreed(home: Path, user_home: Path, hermes: Command) -> None:
    for words in ((), ("--dry-run",), ("--yes", "--dry-run"), ("--json",)):
        ran = hermes("mcp", "install", "claude-code", *words)
        assert ".claude.json" in ran.out
        assert ran.code == (0 if "--dry-run" in words else 1)
        assert files(user_home) == {}


@pytest.mark.proves("mcp.install", "mcp.hooks")
@pytest.mark.parametrize("host", sorted(HOSTS))
def test_installing_keeps_what_others_put_there_and_removing_takes_out_only_ours(
    home: Path, user_home: Path, hermes: Command, host: str
) -> None:
    launch = Launch(command=("/bin/hermes",), home=("--home", "/h"))
    empty = plan(host, launch, str(user_home))
    for change in empty:
        os.makedirs(os.path.dirname(change.path), exist_ok=True)
        other = {"mcpServers": {"x": {"command": "x"}}, "hooks": {"Stop": [{"hooks": [{"command": "beep"}]}]}, "a": "é"}
        mine = b'model = "m"\n\n[mcp_servers.x]\ncommand = "x"\n'
        with open(change.path, "wb") as file:
            text = json.dumps(other, indent=4, ensure_ascii=False)
            file.write(mine if change.path.endswith(".toml") else text.encode())
    before = files(user_home)
    assert len(carry_out(plan(host, launch, str(user_home)))) == len(empty)
    after = b"".join(files(user_home).values())
    assert b"mcp" in after
    assert b'"x"' in after
    assert plan(host, launch, str(user_home)) == []
    assert hermes("mcp", "uninstall", host, "--yes").out.endswith("removed. Restart it.\n")
    left = files(user_home)
    if host == "cursor":  # the format's version is not ours to take out
        left[".cursor/hooks.json"] = left[".cursor/hooks.json"].replace(b',\n    "version": 1', b"")
    assert left == before
    assert hermes("mcp", "uninstall", host, "--yes").out.endswith("nothing to change\n")


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


ANOTHER = f"""exec {sys.executable} -c '
import asyncio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def tools(_context, _params):
    return types.ListToolsResult(tools=[types.Tool(name="conversations_list", input_schema={{"type": "object"}})])

async def main():
    server = Server("hermes", on_list_tools=tools)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

asyncio.run(main())'"""
OTHERS = {
    "echo 'hermes: mcp_types is not installed' >&2; exit 1": "Connection closed (it wrote: hermes: mcp_types is not",
    "echo 'usage: hermes [chat|gateway]'; cat": "does not answer as an MCP server: ",
    ANOTHER: "is another program: its tools are conversations_list",
}


@pytest.mark.proves("mcp.verified")
@pytest.mark.parametrize("script", OTHERS)
def test_a_command_that_does_not_serve_this_memory_is_not_put_into_a_host(
    user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    started = program(user_home / "bin" / "hermes", f"#!/bin/sh\n{script}\n")
    carry_out(plan("claude-code", Launch(command=("/bin/hermes",)), str(user_home)))
    before = files(user_home)
    monkeypatch.setattr(sys, "argv", [str(started)])
    for host in ("cursor", "claude-code", "codex"):
        ran = hermes("mcp", "install", host, "--yes")
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith(f"hermes: nothing was changed, because {HOSTS[host].title} could not start Hermes: ")
        assert OTHERS[script] in ran.err
        assert files(user_home) == before
    assert hermes("mcp", "uninstall", "claude-code", "--yes").code == 0


@pytest.mark.proves("mcp.verified")
def test_a_command_that_never_answers_is_given_up(user_home: Path) -> None:
    silent = program(user_home / "hermes", "#!/bin/sh\necho waiting >&2\nexec sleep 1000\n")
    with pytest.raises(NotFound, match=r"no answer within 0\.2 s"):
        list_tools([str(silent)], seconds=0.2)
    with pytest.raises(NotFound, match=r"does not answer as an MCP server: .*No such file"):
        list_tools([str(user_home / "absent")])


@pytest.mark.proves("mcp.verified")
def test_a_checkout_writes_its_own_program_whatever_else_is_called_hermes(home: Path, user_home: Path) -> None:
    program(user_home / "elsewhere" / "hermes", "#!/bin/sh\necho hermes-agent\n")
    absolute = os.path.join(ROOT, "bin", "hermes")
    (user_home / "link").symlink_to(absolute)
    environment = {**os.environ, "PATH": f"{user_home}/elsewhere:{os.environ['PATH']}", "HOME": str(user_home)}

    def run(called: str, *words: str, cwd: str = ROOT) -> subprocess.CompletedProcess[str]:
        command = [called, "mcp", "install", *words]
        return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)

    done = run("bin/hermes", "claude-code", "--yes")
    assert done.stdout.startswith("tested as Claude Code will start it: it answers, with 7 tools\n")
    written = json.loads((user_home / ".claude.json").read_text())["mcpServers"]["hermes"]
    assert written["command"] == absolute
    hook = json.loads((user_home / ".claude" / "settings.json").read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert hook == shlex.join([absolute, "--home", str(home), "mcp", "record", "claude-code"])
    assert subprocess.run(hook, shell=True, input=b"{}", capture_output=True, check=True).stderr == b""
    told = [
        run("./hermes", "emacs", cwd=os.path.join(ROOT, "bin")),
        run("../bin/hermes", "emacs", cwd=os.path.join(ROOT, "docs")),
        run(absolute, "emacs"),
        run(str(user_home / "link"), "emacs"),
    ]
    servers = [json.loads(each.stderr.partition("\n")[2])["mcpServers"]["hermes"] for each in told]
    assert servers == [{"command": absolute, "args": ["--home", str(home), "mcp"]}] * 4
    assert list_tools([absolute, *servers[0]["args"]])[:2] == ["memory", "session_search"]


@pytest.mark.proves("mcp.verified")
def test_a_copy_in_the_cache_of_uvx_is_run_by_uv_again(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = user_home / ".cache" / "uv"
    (cache / "archive-v0" / "0ZhE" / "bin").mkdir(parents=True)
    (cache / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    packages = cache / "archive-v0" / "0ZhE" / "lib"
    about = packages / "hermes_memory-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: hermes-memory\nVersion: 0.1.0\n")
    again = f'exec {sys.executable} -P -m hermes "$@"'
    uv = program(user_home / "bin" / "uv", f'#!/bin/sh\necho "$1 $2 $3 $4 $5" >&2\nshift 5\n{again}\n')
    monkeypatch.setattr(sys, "prefix", str(cache / "archive-v0" / "0ZhE"))
    monkeypatch.setattr(sys, "argv", [str(cache / "archive-v0" / "0ZhE" / "bin" / "hermes-memory")])
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("UV", str(uv))
    commit = "0123456789012345678901234567890123456789"
    git = {"url": "https://example.org/hermes.git", "vcs_info": {"vcs": "git", "commit_id": commit}}
    for source, wanted in (
        (None, "hermes-memory[server]==0.1.0"),
        ({"url": "file:///src/hermes", "dir_info": {}}, "hermes-memory[server] @ file:///src/hermes"),
        (git, f"hermes-memory[server] @ git+https://example.org/hermes.git@{commit}"),
    ):
        if source is not None:
            (about / "direct_url.json").write_text(json.dumps(source))
        hermes("mcp", "install", "cursor", "--yes")
        server = json.loads((user_home / ".cursor" / "mcp.json").read_text())["mcpServers"]["hermes"]
        assert server["command"] == str(uv)
        assert server["args"][:5] == ["tool", "run", "--from", wanted, "hermes"]
    monkeypatch.delenv("UV")
    monkeypatch.setenv("PATH", "/nowhere")
    ran = hermes("mcp", "install", "cursor")
    assert ran.code == 1
    assert "is in a cache" in ran.err


@pytest.mark.proves("mcp.status")
def test_status_starts_what_each_host_has_and_says_what_is_wrong(home: Path, user_home: Path, hermes: Command) -> None:
    assert {row["configured"] for row in hermes("mcp", "status", "--json").json} == {False}
    launch = Launch(command=(sys.executable, "-P", "-m", "hermes"), home=("--home", str(home)))
    for host in ("claude-code", "codex", "vscode"):
        carry_out(plan(host, launch, str(user_home)))
    ran = hermes("mcp", "status")
    assert ran.code == 0
    assert ran.out.count("answers, 7 tools: ") == 3
    assert ran.out.count("not configured") == len(HOSTS) - 3
    gone = str(user_home / "moved" / "hermes")
    broken = {"mcpServers": {"hermes": {"command": gone, "args": ["mcp", "serve", "--source", "claude-code"]}}}
    (user_home / ".claude.json").write_text(json.dumps(broken))
    (user_home / ".cursor").mkdir()
    agent = {"mcpServers": {"hermes": {"command": "hermes", "args": ["mcp", "serve"]}}}
    (user_home / ".cursor" / "mcp.json").write_text(json.dumps(agent))
    (user_home / ".gemini").mkdir()
    (user_home / ".gemini" / "settings.json").write_text("{ // mine\n}")
    config = user_home / ".codex" / "config.toml"
    config.write_text(config.read_text().replace("notify", "# notify"))
    ran = hermes("mcp", "status", "--json")
    rows = {row["host"]: row for row in ran.json}
    assert ran.code == 1
    assert (rows["claude-code"]["configured"], rows["claude-code"]["answers"]) == (True, False)
    assert rows["claude-code"]["problem"].endswith(
        f"No such file or directory: {gone!r}. `hermes mcp install claude-code` writes one that does"
    )
    assert (rows["codex"]["answers"], rows["codex"]["hooks"]) == (True, False)
    assert "no hook records" in rows["codex"]["problem"]
    assert rows["cursor"]["problem"] == "its server called hermes is another program: hermes mcp serve"
    assert "not plain JSON" in rows["gemini"]["problem"]
    assert (rows["vscode"]["answers"], rows["vscode"]["hooks"], rows["vscode"]["problem"]) == (True, None, None)


@pytest.mark.proves("mcp.install")
def test_a_server_called_hermes_of_another_program_is_neither_replaced_nor_removed(
    home: Path, user_home: Path, hermes: Command
) -> None:
    (user_home / ".cursor").mkdir()
    (user_home / ".codex").mkdir()
    agent = '{"mcpServers": {"hermes": {"command": "hermes", "args": ["mcp", "serve"]}}}'
    (user_home / ".cursor" / "mcp.json").write_text(agent)
    (user_home / ".codex" / "config.toml").write_text('[mcp_servers.hermes]\ncommand = "hermes"\n')
    before = files(user_home)
    for host in ("cursor", "codex"):
        ran = hermes("mcp", "install", host, "--yes")
        assert ran.code == 2
        assert "has a server called hermes" in ran.err
        assert hermes("mcp", "uninstall", host, "--yes").out.endswith("nothing to change\n")
        assert files(user_home) == before
    ran = hermes("mcp", "uninstall", "emacs")
    assert (ran.code, ran.err.count("\n")) == (1, 1)


@pytest.mark.proves("mcp.install", "mcp.hooks")
def test_a_hook_in_one_group_with_somebody_elses_goes_alone(home: Path, user_home: Path, hermes: Command) -> None:
    carry_out(plan("claude-code", Launch(command=("/bin/hermes",)), str(user_home)))
    path = user_home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "beep"})
    settings["hooks"]["Notification"] = [{"hooks": []}]
    path.write_text(json.dumps(settings, indent=2))
    hermes("mcp", "uninstall", "claude-code", "--yes")
    beep = [{"hooks": [{"type": "command", "command": "beep"}]}]
    assert json.loads(path.read_text()) == {"hooks": {"Stop": beep, "Notification": [{"hooks": []}]}}
    assert json.loads((user_home / ".claude.json").read_text()) == {}


@pytest.mark.proves("mcp.install")
def test_what_codex_wrote_about_our_tools_survives_an_update_and_goes_with_us(
    home: Path, user_home: Path, hermes: Command
) -> None:
    carry_out(plan("codex", Launch(command=("/bin/hermes",)), str(user_home)))
    config = user_home / ".codex" / "config.toml"
    ours = config.read_text()
    approved = '\n[mcp_servers.hermes.tools.memory]\napproval_mode = "approve"\n'
    trusted = '\n[projects."/src"]\ntrust_level = "trusted"\n'
    config.write_text(ours + approved + trusted)
    assert hermes("mcp", "install", "codex", "--yes").code == 0
    known = tomllib.loads(config.read_text())
    assert known["mcp_servers"]["hermes"]["tools"]["memory"] == {"approval_mode": "approve"}
    hermes("mcp", "uninstall", "codex", "--yes")
    assert tomllib.loads(config.read_text()) == {"projects": {"/src": {"trust_level": "trusted"}}}


@pytest.mark.proves("mcp.install")
def test_claude_code_with_a_folder_of_its_own_is_found_there(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(user_home / "cc"))
    hermes("mcp", "install", "claude-code", "--yes")
    assert sorted(files(user_home)) == ["cc/.claude.json", "cc/settings.json"]


@pytest.mark.proves("mcp.install")
def test_a_host_that_is_not_known_is_told_what_any_other_needs(user_home: Path, home: Path, hermes: Command) -> None:
    ran = hermes("mcp", "install", "emacs")
    assert (ran.code, ran.out, files(user_home)) == (1, "", {})
    told, _, block = ran.err.partition("\n")
    assert told.startswith("hermes: there is no host 'emacs'; the hosts are claude-code, codex, ")
    server = json.loads(block)["mcpServers"]["hermes"]
    assert server["args"][-3:] == ["--home", str(home), "mcp"]
    assert os.path.isabs(server["command"])
    assert "windsurf" in hermes("completion", "bash").out


@pytest.mark.proves("mcp.install")
def test_a_file_that_cannot_be_understood_is_left_alone(user_home: Path, home: Path, hermes: Command) -> None:
    (user_home / ".cursor").mkdir()
    (user_home / ".cursor" / "mcp.json").write_text("{ // a comment\n}")
    ran = hermes("mcp", "install", "cursor", "--yes")
    assert ran.code == 2
    assert "by hand" in ran.err
    (user_home / ".codex").mkdir()
    for text in ("= nonsense", "[mcp_servers.hermes]\ncommand = 'mine'\n"):
        (user_home / ".codex" / "config.toml").write_text(text)
        assert hermes("mcp", "install", "codex", "--yes").code == 2
        assert (user_home / ".codex" / "config.toml").read_text() == text


@pytest.mark.proves("mcp.install")
def test_the_mode_of_a_file_and_a_link_to_it_are_kept(user_home: Path, home: Path, hermes: Command) -> None:
    real = user_home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o644)
    (user_home / ".claude.json").symlink_to(real)
    assert hermes("mcp", "install", "claude-code", "--yes").code == 0
    assert (user_home / ".claude.json").is_symlink()
    assert "hermes" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o644


@pytest.mark.proves("mcp.install")
def test_a_file_that_changes_between_preview_and_writing_is_not_overwritten(user_home: Path) -> None:
    path = user_home / ".claude.json"
    path.write_text("{}")
    changes = plan("claude-code", Launch(command=("/bin/hermes",)), str(user_home))
    path.write_text('{"new": 1}')
    with pytest.raises(SettingsError, match="meanwhile"):
        carry_out(changes)
    assert path.read_text() == '{"new": 1}'


@pytest.mark.proves("mcp.install")
def test_a_notify_program_of_somebody_else_is_kept(user_home: Path, home: Path, hermes: Command) -> None:
    (user_home / ".codex").mkdir()
    config = user_home / ".codex" / "config.toml"
    config.write_text('notify = ["beep"]\n')
    hermes("mcp", "install", "codex", "--yes")
    known = tomllib.loads(config.read_text())
    assert known["notify"] == ["beep"]
    assert "--recorded" not in known["mcp_servers"]["hermes"]["args"]  # the model is asked to record instead
    assert hermes("mcp", "status").code == 0
    config.write_text("")
    hermes("mcp", "install", "codex", "--yes")
    assert tomllib.loads(config.read_text())["notify"][-3:] == ["mcp", "record", "codex"]


@pytest.mark.proves("mcp.install", "people.home")
def test_a_host_can_be_given_the_memory_of_one_person(user_home: Path, home: Path, hermes: Command) -> None:
    hermes("users", "add", "ann")
    hermes("--user", "ann", "mcp", "install", "cursor", "--yes")
    words = json.loads((user_home / ".cursor" / "mcp.json").read_text())["mcpServers"]["hermes"]["args"]
    assert words[-9:-5] == ["--home", str(home), "--user", "ann"]


def tell(monkeypatch: pytest.MonkeyPatch, payload: Any) -> None:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.proves("mcp.hooks")
def test_the_hook_of_claude_code_brings_in_the_transcript(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = user_home / "7f3c.jsonl"
    common = {"sessionId": "7f3c", "cwd": "/src", "version": "2", "isSidechain": False, "userType": "external"}
    lines = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": "2026-01-02T03:04:05Z", **common},
        {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "timestamp": "2026-01-02T03:04:09Z", **common},
    ]
    lines[0]["message"] = {"role": "user", "content": "Where is the flux capacitor?"}
    lines[1]["message"] = {"role": "assistant", "content": [{"type": "text", "text": "In the trunk."}]}
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for expected in (2, 0):
        tell(monkeypatch, {"session_id": "7f3c", "transcript_path": str(transcript), "hook_event_name": "Stop"})
        assert hermes("mcp", "record", "claude-code", "--json").json["added"] == expected
    found = hermes("sessions", "search", "flux capacitor", "--json").json["results"][0]["session_id"]
    assert "In the trunk." in hermes("sessions", "show", found).out


@pytest.mark.proves("mcp.hooks")
def test_hooks_that_tell_one_turn_at_a_time_are_stored_as_one_conversation(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [
        ("cursor", {"conversation_id": "c", "hook_event_name": "beforeSubmitPrompt", "prompt": "Find the walrus."}),
        ("cursor", {"conversation_id": "c", "hook_event_name": "afterAgentResponse", "text": "On the ice."}),
        ("cursor", {"conversation_id": "c", "hook_event_name": "stop"}),
        ("gemini", {"session_id": "g", "prompt": "Find the otter.", "prompt_response": "In the river."}),
    ]
    for host, payload in told:
        tell(monkeypatch, payload)
        assert hermes("mcp", "record", host).code == 0
    done = {"type": "agent-turn-complete", "thread-id": "t", "input-messages": ["Find the lynx."]}
    assert hermes("mcp", "record", "codex", json.dumps({**done, "last-assistant-message": "In the wood."})).code == 0
    assert hermes("mcp", "record", "codex", '{"type": "other"}').code == 0
    assert {each["source"] for each in hermes("sessions", "list", "--json").json} == {"cursor", "gemini", "codex"}
    found = hermes("sessions", "search", "walrus", "--json").json["results"][0]["session_id"]
    assert "On the ice." in hermes("sessions", "show", found).out


@pytest.mark.proves("mcp.hooks")
def test_a_hook_with_nothing_to_record_ends_well_and_says_nothing(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user_home / "empty.jsonl").touch()
    for host, payload in (
        ("claude-code", {"hook_event_name": "SessionEnd", "transcript_path": "/nowhere/x.jsonl"}),
        ("claude-code", {"hook_event_name": "Stop", "transcript_path": str(user_home / "empty.jsonl")}),
        ("claude-code", {"hook_event_name": "SessionEnd"}),
        ("claude-code", ""),
        ("cursor", {"hook_event_name": "afterAgentResponse", "conversation_id": "c", "text": ""}),
        ("gemini", {"session_id": "g", "prompt": "", "prompt_response": ""}),
        ("codex", {"type": "agent-turn-complete", "input-messages": []}),
    ):
        tell(monkeypatch, payload)
        ran = hermes("mcp", "record", host)
        assert (ran.code, ran.out, ran.err) == (0, "", ""), (host, payload)
    assert hermes("sessions", "list", "--json").json == []


@pytest.mark.proves("mcp.hooks")
def test_a_hook_that_fails_never_stops_the_host(home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claude Code, Cursor and Gemini take exit code 2 as an order: go on, or do not send this prompt."""
    for host, payload in (
        ("claude-code", {"transcript_path": str(home.parent)}),
        ("cursor", {"hook_event_name": "beforeSubmitPrompt", "prompt": 3}),
        ("cursor", {"hook_event_name": "beforeSubmitPrompt", "prompt": "Hello."}),
        ("emacs", {}),
        ("gemini", "no json"),
        ("gemini", "[]"),
    ):
        tell(monkeypatch, payload)
        ran = hermes("mcp", "record", host)
        assert (ran.code, ran.out) in ((1, ""), (0, "")), (host, payload)
        assert bool(ran.err) == bool(ran.code)
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("memory: [not, a, mapping")
    tell(monkeypatch, {"session_id": "g", "prompt": "Find the otter.", "prompt_response": "In the river."})
    assert hermes("mcp", "record", "gemini").code in (0, 1)
