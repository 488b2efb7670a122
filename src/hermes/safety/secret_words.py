"""Secrets that only the words beside them give away: `password: …`, "the API key is …", a PIN, a seed phrase."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Found = tuple[str, int, int]

_PASSWORD = (
    r"passw(?:or)?d|passwort|kennwort|passphrase|passcode|pwd|contrase\u00f1a|senha|mot de passe|"
    r"\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc|\u53e3\u4ee4|\u30d1\u30b9\u30ef\u30fc\u30c9|"
    r"\ube44\ubc00\ubc88\ud638|parola|\u015fifre|(?<![a-z])pass(?![a-z])"
)
_KEY = (
    r"api[_ -]?key|apikey|(?:access|private|secret|signing|encryption|master|license|account|auth|service)[_ -]?key|"
    r"secret|token|credential|bearer|(?<![a-z])(?:key|pat|psk|auth)(?![a-z])|schl\u00fcssel|\u5bc6\u94a5|\u5bc6\u9470"
)
_WORD = re.compile(f"(?P<password>{_PASSWORD})|(?P<key>{_KEY})", re.IGNORECASE)
_NAME_GOES_ON = re.compile(r"[A-Za-z0-9_]{0,40}")
_ASSIGNED = re.compile(
    r"[\"'`\])]{0,2}(?:\s{0,3}(?:=>|:=|={1,3}|:|>|\(|\uff1a|\|)\s{0,3}"
    r"|\s{1,3}(?:is|was|are|set to|ist|es|est|\u00e9|=)[\s:]{1,3}|\s{1,2}|(?=[\"'`]))"
    r"(?:r|b|f|u|@|\$)?(?:\"(?P<double>[^\"\n]{4,300})\"|'(?P<single>[^'\n]{4,300})'|`(?P<tick>[^`\n]{4,300})`"
    r"|(?P<bare>[^\s\"'`<>,;|]{4,500}))",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9+/_=.~-]{19,500}")
_SURE_WORD = re.compile(
    r"api[_ -]?key|secret|token|passw|credential|(?:access|private|encryption)[_ -]?key", re.IGNORECASE
)
_DIGEST_LENGTHS = (40, 64)  # a commit or a SHA-256, unless the line is sure

# A name that goes on like this is about a secret, not one: password_min_length, token_url, KEY_ID.
_ABOUT = re.compile(
    r"min|max|len|timeout|ttl|reset|ur[il]|path|file|dir|name|field|input|policy|age|day|expir|rotat|type|format|prefix"
    r"|count|limit|id(?![a-z])|strength|regex|hint|label|env|var|ref|header|endpoint|manager|store|bucket|algo|version"
    r"|size|index|usage|budget|per_|window|izer|ized|ization",
    re.IGNORECASE,
)
_HARMLESS_BEFORE = re.compile(
    r"(?:public|cache|primary|foreign|partition|sort|idempotency|object|s3|translation|i18n|routing|publishable|max|ssh"
    r"|row|shard|lock|redis|map|dict|natural|surrogate|composite|hot|arrow|deploy|host|fingerprint|thumbprint|tracking"
    r"|cursor|page|next|continuation|pagination)[\s_-]{0,2}\Z",
    re.IGNORECASE,
)
_FINGERPRINT = re.compile(
    r"(?:sha-?\d|md5|blake|commit|digest|hash|checksum|integrity|rev(?:ision)?\b|etag|uuid|guid|trace|span|request"
    r"|fingerprint|thumbprint|image|build|merge|branch|\btag\b|base64,|AAAA[BCE]\d|ssh-|ecdsa-|public|serial|cursor)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"\.\.\.|\u2026|\*{3}|(?i:x{4})|[<>{}\[\]()$%]|(?i:your|example|change_?me|dummy|placeholder|redact|todo|fixme|sample"
    r"|replace|insert|environ|getenv|process\.env|config\.|settings\.|secrets\.|self\.|this\.|undefined|required"
    r"|optional|\bnone\b|\bnull\b|\btrue\b|\bfalse\b|masked|hidden|not[_ -]?set|lorem|foo.?bar)|://|(?i:^op:|^arn:|^vault:)"
)
_EXAMPLE = re.compile(
    r"\.\.\.|\u2026|\*{3}|\$\{|\{\{|\A[<%{\[(]|\A\$(?!\w{1,10}\$)|\A(?i:passw(?:or)?d|pass|pwd|secret|token|key|pw|none|null)\Z"
    r"|(?i:x{5}|example|your[_-]|change_?me|placeholder|redacted|dummy|1234567890abcdef)"
)
_PATH = re.compile(r"[~.]{0,2}/[a-z._-]|[A-Za-z]:\\|[\w.-]+/[\w.-]+/[\w.-]+|[\w/.-]{1,200}\.[a-z]{2,5}\Z")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NUMBER_WITH_UNIT = re.compile(r"[\d.,:_/+-]+[a-z%]{0,3}", re.IGNORECASE)
_RUN = re.compile(r"[A-Z]+|[a-z]+|[0-9]+")

_PIN = re.compile(
    r"(?:\bPIN\b|(?i:\bpin\s?(?:code|number)|\bpin(?=\s{0,2}[:=]|\s(?:is|was)\b)))(?i:[\s:=#-]{1,4}(?:is|was|code|for|to|of)?"
    r"(?:\s\w{1,12}){0,3}?[\s:=]{0,3})(?P<s>\d{4}(?:\d{2}(?:\d{2})?)?)(?![\d.]|-\d|\s?(?:px|mm|ms|Hz))"
)
_DOOR = re.compile(
    r"(?i:(?:alarm|door|gate|garage|entry|lock|safe|safe's|access|security|unlock|verification|2fa|otp|backup|cvv2?|cvc2?)"
    r"(?:\s(?:code|combination|pin))?\s{0,2}(?:is|was|:|=)\s{0,2})(?P<s>\d{3,8}(?:[- ]\d{2,4}){0,3})(?![\d.%])"
)
_SSN = re.compile(r"(?i:\bssn\b|social security)[^\n\d]{0,30}(?P<s>\d{3}-?\d{2}-?\d{4})(?!\d)")
_SEED = re.compile(
    r"(?i:seed|mnemonic|recovery|wallet|backup|bip-?39)[^\n]{0,12}?(?i:phrase|words?|seed|mnemonic|key|bip-?39)?[^\n:=]{0,40}[:=\n(\"' -]{1,4}"
)
_SEED_WORDS = re.compile(
    r"[\s\"'(]{0,3}(?:\d{1,2}[.)]\s?)?[a-z]{3,8}(?:(?:\s{1,2}|,\s?|\s?\d{1,2}[.)]\s?)[a-z]{3,8}){11,23}(?![a-z])"
)
_NOT_IN_SEEDS = frozenset(
    "the and for with from are was were not but our has have had its his her into than will can".split()
)


def find_beside_words(text: str) -> Iterator[Found]:
    line_end = -1
    for word in _WORD.finditer(text):
        yield from _assigned(text, word)
        if word.start() > line_end and not _HARMLESS_BEFORE.search(text[max(0, word.start() - 16) : word.start()]):
            line_start = text.rfind("\n", 0, word.start()) + 1
            line_end = text.find("\n", word.end())
            line_end = len(text) if line_end < 0 else line_end
            yield from _on_line(text, line_start, line_end)


def find_numbers_beside_words(text: str) -> Iterator[Found]:
    for kind, pattern in (("pin", _PIN), ("code", _DOOR), ("social security number", _SSN)):
        for match in pattern.finditer(text):
            yield kind, match.start("s"), match.end("s")


def find_seed_phrases(text: str) -> Iterator[Found]:
    for keyword in _SEED.finditer(text):
        words = _SEED_WORDS.match(text, keyword.end())
        if words and _NOT_IN_SEEDS.isdisjoint(words.group().split()):
            yield "seed phrase", words.start(), words.end()


def is_placeholder(text: str) -> bool:
    """An example, a reference to a variable or a masked value, as documentation and settings are full of."""
    return _PLACEHOLDER.search(text) is not None or len(set(text.lower())) <= 3 + len(text) // 40


def is_example(text: str) -> bool:
    """The same for a text whose shape already says that it is a key: only plain examples are let go."""
    return _EXAMPLE.search(text) is not None or len(set(text.lower())) <= min(3, len(text) // 4)


def is_random(token: str, *, length: int = 16) -> bool:
    """Whether a token reads like a key drawn by a machine rather than like a name, a path, a number or a version."""
    if len(token) < length or _PATH.match(token):
        return False
    digits = sum(map(str.isdigit, token))
    letters = sum(map(str.isalpha, token))
    if digits < 2 or letters < 3:
        return False
    # Names change between letters and digits once or twice; keys do all the time.
    return len(_RUN.findall(token)) * 4 >= min(len(token), 32)


def _assigned(text: str, word: re.Match[str]) -> Iterator[Found]:
    name = _NAME_GOES_ON.match(text, word.end())
    name_end = word.end() if name is None else name.end()
    match = _ASSIGNED.match(text, name_end)
    if match is None or _ABOUT.search(text, word.end(), name_end):
        return
    group = match.lastgroup or "bare"
    start, end = match.span(group)
    value = match[group]
    if group == "bare":
        value = value.rstrip(".,;:)]}")
        end = start + len(value)
    if is_placeholder(value) or value.startswith("-----BEGIN"):
        return
    separator = text[name_end:start].strip(" \t\"'`")
    is_flag = text[max(0, word.start() - 24) : word.start()].rpartition(" ")[2].startswith("-")
    if word["password"]:
        if _is_password(value, is_quoted=group != "bare", is_assigned=bool(separator) or is_flag):
            yield "password", start, end
    elif _is_key(text, word, value, is_assigned=bool(separator) or is_flag or group != "bare"):
        yield "key or token", start, end


def _is_password(value: str, *, is_quoted: bool, is_assigned: bool) -> bool:
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    marks = len(value) - letters - digits
    if _UUID.fullmatch(value) or not is_assigned:
        return is_assigned or is_random(value, length=10)
    if " " in value:
        return is_quoted and letters + value.count(" ") == len(value) and 2 <= value.count(" ") <= 7 and value.islower()
    if digits == len(value):
        return len(value) >= 4
    if _PATH.match(value) or _NUMBER_WITH_UNIT.fullmatch(value):
        return False
    if digits or (marks and not value.replace("-", "").replace("_", "").replace(".", "").isalpha()):
        return len(value) >= 5
    return is_quoted and len(value) >= 8 and letters == len(value)


def _is_key(text: str, word: re.Match[str], value: str, *, is_assigned: bool) -> bool:
    before = text[max(0, word.start() - 16) : word.start()]
    if _HARMLESS_BEFORE.search(before) or _FINGERPRINT.search(value[:12]):
        return False
    is_weak = word.group().lower() in ("key", "pat", "auth", "bearer")
    if _UUID.fullmatch(value):
        return not is_weak and (is_assigned or "key" in word.group().lower())
    return is_random(value, length=(24 if is_weak else 12) if is_assigned else 20)


def _on_line(text: str, start: int, end: int) -> Iterator[Found]:
    """Long random tokens on a line that speaks of keys, unless a word before them says what else they are."""
    is_sure = _SURE_WORD.search(text, start, end) is not None
    for token in _TOKEN.finditer(text, start, end):
        value = token.group().rstrip(".")
        explained = _FINGERPRINT.search(text[max(start, token.start() - 32) : token.start() + 8])
        if explained or is_placeholder(value) or _UUID.search(value) or not is_random(value, length=24):
            continue
        if is_sure or len(value) not in _DIGEST_LENGTHS:
            yield "key or token", token.start(), token.start() + len(value)
