"""What entered the current turn from outside, and so may have put words into the model's mouth."""

from __future__ import annotations

from hermes.curated.provenance import least_trusted
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_EXCERPT = 200
_SHORTEST_SENTENCE = 20  # letters; what is shorter is a name, a date or a state


@value
class Source:
    """One text from outside: its kind (web, file, tool, recall, provider), who brought it, and what it says."""

    origin: str
    name: str
    text: str

    def excerpt(self) -> str:
        """How it begins, for a person: of a tool's JSON what it says, without its braces and names."""
        return " ".join((_said(self.text) or self.text).split())[:_LONGEST_EXCERPT]


class Taint:
    """Collects the sources of one turn; the program notes them, the model cannot."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def start_turn(self) -> None:
        self._sources.clear()

    def note(self, origin: str, name: str, text: str) -> None:
        self._sources.append(Source(origin=origin, name=name, text=text))

    @property
    def origin(self) -> str:
        """The least trusted origin of this turn; empty when nothing came from outside."""
        return least_trusted([source.origin for source in self._sources]) if self._sources else ""

    def in_words(self) -> str:
        worst = next(source for source in reversed(self._sources) if source.origin == self.origin)
        return f"text from outside entered this turn ({worst.origin}, {worst.name}: {worst.excerpt()!r})"


def _said(text: str) -> str:
    """The sentences in a JSON document, or nothing."""
    import json

    if not text.lstrip().startswith(("{", "[")):
        return ""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return " … ".join(each for each in _texts(document) if len(each) >= _SHORTEST_SENTENCE)


def _texts(document: object) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, list):
        for each in document:
            yield from _texts(each)
    elif isinstance(document, dict):
        for each in document.values():
            yield from _texts(each)
