"""HTML as plain text with headings, lists and links; linear in its input, however broken that is."""

from __future__ import annotations

import html
import re
from urllib.parse import urljoin

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)([^<>]*)>")
_ANY_TAG = re.compile(r"<[^<>]*>")
_HREF = re.compile(r"""\bhref\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)
# Elements whose content is not text for a reader.
_UNREAD = ("script", "style", "noscript", "template", "svg", "iframe", "head")
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figure", "footer"),
        *("form", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "tbody", "thead", "tr", "ul"),
    )
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


def title_of(page: str) -> str:
    start = re.search(r"<title[^<>]*>", page[:200_000], re.IGNORECASE)
    if start is None:
        return ""
    return " ".join(html.unescape(page[start.end() : start.end() + 500].partition("<")[0]).split())


def text_of(page: str, base: str = "") -> str:
    """The text of a page; links as `[words](address)`."""
    body = _without(page, "<!--", "-->")
    for name in _UNREAD:
        body = _without_element(body, name)
    pieces: list[str] = []
    at, link = 0, ""
    for tag in _TAG.finditer(body):
        pieces.append(body[at : tag.start()])
        at = tag.end()
        shown, link = _shown(tag, link, base)
        pieces.append(shown)
    pieces.append(body[at:])
    return _tidy(html.unescape(_ANY_TAG.sub(" ", "".join(pieces))))


def _shown(tag: re.Match[str], link: str, base: str) -> tuple[str, str]:
    """What stands in a tag's place, and the address of the link that is open after it."""
    ends, name = bool(tag[1]), tag[2].lower()
    if name == "a":
        if ends:
            return (f"]({link})" if link else ""), ""
        target = _HREF.search(tag[3][:4_000])
        address = html.unescape(target[1].strip("\"'")) if target else ""
        useful = bool(address) and not address.startswith(("#", "javascript:", "data:"))
        return ("[" if useful else ""), (_joined(base, address) if useful else "")
    if name in _HEADINGS:
        return ("\n" if ends else f"\n\n{_HEADINGS[name]} "), link
    if name == "li":
        return ("" if ends else "\n- "), link
    if name in ("td", "th"):
        return (" | " if ends else ""), link
    return ("\n" if name in _BLOCKS else ""), link


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address


def _without(text: str, start: str, end: str) -> str:
    """The text without everything between two marks; an open one reaches to the end."""
    kept: list[str] = []
    at = 0
    while (begin := text.find(start, at)) >= 0:
        kept.append(text[at:begin])
        stop = text.find(end, begin + len(start))
        if stop < 0:
            return "".join(kept)
        at = stop + len(end)
    return "".join([*kept, text[at:]])


def _without_element(text: str, name: str) -> str:
    kept: list[str] = []
    at = 0
    opening, closing = (re.compile(rf"<{slash}{name}(?=[\s>/])", re.IGNORECASE) for slash in ("", "/"))
    while begin := opening.search(text, at):
        kept.append(text[at : begin.start()])
        stop = closing.search(text, begin.end())
        if stop is None:  # an open script hides the rest of a page, an open head must not
            return "".join([*kept, text[begin.end() :] if name in ("head", "noscript", "svg") else ""])
        at = (text.find(">", stop.end()) + 1) or len(text)
    return "".join([*kept, text[at:]])


def _tidy(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.split("\n")]
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept).strip()
