"""Which languages a text is read in, and how: spaced words for Latin letters, searched stems for other scripts."""

from __future__ import annotations

import re
from itertools import chain, starmap
from operator import methodcaller

from hermes.safety import atoms
from hermes.safety.lexicon import UNKNOWN, Lexicon, Reading, Words, bit, known_bits
from hermes.safety.places import Index, Places
from hermes.safety.rules import Rule, load_lexicon, load_rules
from hermes.safety.tables import compiled, load_lines, load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

_FEWEST_WORDS = 2
_WIDEST_GAP = 12
_SHORTEST_STEM = 2
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
_LAST_ASCII = "\x7f"
_SPAN, _START = methodcaller("span"), methodcaller("start")
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
        characters_in_use = "".join(set(text))
        for name, files, characters, word_start, spaced in _SCRIPTS:
            if re.search(characters.removesuffix("{2}"), characters_in_use) and re.search(characters, text):
                script = _script(name, files)
                reading = script.lexicon.search(marked, word_start, spaced)
                if reading is not None:
                    yield reading, script.rules


def read_english(tokens: list[str]) -> Reading | None:
    """What English alone makes of words, for disguises: all of them are about English."""
    lexicon = english().lexicon
    words = Words(tokens)
    words.locate(lexicon.masks, lexicon.phrases)
    return lexicon.read(words)


class LatinFamily:
    """The languages in Latin letters, looked up together: a language is read only when two of its words occur."""

    def __init__(self, tables: Any) -> None:
        self.english: set[str]
        self.exact: dict[str, list[int]] = {}
        self.stems: dict[str, list[tuple[int, int]]] = {}
        self.starts: dict[str, list[int]] = {}  # the lengths that stems have, by their first letters
        self._languages: list[Language] = []
        self._beginnings: frozenset[str] = frozenset()
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
        stems, starts = self.stems, self.starts
        if not self._beginnings:
            self._beginnings = frozenset(stem[: _SHORTEST_STEM + 1] for stem in stems)
        beginnings, long, short = self._beginnings, _SHORTEST_STEM + 1, _SHORTEST_STEM
        for word in [each for each in known if each[:long] in beginnings or each[:short] in beginnings]:
            for length in starts.get(word[:_SHORTEST_STEM], ()):
                if length > len(word):
                    break
                for number, mask in stems.get(word[:length], ()):
                    stemmed[number][word] = stemmed[number].get(word, 0) | mask
                    counts[number] += word in own
        likely = [number for number, count in enumerate(counts) if count >= _FEWEST_WORDS]
        return [(self.languages[number], stemmed[number]) for number in likely]


class ScriptLexicon(Lexicon):
    """A vocabulary that is searched for inside the text, for scripts that inflect richly or write no spaces."""

    def __init__(self, name: str, files: Sequence[str]) -> None:
        from hermes.safety.unicode import fold

        super().__init__(name, [])
        words: dict[str, int] = {}
        for table in (*(load_table(f"{file}.txt") for file in files), atoms.CONCEPTS):
            for concept, listed in table.items():
                for word in listed.split():
                    plain = fold(word.replace("_", " ")) if table is not atoms.CONCEPTS else word
                    words[plain] = words.get(plain, 0) | bit(concept)
        lengths: dict[str, set[int]] = {}
        self.words: dict[str, str] = {}
        for word in words:
            lengths.setdefault(word[:2], set()).add(len(word))
            mask = 0
            for length in range(1, len(word) + 1):  # a short stem still counts inside a longer word
                mask |= words.get(word[:length], 0)
            self.words[word] = self.code(mask)
        self.singles = {word: code for word, code in self.words.items() if len(word) == 1}
        self.lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        self.pairs = {start: self.words[start] for start, found in lengths.items() if found == {2}}
        firsts = re.escape("".join(sorted({start[0] for start in self.lengths})))
        # The sign comes first in each expression, so that the search can look for it alone.
        self.at_word_start = re.compile(rf"[{firsts}](?<![^\W_][{firsts}])")
        self.anywhere = re.compile(
            f"[{re.escape(''.join(sorted({s[0] for s in self.lengths if s[0] > _LAST_ASCII})))}]+"
        )
        pairs = (f"{re.escape(s[0])}(?={re.escape(s[1:])})" for s in sorted(self.lengths) if s[0] < _LAST_ASCII)
        self.ascii = re.compile("|".join(pairs) or "(?!)")

    def search(self, text: str, word_start: bool, spaced: bool) -> Reading | None:  # noqa: FBT001 - a row of the table above
        codes: list[str] = []
        places: list[tuple[int, int]] = []
        gaps: dict[str, str] = {}
        done = 0
        for start, end, code in self._words_in(text, word_start):
            gap = ""
            if start > done:
                between = text[done:start]
                if between not in gaps:
                    gaps[between] = UNKNOWN * _gap(between, spaced=spaced)
                gap = gaps[between]
                if spaced and not done and len(gap) < _WIDEST_GAP and not between[0].isspace():
                    gap += UNKNOWN  # what stands before the first word is whole words
            codes.append(gap + code)
            places.append((start, end))
            done = end
        if not codes:
            return None
        read = "".join(codes)
        present = 0
        for code in set(read):
            present |= self.mask_behind(code)
        return Reading(self, read, Index(lambda: list(range(len(read)))), present, Places(codes, places))

    def _words_in(self, text: str, word_start: bool) -> Iterator[tuple[int, int, str]]:  # noqa: FBT001 - as above
        """(start, end, code) of the longest word at each place, none inside another."""
        words, lengths, pairs, singles = self.words, self.lengths, self.pairs, self.singles
        done = 0
        for at in self._candidates(text, word_start):
            if at < done:
                continue
            pair = text[at : at + 2]
            length, code = 2, pairs.get(pair)
            if code is None:
                for length in lengths.get(pair, ()):
                    code = words.get(text[at : at + length])
                    if code is not None:
                        break
                else:
                    length, code = 1, singles.get(text[at])
                    if code is None:
                        continue
            done = at + length
            yield at, done, code

    def _candidates(self, text: str, word_start: bool) -> Iterable[int]:  # noqa: FBT001 - as above
        """Where a word may begin, by its first character."""
        if word_start:
            return map(_START, self.at_word_start.finditer(text))
        places = list(chain.from_iterable(starmap(range, map(_SPAN, self.anywhere.finditer(text)))))
        in_ascii = list(map(_START, self.ascii.finditer(text)))
        return sorted([*places, *in_ascii]) if in_ascii else places


def _gap(between: str, *, spaced: bool) -> int:
    """How many unknown words stand between two known ones; the rest of an inflected word is no word."""
    words = between.split()
    if not spaced:
        return min(_WIDEST_GAP, sum(map(len, words)) // 2)
    return min(_WIDEST_GAP, len(words) - (not between[0].isspace()))


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
