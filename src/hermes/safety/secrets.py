"""Find and mask secrets: keys, tokens, passwords, private keys, webhooks, card numbers.

Memory refuses them; logs, exports and search results show a marker instead. What only looks like one (a commit, a
checksum, a `$VARIABLE`, a placeholder) is left alone.
"""

from __future__ import annotations

from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHORTEST_RUN = 16
_FEWEST_DIGITS = 12
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
    if len(text) >= _LONG_TEXT:
        from hermes.safety.secret_places import suspects

        if next(suspects((text,)), None) is None:
            return ()
    return search(text)


def search(text: str) -> tuple[Secret, ...]:
    """What `find_secrets` finds, without a quick look first."""
    if "\\" not in text:
        return _search(text)
    from hermes.safety.secret_escapes import places, unescaped

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
    from hermes.safety.secret_places import suspects

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
        from hermes.safety import secret_words

        yield from secret_words.find_beside_words(text, lowered)
    if has_words:
        yield from _numbers_and_phrases(text, lowered)
    if has_digits:
        from hermes.safety import secret_numbers

        yield from secret_numbers.find_card_numbers(text)
        yield from secret_numbers.find_ibans(text)


def _numbers_and_phrases(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    from hermes.safety import secret_words

    if any(word in lowered for word in _NUMBER_WORDS) and any(map(str.isdigit, text)):
        yield from secret_words.find_numbers_beside_words(text, lowered)
    if any(word in lowered for word in _SEED_WORDS):
        yield from secret_words.find_seed_phrases(text, lowered)


def _formats(text: str, formats: tuple[tuple[str, tuple[str, ...], str], ...]) -> Iterator[tuple[str, int, int]]:
    for kind, hints, pattern in formats:
        if any(hint in text for hint in hints):
            import re

            for match in re.compile(pattern).finditer(text):  # re keeps what it compiled
                from hermes.safety.secret_examples import is_example

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
