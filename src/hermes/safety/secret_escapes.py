r"""A text as it was before a program wrote it into another one: `\n`, `\"`, `\/`, `\u003d` as what they stand for.

Results of tools are JSON. There a line begins with the letter of its `\n`, and a quote with a backslash, so that no
key stands where a key begins.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

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
