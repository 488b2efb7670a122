"""Finds hidden text, and text that imitates the frame around it: template tokens, role lines, fences, headers."""

from __future__ import annotations

import re
from itertools import islice

from hermes.base.values import value
from hermes.safety.lexicon import LONG_TEXT, Beginnings
from hermes.safety.tables import load_lines
from hermes.safety.verdict import ASK, CLEAN, REFUSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SUSPECTS = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_TAGS = "[\U000e0000-\U000e007f]+"
_FLAG = re.compile("^[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f$")
_SELECTORS = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
)
_INVISIBLE_RUN = f"[{_INVISIBLE}]{{6,}}"
_BITS = f"[{_INVISIBLE}]"
# An override ends with its sign, or with the paragraph.
_OVERRIDE = re.compile("([\u202d\u202e])([^\u202c\n\r\x1c-\x1e\x85\u2029]*)")
_EMBEDDING = re.compile("[\u202a\u202b\u2066\u2067\u2068]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_FEWEST_BITS = 24
_BLACK_FLAG = "\U0001f3f4"
_TAG_LETTERS = {0xE0000 + code: chr(code) if 0x20 <= code < 0x7F else None for code in range(0x80)}  # noqa: PLR2004 - ASCII
_FIRST_SUPPLEMENT = "\U000e0100"
_STRAY_SELECTORS = 1  # one may be a paste accident


@value
class Hidden:
    """A stretch no reader sees: what it says as far as it can be decoded, how it was hidden, and where."""

    payload: str
    how: str
    level: str
    start: int
    end: int


def hidden_texts(text: str) -> list[Hidden]:
    if text.isascii() or not _SUSPECTS.search(text):
        return []
    finders = (_tags, _selector_bytes, _invisible_runs, _invisible_bits, _overrides, _embeddings)
    return [found for finder in finders if (found := finder(text)) is not None]


# Each finder puts all stretches hidden its way together: split payloads read on, and a text full of them stays cheap.


def _tags(text: str) -> Hidden | None:
    runs = [
        run
        for run in re.finditer(_TAGS, text)
        if not (run.start() and text[run.start() - 1] == _BLACK_FLAG and _FLAG.match(run[0]))
    ]
    payload = "".join(run[0] for run in runs).translate(_TAG_LETTERS)
    return _hidden(payload, "tag characters", runs) if runs else None


def _selector_bytes(text: str) -> Hidden | None:
    runs = []
    values: list[int] = []
    for run in re.finditer(_SELECTORS, text):
        single = len(run[0]) == 1
        if single and (run[0] < _FIRST_SUPPLEMENT or _is_ideograph(text[run.start() - 1 : run.start()])):
            continue  # one selector behind an emoji, or one of VS17 and up behind an ideograph, is honest
        runs.append(run)
        values += map(_selector_value, run[0])
    if len(values) <= _STRAY_SELECTORS:
        return None
    return _hidden(bytes(values).decode("utf-8", "replace"), "variation selectors", runs)


def _invisible_runs(text: str) -> Hidden | None:
    runs = list(re.finditer(_INVISIBLE_RUN, text))
    return _hidden(_decode_bits("".join(run[0] for run in runs)), "invisible run", runs) if runs else None


def _invisible_bits(text: str) -> Hidden | None:
    found = "".join(re.findall(_BITS, text))
    payload = _decode_bits(found) if len(found) >= _FEWEST_BITS else ""
    return _hidden(payload, "invisible bits", []) if payload else None


def _overrides(text: str) -> Hidden | None:
    spans = list(_OVERRIDE.finditer(text))
    payload = "\n".join(span[2][::-1] if span[1] == "\u202e" else span[2] for span in spans)
    return _hidden(payload, "bidirectional override", spans) if spans else None


def _embeddings(text: str) -> Hidden | None:
    found = _EMBEDDING.search(text)
    if found is None or _RIGHT_TO_LEFT.search(text.replace("\ufeff", "")):
        return None
    payload = text[found.end() :][::-1]
    return Hidden(payload=payload, how="bidirectional embedding", level=ASK, start=found.start(), end=len(text))


def _hidden(payload: str, how: str, runs: list[re.Match[str]]) -> Hidden:
    start, end = (runs[0].start(), runs[-1].end()) if runs else (-1, -1)
    return Hidden(payload=payload, how=how, level=REFUSE, start=start, end=end)


def _decode_bits(chars: str) -> str:
    """The text that two kinds of invisible characters spell as zeros and ones, or an empty string."""
    kinds = sorted(set(chars), key=lambda char: -chars.count(char))[:3]
    others = dict.fromkeys(map(ord, set(chars)))
    for zero, one in [(a, b) for a in kinds for b in kinds if a != b]:
        bits = chars.translate({**others, ord(zero): "0", ord(one): "1"})
        for width in (8, 7, 16):
            # What begins with something unreadable is no text, so the whole is worked out only for what may be one.
            if _spelled(bits[: width * _FEWEST_BITS], width) and (decoded := _spelled(bits, width)):
                return decoded
    return ""


def _spelled(bits: str, width: int) -> str:
    """The characters that groups of `width` bits stand for; empty when they are too few or not readable ASCII."""
    decoded = "".join([chr(int(bits[at : at + width], 2)) for at in range(0, len(bits) - width + 1, width)])
    readable = len(decoded) > 2 and decoded.isascii() and decoded.replace("\n", " ").isprintable()  # noqa: PLR2004
    return decoded if readable else ""


def _selector_value(char: str) -> int:
    code = ord(char)
    return code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16  # noqa: PLR2004


def _is_ideograph(char: str) -> bool:
    return bool(char) and (
        "\u2e80" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or "\U00020000" <= char <= "\U0003ffff"
    )


_ROLE = r"(?:system|developer|assistant|user|human|tool|admin|ai)"
_ORDER = (
    r"(?:you|ignore|disregard|forget|must|new|override|do|from now|always|never|the (?:assistant|ai|agent|model|user)"
    r"|all|any|execute|run|send|your|please|grant|disable|enable|reveal|print|respond|act|this|approve|treat|user|stop"
    r"|previous|safety|obey|no)\b"
)
_LINE_START = r"(?:^|\n)"
_DELIMITER_LINE = r"(?:^|\n)[ \t]{0,8}§[ \t]{0,8}(?:\n|$)"
# Whoever explains a format names its signs; our own frame is never explained in an entry.
_TALK = (
    r"\b(?:xml|html|elements?|tags?|templates?|tokenizer|schema|parser|escaped?|regex|fixtures?|syntax|tokens"
    r"|transcripts?|strip(?:ped)?)\b"
)
_OURS = ("memory", "user profile", "[blocked", "\u2550", "origin")
_TURNS = ("human:", "user:", "assistant:")
_ROW = re.compile(r"(\[(?:\\.|[^\]\\])+\]|[=~#<\u2550-])\{([1-9]),([0-9]?)\}")
_START = 4  # letters
_MANY = 2_000  # places, from which on it is quicker to look for one literal after the other
_beginnings: list[Beginnings] = []
_forgeries: list[tuple[str, str, str, str]] = []
_compiled: dict[str, re.Pattern[str]] = {}
_quick: dict[str, tuple[re.Pattern[str] | None, re.Pattern[str]]] = {}
_signs: dict[str, list[str]] = {}


def forgeries(folded: str, raw: str, scope: str) -> Iterator[tuple[str, int, int]]:
    """(level, start, end) in `folded` of what imitates the prompt's own frame."""
    if "§" in raw and scope == "memory":
        line = re.search(_DELIMITER_LINE, raw)
        if line and raw.strip() != "§":
            yield REFUSE, -1, -1
    held = _held_in(folded) if len(folded) >= LONG_TEXT else None
    for literal, level, level_in_code, source in _load():
        if literal not in (folded if held is None else held) or (scope == "recall" and literal in _TURNS):
            continue
        found = _first(source, folded)
        if found is not None:
            here = level_in_code if _in_code(folded, found.start()) else level
            if here == REFUSE and literal not in _OURS and re.search(_TALK, folded):
                here = ASK
            if here != CLEAN:
                yield here, found.start(), found.end()


def _held_in(folded: str) -> set[str]:
    """The literals that a long text holds; those that begin with a letter are looked for all at once."""
    literals = dict.fromkeys(literal for literal, _, _, _ in _load())
    words = known = [literal for literal in literals if literal.isascii() and literal[0].isalpha()]
    if not _beginnings:
        starts = sorted({word[:_START] for word in words})
        size = -(-len(starts) // 8)  # neighbours in the alphabet go well together
        _beginnings.append(Beginnings(*("|".join(starts[at : at + size]) for at in range(0, len(starts), size))))
    places = list(islice(_beginnings[0].places(folded.encode("ascii", "replace")), _MANY))
    if len(places) < _MANY:
        seen = {folded[at : at + _START] for at in places}
        seen |= {start[:-1] for start in seen}  # for the literals of three letters
        words = [word for word in known if word[:_START] in seen]
    # A single sign is found or missed in no time.
    signs = [literal for literal in literals.keys() - known if literal[0] in folded]
    return {literal for literal in [*words, *signs] if literal in folded}


def _first(source: str, folded: str) -> re.Match[str] | None:
    """Where an expression first matches; in a long text it is searched for by its first sign, soon found or missed."""
    if len(folded) < LONG_TEXT:
        if source not in _compiled:
            _compiled[source] = re.compile(_from_its_first_sign(source))
        return _compiled[source].search(folded)
    if source not in _quick:
        _quick[source] = _quickly_searched(source)
        _signs[source] = first_signs(source)
    if _signs[source] and not any(sign in folded for sign in _signs[source]):
        return None
    start, anywhere = _quick[source]
    return (start.match(folded) if start else None) or anywhere.search(folded)


def _quickly_searched(source: str) -> tuple[re.Pattern[str] | None, re.Pattern[str]]:
    """An expression as what it matches at the start of a text, if that differs, and what it matches elsewhere."""
    if source.startswith(_LINE_START):
        rest = f"(?:{source[len(_LINE_START) :]})"
        return re.compile(rest), re.compile("\n" + rest)
    return None, re.compile(_from_its_first_sign(source))


def _from_its_first_sign(source: str) -> str:
    """An expression with the sign written out once that it begins with several of: the search can look for it alone.

    Of any number of them it matches only from the first on, and all at once: rows of thousands would take minutes else.
    """
    row = _ROW.match(source)
    if row is None:
        return source
    sign, least, most = row[1], int(row[2]), row[3]
    rest = source[row.end() :]
    if most:
        return f"{sign * least}{sign}{{0,{int(most) - least}}}{rest}"
    return f"{sign}(?<!{sign}{sign}){sign}{{{least - 1},}}+{rest}"


def first_signs(source: str) -> list[str]:
    """The signs with one of which all begins that an expression matches; none when that is not to be seen at once."""
    found = re.match(r"(?:\[(?:\\\W|[^\w\s\]\\^])+\]|\\?[^\w\s\\^.(|])(?![?*]|\{0)", source)
    return [sign for sign in sorted(set(found[0])) if re.fullmatch(found[0], sign)] if found else []


def expressions() -> list[tuple[str, str]]:
    """Each expression, with what a text must hold for it to be tried."""
    return [(literal, source) for literal, _, _, source in _load()]


def _load() -> list[tuple[str, str, str, str]]:
    if not _forgeries:
        for line in load_lines("markup.rules"):
            literal, level, level_in_code, source = line.split("\t")
            source = source.replace("{role}", _ROLE).replace("{order}", _ORDER)
            _forgeries.append((literal, level, level_in_code, source))
    return _forgeries


def _in_code(text: str, position: int) -> bool:
    line_start = text.rfind("\n", 0, position) + 1
    # fold() turns backticks into apostrophes outside ASCII, so both count.
    return text[line_start:position].replace("'", "`").count("`") % 2 == 1
