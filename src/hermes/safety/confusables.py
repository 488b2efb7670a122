"""Characters that look like Latin letters or separate like spaces, and characters nobody sees.

Loaded only for text that holds something outside ASCII. The pairs follow the idea of UTS #39 skeletons: words are
compared after every look-alike has become the same letter, in the text and in the lexicons alike.
"""

from __future__ import annotations

import unicodedata

from hermes.safety.tables import load_table

_SIGNS = {"apostrophe": "'", "space": " ", "bar": "|", "slash": "/", "hyphen": "-", "colon": ":"}
_BRAILLE = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵"
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_SYMBOL_ALPHABETS = (0x1F1E6, 0x1F130, 0x1F150, 0x1F170)  # regional indicators, squared, negative circled and squared

# Default_Ignorable_Code_Point, plus format controls that carry no glyph
IGNORABLE_RANGES = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
# Ideographs and Korean syllables that read as what they are; blocks of them are worked out at once.
_UNCHANGED_RANGES = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x2A6DF))
_BLOCK = 256
_PLAIN = frozenset({"Lo", "Ll", "Cs", "So", "Nd", "Mc"})
_DROPPED = frozenset({"Mn", "Me", "Cc", "Cf", "Cn", "Co"})  # marks, controls, and what nobody has given a meaning
_LONGEST_EXPANSION = 4  # one ligature stands for 18 letters of a blessing; a text full of them must not grow


class FoldTable(dict[int, str]):
    """Maps a code point to what it reads as; each answer is worked out once."""

    def __init__(self) -> None:
        super().__init__()
        for name, alikes in load_table("confusables.txt").items():
            for alike in alikes.replace(" ", ""):
                self._add(alike, _SIGNS.get(name, name))
        for first, last in IGNORABLE_RANGES:
            self.update(dict.fromkeys(range(first, last + 1), ""))
        for index, letter in enumerate(_ALPHABET):
            self[ord(_BRAILLE[index])] = letter
            for start in _SYMBOL_ALPHABETS:
                self[start + index] = letter
        for code in range(0x80):  # last, so that nothing above can change what ASCII reads as
            char = chr(code)
            self[code] = char.lower() if char.isprintable() or char in "\t\n\r" else ""

    def __missing__(self, code: int) -> str:
        for first, last in _UNCHANGED_RANGES:
            if first <= code <= last:  # a text may be full of them, each another one
                start = code // _BLOCK * _BLOCK
                block = range(max(first, start), min(last + 1, start + _BLOCK))
                self.update({each: chr(each) for each in block if each not in self})
                return self[code]
        folded = self[code] = self._work_out(code)
        return folded

    def _work_out(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category in _PLAIN and not unicodedata.decomposition(char):
            return char
        if category in _DROPPED:
            return ""
        if category[0] == "Z":
            return "\n" if category in {"Zl", "Zp"} else " "
        parts = unicodedata.normalize("NFKD", char).lower()
        parts = unicodedata.normalize("NFKD", parts) if len(parts) == 1 else parts
        if len(parts) > _LONGEST_EXPANSION:
            return char
        letters = [part for part in parts if part.isalpha()]  # of a letter in brackets, the letter
        return "".join(self[ord(part)] if part != char else part for part in letters or parts)

    def _add(self, alike: str, letter: str) -> None:
        self[ord(alike)] = letter
        for form in (alike.lower(), alike.upper()):
            if len(form) == 1 and not form.isascii():
                self[ord(form)] = letter
