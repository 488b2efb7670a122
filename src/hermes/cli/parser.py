"""argparse as the commands use it: one error for wrong words, with the nearest option."""

from __future__ import annotations

import argparse
from shlex import quote
from typing import TYPE_CHECKING

from hermes.base.errors import SettingsError
from hermes.settings.schema import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

# Commands people guess, and the command that does it. A last word in capitals is replaced by what they typed after it;
# words with a backquote are the whole hint.
GUESSED = {
    "": {
        "search find recall grep": "sessions search TEXT",
        "remember add save note learn": "memory add TEXT",
        "forget remove rm": "memory remove ENTRY",
        "delete": "`hermes memory remove ENTRY` for an entry, `hermes sessions delete ID` for a conversation",
        "list ls show": "`hermes memory list` for what is remembered, `hermes sessions list` for conversations",
        "history conversations": "sessions list",
        "resume": "--resume ID",
        "continue": "--continue",
        "ask query": "-q TEXT",
        "log logs": "memory log",
        "undo": "memory undo",
        "approve reject": "memory pending",
        "login auth key keys init configure onboard": "setup",
        "install connect": "mcp install HOST",
        "run start": "`hermes` alone talks to a model, `hermes serve` and `hermes gateway run` answer others",
        "server api http web": "serve",
        "telegram bot": "gateway run",
        "provider providers": "memory setup",
        "models": "model list",
        "settings get": "config show",
        "set": "config set KEY",
        "whoami me": "memory list --target user",
        "insights usage stats": "sessions stats",
        "info": "status",
        "test check": "doctor",
        "fix repair": "doctor --fix",
        "tools": "tool --list",
        "rename title": "sessions rename ID",
        "restore": "backup restore BACKUP",
        "migrate": "`hermes import hermes-agent` or `hermes claw migrate`",
        "update upgrade": "to update, `git pull` in the checkout or `pip install --upgrade` the package",
        "uninstall": "`hermes config path` says where your data is; the program is its folder or package",
    },
    "memory": {
        "search find": "`hermes memory list` shows every entry, `hermes sessions search TEXT` finds archived ones too",
        "provider": "memory setup",
        "disable": "memory off",
        "archive": "memory list --archived",
        "export": "export",
    },
    "sessions": {
        "resume open": "--resume ID",
        "continue": "--continue",
        "new": "`hermes` starts a new conversation",
    },
    "config": {
        "edit": "edit config.yaml (`hermes config path` says where), then `hermes config check`",
        "init": "setup",
        "migrate": "import hermes-agent",
    },
    "model": {"set use switch default": "config set model.default NAME"},
    "plugins": {
        "install add": "`hermes plugins path` says where plug-ins go, `hermes memory setup NAME` uses one",
        "enable": "memory setup NAME",
    },
    "skills": {"install add create": "put a folder with a SKILL.md where `hermes skills path` says"},
    "gateway": {"setup": "config get gateway"},
}
# Words for what a group can do under another name; the first that the group has is meant.
VERBS = {
    "ls list all dir": "list show status",
    "show view cat get read print open inspect": "show list get",
    "rm del delete remove forget erase drop": "remove delete forget unset archive uninstall unpair",
    "edit update change modify set": "replace set rename",
    "new create make add save write remember insert": "add create set install",
    "find grep query lookup": "search",
    "history logs": "log list",
    "revert rollback": "undo restore",
    "clear clean wipe purge reset": "reset prune cleanup unset",
    "start launch now": "run serve create",
    "stop disable": "pause off",
    "enable activate select switch choose use": "use setup approve resume",
    "connect setup": "install setup",
    "test validate": "check verify",
    "fix": "repair",
    "vacuum compact": "optimize",
    "title": "rename",
    "where file folder": "path",
    "info stat": "status stats",
    "download pull": "fetch",
    "accept": "approve",
    "deny": "reject",
}


def command_hint(
    words: list[str], known: Iterable[str], *, group: str = "", before: str = "hermes "
) -> tuple[str, bool]:
    """A hint such as "; try `hermes setup`" or "; did you mean list?"; whether the word is in a table."""
    names = list(known)
    word, rest = words[0].lower(), words[1:]
    if found := _row(GUESSED.get(group, {}), word):
        if "`" in found:
            return f"; {found}", True
        whose = before if group and found.startswith(f"{group} ") else "hermes "
        return f"; try `{whose}{_filled(found, rest)}`", True
    if group and (meant := next((each for each in _row(VERBS, word).split() if each in names), "")):
        return f"; try `{before}{' '.join([group, meant, *map(quote, rest)])}`", True
    return nearest(words[0], names), False


def _row(table: dict[str, str], word: str) -> str:
    return next((found for guesses, found in table.items() if word in guesses.split()), "")


def _filled(command: str, rest: list[str]) -> str:
    """The command with what was typed in the place of its last word, if that stands for something to type."""
    start, _, last = command.rpartition(" ")
    if not last.isupper() or not rest:
        return command
    return f"{start} {quote(' '.join(rest)) if start == '-q' else ' '.join(map(quote, rest))}"


class Parser(argparse.ArgumentParser):
    def __init__(self, name: str, description: str, width: int) -> None:
        """`name` is what a person types: `hermes memory add`, or `/memory add` in the chat."""
        super().__init__(
            prog=name,
            description=description,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=width),
        )

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        given, unknown = self.parse_known_args(words, namespace)
        if unknown:
            mistyped = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            if mistyped:
                self.error(f"there is no option {mistyped}{nearest(mistyped, self._option_string_actions)}")
            said = " ".join(unknown)
            asks = "--query" in self._option_string_actions
            hint = f"to ask it: hermes -q {quote(said)}" if asks else "a text of several words stands in quotes"
            self.error(f"too many words: {said} ({hint})")
        return given

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} (`{self.prog} --help`)\n{self.format_usage().rstrip()}")
