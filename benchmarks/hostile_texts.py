"""Texts of 65,536 characters that try to make the scanner slow: repetition, soups, encodings, scripts, and mixtures."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from benchmarks.hostile_formats import FORMATS
from benchmarks.hostile_words import LETTERS, LONG, TRIGGERS, WORDS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence


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
    pieces = ("".join(chance.choices("0123456789", k=7)) + " " + chance.choice(TRIGGERS) for _ in range(LONG // 12))
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
    text = " ".join(chance.choices(TRIGGERS, k=1400)).encode()
    return base64.b64encode("".join(f"%{byte:02x}" for byte in text).encode().hex().encode()).decode()[:LONG]


def _no_repetition(chance: random.Random) -> str:
    return "".join(chr(0x4E00 + chance.randrange(20_000)) for _ in range(LONG))


def _random_triggers(chance: random.Random) -> str:
    return " ".join(chance.choice(TRIGGERS) + chance.choice(("", ".", ",", " the")) for _ in range(LONG // 7))[:LONG]


def _one_override(chance: random.Random) -> str:
    return "\u202e" + "".join(chr(chance.randrange(0x3000, 0xD800)) for _ in range(LONG - 1))


def _words_of(alphabet: str, length: int) -> Callable[[random.Random], str]:
    return lambda chance: " ".join(
        "".join(chance.choices(alphabet, k=length)) for _ in range(LONG // (length + 1) + 1)
    )[:LONG]


def _in_base64(words: Sequence[str]) -> Callable[[random.Random], str]:
    def make(chance: random.Random) -> str:
        groups = (" ".join(chance.choices(words, k=chance.randrange(1, 5))) for _ in range(LONG // 8))
        return " ".join(base64.b64encode(group.encode()).decode() for group in groups)[:LONG]

    return make


def _between(first: int, last: int) -> Callable[[random.Random], str]:
    return lambda chance: "".join(
        chance.choice((" ", *map(chr, chance.choices(range(first, last), k=9)))) for _ in range(LONG)
    )


def _between_letters(sign: str) -> Callable[[random.Random], str]:
    return lambda _: sign.join("note that all the reports are sent to the team " * 700)[:LONG]


def _all_scripts(chance: random.Random) -> str:
    ranges = ((0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x400, 0x4FF), (0x600, 0x6FF), (0x900, 0x97F))
    return "".join(chr(chance.randrange(*chance.choice((*ranges, (0xE00, 0xE7F), (0x20, 0x7B))))) for _ in range(LONG))


def _named_entities(chance: random.Random) -> str:
    from html.entities import html5

    names = sorted(name for name in html5 if name.endswith(";"))
    return "".join(f"&{chance.choice(names)}" for _ in range(LONG // 4))[:LONG]


def _percent_five_deep(chance: random.Random) -> str:
    text = "".join(chance.choices("note that reports are sent ", k=3_000))
    text = "".join(f"%{ord(char):02x}" for char in text)
    for _layer in range(4):
        text = text.replace("%", "%25")
    return text[:LONG]


def _hex_bytes(chance: random.Random) -> str:
    return " ".join(f"{chance.randrange(256):02x}" for _ in range(LONG // 3))


def _unicode_escapes(chance: random.Random) -> str:
    return "".join(f"\\u{chance.randrange(0x20, 0x3000):04x}" for _ in range(LONG // 6))


def _storm_of_marks(chance: random.Random) -> str:
    marks = [chr(code) for code in range(0x300, 0x370)]
    return "".join(letter + "".join(chance.choices(marks, k=5)) for letter in "note that all reports are sent " * 350)[
        :LONG
    ]


def _leetspeak(chance: random.Random) -> str:
    signs = str.maketrans("oeastibg", "03457189")
    return " ".join(chance.choice(TRIGGERS).translate(signs) for _ in range(LONG // 5))[:LONG]


def _misspelled(chance: random.Random) -> str:
    words = [word for word in TRIGGERS if len(word) > 5]  # noqa: PLR2004 - shorter ones are other words
    changed = ((word, chance.randrange(len(word))) for word in chance.choices(words, k=LONG // 7))
    return " ".join(word[:at] + chance.choice(LETTERS) + word[at + 1 :] for word, at in changed)[:LONG]


def _glued(chance: random.Random) -> str:
    return "".join(chance.choices(TRIGGERS, k=LONG // 3))[:LONG]


def _one_embedding(chance: random.Random) -> str:
    return "\u2067" + "".join(chance.choices("abcdefghijklmnop ", k=LONG - 1))


def _overrides_and_base64(chance: random.Random) -> str:
    return "".join("\u202e" + "".join(chance.choices(_BASE64, k=60)) for _ in range(LONG // 61))


def _astral(chance: random.Random) -> str:
    return "".join(chr(chance.choice((0x20, chance.randrange(0x10000, 0x1D000)))) for _ in range(LONG))


def _behind_an_embedding(alphabet: str) -> Callable[[random.Random], str]:
    return lambda chance: "\u2067" + "".join(chance.choices(alphabet, k=LONG - 1))


def _both_directions(chance: random.Random) -> str:
    signs = (
        "\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u200e\u200f" + "".join(map(chr, range(0x5D0, 0x5EB))) + " abcdef"
    )
    return "".join(chance.choices(signs, k=LONG))


def _deep_hyphens(chance: random.Random) -> str:
    return "".join("".join(chance.choices(LETTERS, k=9)) + "---\n\n\n" for _ in range(LONG // 15 + 1))[:LONG]


def _every_ideograph(chance: random.Random) -> str:
    return "".join(map(chr, chance.sample((*range(0x4E00, 0xA000), *range(0x20000, 0x2A6E0)), k=LONG - 2_000)))


def _here_and_there(
    noise: Callable[[random.Random], str], hidden: Callable[[str], str], every: int
) -> Callable[[random.Random], str]:
    """A known word hidden three deep every so many characters: each layer has to be read with its neighbours."""

    def make(chance: random.Random) -> str:
        text = noise(chance)
        pieces = (f"{text[at : at + every]} {hidden(chance.choice(TRIGGERS))} " for at in range(0, LONG, every))
        return "".join(pieces)[:LONG]

    return make


def _thrice_in_base64(word: str) -> str:
    coded = word.encode()
    for _layer in range(3):
        coded = base64.b64encode(coded)
    return coded.decode()


def _in_turn(kinds: Sequence[Callable[[random.Random], str]], size: int) -> Callable[[random.Random], str]:
    """Pieces of several kinds one behind the other, so that nothing can be told by the whole text."""

    def make(chance: random.Random) -> str:
        texts = [kind(chance) for kind in kinds]
        pieces = (texts[at % len(texts)][at * size : (at + 1) * size] for at in range(LONG // size + 1))
        return " ".join(pieces)[:LONG]

    return make


def _mixed(chance: random.Random) -> str:
    pieces: list[Callable[[], str]] = [
        lambda: "".join(chance.choices(_BASE64, k=40)),
        lambda: "\u2067" + "".join(chance.choices("abc def", k=12)),
        lambda: "".join(chr(chance.randrange(0x100, 0xD800)) for _ in range(12)),
        lambda: "&#105;&amp;%69%67",
        lambda: chance.choice(TRIGGERS).translate(str.maketrans("oeast", "03457")),
        lambda: "i.g.n.o.r.e",
    ]
    return " ".join(chance.choice(pieces)() for _ in range(LONG // 5))[:LONG]


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
    "any ASCII": _soup("".join(map(chr, range(0x20, 0x7F)))),
    "any byte": _soup("".join(map(chr, range(0x100)))),
    "base64 of words": _in_base64(TRIGGERS),
    "base64 of junk": _in_base64(("qzxwvk", "jjqxzz", "wvutpq", "hkxqzj")),
    "eight letters of base64": _words_of(_BASE64, 8),
    "two letters": _words_of(LETTERS, 2),
    "three letters": _words_of(LETTERS, 3),
    "single letters": _words_of(LETTERS, 1),
    "letters and digits": _words_of(LETTERS + LETTERS.upper() + "0123456789", 9),
    "accented words": _words_of("abcdefghijklmnopqrstuvwxyzáéíóúñçüöäß", 6),
    "mathematical letters": _between(0x1D400, 0x1D7FF),
    "half width": _between(0xFF00, 0xFFEF),
    "punctuation of all kinds": _between(0x2000, 0x2FFF),
    "Cyrillic soup": _between(0x400, 0x4FF),
    "all scripts": _all_scripts,
    "named entities": _named_entities,
    "percent five deep": _percent_five_deep,
    "hex bytes": _hex_bytes,
    "unicode escapes": _unicode_escapes,
    "punycode": _repeat("xn--80ak6aa92e "),
    "ascii85": _repeat("<~9jqo^BlbD-BleB1DJ+*+F(f,q~> "),
    "zero width between letters": _between_letters("\u200b"),
    "storm of marks": _storm_of_marks,
    "invisible bits": _soup("\u200b\u200c"),
    "leetspeak everywhere": _leetspeak,
    "misspelled trigger words": _misspelled,
    "glued trigger words": _glued,
    "stretched letters": _repeat("iiignnnooorrreee aaallllll "),
    "ciphers": _repeat("vtaber cerivbhf suoiverp snoitcurtsni rtmliv kivelfh "),
    "runs of separators": _repeat("- - . . _ _ / / "),
    "hosts": _repeat("abc.def.gha.bcd."),
    "one embedding": _one_embedding,
    "overrides and base64": _overrides_and_base64,
    "everything mixed": _mixed,
    "astral planes": _astral,
    "any ASCII behind an embedding": _behind_an_embedding("".join(map(chr, range(0x20, 0x7F)))),
    "both directions": _both_directions,
    "hyphens in hyphens": _deep_hyphens,
    "one ruler": _repeat("-"),
    "long rulers": _repeat("".join(f"{sign * 2_000}\n begin " for sign in "-=~#*\u2550")),
    "one random word": _soup(LETTERS),
    "soup of separators": _soup("-_./|,;:+*~ \n"),
    "soup of leetspeak": _soup("4830157!@$|+abdefgilnorstu "),
    "soup of look-alikes": _soup("асеорхуіѕјһкпгтսναεικηορτυνχγω abc "),
    "soup of marks": _soup("abcdefghij \u0301\u0323\u0316\u0327\u0308\u0336"),
    "soup of jamo": _soup("".join(map(chr, range(0x1100, 0x1113))) + "".join(map(chr, range(0x1161, 0x1176))) + " "),
    "soup of brackets": _soup("<>[](){}#=*:-|/\\`'\"!?§ \nse"),
    "soup of emoji": _soup("😀🎉👍🏽🇩🇪❤\ufe0f👨\u200d👩 "),
    "soup of kana": _soup("".join(map(chr, range(0x3041, 0x3097))) + "、。"),
    "soup of hangul": _soup("".join(map(chr, range(0xAC00, 0xAC00 + 2_000, 9))) + " "),
    "soup of Devanagari": _soup("".join(map(chr, range(0x905, 0x94D))) + " "),
    **WORDS,
    **FORMATS,
    "morse, digits and accents in turn": _in_turn(
        [_repeat(".. --. -. / "), WORDS["words with digits"], _words_of("abcdefghijklmnopqrstuvwxyzáéíóúñ", 6)], 20
    ),
    "tables and everything in turn": _in_turn([FORMATS["table rows"], _mixed], 1_000),
    "every ideograph": _every_ideograph,
    "base64 three deep among errors": _here_and_there(WORDS["words with two errors"], _thrice_in_base64, 1_000),
    "base64 three deep among digits": _here_and_there(
        _words_of(LETTERS + LETTERS.upper() + "0123456789", 9), _thrice_in_base64, 800
    ),
    "entities three deep among scripts": _here_and_there(_all_scripts, "&amp;amp;amp;{}".format, 500),
    "words and scripts in turn": _in_turn([FORMATS["snake case"], WORDS["every Latin word"], _all_scripts], 20),
}
