"""Which languages a text is read in, and how: spaced words for Latin letters, searched stems for other scripts."""

from __future__ import annotations

import re

from hermes.safety import atoms
from hermes.safety.lexicon import Lexicon, known_bits
from hermes.safety.rules import Rule, load_lexicon, load_rules
from hermes.safety.scripts import Pairs, ScriptLexicon
from hermes.safety.surroundings import spans_around
from hermes.safety.tables import compiled, load_lines, load_table
from hermes.safety.unicode import folded_places
from hermes.safety.words import Words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hermes.safety.lexicon import Reading

_FEWEST_WORDS = 2
_SHORTEST_STEM = 2
_WEIGHED_WHOLE = 8_192  # characters; of a longer text only parts are, so nothing is missed where nothing is read
# name, lexicon files, characters that call for it, does a stem have to begin a word, are words set apart by spaces
_SCRIPTS = (
    ("han", ("han",), "[\u3400-\u9fff]", False, False),
    ("japanese", ("japanese", "han"), "[\u3040-\u30ff]", False, False),
    ("korean", ("korean",), "[\uac00-\ud7a3]", False, True),
    ("cyrillic", ("cyrillic",), "[\u0400-\u04ff]{2}", True, True),
    ("arabic", ("arabic",), "[\u0600-\u06ff]", False, True),
    ("hindi", ("hindi",), "[\u0900-\u097f]", True, True),
    ("thai", ("thai",), "[\u0e00-\u0e7f]", False, False),
)
_loaded: dict[str, Language] = {}
_latin: list[LatinFamily] = []


class Language:
    __slots__ = ("lexicon", "rules")

    def __init__(self, lexicon: Lexicon, rules: list[Rule]) -> None:
        self.lexicon = lexicon
        self.rules = rules


def english() -> Language:
    if "english" not in _loaded:
        tables = compiled("english")
        rules = compiled("rules")
        if tables is None or rules is None:
            _loaded["english"] = Language(load_lexicon("english"), load_rules("english.rules"))
        else:
            bits, lexicon = tables
            known_bits().update(bits)
            _loaded["english"] = Language(Lexicon.restore("english", lexicon), [Rule(*state) for state in rules])
    return _loaded["english"]


def readings(text: str, marked: str, tokens: list[str]) -> Iterator[tuple[Reading, list[Rule]]]:
    """Every language that finds something in the text, as a reading with the rules that go with it."""
    language = english()
    family = latin_languages()
    words = Words(tokens)
    candidates = family.candidates(words.known)
    vocabularies = [stemmed for _, stemmed in candidates]
    words.locate(
        language.lexicon.masks, language.lexicon.phrases, *([family.exact] if candidates else []), *vocabularies
    )
    reading = language.lexicon.read(words)
    if reading is not None:
        yield reading, language.rules
    for latin, stemmed in candidates:
        reading = latin.lexicon.read(words, stemmed)
        if reading is not None:
            yield reading, latin.rules
    if not text.isascii():
        yield from _read_scripts(text, marked)


def _read_scripts(text: str, marked: str) -> Iterator[tuple[Reading, list[Rule]]]:
    rows = [row for row in _likely_scripts(text) if re.search(row[2], text)]
    if rows and marked:
        scripts = [(_script(name, files), word_start, spaced) for name, files, _, word_start, spaced in rows]
        spans = _near_characters(text, marked, [characters for _, _, characters, _, _ in rows])
        pairs = Pairs(marked, [script.lexicon for script, _, _ in scripts], spans)
        for script, word_start, spaced in scripts:
            reading = script.lexicon.search(pairs, word_start, spaced)
            if reading is not None:
                yield reading, script.rules


def _near_characters(text: str, marked: str, characters: list[str]) -> list[tuple[int, int]]:
    """The parts of a text that have to be read for some scripts: where few of their characters are, those around them.

    Their vocabularies know a few words in Latin letters, too, but these say nothing in the midst of another language.
    """
    if len(marked) > _WEIGHED_WHOLE:
        places = folded_places(text, "|".join(each[: each.index("]") + 1] for each in characters))
        if places is not None:
            return spans_around(marked, places)
    return [(0, len(marked))]


def _likely_scripts(text: str) -> list[tuple[str, tuple[str, ...], str, bool, bool]]:
    """The rows of the scripts of which a character may be there, told by its higher byte: all characters at once."""
    table = bytearray(256)
    for number, (_, _, characters, _, _) in enumerate(_SCRIPTS, 1):
        first, last = ord(characters[1]) >> 8, ord(characters[3]) >> 8
        table[first : last + 1] = bytes([number]) * (last + 1 - first)
    shown = text.encode("utf-16-le", "surrogatepass")[1::2].translate(table)
    return [row for number, row in enumerate(_SCRIPTS, 1) if number in shown]


def read_english(tokens: list[str]) -> Reading | None:
    """What English alone makes of words, for disguises: all of them are about English."""
    return english().lexicon.read_alone(tokens)


class LatinFamily:
    """The languages in Latin letters, looked up together: a language is read only when two of its words occur."""

    def __init__(self, tables: Any) -> None:
        self.english: set[str]
        self.exact: dict[str, list[int]] = {}
        self.stems: dict[str, list[tuple[int, int]]] = {}
        self.starts: dict[str, list[int]] = {}  # the lengths that stems have, by their first letters
        self._languages: list[Language] = []
        self._lengths: dict[str, list[int]] = {}
        if tables is None:
            self._index()
        else:
            self.english, self.exact, self.stems, self.starts, self.count = tables

    @property
    def languages(self) -> list[Language]:
        """The languages themselves; most texts are told apart from all of them by the index alone."""
        if not self._languages:
            states = compiled("foreign")
            lexicons = (
                (Lexicon(name, tables) for name, tables in _latin_tables())
                if states is None
                else (Lexicon.restore(name, state) for name, state in states[0].items())
            )
            rules = foreign_rules()
            self._languages = [Language(lexicon, rules) for lexicon in lexicons]
        return self._languages

    def _index(self) -> None:
        lexicon = english().lexicon
        self.english = {*lexicon.masks, *lexicon.phrases, *load_table("disguises.txt")["fillers"].split()}
        for number, language in enumerate(self.languages):
            for word in sorted({*language.lexicon.masks, *language.lexicon.phrases}):
                self.exact.setdefault(word, []).append(number)
            for stem, mask in language.lexicon.stems.items():
                self.stems.setdefault(stem, []).append((number, mask))
        lengths: dict[str, set[int]] = {}
        for stem in self.stems:
            lengths.setdefault(stem[:_SHORTEST_STEM], set()).add(len(stem))
        self.starts = {start: sorted(found) for start, found in lengths.items()}
        self.count = len(self.languages)

    def state(self) -> tuple[object, ...]:
        return self.english, self.exact, self.stems, self.starts, self.count

    def candidates(self, known: set[str]) -> list[tuple[Language, dict[str, int]]]:
        """The languages that have at least two of the `known` words, with what their stems say about words."""
        counts = [0] * self.count
        stemmed: list[dict[str, int]] = [{} for _ in counts]
        own = known - self.english  # a word that English shares says nothing about the language
        for word in own & self.exact.keys():
            for number in self.exact[word]:
                counts[number] += 1
        stems, lengths = self.stems, self._lengths_of_stems()
        long, short = _SHORTEST_STEM + 1, _SHORTEST_STEM
        for word in [each for each in known if each[:long] in lengths or each[:short] in lengths]:
            more = lengths.get(word[:long], ()) if len(word) > short else ()
            for length in (*lengths.get(word[:short], ()), *more):
                if length > len(word):
                    break
                for number, mask in stems.get(word[:length], ()):
                    stemmed[number][word] = stemmed[number].get(word, 0) | mask
                    counts[number] += word in own
        likely = [number for number, count in enumerate(counts) if count >= _FEWEST_WORDS]
        return [(self.languages[number], stemmed[number]) for number in likely]

    def _lengths_of_stems(self) -> dict[str, list[int]]:
        """The lengths that stems have, by one letter more than `starts`: few words share that with a stem by chance."""
        if not self._lengths:
            for stem in sorted(self.stems, key=len):
                lengths = self._lengths.setdefault(stem[: _SHORTEST_STEM + 1], [])
                if len(stem) not in lengths:
                    lengths.append(len(stem))
        return self._lengths


class ScriptLanguage(Language):
    __slots__ = ()
    lexicon: ScriptLexicon


def _script(name: str, files: Sequence[str]) -> ScriptLanguage:
    language = _loaded.get(name)
    if not isinstance(language, ScriptLanguage):
        lexicon = ScriptLexicon(name, files)
        language = ScriptLanguage(lexicon, foreign_rules())
        _loaded[name] = language
    return language


def foreign_rules() -> list[Rule]:
    english()  # its lexicon defines every concept, so rules of other languages cannot name one that nobody knows
    if "foreign" not in _loaded:
        states = compiled("foreign")
        rules = load_rules("foreign.rules") if states is None else [Rule(*state) for state in states[1]]
        _loaded["foreign"] = Language(_loaded["english"].lexicon, rules)
    return _loaded["foreign"].rules


def latin_languages() -> LatinFamily:
    if not _latin:
        _latin.append(LatinFamily(compiled("latin")))
    return _latin[0]


def _latin_tables() -> Iterator[tuple[str, list[dict[str, str]]]]:
    tables: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in load_lines("latin.txt"):
        if line[0] == "[":
            current = tables.setdefault(line[1:-1], {})
        else:
            concept, _, words = line.partition(":")
            current[concept] = f"{current.get(concept, '')} {words}"
    common = tables.pop("common")
    for name, table in tables.items():
        yield name, [table, common, atoms.CONCEPTS]
