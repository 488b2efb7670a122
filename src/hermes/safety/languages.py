"""Reads a text in each language it may be written in."""

from __future__ import annotations

import re
import sys

from hermes.safety import rules as atoms
from hermes.safety.folding import beyond_ascii, folded_places
from hermes.safety.lexicon import (
    LONG_TEXT,
    UNKNOWN,
    WIDEST_RULE,
    Index,
    Lexicon,
    Places,
    Reading,
    Words,
    bit,
    in_parts,
    known_bits,
    spans_around,
)
from hermes.safety.rules import Rule, load_lexicon, load_rules
from hermes.safety.tables import compiled, load_lines, load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[\ue800-\ue8ff]|[.!?](?=\s|$)|\n(?=\n)")
PLAIN_TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)?|[\ue800-\ue8ff]|[.!?](?=\s|$)|\n(?=\n)")
# The same piece by piece, because an expression that begins with a certain sign is searched for ten times as fast.
_ENDS = tuple(map(re.compile, (r"\.(?=\s|$)", r"!(?=\s|$)", r"\?(?=\s|$)", r"\n(?=\n)")))
_JOINED = re.compile(r"'(?<=[^\W_]')([^\W_]+)'?")
_END, _APOSTROPHE = "\x01", "\x02"  # for the time being
_KEPT = {sign: sign for sign in "abcdefghijklmnopqrstuvwxyz0123456789"} | {_END: ".", _APOSTROPHE: "'"}
_WORDS_AND_ENDS = bytes(ord(_KEPT.get(chr(code), " ")) for code in range(256))
_SINGLE_BYTES = [chr(code) for code in range(0x80, 0x100) if not chr(code).isspace()]
_MOST_KINDS = 200  # of characters at the beginning; where there are more, no others are looked at
_MOST_REPLACED = 40  # characters beyond ASCII; where there are more kinds, the expression is quicker


def words_of(marked: str, *, in_ascii: bool = False) -> list[str]:
    """The words, atoms and sentence ends of a text."""
    if len(marked) >= LONG_TEXT and len(set(marked[:LONG_TEXT])) <= _MOST_KINDS:
        others = set(beyond_ascii(marked))
        kept = sorted(sign for sign in others if sign.isalnum() or sign in atoms.SIGNS)
        if len(kept) <= _MOST_REPLACED:
            return _split(marked, dict(zip(kept, [sign for sign in _SINGLE_BYTES if sign not in others], strict=False)))
    return (PLAIN_TOKEN if in_ascii else TOKEN).findall(marked)


def _split(text: str, single_bytes: dict[str, str]) -> list[str]:
    """A long text is cut in a third of the time where all but words is spaces. Every end of a sentence is alike."""
    for end in _ENDS:
        text = end.sub(_END, text)
    if "'" in text:
        text = _JOINED.sub(rf"{_APOSTROPHE}\1 ", text)
    table = bytearray(_WORDS_AND_ENDS)
    for sign, byte in single_bytes.items():
        text = text.replace(sign, f" {byte} " if sign in atoms.SIGNS else byte)
        table[ord(byte)] = ord(byte)
    text = text.replace(_END, f" {_END} ").encode("latin-1", "replace").translate(table).decode("latin-1")
    for sign, byte in single_bytes.items():
        text = text.replace(byte, sign)
    return text.split()


# Reads scripts that inflect richly or write no spaces: their words are searched for inside the text.

_WIDEST_GAP = 12
_UNREAD = "\0"  # which folding leaves nowhere
_CODING = "utf-32-le"


class ScriptLexicon(Lexicon):
    """A vocabulary whose words are told by their first two characters, which are compared as one number."""

    def __init__(self, name: str, files: Sequence[str]) -> None:
        from hermes.safety.folding import fold

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
        self.lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        self.pairs = {_as_number(start): self.words[start] for start, found in lengths.items() if found == {2}}
        self.starts = frozenset(map(_as_number, lengths))
        self.singles = {word: code for word, code in self.words.items() if len(word) == 1}
        self._single = re.compile(f"[{re.escape(''.join(self.singles))}]")

    def search(self, text: Pairs, word_start: bool, spaced: bool) -> Reading | None:  # noqa: FBT001 - a row of a table
        """The words of this vocabulary in a text; `spaced` is whether spaces stand between words."""
        starts, ends, codes = self.words_in(text, word_start)
        if not codes:
            return None
        gaps: dict[str, str] = {}
        for at, (start, done) in enumerate(zip(starts, (0, *ends), strict=False)):
            if start > done:
                between = text.text[done:start]
                gap = gaps.get(between)
                if gap is None:
                    gap = gaps[between] = UNKNOWN * _gap(between, spaced=spaced)
                if spaced and not at and len(gap) < _WIDEST_GAP and not between[0].isspace():
                    gap += UNKNOWN  # what stands before the first word is whole words
                codes[at] = gap + codes[at]
        read = "".join(codes)
        present = 0
        for code in set(read):
            present |= self.mask_behind(code)
        return Reading(self, read, Index(lambda: list(range(len(read)))), present, Places(codes, starts, ends))

    def words_in(self, pairs: Pairs, word_start: bool) -> tuple[list[int], list[int], list[str]]:  # noqa: FBT001 - as above
        """Where the longest word at each place begins and ends, and its code; none inside another."""
        text, words, lengths, known, singles = pairs.text, self.words, self.lengths, self.pairs, self.singles
        numbers = pairs.numbers
        starts: list[int] = []
        ends: list[int] = []
        codes: list[str] = []
        done = 0
        for at in self._likely(pairs, word_start):
            if at < done:
                continue
            size, code = 2, known.get(numbers[at])
            if code is None:
                for size in lengths.get(text[at : at + 2], ()):
                    code = words.get(text[at : at + size])
                    if code is not None:
                        break
                else:
                    size, code = 1, singles.get(text[at])
                    if code is None:
                        continue
            done = at + size
            starts.append(at)
            ends.append(done)
            codes.append(code)
        return starts, ends, codes

    def _likely(self, pairs: Pairs, word_start: bool) -> list[int]:  # noqa: FBT001 - as above
        """Where a word may begin: anywhere, or only where no other word goes on."""
        numbers, starts = pairs.numbers, self.starts
        places = [at for at in pairs.likely if numbers[at] in starts]
        alone = [found.start() for span in pairs.spans for found in self._single.finditer(pairs.text, *span)]
        places = sorted([*places, *alone]) if alone else places
        if not word_start:
            return places
        before = " " + pairs.text
        return [at for at in places if not before[at].isalnum()]


class Pairs:
    """A text, each two neighbours of its characters as one number, and where any word of some vocabularies may begin.

    Most places are told from the beginning of a word once for all of these. Only some parts of the text are read.
    """

    __slots__ = ("likely", "numbers", "spans", "text")

    def __init__(self, text: str, vocabularies: Iterable[ScriptLexicon], spans: Sequence[tuple[int, int]]) -> None:
        parts = in_parts(text, spans)
        parts[::2] = [_UNREAD * len(part) for part in parts[::2]]
        self.text, self.spans = "".join(parts), spans
        starts = frozenset[int]().union(*(each.starts for each in vocabularies))
        self.numbers = [0] * len(text)  # the last character of a part has no neighbour
        self.likely: list[int] = []
        for start, end in spans:
            raw = memoryview(text[start:end].encode(_CODING, "surrogatepass"))
            for first in (0, 1):
                size = (end - start - first) // 2 * 8
                self.numbers[start + first : end - 1 : 2] = raw[4 * first : 4 * first + size].cast("Q").tolist()
            numbers = enumerate(self.numbers[start:end], start)
            self.likely += [at for at, number in numbers if number in starts]


def _as_number(pair: str) -> int:
    return int.from_bytes(pair.encode(_CODING), sys.byteorder)


def _gap(between: str, *, spaced: bool) -> int:
    """How many unknown words stand between two known ones; the rest of an inflected word is no word."""
    if _UNREAD in between:
        return WIDEST_RULE
    words = between.split()
    if not spaced:
        return min(_WIDEST_GAP, sum(map(len, words)) // 2)
    return min(_WIDEST_GAP, len(words) - (not between[0].isspace()))


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
