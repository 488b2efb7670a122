"""Reads a JSON array of any length one item at a time, so that an export of gigabytes needs the memory of one chat."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any

from hermes.vocabulary.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class Readable(Protocol):
        def read(self, count: int, /) -> bytes: ...


_PIECE = 1 << 20
LONGEST_ITEM = 256 << 20
_BLANK = " \t\r\n"


def items(file: Readable, name: str, on_bytes: Callable[[int], None] | None = None) -> Iterator[Any]:
    """The items of the array in the file; an object instead of an array counts as its only item."""
    reader = _Reader(file, name, on_bytes)
    first = reader.next_letter()
    if first == "{":
        yield reader.value()
        return
    if first != "[":
        raise DamagedFile(f"{name} begins with neither [ nor {{, so it is no JSON export; unpack or export it again")
    reader.skip()
    while (letter := reader.next_letter()) != "]":
        if letter == ",":
            reader.skip()
            continue
        yield reader.value()


class _Reader:
    def __init__(self, file: Readable, name: str, on_bytes: Callable[[int], None] | None) -> None:
        self._file = file
        self._name = name
        self._on_bytes = on_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._at = 0
        self._ended = False

    def next_letter(self) -> str:
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self._at += 1
            if not self._more(_PIECE):
                raise DamagedFile(f"{self._name} breaks off in the middle; download or copy it again")

    def skip(self) -> None:
        self._at += 1

    def value(self) -> Any:
        """The value that starts here; twice as much text each time it is not complete, so the work stays linear."""
        step = _PIECE
        while True:
            try:
                found, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
            except ValueError as error:
                if len(self._text) - self._at > LONGEST_ITEM:
                    raise DamagedFile(f"{self._name} holds an item over {LONGEST_ITEM >> 20} MiB") from error
                if not self._more(step):
                    raise DamagedFile(f"{self._name} is not complete JSON ({error}); download it again") from error
                step = min(step * 2, LONGEST_ITEM)
            except RecursionError as error:
                raise DamagedFile(f"{self._name} is nested too deeply to be an export") from error
            else:
                return found

    def _more(self, count: int) -> bool:
        if self._ended:
            return False
        self._text, self._at = self._text[self._at :], 0
        data = self._file.read(count)
        self._ended = not data
        self._text += self._decoder.decode(data, final=self._ended)
        if self._on_bytes is not None:
            self._on_bytes(len(data))
        return True
