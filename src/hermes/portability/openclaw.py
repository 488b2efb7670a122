"""`hermes claw migrate`: copies what an OpenClaw home holds into a Hermes home."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, StorageError
from hermes.portability.archive import files_below, links_below, read_text
from hermes.portability.notes import entries
from hermes.portability.plan import ARCHIVED, CONFLICT, MIGRATED, SKIPPED, Item, Planner, new_report
from hermes.portability.transcripts import at
from hermes.safety.secrets import mask_secrets
from hermes.settings.config import load_settings
from hermes.settings.schema import all_keys, problem_with
from hermes.storage.files import Folder
from hermes.storage.locks import is_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hermes.portability.plan import Options, Report
    from hermes.settings.home import Home


# The program was called Clawdbot and then Moltbot before; homes under the old names still exist.
ROOTS = (".openclaw", ".clawdbot", ".moltbot")
CONFIGS = ("openclaw.json", "clawdbot.json", "moltbot.json")
PROGRAMS = ("openclaw", "clawdbot", "moltbot")
_WORKSPACES = ("workspace", "workspace-main", "workspace-assistant", "workspace.default")
# Matches strings too, so that `//` in an address is not taken for a comment; only group 1, a string, is kept.
_JSON_COMMENT = re.compile(r'("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')|//[^\n]*|/\*.*?\*/', re.DOTALL)


PRESETS = ("full", "user-data")
CONFLICTS = ("skip", "overwrite", "rename")


@dataclass(slots=True, kw_only=True)
class OpenClaw:
    """An OpenClaw home as found: `workspace` belongs to the main agent, `others` to other agents."""

    root: str
    config: dict[str, Any] = field(default_factory=dict)
    config_file: str = ""
    workspace: str = ""
    others: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read(self, *names: str) -> str | None:
        """The text of a file in the main workspace, as `read_path` returns it."""
        return self.read_path(os.path.join(self.workspace, *names)) if self.workspace else None

    def read_path(self, path: str) -> str | None:
        """The text of a file; None if it does not exist, or if it cannot be read, which adds a warning."""
        try:
            return read_text(path)
        except FileNotFoundError:
            return None
        except StorageError as error:
            self.warnings.append(str(error))
            return None


def find_openclaw(given: str | None) -> OpenClaw:
    """Reads the named home, or the first of the usual ones that exists, and finds its workspaces."""
    places = [os.path.expanduser(given)] if given else _usual_places()
    root = next((os.path.realpath(place) for place in places if os.path.isdir(place)), None)
    if root is None:
        raise NotFound(f"there is no OpenClaw home at {' or '.join(places)}; name it with --source")
    found = OpenClaw(root=root)
    _read_config(found)
    _find_workspaces(found)
    return found


def _usual_places() -> list[str]:
    return [os.path.join(os.path.expanduser("~"), name) for name in ROOTS]


def _read_config(found: OpenClaw) -> None:
    for name in CONFIGS:
        text = found.read_path(os.path.join(found.root, name))
        if text is None:
            continue
        found.config_file = os.path.join(found.root, name)
        try:
            found.config = _json5(text)
        except ValueError as error:
            found.warnings.append(f"{found.config_file} cannot be read ({error}); its settings are not migrated")
        return


def _find_workspaces(found: OpenClaw) -> None:
    chosen = at(found.config, "agents.defaults.workspace") or at(found.config, "agent.workspace")
    names = [os.path.join(found.root, name) for name in _WORKSPACES]
    names += sorted(os.path.join(found.root, name) for name in os.listdir(found.root) if name.startswith("workspace-"))
    if isinstance(chosen, str) and chosen.strip():
        names.insert(0, os.path.join(found.root, os.path.expanduser(chosen)))
    real = [os.path.realpath(name) for name in dict.fromkeys(names) if _is_folder(name)]
    if real:
        found.workspace, *found.others = dict.fromkeys(real)
    else:
        found.warnings.append(f"{found.root} has no workspace; only its settings and shared skills can be migrated")


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def is_running(names: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Running processes of OpenClaw, on systems that list them in /proc."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(4096).decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        # The program itself, or the script that an interpreter such as node runs.
        started = [os.path.splitext(os.path.basename(word))[0] for word in words[:2]]
        if any(word in names or word.removesuffix("-gateway") in names for word in started):
            found.append(f"{' '.join(filter(None, words[:3]))} (process {name})")
    return found


def _json5(text: str) -> dict[str, Any]:
    """JSON as people write it: with comments, trailing commas and bare keys."""
    bare = _JSON_COMMENT.sub(lambda found: found[1] or " ", text)
    try:
        tree = json.loads(bare)
    except (ValueError, RecursionError):
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:  # YAML flow mappings cover the rest of JSON5
            tree = YAML(typ="safe", pure=True).load(bare.replace("\t", " "))
        except (YAMLError, ValueError, RecursionError) as error:
            raise ValueError(str(error).split("\n", maxsplit=1)[0]) from error
    if not isinstance(tree, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - one kind of error for one reader
    return tree


# Secrets that --migrate-secrets copies, and where OpenClaw keeps them.
SECRETS = {
    "TELEGRAM_BOT_TOKEN": ("channels.telegram.botToken", "telegram.botToken"),
    "OPENROUTER_API_KEY": ("models.providers.openrouter.apiKey",),
    "OPENAI_API_KEY": ("models.providers.openai.apiKey",),
    "ANTHROPIC_API_KEY": ("models.providers.anthropic.apiKey",),
    "ELEVENLABS_API_KEY": ("messages.tts.elevenlabs.apiKey", "talk.apiKey"),
    "VOICE_TOOLS_OPENAI_KEY": ("messages.tts.openai.apiKey",),
}
# Settings of ours that follow from theirs: kind, name, type, and where OpenClaw keeps the value.
_SETTINGS: tuple[tuple[str, str, type, tuple[str, ...]], ...] = (
    ("model-config", "model.default", str, ("agents.defaults.model.primary", "agents.defaults.model")),
    ("mcp-servers", "mcp_servers", dict, ("mcp.servers", "mcpServers")),
    ("session-config", "session_reset.mode", str, ("session.reset.mode",)),
    ("session-config", "session_reset.at_hour", int, ("session.reset.atHour",)),
    ("session-config", "session_reset.idle_minutes", int, ("session.reset.idleMinutes",)),
    ("agent-config", "timezone", str, ("agents.defaults.userTimezone",)),
)
# Sections of its settings that are archived, each with its kind in the report.
_SECTIONS = {
    "plugins": "plugins-config",
    "cron": "cron-jobs",
    "hooks": "hooks-config",
    "agents": "agent-config",
    "gateway": "gateway-config",
    "session": "session-config",
    "models": "full-providers",
    "channels": "deep-channels",
    "browser": "browser-config",
    "tools": "tools-config",
    "approvals": "approvals-config",
    "memory": "memory-backend",
    "skills": "skills-config",
    "ui": "ui-identity",
    "logging": "logging-config",
    "messages": "tts-config",
}
_SECRET_NAME = re.compile(r"token|key|secret|password|credential|auth", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{?\w+\}?$")  # names a variable of the environment instead of holding the secret


def plan_settings(source: OpenClaw, options: Options, planner: Planner) -> list[Item]:
    """Lists settings and secrets that Hermes has too, and archives every section of the settings without secrets."""
    items = []
    for kind, name, wanted, places in _SETTINGS:
        given = (at(source.config, place) for place in places)
        value = next((each for each in given if each not in (None, {})), None)
        if not isinstance(value, wanted):
            continue
        # A run without --migrate-secrets writes servers without their secrets; a later run with it may replace that.
        without_secrets = _masked(value) if kind == "mcp-servers" else value
        if not options.migrate_secrets or options.preset == "user-data":
            value = without_secrets
        if problem := problem_with(all_keys()[name], value):
            reason = f"{problem}; it is not migrated"
            items.append(Item(kind=kind, source=source.config_file, reason=reason))
        else:
            items.append(planner.setting(kind, source.config_file, name, value, same=without_secrets))
    refused = "the preset user-data leaves out secrets" if options.preset == "user-data" else ""
    found = _found_secrets(source)
    kinds = {"TELEGRAM_BOT_TOKEN": "secret-settings"}
    items += planner.secrets(source.root, found, lambda name: kinds.get(name, "provider-keys"), refused)
    for name, kind in _SECTIONS.items():
        section = source.config.get(name)
        if section:
            data = (json.dumps(_masked(section), ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()
            reason = "kept for reference; the settings that Hermes has too were migrated"
            place = f"{source.config_file}#{name}"
            items.append(planner.archived_data(kind, place, data, f"config/{name}.json", reason))
    approvals = os.path.join(source.root, "exec-approvals.json")
    if os.path.isfile(approvals) and not os.path.islink(approvals):
        reason = "approve commands again in Hermes"
        items.append(planner.archived("command-allowlist", approvals, "exec-approvals.json", reason))
    return items


def _found_secrets(source: OpenClaw) -> dict[str, str]:
    lines = (source.read_path(os.path.join(source.root, ".env")) or "").splitlines()
    named = dict(line.removeprefix("export ").split("=", 1) for line in lines if "=" in line and line[:1] != "#")
    found = {}
    for name, places in SECRETS.items():
        for value in (
            named.get(name),
            *(at(source.config, each) for each in (f"env.{name}", f"env.vars.{name}", *places)),
        ):
            text = value.strip().strip("\"'") if isinstance(value, str) else ""
            if text and not _REFERENCE.match(text) and "\n" not in text:
                found[name] = text
                break
    return found


def _masked(tree: Any, name: str = "") -> Any:
    """The same tree without values that look like secrets or have names like those of secrets."""
    if isinstance(tree, dict):
        return {str(key): _masked(value, str(key)) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_masked(value, name) for value in tree]
    if isinstance(tree, str):
        return "[left behind]" if _SECRET_NAME.search(name) and len(tree) > 7 else mask_secrets(tree)  # noqa: PLR2004
    return tree if isinstance(tree, int | float | bool | None) else str(tree)


NAME = "openclaw"
SKILLS = "openclaw-imports"
# Files of a workspace that Hermes has no place for; they are archived.
_WITHOUT_A_HOME = ("IDENTITY.md", "TOOLS.md", "HEARTBEAT.md", "BOOTSTRAP.md", "DREAMS.md", ".learnings", "memory")
_NEVER_READ = ("memory/main.sqlite", "credentials", "devices", "identity", "workspace.zip")


class Migration:
    """Plans a migration from OpenClaw; planning changes nothing."""

    def __init__(self, home: Home, options: Options) -> None:
        self._home = home
        self._options = options

    def plan(self) -> Report:
        """Lists every file and setting at the source with what would happen to it."""
        options = self._options
        source = find_openclaw(options.source)
        report = new_report(
            self._home,
            NAME,
            source.root,
            options,
            workspace_target=options.workspace_target,
            migrate_secrets=options.migrate_secrets,
            preset=options.preset,
            skill_conflict_mode=options.skill_conflict,
        )
        planner = Planner(self._home, report, load_settings(self._home))
        report.items += self._identity(source, planner)
        report.items += self._memory(source, planner)
        report.items += self._skills(source, planner)
        report.items += plan_settings(source, options, planner)
        report.items += self._without_a_home(source, planner)
        report.items += self._never_read(source)
        report.warnings += [*source.warnings, *self._warnings(source)]
        report.next_steps = _next_steps(report)
        return report

    def _identity(self, source: OpenClaw, planner: Planner) -> list[Item]:
        found = []
        soul = source.read("SOUL.md")
        if soul is not None:
            found.append(planner.text("soul", os.path.join(source.workspace, "SOUL.md"), soul, "SOUL.md"))
        agents = source.read("AGENTS.md")
        if agents is not None:
            path = os.path.join(source.workspace, "AGENTS.md")
            target = self._options.workspace_target
            if target is None:
                reason = "name a workspace with --workspace-target to copy it there"
                found.append(planner.archived("workspace-agents", path, "AGENTS.md", reason))
            else:
                found.append(planner.outside("workspace-agents", path, agents, os.path.join(target, "AGENTS.md")))
        return found

    def _memory(self, source: OpenClaw, planner: Planner) -> Iterator[Item]:
        for kind, target, name in (("memory", "memory", "MEMORY.md"), ("user-profile", "user", "USER.md")):
            text = source.read(name)
            if text is not None:
                yield planner.memory(kind, target, os.path.join(source.workspace, name), entries(text))
        if daily := self._daily(source):
            notes = [entry for text in daily.values() for entry in entries(text)]
            item = planner.memory("daily-memory", "memory", os.path.join(source.workspace, "memory"), notes)
            item.details["source_files"] = list(daily)
            yield item

    def _daily(self, source: OpenClaw) -> dict[str, str]:
        """The daily notes, newest first, because the newest are worth most if not all fit."""
        folder = os.path.join(source.workspace, "memory") if source.workspace else ""
        if not os.path.isdir(folder):
            return {}
        names = sorted((name for name in os.listdir(folder) if name.endswith(".md")), reverse=True)
        texts = {name: source.read("memory", name) for name in names}
        return {name: text for name, text in texts.items() if text is not None}

    def _skills(self, source: OpenClaw, planner: Planner) -> list[Item]:
        places = [("skills", os.path.join(source.workspace, "skills"))] if source.workspace else []
        places += [("shared-skills", os.path.join(source.root, "skills"))]
        places += [("shared-skills", os.path.expanduser("~/.agents/skills"))]
        if source.workspace:
            places.append(("skills", os.path.join(source.workspace, ".agents", "skills")))
        found = []
        for kind, place in places:
            for name in sorted(os.listdir(place)) if _is_folder(place) else ():
                folder = os.path.join(place, name)
                if os.path.isfile(os.path.join(folder, "SKILL.md")) and not os.path.islink(folder):
                    found.append(planner.skill(kind, folder, SKILLS, name))
        return found

    def _without_a_home(self, source: OpenClaw, planner: Planner) -> list[Item]:
        found = []
        reason = "Hermes does not use it; kept for reference"
        for name in _WITHOUT_A_HOME if source.workspace else ():
            path = os.path.join(source.workspace, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(planner.archived("archive", path, name, reason))
            for inside, full in files_below(path) if _is_folder(path) else ():
                found.append(planner.archived("archive", full, f"{name}/{inside}", reason))
        tts = os.path.join(source.workspace, "tts") if source.workspace else ""
        for inside, full in files_below(tts) if _is_folder(tts) else ():
            found.append(planner.copied("tts-assets", full, f"tts/{inside}"))
        why = "it belongs to another agent; migrate it into a separate profile"
        for other in source.others:
            for inside, full in files_below(other):
                if inside.endswith(".md") and inside.count("/") <= 1:
                    found.append(planner.archived("archive", full, f"{os.path.basename(other)}/{inside}", why))
        return [item for item in found if item.status != SKIPPED or item.reason]

    def _never_read(self, source: OpenClaw) -> Iterable[Item]:
        for name in _NEVER_READ:
            path = os.path.join(source.root, name)
            if os.path.lexists(path):
                yield Item(kind="archive", source=path, reason="sensitive, never read", sensitive=True)
        for path in links_below(source.workspace) if source.workspace else ():
            yield Item(kind="archive", source=path, reason="a link; links are not followed")

    def _warnings(self, source: OpenClaw) -> list[str]:
        found = [
            f"OpenClaw is still running: {process}; stop it first, because two programs cannot share a bot token"
            for process in is_running()
        ]
        others = any(os.path.exists(self._home.join(name)) for name in ("gateway.pid", "gateway.lock"))
        if others or self._gateway_runs():
            found.append("a Hermes gateway seems to be running in this home; restart it after the migration")
        if source.config.get("memory"):
            found.append("OpenClaw's memory backend is not migrated; choose one with `hermes memory setup`")
        return found

    def _gateway_runs(self) -> bool:
        folder = Folder.open(self._home.join("gateway"))
        with folder or contextlib.nullcontext():
            return folder is not None and is_held(folder, "run.lock")


def _next_steps(report: Report) -> list[str]:
    steps = []
    if any(item.last and item.status == MIGRATED for item in report.items):
        steps.append("new sessions use the migrated memory; `hermes memory list` shows it")
    if any(item.details.get("overflowed_entries") for item in report.items):
        steps.append("what did not fit is in the archive: `hermes memory list --archived`, `hermes memory restore`")
    if any(item.details.get("refused_entries") for item in report.items):
        steps.append("the scanner refused some entries; the report says why, and you can add harmless ones yourself")
    if any(item.status == ARCHIVED for item in report.items):
        steps.append(f"check the files in {os.path.join(report.output_dir, 'archive')}")
    if any(item.status == CONFLICT for item in report.items):
        steps.append("--overwrite replaces files and settings that differ; a backup is made first")
    steps.append("when everything is right, rename the old folders with `hermes claw cleanup`")
    return steps


def plan_cleanup(given: str | None) -> list[tuple[str, str]]:
    """Each old folder with the new name that `hermes claw cleanup` would give it."""
    places = [os.path.abspath(os.path.expanduser(given))] if given else _usual_places()
    found = [place for place in places if os.path.isdir(place) and not os.path.islink(place)]
    if given and not found:
        raise NotFound(f"there is no folder {given}")
    return [(place, _put_aside(place)) for place in found]


def _put_aside(place: str) -> str:
    name = f"{place}.pre-migration"
    dated = f"{name}-{time.strftime('%Y%m%d')}"
    names = itertools.chain([name, dated], (f"{dated}-{number}" for number in itertools.count(2)))
    return next(each for each in names if not os.path.lexists(each))
