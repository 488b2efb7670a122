"""Things that are not words but mean something in any language: addresses, secret files, start-up files, shell signs.

Each is replaced by one private-use character, padded with spaces so that positions stay what they were.
"""

from __future__ import annotations

import re
from itertools import islice

from hermes.safety.runs import Runs
from hermes.safety.surroundings import LONG_TEXT
from hermes.safety.tables import load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FIRST = 0xE800
_KINDS = (
    "url", "local_url", "url_open", "image_open", "secret_url", "mail", "secret_var", "secret_file", "key_file",
    "startup", "auth_keys", "agent_file", "pipe_shell", "append_to", "public_ip", "iban", "crypto_address",
    "ssh_public", "root_path", "reverse_shell", "bearer_header", "env_dump", "ip_url",
)  # fmt: skip
ATOMS = {kind: chr(_FIRST + index) for index, kind in enumerate(_KINDS)}
SIGNS = frozenset(ATOMS.values())

# What an atom means beyond its own name, as a table that every lexicon loads.
CONCEPTS = dict(ATOMS)
CONCEPTS["url"] = ATOMS["url"] + " " + ATOMS["url_open"] + " " + ATOMS["secret_url"] + " " + ATOMS["image_open"]
CONCEPTS["url"] += " " + ATOMS["ip_url"]
CONCEPTS["public_ip"] = ATOMS["public_ip"] + " " + ATOMS["ip_url"]
CONCEPTS["url_open"] = ATOMS["url_open"] + " " + ATOMS["image_open"]
CONCEPTS["secret_file"] = ATOMS["secret_file"] + " " + ATOMS["key_file"]
CONCEPTS["header"] = ATOMS["bearer_header"]
CONCEPTS["outside"] = CONCEPTS["public_ip"]
CONCEPTS["account"] = ATOMS["iban"] + " " + ATOMS["crypto_address"]
CONCEPTS["iban"] = ATOMS["iban"] + " " + ATOMS["crypto_address"]
CONCEPTS["secret_var"] = ATOMS["secret_var"] + " " + ATOMS["secret_url"]

_SPACED = (
    ("ssh-rsa aaaa", "ssh_public"),
    ("ssh-ed25519 aaaa", "ssh_public"),
    ("rm -rf /", "root_path"),
    ("rm -rf ~", "root_path"),
    ("rm -rf $home", "root_path"),
    ("rm -rf --no-preserve-root", "root_path"),
)
_groups: dict[str, list[tuple[str, str]]] = {}
# Endings of host names that are hardly ever endings of file names or of identifiers.
_TOP_LEVELS = (
    "com|net|org|io|xyz|top|site|click|online|biz|info|news|club|shop|store|link|live|cloud|space|website|host|cc|tk|pw|lol"
    "|ru|cn|su|onion|example|app|dev|tech|pro|icu|vip|fun|world|today|email|gg|ai|co|me|tv|ws|to|st"
)
_HOST = r"(?<![\w./@:$-])(?:[a-z0-9-]{1,40}\.){1,4}(?:" + _TOP_LEVELS + r")(?![\w-]|\.\w|/?\()(?:/[^\s\"'<>)]{0,200})?"
_EXPRESSIONS = (
    ("!", r"!\[[^\]\n]{0,80}\]\(\s?[^)\n]{1,400}\)?", "image"),
    ("://", r"(?:https?|ftp|wss?|hxxps?)://[^\s\"'`<>)\]]{1,400}(?:<[a-z_ ]{1,30}>[^\s\"'`<>)\]]{0,100})?", "url"),
    ("a mailbox", r"[a-z0-9._%+-]{1,64}(?:@|\[at\])[a-z0-9-]{1,64}\.[a-z0-9.-]{2,64}", "mail"),
    ("a host", _HOST, "domain"),
    ("www.", r"\bwww\.[a-z0-9.-]{2,80}(?:/[^\s\"'<>)]{0,200})?", "url"),
    (".env", r"(?<![a-z0-9])\.env(?:\.(?:local|production|prod))?(?![a-z0-9.])", "secret_file"),
    (
        "$",
        r"\$\{?\(?(?:env:)?[a-z0-9_]{0,40}(?:key|token|secret|passw|credential|auth)[a-z0-9_]{0,40}\}?",
        "secret_var",
    ),
    ("a secret name", r"\b[a-z0-9_]{0,40}_(?:key|token|secret|password|credentials)\b", "secret_var"),
    ("%", r"%[a-z0-9_]{0,40}(?:key|token|secret|passw)[a-z0-9_]{0,40}%", "secret_var"),
    ("{{", r"\{\{ ?[a-z0-9_. ]{0,40}(?:key|token|secret|passw)[a-z0-9_. ]{0,40}\}\}", "secret_var"),
    ("|", r"\| ?(?:sudo )?(?:ba|z)?sh\b|\| ?python3?\b|\| ?iex\b", "pipe_shell"),
    ("bash <(", r"bash <\(curl", "pipe_shell"),
    ("$(", r"\$\(\s?(?:curl|wget)\b", "pipe_shell"),
    ("an address", r"(?<![0-9a-z.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9]|\.[0-9])", "ip"),
    ("0x", r"0x(?<!\w0x)[0-9a-f]{40}\b", "crypto_address"),
    ("bc1", r"bc1(?<!\wbc1)[a-z0-9]{20,60}\b", "crypto_address"),
    ("an account", r"\b[a-z]{2}[0-9]{2}[a-z0-9]{11,30}\b", "iban"),
    ("an account in groups", r"\b[a-z]{2}[0-9]{2}(?: [a-z0-9]{4}){3,7}(?: [a-z0-9]{1,4})?\b", "iban"),
)
_TAG = (
    r"</?(?:b|i|u|s|em|strong|span|p|br|li|ul|ol|td|tr|th|table|div|font|a|h[1-6]|code|pre|mark|small|sub|sup)"
    r"\b[^<>\n]{0,80}>"
)
_LIST_NUMBER = r"\n[ \t]{0,4}[0-9]{1,3}[.)](?=\s)"
_FIRST_NUMBER = re.compile(r"[ \t]{0,4}[0-9]{1,3}[.)](?=\s)")
_compiled: dict[str, re.Pattern[str]] = {}
_beginnings: dict[str, tuple[re.Pattern[str], dict[str, list[tuple[str, str]]]]] = {}
_DIGIT = re.compile("[0-9]")
_SPACE = re.compile(r"\s")
_MANY = 64  # places, from which on it is quicker to read the whole text
_NUMERIC_HOST = re.compile(r"://(?!(?:127|10|192\.168|0)\.)[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.])")
_HOST_ENDING = re.compile(rf"\.(?:{_TOP_LEVELS})(?![\w-])")
_MAILBOX = re.compile(r"@(?<=[a-z0-9._%+-]@)[a-z0-9-]{1,64}\.[a-z0-9.-]{2}|\[at\]")
_SECRET_ENDING = re.compile(r"_(?:key|token|secret|password|credentials)\b")
_FOUR_NUMBERS = re.compile(r"[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]")
_ACCOUNT = re.compile("[a-z]{2}[0-9]{2}[a-z0-9]{11}")
_LOCAL = (
    "//localhost", "//127.", "//10.", "//192.168.", "//0.0.0.0", "//[::1]",
    ".internal", ".local", ".svc", ".lan", ".test", ".corp",
)  # fmt: skip
_LITERAL_SIGNS = (".", "/", ">", "_", "\\", "ssh-", "rm -")
_PRIVATE = ("127.", "10.", "192.168.", "172.16.", "172.17.", "172.18.", "0.0.", "169.254.", "255.")
_FEWEST_IBAN_DIGITS = 12
_FIRST_PUBLIC_OCTET = 4  # below, four numbers with dots are more often a version than an address


def mark(text: str) -> str:
    """Folded `text` with every atom replaced by its character."""
    if "</" in text:
        text = re.sub(_TAG, _blank, text)
    has_digit = _DIGIT.search(text) is not None
    if has_digit:
        text = _without_list_numbers(text)
    runs = Runs(text)
    for sign, source, kind in _EXPRESSIONS:
        if sign in _WITH_DIGITS and not has_digit:
            continue
        replace = _REPLACERS.get(kind) or _padded(kind)
        if sign in _HINTS:
            places = list(islice(_HINTS[sign](text, runs), _MANY))
            if places:
                text = _marked_beside(text, places, _expression(source), replace)
        elif _GUARDS[sign](text, runs) if sign in _GUARDS else sign in text:
            text = _expression(source).sub(replace, text)
    return _with_literals(text)


def _expression(source: str) -> re.Pattern[str]:
    if source not in _compiled:
        _compiled[source] = re.compile(source)
    return _compiled[source]


def _with_literals(text: str) -> str:
    for sign, group in _grouped().items():
        if sign in text:
            for literal, kind in group if len(text) < LONG_TEXT else _beginning_in(text, sign, group):
                if literal in text:
                    text = _replace_literal(text, literal, kind)
    return text


def _marked_beside(
    text: str, places: list[int], pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]
) -> str:
    """`text` with what `pattern` matches replaced; where that is in few places, only what is around them is read."""
    if len(places) == _MANY or len(text) < LONG_TEXT:
        return pattern.sub(replace, text)
    pieces: list[str] = []
    done = 0
    for place in places:
        if place < done:
            continue
        # None of these expressions matches white space, and folding leaves but four kinds of it.
        start = max(done, *(text.rfind(space, done, place) for space in " \n\t\r"))
        end = behind.start() if (behind := _SPACE.search(text, place)) else len(text)
        pieces += [text[done:start], pattern.sub(replace, text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


def _beginning_in(text: str, sign: str, group: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the literals with `sign` whose next two characters follow that sign somewhere, in their order."""
    if sign not in _beginnings:
        by_next: dict[str, list[tuple[str, str]]] = {}
        for literal, kind in group:
            by_next.setdefault(literal.partition(sign)[2][:2], []).append((literal, kind))
        either = "|".join(map(re.escape, by_next))
        _beginnings[sign] = re.compile(f"{re.escape(sign)}({either})"), by_next
    pattern, by_next = _beginnings[sign]
    wanted = {pair for beginning in set(pattern.findall(text)) for pair in by_next[beginning]}
    return [pair for pair in group if pair in wanted]


def _without_list_numbers(text: str) -> str:
    if _FIRST_NUMBER.match(text):
        text = _FIRST_NUMBER.sub(_blank, text, count=1)
    return re.sub(_LIST_NUMBER, _blank, text) if "\n" in text else text


def _blank(found: re.Match[str]) -> str:
    return found[0].replace(found[0].strip(), " " * len(found[0].strip()))


def literals() -> list[str]:
    """The plain texts that mean something by themselves."""
    return [literal for literal, _ in _load()]


def _load() -> list[tuple[str, str]]:
    found = [(word, kind) for kind, words in load_table("atoms.txt").items() for word in words.split()]
    return [*found, *_SPACED]


def _grouped() -> dict[str, list[tuple[str, str]]]:
    """The literals under a sign that each of a group holds: a text without the sign is not searched for any of them."""
    if not _groups:
        for literal, kind in _load():
            sign = next((sign for sign in _LITERAL_SIGNS if sign in literal), literal)
            _groups.setdefault(sign, []).append((literal, kind))
    return _groups


def _replace_literal(text: str, literal: str, kind: str) -> str:
    if kind == "key_file" and ".pub" in text:
        text = text.replace(literal + ".pub", " " * (len(literal) + 4))
    return text.replace(literal, ATOMS[kind] + " " * (len(literal) - 1))


def _padded(kind: str) -> Callable[[re.Match[str]], str]:
    char = ATOMS[kind]
    return lambda found: char + " " * (found.end() - found.start() - 1)


def _mark_url(found: re.Match[str]) -> str:
    address = found[0]
    return _fill(_kind_of_url(address), address)


def _mark_image(found: re.Match[str]) -> str:
    address = found[0]
    return _fill("image_open" if "://" in address and _is_open(address) else "url", address)


def _kind_of_url(address: str) -> str:
    if any(mark in address for mark in _LOCAL):
        return "local_url"
    if "$" in address:
        return "secret_url"
    if _is_open(address):
        return "url_open"
    return "ip_url" if _NUMERIC_HOST.search(address) else "url"


def _is_open(address: str) -> bool:
    """True for an address that leaves a hole for data: a placeholder, or a query that ends in an equals sign."""
    address = address.rstrip(".,;:")  # the sentence goes on, or ends
    path = address.partition("://")[2].partition("/")[2] or address.partition("?")[2]
    hole = any(mark in path for mark in ("{", "<", "[", "$(", "%s", "base64", "...", "…", "`")) or path.endswith("=")
    return hole and ("?" in address or "=" in path or "{" in path or "<" in path or "[" in path)


def _mark_ip(found: re.Match[str]) -> str:
    address = found[0]
    version = int(address.partition(".")[0]) < _FIRST_PUBLIC_OCTET
    return address if address.startswith(_PRIVATE) or version else _fill("public_ip", address)


def _mark_iban(found: re.Match[str]) -> str:
    text = found[0]
    return _fill("iban", text) if sum(char.isdigit() for char in text) >= _FEWEST_IBAN_DIGITS else text


def _fill(kind: str, text: str) -> str:
    return ATOMS[kind] + " " * (len(text) - 1)


def _secret_names(text: str, _: Runs) -> Iterator[int]:
    return (found.start() for found in _SECRET_ENDING.finditer(text)) if "_" in text else iter(())


def _mailboxes(text: str, _: Runs) -> Iterator[int]:
    return (found.start() for found in _MAILBOX.finditer(text))


def _hosts(text: str, _: Runs) -> Iterator[int]:
    return (found.start() for found in _HOST_ENDING.finditer(text))


def _addresses(text: str, runs: Runs) -> Iterator[int]:
    return (place for place, end in runs.addresses() if _FOUR_NUMBERS.search(text, place, end))


def _accounts(text: str, runs: Runs) -> Iterator[int]:
    return (place for place, end in runs.accounts() if _ACCOUNT.search(text, place, end))


def _has_groups_of_four(_: str, runs: Runs) -> bool:
    return runs.account_in_groups()


# What only digits can be part of.
_WITH_DIGITS = frozenset({"an address", "0x", "bc1", "an account", "an account in groups"})
# Where an expression may match.
_HINTS: dict[str, Callable[[str, Runs], Iterator[int]]] = {
    "a mailbox": _mailboxes,
    "a secret name": _secret_names,
    "a host": _hosts,
    "an address": _addresses,
    "an account": _accounts,
}
# What an expression can only match beside, looked for first because it is quicker to find.
_GUARDS: dict[str, Callable[[str, Runs], bool]] = {
    "an account in groups": _has_groups_of_four,
}
_REPLACERS: dict[str, Callable[[re.Match[str]], str]] = {
    "url": _mark_url,
    "domain": _mark_url,
    "image": _mark_image,
    "ip": _mark_ip,
    "iban": _mark_iban,
}
