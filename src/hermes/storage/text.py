"""Turns any text into the words the full-text index holds, and questions into words that can be looked up there.

Both sides go through `searchable`, so a stored word and the same word in a question always meet. Scripts written
without spaces become overlapping pairs of characters; identifiers are indexed whole and in parts.
"""

from __future__ import annotations

import operator
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Marks count as letters: Thai, Khmer and Indic vowels are marks, and a word must not fall apart at each of them.
TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
_TOKENIZER_ARGUMENTS = ["unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc"]

# Thai, Lao, Tibetan, Myanmar, Hangul Jamo, Khmer, kana, CJK ideographs with their extensions, Hangul, Yi.
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf\u0f40-\u0fbc\u1000-\u109f\u1100-\u11ff\u1780-\u17d3"
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c"
    "\ua960-\ua97c\uaa60-\uaa7f\uac00-\ud7fb\uf900-\ufaff\U00016fe0-\U00016fff\U00017000-\U00018d08"
    "\U0001aff0-\U0001b2fb\U00020000-\U000323af"
)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
# Finds where such runs may be. Not "[…]+": what begins with a set is looked for by that set, which is much faster.
_NOT_ASCII = re.compile("[^\x00-\x7f][^\x00-\x7f]*")
# Small letters and digits, capitals, all else: where a small letter meets a capital, a name has parts. Translating
# bytes and looking for two of them is twenty times faster than a regular expression.
_KINDS = bytes(
    ord("a") if chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789" else ord("A") if 65 <= byte <= 90 else 32  # noqa: PLR2004 - A to Z
    for byte in range(256)
)
_CAMEL_BORDER = re.compile(rb"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SURROGATES = re.compile("[\ud800-\udfff]")


def searchable(text: str) -> str:
    """The text as the index wants it: composed, runs of unspaced script in pairs, identifiers also in parts."""
    if not text.isascii():
        text = _in_pairs(_composed(text))
    if "\x00" in text:
        text = text.replace("\x00", " ")  # SQLite ends a text at the first NUL
    parts = camel_parts(text)
    return f"{text} {parts}" if parts else text


def scrub(text: str) -> str:
    """The text with lone surrogates replaced, because UTF-8 cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


class Words:
    """Splits text exactly as the index does, by calling the index's own tokenizer."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._tokenize: Callable[..., Any] = connection.fts5_tokenizer("porter", _TOKENIZER_ARGUMENTS)
        self._fold: Callable[..., Any] = connection.fts5_tokenizer(_TOKENIZER_ARGUMENTS[0], _TOKENIZER_ARGUMENTS[1:])

    def of(self, text: str) -> list[str]:
        """Stemmed words in the order in which they stand."""
        return self.of_searchable(searchable(text))

    def of_searchable(self, prepared: str) -> list[str]:
        return _tokens(self._tokenize, prepared)

    def unstemmed(self, prepared: str) -> list[str]:
        """The words as they begin in the index: without case and accents, and with their endings."""
        return _tokens(self._fold, prepared)

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, stem) of each word in the UTF-8 bytes of a text that was not prepared: for snippets."""
        found: list[tuple[int, int, str]] = self._tokenize(
            text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False
        )
        return found


def _tokens(tokenize: Callable[..., Any], prepared: str) -> list[str]:
    found: list[str] = tokenize(
        prepared.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return found


def camel_parts(text: str) -> str:
    """`getUserName` as "get User Name", for every such name in the text."""
    data = text.encode("utf-8", "replace")
    kinds = data.translate(_KINDS)
    at = kinds.find(b"aA")
    if at < 0:
        return ""
    found: list[bytes] = []
    while at >= 0:
        start = kinds.rfind(b" ", 0, at) + 1
        end = kinds.find(b" ", at)
        end = len(data) if end < 0 else end
        if kinds.find(b"AAa", start, end) >= 0:  # capitals of their own before the next part, as in HTTPServer
            found.append(_CAMEL_BORDER.sub(b" ", data[start:end]))
            at = kinds.find(b"aA", end)
            continue
        while 0 <= at < end:
            found.append(data[start : at + 1])
            start = at + 1
            at = kinds.find(b"aA", start)
        found.append(data[start:end])
    return b" ".join(found).decode()


def _composed(text: str) -> str:
    text = scrub(text)
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def _in_pairs(text: str) -> str:
    return _NOT_ASCII.sub(_runs_in_pairs, text)


def _runs_in_pairs(part: re.Match[str]) -> str:
    return _UNSPACED_RUN.sub(_pairs, part[0])


def _pairs(run: re.Match[str]) -> str:
    # Pairs first, in order, so that a phrase is a stretch of them; then each character once, for queries of one.
    characters = run[0]
    pairs = " ".join(map(operator.add, characters, characters[1:]))
    return f" {pairs} {' '.join(dict.fromkeys(characters))} "


def query_pieces(text: str, words: Words) -> list[tuple[str, str]]:
    """The words of a question as written and stemmed; runs of unspaced script as pairs, or as the one character."""
    composed = _composed(text).replace("\x00", " ")
    found: list[tuple[str, str]] = []
    at = 0
    for run in _UNSPACED_RUN.finditer(composed):
        found += _spaced_pieces(composed[at : run.start()], words)
        characters = run[0]
        pairs = [characters[i : i + 2] for i in range(len(characters) - 1)] or [characters]
        found += [(pair, pair) for pair in pairs]
        at = run.end()
    return found + _spaced_pieces(composed[at:], words)


def _spaced_pieces(text: str, words: Words) -> list[tuple[str, str]]:
    data = text.encode()
    return [(data[start:end].decode(), stem) for start, end, stem in words.places(text)]


def unspaced_runs(text: str) -> Iterator[tuple[int, str]]:
    """Where runs of unspaced script start in a text, and the runs."""
    for run in _UNSPACED_RUN.finditer(text):
        yield run.start(), run[0]
