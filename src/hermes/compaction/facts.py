"""Finds what a summary must not lose: identifiers, paths, numbers, errors, rules, decisions, open questions.

The work is bounded: the beginning is read, then from the newest message backwards until there is more than the block
could hold; rules and decisions, which come before all else there, are looked for further back. What is not read here
stays reachable through the pointers.
"""

from __future__ import annotations

import re
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hermes.compaction.block import is_block
from hermes.compaction.messages import at_most, calls_of, one_line, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hermes.compaction.messages import Message

    Finding = tuple[str, str]

# Full-width and other punctuation is spelled by name or code, so that nobody mistakes it for its ASCII twin.
QUESTION_MARKS = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
# One class of signs first, because the search for one skips fast; some end a sentence only before a blank.
FULL_STOPS = "\u3002\uff01\uff1f"  # end it in any case
SENTENCE_MARKS = re.compile(f"[.!?\u061f{FULL_STOPS}\\n](?:(?<![.!?\u061f])|(?=\\s|$))")
# Punctuation around a word: ASCII, typographic quotes and dots, East Asian.
TRIMMED = (
    ".,;:!?()[]{}<>\"'`*|=\u201c\u201d\u2018\u2019\u00ab\u00bb\u2026"
    "\u3001\u3002\uff0c\uff1b\uff1a\uff01\uff1f\uff08\uff09\u300c\u300d\u300e\u300f\u3010\u3011\u300a\u300b"
)

_WORDS = {
    "constraint": (
        "must never always only cannot can't don't dont shouldn't mustn't forbidden required require requires prefer "
        "avoid deadline limit budget constraint important ensure without "
        "nunca siempre debe deben solo prohibido evita prefiero obligatorio "
        "jamais toujours doit doivent interdit éviter préfère obligatoire "
        "nie niemals immer muss müssen darf dürfen verboten nur bevorzugt pflicht "
        "sempre mai deve devono vietato evitare "
        "никогда всегда должен должна должны нельзя только запрещено обязательно "
        "يجب دائما أبدا ممنوع فقط "
        "हमेशा कभी ज़रूरी केवल "
        "반드시 절대 항상 금지 필수"
    ),
    "decision": (
        "decided decision chose chosen agreed settled concluded picked instead rejected approved "
        "decidimos decidido elegimos acordamos "
        "décidé choisi convenu retenu "
        "entschieden beschlossen gewählt vereinbart "
        "deciso scelto concordato "
        "решили решено выбрали договорились "
        "قررنا اخترنا اتفقنا "
        "तय फैसला चुना "
        "결정 선택 합의"
    ),
    "open": (
        "todo fixme pending blocked unresolved remaining unclear "
        "pendiente bloqueado bloqué offen blockiert sospeso осталось открыто معلق बाकी 보류"
    ),
}
_PIECES = {
    "constraint": (
        "必须 必須 不要 不能 不得 禁止 只能 务必 務必 绝不 一定要 总是 必ず しないで 絶対 のみ "
        "ないでください 절대 반드시 하지 마 ต้อง ห้าม เสมอ"
    ),
    "decision": "决定 決定 选择了 選擇 同意 采用 採用 改用 定为 に決め 採用 にします 결정 ตัดสินใจ ตกลง",
    "open": "待办 待辦 未完成 尚未 还没 還沒 未解決 保留 残り 보류 ค้าง",
}


def _forms(words: str) -> frozenset[str]:
    plain = words.split()
    return frozenset(plain) | {word.capitalize() for word in plain} | {word.upper() for word in plain}


WORDS = {kind: _forms(words) for kind, words in _WORDS.items()}
ANY_WORD = frozenset().union(*WORDS.values())
PIECES = {kind: tuple(dict.fromkeys(pieces.split())) for kind, pieces in _PIECES.items()}
# Where none of this is, a text in another script is read like any: no piece, no question, no end without a blank.
FOREIGN_CUE = re.compile("|".join((*chain.from_iterable(PIECES.values()), *QUESTION_MARKS[1:], *FULL_STOPS)))


# Which of many texts hold a cue word: one look at all of them together, in half of the time it takes to part words.
#
# Each cue is known by six characters of it, blanks around it among them, and belongs to one of four groups. Three
# tables say which groups have a given character at the first and second, third and fourth, fifth and sixth place. The
# texts are translated with each table and read as one long number; where all places of a group have their bits, a cue
# may stand, and the words there are compared. `tests/compaction/test_cue_places.py` compares this with parting all
# words.

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
_LONGEST_CUE = max(map(len, _CUES))
_BEFORE, _BEHIND = _LONGEST_CUE + 2 - _PLACES, _LONGEST_CUE + 1  # how far a cue reaches around its six characters
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


# What there is still room for while facts are collected, so that nobody looks for what could not be kept anyway.

SENTENCES = ("constraint", "decision", "question", "open", "error")
# The order in which facts are kept when not all fit.
ORDER = ("constraint", "decision", "open", "question", "identifier", "url", "path", "error", "number")
_SOURCES = ("user", "assistant", "call", "result")
# Each source's share of the facts that are looked for.
_SHARES = {"user": 0.5, "assistant": 0.25, "call": 0.15, "result": 0.1}
IMPORTANCE = {
    (kind, source): len(ORDER) * (rank // 4 + nearness) + rank
    for rank, kind in enumerate(ORDER)
    for nearness, source in enumerate(_SOURCES)
}
_LEAST = 1 + max(IMPORTANCE.values())
_QUESTION = IMPORTANCE["question", "user"]
NAMES_SHARE = 1 / 3  # of the room, which questions leave to the newest names
_LONGEST_QUESTION = 400  # tokens of a question
_RULES = ("constraint", "decision", "open")
_NAMES = dict.fromkeys(("user", "assistant"), ("identifier", "url", "path", "number")) | {
    "call": ("identifier", "url", "path"),
    "result": ("error", "identifier", "url", "path"),
}
_NAME_RANKS = frozenset(
    IMPORTANCE[kind, source] for source, kinds in _NAMES.items() for kind in kinds if kind != "error"
)


def cost_of(kind: str, text: str) -> int:
    """Tokens that a fact takes where it is kept word for word."""
    return at_most(text) + (2 if kind in SENTENCES else 0)


class Shelf:
    """Room in tokens for facts of some kinds, which get it by their rank, the newer first."""

    def __init__(self, room: float, kinds: Iterable[str] = ORDER, first: str = "") -> None:
        """`first` is a source whose facts come before all others here."""
        self.kinds = frozenset(kinds)
        self.first = first
        self.closed = _LEAST if room > 0 else 0  # an older fact than those here finds room only above this rank
        self._room = room
        self._filled = [0] * _LEAST
        self._above = 0  # tokens of all facts above that rank

    def takes(self, rank: int) -> bool:
        """Whether there may be room for a fact of this rank that is older than the others."""
        return rank < self.closed

    def put(self, rank: int, cost: int) -> bool:
        """Puts a fact there that is older than the others; returns whether a rank has no room any more."""
        self._filled[rank] += cost
        self._above += cost
        if self._above <= self._room:
            return False
        self._above = self.closed = 0
        while self._above + self._filled[self.closed] <= self._room:
            self._above += self._filled[self.closed]
            self.closed += 1
        return True


class _Kept(Shelf):
    """The "kept exactly" section. Where questions would fill it, the newest names have a share of it."""

    def __init__(self, room: float, for_names: float) -> None:
        super().__init__(room)
        self._share = room * for_names
        self._takes_names = self._share > 0
        self._names = self._asked = self._longest = 0

    def takes(self, rank: int) -> bool:
        return rank < self.closed or (self._takes_names and rank in _NAME_RANKS)

    def put(self, rank: int, cost: int) -> bool:
        is_closed = rank < self.closed and super().put(rank, cost)
        if not self._takes_names:
            return is_closed
        if rank in _NAME_RANKS:
            self._names += cost
        elif rank <= _QUESTION:
            self._asked += cost
            self._longest = max(self._longest, cost)
        # The question that finds no room leaves less than it takes; as long as all find some, it may be any.
        unused = self._longest if self._asked > self._room - self._share else _LONGEST_QUESTION
        self._takes_names = self._names <= self._share + unused
        return is_closed or not self._takes_names


class Wanted:
    """How much is looked for: about `enough` facts, and of these only what finds room.

    `room` is that of the "kept exactly" section, `sections` are those of a text that shows facts, too: what lies there
    needs no other place. Facts are found the newest first and kept by importance. So once those of some importance and
    above take all the room, neither an older one of the same nor any of less importance can be kept; but for questions,
    which leave a part of it.
    """

    def __init__(
        self,
        enough: int,
        room: float = float("inf"),
        sections: Iterable[Shelf] = (),
        is_held: Callable[[str], bool] | None = None,
        for_names: float = NAMES_SHARE,
    ) -> None:
        """`is_held` says of a text that it needs no room in the section, because the summary has it."""
        self._left = {source: enough * share for source, share in _SHARES.items()}
        self._kept = _Kept(room, for_names)
        section_of = {kind: section for section in sections for kind in section.kinds}
        none = Shelf(0)
        self._places = {
            (kind, source): (shelf := section_of.get(kind, none), 0 if source == shelf.first else importance)
            for (kind, source), importance in IMPORTANCE.items()
        }
        self._is_held = is_held
        self.is_bounded = room != float("inf")
        self.rules = {"user", "assistant"}  # sources whose rules and decisions are looked for
        self.names = set(_SOURCES)  # sources whose names, numbers and errors are
        self.questions = True

    @property
    def speakers(self) -> set[str]:
        """Whose messages are read."""
        return {"assistant" if source == "call" else source for source in self.rules | self.names}

    def count(self, source: str) -> bool:
        """One more of a source was found; returns whether more of it are looked for."""
        self._left[source] -= 1
        if self._left[source] > 0:
            return True
        self.rules.discard(source)
        self.names.discard(source)
        return False

    def put(self, kind: str, source: str, text: str) -> None:
        """Gives room to a fact that is older than those before."""
        shelf, rank = self._places[kind, source]
        if not shelf.takes(rank):
            shelf, rank = self._kept, IMPORTANCE[kind, source]
            if not shelf.takes(rank) or (self._is_held is not None and self._is_held(text)):
                return
        if shelf.put(rank, cost_of(kind, text)):
            self.rules = {each for each in self.rules if self._any(_RULES, each)}
            self.names = {each for each in self.names if self._any(_NAMES[each], each)}
            self.questions = self._any(("question",), "user")

    def _any(self, kinds: Iterable[str], source: str) -> bool:
        """Whether an older fact of one of these kinds could find room."""
        for kind in kinds:
            section, rank = self._places[kind, source]
            if self._kept.takes(IMPORTANCE[kind, source]) or section.takes(rank):
                return True
        return False


SENTENCE = 280
_SOURCE_OF: dict[object, str] = {"user": "user", "tool": "result"}
_EVERYBODY = frozenset(("user", "assistant", "result"))
_OLDEST = 40  # messages of the beginning that are read in any case: rules are stated early
_MESSAGE = 6_000  # characters read of what a person or the assistant wrote
_RESULT = 300  # characters read at each end of a tool result
_WORDS_PER_MESSAGE = 40
_READ = 2_000_000  # characters of one history
_READ_FOR_RULES = 500_000  # characters, once there is no room for anything else
_TOGETHER = 128  # messages
_LONG_WORD = 80
_SHORTEST_NAME = 3
_SHORTEST_CODE = 5  # capitals: ENOSPC is a code, USA is not
_EMBEDDED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#\\%+~-]*[A-Za-z0-9]|\d+")
_FILE_NAME = re.compile(r"^[\w.@~+-]*[A-Za-z_][\w.@~+-]*\.[A-Za-z][A-Za-z0-9]{0,7}$")
_ODD_SIGNS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_/@#\\.")
_NOT_ODD = bytes(set(range(1, 256)) - {ord(sign) for sign in (*_ODD_SIGNS, "?")})
# From something odd to the end of its word; a capital that begins a word and a full stop that ends one are not.
_ODD_ENDING = re.compile(r"[0-9A-Z_/@#\\.](?:(?<![A-Z.])|(?<=\S[A-Z])|(?<=\.)(?=\S))\S*")
_DIGIT = re.compile("[0-9]")
_ERRORS = ("rror", "ERROR", "xception", "Traceback", "FAILED", "ailed", "错误", "失败", "エラー", "ошибка")
_PLAIN_ERRORS = ("rror", "xception", "ailed")  # all that a text can hold which is ASCII and has nothing odd
_FOREIGN_CUE = re.compile("|".join((*chain.from_iterable(PIECES.values()), *QUESTION_MARKS[1:])))
_FULL_STOP = re.compile(f"[{FULL_STOPS}]")


class Fact(NamedTuple):
    """One thing to keep, as it was written, and the position of the message it stands in."""

    kind: str
    text: str
    position: int
    source: str  # user, assistant, call or result


def find_facts(messages: Sequence[Message], wanted: Wanted | int) -> list[Fact]:
    """Facts of the messages in the order in which they stand, each text once: about so many, or what is wanted."""
    found: dict[str, Fact] = {}
    wanted = Wanted(wanted) if isinstance(wanted, int) else wanted
    # What is older than all that comes makes no room scarce.
    takes_room_from = _OLDEST if wanted.is_bounded else len(messages)
    for position, source, here in _findings(messages, wanted):
        for kind, text in here:
            if text not in found:
                found[text] = Fact(kind, text, position, source)
                if position >= takes_room_from:
                    wanted.put(kind, source, text)
                if not wanted.count(source):
                    break
    return sorted(found.values(), key=lambda fact: fact.position)


def _findings(messages: Sequence[Message], wanted: Wanted) -> Iterator[tuple[int, str, Iterable[Finding]]]:
    """Places of messages, sources of those still wanted, and (kind, text) of everything worth keeping there.

    Messages are read some at a time: what most of them do not hold is looked for in all of these at once.
    """
    oldest = min(_OLDEST, len(messages))
    places = [*range(oldest), *range(len(messages) - 1, oldest - 1, -1)]
    unread = _READ
    for start in range(0, len(places), _TOGETHER):
        some = places[start : start + _TOGETHER]
        if not (speakers := wanted.speakers):
            return
        if len(speakers) < len(_EVERYBODY):
            some = [at for at in some if _SOURCE_OF.get(messages[at].get("role"), "assistant") in speakers]
        read = [messages[at] for at in some]
        texts = _texts(read)
        if not (wanted.names or wanted.questions):
            unread = min(unread, _READ_FOR_RULES)
        unread -= sum(map(len, texts))
        if unread < 0:
            return
        yield from (_everything if wanted.names or wanted.questions else _rules)(some, read, texts, wanted)


def _everything(
    places: Sequence[int], messages: Sequence[Message], texts: Sequence[str], wanted: Wanted
) -> Iterator[tuple[int, str, Iterable[Finding]]]:
    sources = [_SOURCE_OF.get(message.get("role"), "assistant") for message in messages]
    encoded = _encoded(texts)
    spoken = [number for number, source in enumerate(sources) if source != "result"]
    cued = texts_with_cues([texts[number] for number in spoken], [encoded[number] for number in spoken])
    with_cues = {spoken[number] for number in cued.numbers}
    for number, (at, source, text, odd) in enumerate(zip(places, sources, texts, _oddities(encoded), strict=True)):
        message = messages[number]
        here: list[Finding] = []
        if source == "result":
            here = _of_result(text, odd) if source in wanted.names else here
        # Most texts end here, so this is asked without a call.
        elif (source in wanted.rules or source in wanted.names) and (
            (has_word := number in with_cues) or (odd and len(odd) > (text[0] in _ODD_SIGNS) + (text[-1] in _ODD_SIGNS))
        ):
            here = _of_text(text, source, odd, wanted, has_word=has_word, has_pieces=cued.has_pieces)
        if here and not is_block(message):  # a block is read by itself, with `facts_in`
            yield at, source, here
        if "tool_calls" in message and "call" in wanted.names and not is_block(message):
            yield at, "call", _of_calls(message)


def _texts(messages: Sequence[Message]) -> list[str]:
    """What is read of messages: of a long one its beginning and its end."""
    contents = [message.get("content") for message in messages]
    return [
        content if type(content) is str and len(content) <= 2 * _RESULT else _read(message)
        for content, message in zip(contents, messages, strict=True)
    ]


def _read(message: Message) -> str:
    text = text_of(message)
    if message.get("role") == "tool":
        return ends_of(text)
    return text if len(text) <= _MESSAGE else text[: _MESSAGE * 2 // 3] + "\n" + text[-_MESSAGE // 3 :]


def _encoded(texts: Sequence[str]) -> list[bytes]:
    """Each in ASCII, "?" for what is not."""
    return [text.encode("ascii", "replace") for text in texts]


def _oddities(texts: Sequence[bytes]) -> list[bytes]:
    """What is odd in each text: digits, capitals, signs of names, question marks (and "?" for what is not ASCII)."""
    odd = b"\0".join(texts).translate(None, _NOT_ODD).split(b"\0")
    if len(odd) == len(texts):
        return odd
    # One of them has the sign that stands between them, so each is looked at by itself.
    return [text.translate(None, _NOT_ODD + b"\0") for text in texts]


def facts_in(text: str) -> list[Fact]:
    """Facts of a text that stands for older messages: an earlier summary."""
    found = dict.fromkeys([*sentences_of(text), *words_of(text)])
    return [Fact(kind, each, -1, "assistant") for kind, each in found]


def by_importance(facts: Iterable[Fact]) -> list[Fact]:
    """What people said before what tools said, rules and decisions before numbers, newer before older."""
    return sorted(facts, key=lambda fact: (IMPORTANCE[fact.kind, fact.source], -fact.position))


def words_of(text: str) -> Iterator[tuple[str, str]]:
    """(kind, word) of every identifier, path, address and number in a text.

    All of them have something odd in them; the search skips through prose without looking at each word.
    """
    end = 0
    for found in _ODD_ENDING.finditer(text):
        start, end = end, found.end()
        word = text[start:end].rsplit(None, 1)[-1].strip(TRIMMED)
        if word.isalpha():
            if not word.islower() and not word[1:].islower() and _is_name(word):
                yield "identifier", word
        elif word.isascii():
            if kind := _kind(word):
                yield kind, word
        else:
            for piece in _EMBEDDED.findall(word):
                if kind := _kind(piece):
                    yield kind, piece


def sentences_of(text: str, *, has_word: bool = True, has_pieces: bool = True) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of every rule, decision, open matter and question in a text.

    `has_word` is False when none of its words, as blanks part them, is a cue; `has_pieces` when it holds no cue of a
    script without blanks, and no full stop of one.
    """
    is_foreign = has_pieces and not text.isascii()
    has_word |= is_foreign  # there a sentence may end, and the next begin, without a blank
    has_piece = is_foreign and _FOREIGN_CUE.search(text) is not None
    for sentence in _sentences(text):
        kind = None
        if has_word and not ANY_WORD.isdisjoint(words := sentence.split()):
            kind = next(kind for kind, cues in WORDS.items() if not cues.isdisjoint(words))
        elif has_piece:
            kind = next((kind for kind, cues in PIECES.items() if any(map(sentence.__contains__, cues))), None)
        if kind is None and sentence.endswith(QUESTION_MARKS):
            kind = "question"
        if kind is not None:
            yield kind, one_line(sentence, SENTENCE)


def ends_of(text: str) -> str:
    """Where a tool's output says how it went: its beginning and its end."""
    return text if len(text) <= 2 * _RESULT else f"{text[:_RESULT]}\n{text[-_RESULT:]}"


def failure_in(text: str, words: Iterable[str] = _ERRORS) -> str:
    """The line that tells of an error; "" without one."""
    for word in words:
        if word in text:
            return next(one_line(line, SENTENCE) for line in text.splitlines() if word in line)
    return ""


def _of_text(text: str, source: str, odd: bytes, wanted: Wanted, *, has_word: bool, has_pieces: bool) -> list[Finding]:
    # What the assistant asks itself is no open question once it went on; what it decided is a decision.
    questions = source == "user" and wanted.questions
    here: list[Finding] = []
    if has_word or (questions and "?" in text) or (has_pieces and _has_foreign_cue(text)):
        here = list(sentences_of(text, has_word=has_word, has_pieces=has_pieces))
        if not questions:
            here = [each for each in here if each[0] != "question"]
    # A capital at the beginning and a full stop at the end are nothing odd.
    if source in wanted.names and len(odd) - odd.count(b"?") > (text[0] in _ODD_SIGNS) + (text[-1] in _ODD_SIGNS):
        here += islice(words_of(text), _WORDS_PER_MESSAGE)
    return here


def _rules(
    places: Sequence[int], messages: Sequence[Message], texts: Sequence[str], _wanted: Wanted
) -> Iterator[tuple[int, str, Iterable[Finding]]]:
    """Where nothing but rules, decisions and open matters is wanted any more."""
    with_cues, has_pieces = texts_with_cues(texts, _encoded(texts))
    if not (with_cues or has_pieces):
        return
    for number, (at, message, text) in enumerate(zip(places, messages, texts, strict=True)):
        has_word = number in with_cues
        if (has_word or (has_pieces and _has_foreign_cue(text))) and not is_block(message):
            found = sentences_of(text, has_word=has_word, has_pieces=has_pieces)
            here = [each for each in found if each[0] != "question"]
            yield at, _SOURCE_OF.get(message.get("role"), "assistant"), here


def _has_foreign_cue(text: str) -> bool:
    """Whether there is a cue of a script without blanks, or a word that is one behind such a script's full stop."""
    if text.isascii():
        return False
    if _FOREIGN_CUE.search(text):
        return True
    return _FULL_STOP.search(text) is not None and not ANY_WORD.isdisjoint(_FULL_STOP.sub(" ", text).split())


def _of_result(text: str, odd: bytes) -> list[Finding]:
    if not odd and text.isascii():
        line = failure_in(text, _PLAIN_ERRORS)
        return [("error", line)] if line else []
    line = failure_in(text)
    here = [("error", line)] if line else []
    return here + [each for each in islice(words_of(text), _WORDS_PER_MESSAGE // 4) if each[0] != "number"]


def _of_calls(message: Message) -> Iterator[Finding]:
    for _, _, arguments in calls_of(message):
        for each in words_of(arguments[:_RESULT].replace('"', " ").replace("\\n", " ")):
            if each[0] != "number":
                yield each


def _kind(word: str) -> str | None:
    """What a word of ASCII characters is, when it is worth keeping."""
    if word.isidentifier() and word[0] != "_" and not word.isalpha():  # most are, and need no closer look
        return "identifier" if len(word) >= _SHORTEST_NAME else None
    if "://" in word:
        return "url"
    has_digit = len(word) >= _LONG_WORD or _DIGIT.search(word) is not None
    has_letter = word.lower() != word.upper()
    if has_digit and not has_letter:
        return "number" if len(word) > 1 else None
    if len(word) < _SHORTEST_NAME or not (has_letter or has_digit):
        return None
    if "/" in word or "\\" in word or ("." in word and _FILE_NAME.match(word)):
        return "path"
    return "identifier" if has_digit or "_" in word or "@" in word or "#" in word else None


def _is_name(word: str) -> bool:
    """`getUser` and `ENOSPC`; not `Title` or `USA`."""
    if word.isupper():
        return len(word) >= _SHORTEST_CODE
    return any(a.islower() and b.isupper() for a, b in pairwise(word))


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for found in SENTENCE_MARKS.finditer(text):
        if sentence := text[start : found.end()].strip():
            yield sentence
        start = found.end()
    if sentence := text[start:].strip():
        yield sentence
