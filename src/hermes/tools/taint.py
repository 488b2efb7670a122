"""What entered the current turn from outside, and so may have put words into the model's mouth."""

from __future__ import annotations

from hermes.curated.provenance import least_trusted
from hermes.vocabulary.values import value

_LONGEST_EXCERPT = 200


@value
class Source:
    """One text from outside: its kind (web, file, tool, recall, provider), who brought it, and how it begins."""

    origin: str
    name: str
    excerpt: str


class Taint:
    """Collects the sources of one turn; the program notes them, the model cannot."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def start_turn(self) -> None:
        self._sources.clear()

    def note(self, origin: str, name: str, text: str) -> None:
        self._sources.append(Source(origin=origin, name=name, excerpt=" ".join(text.split())[:_LONGEST_EXCERPT]))

    @property
    def origin(self) -> str:
        """The least trusted origin of this turn; empty when nothing came from outside."""
        return least_trusted([source.origin for source in self._sources]) if self._sources else ""

    def in_words(self) -> str:
        worst = next(source for source in reversed(self._sources) if source.origin == self.origin)
        return f"text from outside entered this turn ({worst.origin}, {worst.name}: {worst.excerpt!r})"
