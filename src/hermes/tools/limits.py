"""How much of a result a model gets to see: bytes, lines, and characters of one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from hermes.settings.load import Settings

_HEAD = 0.4  # the end of an output usually says how it went, so it gets more room


@value
class Limits:
    max_bytes: int = 50_000
    max_lines: int = 2_000
    max_line_length: int = 2_000
    file_read_max_chars: int = 100_000

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            max_bytes=settings.integer("tool_output.max_bytes"),
            max_lines=settings.integer("tool_output.max_lines"),
            max_line_length=settings.integer("tool_output.max_line_length"),
            file_read_max_chars=settings.integer("file_read_max_chars"),
        )

    def line(self, text: str) -> str:
        more = len(text) - self.max_line_length
        return f"{text[: self.max_line_length]}… [{more:,} more characters]" if more > 0 else text

    def output(self, text: str, lost: int = 0) -> str:
        """The text within all limits: of a long one its beginning and its end, with a mark between them.

        `lost` are bytes that its middle lacks already; what the marks say counts them.
        """
        lines = [self.line(line) for line in text.split("\n")]
        if len(lines) > self.max_lines:
            head = int(self.max_lines * _HEAD)
            tail = self.max_lines - head
            count = f"{'more than ' if lost else ''}{len(lines) - head - tail:,}"
            lines = [*lines[:head], f"[… {count} lines left out …]", *lines[-tail:]]
        return self._within_bytes("\n".join(lines), lost)

    def _within_bytes(self, text: str, lost: int) -> str:
        data = text.encode("utf-8", "replace")
        if len(data) <= self.max_bytes:
            return text
        head = int(self.max_bytes * _HEAD)
        tail = self.max_bytes - head
        first, last = data[:head].decode("utf-8", "ignore"), data[-tail:].decode("utf-8", "ignore")
        return f"{first}\n[… {lost + len(data) - head - tail:,} bytes left out …]\n{last}"
