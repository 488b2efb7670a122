"""The `fetch_url` tool: turns a web page into text; refuses addresses of this machine and its network."""

from __future__ import annotations

import html
import ipaddress
import re
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

from hermes.base.errors import Interrupted, WriteRefused
from hermes.base.values import value
from hermes.base.version import __version__
from hermes.tools.registry import SCHEMAS, failure

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from hermes.tools.paths import Limits

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
    """Gives the title of an HTML page in one line; "" when it has none near its beginning."""
    start = re.search(r"<title[^<>]*>", page[:200_000], re.IGNORECASE)
    if start is None:
        return ""
    return " ".join(html.unescape(page[start.end() : start.end() + 500].partition("<")[0]).split())


def text_of(page: str, base: str = "") -> str:
    """Gives the text of an HTML page; links become `[words](address)`, resolved against `base`."""
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
    """What replaces a tag, and the address of the link that is open after it."""
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
    """Removes everything between two marks; without an end mark, everything to the end of the text."""
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
    """Removes every element of this name with its content."""
    kept: list[str] = []
    at = 0
    opening, closing = (re.compile(rf"<{slash}{name}(?=[\s>/])", re.IGNORECASE) for slash in ("", "/"))
    while begin := opening.search(text, at):
        kept.append(text[at : begin.start()])
        stop = closing.search(text, begin.end())
        if stop is None:  # browsers take the rest of a page as the script, but show what follows an open head
            return "".join([*kept, text[begin.end() :] if name in ("head", "noscript", "svg") else ""])
        at = (text.find(">", stop.end()) + 1) or len(text)
    return "".join([*kept, text[at:]])


def _tidy(text: str) -> str:
    """Collapses blanks, and empty lines that follow each other."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept).strip()


_MOST_REDIRECTS = 5  # a server could redirect forever
_REDIRECT = range(300, 400)
_NAT64 = int(ipaddress.IPv6Address("64:ff9b::")) >> 32  # NAT64 gateways send these to the IPv4 address at their end
# A media type that contains one of these is text.
_TEXTUAL = ("text/", "json", "xml", "javascript", "yaml", "toml", "x-sh", "csv")


@value
class WebPolicy:
    """What `fetch_url` may reach, and how much and how long it may read."""

    allow_private: bool = False
    max_bytes: int = 2_000_000
    seconds: float = 30


@value
class _Page:
    url: str
    status: int
    kind: str
    charset: str
    data: bytes
    cut: bool


class FetchUrl:
    """The tool `fetch_url`: reads a page on the web for the model."""

    brings = "web"
    sink = "request"
    schema = SCHEMAS["fetch_url"]

    def __init__(self, policy: WebPolicy, limits: Limits, cancelled: Callable[[], bool]) -> None:
        self._policy = policy
        self._limits = limits
        self._cancelled = cancelled

    def effect(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The gate decides by the address: a request can carry text away in it."""
        return {"address": arguments["url"].strip()}

    def origin_of(self, _arguments: dict[str, Any], result: dict[str, Any], _turn: object) -> str:
        """From the web if the page was fetched."""
        return "web" if "content" in result else ""  # otherwise the result is our own error message

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Fetches a page and returns its text from `offset` on, with the offset of the next part if it is long."""
        import httpx

        try:
            page = self._fetch(arguments["url"].strip())
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: urllib, for odd addresses
            return failure(f"{arguments['url']} could not be fetched: {str(error) or type(error).__name__}")
        except Interrupted:
            return failure("stopped, or the page took too long")
        if not any(part in page.kind for part in _TEXTUAL):
            return failure(f"{page.url} is {page.kind or 'of no known kind'}, not text", {"status": page.status})
        return self._result(page, max(arguments.get("offset", 0), 0))

    def _result(self, page: _Page, offset: int) -> dict[str, Any]:
        """Converts the page to text and cuts it from `offset` on; the limit counts bytes, the offset characters."""
        text = _decoded(page.data, page.charset)
        result: dict[str, Any] = {"success": page.status < 400, "url": page.url, "status": page.status}  # noqa: PLR2004
        if "html" in page.kind:
            result["title"] = title_of(text)
            text = text_of(text, page.url)
        shown = text[offset:].encode()[: self._limits.max_bytes].decode("utf-8", "ignore")
        result["content"] = shown
        if offset + len(shown) < len(text):
            result |= {"truncated": True, "next_offset": offset + len(shown), "total_characters": len(text)}
        if page.cut:
            result["note"] = f"the page is longer than {self._policy.max_bytes:,} bytes; its end was not fetched"
        return result

    def _fetch(self, url: str) -> _Page:
        """Follows redirects to a page; the time limit covers all of them together."""
        end = time.monotonic() + self._policy.seconds
        for _ in range(_MOST_REDIRECTS + 1):
            page = self._once(url, lambda: self._cancelled() or time.monotonic() > end)
            if isinstance(page, _Page):
                return page
            url = urljoin(url, page)  # the next `_once` checks it like the first address
        raise WriteRefused(f"{url}: more than {_MOST_REDIRECTS} redirects", kind="web")

    def _once(self, url: str, stopped: Callable[[], bool]) -> _Page | str:
        """Makes one request; returns the page, or the address the server redirects to."""
        import httpx

        from hermes.llm.transport import CANCELLED, shared_client

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WriteRefused(f"{url!r} is not an http or https address", kind="web")
        address = self._checked_address(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        # Connect to the address that was checked: a second look-up of the name could return a private one.
        target = httpx.URL(url).copy_with(host=address) if address else httpx.URL(url)
        # Because the request goes to an address, the name is sent in the Host header and in TLS.
        asked = shared_client().stream(
            "GET",
            target,
            headers={
                "host": parts.netloc.rpartition("@")[2],
                "user-agent": f"hermes/{__version__}",
                "accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5",
            },
            timeout=httpx.Timeout(self._policy.seconds, connect=10),
            extensions={"sni_hostname": parts.hostname, CANCELLED: stopped},
        )
        with asked as response:
            if response.status_code in _REDIRECT and response.headers.get("location"):
                return str(response.headers["location"])
            data, cut = self._read(response)
            kind = response.headers.get("content-type", "").lower()
            charset = response.encoding or "utf-8"
            return _Page(url=url, status=response.status_code, kind=kind, charset=charset, data=data, cut=cut)

    def _read(self, response: httpx.Response) -> tuple[bytes, bool]:
        """Reads a page up to the limit, and says whether there was more."""
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if len(data) > self._policy.max_bytes:
                return bytes(data[: self._policy.max_bytes]), True
        return bytes(data), False

    def _checked_address(self, host: str, port: int) -> str:
        """Resolves a host and refuses private addresses; "" when only a proxy can resolve the name."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            if getproxies().keys() & {"http", "https", "all"}:  # only the proxy can resolve it
                return ""
            raise WriteRefused(f"there is no host {host!r}: {error}", kind="web") from error
        addresses = [str(each[4][0]) for each in found]
        if not self._policy.allow_private and (private := [each for each in addresses if not _is_public(each)]):
            where = "" if host == private[0] else f" {private[0]},"
            raise WriteRefused(
                f"{host} is{where} an address of this machine or its network; the setting"
                " web.allow_private_addresses allows that",
                kind="web",
            )
        return addresses[0]


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    if address.version == 6:  # noqa: PLR2004 - IPv6, which has more ways to wrap a private IPv4 address
        if address.is_site_local or (int(address) >> 32 == 0 and int(address) > 1):
            return False
        if int(address) >> 32 == _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.is_global and not address.is_multicast and (inner is None or inner.is_global)


def _decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset, "replace")
    except LookupError:  # no such character set, or one like hex that is no text encoding: most pages are UTF-8
        return data.decode("utf-8", "replace")
