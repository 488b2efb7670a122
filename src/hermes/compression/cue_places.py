"""Which of many texts hold a cue word: one look at all of them together, in half of the time it takes to part words.

Each cue is known by six characters of it, blanks around it among them, and belongs to one of four groups. Three tables
say which groups have a given character at the first and second, third and fourth, fifth and sixth place. The texts are
translated with each table and read as one long number; where all places of a group have their bits, a cue may stand,
and the words there are compared. `tests/compression/test_cue_places.py` compares this with parting all words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hermes.compression.cues import ANY_WORD, FOREIGN_CUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Chosen by trying many: of a thousand words of prose or code about a dozen look like one of these.
_GROUPS = (
    (
        " alway| chois| chose| debe | deben| decid| decis| deve | immer| offen| rejec| remai|damos |erbote|erdit "
        "|fixme |gimos |hibido|limit |locked|lockie|obliga|orbidd|picked|prefer|prefie|schied|solved"
    ),
    " bloqu| budge| solo | todo |avoid |bevorz|equire|greed |never |roved |sempre|stead |toujou|ttled ",
    (
        " jamai| only | scelt| uncle| vieta|can't |cannot|conclu|concor|deadli|ldn't |licht |ndient|nding |nunca "
        "|raint |reinba|retenu|rtant |withou"
    ),
    (
        " darf | doit | doive| don't| dont | ensur| evita| mai | muss | must | mustn| nie | nur | niema| siemp| sospe"
        "|devono|onvenu|ossen "
    ),
)
_PLACES = 6
_ODD_PLACE = 4  # bits further up than the place before it
_NEXT = 8 + _ODD_PLACE  # bits from a place to the one behind it
_FOUR_GROUPS = b"\x0f"
_USUAL = 60_000  # characters
_USUAL_MARKS = int.from_bytes(_FOUR_GROUPS * _USUAL, "little")
# What parts words; "?" stands for all that is not ASCII, a blank of another script perhaps, and zero parts texts.
_BLANKS = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f?\0"
_PLAIN = bytes(ord(" ") if byte in _BLANKS else byte for byte in range(256)).lower()
_CUES = frozenset(word.encode() for word in ANY_WORD if word.isascii() and word.islower())
_LONGEST = max(map(len, _CUES))
_BEFORE, _BEHIND = _LONGEST + 2 - _PLACES, _LONGEST + 1  # how far a cue reaches around its six characters
_ASCII = bytes(range(128))
# The first bytes, in UTF-8, of letters of other scripts in cues; where there are none of these, there is no such cue.
_FOREIGN = {letter.encode()[0] for word in ANY_WORD for letter in word if not letter.isascii()}
_NOT_FOREIGN = bytes(set(range(256)) - _FOREIGN)


class Cued(NamedTuple):
    """The numbers of texts one of whose words is a cue, and whether one may hold a cue of a script without blanks."""

    numbers: set[int]
    has_pieces: bool


def _tables() -> tuple[bytes, ...]:
    tables = [bytearray(256) for _ in range(_PLACES // 2)]
    for group, words in enumerate(_GROUPS):
        for word in words.split("|"):
            for place, sign in enumerate(word.ljust(_PLACES, "*")):
                bit = 1 << (group + _ODD_PLACE * (place % 2))
                for byte in _accepted(sign):
                    tables[place // 2][byte] |= bit
    return tuple(map(bytes, tables))


def _accepted(sign: str) -> Sequence[int]:
    if sign == "*":  # behind a word of less than six characters
        return range(256)
    return _BLANKS if sign == " " else (sign + sign.upper()).encode()


_TABLES = _tables()


def texts_with_cues(texts: Sequence[str], encoded: Sequence[bytes]) -> Cued:
    """`encoded` are the texts in ASCII, "?" for anything else."""
    suspected: set[int] = set()
    together = b"\0".join((b"", *encoded, b""))
    if together.count(b"\0") > len(texts) + 1:
        suspected.update(range(len(texts)))  # one of them holds what parts them
    else:
        number, at = -1, 0
        for place in _where_cues_are(together):
            number += together.count(b"\0", at, place + 1)
            at = place + 1
            suspected.add(number)
    foreign = [number for number, text in enumerate(texts) if not text.isascii()]
    letters = "".join([texts[number] for number in foreign]).encode("utf-8", "surrogatepass").translate(None, _ASCII)
    if letters.translate(None, _NOT_FOREIGN):
        suspected.update(foreign)
    return Cued(
        {number for number in suspected if not ANY_WORD.isdisjoint(texts[number].split())},
        FOREIGN_CUE.search(letters.decode("utf-8", "surrogatepass")) is not None,
    )


def _where_cues_are(text: bytes) -> list[int]:
    places = list(_where_cues_may_be(text))
    around = [text[max(place - _BEFORE, 0) : place + _BEHIND] for place in places]
    if _CUES.isdisjoint(b" ".join(around).translate(_PLAIN).split()):
        return []
    return [
        place
        for place, words in zip(places, around, strict=True)
        if not _CUES.isdisjoint(words.translate(_PLAIN).split())
    ]


def _where_cues_may_be(text: bytes) -> Iterator[int]:
    length = len(text)
    padded = text.ljust(length + _PLACES)
    common = _USUAL_MARKS if length <= _USUAL else int.from_bytes(_FOUR_GROUPS * length, "little")
    for number, table in enumerate(_TABLES):
        marks = int.from_bytes(padded[2 * number : 2 * number + length + 1].translate(table), "little")
        common &= marks & (marks >> _NEXT)
    if common:
        found = common.to_bytes(length + 1, "little")
        at = -1
        for mark in found.translate(None, b"\0"):
            at = found.index(mark, at + 1)
            yield at
