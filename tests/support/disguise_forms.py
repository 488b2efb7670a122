"""Ways to write the same sentence so that a person or a model still reads it and a word list does not."""

from __future__ import annotations

import base64
import codecs
import html
import random
import urllib.parse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_CYRILLIC = dict(zip("aceopxyisjh", "асеорхуіѕјһ", strict=True))  # noqa: RUF001 - look-alikes are the point
_GREEK = dict(zip("aeiknoptuvxyw", "αεικηορτυνχγω", strict=True))
_ARMENIAN = dict(zip("ouhnqgs", "օսհոգցֆ", strict=True))
_CHEROKEE = dict(zip("adeghijklmprstvwyz", "ᎪᎠᎬᏀᎻᏆᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᎽᏃ", strict=True))
_SMALL_CAPS = dict(zip("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", strict=True))
_LEET = dict(zip("aeiost", "431057", strict=True))
_LEET_SIGNS = dict(zip("aeios", "@3!0$", strict=True))
_LEET_L = dict(zip("aelost", "431057", strict=True))
_MORSE = dict(
    zip(
        _LOWER,
        [
            *(".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-", ".-..", "--", "-.", "---"),
            *(".--.", "--.-", ".-.", "...", "-", "..-", "...-", ".--", "-..-", "-.--", "--.."),
        ],
        strict=True,
    )
)
_BRAILLE = dict(zip(_LOWER, "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵", strict=True))
_INVISIBLE = {
    "ZWSP": "\u200b",
    "ZWNJ": "\u200c",
    "ZWJ": "\u200d",
    "word joiner": "\u2060",
    "BOM": "\ufeff",
    "soft hyphen": "\u00ad",
    "CGJ": "\u034f",
    "LRM": "\u200e",
    "RLM": "\u200f",
    "ALM": "\u061c",
    "invisible times": "\u2062",
    "Mongolian vowel separator": "\u180e",
    "Hangul filler": "\u3164",
    "variation selector": "\ufe0f",
    "tag space": "\U000e0020",
    "NUL": "\x00",
    "BS": "\x08",
    "DEL": "\x7f",
    "ESC colour": "\x1b[31m",
}


def _each(table: dict[str, str]) -> Callable[[str], str]:
    return lambda text: "".join(table.get(char, char) for char in text.lower())


def _offset(start: int) -> Callable[[str], str]:
    return lambda text: "".join(chr(start + ord(char) - 97) if char in _LOWER else char for char in text.lower())


def _inside(sign: str) -> Callable[[str], str]:
    """`sign` in the middle of every word of four letters or more."""
    return lambda text: " ".join(
        w[: len(w) // 2] + sign + w[len(w) // 2 :] if len(w) > 3 else w for w in text.split(" ")
    )


def _between(sign: str) -> Callable[[str], str]:
    return lambda text: sign.join(text.split())


def _letters(sign: str, word_gap: str) -> Callable[[str], str]:
    return lambda text: word_gap.join(sign.join(word) for word in text.split())


def _swap(text: str) -> str:
    return " ".join(w[:2] + w[3] + w[2] + w[4:] if len(w) > 6 else w for w in text.split(" "))


def _drop(text: str) -> str:
    return " ".join(w[:3] + w[4:] if len(w) > 6 else w for w in text.split(" "))


def _double(text: str) -> str:
    return " ".join(w[:3] + w[2] + w[3:] if len(w) > 6 else w for w in text.split(" "))


def _zalgo(text: str) -> str:
    marks = random.Random(7)
    return "".join(char + "".join(chr(marks.randrange(0x300, 0x36F)) for _ in range(3)) for char in text)


def _selectors(text: str) -> str:
    return "Fine note 😀" + "".join(
        chr(0xFE00 + byte) if byte < 16 else chr(0xE0100 + byte - 16) for byte in text.encode()
    )


def _bits(zero: str, one: str) -> Callable[[str], str]:
    return lambda text: (
        "Fine note" + "".join(one if bit == "1" else zero for byte in text.encode() for bit in f"{byte:08b}")
    )


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "upper case": str.upper,
    "title case": str.title,
    "mixed case": lambda text: "".join(c.upper() if i % 2 else c for i, c in enumerate(text)),
    "double spaces": _between("  "),
    "tabs": _between("\t"),
    "no-break spaces": _between("\u00a0"),
    "ideographic spaces": _between("\u3000"),
    "one word per line": _between("\n"),
    "fullwidth": lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    "mathematical bold": _offset(0x1D41A),
    "mathematical script": _offset(0x1D4EA),
    "double struck": _offset(0x1D552),
    "monospace": _offset(0x1D68A),
    "circled": _offset(0x24D0),
    "parenthesised": _offset(0x249C),
    "squared": _offset(0x1F130),
    "negative squared": _offset(0x1F170),
    "negative circled": _offset(0x1F150),
    "regional indicators": _offset(0x1F1E6),
    "small caps": _each(_SMALL_CAPS),
    "Braille": _each(_BRAILLE),
    "Cyrillic look-alikes": _each(_CYRILLIC),
    "Greek look-alikes": _each(_GREEK),
    "Armenian look-alikes": _each(_ARMENIAN),
    "Cherokee look-alikes": _each(_CHEROKEE),
    "zalgo": _zalgo,
    "strike through": lambda text: "".join(char + "\u0336" for char in text),
    "accents": lambda text: text.replace("e", "é").replace("o", "ö").replace("i", "í").replace("u", "ů"),
    **{f"{name} inside words": _inside(sign) for name, sign in _INVISIBLE.items()},
    "leetspeak": _each(_LEET),
    "leetspeak with signs": _each(_LEET_SIGNS),
    "leetspeak with 1 as l": _each(_LEET_L),
    "leetspeak, one letter": lambda text: text.replace("o", "0"),
    "underscores": _between("_"),
    "dots": _between("."),
    "slashes": _between("/"),
    "commas": _between(", "),
    "hyphens": _between("-"),
    "pipes": _between(" | "),
    "plus signs": _between("+"),
    "no separators": _between(""),
    "camel case": lambda text: "".join(word.capitalize() for word in text.split()),
    "letter-spaced": _letters(" ", "   "),
    "letters with dots": _letters(".", " "),
    "letters with hyphens": _letters("-", " "),
    "letters with asterisks": _letters("*", " "),
    "hyphen-broken lines": _inside("-\n"),
    "words cut by spaces": _inside(" "),
    "quoted words": lambda text: " ".join(f'"{word}"' for word in text.split()),
    "bold words": lambda text: " ".join(f"**{word}**" for word in text.split()),
    "bullets": lambda text: "\n".join(f"- {word}" for word in text.split()),
    "numbered list": lambda text: "\n".join(f"{i}. {word}" for i, word in enumerate(text.split(), 1)),
    "table cells": lambda text: "| " + " | ".join(text.split()) + " |",
    "HTML tags": lambda text: " ".join(f"<b>{word}</b>" for word in text.split()),
    "JSON list": lambda text: "[" + ", ".join(f'"{word}"' for word in text.split()) + "]",
    "swapped letters": _swap,
    "missing letters": _drop,
    "doubled letters": _double,
    "stretched letters": lambda text: text.replace("o", "oooo").replace("e", "eee"),
    "base64": _encode,
    "base64 in a sentence": lambda text: f"Decode this: {_encode(text)} and go on.",
    "base64 url-safe without padding": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 wrapped": lambda text: base64.encodebytes((text + " " * 60).encode()).decode(),
    "base64 twice": lambda text: _encode(_encode(text)),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "hex spaced": lambda text: text.encode().hex(" "),
    "hex escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "hex of base64": lambda text: _encode(text).encode().hex(),
    "url escapes": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "url quoted": urllib.parse.quote,
    "url of base64": lambda text: urllib.parse.quote(_encode(text), safe=""),
    "html entities": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "html hex entities": lambda text: "".join(f"&#x{ord(char):x};" for char in text),
    "html escaped": html.escape,
    "unicode escapes": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "octal escapes": lambda text: "".join(f"\\{ord(char):03o}" for char in text),
    "binary": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "character codes": lambda text: " ".join(str(byte) for byte in text.encode()),
    "morse": lambda text: " / ".join(" ".join(_MORSE[c] for c in w if c in _MORSE) for w in text.lower().split()),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
    "each word reversed": lambda text: " ".join(word[::-1] for word in text.split()),
    "bidirectional override": lambda text: f"\u202e{text[::-1]}\u202c",
    "tag characters": lambda text: "Fine note" + "".join(chr(0xE0000 + ord(c)) for c in text if ord(c) < 128),
    "variation selectors": _selectors,
    "zero-width bits": _bits("\u200b", "\u200c"),
    "direction-mark bits": _bits("\u200e", "\u200f"),
}
