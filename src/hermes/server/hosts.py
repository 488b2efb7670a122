"""The hosts that can use this memory over MCP: their configuration files, and what their hooks report."""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import shlex
import shutil
import stat
import sys
import time
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError, WriteRefused
from hermes.safety.trust import is_local
from hermes.settings.config import conversations_of
from hermes.settings.home import find_home, locate_home, project_root
from hermes.settings.trust import SAID, HostReports, TrustedFolders
from hermes.storage.files import Folder, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.settings.home import Home

    Payload = dict[str, Any]

_SCRIPTS = ("hermes", "hermes-memory")
_BEGIN, _END = "# >>> hermes", "# <<< hermes"
# Each pattern includes the blank line that separates a block from the rest: after the first one, before the last one.
_AT_THE_TOP = re.compile(rf"\A{_BEGIN}\n.*?{_END}\n\n?", re.DOTALL)
_BELOW = re.compile(rf"\n?{_BEGIN}\n.*?{_END}\n", re.DOTALL)
# Codex stores which of our tools it may call; if the server is gone, it refuses to read such a table.
_APPROVALS = re.compile(r"^\[mcp_servers\.hermes\.[^\n]*\n(?:(?!\[).*(?:\n|\Z))*", re.MULTILINE)


def with_server(path: str, data: bytes, serve: list[str], notify: list[str]) -> bytes:
    """Adds our server and `notify`, which Codex allows for only one program.

    If another program has `notify`, the server starts without `--recorded`, and the model records conversations.
    """
    text = _without_blocks(_text(path, data))
    known = parsed(path, text.encode())
    if {"command", "url"} & known.get("mcp_servers", {}).get("hermes", {}).keys():
        raise SettingsError(f"{path} has a server called hermes already; remove [mcp_servers.hermes] and try again")
    taken = "notify" in known
    program, *words = [word for word in serve if not (taken and word == "--recorded")]
    server = f"[mcp_servers.hermes]\ncommand = {_quoted(program)}\nargs = {_quoted(words)}\n"
    end_of_line = "" if text.endswith("\n") else "\n"
    after = f"{text}{end_of_line}\n{_block(server)}" if text else _block(server)
    if not taken:  # at the top, because below it would belong to a table
        after = f"{_block(f'notify = {_quoted(notify)}{chr(10)}')}\n{after}"
    parsed(path, after.encode())
    return after.encode()


def without_server(path: str, data: bytes) -> bytes:
    """Removes what we added; a server called hermes that is not ours stays."""
    text = _text(path, data)
    left = _without_blocks(text)
    if left != text and "command" not in parsed(path, left.encode()).get("mcp_servers", {}).get("hermes", {}):
        left = _APPROVALS.sub("", left)
    return left.encode()


def parsed(path: str, data: bytes) -> dict[str, Any]:
    """Parses TOML; a SettingsError names the file and the mistake."""
    try:
        return tomllib.loads(_text(path, data))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}; correct it first") from error


def _without_blocks(text: str) -> str:
    return _BELOW.sub("", _AT_THE_TOP.sub("", text))


def _block(inside: str) -> str:
    return f"{_BEGIN}\n{inside}{_END}\n"


def _quoted(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string or list of strings is one of TOML too


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8: {error}; correct it first") from error


# How a host's configuration is changed.
#
# First a plan is made: every file with its bytes before and after. The command in it is started and asked for its
# tools. Nothing is written until it has answered and the person agrees. The earlier version of each file is kept next
# to it, and removing takes out exactly what was added.

_NAME = "hermes"
_LARGEST = 64 << 20  # bytes; Claude Code keeps much more than its servers in one file
_OUR_TOOLS = {"memory", "session_search", "record_conversation"}  # no other program called hermes has all of these
RECORDED = "--recorded"  # tells the server that a hook records the conversations, so the model need not


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a host starts us: the program with its fixed arguments, and the arguments that choose the home."""

    command: tuple[str, ...]
    home: tuple[str, ...] = ()

    def serve(self, host: str) -> list[str]:
        """The command with which the host starts our MCP server."""
        recorded = (RECORDED,) if HOSTS[host].hooks else ()
        return [*self.command, *self.home, "mcp", "serve", "--source", host, *recorded]

    def record(self, host: str) -> list[str]:
        """The command that the host's hook runs."""
        return [*self.command, *self.home, "mcp", "record", host]


def this_copy(home: Home) -> Launch:
    """How to start this very copy of Hermes on this very home."""
    return Launch(command=_command(), home=_home_words(home))


def _command() -> tuple[str, ...]:
    """The command of this copy of Hermes. PATH is not searched: it may have another program called hermes first."""
    if runner := _runner():
        return runner
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) in _SCRIPTS and os.path.isfile(program) and os.access(program, os.X_OK):
        return (os.path.join(os.path.realpath(os.path.dirname(program)), os.path.basename(program)),)
    return (sys.executable, "-P", "-m", "hermes")  # -P: ignores a folder called hermes where the host starts it


def _runner() -> tuple[str, ...]:
    """The command for a copy that uvx or `pipx run` made: it is in a cache, from which it may be deleted."""
    above = os.path.dirname(sys.prefix)
    while not os.path.exists(os.path.join(above, "CACHEDIR.TAG")):
        if above == os.path.dirname(above):
            return ()
        above = os.path.dirname(above)
    if os.path.basename(above) == "pipx":
        runner, words = shutil.which("pipx"), ["run", "--spec"]
    else:
        runner, words = os.environ.get("UV") or shutil.which("uv"), ["tool", "run", "--from"]
    if not runner:
        raise NotFound(
            f"this copy of Hermes is in a cache ({sys.prefix}) that may be deleted, and neither uv nor pipx is on "
            "PATH to run it again. Install it with `uv tool install` or `pipx install`, then try again with that copy"
        )
    return (os.path.abspath(runner), *words, _requirement(), "hermes")


def _requirement() -> str:
    """The requirement for pip that names the running version and its origin, with the extra `server`."""
    from importlib.metadata import distribution

    ours = distribution("hermes-memory")
    source = json.loads(ours.read_text("direct_url.json") or "{}")
    if not source:
        return f"hermes-memory[server]=={ours.version}"
    where = source["url"]
    if version := source.get("vcs_info"):
        where = f"{version['vcs']}+{where}@{version['commit_id']}"
    below = source.get("subdirectory")
    return f"hermes-memory[server] @ {where}" + (f"#subdirectory={below}" if below else "")


def _home_words(home: Home) -> tuple[str, ...]:
    """The arguments that choose this home, whatever environment the host has."""
    words: tuple[str, ...] = ()
    usual = find_home(os.path.join("~", ".hermes"))
    operator = find_home(home.operator)
    if operator.path != usual.path:
        words = ("--home", home.root if home.profile else operator.path)
    if home.profile:
        words += ("--profile", home.profile)
    elif not home.above and locate_home(home.root).path != home.path:
        words += ("--profile", "default")
    if home.above:
        words += ("--user", home.person)
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file: its bytes now, its bytes after the change, and the reason."""

    path: str
    before: bytes | None
    after: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One program, as `text/hosts.toml` has it."""

    title: str
    records: str
    servers: str
    keys: list[str]
    style: str = ""
    hooks: str = ""
    events: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What a host's configuration says about a server called hermes."""

    path: str
    command: list[str]
    ours: bool
    hooks: bool | None  # None where the host has none


def plan(host: str, launch: Launch | None, user_home: str) -> list[Change]:
    """The files that would change in order to add us or, without a launch, to remove us."""
    if host not in HOSTS:
        raise NotFound(f"there is no host {host!r}; the hosts are {', '.join(HOSTS)}{_for_any_other(launch)}")
    changes = _changes_of_codex(launch, user_home) if host == "codex" else _changes_of_json(host, launch, user_home)
    return [change for change in changes if change.before != change.after]


def _for_any_other(launch: Launch | None) -> str:
    if launch is None:
        return ""
    program, *words = [*launch.command, *launch.home, "mcp"]
    lines = json.dumps({"mcpServers": {_NAME: {"command": program, "args": words}}}, indent=2)
    return (
        ". Any other one takes these lines in its list of MCP servers; where that is, and what it calls it, is in its "
        f"manual:\n{lines}"
    )


def configured(host: str, user_home: str, changes: list[Change] | None = None) -> Configured | None:
    """The server called hermes that a host starts, or would start after these changes; None if it has none."""
    known = HOSTS[host]
    path = _place(known.servers, user_home)
    document = _read_document(path, changes or [])
    for key in (*known.keys, _NAME):
        document = document.get(key, {})
        if not isinstance(document, dict):
            raise SettingsError(f"{path}: {key} should be an object; correct the file first")
    if not document:
        return None
    words = _words(document)
    hooks = None
    if known.hooks:
        hooks = _has_hooks(_read_document(_place(known.hooks, user_home), changes or []), host)
    return Configured(path=path, command=words, ours=_ours(words), hooks=hooks)


def list_tools(command: list[str], *, seconds: float = 60.0) -> list[str]:
    """Starts a command as a host does and lists its tools over MCP; a NotFound says why it has none of ours."""
    from hermes.tools.mcp import Connection, ServerSettings, start_portal  # not for the hooks, which run at every turn

    told, (program, *words) = shlex.join(command), command
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OUR_OWN)}
    server = ServerSettings(
        name=_NAME,
        command=program,
        args=tuple(words),
        env=environment,
        headers={},
        cwd="/",  # a host may start it in any folder
        timeout=seconds,
        connect_timeout=seconds,
    )
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the error below says what is wrong
    with start_portal() as portal:
        connection = Connection(server, lambda: portal)
        try:
            tools = [str(tool["name"]) for tool in connection.tools()]
        except WriteRefused as error:
            why = str(error).partition(": ")[2]
            raise NotFound(f"`{told}` does not answer as an MCP server: {why}") from error
        finally:
            connection.close()
    if not set(tools) >= _OUR_TOOLS:
        raise NotFound(
            f"`{told}` is another program: its tools are {', '.join(tools) or 'none'}, where this memory has "
            f"{', '.join(sorted(_OUR_TOOLS))} and others"
        )
    return tools


# Variables that could make a command work here but not in a host, which starts it with its own environment.
_OUR_OWN = ("PYTHON", "VIRTUAL_ENV", "HERMES_")


def carry_out(changes: list[Change]) -> list[str]:
    """Writes the files, each atomically; returns the paths of the earlier versions."""
    backups = []
    for change in changes:
        path = os.path.realpath(change.path)  # some people keep these files in a repository and link to them
        name = os.path.basename(path)
        with Folder.create(os.path.dirname(path)) as folder:
            if change.before is not None:
                if folder.read(name, at_most=_LARGEST) != change.before:
                    raise SettingsError(f"{path} was changed meanwhile; run the command again")
                backup = f"{name}.before-hermes-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
                folder.write_new(backup, change.before)
                backups.append(folder.join(backup))
            status = folder.status(name)
            folder.replace(name, change.after)
            if status is not None:
                os.chmod(path, stat.S_IMODE(status.st_mode))
    return backups


def _changes_of_json(host: str, launch: Launch | None, user_home: str) -> Iterator[Change]:
    """Yields the changes for a host whose servers, and perhaps hooks, are in JSON: in one file or two."""
    known = HOSTS[host]
    servers, hooks = _place(known.servers, user_home), known.hooks and _place(known.hooks, user_home)
    for path in dict.fromkeys(filter(None, (servers, hooks))):
        before = _read(path)
        document = _parse_json(path, before or b"")
        server = path == servers and _set_server(path, document, host, launch)
        hook = path == hooks and _set_hooks(path, document, host, launch)
        if server or hook:
            put, without = _REASONS[server, hook]
            why = put if launch else f"without {without}"
            yield Change(path=path, before=before, after=_json_bytes(document, before), reason=why)


_REASONS = {
    (True, False): ("the memory server", "the memory server"),
    (False, True): ("a hook that records conversations", "the hook"),
    (True, True): ("server and hook", "server and hook"),
}


def _changes_of_codex(launch: Launch | None, user_home: str) -> Iterator[Change]:
    path = _place(HOSTS["codex"].servers, user_home)
    before = _read(path)
    if launch is not None:
        after = with_server(path, before or b"", launch.serve("codex"), launch.record("codex"))
        yield Change(path=path, before=before, after=after, reason="the memory server, and notify to record")
    elif before is not None:
        yield Change(path=path, before=before, after=without_server(path, before), reason="without the server")


def _set_server(path: str, document: dict[str, Any], host: str, launch: Launch | None) -> bool:
    """Puts our server into a document or takes it out; False if there is nothing to take out."""
    keys = HOSTS[host].keys
    servers = _down(path, document, keys) if launch else _there(document, keys)
    there = servers.get(_NAME)
    ours = isinstance(there, dict) and _ours(_words(there))
    if launch is None:
        if ours:
            del servers[_NAME]
            _prune(document, keys)
        return ours
    if there is not None and not ours:
        raise SettingsError(
            f"{path} has a server called {_NAME} that is not this one: {json.dumps(there)[:200]}. Rename or remove it "
            "there, then try again"
        )
    words, style = launch.serve(host), HOSTS[host].style
    entry: dict[str, Any] = {"command": words[0], "args": words[1:]}
    one_list = {"type": "local", "command": words, "enabled": True}
    servers[_NAME] = one_list if style == "one-list" else {"type": "stdio", **entry} if style == "typed" else entry
    return True


def _words(entry: dict[str, Any]) -> list[str]:
    """The command of a server in a host's configuration: a program with its arguments, or all in one list."""
    command, words = entry.get("command"), entry.get("args")
    whole = [*(command if isinstance(command, list) else [command or ""]), *(words if isinstance(words, list) else ())]
    return [str(word) for word in whole]


def _ours(words: list[str]) -> bool:
    """Whether a command is ours, as `install` writes it or as the guide says to write it by hand."""
    return words[-1:] == ["mcp"] or ("serve" in words and "--source" in words)


def _set_hooks(path: str, document: dict[str, Any], host: str, launch: Launch | None) -> bool:
    """Puts our hook at the end of each event's list, once, or takes it out; hooks of others stay."""
    if launch is None and not _has_hooks(document, host):
        return False
    hooks = _down(path, document, ("hooks",))
    for event in HOSTS[host].events if launch else list(hooks):
        listed = hooks.get(event, [])
        if not isinstance(listed, list):
            raise SettingsError(f"{path}: hooks.{event} should be a list; correct the file first")
        hooks[event] = [*_others(listed, host), *([_hook(host, launch)] if launch else [])]
        if not hooks[event]:
            del hooks[event]
    if launch is None:
        _prune(document, ("hooks",))
    elif host == "cursor":
        document.setdefault("version", 1)
    return True


def _hook(host: str, launch: Launch) -> dict[str, Any]:
    command = shlex.join(launch.record(host))
    if host == "cursor":
        return {"command": command}
    named = {"name": _NAME} if host == "gemini" else {}
    return {"hooks": [{**named, "type": "command", "command": command}]}


def _others(listed: list[Any], host: str) -> list[Any]:
    """An event's list without our hook; a group that contains other hooks keeps them."""
    kept = []
    for each in listed:
        inside = each.get("hooks") if isinstance(each, dict) else None
        if isinstance(inside, list):
            others = [hook for hook in inside if not _is_ours(hook, host)]
            kept += [{**each, "hooks": others}] if others or not inside else []
        elif not _is_ours(each, host):
            kept.append(each)
    return kept


def _is_ours(hook: Any, host: str) -> bool:
    return isinstance(hook, dict) and str(hook.get("command", "")).endswith(f" mcp record {host}")


def _has_hooks(document: dict[str, Any], host: str) -> bool:
    if "notify" in document:  # Codex
        return bool(document["notify"][-3:] == ["mcp", "record", host])
    hooks = document.get("hooks")
    lists = [each for each in hooks.values() if isinstance(each, list)] if isinstance(hooks, dict) else []
    return any(_others(listed, host) != listed for listed in lists)


def _there(document: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The object below these keys; empty if there is none."""
    for key in keys:
        below = document.get(key)
        if not isinstance(below, dict):
            return {}
        document = below
    return document


def _prune(document: dict[str, Any], keys: Sequence[str]) -> None:
    """Removes the objects on this path that are empty now."""
    for depth in range(len(keys), 0, -1):
        above = _there(document, keys[: depth - 1])
        if above.get(keys[depth - 1]) == {}:
            del above[keys[depth - 1]]


def _down(path: str, document: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The object below these keys, created if there is none."""
    for key in keys:
        below = document.setdefault(key, {})
        if not isinstance(below, dict):
            raise SettingsError(f"{path}: {key} should be an object; correct the file first")
        document = below
    return document


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain("read", path, error) from error


def _read_document(path: str, changes: list[Change]) -> dict[str, Any]:
    data = next((change.after for change in changes if change.path == path), None) or _read(path) or b""
    return parsed(path, data) if path.endswith(".toml") else _parse_json(path, data)


def _parse_json(path: str, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data.strip() or b"{}")
    except ValueError as error:
        raise SettingsError(
            f"{path} is not plain JSON ({error}). Comments would be lost: add the server by hand, as the guide on MCP "
            "shows"
        ) from error
    if not isinstance(document, dict):
        raise SettingsError(f"{path} should hold an object; correct the file first")
    return document


def _json_bytes(document: dict[str, Any], before: bytes | None) -> bytes:
    """Writes JSON with the file's own indentation and last line break; unchanged content keeps its bytes."""
    if before and before.strip() and json.loads(before) == document:
        return before
    lines = (before or b"").split(b"\n")
    second = lines[1] if len(lines) > 1 else b"  "
    indent = len(second) - len(second.lstrip()) or 2
    end = "\n" if not before or before.endswith(b"\n") else ""
    return (json.dumps(document, ensure_ascii=False, indent=indent) + end).encode()


_DATA = {"darwin": os.path.join("Library", "Application Support"), "win32": os.path.join("AppData", "Roaming")}


def _place(written: str, user_home: str) -> str:
    """Completes a path of the table. CLAUDE_CONFIG_DIR replaces ~/.claude, and .claude.json is then inside it."""
    claude = os.environ.get("CLAUDE_CONFIG_DIR", "")
    folders = {
        "{claude}": claude or ".claude",
        "{claude.json}": os.path.join(claude, ".claude.json"),
        "{codex}": os.environ.get("CODEX_HOME") or ".codex",
        "{data}": _DATA.get(sys.platform, ".config"),
    }
    return os.path.join(user_home, *(folders.get(part, part) for part in written.split("/")))


BY_MODEL = "the model calls record_conversation, as the server's instructions ask it to"
with open(os.path.join(os.path.dirname(__file__), "text", "hosts.toml"), "rb") as _file:
    HOSTS = {name: Host(**{"records": BY_MODEL, **row}) for name, row in tomllib.load(_file).items()}


def record(home: Home, host: str, payload: Payload) -> dict[str, Any]:
    """Stores what a hook reports; repeated reports and those without messages add nothing."""
    if host not in _HOOKS:
        raise NotFound(f"there is no hook for {host!r}; there are {', '.join(_HOOKS)}")
    is_report = _report(home, host, payload)
    return {"added": 0} if is_report else _HOOKS[host](home, payload)


# What a hook reports while a turn runs, for the trust gate: what the person typed, and what tools brought in.

_PROMPTS = ("UserPromptSubmit", "BeforeAgent", "beforeSubmitPrompt")
_RESULTS = ("PostToolUse", "AfterTool", "postToolUse", "afterShellExecution", "afterMCPExecution")
_NOTES = ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".cursorrules", os.path.join(".cursor", "rules"))
_OWN_WORK_NAMES = (
    "todowrite edit multiedit write notebookedit replace write_file glob ls task list_directory list_dir save_memory "
    "exitplanmode delete strreplace"
)
_OWN_WORK = frozenset(_OWN_WORK_NAMES.split())
_READING = ("read", "read_file", "read_many_files", "grep", "search_file_content", "notebookread", "readfile")
_SHELLS = ("bash", "shell", "run_shell_command", "run_terminal_cmd")
_LONGEST_NOTES = 20_000


def _report(home: Home, host: str, payload: Payload) -> bool:
    """Keeps a report of a running turn; False for other events, and for one that must also be recorded."""
    event = str(payload.get("hook_event_name") or "")
    conversation = payload.get("session_id") or payload.get("conversation_id")
    if event not in (*_PROMPTS, *_RESULTS) or not isinstance(conversation, str):
        return False
    reports, folders = HostReports(home), TrustedFolders(home)
    roots = payload.get("workspace_roots")
    cwd = str(payload.get("cwd") or (roots[0] if isinstance(roots, list) and roots else ""))
    if event in _PROMPTS:
        said = payload.get("prompt")
        for path in _foreign_notes(cwd, folders):
            reports.add(host, conversation, "file", path, _beginning(path))
        reports.add(host, conversation, SAID, "", said if isinstance(said, str) else "")
        return event != "beforeSubmitPrompt"  # Cursor's conversations are recorded with this event, too
    name = str(payload.get("tool_name") or ("shell" if "command" in payload else ""))
    arguments = payload.get("tool_input")
    given = arguments if isinstance(arguments, dict) else {"command": payload.get("command", "")}
    if origin := _origin(name, given, cwd, folders):
        fields = ("tool_response", "tool_output", "output", "result_json", "result")
        shown = next((payload[each] for each in fields if payload.get(each)), "")
        text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
        reports.add(host, conversation, origin, name, text)
    return True


def _origin(tool: str, given: dict[str, Any], cwd: str, folders: TrustedFolders) -> str:
    """The origin of a host's tool result; "" if it is the person's own, or our own."""
    name = tool.lower()
    if name in _OWN_WORK or name.startswith(("mcp__hermes__", "mcp_hermes_", "mcp__plugin_hermes-memory_hermes__")):
        return ""
    if name in _READING:
        paths = [given[key] for key in ("file_path", "path", "absolute_path", "paths") if given.get(key)] or [cwd]
        named = [each for path in paths for each in (path if isinstance(path, list) else [path])]
        return "" if all(folders.is_trusted(os.path.join(cwd, str(each))) for each in named) else "file"
    if name in _SHELLS:
        return "" if cwd and is_local(str(given.get("command", ""))) and folders.is_trusted(cwd) else "tool"
    return "web" if "web" in name or "fetch" in name else "tool"


def _foreign_notes(cwd: str, folders: TrustedFolders) -> list[str]:
    """Notes for agents in untrusted folders, which the host shows to its model all the same."""
    places = {cwd, project_root(cwd)} if cwd else set()
    found = [os.path.join(place, name) for place in places if place for name in _NOTES]
    return sorted(path for path in found if os.path.exists(path) and not folders.is_trusted(path))


def _beginning(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST_NOTES)
    except OSError:
        return ""


def _record_claude_code(home: Home, payload: Payload) -> dict[str, Any]:
    from hermes.portability.transcripts import CLAUDE_CODE

    return _bring_in(home, os.path.expanduser(str(payload.get("transcript_path") or "")), CLAUDE_CODE)


def _record_codex(home: Home, payload: Payload) -> dict[str, Any]:
    from hermes.portability.transcripts import CODEX

    if payload.get("hook_event_name") and payload.get("transcript_path"):  # of the plug-in; `notify` says less
        return _bring_in(home, os.path.expanduser(str(payload["transcript_path"])), CODEX)
    if payload.get("type") != "agent-turn-complete":
        return {"added": 0}
    thread = str(payload.get("thread-id") or "")
    folder = os.environ.get("CODEX_HOME") or os.path.expanduser(os.path.join("~", ".codex"))
    pattern = os.path.join(glob.escape(folder), "sessions", "**", f"*{glob.escape(thread)}.jsonl")
    found = glob.glob(pattern, recursive=True) if thread else []
    if found:
        return _bring_in(home, found[0], CODEX)
    said = payload.get("input-messages")
    messages = [{"role": "user", "content": str(text)} for text in (said if isinstance(said, list) else [])]
    if answer := payload.get("last-assistant-message"):
        messages.append({"role": "assistant", "content": str(answer)})
    return _turn(home, "codex", thread or str(payload.get("turn-id") or "unknown"), messages, payload)


def _record_cursor(home: Home, payload: Payload) -> dict[str, Any]:
    spoken = {"beforeSubmitPrompt": ("user", "prompt"), "afterAgentResponse": ("assistant", "text")}
    role, field = spoken.get(str(payload.get("hook_event_name")), ("", ""))
    if not role:
        return {"added": 0}
    return _turn(
        home, "cursor", payload.get("conversation_id"), [{"role": role, "content": payload.get(field)}], payload
    )


def _record_gemini(home: Home, payload: Payload) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": payload.get("prompt")},
        {"role": "assistant", "content": payload.get("prompt_response")},
    ]
    return _turn(home, "gemini", payload.get("session_id"), messages, payload)


def _turn(home: Home, host: str, key: Any, messages: list[dict[str, Any]], payload: Payload) -> dict[str, Any]:
    said = [message for message in messages if message["content"]]
    if not said:
        return {"added": 0}
    if not isinstance(key, str) or not key or not all(isinstance(message["content"], str) for message in said):
        raise SettingsError(f"the hook's message is not one of {host}; is this the hook of another program?")
    from hermes.server.workspace import Workspace

    cwd = payload.get("cwd") or next(iter(payload.get("workspace_roots") or ()), None)
    folder = cwd if isinstance(cwd, str) and os.path.isdir(cwd) else None
    workspace = Workspace(home, source=host, project=None, cwd=folder)
    try:
        return workspace.record(key, said, cwd=folder)
    finally:
        workspace.close()


def _bring_in(home: Home, path: str, form: str) -> dict[str, Any]:
    from hermes.conversations.database import SessionDB
    from hermes.portability.conversations_import import TranscriptImport
    from hermes.portability.transcripts import sources

    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        return {"added": 0}  # a host may name the transcript of an empty session
    with SessionDB.open(**conversations_of(home), durability="turn") as db:
        work = TranscriptImport(db, by_hook=True)
        for source in sources(path, form):
            work.take(source)
        result = work.finish()
    return {"added": result.messages, "problems": result.problems}


_HOOKS: dict[str, Callable[[Home, Payload], dict[str, Any]]] = {
    "claude-code": _record_claude_code,
    "codex": _record_codex,
    "cursor": _record_cursor,
    "gemini": _record_gemini,
}
