"""`hermes completion bash|zsh|fish`: a script that completes commands and options, made from the commands themselves.

The script holds every word, so that pressing Tab starts no program.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes.cli.catalogue import GROUPS, SINGLES
from hermes.cli.context import OK

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context

_OF_ALL = ("--help", "--home", "--profile", "--user")


class _Words:
    """Takes the `add_argument` calls of a command and keeps the options and the words a positional may be."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def add_argument(self, *names: str, **spec: Any) -> None:
        if names[0].startswith("-"):
            self.words += [name for name in names if name.startswith("--")]
        else:
            self.words += map(str, spec.get("choices", ()))

    def add_mutually_exclusive_group(self, **_: Any) -> _Words:
        return self


def words_after() -> dict[str, list[str]]:
    """For each command ("", "memory", "memory add", …) what may follow it."""
    after = {"": [*GROUPS, *SINGLES, "help", "--version", *_options("chat", "chat"), *_OF_ALL]}
    for group, (_, commands) in GROUPS.items():
        after[group] = [*commands, "--help"]
        after |= {f"{group} {name}": [*_options(module, name), *_OF_ALL] for name, (module, _) in commands.items()}
    return after | {name: [*_options(module, name), *_OF_ALL] for name, (module, _) in SINGLES.items()}


def _options(module: str, name: str) -> list[str]:
    words = _Words()
    import_module(f"hermes.cli.{module}").COMMANDS[name][0](words)
    return words.words


def bash() -> str:
    return (
        '# hermes: eval "$(hermes completion bash)" in ~/.bashrc\n'
        "_hermes() {\n"
        f"{_cases('${COMP_WORDS[1]:-}', '${COMP_WORDS[2]:-}', '$COMP_CWORD')}"
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
        f"{_cases('${given[2]:-}', '${given[3]:-}', '$((CURRENT - 1))')}"
        "    compadd -- ${=choices}\n"
        "    _files\n"
        "}\n"
        "compdef _hermes hermes"
    )


def fish() -> str:
    lines = ["# hermes: hermes completion fish | source in ~/.config/fish/config.fish"]
    for command, words in words_after().items():
        first, _, second = command.partition(" ")
        if not first:
            when = "test (count (commandline -opc)) -eq 1"
        elif second:
            when = f"__fish_seen_subcommand_from {first}; and __fish_seen_subcommand_from {second}"
        elif first in GROUPS:
            when = f"__fish_seen_subcommand_from {first}; and test (count (commandline -opc)) -eq 2"
        else:
            when = f"__fish_seen_subcommand_from {first}"
        lines.append(f"complete -c hermes -n '{when}' -a '{' '.join(words)}'")
    return "\n".join(lines)


def _cases(first: str, second: str, place: str) -> str:
    """Shell lines that set `choices` to what may follow; bash and zsh read them alike."""
    after = words_after()
    cases = [f'        "{command}") choices="{" ".join(words)}" ;;' for command, words in after.items() if command]
    return "\n".join(
        [
            f'    local command="{first}"',
            f'    [ {place} -ge 3 ] && case "{first}" in {"|".join(GROUPS)}) command="{first} {second}" ;; esac',
            f'    [ {place} -le 1 ] && command=""',
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
