"""What entered the current turn from outside, and so may have put words into the model's mouth."""

from __future__ import annotations

from hermes.curated.provenance import least_trusted
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_LONGEST_EXCERPT, _LONGEST_READ = 200, 4_000
_NOT_SAID = frozenset({"session_id", "when", "query", "hint"})  # of our own tools: names, dates, what was asked
_SHORTEST_SENTENCE = 20  # letters; what is shorter is a name, a date or a state


@value
class Source:
    """One text from outside: its kind (web, file, tool, recall, provider), who brought it, and what it says."""

    origin: str
    name: str
    text: str

    def excerpt(self) -> str:
        """How it begins, for a person: of a tool's JSON what it says, without its braces and names, or its secrets."""
        from hermes.safety.secrets import mask_secrets

        said = _said(self.text) or self.text
        # Longer than what is shown, so that nothing is cut out of the middle of a key before it is known to be one.
        return " ".join(mask_secrets(said[:_LONGEST_READ]).split())[:_LONGEST_EXCERPT]


class Taint:
    """Collects the sources of one turn; the program notes them, the model cannot.

    A page can ask to be obeyed later. So a session also says what the model still has in front of it from before
    (`earlier`), and what the person said (`said`): only that is free of it.
    """

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._inherited: list[Source] = []
        self.earlier: Callable[[], Sequence[Source]] = tuple
        self.said: Callable[[], Sequence[str]] = tuple

    def start_turn(self) -> None:
        self._sources = list(self._inherited)

    def note(self, origin: str, name: str, text: str) -> None:
        self._sources.append(Source(origin=origin, name=name, text=text))

    def inherit(self, sources: Sequence[Source]) -> None:
        """These stand behind every turn: whoever wrote the task had them before their eyes."""
        self._inherited += sources
        self._sources += sources

    @property
    def origin(self) -> str:
        """The least trusted origin of this turn; empty when nothing came from outside."""
        return least_trusted([source.origin for source in self._sources]) if self._sources else ""

    def behind(self, texts: Sequence[str], gone: Callable[[], Sequence[str]] = tuple) -> Source | None:
        """What may have put a change into the model's mouth; None when nothing from outside can have.

        `texts` is what would be written, `gone` what would be lost for it.
        """
        if self._sources:
            return _worst(self._sources)
        earlier = self.earlier()
        if not earlier or (all(map(self._is_said, texts)) and all(map(self._is_spoken_of, gone()))):
            return None
        return _worst(earlier)

    def in_words(self, source: Source) -> str:
        excerpt = source.excerpt()
        what = f"{source.origin}, {source.name}" + (f": {excerpt!r}" if excerpt else "")
        if source in self._sources:
            return f"text from outside entered this turn ({what})"
        return f"text from outside entered this conversation earlier ({what}) and this is not what the user said"

    def everything(self) -> list[Source]:
        """The sources of this turn and those of earlier ones that the model still has in front of it."""
        return [*self.earlier(), *self._sources]

    def _is_said(self, text: str) -> bool:
        from hermes.tools.own_words import is_said

        return is_said(text, self.said())

    def _is_spoken_of(self, text: str) -> bool:
        """By the newest words of the person: what goes for good is not taken from what was said long ago."""
        from hermes.tools.own_words import is_about

        return any(is_about(text, each) for each in self.said()[-1:])


def _worst(sources: Sequence[Source]) -> Source:
    origin = least_trusted([source.origin for source in sources])
    return next(source for source in reversed(sources) if source.origin == origin)


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
        for name, each in document.items():
            if name not in _NOT_SAID:
                yield from _texts(each)
