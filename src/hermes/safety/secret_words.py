"""Secrets that only the words beside them give away: `password: …`, "the API key is …", a PIN, a seed phrase."""

from __future__ import annotations

from hermes.safety.secret_pattern import Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Found = tuple[str, int, int]

# Found with str.find, which is many times faster than one pattern of all of them.
_PASSWORD_WORDS = (
    *(
        "password",
        "passwd",
        "passwort",
        "kennwort",
        "passphrase",
        "passcode",
        "pwd",
        "contrase\u00f1a",
        "senha",
        "parola",
    ),
    *("mot de passe", "\u015fifre", "\u043f\u0430\u0440\u043e\u043b\u044c", "\u5bc6\u7801", "\u5bc6\u78bc"),
    *("\u53e3\u4ee4", "\u30d1\u30b9\u30ef\u30fc\u30c9", "\ube44\ubc00\ubc88\ud638"),
    *(
        "\u092a\u093e\u0938\u0935\u0930\u094d\u0921",
        "\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631",
        "\u0643\u0644\u0645\u0629 \u0627\u0644\u0633\u0631",
    ),
)
_KEY_WORDS = ("secret", "token", "credential", "schl\u00fcssel", "\u5bc6\u94a5", "\u5bc6\u9470")
# These count only as words of their own, because they are part of many others.
_SHORT_PASSWORD_WORDS = ("pass", "pw")
_SHORT_KEY_WORDS = ("key", "pat", "psk", "auth", "bearer")
FOREIGN_WORDS = tuple(word for word in (*_PASSWORD_WORDS, *_KEY_WORDS) if not word.isascii())
ASCII_WORDS = (
    *(word for word in (*_PASSWORD_WORDS, *_KEY_WORDS) if word.isascii()),
    *_SHORT_PASSWORD_WORDS,
    *_SHORT_KEY_WORDS,
)
_SECRET_KEYS = (
    *("api", "access", "private", "secret", "signing", "encryption", "master", "license", "account", "auth", "service"),
)
# Services whose keys are bare runs of letters and digits; beside their name such a run is a key.
SERVICES = (
    *("datadog", "algolia", "twilio", "mailgun", "cloudflare", "new relic", "newrelic", "pagerduty", "okta", "auth0"),
    *("vercel", "heroku", "mistral", "cohere", "deepgram", "pinecone", "rapidapi", "openweather", "alchemy", "infura"),
    *(
        "etherscan",
        "binance",
        "coinbase",
        "kraken",
        "mapbox",
        "trello",
        "zendesk",
        "amplitude",
        "mixpanel",
        "sumologic",
    ),
    *("splunk", "netlify", "supabase", "airtable", "sendgrid", "paypal", "shopify", "openai", "anthropic"),
    *(
        "planetscale",
        "rollbar",
        "bugsnag",
        "loggly",
        "fastly",
        "linode",
        "vultr",
        "hetzner",
        "scaleway",
        "snyk",
        "postmark",
    ),
)
_WORD_HERE = Pattern(
    f"(?P<password>{'|'.join(_PASSWORD_WORDS)})|(?P<key>{'|'.join(_KEY_WORDS)})"
    f"|{'|'.join((*_SHORT_PASSWORD_WORDS, *_SHORT_KEY_WORDS))}"
)
_NAME_GOES_ON = Pattern(r"[A-Za-z0-9_]{0,40}")
_ASSIGNED = Pattern(
    r"[\"'`\])]{0,2}"
    # what it is the password for may stand between the word and the colon
    r"(?:\s(?:for|of|on|to|de|para|pour|f\u00fcr|\u043e\u0442|\u0434\u043b\u044f)\s[^\n:=]{1,40}(?=[:=]|\sis\s))?"
    r"(?:\s{0,3}(?:=>|:=|={1,3}|:|>|\(|\uff1a|\|)\s{0,3}|\s{0,2}[\u662f\u4e3a\u70ba\u306f\ub294\uc740]\s{0,2}|\s[\u2013\u2014-]\s"
    r"|\s{1,3}(?:is|was|are|set to|ist|lautet|es|est|\u00e9|\u00e8|\u0647\u064a|\u0647\u0648|=)[\s:]{1,3}"
    r"|\s{1,2}|(?=[\"'`]))"
    r"(?:[rbfu@$](?=[\"'`]))?"
    r"(?:\"(?P<double>[^\"\n]{4,300})\"|'(?P<single>[^'\n]{4,300})'|`(?P<tick>[^`\n]{4,300})`"
    r"|(?P<bare>[^\s\"'`<>,;|=:(]{2,300}={0,2}))",
    ignores_case=True,
)
_REST_OF_PASSWORD = Pattern(r"[^\s\"'`<>,;&|)\]}]{0,300}")
_TOKEN = Pattern(r"[A-Za-z0-9][A-Za-z0-9+/_.~-]{19,500}={0,2}")
_SURE_WORD = Pattern(
    r"api[_ -]?key|secret|token|passw|credential|licen[cs]e|\bhex\b|\baes\b|hmac|(?:access|private)[_ -]?key",
    ignores_case=True,
)
_LAST_CYRILLIC = "\u052f"  # letters further on stand in sentences, not in passwords
_COUNTERS = (
    "\u5e74\u6708\u65e5\u5929\u56de\u6b21\u500b\u4e2a\u6841\u4f4d\u6587\u5b57\u5206\u79d2\u6642\u65f6"
    "\ub144\uc6d4\uc77c\ud68c\uc790\uac1c\ubd84"
)
_PHRASE_BLANKS = range(2, 8)
_SHORTEST_NUMBER, _SHORTEST_MIXED, _SHORTEST_PLAIN = 4, 5, 8
_FEWEST_DIGITS, _FEWEST_LETTERS, _MOST_ALIKE = 2, 3, 3
_ON_A_LINE = 24  # characters of a key that nothing but its line gives away
_DIGEST_LENGTHS = (40, 64)  # a commit or a SHA-256, unless the line is sure

# A name that goes on like this is about a secret, not one: password_min_length, token_url, KEY_ID.
_ABOUT = Pattern(
    r"min|max|len|timeout|ttl|reset|ur[il]|path|file|dir|name|field|input|policy|age|day|expir|rotat|type|format|prefix"
    r"|count|limit|id(?![a-z])|strength|regex|hint|label|env|var|ref|header|endpoint|manager|store|bucket|algo|version"
    r"|size|index|usage|budget|per_|window|izer|ized|ization",
    ignores_case=True,
)
_HARMLESS_BEFORE = Pattern(
    r"(?:public|cache|primary|foreign|partition|sort|idempotency|object|s3|translation|i18n|routing|publishable|max|ssh"
    r"|row|shard|lock|redis|map|dict|natural|surrogate|composite|hot|arrow|deploy|host|fingerprint|thumbprint|tracking"
    r"|cursor|page|next|continuation|pagination)[\s_-]{0,2}\Z",
    ignores_case=True,
)
_FINGERPRINT = Pattern(
    r"(?:sha-?\d|md5|blake|commit|digest|hash|checksum|integrity|rev(?:ision)?\b|etag|uuid|guid|trace|span|request"
    r"|fingerprint|thumbprint|image|build|zone|\bids?\b|merge|branch|\btag\b|base64,|AAAA[BCE]\d|ssh-|ecdsa-|public|serial|cursor)",
    ignores_case=True,
)
_PLACEHOLDER_MARKS = Pattern(r"[<>{}\[\]()]|\A[$%]|\$[A-Z_]{3}|%[A-Z]{3}|://")
_PLACEHOLDER_WORDS = Pattern(
    r"\.\.\.|\u2026|\*{3}|\$\{|\$\(|\{\{|\A[<$%{\[]|x{4}|your|example|change_?me|dummy|placeholder|redact|todo|fixme|sample"
    r"|replace|insert|environ|getenv|process\.env|config\.|settings\.|secrets\.|self\.|this\.|undefined|required"
    r"|optional|\bnone\b|\bnull\b|\btrue\b|\bfalse\b|masked|hidden|not[_ -]?set|lorem|foo.?bar|\A(?:op|arn|vault):",
    ignores_case=True,
)
_PLAIN_SEGMENT = Pattern(r"[A-Za-z]?[a-z._-]*[\d.-]{0,8}|[A-Z]+")
_FILE_NAME = Pattern(r"[\w/.-]{1,200}\.[a-z]{2,5}")
_UUID = Pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", ignores_case=True)
_NUMBER_WITH_UNIT = Pattern(r"[\d.,:_/+-]+[a-z%]{0,3}", ignores_case=True)
_PART = Pattern(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_HEX = Pattern(r"(?:0x)?[0-9a-f]{16,}", ignores_case=True)
_RUN = Pattern(r"[A-Z]+|[a-z]+|[0-9]+")

_PIN = Pattern(
    r"(?:\b(?:PIN|PUK)\b|(?i:\bpin\s?(?:code|number)|\bpasscode|\bpuk\b|\bpin(?=\s{0,2}[:=]|\s(?:is|was)\b)))"
    r"(?i:[\s:=#-]{1,4}(?:is|was|code|for|to|of)?(?:\s\w{1,12}){0,3}?[\s:=]{0,3})"
    r"(?P<s>\d{4}(?:\d{2}(?:\d{2})?)?)(?![\d.]\d|\d|-\d|\s?(?:px|mm|ms|Hz))"
)
_DOOR = Pattern(
    r"(?i:(?:(?:alarm|door|gate|garage|entry|lock|safe|security|unlock|access|verification|2fa|backup|login)\s"
    r"(?:codes?|combination|pin)|\botp|\bcvv2?|\bcvc2?)\s{0,2}(?:(?:is|was|:|=)\s{0,2})?)"
    r"(?P<s>\d{3,8}(?:[- ]\d{2,4}){0,3})(?![\d%]|\.\d)"
)
_SSN = Pattern(r"(?i:\bssn\b|social security)[^\n\d]{0,30}(?P<s>\d{3}-?\d{2}-?\d{4})(?!\d)")
# What must stand in the lower case of a text for the pattern to match: with no case to ignore it is found much sooner.
_NUMBERS = (
    ("pin", _PIN, Pattern(r"\b(?:pin|puk|passcode)")),
    ("code", _DOOR, Pattern(r"(?:code|combination|pin|otp|cv[vc])\w?\s{0,2}(?:(?:\w{2,3}|:|=)\s{0,2})?\d{3}")),
    ("social security number", _SSN, Pattern(r"\bssn\b|social security")),
)
_SEED = Pattern(r"seed|mnemonic|recovery|wallet|bip-?39|(?:backup|secret) (?:phrase|words)")
_SEED_WORDS = Pattern(r"(?<![a-z])[a-z]{3,8}(?:(?:\s{1,2}|,\s?|\s?\d{1,2}[.)]\s?)[a-z]{3,8}){11,23}(?![a-z])")
_SEED_WINDOW, _SEED_STARTS_WITHIN = 400, 60
_NOT_IN_SEEDS = frozenset(
    (
        "the",
        "and",
        "for",
        "with",
        "from",
        "are",
        "was",
        "were",
        "not",
        "but",
        "our",
        "has",
        "have",
        "had",
        "its",
        "will",
    )
)


def find_beside_words(text: str, lowered: str) -> Iterator[Found]:
    """`lowered` is the text in lower case, character for character."""
    line_end = -1
    for start, end, what in sorted(_words(lowered)):
        if what != "service":
            yield from _assigned(text, start, end, what)
        if start > line_end and not _HARMLESS_BEFORE.search(text[max(0, start - 16) : start]):
            line_start = text.rfind("\n", 0, start) + 1
            line_end = text.find("\n", end)
            line_end = len(text) if line_end < 0 else line_end
            yield from _on_line(text, line_start, line_end)


def is_told_at(text: str, lowered: str, at: int) -> bool:
    """Whether a word that begins at this place has a password or a key beside it."""
    word = _WORD_HERE.match(lowered, at)
    if word is None:
        return False
    what = word.lastgroup or _short_word(lowered, at, word.group())
    return bool(what) and any(True for _ in _assigned(text, at, word.end(), what))


def has_random_token(text: str) -> bool:
    """Whether there is a token that would be a key on a line which speaks of keys."""
    return any(is_random(token.group().rstrip("."), length=_ON_A_LINE) for token in _TOKEN.finditer(text))


def find_numbers_beside_words(text: str, lowered: str) -> Iterator[Found]:
    for kind, pattern, beginning in _NUMBERS:
        for match in pattern.finditer(text) if beginning.search(lowered) else ():
            yield kind, match.start("s"), match.end("s")


def find_seed_phrases(text: str, lowered: str) -> Iterator[Found]:
    for keyword in _SEED.finditer(lowered):
        yield from find_seed_phrase_after(text, keyword.end())


def find_seed_phrase_after(text: str, end: int) -> Iterator[Found]:
    """A seed phrase near a keyword that ends here."""
    # Where a colon or a bracket stands, the words come after it; otherwise the keyword's own sentence is let go.
    for words in _SEED_WORDS.finditer(text, end, end + _SEED_WINDOW):
        if words.start() <= end + _SEED_STARTS_WITHIN and _NOT_IN_SEEDS.isdisjoint(words.group().split()):
            yield "seed phrase", words.start(), words.end()


def is_placeholder(text: str, *, is_quoted: bool = False) -> bool:
    """An example, a reference to a variable or a masked value, as documentation and settings are full of."""
    if _PLACEHOLDER_WORDS.search(text) or (not is_quoted and _PLACEHOLDER_MARKS.search(text)):
        return True
    return len(text) > _MOST_ALIKE and len(set(text.lower())) <= min(_MOST_ALIKE, len(text) // 4)


def is_random(token: str, *, length: int = 16) -> bool:
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
    return _HEX.fullmatch(token) is not None or sum(1 for _ in _RUN.finditer(token)) * 4 >= min(len(token), 32)


def _is_path(token: str) -> bool:
    """Most of its segments are plain names, where those of a key are as mixed as the whole."""
    if "\\" in token or token.startswith(("./", "~/", "../")) or _FILE_NAME.fullmatch(token):
        return True
    segments = [segment for segment in token.split("/") if segment]
    return "/" in token and 2 * sum(1 for one in segments if _PLAIN_SEGMENT.fullmatch(one)) > len(segments)


def _words(lowered: str) -> Iterator[tuple[int, int, str]]:
    whole = (("password", _PASSWORD_WORDS), ("key", _KEY_WORDS), ("service", SERVICES))
    for what, word in ((what, word) for what, words in whole for word in words):
        yield from ((at, at + len(word), what) for at in _places(lowered, word))
    for word in (*_SHORT_PASSWORD_WORDS, *_SHORT_KEY_WORDS):
        for at in _places(lowered, word):
            if what := _short_word(lowered, at, word):
                yield at, at + len(word), what


def _short_word(lowered: str, at: int, word: str) -> str:
    """What a word means that counts only when it stands alone, or names a key; "" when it is part of another."""
    end = at + len(word)
    is_named = word == "key" and lowered[max(0, at - 12) : at].rstrip(" _-").endswith(_SECRET_KEYS)
    if lowered[end : end + 1].isalpha() or (lowered[at - 1 : at].isalpha() and not is_named):
        return ""
    if is_named:
        return "key"
    return "password" if word in _SHORT_PASSWORD_WORDS else "weak key"


def _places(lowered: str, word: str) -> Iterator[int]:
    at = lowered.find(word)
    while at >= 0:
        yield at
        at = lowered.find(word, at + len(word))


def _assigned(text: str, word_start: int, word_end: int, what: str) -> Iterator[Found]:
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
    if len(value) < _SHORTEST_NUMBER or is_placeholder(value, is_quoted=is_quoted) or value.startswith("-----BEGIN"):
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
    """`value` without the words behind it where nobody writes spaces; empty when it is words, or a number of days."""
    for at, char in enumerate(value):
        if (char > _LAST_CYRILLIC and char.isalpha()) or "\u3000" <= char <= "\u303f" or "\uff00" <= char <= "\uffef":
            return "" if value[:at].isdigit() and char in _COUNTERS else value[:at]
    return value


def _is_password(value: str, *, is_quoted: bool, is_assigned: bool) -> bool:
    if not is_assigned:
        is_word_with_digits = is_quoted and value.isalnum() and not value.isalpha() and len(value) >= _SHORTEST_PLAIN
        return is_word_with_digits or is_random(value, length=10)
    if " " in value:  # a pass phrase, and not a sentence about one
        return is_quoted and value.replace(" ", "").isalpha() and value.islower() and value.count(" ") in _PHRASE_BLANKS
    if value.isdigit():
        return len(value) >= _SHORTEST_NUMBER
    if not _UUID.fullmatch(value) and (_is_path(value) or _NUMBER_WITH_UNIT.fullmatch(value)):
        return False
    is_mixed = not value.replace("-", "").replace("_", "").replace(".", "").isalpha()
    return len(value) >= (_SHORTEST_MIXED if is_mixed else _SHORTEST_PLAIN) and (is_mixed or is_quoted)


def _is_key(value: str, *, is_weak: bool, is_assigned: bool, is_api_key: bool) -> bool:
    if _FINGERPRINT.search(value[:12]):
        return False
    if _UUID.fullmatch(value):
        return not is_weak and (is_assigned or is_api_key)
    return is_random(value, length=(24 if is_weak else 12) if is_assigned else 20)


def _on_line(text: str, start: int, end: int) -> Iterator[Found]:
    """Long random tokens on a line that speaks of keys, unless a word before them says what else they are."""
    is_sure = _SURE_WORD.search(text, start, end) is not None
    for token in _TOKEN.finditer(text, start, end):
        value = token.group().rstrip(".")
        explained = _FINGERPRINT.search(text[max(start, token.start() - 32) : token.start() + 8])
        if explained or is_placeholder(value) or _UUID.search(value) or not is_random(value, length=_ON_A_LINE):
            continue
        if is_sure or len(value) not in _DIGEST_LENGTHS:
            yield "key or token", token.start(), token.start() + len(value)
