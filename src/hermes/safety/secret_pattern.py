"""`Pattern`: a regular expression that is compiled when it is first needed.

Compiling the patterns for secrets takes longer than starting Python, and a sentence needs few of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator


class Pattern:
    __slots__ = ("_compiled", "_ignores_case", "_text")

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        self._text = text
        self._ignores_case = ignores_case
        self._compiled: re.Pattern[str] | None = None

    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            import re

            self._compiled = re.compile(self._text, re.IGNORECASE if self._ignores_case else 0)
        return self._compiled

    def search(self, text: str, start: int = 0, end: int | None = None) -> re.Match[str] | None:
        return self.compiled().search(text, start, len(text) if end is None else end)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.compiled().match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.compiled().fullmatch(text)

    def finditer(self, text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
        return self.compiled().finditer(text, start, len(text) if end is None else end)
