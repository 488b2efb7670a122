"""Names a conversation after its first turn: from the person's words, and better by a helper model when one is set."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from hermes.vocabulary.errors import HermesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.session.models import Helper

LONGEST = 60
_ASK = (
    "Name this conversation in two to six words, in the language it is held in. Answer with the name only: no quotation"
    " marks, no full stop, no explanation."
)
_SHOWN = 1_000  # characters of each side that the helper sees
_MARKUP = re.compile(r"^[\s#>*`\-\d.)]+|[`*_]{1,3}")
_GREETING = re.compile(r"^(?:hi|hello|hey|hallo|please|bitte)\b[\s,!.:]*", re.IGNORECASE)


def title_from(text: str) -> str:
    """A short name out of what a person wrote: its first line that says something, cut at a word."""
    lines = (" ".join(_MARKUP.sub("", line).split()) for line in text[:5_000].splitlines())
    first = next((line for line in lines if any(char.isalnum() for char in line)), "")
    said = _GREETING.sub("", first) or first
    if len(said) > LONGEST:
        cut = said[: LONGEST - 1]
        said = (cut.rpartition(" ")[0] if " " in cut[LONGEST // 2 :] else cut).rstrip(" ,;:.") + "…"
    return said[:1].upper() + said[1:]


class Titles:
    """Gives one conversation its name; `rename` stores it and is only called by `start` and `settle`."""

    def __init__(self, rename: Callable[[str], object], helper: Helper | None) -> None:
        self._rename = rename
        self._helper = helper
        self._worker: threading.Thread | None = None
        self._better = ""

    def start(self, asked: str, reply: str) -> None:
        """Names the conversation after its first turn and lets the helper think of a better name meanwhile."""
        if title := title_from(asked):
            self._rename(title)
        if self._helper is not None:
            self._worker = threading.Thread(target=self._think, args=(asked, reply), daemon=True, name="title")
            self._worker.start()

    def settle(self, seconds: float = 0) -> None:
        """Takes the helper's name when it is there; waits for it at most so long."""
        if self._worker is None:
            return
        self._worker.join(seconds)
        if not self._worker.is_alive():
            self._worker = None
            if self._better:
                self._rename(self._better)

    def _think(self, asked: str, reply: str) -> None:
        assert self._helper is not None  # noqa: S101 - only started with one
        try:
            named = self._helper(_ASK, f"Person: {asked[:_SHOWN]}\n\nAssistant: {reply[:_SHOWN]}")
        except HermesError:
            return  # the name from the person's words stays
        self._better = title_from(named.strip().strip("\"'“”„«»."))
