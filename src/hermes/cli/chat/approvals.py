"""The question at the end of a turn: what waits for the person, where it came from, and one key for the answer."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.cli import ui
from hermes.session.approvals import changed, described, is_cut, origins, waiting_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from hermes.cli.chat.screen import Screen
    from hermes.session.approvals import PendingWrite, PendingWrites

ACCEPT, REJECT, EDIT, SHOW, ONE_BY_ONE, LATER = "a", "r", "e", "s", "o", "l"
_KEYS = {
    ACCEPT: "[a]ccept",
    REJECT: "[r]eject",
    EDIT: "[e]dit",
    SHOW: "[s]how all of it",
    ONE_BY_ONE: "[o]ne by one",
    LATER: "[l]ater",
}
_LEFT = "left waiting; /pending asks again"


class PendingQuestions:
    """Asks about each write once; what is left for later waits until the person asks for it.

    `alone` keeps others from reading the keyboard meanwhile. `key` waits for one of the given keys and returns "" when
    the person leaves the question; `edit` returns a text as they changed it, or None when they did not want to.
    """

    def __init__(
        self,
        screen: Screen,
        pending: PendingWrites,
        *,
        alone: Callable[[], AbstractContextManager[None]],
        key: Callable[[str, Callable[[], None]], str],
        edit: Callable[[str], str | None],
    ) -> None:
        self._screen = screen
        self._pending = pending
        self._alone = alone
        self._key = key
        self._edit = edit
        self._seen = {each.id for each in pending.all()}

    def count(self) -> int:
        return len(self._pending.all())

    def ask_new(self) -> None:
        """About what has come since the last question."""
        waiting = [each for each in self._pending.all() if each.id not in self._seen]
        if waiting:
            with self._alone():
                self._ask(waiting)

    def ask_all(self) -> None:
        waiting = self._pending.all()
        if waiting:
            with self._alone():
                self._ask(waiting)
        else:
            self._screen.line("nothing is pending", "dim")

    def _ask(self, waiting: Sequence[PendingWrite]) -> None:
        self._seen |= {each.id for each in waiting}
        self._screen.line(waiting_in_words(len(waiting)), "bold")
        self._show_all(waiting)
        if len(waiting) == 1:
            self._ask_about(waiting[0])
            return
        offered = (ACCEPT, REJECT, ONE_BY_ONE, LATER)
        match self._choice(offered, all_of_them=True):
            case "a":
                self._each(waiting, self._accept)
            case "r":
                self._each(waiting, self._reject)
            case "o":
                for number, each in enumerate(waiting, start=1):
                    self._screen.line(f"{number} of {len(waiting)}", "bold")
                    self._show(described(each, whole=False).split("\n"))
                    if not self._ask_about(each):
                        return
            case _:
                self._screen.line(_LEFT, "dim")

    def _ask_about(self, pending: PendingWrite) -> bool:
        """False when the person wants to be asked no more."""
        offered = (ACCEPT, REJECT, *([EDIT] if pending.texts else []), *([SHOW] if is_cut(pending) else []), LATER)
        while True:
            match self._choice(offered):
                case "a":
                    self._accept(pending)
                case "r":
                    self._reject(pending)
                case "s":
                    self._show(described(pending).split("\n"))
                    continue
                case "e":
                    if not self._change(pending):
                        continue
                case key:
                    self._screen.line(_LEFT, "dim")
                    return bool(key)
            return True

    def _choice(self, offered: Sequence[str], *, all_of_them: bool = False) -> str:
        words = [_KEYS[key] + (" all" if all_of_them and key in (ACCEPT, REJECT) else "") for key in offered]
        return self._key("".join(offered), lambda: self._screen.line("  ".join(words), "cyan"))

    def _show_all(self, waiting: Sequence[PendingWrite]) -> None:
        """Each write with where it came from; said once, when that is the same for all of them."""
        shared = origins(waiting[0], whole=False)
        if len(waiting) == 1 or any(origins(each, whole=False) != shared for each in waiting):
            for each in waiting:
                self._show(described(each, whole=False).split("\n"))
            return
        for each in waiting:
            self._show(changed(each, whole=False))
        self._show([f"all {shared[0]}", *shared[1:]])

    def _show(self, lines: Sequence[str]) -> None:
        for line in lines:
            # Visible: also what would hide a part of it, such as marks that change the direction of writing.
            shown = ui.visible(f"  {line}")
            indent = " " * (len(shown) - len(shown.lstrip()) + 2)
            self._screen.line("\n".join(wrap(shown, self._screen.width - 1, subsequent_indent=indent) or [""]))

    def _each(self, waiting: Sequence[PendingWrite], act: Callable[[PendingWrite], None]) -> None:
        for each in waiting:
            act(each)

    def _accept(self, pending: PendingWrite) -> None:
        try:
            self._screen.line(f"accepted: {self._pending.approve(pending.id).message}", "dim")
        except HermesError as error:
            self._screen.line(f"{pending.id} still waits: {error}", "yellow")

    def _reject(self, pending: PendingWrite) -> None:
        try:
            self._screen.fitted(f"rejected: {self._pending.reject(pending.id).summary}", "dim")
        except HermesError as error:
            self._screen.line(f"{error}", "yellow")

    def _change(self, pending: PendingWrite) -> bool:
        """Saves what the person makes of the texts; False when they leave one as an empty line or press Ctrl-C."""
        texts = []
        for text in pending.texts:
            changed = self._edit(text)
            if not changed:
                return False
            texts.append(changed)
        try:
            self._pending.edit(pending.id, texts)
        except HermesError as error:
            self._screen.line(f"{error}", "yellow")
            return False
        self._accept(pending)
        return True
