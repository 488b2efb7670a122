"""Scores how much the wording of a text resembles an attack: one linear classifier over words and letter n-grams.

A text is cut into sentences. Every run of neighbouring sentences, and every window of a long sentence, gets a score of
its own, and the highest counts, so harmless neighbours cannot weaken a verdict. `bin/train-scanner` makes the weights.
"""

from __future__ import annotations

import os.path
import struct
import zlib
from itertools import accumulate
from math import sqrt

from hermes.base.errors import ScannerUnavailable
from hermes.base.values import lazy_pattern, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CLASSES = (
    "override", "role_hijack", "jailbreak", "concealment", "exfiltration", "secret_reading", "persistence",
    "standing_order", "false_policy", "poisoned_advice", "prompt_leak", "forged_markup", "promptware", "hostile_action",
)  # fmt: skip
PLACES = 1 << 19  # of the table of weights: a feature's place is its hash
CLASS_PLACES = 1 << 12  # of the table that tells one class from another
WORD_BITS = 1 << 17  # of the Bloom filter with common English words
HEADER = struct.Struct("<8s6f")
MAGIC = b"hermes1\n"
FILE = os.path.join(os.path.dirname(__file__), "data", "weights.bin")

LONGEST_RUN = 60  # words that are scored together
MOST_SENTENCES = 8  # that are scored together
WINDOWS = (12, 24)  # words of a long sentence
STEP = 6  # words between the beginnings of two windows
SMOOTHING = 3  # words added to a length, so that very short texts do not get extreme scores
_LONGEST_WORD = 24  # letters whose n-grams count
_MOST_KEPT = 20_000  # words in each cache
START = b"^"  # stands for the words before the first one of a sentence
_IDEOGRAPH = 3  # bytes of one in UTF-8, at least

_SENTENCE_END = lazy_pattern("[.!?]+[\"')\\]]*(?=\\s)|[\n\r;\u3002\uff01\uff1f\uff1b\u0964\u061f\u06d4]+")
# That there is an address says much; which address says little.
_ADDRESS = lazy_pattern(r"(?:https?|ftp)://[^\s<>\"')\]]+|www\.[^\s<>\"')\]]+")
# Not name@1.2.3: that is a version of a package.
_MAIL = lazy_pattern(r"[\w+-]{1,64}(?:\.[\w+-]{1,64}){0,8}@(?!v?\d+\.\d)[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_WORD = lazy_pattern(r"[^\W_]++(?:'[^\W_]++)*+")
# Chinese, Japanese, Thai, Lao, Burmese and Khmer do not put spaces between words: their letters count one by one.
_UNSPACED = lazy_pattern("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")


@value
class Passage:
    """The part of a text with the highest score."""

    score: float
    start: int
    end: int
    words: tuple[str, ...]


class Weights:
    """The weights that `bin/train-scanner` made, used as bytes without parsing, so a first scan costs one read."""

    __slots__ = ("_classes", "_judged", "_known", "_table", "_words", "ask", "ask_quiet", "bias", "refuse", "step")

    def __init__(self, data: bytes) -> None:
        size = HEADER.size + PLACES + len(CLASSES) * CLASS_PLACES + WORD_BITS // 8
        if len(data) != size or not data.startswith(MAGIC):
            raise ScannerUnavailable(
                f"the threat scanner's weights {FILE} are damaged ({len(data):,} bytes instead of {size:,}); nothing"
                " can be judged harmless without them: reinstall Hermes"
            )
        _, self.bias, self.step, self.ask, self.ask_quiet, self.refuse, _ = HEADER.unpack_from(data)
        signed = memoryview(data).cast("b")
        end_of_classes = HEADER.size + PLACES + len(CLASSES) * CLASS_PLACES
        self._table = signed[HEADER.size : HEADER.size + PLACES]
        self._classes = signed[HEADER.size + PLACES : end_of_classes]
        self._known = data[end_of_classes:]
        self._words: dict[str, tuple[bytes, int]] = {}
        self._judged: dict[str, bool] = {}

    def knows(self, word: str) -> bool:
        """Whether this is a common English word; about one in three hundred other words passes too."""
        known = self._judged.get(word)
        if known is None:
            if len(self._judged) >= _MOST_KEPT:
                self._judged.clear()
            known = self._judged[word] = self.is_common(word)
        return known

    def is_common(self, word: str) -> bool:
        """The same, without caching: for letters that will hardly occur again."""
        bits = self._known
        first, second, third = word_bits(word)
        return bool(
            bits[first >> 3] >> (first & 7) & bits[second >> 3] >> (second & 7) & bits[third >> 3] >> (third & 7) & 1
        )

    def of_word(self, word: str) -> tuple[bytes, int]:
        """A word in bytes, and what it and its letter n-grams add."""
        found = self._words.get(word)
        if found is None:
            if len(self._words) >= _MOST_KEPT:
                self._words.clear()
            table = self._table
            raw = word.encode("utf-8", "surrogatepass")
            found = self._words[word] = raw, sum([table[place] for place in word_places(word, raw)])
        return found

    def of_sentence(self, words: Sequence[str]) -> list[int]:
        """What each word of a sentence adds, alone and after the words before it; training adds up the same."""
        table, added = self._table, list[int]()
        seen: set[int | str] = set()  # a repeated word adds nothing new, and code and lists repeat a lot
        second = third = fourth = START
        for word in words:
            raw, total = self.of_word(word)
            pairs = pair_places(raw, len(word), second, third, fourth)
            added.append((0 if word in seen else total) + sum([table[place] for place in pairs if place not in seen]))
            seen.update((word, *pairs))
            fourth, third, second = third, second, raw
        return added

    def class_of(self, words: Sequence[str]) -> str:
        """The kind of attack that the words resemble most."""
        totals = [0] * len(CLASSES)
        table = self._classes
        for place in class_places(words):
            start = place * len(CLASSES)
            for number in range(len(CLASSES)):
                totals[number] += table[start + number]
        return CLASSES[max(range(len(CLASSES)), key=totals.__getitem__)]


_MASK = PLACES - 1
_loaded: list[Weights] = []


def install(data: bytes) -> None:
    """Replaces the weights of the package, for training."""
    _loaded[:] = [Weights(data)]


def word_bits(word: str) -> tuple[int, int, int]:
    """The three bits of the Bloom filter for a word."""
    mixed = zlib.crc32(word.encode("utf-8", "surrogatepass"))
    return mixed % WORD_BITS, (mixed >> 15) % WORD_BITS, (mixed * 2654435761 >> 13) % WORD_BITS


def weights() -> Weights:
    """The weights of the package, read at the first scan; ScannerUnavailable if that fails."""
    if not _loaded:
        try:
            with open(FILE, "rb") as file:
                data = file.read()
        except OSError as error:
            raise ScannerUnavailable(
                f"the threat scanner cannot read {FILE} ({error}); nothing can be judged harmless without it:"
                " reinstall Hermes"
            ) from error
        _loaded.append(Weights(data))
    return _loaded[0]


def word_places(word: str, raw: bytes) -> set[int]:
    """The places of a word and of every three to five letters in it."""
    crc = zlib.crc32
    places = {crc(raw, 1) & _MASK}
    if len(word) == 1:
        return places
    if len(raw) == len(word):
        letters = b"<" + raw[:_LONGEST_WORD] + b">"
        for length in (3, 4, 5):
            places.update([crc(letters[at : at + length], 7) & _MASK for at in range(len(letters) - length + 1)])
        return places
    spelled = f"<{word[:_LONGEST_WORD]}>"
    pieces = [spelled[at : at + length] for length in (3, 4, 5) for at in range(len(spelled) - length + 1)]
    places.update([crc(piece.encode("utf-8", "surrogatepass"), 7) & _MASK for piece in pieces])
    return places


def pair_places(raw: bytes, size: int, second: bytes, third: bytes, fourth: bytes) -> tuple[int, ...]:
    """The features of a word after the previous one or two words; for ideographs, after three and four."""
    crc = zlib.crc32
    pairs = crc(raw, crc(second, 2)) & _MASK, crc(raw, crc(third, 3)) & _MASK
    if size > 1 or len(raw) < _IDEOGRAPH:
        return pairs
    return *pairs, crc(raw, crc(third + second, 5)) & _MASK, crc(raw, crc(fourth + third + second, 6)) & _MASK


def class_places(words: Sequence[str]) -> Iterator[int]:
    """The places of each word and each pair of words in the table of classes."""
    before = START
    for word in words:
        raw = word.encode("utf-8", "surrogatepass")
        yield zlib.crc32(raw) % CLASS_PLACES
        yield zlib.crc32(raw, zlib.crc32(before)) % CLASS_PLACES
        before = raw


def sentences(folded: str) -> Iterator[tuple[int, int, list[str]]]:
    """Where each sentence of a folded text begins and ends, and its words."""
    start = 0
    for end in _SENTENCE_END.finditer(folded):
        if words := words_of(folded[start : end.start()]):
            yield start, end.start(), words
        start = end.end()
    if words := words_of(folded[start:]):
        yield start, len(folded), words


def words_of(sentence: str) -> list[str]:
    """The words of a sentence as features: any address becomes one word, and so does any number."""
    if "://" in sentence or "www." in sentence:
        sentence = _ADDRESS.sub(" urlx ", sentence)
    if "@" in sentence:
        sentence = _MAIL.sub(" mailx ", sentence)
    found = _WORD.findall(sentence)
    if sentence.isascii():
        return ["0" if word.isdigit() else word for word in found]
    words: list[str] = []
    for word in found:
        if word.isascii():
            words.append("0" if word.isdigit() else word)
        else:
            words += [part for part in _UNSPACED.split(word) if part]
    return words


def runs(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of neighbouring sentences that are scored together, given how many words each sentence has."""
    for first in range(len(sizes)):
        total = 0
        for last in range(first, min(len(sizes), first + MOST_SENTENCES)):
            total += sizes[last]
            if total > LONGEST_RUN and last > first:
                break
            yield first, last + 1


def windows(size: int) -> Iterator[tuple[int, int]]:
    """The parts of a long sentence that are scored by themselves."""
    for width in WINDOWS:
        if size > width + STEP:
            yield from ((at, at + width) for at in range(0, size - width + STEP, STEP))


class _Scales(dict[int, float]):
    """The factor for a sum over this many words: by the square root, so that long runs do not win by length alone."""

    def __missing__(self, size: int) -> float:
        self[size] = 1 / sqrt(size + SMOOTHING)
        return self[size]


_SCALES = _Scales()


def heaviest(folded: str) -> Passage:
    """The part of a folded text that most resembles an attack."""
    known = weights()
    found = list(sentences(folded))
    added = [known.of_sentence(words) for _, _, words in found]
    best, first, last, part = -1e9, 0, 0, (0, 0)
    totals = list(accumulate(map(sum, added), initial=0))
    sizes = list(accumulate(map(len, added), initial=0))
    for start, end in runs([len(each) for each in added]):
        score = (totals[end] - totals[start]) * _SCALES[sizes[end] - sizes[start]]
        if score > best:
            best, first, last, part = score, start, end, (0, 0)
    for number, each in enumerate(added):
        for start, end in windows(len(each)):
            score = sum(each[start:end]) * _SCALES[min(end, len(each)) - start]
            if score > best:
                best, first, last, part = score, number, number + 1, (start, end)
    if not found:
        return Passage(score=-1e9, start=0, end=0, words=())
    words = [word for _, _, each in found[first:last] for word in each]
    shown = words[part[0] : part[1]] if part[1] else words
    return Passage(
        score=known.bias + best * known.step, start=found[first][0], end=found[last - 1][1], words=tuple(shown)
    )


def share_known(words: Iterable[str]) -> float:
    """The share of these words that are common English ones, from 0 to 1."""
    every = list(words)
    return sum(map(weights().knows, every)) / len(every) if every else 0.0
