"""`hermes config`, `profile` and `completion`: settings and their origin, several homes, completion in shells."""

from __future__ import annotations

import argparse
import os
import shutil
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError, StorageError, UnsafePath
from hermes.base.text import encode
from hermes.cli import ui
from hermes.cli.catalogue import GROUPS, SINGLES, add_arguments
from hermes.settings.config import FILE, SECRETS, load_settings, read_secrets
from hermes.settings.home import (
    DEFAULT_PROFILE,
    choose_profile,
    chosen_profile,
    existing_profile,
    locate_home,
    profile_names,
    profile_path,
)
from hermes.storage.files import explain, make_private_folders

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.settings.config import Settings


def config_show(given: ui.Given, context: ui.Context) -> None:
    """Prints every setting with its value and the line it comes from, or only those that were changed."""
    settings = context.settings
    shown = [name for name in settings.names() if not given.changed or settings.origin(name) != "default"]
    _print_all(given, settings, shown)


def _print_all(given: ui.Given, settings: Settings, names: list[str]) -> None:
    width = max(map(len, names), default=0)
    lines = [f"{name:<{width}}  {_in_words(settings.get(name))}  ({settings.origin(name)})" for name in names]
    none = "nothing is set; every setting has its default (`hermes config show` prints them)"
    found = {name: {"value": settings.get(name), "origin": settings.origin(name)} for name in names}
    ui.show(given, found, *(lines or [none]))


def config_get(given: ui.Given, context: ui.Context) -> None:
    """Prints one setting, or all settings below a heading such as `memory`."""
    settings = context.settings
    below = [name for name in settings.names() if name.startswith(f"{given.name}.")]
    if below and given.name not in settings.names():
        _print_all(given, settings, below)
        return
    found, origin = settings.get(given.name), settings.origin(given.name)
    ui.show(given, {"key": given.name, "value": found, "origin": origin}, _in_words(found))


def config_set(given: ui.Given, context: ui.Context) -> None:
    """Sets a value in config.yaml, and keeps comments and order."""
    from hermes.settings.yaml_file import set_value  # loads the YAML library

    chosen, path = set_value(context.home, FILE, given.name, given.value)
    warning = ""
    if given.name == "context.engine":  # only a warning, because the engine may be installed later
        from hermes.session.parts import chosen_engine

        warning = chosen_engine(context.home, load_settings(context.home)).problem
    document = {"key": given.name, "value": chosen, "file": path, **({"warning": warning} if warning else {})}
    ui.show(given, document, f"{given.name} is now {_in_words(chosen)} (in {path})")
    if warning and not given.json:
        ui.problem(warning)


def config_unset(given: ui.Given, context: ui.Context) -> None:
    """Removes a value from config.yaml, so that the default applies again."""
    from hermes.settings.yaml_file import unset_value

    path, was_set = unset_value(context.home, FILE, given.name)
    now = load_settings(context.home).get(given.name)
    state = "not set" if now in ("", None) else f"{_in_words(now)} by default"
    line = f"{given.name} is not in {path}; it is {state}"
    if was_set:
        line = f"{given.name} is {state} {'any more' if state == 'not set' else 'again'} (removed from {path})"
    ui.show(given, {"key": given.name, "value": now, "file": path, "was_set": was_set}, line)


def config_path(given: ui.Given, context: ui.Context) -> None:
    """Prints where the home, its settings, secrets and memory are."""
    from hermes.memory.file import FOLDER

    home = context.home
    places = {"home": home.path, "profile": home.profile or "default", "settings": os.path.join(home.operator, FILE)}
    places |= {"secrets": os.path.join(home.operator, SECRETS), "memories": home.join(FOLDER)}
    ui.show(given, places, *(f"{name:<9} {place}" for name, place in places.items()))


def config_check(given: ui.Given, context: ui.Context) -> int:
    """Prints every problem with config.yaml and .env."""
    problems: list[str] = []
    try:
        load_settings(context.home)
    except SettingsError as error:
        problems += str(error).split("\n")
    try:
        read_secrets(context.home)
    except SettingsError as error:
        problems += str(error).split("\n")
    ui.show(given, {"ok": not problems, "problems": problems}, "\n".join(problems) or "config.yaml and .env are fine")
    return ui.USAGE if problems else ui.OK


def config_enable(given: ui.Given, context: ui.Context) -> None:
    """Enables, after asking, what an import brought in disabled because it could act or connect."""
    from hermes.portability.exchange import disabled_in, enable

    home = context.home.path
    found = disabled_in(home)
    if not given.json:
        for each in found:
            ui.line(each)
    if found:
        ui.confirm(given, "enable all of this?", "nothing was enabled; --yes enables it without asking")
    ui.show(given, {"enabled": enable(home)}, "enabled" if found else "nothing is disabled")


def _in_words(found: Any) -> str:
    return found if isinstance(found, str) else encode(found)


def profile_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the profiles and marks the one in use."""
    home = context.home
    names = [DEFAULT_PROFILE, *profile_names(home.root)]
    chosen = home.profile or DEFAULT_PROFILE
    lines = [f"{'*' if name == chosen else ' '} {name}" for name in names]
    ui.show(given, {"chosen": chosen, "profiles": names}, *lines)


def profile_create(given: ui.Given, context: ui.Context) -> None:
    """Makes an empty home for a new profile."""
    path = _free_place(locate_home(context.root, "").root, given.name)
    make_private_folders(path)
    use = f"use it with --profile {given.name} or `hermes profile use {given.name}`"
    ui.line(f"profile {given.name} is at {path}; {use}")


def _free_place(root: str, name: str) -> str:
    path = profile_path(root, name)
    if name == DEFAULT_PROFILE:
        raise SettingsError(f"{name!r} already means the home itself, so no profile can be called that; choose another")
    if os.path.lexists(path):
        use = f"choose another name, or use it with --profile {name}"
        raise SettingsError(f"there already is a profile {name}, at {path}; {use}")
    return path


def profile_use(given: ui.Given, context: ui.Context) -> None:
    """Chooses the profile that commands without `--profile` use."""
    choose_profile(locate_home(context.root, "").root, given.name)
    ui.line(f"profile {given.name} is used from now on")


def profile_rename(given: ui.Given, context: ui.Context) -> None:
    """Renames a profile with its folder; it stays chosen if it was."""
    root = locate_home(context.root, "").root
    old, new = existing_profile(root, given.name), _free_place(root, given.new)
    is_chosen = chosen_profile(root) == given.name
    try:
        os.rename(old, new)
    except OSError as error:
        raise explain("rename", old, error) from error
    if is_chosen:
        choose_profile(root, given.new)
    ui.line(f"profile {given.name} is now {given.new}, at {new}{', and still the chosen one' if is_chosen else ''}")


def profile_delete(given: ui.Given, context: ui.Context) -> None:
    """Deletes a profile with all its data, after asking."""
    root = locate_home(context.root, "").root
    path = existing_profile(root, given.name)
    if os.path.islink(path):
        raise UnsafePath(f"{path} is a link to {os.path.realpath(path)}; nothing was deleted: remove the link yourself")
    is_chosen = chosen_profile(root) == given.name
    which = f"{path}, which is used when none is named," if is_chosen else path
    question = f"delete {which} with all memory and conversations, for good?"
    ui.confirm(given, question, f"nothing was deleted; --yes deletes {which} without asking")
    if is_chosen:
        choose_profile(root, DEFAULT_PROFILE)
    try:
        shutil.rmtree(path)  # never follows links
    except OSError as error:
        raise StorageError(f"could not delete all of {path}: {error}; what is left can be deleted again") from error
    after = "; from now on the home itself is used" if is_chosen else ""
    ui.line(f"profile {given.name} is gone{after}")


_OF_ALL = ("--help", "--home", "--profile", "--user")


def words_after() -> dict[str, list[str]]:
    """The words that may follow each command ("", "memory", "memory add", …), and the values of its options.

    The values have keys such as "memory add --target".
    """
    after: dict[str, list[str]] = {"": []}
    for group, (_, commands) in GROUPS.items():
        after[group] = [*commands, "--help"]
        for name, (module, _) in commands.items():
            after |= _after_command(f"{group} {name}", module)
    for name, (module, _) in SINGLES.items():
        after |= _after_command(name, module)
    after[""] = [*GROUPS, *SINGLES, "help", "--version", *after["chat"]]
    return after


def _after_command(command: str, module: str) -> dict[str, list[str]]:
    """The options of a command and the words for its positionals; and the values of options with choices."""
    from hermes.server.hosts import HOSTS
    from hermes.settings.schema import all_keys

    offered: dict[str, Iterable[str]] = {"KEY": all_keys(), "HOST": HOSTS}  # suggestions, not limits
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(command, module, parser)
    words: list[str] = []
    values: dict[str, list[str]] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list them
        choices = [*map(str, action.choices or ())]
        if action.option_strings:
            words += [name for name in action.option_strings if name.startswith("--")]
            values |= {f"{command} {name}": choices for name in action.option_strings if choices}
        else:
            words += offered.get(str(action.metavar), choices)
    return {command: [*words, *_OF_ALL], **values}


def bash() -> str:
    """Writes the completion script for bash."""
    after = words_after()
    cases = [f'        "{command}") choices="{" ".join(words)}" ;;' for command, words in after.items() if command]
    with_value = "|".join(f'"{command}"' for command in after if " -" in command)
    return "\n".join(
        [
            '# hermes: eval "$(hermes completion bash)" in ~/.bashrc',
            "_hermes() {",
            '    local command="${COMP_WORDS[1]:-}" before="${COMP_WORDS[COMP_CWORD-1]}" choices=""',
            f'    case "$command" in {"|".join(GROUPS)})',
            '        [ $COMP_CWORD -ge 3 ] && command="$command ${COMP_WORDS[2]}" ;; esac',
            '    [ $COMP_CWORD -le 1 ] && command=""',
            f'    case "$command $before" in {with_value}) command="$command $before" ;; esac',
            '    case "$command" in',
            *cases,
            f'        *) choices="{" ".join(after[""])}" ;;',
            "    esac",
            '    COMPREPLY=($(compgen -W "$choices" -- "${COMP_WORDS[COMP_CWORD]}"))',
            "}",
            "complete -o default -F _hermes hermes",
        ]
    )


def zsh() -> str:
    """Writes the completion script for zsh: the one for bash, which zsh can run."""
    use = "# hermes: source <(hermes completion zsh) in ~/.zshrc, after compinit"
    return f"{use}\nautoload -Uz bashcompinit && bashcompinit\n{bash()}"


def fish() -> str:
    """Writes the completion script for fish."""
    lines = ["# hermes: hermes completion fish | source in ~/.config/fish/config.fish"]
    begun = "test (count (commandline -opc)) -eq"
    for after, words in words_after().items():
        *names, flag = after.split(" ") if " -" in after else [*after.split(), ""]
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in names)
        if flag:
            option = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"complete -c hermes -n '{seen}' {option} -xa '{' '.join(words)}'")
            continue
        # `-f`: where a command must follow, fish should not suggest files.
        choosing = f"{begun} 1" if not names else f"{seen}; and {begun} 2" if after in GROUPS else ""
        lines.append(f"complete -c hermes -n '{choosing or seen}' {'-f ' if choosing else ''}-a '{' '.join(words)}'")
    return "\n".join(lines)


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def run_completion(given: ui.Given, context: ui.Context) -> None:
    """Prints the completion script for a shell."""
    del context
    print(SHELLS[given.shell]())
