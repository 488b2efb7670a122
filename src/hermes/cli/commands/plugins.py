"""`hermes plugins`, `memory setup`, `off` and `deliver`: memory providers, context engines and their own commands."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, SettingsError
from hermes.base.values import Notices
from hermes.cli import ui
from hermes.compaction.engine import BUILT_IN
from hermes.operations import status
from hermes.providers import config as provider_config
from hermes.providers.discovery import FOLDER, available_providers, find_provider, load_commands, load_provider
from hermes.providers.manager import running_for
from hermes.session.external import build_manager, chosen_providers
from hermes.session.parts import ENGINES, engine_folders, known_engines
from hermes.settings.config import FILE, SECRETS, save_secret, secret
from hermes.settings.yaml_file import set_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermes.settings.home import Home


PROVIDER, ENGINE = "memory provider", "context engine"


def plugins_list(given: ui.Given, context: ui.Context) -> None:
    """Lists memory providers and context engines, and marks those in use."""
    rows, lines = _rows(context), []
    for row in rows:
        mark, where = "*" if row["active"] else " ", "bundled" if row["bundled"] else "installed"
        lines.append(f"{mark} {row['name']:<14} {row['kind']:<15} {where:<10} {row['description']}")
    ui.show(given, rows, *lines)


def _rows(context: ui.Context) -> list[dict[str, Any]]:
    """All plug-ins as documents: memory providers, then context engines."""
    active, rows = chosen_providers(context.settings), []
    for each in available_providers(context.home.operator):
        row = ui.pick(each, "name", "bundled", "description", "folder", "version", "problem")
        row |= {"kind": PROVIDER, "active": each.name in active, "hooks": list(each.hooks)}
        row["external_dependencies"] = [str(other.get("name", "")) for other in each.external_dependencies]
        rows.append(row | {"pip_dependencies": list(each.pip_dependencies)})
    chosen = context.settings.text("context.engine") or BUILT_IN
    for engine in known_engines(context.home):
        row = {**ui.pick(engine, "name", "description", "folder"), "kind": ENGINE, "bundled": engine.name in ENGINES}
        rows.append(row | {"active": engine.name == chosen})
    return rows


def plugins_show(given: ui.Given, context: ui.Context) -> None:
    """Prints what is known about a plug-in: its folder, version, hooks and dependencies."""
    found = [row for row in _rows(context) if row["name"] == given.name]
    if not found:
        raise _no_plugin(given.name, context)
    told = [(key, each) for row in found for key, each in row.items() if each not in ("", [], None)]
    lines = (f"{key:<22} {', '.join(map(str, each)) if isinstance(each, list) else each}" for key, each in told)
    ui.show(given, found[0], *lines)


def _no_plugin(name: str, context: ui.Context) -> NotFound:
    """The error for an unknown plug-in: lists the known ones, and where a new one belongs."""
    folders = (os.path.join(context.home.operator, FOLDER), *engine_folders(context.home))
    places = [os.path.join(each, name) for each in folders]
    if empty := next((each for each in places if os.path.isdir(each)), None):
        return NotFound(f"{empty} has no __init__.py, so it is not a plug-in; put its class, or register(ctx), there")
    known: dict[str, list[str]] = {PROVIDER: [], ENGINE: []}
    for row in _rows(context):
        known[row["kind"]].append(row["name"])
    kinds = (
        f"no {kind} (there are: {', '.join(names) or 'none'}; yours belongs in {place})"
        for (kind, names), place in zip(known.items(), places, strict=False)
    )
    return NotFound(f"there is no plug-in {name!r}: {' and '.join(kinds)}")


def plugins_path(_given: ui.Given, context: ui.Context) -> None:
    """Prints the folder that plug-ins are installed in."""
    ui.line(os.path.join(context.home.operator, FOLDER))


def plugins_check(given: ui.Given, context: ui.Context) -> int:
    """Loads each installed plug-in, or the named ones, and reports problems; exits with 1 if there are any."""
    chosen = [*chosen_providers(context.settings), context.settings.text("context.engine")]
    installed = [row["name"] for row in _rows(context) if not row["bundled"]]
    names = given.names or [*installed, *(name for name in chosen if name not in ("", BUILT_IN))]
    found = [each for name in dict.fromkeys(names) for each in _checked(name, given, context)]
    lines = []
    for each in found:
        each["ok"] = not each["problem"] and not each.get("missing")
        lacking = ", ".join(field["variable"] or field["key"] for field in each.get("missing") or ())
        said = f"not configured yet: {lacking}" if lacking else each.get("connection") or each.get("tried")
        lines.append(f"{'ok ' if each['ok'] else '!  '} {each['name']:<14} {each['problem'] or said or 'loads'}")
    ui.show(
        given, found, *(lines or ["no plug-in of yours is installed; `hermes plugins list` shows the bundled ones"])
    )
    return ui.OK if all(each["ok"] for each in found) else ui.REFUSED


def _checked(name: str, given: ui.Given, context: ui.Context) -> list[dict[str, Any]]:
    """Checks every plug-in of a name; an unknown name may be an engine that a general plug-in registers."""
    kinds = {row["kind"] for row in _rows(context) if row["name"] == name}
    found = []
    if PROVIDER in kinds:
        found.append(
            status.examine_provider(context.home, context.settings, name, connect=given.connect) | {"kind": PROVIDER}
        )
    if ENGINE in kinds or not kinds:
        found.append(status.examine_engine(context.home, context.settings, name))
        if not found[-1]["installed"]:
            found[-1]["problem"] = str(_no_plugin(name, context))
    return found


def run_provider_command(name: str, words: list[str], context: ui.Context) -> int:
    """Runs a command that a memory provider brings, with the provider's own parser."""
    home = context.home
    with running_for(home.path):
        register = load_commands(name, home.operator)
        if register is None:
            raise SettingsError(f"the memory provider {name} has no commands (`hermes memory status`)")
        parser = argparse.ArgumentParser(prog=f"hermes {name}", description=f"Commands of the memory provider {name}.")
        register(parser)
        given = parser.parse_args(words)
        carry_out = getattr(given, "func", None)
        if carry_out is None:
            parser.print_help()
            return ui.OK
        return int(carry_out(given) or ui.OK)


_BUILT_IN_ONLY = "built-in only"


def memory_setup(given: ui.Given, context: ui.Context) -> int:
    """Sets up a memory provider: installs its packages, asks for its fields, stores them and tries it.

    Its fields are stored only once all are valid. A provider that does not answer at the end stays set up.
    """
    if wrong := [each for each in given.set or [] if "=" not in each]:
        raise SettingsError(f"--set {wrong[0]!r}: expected key=value")
    pairs = (each.partition("=") for each in given.set or [])
    answers = {key.strip(): text for key, _, text in pairs}
    talking = sys.stdin.isatty() and not given.yes
    name = given.name or _picked(context.home.operator, talking=talking)
    if name in ("", "builtin", _BUILT_IN_ONLY):
        memory_off(given, context)
        return ui.OK
    info = find_provider(name, context.home.operator)
    _install(name, info.pip_dependencies, yes=given.yes, talking=talking)
    for program in info.external_dependencies:
        needed = str(program.get("name", ""))
        if needed and shutil.which(needed) is None:
            ui.line(f"{name} also needs the program {needed}: {program.get('install', 'see its documentation')}")
    provider = load_provider(name, context.home.operator)
    if hasattr(provider, "post_setup") and not answers:
        _own_setup(name, provider, context)
    else:
        fields = status.fields_of(provider)
        values = _answered(name, fields, answers, context.home, talking=talking)
        if hasattr(provider, "packages_for"):
            _install(name, provider.packages_for(values), yes=given.yes, talking=talking)
        _save(provider, name, fields, values, context.home)
    if several := context.settings.texts("memory.providers"):
        set_value(context.home, FILE, "memory.providers", ", ".join(dict.fromkeys([*several, name])))
    else:
        set_value(context.home, FILE, "memory.provider", name)
    ui.line(f"{name} is the memory provider now; new sessions use it.")
    if given.no_check:
        return ui.OK
    try:
        ui.line(f"{name}: {status.connection_of(name, context.home, context.settings)}")
    except HermesError as error:
        ui.problem(f"saved, but {name} does not work yet: {error}")
        return ui.REFUSED
    return ui.OK


def _own_setup(name: str, provider: Any, context: ui.Context) -> None:
    """Lets a provider ask its own questions. As in hermes-agent, it receives all settings and its own."""
    settings, home = context.settings, context.home.operator
    config: dict[str, Any] = {"memory": {}}
    for key in (each for each in settings.names() if settings.origin(each) != "default"):
        below, *words = key.split(".")[::-1]
        place = config
        for word in reversed(words):
            place = place.setdefault(word, {})
        place[below] = settings.get(key)
    try:
        provider.post_setup(home, config | provider_config.read_config(name, home))
    except EOFError as error:
        again = f"run `hermes memory setup {name}` in a terminal, or answer with --set key=value"
        raise SettingsError(f"{name} asks its own questions when it is set up; {again}") from error
    except (Exception, SystemExit) as error:  # a plug-in's code may raise anything
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise SettingsError(f"the set-up of {name} failed ({told}), so it is not in use") from error


def memory_off(_given: ui.Given, context: ui.Context) -> None:
    """Switches external memory off; its settings and its data stay."""
    several, one = context.settings.texts("memory.providers"), context.settings.text("memory.provider")
    set_value(context.home, FILE, "memory.provider", "")
    if several:
        set_value(context.home, FILE, "memory.providers", "")
    names = ", ".join(filter(None, [*several, one]))
    ui.line(f"External memory is off{f' (it was {names})' if names else ''}; built-in memory stays as it is.")


def memory_deliver(given: ui.Given, context: ui.Context) -> int:
    """Sends queued calls to the memory providers now, also those that were refused before."""
    names, notices = chosen_providers(context.settings), Notices()
    if not names:
        raise SettingsError("there is no external memory to deliver to (`hermes memory setup`)")
    manager = build_manager(context.home, context.settings, notices=notices)
    again = manager.take_back()
    manager.initialize_all("deliver", platform="cli", agent_context="flush")
    done = manager.flush(given.seconds)
    retried = f" (calls refused before and tried again: {again})" if again else ""
    for each in manager.status():
        left = f"{each['waiting']} waiting, {each['refused']} refused"
        ui.line(f"{each['name']}: {left if each['waiting'] or each['refused'] else 'nothing'} left{retried}")
    manager.shutdown_all()
    for notice in notices.take():
        ui.line(f"! {notice.text}")
    return ui.OK if done else ui.REFUSED


def _picked(home: str, *, talking: bool) -> str:
    known = available_providers(home)
    if not talking:
        names = ", ".join(each.name for each in known)
        raise SettingsError(f"name a provider: `hermes memory setup NAME --set key=value --yes` (there are: {names})")
    rows = [f"{each.name:<12} {each.description}" for each in known]
    return [*(each.name for each in known), ""][ui.choose("Which memory provider?", [*rows, _BUILT_IN_ONLY])]


def _install(provider: str, packages: Iterable[str], *, yes: bool, talking: bool) -> None:
    """Installs missing packages into the environment of Hermes, with the output of uv or pip."""
    lacking = [each for each in packages if not status.is_installed(each)]
    if not lacking:
        return
    names, command = ", ".join(lacking), [*status.installer(), *lacking]
    by_hand = shlex.join(command)
    if not yes and not (talking and ui.ask(f"{provider} needs {names}. Install? (y/n)", "y").lower().startswith("y")):
        raise SettingsError(f"{provider} needs {names}; install them with `{by_hand}`, or let --yes do it")
    ui.line(f"installing {names}: {by_hand}")
    sys.stdout.flush()
    if code := subprocess.run(command, check=False).returncode:
        raise SettingsError(
            f"{names} could not be installed (exit code {code}; the reason is printed above), so no setting was "
            f"changed. Install by hand with `{by_hand}`, then run `hermes memory setup {provider}` again"
        )
    importlib.invalidate_caches()  # Python remembers the content of folders it has searched
    ui.line(f"{names} installed")


def _answered(
    name: str, fields: list[dict[str, Any]], answers: Mapping[str, str], home: Home, *, talking: bool
) -> dict[str, Any]:
    """A value for each field that applies: from the command line, the person, the current settings or the default."""
    if unknown := sorted(answers.keys() - {field["key"] for field in fields}):
        keys = ", ".join(str(field["key"]) for field in fields) or "none"
        raise SettingsError(f"{name} has no field {', '.join(unknown)} (its fields are: {keys})")
    before = provider_config.configured(name, home.path, fields)
    values: dict[str, Any] = {}
    for field in fields:
        if not provider_config.applies(field, values):
            continue
        key, current = field["key"], before.get(field["key"])
        if current in (None, ""):
            current = provider_config.default_of(field, values)
        if key in answers:
            said: Any = answers[key]
        elif talking:
            said = _asked(name, field, current, home)
        else:
            said = current
        choices = [str(each) for each in field.get("choices") or ()]
        if choices and said not in (None, "") and str(said) not in choices:
            raise SettingsError(f"{key} must be one of {', '.join(choices)}, not {said!r}")
        values[key] = provider_config.typed(field, said)
    if lacking := provider_config.missing_fields(fields, values):
        wanted = " ".join(f"--set {field['key']}=…" for field in lacking)
        raise SettingsError(f"{name} still needs {', '.join(field['key'] for field in lacking)}: add {wanted}")
    return values


def _asked(name: str, field: dict[str, Any], current: Any, home: Home) -> Any:
    """Asks a person for one field: a secret without echo, a choice from a list, anything else as text."""
    label = str(field.get("description") or field["key"])
    if field.get("url"):
        ui.line(f"  (get it at {field['url']})")
    if field.get("secret"):
        kept = secret(home, status.secret_name(name, field))
        return ui.ask_secret(label, kept=bool(kept)) or kept or ""
    if field.get("choices"):
        choices = [str(each) for each in field["choices"]]
        at = choices.index(str(current)) if str(current) in choices else 0
        return field["choices"][ui.choose(label, choices, at)]
    return ui.ask(label, "" if current is None else str(current))


def _save(provider: Any, name: str, fields: list[dict[str, Any]], values: dict[str, Any], home: Home) -> None:
    """Stores secrets in .env, and the other values where the provider reads them."""
    secrets = {field["key"]: status.secret_name(name, field) for field in fields if field.get("secret")}
    for key, variable in secrets.items():
        if values.get(key) and secret(home, variable) != values[key]:
            save_secret(home, variable, str(values[key]))
            ui.line(f"{variable} saved in {home.join(SECRETS)}, readable by you only")
    plain = {key: each for key, each in values.items() if key not in secrets and each not in (None, "")}
    if plain and hasattr(provider, "save_config"):
        provider.save_config(plain, home.operator)
    elif plain:
        provider_config.save_config(name, home.operator, plain)
