"""Finds and masks secrets: keys, tokens, passwords, private keys, webhooks, card numbers.

Memory refuses them; logs, exports and search results show a marker instead. A secret is found by its format (the table
`data/secret-formats.txt`), by a word next to it such as `password:`, or by its check digits. Text that only looks like
a secret (a commit, a checksum, a `$VARIABLE`, a placeholder) is left alone.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from hermes.base.values import lazy_pattern, value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Format = tuple[str, tuple[str, ...], str]  # its name, literals of which a text must contain one, the pattern
    Found = tuple[str, int, int]

_SHORTEST_RUN = 16  # characters of a secret that its format alone gives away
_SHOWN = 4  # last characters in a marker, so that a person can tell which secret it was
_LONG_ENOUGH_TO_SHOW = 16  # characters; four of a shorter one would give too much of it away
_MOST_PASSES = 4  # a marker is shorter than its secret, which may bring a word and another secret together
_NEVER_SHOWN = ("password", "private key", "seed phrase", "cookie", "pin", "code")
_FEWEST_ACCOUNT_DIGITS = 12


# `Beginnings`: where one of many words may begin in a text, in time that does not depend on how many words there are.
#
# Each word belongs to one of a few groups, and a group is one bit. For each of the first letters there is a table that
# says which groups have a given character at that place. The text is translated with each table, and the results,
# moved so that the letters of a word lie above each other, are read as one long number each: where all of them have a
# bit in common, a word of that group may begin. Translating and combining run at the speed of memory; to look for
# sixty words one after the other takes six times as long. A byte has room for eight bits, so with four groups one
# table holds two letters, and with two groups it holds four.

_ANY_BYTE = range(256)
_AT_ONCE = 64_000  # characters; what is made of more does not stay in the processor's cache
_WORD_BREAKS = [byte for byte in _ANY_BYTE if not bytes((byte,)).isalpha()]


class Beginnings:
    """Finds every place where one of many words begins, in one pass over the text."""

    def __init__(self, *groups: str) -> None:
        """At most eight groups of words in lower case, the fewer the faster: `"cvc|cvv|key."`.

        A full stop in a word stands for any character but a letter. Words that differ in one place only, or that are
        rare in every place, go well together.
        """
        bits = next(each for each in (2, 4, 8) if each >= len(groups))
        self._letters = 8 // bits  # of a word in one table
        longest = max(len(word) for group in groups for word in group.split("|"))
        tables = [bytearray(256) for _ in range(0, longest, self._letters)]
        for group, words in enumerate(groups):
            for word in words.split("|"):
                for place in range(self._letters * len(tables)):
                    for byte in _accepted(word, place):
                        tables[place // self._letters][byte] |= 1 << (group + bits * (place % self._letters))
        self._tables = tuple(map(bytes, tables))
        # The next letter is one byte further and one group of bits higher; moving by that compares two letters at once,
        # and moving the result by twice as much compares two pairs.
        self._moves = {8: (), 4: (12,), 2: (10, 20)}[bits]
        self._first_letters = int.from_bytes(bytes(((1 << bits) - 1,)) * _AT_ONCE, "little")

    def places(self, text: bytes) -> Iterator[int]:
        """Every place where one of the words may begin, in any case, and some where none does."""
        beyond = self._letters * len(self._tables)
        for start in range(0, len(text), _AT_ONCE):
            size = min(_AT_ONCE, len(text) - start)
            part = text[start : start + size + beyond].ljust(size + beyond)
            common = self._first_letters
            for first, table in zip(range(0, beyond, self._letters), self._tables, strict=True):
                marks = int.from_bytes(part[first : first + size + self._letters - 1].translate(table), "little")
                for move in self._moves:
                    marks &= marks >> move
                common &= marks
            yield from _marked(common, size, start)


def _marked(common: int, length: int, start: int) -> Iterator[int]:
    """The positions of the non-zero bytes of a long number, counted from `start`."""
    if common:
        marks = common.to_bytes(length, "little")
        at = -1
        for mark in marks.translate(None, b"\0"):
            at = marks.index(mark, at + 1)
            yield start + at


def _accepted(word: str, place: int) -> Iterable[int]:
    if place >= len(word):
        return _ANY_BYTE
    return _WORD_BREAKS if word[place] == "." else {ord(word[place]), ord(word[place].upper())}


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split("|"))


with open(os.path.join(os.path.dirname(__file__), "data", "secret-formats.txt"), encoding="utf-8") as _file:
    _ROWS = [line.split("\t") for line in _file.read().splitlines() if "\t" in line]
_ALTERNATIVES = {row[0][1:]: row[1] for row in _ROWS if row[0][0] == "@"}


# A short secret has one of these words next to it; other secrets are long runs or many digits. Each line is a group for
# `Beginnings`: which words are in which was chosen by trying many on prose and code, for few false places.
_BESIDE = (
    "backup|credential|identified by|lock|login|social sec",
    " -u |--user|://|key|requirepass",
    ":5432:|bearer|kennwort|recovery|secret|senha",
    "cvc|cvv|otp|ssn",
    "-----begin|pass|schl\u00fcssel|seed|sess|sid=|wallet",
    "gate|mnemonic|parola|safe",
    "auth|code|combination|contrase|cookie|door|token",
    "bip|pin|puk|pw|pwd",
)
_BESIDE_FOREIGN = _listed(_ALTERNATIVES["beside foreign"])
BESIDE_SECRETS = (*_listed("|".join(_BESIDE)), "$", *_BESIDE_FOREIGN)
_BESIDE_NUMBERS = ("pin", "puk", "code", "combination", "otp", "cvv", "cvc", "ssn", "social sec")
_BESIDE_SEEDS = ("seed", "mnemonic", "recovery", "wallet", "bip", "phrase", "words")
# A password has a digit or a symbol, or is in quotes; a sentence about passwords usually has none of these.
_IN_PASSWORDS = tuple("0123456789\"`!@#$^&*+~?'")
_SEPARATORS = dict.fromkeys(map(ord, " \t\r\n\"'`=:,;/.@&?<>()[]{}|#$%^*~!\\+"), " ")


@value
class Secret:
    """A secret found in a text: its kind, its position, and the marker to show instead."""

    kind: str
    start: int
    end: int
    masked: str


def find_secrets(text: str) -> tuple[Secret, ...]:
    """Every secret in the text, in order and without overlaps."""
    if "\\" not in text:
        return _search(text)
    found = _search(unescaped(text))
    if not found:
        return ()
    starts, ends = (places(text, [getattr(each, side) for each in found]) for side in ("start", "end"))
    return tuple(
        Secret(kind=each.kind, start=start, end=end, masked=each.masked)
        for each, start, end in zip(found, starts, ends, strict=True)
    )


def mask_secrets(text: str) -> str:
    """Replace every secret by a marker such as `[github token …a1b2]`; masking again changes nothing."""
    passes = 0
    while passes < _MOST_PASSES and (found := find_secrets(text)):
        passes += 1
        pieces: list[str] = []
        at = 0
        for secret in found:
            pieces += (text[at : secret.start], secret.masked)
            at = secret.end
        text = "".join((*pieces, text[at:]))
    return text


def mask_all(texts: Iterable[str]) -> list[str]:
    """Applies `mask_secrets` to each text; for many texts, much faster than one by one."""
    masked = list(texts)
    for at in _suspects([unescaped(text) if "\\" in text else text for text in masked]):
        masked[at] = mask_secrets(masked[at])
    return masked


# Which of many texts may contain a secret: one pass over all of them together, as bytes. Most have no word that
# accompanies secrets, or nothing after it that could be one, and no long run that has the format of a token or
# looks random. The remaining texts are searched one by one.

_OF_SENTENCES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \t\r\n.,;()"
_ALSO_BESIDE = (("basi", "mysq"), (), (), ("psk",), (), ("pat.",), (), ("?ifr",))  # words of formats, by group
_WORD_PLACES = Beginnings(
    *(
        "|".join([*(word[:4] if len(word) > 2 else f"{word}." for word in _listed(group)), *also])  # noqa: PLR2004
        for group, also in zip(_BESIDE, _ALSO_BESIDE, strict=True)
    )
)
_BEFORE_WORDS = _listed("auth|requirepass|login|airtable|seed|mnemonic|recovery|wallet|phrase|words")
# Four characters of each. Which, and in which group, was chosen by trying many on the prose of our documentation.
_BEFORE_PLACES = Beginnings("ogin|rtab|emon|ecov|alle|phra", "auth|repa|seed|word")
_BEFORE_SECRETS = lazy_pattern(
    r"(?:sess|sid|cookie)[\w-]{0,40}[\"']?\s{0,3}[=:]|://[^\s\"'<>]{1,301}@"
    r"|(?:pin|puk|ssn|social sec|door|gate|lock|safe|backup)[^\0]{0,80}?[0-9]{3}"
    r"|(?:code|combination|otp|cv[vc])\w?[^\0\w]{0,5}(?:\w{2,3}[^\0\w]{0,4})?[0-9]{3}"
    rf"|{'|'.join(_BEFORE_WORDS)}|(?:backup|secret) (?:phrase|words)"
    r"|(?<=ssh)pass|key|bip|basic |mysql|:5432:| -u |--user|identified by|-----begin"
    r"|(?:pass|pwd|pw(?![a-z])|secret|token|credential|bearer|pat(?![a-z])|psk|kennwort|contrase|schl\?ssel|senha|parola"
    r"|\?ifre)[^\0]{0,100}?[0-9\"'`!@#$^&*+~?=:|>]"
)
_ASCII = bytes(range(128))
_NOT_ASCII = lazy_pattern("|".join((r"[\d\u017f\u212a]", *(word.replace(" ", "") for word in _BESIDE_FOREIGN[1:]))))
_ZEROS = bytes.maketrans(b"123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0" * 9 + b"A" * 26)
_FEWEST_CARD_DIGITS = b"0" * 13
_PARTS = bytes(ord(" " if byte in {0, *_SEPARATORS} - {ord("?")} else "a") for byte in range(256))
_RUNS = bytes(ord(" " if chr(byte) in " \t\r\n\0\"'`<>()[]{}|" else "a") for byte in range(256))
_LONG_PART = b"a" * _SHORTEST_RUN


def _suspects(texts: list[str]) -> set[int]:
    """The positions of the texts that may contain a secret; all others contain none."""
    all_signs = "\0".join(texts).encode("ascii", "replace").translate(None, _OF_SENTENCES)
    signs = all_signs.split(b"\0")
    if len(signs) != len(texts):  # one of them contains the NUL that separates them
        return set(range(len(texts)))
    sentences = [at for at, its in enumerate(signs) if not its]
    found: set[int] = set()
    ends = list(accumulate([len(texts[at]) + 1 for at in sentences]))
    raw = "\0".join([texts[at] for at in sentences]).encode()
    for at in {sentences[bisect_right(ends, place)] for place in _BEFORE_PLACES.places(raw)}:
        if _has_any(texts[at].lower(), _BEFORE_WORDS):
            found.add(at)
    others = [at for at, its in enumerate(signs) if its]
    together = "\0".join([texts[at] for at in others])
    raw = together.encode("ascii", "replace")
    ends = list(accumulate([len(texts[at]) + 1 for at in others]))
    found |= {others[bisect_right(ends, place)] for place in chain(_telling_words(raw), _telling_runs(together, raw))}
    long = [at for at in others if len(signs[at]) >= _FEWEST_ACCOUNT_DIGITS]
    if _FEWEST_CARD_DIGITS in all_signs.translate(_ZEROS, b"-"):
        found.update([at for at in long if any(_card_numbers(texts[at]))])
    if b"AA00" in raw.translate(_ZEROS):
        found.update([at for at in long if any(_ibans(texts[at]))])
    foreign = [at for at in others if not texts[at].isascii()]
    if _has_foreign_sign("".join([texts[at] for at in foreign])):
        found.update([at for at in foreign if _has_foreign_sign(texts[at])])
    return found


def _has_foreign_sign(text: str) -> bool:
    """Whether a text has a word for passwords in another script, or what is no usual letter but acts as one."""
    foreign = text.lower().encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return _NOT_ASCII.search(foreign.decode("utf-8", "surrogatepass")) is not None


def _telling_words(raw: bytes) -> Iterator[int]:
    """Where a word that accompanies secrets begins, if what follows may be a secret."""
    lowered = raw.decode().lower()
    return (place for place in _WORD_PLACES.places(raw) if _BEFORE_SECRETS.match(lowered, place))


def _telling_runs(text: str, raw: bytes) -> Iterator[int]:
    """Where a long run begins that has the format of a secret or looks random."""
    runs: dict[str, list[int]] = defaultdict(list)
    parts, whole = raw.translate(_PARTS) + b" ", raw.translate(_RUNS) + b" "
    start = parts.find(_LONG_PART)
    while start >= 0:
        end = parts.find(b" ", start)
        if not text[start:end].isalpha():
            start, end = whole.rfind(b" ", 0, start) + 1, whole.find(b" ", end)
            runs[text[start:end]].append(start)
        start = parts.find(_LONG_PART, end)
    distinct = "\n".join((*runs, ""))
    for _, start, _ in chain(_tokens(distinct), _formats(distinct, _PHRASES)):
        yield from runs[distinct[distinct.rfind("\n", 0, start) + 1 : distinct.find("\n", start)]]
    for run, starts in runs.items():
        if any(_is_random(token.group(), length=_ON_A_LINE) for token in _TOKEN.finditer(run)):
            yield from starts


# Calls and results of tools are JSON: a text inside is searched as it was before it was written there, however often
# that happened (each time doubles the backslashes), and the places of what is found are mapped back.
_ESCAPE = lazy_pattern(r"\\+(?:(?P<sign>[nrt\"'/])|u(?P<code>[0-9a-fA-F]{4}))|\\{2,}")
_SIGNS = {"n": "\n", "t": "\t", "r": "\r"}
_SURROGATES = range(0xD800, 0xE000)


def unescaped(text: str) -> str:
    """Replaces every escape of a JSON string by the one character that it means."""
    return _ESCAPE.sub(_meaning, text)


def _meaning(escape: re.Match[str]) -> str:
    if escape["code"]:
        code = int(escape["code"], 16)
        return "?" if code in _SURROGATES else chr(code)
    return _SIGNS.get(escape["sign"], escape["sign"]) if escape["sign"] else "\\"


def places(original: str, wanted: list[int]) -> list[int]:
    """Maps positions in the result of `unescaped` back to positions in the original."""
    found = list(_ESCAPE.finditer(original))
    shifts = [0, *accumulate(match.end() - match.start() - 1 for match in found)]
    escapes = [match.start() - shift for match, shift in zip(found, shifts, strict=False)]
    return [at + shifts[bisect_left(escapes, at)] for at in wanted]


def _search(text: str) -> tuple[Secret, ...]:
    if "\u2026" in text:  # blank our own markers, so that "token" in a marker does not count as a word next to a secret
        text = re.sub(r"\[[a-z0-9 ]{2,40} \u2026[A-Za-z0-9]{0,4}\]", lambda marker: "\0" * len(marker[0]), text)
    lowered = _lowered(text)
    has_runs = _has_runs(text)
    has_words = _has_any(lowered, BESIDE_SECRETS)
    digits = map(text.count, "0123456789") if text.isascii() else map(str.isdigit, text)
    has_account = sum(digits) >= _FEWEST_ACCOUNT_DIGITS
    if not (has_runs or has_words or has_account):
        return ()
    found = [*(_tokens(text) if has_runs else ()), *_formats(text, _PHRASES)]
    if has_runs or (has_words and _has_any(text, _IN_PASSWORDS)):
        found += _beside_words(text, lowered)
    if has_words and _has_any(lowered, _BESIDE_NUMBERS) and any(map(str.isdigit, text)):
        found += _numbers_beside_words(text, lowered)
    if has_words and _has_any(lowered, _BESIDE_SEEDS):
        found += _seed_phrases(text, lowered)
    if has_account:
        found += _card_numbers(text)
        found += _ibans(text)
    return tuple(_secret(text, *one) for one in _merged(found)) if found else ()


def _has_any(text: str, literals: Iterable[str]) -> bool:
    for literal in literals:  # noqa: SIM110 - several times faster than any() with a generator, and called most
        if literal in text:
            return True
    return False


_BEFORE_PREFIX = "(?<![A-Za-z0-9])(?:"


def _read_formats() -> Iterator[Format]:
    for kind, listed, pattern in (row for row in _ROWS if row[0][0] != "@"):
        literals = _listed(listed)
        prefixed = f"{_BEFORE_PREFIX}{'|'.join(map(re.escape, literals))}){pattern[1:]}"
        yield kind, literals, prefixed if pattern.startswith("^") else pattern


# Formats before the private key have a shape of their own, a run of 16 or more characters; the others are found by the
# words around them. Most are a fixed beginning and a run of characters; one pattern looks for all of these beginnings.
_FORMATS = tuple(_read_formats())
_PHRASES_FROM = next(at for at, each in enumerate(_FORMATS) if each[0] == "private key")
_TOKENS, _PHRASES = _FORMATS[:_PHRASES_FROM], _FORMATS[_PHRASES_FROM:]
_PREFIXED = [each for each in _TOKENS if each[2].startswith(_BEFORE_PREFIX + re.escape(each[1][0]))]
_OTHERS = [each for each in _TOKENS if each not in _PREFIXED]
_BY_FIRST = groupby(sorted({prefix for each in _PREFIXED for prefix in each[1]}), key=itemgetter(0))
_EITHER = "|".join(f"{re.escape(first)}(?:{'|'.join(re.escape(one[1:]) for one in same)})" for first, same in _BY_FIRST)
_PREFIX = lazy_pattern(f"[^A-Za-z0-9](?:{_EITHER})")  # a search that begins with a class of characters skips fast


def _tokens(text: str) -> Iterator[Found]:
    return _formats(text, _TOKENS if _PREFIX.search(f"\n{text}") else _OTHERS)


def _formats(text: str, formats: Iterable[Format]) -> Iterator[Found]:
    for kind, literals, pattern in formats:
        for literal in literals:
            if literal in text:
                for match in re.finditer(pattern, text):  # re keeps what it compiled
                    group = match.lastgroup or 0
                    if not _is_example(match[group]):
                        yield kind, match.start(group), match.end(group)
                break


def _lowered(text: str) -> str:
    """Lower-cases without changing the length: some characters, such as the dotted capital I, would become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(one if len(one) == 1 else character for character, one in ((c, c.lower()) for c in text))


def _has_runs(text: str) -> bool:
    """Whether there is a long run with digits; plain string methods, because most texts have none."""
    return bool([run for run in text.translate(_SEPARATORS).split() if len(run) >= _SHORTEST_RUN and not run.isalpha()])


def _merged(found: list[Found]) -> Iterator[Found]:
    """Joins overlapping finds under the first name: a format says more than the word next to it."""
    ranked = sorted(enumerate(found), key=lambda one: (one[1][1], one[0]))
    rank, (kind, start, end) = ranked[0]
    for next_rank, (next_kind, next_start, next_end) in ranked[1:]:
        if next_start >= end:
            yield kind, start, end
            rank, kind, start, end = next_rank, next_kind, next_start, next_end
            continue
        if next_rank < rank:
            rank, kind = next_rank, next_kind
        end = max(end, next_end)
    yield kind, start, end


def _secret(text: str, kind: str, start: int, end: int) -> Secret:
    last = text[end - _SHOWN : end]
    shows = end - start >= _LONG_ENOUGH_TO_SHOW and last.isalnum() and last.isascii()
    if kind.startswith(_NEVER_SHOWN):
        shows = False
    return Secret(kind=kind, start=start, end=end, masked=f"[{kind} \u2026{last if shows else ''}]")


# Keys that are plainly examples: documentation and settings are full of them, and they harm nobody.

_FEWEST_CHARACTERS = 3
_EXAMPLE = lazy_pattern(
    r"\.\.\.|\u2026|\*{3}|\$\{|\{\{|\A[<%{\[(]|\A\$(?!\w{1,10}\$)|\A(?i:passw(?:or)?d|pass|pwd|secret|token|key|pw|none|null)\Z"
    r"|(?i:x{5}|example|your[_-]|change_?me|placeholder|redacted|dummy|1234567890abcdef)"
)


def _is_example(text: str) -> bool:
    """Whether a text with the shape of a key is an example, a reference or a masked value."""
    return _EXAMPLE.search(text) is not None or len(set(text.lower())) <= min(_FEWEST_CHARACTERS, len(text) // 4)


# Card and account numbers, recognised by their check digits.

_CARD = lazy_pattern(r"(?:[3-6]\d{3}|2[2-7]\d\d)(?<![\w.+/=-]\d{4})(?:[ -]?\d){9,15}(?![\w./=]|-\d)")
_IBAN = lazy_pattern(
    r"[A-Z]{2}\d\d(?<![A-Za-z0-9][A-Z]{2}\d\d)(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)
_OTHER_NUMBER = lazy_pattern(rf"(?:{_ALTERNATIVES['other numbers']})\W{{0,4}}\Z", re.IGNORECASE)
_CARD_WORD = lazy_pattern(r"card|visa|master|amex|credit|debit|pan\b|payment", re.IGNORECASE)
_LENGTHS = {"34": (15,), "37": (15,), "36": (14,), "38": (14,), "30": (14,)}
_USUAL_LENGTHS = (16, 19)
_IBAN_LENGTHS = range(15, 35)


def _card_numbers(text: str) -> Iterator[Found]:
    for match in _CARD.finditer(text):
        digits = match.group().replace(" ", "").replace("-", "")
        if not _is_card(digits) or len(set(digits)) == 1:
            continue
        before = text[max(0, match.start() - 40) : match.start()]
        if _OTHER_NUMBER.search(before) and not _CARD_WORD.search(before):
            continue
        yield "card number", match.start(), match.end()


def _ibans(text: str) -> Iterator[Found]:
    for match in _IBAN.finditer(text):
        account = match.group().replace(" ", "")
        turned = account[4:] + account[:4]
        if len(account) in _IBAN_LENGTHS and int("".join(str(int(character, 36)) for character in turned)) % 97 == 1:
            yield "bank account number", match.start(), match.end()


def _is_card(digits: str) -> bool:
    """Whether length and check digit (Luhn) fit a card of the network that the first digits name."""
    if len(digits) not in _LENGTHS.get(digits[:2], _USUAL_LENGTHS):
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(sum(divmod(number, 10)) for number in doubled)) % 10 == 0


# Secrets that only the words next to them give away: `password: …`, "the API key is …", a PIN, a seed phrase.

# Found with str.find, which is many times faster than one pattern of all of them.
_PASSWORD_WORDS = _listed(_ALTERNATIVES["password words"])
_KEY_WORDS = ("secret", "token", "credential", "schl\u00fcssel", "\u5bc6\u94a5", "\u5bc6\u9470")
# These count only as words of their own, because they are part of many others.
_SHORT_PASSWORD_WORDS = ("pass", "pw")
_SHORT_KEY_WORDS = ("key", "pat", "psk", "auth", "bearer")
_SECRET_KEYS = _listed("api|access|private|secret|signing|encryption|master|license|account|auth|service")
_SERVICES = _listed(_ALTERNATIVES["services"])
_WORDS = {
    **dict.fromkeys(_PASSWORD_WORDS, "password"),
    **dict.fromkeys(_KEY_WORDS, "key"),
    **dict.fromkeys(_SERVICES, "service"),
    **dict.fromkeys((*_SHORT_PASSWORD_WORDS, *_SHORT_KEY_WORDS), ""),  # depends on the characters around it
}
_NAME_GOES_ON = lazy_pattern(r"[A-Za-z0-9_]{0,40}")
# A value that follows a word: perhaps a closing quote, what the value is for, a sign or verb of assignment, and the
# value in quotes of some kind or bare.
_ASSIGNED = lazy_pattern(
    r"[\"'`\])]{0,2}"
    # what the value is for may come between the word and the colon
    r"(?:\s(?:for|of|on|to|de|para|pour|f\u00fcr|\u043e\u0442|\u0434\u043b\u044f)\s[^\n:=]{1,40}(?=[:=]|\sis\s))?"
    r"(?:\s{0,3}(?:=>|:=|={1,3}|:|>|\(|\uff1a|\|)\s{0,3}|\s{0,2}[\u662f\u4e3a\u70ba\u306f\ub294\uc740]\s{0,2}|\s[\u2013\u2014-]\s"
    r"|\s{1,3}(?:is|was|are|set to|ist|lautet|es|est|\u00e9|\u00e8|\u0647\u064a|\u0647\u0648|=)[\s:]{1,3}"
    r"|\s{1,2}|(?=[\"'`]))"
    r"(?:[rbfu@$](?=[\"'`]))?"
    r"(?:\"(?P<double>[^\"\n]{4,300})\"|'(?P<single>[^'\n]{4,300})'|`(?P<tick>[^`\n]{4,300})`"
    r"|(?P<bare>[^\s\"'`<>,;|=:(]{2,300}={0,2}))",
    re.IGNORECASE,
)
_REST_OF_PASSWORD = lazy_pattern(r"[^\s\"'`<>,;&|)\]}]{0,300}")
_TOKEN = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9+/_.~-]{19,500}={0,2}")
_SURE_WORD = lazy_pattern(
    r"api[_ -]?key|secret|token|passw|credential|licen[cs]e|\bhex\b|\baes\b|hmac|(?:access|private)[_ -]?key",
    re.IGNORECASE,
)
_LAST_CYRILLIC = "\u052f"  # letters with higher code points occur in sentences, not in passwords
# Signs that mean years, months, times, characters and the like in Chinese, Japanese and Korean: 8位 is a length.
_COUNTERS = (
    "\u5e74\u6708\u65e5\u5929\u56de\u6b21\u500b\u4e2a\u6841\u4f4d\u6587\u5b57\u5206\u79d2\u6642\u65f6"
    "\ub144\uc6d4\uc77c\ud68c\uc790\uac1c\ubd84"
)
_PHRASE_BLANKS = range(2, 8)  # blanks in a pass phrase of three to eight words
_SHORTEST_NUMBER, _SHORTEST_MIXED, _SHORTEST_PLAIN = 4, 5, 8
_FEWEST_DIGITS, _FEWEST_LETTERS, _MOST_ALIKE = 2, 3, 3
_ON_A_LINE = 24  # characters of a key that nothing but its line gives away
_DIGEST_LENGTHS = (40, 64)  # a commit or a SHA-256, unless the line is sure

_ABOUT = lazy_pattern(_ALTERNATIVES["about"], re.IGNORECASE)
_HARMLESS_BEFORE = lazy_pattern(rf"(?:{_ALTERNATIVES['harmless before']})[\s_-]{{0,2}}\Z", re.IGNORECASE)
_FINGERPRINT = lazy_pattern(f"(?:{_ALTERNATIVES['fingerprints']})", re.IGNORECASE)
_PLACEHOLDER_MARKS = lazy_pattern(r"[<>{}\[\]()]|\A[$%]|\$[A-Z_]{3}|%[A-Z]{3}|://")
_PLACEHOLDER_WORDS = lazy_pattern(_ALTERNATIVES["placeholders"], re.IGNORECASE)
_PLAIN_SEGMENT = lazy_pattern(r"[A-Za-z]?[a-z._-]*[\d.-]{0,8}|[A-Z]+")
_FILE_NAME = lazy_pattern(r"[\w/.-]{1,200}\.[a-z]{2,5}")
_UUID_WORD = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NUMBER_WITH_UNIT = lazy_pattern(r"[\d.,:_/+-]+[a-z%]{0,3}", re.IGNORECASE)
_PART = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_HEX_WORD = lazy_pattern(r"(?:0x)?[0-9a-f]{16,}", re.IGNORECASE)
_RUN = lazy_pattern(r"[A-Z]+|[a-z]+|[0-9]+")

_PIN = lazy_pattern(
    r"(?:\b(?:PIN|PUK)\b|(?i:\bpin\s?(?:code|number)|\bpasscode|\bpuk\b|\bpin(?=\s{0,2}[:=]|\s(?:is|was)\b)))"
    r"(?i:[\s:=#-]{1,4}(?:is|was|code|for|to|of)?(?:\s\w{1,12}){0,3}?[\s:=]{0,3})"
    r"(?P<s>\d{4}(?:\d{2}(?:\d{2})?)?)(?![\d.]\d|\d|-\d|\s?(?:px|mm|ms|Hz))"
)
_DOOR = lazy_pattern(
    r"(?i:(?:(?:alarm|door|gate|garage|entry|lock|safe|security|unlock|access|verification|2fa|backup|login)\s"
    r"(?:codes?|combination|pin)|\botp|\bcvv2?|\bcvc2?)\s{0,2}(?:(?:is|was|:|=)\s{0,2})?)"
    r"(?P<s>\d{3,8}(?:[- ]\d{2,4}){0,3})(?![\d%]|\.\d)"
)
_SSN = lazy_pattern(r"(?i:\bssn\b|social security)[^\n\d]{0,30}(?P<s>\d{3}-?\d{2}-?\d{4})(?!\d)")
# The last of each must match in the lower-case text: a quick check, much faster than a pattern that ignores case.
_NUMBERS = (
    ("pin", _PIN, lazy_pattern(r"\b(?:pin|puk|passcode)")),
    ("code", _DOOR, lazy_pattern(r"(?:code|combination|pin|otp|cv[vc])\w?\s{0,2}(?:(?:\w{2,3}|:|=)\s{0,2})?\d{3}")),
    ("social security number", _SSN, lazy_pattern(r"\bssn\b|social security")),
)
_SEED = lazy_pattern(r"seed|mnemonic|recovery|wallet|bip-?39|(?:backup|secret) (?:phrase|words)")
_SEED_PHRASE = lazy_pattern(r"(?<![a-z])[a-z]{3,8}(?:(?:\s{1,2}|,\s?|\s?\d{1,2}[.)]\s?)[a-z]{3,8}){11,23}(?![a-z])")
_SEED_WINDOW, _SEED_STARTS_WITHIN = 400, 60  # characters behind the keyword
_NOT_IN_SEEDS = frozenset(_listed("the|and|for|with|from|are|was|were|not|but|our|has|have|had|its|will"))


def _beside_words(text: str, lowered: str) -> Iterator[Found]:
    """Secrets that a word gives away, behind it or on its line; `lowered` is as long as the text."""
    line_end = -1
    for start, end, what in sorted(_words(lowered)):
        if what != "service":
            yield from _assigned(text, start, end, what)
        if start > line_end and not _HARMLESS_BEFORE.search(text[max(0, start - 16) : start]):
            line_start = text.rfind("\n", 0, start) + 1
            line_end = text.find("\n", end)
            line_end = len(text) if line_end < 0 else line_end
            yield from _on_line(text, line_start, line_end)


def _numbers_beside_words(text: str, lowered: str) -> Iterator[Found]:
    for kind, pattern, beginning in _NUMBERS:
        for match in pattern.finditer(text) if beginning.search(lowered) else ():
            yield kind, match.start("s"), match.end("s")


def _seed_phrases(text: str, lowered: str) -> Iterator[Found]:
    for keyword in _SEED.finditer(lowered):
        end = keyword.end()
        # A phrase has 12 to 24 words without any that sentences use, so a sentence about seed phrases does not match.
        for words in _SEED_PHRASE.finditer(text, end, end + _SEED_WINDOW):
            if words.start() <= end + _SEED_STARTS_WITHIN and _NOT_IN_SEEDS.isdisjoint(words.group().split()):
                yield "seed phrase", words.start(), words.end()


def _is_placeholder(text: str, *, is_quoted: bool = False) -> bool:
    """Whether it is an example, a reference to a variable or a masked value, as in documentation and settings."""
    if _PLACEHOLDER_WORDS.search(text) or (not is_quoted and _PLACEHOLDER_MARKS.search(text)):
        return True
    return len(text) > _MOST_ALIKE and len(set(text.lower())) <= min(_MOST_ALIKE, len(text) // 4)


def _is_random(token: str, *, length: int = 16) -> bool:
    """Whether a token reads like a key drawn by a machine rather than like a name, a path, a number or a version."""
    if len(token) < length or _is_path(token):
        return False
    digits = sum(map(str.isdigit, token))
    if digits < _FEWEST_DIGITS:
        # With hardly a digit only the case can tell: the parts of aName are longer than those of qWzKp.
        is_mixed = not (token.isupper() or token.islower())
        return is_mixed and sum(1 for _ in _PART.finditer(token)) * (6 if digits else 5) >= len(token) * 2
    if sum(map(str.isalpha, token)) < _FEWEST_LETTERS:
        return False
    # Names change between letters and digits once or twice; keys do all the time.
    return _HEX_WORD.fullmatch(token) is not None or sum(1 for _ in _RUN.finditer(token)) * 4 >= min(len(token), 32)


def _is_path(token: str) -> bool:
    """Whether most of its segments are plain names; the segments of a key are as mixed as the whole."""
    if "\\" in token or token.startswith(("./", "~/", "../")) or _FILE_NAME.fullmatch(token):
        return True
    segments = [segment for segment in token.split("/") if segment]
    return "/" in token and 2 * sum(1 for one in segments if _PLAIN_SEGMENT.fullmatch(one)) > len(segments)


def _words(lowered: str) -> Iterator[tuple[int, int, str]]:
    for word, what in _WORDS.items():
        at = lowered.find(word)
        while at >= 0:
            if meaning := what or _short_word(lowered, at, word):
                yield at, at + len(word), meaning
            at = lowered.find(word, at + len(word))


def _short_word(lowered: str, at: int, word: str) -> str:
    """The meaning of a short word that counts only as a whole word or as the name of a key; otherwise ""."""
    end = at + len(word)
    is_named = word == "key" and lowered[max(0, at - 12) : at].rstrip(" _-").endswith(_SECRET_KEYS)
    if lowered[end : end + 1].isalpha() or (lowered[at - 1 : at].isalpha() and not is_named):
        return ""
    if is_named:
        return "key"
    return "password" if word in _SHORT_PASSWORD_WORDS else "weak key"


def _assigned(text: str, word_start: int, word_end: int, what: str) -> Iterator[Found]:
    """The value that is assigned to a name with this word in it, if it looks like a secret of that kind."""
    name = _NAME_GOES_ON.match(text, word_end)
    name_end = word_end if name is None else name.end()
    match = _ASSIGNED.match(text, name_end)
    if match is None or _ABOUT.search(text, word_end, name_end):
        return
    group = match.lastgroup or "bare"
    is_quoted = group != "bare"
    start, end = match.span(group)
    value = match[group]
    if not is_quoted:
        if text.startswith("(", end):
            return  # a call
        rest = _REST_OF_PASSWORD.match(text, end) if what == "password" else None
        value = _up_to_words(value if rest is None else value + rest.group()).rstrip(".,;:)]}")
        end = start + len(value)
    if len(value) < _SHORTEST_NUMBER or _is_placeholder(value, is_quoted=is_quoted) or value.startswith("-----BEGIN"):
        return
    is_flag = text[max(0, word_start - 24) : word_start].rpartition(" ")[2].startswith("-")
    is_assigned = is_flag or bool(text[name_end:start].strip(" \t\"'`"))
    if what == "password":
        if _is_password(value, is_quoted=is_quoted, is_assigned=is_assigned):
            yield "password", start, end
    elif not _HARMLESS_BEFORE.search(text[max(0, word_start - 16) : word_start]):
        is_api_key = text[word_start:word_end].lower() == "key"
        if _is_key(value, is_weak=what == "weak key", is_assigned=is_assigned or is_quoted, is_api_key=is_api_key):
            yield "key or token", start, end


def _up_to_words(value: str) -> str:
    """`value` without the words after it, for scripts without spaces; empty if it is words or a number of days."""
    for at, char in enumerate(value):
        if (char > _LAST_CYRILLIC and char.isalpha()) or "\u3000" <= char <= "\u303f" or "\uff00" <= char <= "\uffef":
            return "" if value[:at].isdigit() and char in _COUNTERS else value[:at]
    return value


def _is_password(value: str, *, is_quoted: bool, is_assigned: bool) -> bool:
    if not is_assigned:
        is_word_with_digits = is_quoted and value.isalnum() and not value.isalpha() and len(value) >= _SHORTEST_PLAIN
        return is_word_with_digits or _is_random(value, length=10)
    if " " in value:  # a pass phrase, and not a sentence about one
        return is_quoted and value.replace(" ", "").isalpha() and value.islower() and value.count(" ") in _PHRASE_BLANKS
    if value.isdigit():
        return len(value) >= _SHORTEST_NUMBER
    if not _UUID_WORD.fullmatch(value) and (_is_path(value) or _NUMBER_WITH_UNIT.fullmatch(value)):
        return False
    is_mixed = not value.replace("-", "").replace("_", "").replace(".", "").isalpha()
    return len(value) >= (_SHORTEST_MIXED if is_mixed else _SHORTEST_PLAIN) and (is_mixed or is_quoted)


def _is_key(value: str, *, is_weak: bool, is_assigned: bool, is_api_key: bool) -> bool:
    if _FINGERPRINT.search(value[:12]):
        return False
    if _UUID_WORD.fullmatch(value):
        return not is_weak and (is_assigned or is_api_key)
    return _is_random(value, length=(24 if is_weak else 12) if is_assigned else 20)


def _on_line(text: str, start: int, end: int) -> Iterator[Found]:
    """Long random tokens on a line that mentions keys, unless a word before them says what else they are."""
    is_sure = _SURE_WORD.search(text, start, end) is not None
    for token in _TOKEN.finditer(text, start, end):
        value = token.group().rstrip(".")
        explained = _FINGERPRINT.search(text[max(start, token.start() - 32) : token.start() + 8])
        if explained or _is_placeholder(value) or _UUID_WORD.search(value) or not _is_random(value, length=_ON_A_LINE):
            continue
        if is_sure or len(value) not in _DIGEST_LENGTHS:
            yield "key or token", token.start(), token.start() + len(value)
