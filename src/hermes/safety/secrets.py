"""Finds and masks secrets: keys, tokens, passwords, private keys, webhooks, card numbers.

Memory refuses them; logs, exports and search results show a marker instead. What only looks like one (a commit, a
checksum, a `$VARIABLE`, a placeholder) is left alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, chain, groupby

from hermes.base.values import value
from hermes.safety import secret_formats as secret_words
from hermes.safety.lexicon import UNUSUAL, Beginnings, FewBeginnings
from hermes.safety.secret_formats import TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SIGNS = {"n": "\n", '"': '"', "t": "\t", "'": "'", "/": "/", "r": "\r"}  # the most frequent first
_SURROGATES = range(0xD800, 0xE000)
_CODE = r"\\u([0-9a-fA-F]{4})"
# However often it was written into another text: each time doubles the backslashes.
_ESCAPE = r"\\+(?:[nrt\"'/]|u[0-9a-fA-F]{4})|\\{2,}"


def unescaped(text: str) -> str:
    """What to search instead of the text."""
    if "\\" not in text:
        return text
    while "\\\\" in text:
        text = text.replace("\\\\", "\\")
    for sign, meant in _SIGNS.items():
        if "\\" not in text:
            return text
        text = text.replace(f"\\{sign}", meant)
    if "\\u" in text:
        import re

        text = re.sub(_CODE, _character, text)
    return text


def places(original: str, wanted: list[int]) -> list[int]:
    """Where in the original the characters at these places of what `unescaped` returns begin."""
    import re
    from bisect import bisect_left
    from itertools import accumulate

    found = list(re.finditer(_ESCAPE, original))
    shifts = [0, *accumulate(match.end() - match.start() - 1 for match in found)]
    signs = [match.start() - shift for match, shift in zip(found, shifts, strict=False)]
    return [at + shifts[bisect_left(signs, at)] for at in wanted]


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return "?" if code in _SURROGATES else chr(code)


# Which of many texts may hold a secret: one look at all of them, many times faster than a search in each.
#
# Nothing is decided here. A text that is named is searched like any other; one that is not named holds no secret,
# because what every secret of a kind has in common is missing, for each kind.

_BATCH = 88_000  # characters looked at together; what is much more leaves the processor's cache
# Stands between texts: nothing that could belong to a secret, and more than may stand between a word and its number.
_BETWEEN = "\n\0\0\0\0\0\n "
_ALL_ASCII = bytes(range(128))
# Of UTF-8 the first byte of each character that is not ASCII becomes "?", and those that go on with it are dropped.
_FIRST_BYTES = _ALL_ASCII + b"?" * 128
_FURTHER_BYTES = bytes(range(0x80, 0xC0))


def _parted(word: str) -> tuple[str, str]:
    """A word in two parts, the first up to the first letter that is not ASCII."""
    at = 1 + next(place for place, letter in enumerate(word) if not letter.isascii())
    return word[:at], word[at:]


_FOREIGN = tuple(map(_parted, secret_words.FOREIGN_WORDS))
_FIRST_FOREIGN = "".join(first[-1] + first[-1].upper() for first, _ in _FOREIGN)


def _letters() -> Iterator[str]:
    """Ranges of letters, as most texts of their scripts consist of, without those that a foreign word begins with."""
    for first, last in (("\u0400", "\u04ff"), ("\u3041", "\u30ff"), ("\u4e00", "\u9fff"), ("\uac00", "\ud7a3")):
        start = ord(first)
        for wanted in sorted({ord(letter) for letter in _FIRST_FOREIGN if first <= letter <= last}):
            yield f"{chr(start)}-{chr(wanted - 1)}"
            start = wanted + 1
        yield f"{chr(start)}-{last}"


# Lower case is not as usual, a digit is not ASCII, what looks like one of our markers would be blanked before a search,
# or there is a foreign word for passwords or keys. The class of characters at the beginning lets the search skip fast.
_NO_LETTER = re.compile(f"[^\\0-\\x7f{''.join(_letters())}]")
_UNUSUAL = re.compile(
    f"{_NO_LETTER.pattern}(?:(?<=[\u0130\u0131\u017f\u212a\\d])|(?<=[a-z0-9 ] \u2026)"
    f"|(?<=[{_FIRST_FOREIGN}])"
    f"(?i:{'|'.join(f'(?<={first}){rest}' for first, rest in _FOREIGN)}))"
)

# --- words ---------------------------------------------------------------------------------------------------------

# What stands at a place where one of the words below begins when a secret follows. Whether something beside a word for
# keys or passwords is one, and whether words are a seed phrase, is asked of `secret_words`.
_TELLING = re.compile(
    r"://[^\s/@\"'<>]{1,301}@"
    r"|(?:sess(?:ion(?:[_-]?(?:id|token|key))?|id)?|sid|__secure-[a-z0-9_-]{1,30})[\"']?\s{0,2}[=:]\s{0,2}[\"']?[\w.%+/=-]{16}"
    r"|key(?:\s{0,3}=\s{0,3}[a-z0-9+/=]{32}|-data:|-file-\d:)|auth\":\s{0,4}\"|token\$(?:production|sandbox)\$"
    r"|uthorization[\"']?\s{0,3}[:=,]"
    r"|bearer\s{1,3}[\w+/.~=-]{16}"
    r"|ookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?[\w.%-]{1,60}="
    r"|(?:-u|--user)[= ]{1,2}[\"']?[^\s:\"']{1,60}:"
    r"|(?:(?<=ssh)|(?<=require))pass\s"
    r"|mysql(?:dump|admin)?\b[^\n]{0,100}?\s-p\S|docker login|identified by\s"
    r"|basic\s{1,2}[a-z0-9+/]{10,}="
    r"|(?:basic auth|credentials|creds|(?<=l)ogin)(?:\s(?:is|are))?[\s:=]{1,4}[\w.@-]{1,40}(?::|\s?/\s?)"
    r"(?=[^\s\d]{0,40}\d)"
    r"|(?<=l)ogin\s{1,4}\S{1,100}\s{1,4}password\s"
    r"|(?<=a)irtable[^\n]{0,30}?\bkey|ssws\s"
    r"|:5432:|\$(?:2[abxy]\$|(?:apr1|1|5|6|y)\$|argon2)|pbkdf2_sha"
    r"|(?<=----)-begin (?:[a-z0-9]{1,12} ){0,3}private key|ls0tls1crudjti"
    r"|jqqj99|azdo|azfu|azse|azca|\+amc|\+aba|\+ast|(?:sig|(?<=signat)ure)=[\w%+/=~-]{20}|(?<=sha)256~"
    r"|hooks?(?:[a-z0-9]{0,3}/|\.(?:slack|zapier|integromat|airtable|office)\.com)|(?<=maker\.)ifttt|dingtalk\.com|/spaces/|(?<=\.)atlasv1\."
    r"|xox[a-z][.-]|xapp-|(?<=[sr])k_(?:live|test)_"
    # numbers
    r"|(?<![a-z])(?:pin(?:\s?(?:code|number))?|puk|passcode)(?![a-z])[\s\S]{0,60}?\d{4}"
    r"|(?:codes?|combination|pin|otp|cvv2?|cvc2?)\s{0,2}(?:(?:is|was|:|=)\s{0,2})?\d{3}"
    r"|(?:ssn|social security)[^\n\d]{0,30}\d{3}"
    # what has to be looked at more closely
    r"|(?P<seed>seed|mnemonic|(?<=re)covery|wallet|bip-?39|(?:(?<=bac)kup|secret) (?:phrase|words))"
    rf"|(?P<word>{'|'.join(secret_words.ASCII_WORDS)})"
)
# Letters, blanks and what ends or parts a sentence. A text of nothing else has no digit, no sign of assignment, no
# quote and no long name, so that all it can hold begins with one of a few words.
_OF_PROSE = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \t\r\n.,;()"
# Of words that begin like many others something rarer from their middle is looked for.
_PROSE = FewBeginnings("secr|seed|mnem|cove|kup ", "ogin|wall|irta|pass|utho", usual=_OF_PROSE + b"\0")
_ANYWHERE = Beginnings(
    "--use|256~|azdo|code.|hook|seed|token",
    "dingt|ident|ifttt|ls0tl|mnemo|mysql|parol",
    "-begi|combi|mot d|pat.|sig=|ure=|uthor",
    "atlas|basic|k_liv|ogin.|pass.|passc|passp|passw|sess.|sessi|walle",
    "beare|bip-3|bip39|cover|cvc.|cvci|cvcw|cvv.|cvvw|docke|jqqj9|key.|kup p|kup w|otp.",
    ":5432|__sec|codei|codes|codew|crede|creds|irtab|k_tes|kennw|ookie|otpis|otpwa|secre|senha|socia",
    "$2a|$2b|$2x|$5$|$6$|$apr1|$argo|$y$|+aba|+amc|+ast|://|auth.|azca|azfu|azse|xapp-|xox",
    "$1$|$2y|-u |-u=|/spac|cvvi|pbkdf|pin.|pinco|pinis|pinnu|pinwa|psk.|puk.|pw.|pwd|sid.|ssn|ssws.",
)

# --- tokens --------------------------------------------------------------------------------------------------------

_ASCII = 128
_SHORTEST_TOKEN = 20  # but for two kinds, which are found by their beginnings
_SHORTEST_RANDOM = 24
_OF_TOKENS = bytes(  # "?" is a question mark or a character that is not ASCII
    ord("a") if chr(byte) in "_+/=.~%$:?-" or (byte < _ASCII and chr(byte).isalnum()) else ord(" ")
    for byte in range(256)
)
_RUN = b"a" * _SHORTEST_TOKEN
_NEVER_BEFORE = "(?<![A-Za-z0-9])"


def _prefixes() -> Iterator[str]:
    """The beginnings, as patterns, of formats that are a fixed beginning and a run of characters."""
    for _, hints, pattern in TOKENS:
        either = [re.escape(hint).replace(r"\-", "-") for hint in hints]
        if pattern.startswith(f"{_NEVER_BEFORE}(?:{'|'.join(either)})"):
            yield from either


_PREFIXED = "|".join(
    f"{first}(?:{'|'.join(prefix.removeprefix(first) for prefix in group)})"
    for first, group in groupby(sorted(set(_prefixes())), key=lambda prefix: prefix[: 1 + prefix.startswith("\\")])
)
_TOKEN = re.compile(  # begins with a class of characters, because such a search skips fast
    rf"[^A-Za-z0-9](?:(?:{_PREFIXED})[\w+/=.~%:-]{{16}}"
    r"|sk-[\w-]{20}|sk_[0-9a-fA-F]{40}|do[opr]_v1_|f(?:m[12]|o1)[ar]?_"
    r"|eyJ[\w-]{8,}\.|access-(?:sandbox|development|production)-|[MNO][\w-]{23,27}\.[\w-]{6,7}\.|\d{8,10}:[\w-]{32}"
    r"|SK[0-9a-f]{32}|(?:pub)?key-[0-9a-f]{32}|[0-9a-f]{32}-(?:us\d|[0-9a-f]{8}-)|pat\w{14}\.|[0-2]/\d{10,20}[/:]"
    r"|pk_\d{5,10}_|[0-9a-fA-F]{36}NRAL|hv[sbr]\.|[sbr]\.[A-Za-z0-9]{24}|dp\.(?:pt|st|ct|sa|scim|audit)\."
    r"|(?:sdk|api|mob)-[0-9a-fA-F]{8}-|A3-[A-Z0-9]{6}-|[ps]at\.[\w-]{22}\.|[\w.~-]{3}\dQ~)"
)

# --- numbers -------------------------------------------------------------------------------------------------------

_FEWEST_DIGITS = 12
_NO_DIGITS = bytes(set(range(1, 256)) - set(b"0123456789"))  # nor what stands between texts
_ZEROS = bytes.maketrans(b"123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0" * 9 + b"A" * 26)
_CARD, _FIRST_OF_CARD, _IBAN = b"0" * 13, b"0" * 4, b"AA00"


def suspects(texts: Sequence[str]) -> Iterator[int]:
    """Positions of the texts that may hold a secret, some of them more than once."""
    texts = list(map(unescaped, texts))
    if "\0" in "".join(texts):  # it stands between texts only; to the formats both are no character at all
        texts = [text.replace("\0", "\1") for text in texts]
    start = size = 0
    for at, text in enumerate(texts):
        size += len(text)
        if size >= _BATCH or at == len(texts) - 1:
            yield from (start + place for place in _suspects(texts[start : at + 1]))
            start, size = at + 1, 0


def _suspects(texts: Sequence[str]) -> Iterator[int]:
    together = _Joined(texts, None if all(map(str.isascii, texts)) else _encoded(texts))
    marks = _PROSE.marks(together.raw)
    others = together.numbers(marks, UNUSUAL)
    if not others:
        yield from together.told(_PROSE.places(marks))
        return
    if prose := sorted(set(range(len(texts))).difference(others)):
        some = together.some(prose)
        yield from (prose[number] for number in some.told(_PROSE.places(_PROSE.marks(some.raw))))
    plain = [at for at in others if texts[at].isascii()]
    foreign = [at for at in others if not texts[at].isascii()]
    if unusual := set(_unusual(texts, foreign)):
        yield from unusual
        foreign = [at for at in foreign if at not in unusual]
    for usual in filter(None, (plain, foreign)):  # what is all ASCII is much faster by itself
        joined = together.some(usual)
        told = joined.told(_ANYWHERE.places(joined.raw))
        yield from (usual[number] for number in chain(told, joined.tokens(), joined.accounts()))


def _unusual(texts: Sequence[str], foreign: Sequence[int]) -> Iterator[int]:
    together = "".join([texts[at] for at in foreign]).encode("utf-8", "surrogatepass")
    if _NO_LETTER.search(together.translate(None, _ALL_ASCII).decode("utf-8", "surrogatepass")):
        yield from (at for at in foreign if _UNUSUAL.search(texts[at]))


def _encoded(texts: Sequence[str]) -> list[bytes]:
    """Each with one byte for one character, "?" for what is not ASCII."""
    return [
        text.encode()
        if text.isascii()
        else text.encode("utf-8", "surrogatepass").translate(_FIRST_BYTES, _FURTHER_BYTES)
        for text in texts
    ]


class _Joined:
    """Texts put together, and the way back from a place in them to the number of the text."""

    def __init__(self, texts: Sequence[str], encoded: Sequence[bytes] | None) -> None:
        """Texts that are all ASCII come without their encoded forms: put together they are encoded at once."""
        self._texts, self._encoded = texts, encoded
        self.raw = self._text.encode() if encoded is None else _BETWEEN.encode().join((b"", *encoded))

    def some(self, numbers: Sequence[int]) -> _Joined:
        encoded = self._encoded
        return _Joined([self._texts[at] for at in numbers], encoded and [encoded[at] for at in numbers])

    @cached_property
    def _text(self) -> str:
        return _BETWEEN.join(("", *self._texts))

    @cached_property
    def _lowered(self) -> str:
        """With what is ASCII in lower case: all that the words below consist of."""
        if self._text.isascii():
            return self._text.lower()
        return self._text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate([len(text) + len(_BETWEEN) for text in self._texts]))

    def numbers(self, marks: bytes, mark: bytes) -> list[int]:
        """Texts that have this mark somewhere."""
        found = []
        place = marks.find(mark)
        while place >= 0:
            number = bisect_right(self._ends, place)
            found.append(number)
            place = marks.find(mark, self._ends[number])
        return found

    def told(self, places: Iterable[int]) -> Iterator[int]:
        """Texts in which one of the words at these places tells of a secret."""
        for at in places:
            match = _TELLING.match(self._lowered, at)
            if match is not None and (match.lastgroup is None or _is_told(self._text, self._lowered, match)):
                yield bisect_right(self._ends, at)

    def tokens(self) -> Iterator[int]:
        """Texts in which something has the form of a token, or is as long and mixed as one."""
        text = self._text
        shape = self.raw.translate(_OF_TOKENS) + b" "
        start = shape.find(_RUN)
        while start >= 0:
            end = shape.find(b" ", start)
            # A run of nothing but other scripts is a sentence without blanks.
            if self.raw[start:end].strip(b"?") and (_TOKEN.search(text, start - 1, end) or _is_random(text[start:end])):
                yield bisect_right(self._ends, start)
            start = shape.find(_RUN, end)

    def accounts(self) -> Iterator[int]:
        """Texts with digits enough for a card or an account, in a row or after two capitals."""
        if not _has_account(self.raw):
            return
        for number, (text, raw) in enumerate(zip(self._texts, self._encoded or _encoded(self._texts), strict=True)):
            has_digits = not text.isascii() or len(raw.translate(None, _NO_DIGITS)) >= _FEWEST_DIGITS
            if has_digits and _has_account(raw):
                yield number


def _is_told(text: str, lowered: str, match: re.Match[str]) -> bool:
    if match.lastgroup == "seed" and any(True for _ in secret_words.find_seed_phrase_after(text, match.end())):
        return True
    return secret_words.is_told_at(text, lowered, match.start())


def _has_account(text: bytes) -> bool:
    forms = text.translate(_ZEROS)
    return _IBAN in forms or (_FIRST_OF_CARD in forms and _CARD in forms.translate(None, b" -"))


def _is_random(run: str) -> bool:
    if len(run) < _SHORTEST_RANDOM or (run.islower() and not any(map(str.isdigit, run))):
        return False
    return secret_words.has_random_token(run)


_SHORTEST_RUN = 16
_SHOWN = 4
_LONG_ENOUGH_TO_SHOW = 16
_LONG_TEXT = 4_000  # characters from which a quick look comes first; memories are shorter, and need none of its parts
_MOST_PASSES = 4  # a marker is shorter than its secret, which may bring a word and another secret together
_NEVER_SHOWN = ("password", "private key", "seed phrase", "cookie", "pin", "code")

# Any of these may stand beside a secret that is short; everything else is at least a long run or many digits.
BESIDE_SECRETS = (
    *(
        "pass",
        "pwd",
        "secret",
        "token",
        "key",
        "credential",
        "auth",
        "bearer",
        "cookie",
        "sess",
        "sid=",
        "://",
        "login",
    ),
    *(
        "pin",
        "puk",
        "pw",
        "code",
        "otp",
        "cvv",
        "cvc",
        "ssn",
        "social sec",
        "-----begin",
        "kennwort",
        "contrase",
        "senha",
        "parola",
    ),
    *(
        "seed",
        "mnemonic",
        "recovery",
        "wallet",
        "backup",
        "identified by",
        "requirepass",
        " -u ",
        "--user",
        "safe",
        "$",
    ),
    *("door", "gate", "lock", ":5432:", "\u043f\u0430\u0440\u043e\u043b\u044c", "\u5bc6", "\u53e3\u4ee4"),
    *(
        "\u30d1\u30b9\u30ef\u30fc\u30c9",
        "\u092a\u093e\u0938\u0935\u0930\u094d\u0921",
        "\u0643\u0644\u0645\u0629 \u0627\u0644",
        "\ube44\ubc00\ubc88\ud638",
        "\u015fifre",
        "schl\u00fcssel",
        "bip",
        "mot de passe",
    ),
)
_NUMBER_WORDS = ("pin", "puk", "code", "combination", "otp", "cvv", "cvc", "ssn", "social sec")
_SEED_WORDS = ("seed", "mnemonic", "recovery", "wallet", "bip", "phrase", "words")
# A password has a digit or a mark, or stands in quotes; a sentence about passwords usually has none of these.
_IN_PASSWORDS = tuple("0123456789\"`!@#$^&*+~?'")
_SEPARATORS = dict.fromkeys(map(ord, " \t\r\n\"'`=:,;/.@&?<>()[]{}|#$%^*~!\\+"), " ")


@value
class Secret:
    kind: str
    start: int
    end: int
    masked: str


def find_secrets(text: str) -> tuple[Secret, ...]:
    """Every secret in the text, in order and without overlaps."""
    if len(text) >= _LONG_TEXT and next(suspects((text,)), None) is None:
        return ()
    return search(text)


def search(text: str) -> tuple[Secret, ...]:
    """What `find_secrets` finds, without a quick look first."""
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


def _search(text: str) -> tuple[Secret, ...]:
    if "\u2026" in text:
        text = _without_markers(text)
    lowered = _lowered(text)
    has_runs = _has_runs(text)
    has_words = any(word in lowered for word in BESIDE_SECRETS)
    digits = map(text.count, "0123456789") if text.isascii() else map(str.isdigit, text)
    has_digits = sum(digits) >= _FEWEST_DIGITS
    if not (has_runs or has_words or has_digits):
        return ()
    found = list(_all(text, lowered, has_runs=has_runs, has_words=has_words, has_digits=has_digits))
    return tuple(_secret(text, *one) for one in _merged(found)) if found else ()


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


def mask_all(texts: Sequence[str]) -> list[str]:
    """`mask_secrets` of each text; of many at once for a fraction of the time."""
    masked = list(texts)
    for at in set(suspects(texts)):
        masked[at] = mask_secrets(masked[at])
    return masked


def _lowered(text: str) -> str:
    """Lower case, character for character: some, such as the dotted capital I, would become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(one if len(one) == 1 else character for character, one in ((c, c.lower()) for c in text))


def _has_runs(text: str) -> bool:
    """Whether there is a long run with digits; plain string methods, because most texts have none."""
    return any(len(run) >= _SHORTEST_RUN and not run.isalpha() for run in text.translate(_SEPARATORS).split())


def _all(
    text: str, lowered: str, *, has_runs: bool, has_words: bool, has_digits: bool
) -> Iterator[tuple[str, int, int]]:
    from hermes.safety.secret_formats import PHRASES, TOKENS

    if has_runs:
        yield from _formats(text, TOKENS)
    yield from _formats(text, PHRASES)
    if has_runs or (has_words and any(mark in text for mark in _IN_PASSWORDS)):
        from hermes.safety import secret_formats as secret_words

        yield from secret_words.find_beside_words(text, lowered)
    if has_words:
        yield from _numbers_and_phrases(text, lowered)
    if has_digits:
        from hermes.safety import secret_formats as secret_numbers

        yield from secret_numbers.find_card_numbers(text)
        yield from secret_numbers.find_ibans(text)


def _numbers_and_phrases(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    from hermes.safety import secret_formats as secret_words

    if any(word in lowered for word in _NUMBER_WORDS) and any(map(str.isdigit, text)):
        yield from secret_words.find_numbers_beside_words(text, lowered)
    if any(word in lowered for word in _SEED_WORDS):
        yield from secret_words.find_seed_phrases(text, lowered)


def _formats(text: str, formats: tuple[tuple[str, tuple[str, ...], str], ...]) -> Iterator[tuple[str, int, int]]:
    for kind, hints, pattern in formats:
        if any(hint in text for hint in hints):
            import re

            for match in re.compile(pattern).finditer(text):  # re keeps what it compiled
                from hermes.safety.secret_formats import is_example

                group = match.lastgroup or 0
                if not is_example(match[group]):
                    yield kind, match.start(group), match.end(group)


def _merged(found: list[tuple[str, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Join what overlaps, under the name that was found first: a format knows more than a word beside it."""
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


def _without_markers(text: str) -> str:
    """The same text with our markers blanked, so that "token" in a marker does not accuse its neighbour."""
    import re

    return re.sub(r"\[[a-z0-9 ]{2,40} \u2026[A-Za-z0-9]{0,4}\]", lambda marker: "\0" * len(marker.group()), text)
