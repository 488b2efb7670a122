"""`hermes completion bash|zsh|fish`: a script that completes commands, options and values."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from hermes.cli.catalogue import GROUPS, SINGLES
from hermes.cli.output import OK
from hermes.server.hosts import HOSTS
from hermes.settings.schema import all_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes.cli.output import Context

# Where other words are taken, too, these are offered.
_OFTEN: dict[str, Callable[[], Iterable[str]]] = {"KEY": all_keys, "HOST": lambda: HOSTS}
_OF_ALL = ("--help", "--home", "--profile", "--user")


def words_after() -> dict[str, list[str]]:
    """For each command ("", "memory", "memory add", …) what may follow it, and for "memory add --target" its values."""
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
    """The options of a command and what its positionals may be; the values of options that take one of a few."""
    parser = argparse.ArgumentParser(add_help=False)
    import_module(f"hermes.cli.{module}").COMMANDS[command.rpartition(" ")[2]][0](parser)
    words: list[str] = []
    values: dict[str, list[str]] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list them
        choices = [*map(str, action.choices or ())]
        if action.option_strings:
            words += [name for name in action.option_strings if name.startswith("--")]
            values |= {f"{command} {name}": choices for name in action.option_strings if choices}
        else:
            words += _OFTEN.get(str(action.metavar), lambda found=choices: found)()
    return {command: [*words, *_OF_ALL], **values}


def bash() -> str:
    return (
        '# hermes: eval "$(hermes completion bash)" in ~/.bashrc\n'
        "_hermes() {\n"
        f"{_cases('${COMP_WORDS[1]:-}', '${COMP_WORDS[2]:-}', '${COMP_WORDS[COMP_CWORD-1]}', '$COMP_CWORD')}"
        '    COMPREPLY=($(compgen -W "$choices" -- "${COMP_WORDS[COMP_CWORD]}"))\n'
        "}\n"
        "complete -o default -F _hermes hermes"
    )


def zsh() -> str:
    return (
        "#compdef hermes\n"
        "# hermes: source <(hermes completion zsh) in ~/.zshrc, after compinit\n"
        "_hermes() {\n"
        "    local given\n"
        '    given=("${(@)words}")\n'
        f"{_cases('${given[2]:-}', '${given[3]:-}', '${given[CURRENT-1]}', '$((CURRENT - 1))')}"
        "    compadd -- ${=choices}\n"
        '    [ -n "$choices" ] && [ $CURRENT -le 2 ] || _files\n'
        "}\n"
        "compdef _hermes hermes"
    )


def fish() -> str:
    lines = ["# hermes: hermes completion fish | source in ~/.config/fish/config.fish"]
    begun = "test (count (commandline -opc)) -eq"
    for command, words in words_after().items():
        *names, option = command.split(" ") if " -" in command else [*command.split(), ""]
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in names)
        if option:
            lines.append(f"complete -c hermes -n '{seen}' {_fish_option(option)} -xa '{' '.join(words)}'")
            continue
        # No files where a command is to be chosen.
        choosing = f"{begun} 1" if not names else f"{seen}; and {begun} 2" if command in GROUPS else ""
        lines.append(f"complete -c hermes -n '{choosing or seen}' {'-f ' if choosing else ''}-a '{' '.join(words)}'")
    return "\n".join(lines)


def _fish_option(option: str) -> str:
    return f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"


def _cases(first: str, second: str, before: str, place: str) -> str:
    """Shell lines that set `choices` to what may follow; bash and zsh read them alike."""
    after = words_after()
    cases = [f'        "{command}") choices="{" ".join(words)}" ;;' for command, words in after.items() if command]
    values = "|".join(f'"{command}"' for command in after if " -" in command)
    return "\n".join(
        [
            f'    local command="{first}"',
            f'    [ {place} -ge 3 ] && case "{first}" in {"|".join(GROUPS)}) command="{first} {second}" ;; esac',
            f'    [ {place} -le 1 ] && command=""',
            f'    case "$command {before}" in {values}) command="$command {before}" ;; esac',
            '    local choices=""',
            '    case "$command" in',
            *cases,
            f'        *) choices="{" ".join(after[""])}" ;;',
            "    esac",
            "",
        ]
    )


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def _completion(given: argparse.Namespace, context: Context) -> int:
    del context
    print(SHELLS[given.shell]())
    return OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(SHELLS), metavar="SHELL", help="bash, zsh or fish")


COMMANDS = {"completion": (_configure, _completion)}
