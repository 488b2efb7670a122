"""Texts of 65,536 characters in the forms that files have: dumps, logs, pages, mails, and documentation."""

from __future__ import annotations

import base64
import binascii
import json
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.hostile_words import LETTERS, TRIGGERS, filled

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_ALNUM = LETTERS + LETTERS.upper() + "0123456789"
_MORSE = (".-", "-...", "-.-.", "..", "--", "-", ".", "...", "-.-", "---", ".--.", "--.-", "/")
_JS = ("function", "var", "return", "if", "else", "for", "new", "this", "typeof", "null", "e", "t", "n", "r", "a.b")
_DOCUMENTED = (
    "argparse",
    "datetime",
    "decimal",
    "http.client",
    "imaplib",
    "logging",
    "optparse",
    "shutil",
    "subprocess",
)
_FRAMES = (
    "<system",
    "[end of",
    "### system",
    "system :",
    "</s",
    "--- end",
    "== new",
    "human: x",
    "<|im",
    "[inst",
    "role",
)


@cache
def _docstrings() -> list[str]:
    """What Python says about some of its own modules: the one text here that people wrote."""
    texts: list[str] = []
    for name in _DOCUMENTED:
        module = import_module(name)
        of_module = [each for each in vars(module).values() if getattr(each, "__module__", "") == name]
        methods = [method for each in of_module if isinstance(each, type) for method in vars(each).values()]
        texts += [each.__doc__ for each in (module, *of_module, *methods) if isinstance(each.__doc__, str)]
    return texts


def _word(chance: random.Random, least: int = 2, most: int = 9) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(least, most)))


def _json(chance: random.Random) -> str:
    value = {_word(chance): chance.choice((_word(chance), chance.randrange(10**6), None, True)) for _ in range(5)}
    return json.dumps(value) + "\n"


def _html(chance: random.Random) -> str:
    tag, name = chance.choice(("div", "span", "p", "li", "a", "td")), _word(chance)
    return f'<{tag} class="{name}" style="color:#{chance.randrange(1 << 24):06x}">{_word(chance)} &nbsp;{name}</{tag}>'


def _minified(chance: random.Random) -> str:
    return f"{chance.choice(_JS)}({_word(chance, 1, 2)},{chance.randrange(99)}){chance.choice('{}=;&|!?:')}"


def _csv(chance: random.Random) -> str:
    row = (str(round(chance.uniform(-1e4, 1e4), 2)) for _ in range(6))
    return f"{chance.randrange(10**6)},{_word(chance)},{','.join(row)}\n"


def _log(chance: random.Random) -> str:
    time = f"2026-01-{chance.randrange(10, 30)}T{chance.randrange(10, 24)}:00:{chance.randrange(10, 60)}Z"
    address = ".".join(str(chance.randrange(256)) for _ in range(4))
    asked = f"/{_word(chance)}?{_word(chance)}={chance.randrange(1 << 30):x}"
    return f'{time} {address} "GET {asked} HTTP/1.1" 200 {_word(chance)}\n'


def _hex_dump(chance: random.Random) -> str:
    row = chance.randbytes(16)
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)  # noqa: PLR2004 - printable ASCII
    return f"{chance.randrange(1 << 28):08x}: {row.hex(' ', 2)}  {shown}\n"


def _uuencoded(chance: random.Random) -> str:
    return binascii.b2a_uu(chance.randbytes(45)).decode()


def _mail_headers(chance: random.Random) -> str:
    token = "".join(chance.choices(_ALNUM, k=16))
    mailbox = f"<{token}@{_word(chance)}.{_word(chance, 2, 3)}>"
    return f"X-{_word(chance).title()}: {mailbox} (from {_word(chance)})\r\n\tby {_word(chance)};"


def _python(chance: random.Random) -> str:
    name, other = _word(chance), _word(chance)
    head = f"def {name}_{other}(self, {other}: int = {chance.randrange(99)}) -> None:"
    return f"{head}\n    self.{name}[{other!r}] += 1  # {name}\n"


def _uuid(chance: random.Random) -> str:
    digits = f"{chance.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]} "


def _account(chance: random.Random) -> str:
    return f"{_word(chance, 2, 2)}{chance.randrange(10, 99)}{''.join(chance.choices(LETTERS + '0123456789', k=16))} "


def _half_percent(chance: random.Random) -> str:
    return chance.choice(("%4", "%zz", "%41", "%", "%25", "%c3%28", "x", "%e2%82", "+"))


def _half_entity(chance: random.Random) -> str:
    return chance.choice(("&#105", "&#x;", "&amp", "&bogus;", "&#9999999;", "&", "&lt;", "&#x110000;", "&nbsp;a"))


def _half_base64(chance: random.Random) -> str:
    token = base64.b64encode(" ".join(chance.choices(TRIGGERS, k=3)).encode()).decode()
    at = chance.randrange(len(token))
    return f"{token[:at]}{chance.choice('!.$~*é')}{token[at:]} "


def _half_hex(chance: random.Random) -> str:
    pairs = [f"{byte:02x}" for byte in chance.choice(TRIGGERS).encode()]
    pairs[chance.randrange(len(pairs))] = "6z"
    return " ".join(pairs) + " "


def _in_every_coding(chance: random.Random) -> str:
    raw = " ".join(chance.choices(TRIGGERS, k=2)).encode()
    forms = (raw.hex(), base64.b32encode(raw).decode(), base64.a85encode(raw, adobe=True).decode(), _escaped(raw))
    return chance.choice((*forms, raw.hex(" "), " ".join(map(str, raw)), base64.b64encode(raw).decode())) + " "


def _escaped(raw: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in raw)


def _sentence_of_codes(chance: random.Random) -> str:
    return "".join(f"{chance.randrange(20, 140)}{chance.choice(', ;.-')}" for _ in range(20)) + _word(chance) + " "


def _quoted_printable(chance: random.Random) -> str:
    return "".join(f"={byte:02X}" for byte in chance.randbytes(5)) + _word(chance) + chance.choice((" ", "=\n"))


def _address(chance: random.Random) -> str:
    host = f"{_word(chance)}.{chance.choice(('com', 'io', 'example', 'zz'))}"
    return f"https://{host}/{_word(chance)}?{_word(chance)}={_word(chance)} "


def _path(chance: random.Random) -> str:
    return f"/{_word(chance)}/.{_word(chance)}/{_word(chance)}.{chance.choice(('md', 'json', 'py'))} "


def _variable(chance: random.Random) -> str:
    return f"${{{_word(chance).upper()}_{chance.choice(('KEY', 'X', 'TOKEN'))}}} %{_word(chance)}% "


FORMATS: dict[str, Callable[[random.Random], str]] = {
    "documentation": filled(lambda chance: chance.choice(_docstrings()) + "\n\n"),
    "JSON": filled(_json),
    "HTML": filled(_html),
    "minified JavaScript": filled(_minified),
    "CSV": filled(_csv),
    "log lines": filled(_log),
    "hex dump": filled(_hex_dump),
    "uuencoded": filled(_uuencoded),
    "mail headers": filled(_mail_headers),
    "Python": filled(_python),
    "identifiers with hyphens": filled(_uuid),
    "account numbers": filled(_account),
    "DNA": filled(lambda chance: chance.choice("ACGT")),
    "random morse": filled(lambda chance: chance.choice(_MORSE) + " "),
    "half percent": filled(_half_percent),
    "half entities": filled(_half_entity),
    "half base64": filled(_half_base64),
    "half hex": filled(_half_hex),
    "every coding": filled(_in_every_coding),
    "rows of codes": filled(_sentence_of_codes),
    "quoted printable": filled(_quoted_printable),
    "many addresses": filled(_address),
    "many mailboxes": filled(lambda chance: f"{_word(chance)}@{_word(chance)}.{_word(chance, 2, 3)}, "),
    "many hosts": filled(lambda chance: f"{_word(chance)}.{_word(chance)}.{chance.choice(('com', 'to', 'io', 'qq'))} "),
    "base32 words": filled(lambda chance: "".join(chance.choices(LETTERS.upper() + "234567", k=24)) + " "),
    "random punycode": filled(lambda chance: f"xn--{_word(chance)}-{''.join(chance.choices(_ALNUM.lower(), k=9))} "),
    "camel case": filled(lambda chance: _word(chance) + _word(chance).title() + _word(chance).title() + " "),
    "snake case": filled(lambda chance: f"{_word(chance)}_{_word(chance)}_{chance.choice(('key', 'id', 'token'))} "),
    "many paths": filled(_path),
    "variables": filled(_variable),
    "unfinished frames": filled(lambda chance: f"{chance.choice(_FRAMES)} {_word(chance)}{chance.choice(' :]>=')}"),
    "numbered list": filled(lambda chance: f"\n{chance.randrange(999)}. {_word(chance)}"),
    "table rows": filled(lambda chance: f"| {_word(chance)} | {chance.randrange(99)} | **{_word(chance)}** |\n"),
}
