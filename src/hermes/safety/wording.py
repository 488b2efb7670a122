"""How much the wording of a text speaks for an attack: what each word, its letters and the word before it weigh.

Rules know what attacks say; people say it in ways nobody listed. The weights were learned from some thousand attacks
and as many harmless entries by several hands (`bin/weigh-wordings`, `tests/data/safety`). They stand in one table of
signed bytes, hundredths of the logarithm of the odds, in which a feature has the place its checksum says; so the table
is read in a moment and no word needs to be listed. Everything adds up, so a stretch of text is weighed by subtraction.
"""

from __future__ import annotations

import zlib
from itertools import islice
from operator import add

from hermes.safety.tables import load_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

STRETCH = 60  # words that are weighed together: an entry, or a few sentences of a longer text
PLACES = 1 << 18
TABLE = "wordings.table"
ENDS = frozenset(".!?\n")  # tokens that are no words
_NUMBER = "#"  # which number it is says nothing
_LONGEST = 20  # letters of a word that are looked at
_SHORTEST = 3  # letters of a word whose parts say more than itself
_WIDTH = 4  # bytes of a character in UTF-32
_MOST_KEPT = 20_000
_table: list[bytes] = []
_compiled: list[re.Pattern[str]] = []  # for text outside ASCII alone


class _Words(dict[str, int]):
    """What words weigh; each is worked out when it is first asked for."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MOST_KEPT:
            self.clear()
        weight = self[word] = _sum(word_features(word))
        return weight


class _Pairs(dict[tuple[str, str], int]):
    """What a word weighs behind another, as well."""

    def __missing__(self, pair: tuple[str, str]) -> int:
        if len(self) >= _MOST_KEPT:
            self.clear()
        weight = self[pair] = _sum((pair_feature(*pair),))
        return weight


_words = _Words()
_pairs = _Pairs()


def pieces_of(token: str) -> Sequence[str]:
    """A word as itself; Chinese, Japanese, Korean and Thai letter by letter, for their words have no firm bounds."""
    if token.isascii():
        return (_NUMBER,) if token.isdigit() else (token,)
    return token if _unspaced().search(token) else (token,)


def _unspaced() -> re.Pattern[str]:
    if not _compiled:
        import re  # plain prose does without

        _compiled.append(re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\u0e00-\u0e7f]"))
    return _compiled[0]


def weights_of(pieces: Sequence[str]) -> list[int]:
    """What each piece adds, with what it adds for following the one before."""
    added = list(map(_words.__getitem__, pieces))
    pairs = map(_pairs.__getitem__, zip(pieces, islice(pieces, 1, None), strict=False))
    return [*added[:1], *map(add, islice(added, 1, None), pairs)]


def weight_of_word(word: str) -> int:
    return _words[word]


def weight_of_pair(first: str, second: str) -> int:
    return _pairs[first, second]


def word_features(word: str) -> list[int]:
    """The places of a word and of every three and four letters in it."""
    letters = f"<{word[:_LONGEST]}>".encode("utf-32-le", "surrogatepass")
    found = [zlib.crc32(letters) % PLACES]
    if len(word) >= _SHORTEST:
        for length in (3 * _WIDTH, 4 * _WIDTH):
            found += [
                zlib.crc32(letters[at : at + length], length) % PLACES
                for at in range(0, len(letters) - length + 1, _WIDTH)
            ]
    return found


def pair_feature(first: str, second: str) -> int:
    return zlib.crc32(f"{first} {second}".encode("utf-8", "surrogatepass"), 1) % PLACES


def _sum(places: Iterable[int]) -> int:
    if not _table:
        _table.append(load_bytes(TABLE, PLACES))
    table = _table[0]
    total = 0
    for place in places:
        weight = table[place]
        total += weight if weight < 128 else weight - 256  # noqa: PLR2004 - a signed byte
    return total
