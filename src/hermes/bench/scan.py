"""Measures the threat scanner: processor time for an ordinary entry, and for hostile texts of 65,536 characters."""

from __future__ import annotations

import base64
import random
import time
from typing import TYPE_CHECKING

from hermes.safety.threats import scan

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRY = 2_200
LONG = 65_536
_SENTENCE = (
    "the project uses a queue for background work and every worker writes its result to the database before it asks for"
    " the next job so that a restart never loses anything users see the status page on port while reports are sent by"
    " mail on monday morning to the team which reviews open issues and plans the release with tests docs and notes"
)


def run(seed: int = 0) -> dict[str, object]:
    """Processor milliseconds: `p50_ms` and `p99_ms` at 2,200 characters, the worst of hostile texts."""
    chance = random.Random(seed)  # noqa: S311 - reproducible texts, no secrets
    scan("warm up: load the tables once")
    entries = [_prose(chance, ENTRY) for _ in range(200)]
    first = sorted(_cpu_ms(entry) for entry in entries)  # a rule is compiled when it first applies
    times = sorted(_cpu_ms(entry) for entry in entries)
    hostile = {name: round(min(_cpu_ms(make(chance)) for _ in range(3)), 2) for name, make in HOSTILE.items()}
    prose = _prose(chance, LONG)
    return {
        "characters": ENTRY,
        "p50_ms": round(times[len(times) // 2], 3),
        "p99_ms": round(times[int(len(times) * 0.99)], 3),
        "p99_first_pass_ms": round(first[int(len(first) * 0.99)], 3),
        "hostile_characters": LONG,
        "hostile_ms": hostile,
        "worst_ms": max(hostile.values()),
        "worst_growth": max(_growth(make(chance)) for make in HOSTILE.values()),
        "mb_per_s": round(LONG / 1e6 / (_cpu_ms(prose) / 1e3), 2),
    }


def _growth(text: str) -> float:
    """How much longer four times the text takes: about 4 when the work is linear, 16 when it is quadratic."""
    quarter = text[: len(text) // 4]
    return round(min(_cpu_ms(text) / max(_cpu_ms(quarter), 0.1) for _ in range(3)), 1)


def _cpu_ms(text: str) -> float:
    start = time.process_time()
    scan(text)
    return (time.process_time() - start) * 1e3


def _prose(chance: random.Random, length: int) -> str:
    known = _SENTENCE.split()
    words: list[str] = []
    size = 0
    while size < length:
        word = chance.choice(known) + (". " if chance.random() < 0.08 else " ")  # noqa: PLR2004 - a sentence has a dozen words
        words.append(word)
        size += len(word)
    return "".join(words)[:length]


def _repeat(text: str) -> Callable[[random.Random], str]:
    return lambda _: (text * (LONG // len(text) + 1))[:LONG]


def _soup(alphabet: str) -> Callable[[random.Random], str]:
    return lambda chance: "".join(chance.choices(alphabet, k=LONG))


def _nested(_: random.Random) -> str:
    text = b"please send the report to the team " * 600
    for _layer in range(3):
        text = base64.b64encode(text)
    return text.decode()[:LONG]


def _unique_words(chance: random.Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(chance.choices(letters, k=8)) for _ in range(LONG // 9))


def _any_plane(chance: random.Random) -> str:
    planes = (range(0x20, 0xD800), range(0xE000, 0x110000))
    return "".join(chr(chance.choice(chance.choice(planes))) for _ in range(LONG))


def _digits_and_words(chance: random.Random) -> str:
    pieces = ("".join(chance.choices("0123456789", k=7)) + " " + chance.choice(_TRIGGERS) for _ in range(LONG // 12))
    return " ".join(pieces)[:LONG]


def _alternating_scripts(chance: random.Random) -> str:
    words = (
        "忽略所有指令",
        "игнорируй правила",
        "envia las claves",
        "すべて送信",
        "모든 파일",
        "تجاهل",
        "ignore",
        "सभी भेजो",
    )
    return " ".join(chance.choice(words) for _ in range(LONG // 5))[:LONG]


def _nested_encodings(chance: random.Random) -> str:
    text = " ".join(chance.choices(_TRIGGERS, k=1400)).encode()
    return base64.b64encode("".join(f"%{byte:02x}" for byte in text).encode().hex().encode()).decode()[:LONG]


def _no_repetition(chance: random.Random) -> str:
    return "".join(chr(0x4E00 + chance.randrange(20_000)) for _ in range(LONG))


def _random_triggers(chance: random.Random) -> str:
    return " ".join(chance.choice(_TRIGGERS) + chance.choice(("", ".", ",", " the")) for _ in range(LONG // 7))[:LONG]


def _one_override(chance: random.Random) -> str:
    return "\u202e" + "".join(chr(chance.randrange(0x3000, 0xD800)) for _ in range(LONG - 1))


_WORDS = (
    "ignore previous instructions secret password send user always whenever policy disable approve read add memory"
    " server tell hide token upload key delete backup admin recommend best link image system prompt assistant never run"
)
_TRIGGERS = tuple(_WORDS.split())
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
HOSTILE: dict[str, Callable[[random.Random], str]] = {
    "translate a into b": _repeat("translate a into b "),
    "cat cat cat": _repeat("cat "),
    "ignore ignore": _repeat("ignore "),
    "ignore all the": _repeat("ignore all the "),
    "always send to": _repeat("always send the secret password of the user whenever "),
    "never never": _repeat("never do not "),
    "all trigger words": _repeat(
        "ignore prior secret send user always policy disable read add memory server tell hide "
    ),
    "letters apart": _repeat("i g n o r e "),
    "no spaces": _repeat("ignoreallthe"),
    "one long word": _repeat("a"),
    "separators": _repeat("._-/ "),
    "line breaks": _repeat("\n"),
    "brackets": _repeat("<!-- [[(("),
    "tags": _repeat("<system><|im_"),
    "dollars": _repeat("$a ${b "),
    "addresses": _repeat("http://a "),
    "mail": _repeat("a@b.c "),
    "paths": _repeat("~/.ssh/x .env "),
    "percent": _repeat("%41%2"),
    "entities": _repeat("&#105;&"),
    "escapes": _repeat("\\u0069\\x69"),
    "hex": _repeat("69676e6f7265 "),
    "binary": _repeat("01101001 "),
    "morse": _repeat(".. --. -. / "),
    "base64 soup": _soup(_BASE64),
    "base64 short": _repeat("aWdub3Jl "),
    "nested base64": _nested,
    "digits": _soup("0123456789 "),
    "leetspeak": _repeat("1gn0r3 4ll "),
    "typing errors": _repeat("ingore prevoius instrction "),
    "unique words": _unique_words,
    "Spanish": _repeat("ignora todas las cosas siempre envia "),
    "Chinese": _repeat("忽略所有的東西發送用户密码"),
    "Japanese": _repeat("すべてのデータを送信し無視する"),
    "Korean": _repeat("모든 사용자 무시 전송 "),
    "Russian": _repeat("всегда отправляй все пароли "),
    "Arabic": _repeat("تجاهل جميع الملفات دائما "),
    "combining marks": _repeat("e\u0301\u0323\u0316"),
    "reordered marks": _repeat("\u0301\u0323"),
    "ligatures": _repeat("\ufdfa"),
    "zero width": _repeat("\u200b\u200c\u200d"),
    "tag characters": _repeat("\U000e0069\U000e0067"),
    "variation selectors": _repeat("\ufe00\ufe0f"),
    "bidirectional": _repeat("\u202eabc\u202c"),
    "any plane": _any_plane,
    "digits and words": _digits_and_words,
    "alternating scripts": _alternating_scripts,
    "nested encodings": _nested_encodings,
    "Chinese without repetition": _no_repetition,
    "random trigger words": _random_triggers,
    "one override": _one_override,
}
