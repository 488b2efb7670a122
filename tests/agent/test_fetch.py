"""Fetching pages: as text, within limits, and never from private addresses unasked."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from agents import call_tools, configure

from hermes.llm import transport
from hermes.tools.fetch import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES: dict[str, tuple[str, bytes]] = {
    "/page": (
        "text/html; charset=utf-8",
        "<html><head><title>Tea &amp; more</title><script>evil()</script></head><body><h1>Tea</h1><p>Grün <a"
        " href='/leaf'>leaf</a></p><ul><li>one<li>two</ul><!-- hidden --></body></html>".encode(),
    ),
    "/long": ("text/plain", b"0123456789" * 20_000),
    "/data": ("application/json", b'{"a": 1}'),
    "/odd": ("text/plain; charset=hex", "grün".encode()),
    "/table": (
        "text/html",
        b"<table><tr><th>leaf</th></tr><tr><td>green</td></tr></table><a href='http://[b'>odd</a> <a href='#a'>up</a>",
    ),
    "/image": ("image/png", b"\x89PNG"),
}


AWAY = {"/away": "/page", "/round": "/round"}


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.path = urlsplit(self.path).path  # a proxy gets the whole address
        if self.path in AWAY:
            self.send_response(302)
            self.send_header("location", AWAY[self.path])
            self.end_headers()
            return
        if self.path == "/drip":
            self._drip()
            return
        kind, body = PAGES.get(self.path, ("text/plain", b"nothing"))
        self.send_response(200 if self.path in PAGES else 404)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        """A page that never ends, a byte at a time."""
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b".")
                time.sleep(0.01)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.proves("agent.web")
def test_a_page_is_returned_as_text_with_its_links(home: Path, tmp_path: Path, site: str) -> None:
    configure(home, "web: {allow_private_addresses: true}\n")
    page, away, data, image, missing = call_tools(
        home,
        tmp_path / "work",
        *(("fetch_url", {"url": f"{site}/{name}"}) for name in ("page", "away", "data", "image", "gone")),
    )
    assert page["title"] == "Tea & more"
    assert page["content"] == f"# Tea\n\nGrün [leaf]({site}/leaf)\n\n- one\n- two"
    assert (away["url"], away["content"]) == (f"{site}/page", page["content"])
    assert data["content"] == '{"a": 1}'
    assert "image/png" in image["error"]
    assert (missing["success"], missing["status"]) == (False, 404)


@pytest.mark.proves("agent.web")
def test_a_long_page_is_read_in_parts_and_cut_at_its_limit(home: Path, tmp_path: Path, site: str) -> None:
    configure(home, "web: {allow_private_addresses: true, max_bytes: 100000}\ntool_output: {max_bytes: 60000}\n")
    first, second = call_tools(
        home,
        tmp_path / "work",
        ("fetch_url", {"url": f"{site}/long"}),
        ("fetch_url", {"url": f"{site}/long", "offset": 60_000}),
    )
    assert (len(first["content"]), first["next_offset"]) == (60_000, 60_000)
    assert len(second["content"]) == 40_000
    assert "longer than 100,000 bytes" in second["note"]


@pytest.mark.proves("agent.web")
@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:1/", "http://localhost/", "http://[::1]/", "http://169.254.169.254/latest"),
        *("http://0.0.0.0/", "http://2130706433/", "http://[::ffff:127.0.0.1]/", "http://[::127.0.0.1]/"),
        *("http://[64:ff9b::7f00:1]/", "http://[fec0::1]/"),
    ],
)
def test_addresses_of_this_machine_and_its_network_are_refused(home: Path, tmp_path: Path, url: str) -> None:
    (result,) = call_tools(home, tmp_path / "work", ("fetch_url", {"url": url}))
    assert "web.allow_private_addresses" in result["error"]
    assert "127.0.0.1 is 127.0.0.1" not in result["error"]


@pytest.mark.proves("agent.web")
@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com/", "example.com", "http://", ""])
def test_only_http_addresses_are_fetched(home: Path, tmp_path: Path, url: str) -> None:
    (result,) = call_tools(home, tmp_path / "work", ("fetch_url", {"url": url}))
    assert "not an http or https address" in result["error"]


@pytest.mark.proves("agent.web")
@pytest.mark.parametrize("piece", ["<!--", "<script>", "<a href='", "<", "<title>", "<svg ", "&#", "<li"])
def test_hostile_html_is_read_to_its_end(piece: str) -> None:
    assert isinstance(text_of(piece * 500_000), str)  # in quadratic time this would run into the suite's time limit


@pytest.mark.proves("agent.outside-text")
def test_a_memory_write_after_a_page_or_a_command_waits_for_a_person(home: Path, tmp_path: Path, site: str) -> None:
    configure(home, "web: {allow_private_addresses: true}\nterminal: {policy: allow}\n")
    add = ("memory", {"action": "add", "target": "memory", "content": "Tea is green."})
    for call in (("fetch_url", {"url": f"{site}/page"}), ("terminal", {"command": f"curl -s {site}/page"})):
        _, staged = call_tools(home, tmp_path / "work", call, add)
        assert staged["staged"] is True
    _, saved = call_tools(home, tmp_path / "work", ("terminal", {"command": "echo hi"}), add)
    assert "staged" not in saved, "nobody else has written that"


@pytest.mark.proves("agent.web")
def test_tables_odd_links_and_unknown_character_sets_are_text_all_the_same(
    home: Path, tmp_path: Path, site: str
) -> None:
    configure(home, "web: {allow_private_addresses: true}\n")
    calls = (("fetch_url", {"url": f"{site}/{name}"}) for name in ("table", "odd"))
    table, odd = call_tools(home, tmp_path / "work", *calls)
    assert table["title"] == ""
    assert table["content"].split("\n") == ["leaf |", "", "green |", "", "[odd](http://[b) up"]
    assert odd["content"] == "grün"


@pytest.mark.proves("agent.web")
def test_a_page_that_leads_in_circles_or_never_ends_is_given_up(home: Path, tmp_path: Path, site: str) -> None:
    configure(home, "web: {allow_private_addresses: true, timeout: 1}\n")
    calls = (("fetch_url", {"url": f"{site}/{name}"}) for name in ("round", "drip"))
    circle, endless = call_tools(home, tmp_path / "work", *calls)
    assert "more than 5 redirects" in circle["error"]
    assert endless["error"] == "stopped, or the page took too long"


@pytest.mark.proves("agent.web")
@pytest.mark.parametrize("proxied", [False, True])
def test_a_name_that_only_a_proxy_knows_is_asked_of_the_proxy(
    home: Path, tmp_path: Path, site: str, monkeypatch: pytest.MonkeyPatch, proxied: bool
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if proxied:
        monkeypatch.setenv("http_proxy", site)
    monkeypatch.setattr(transport, "_client", transport._client.__wrapped__)  # one with this proxy
    configure(home, "web: {timeout: 1}\n")
    calls = (("fetch_url", {"url": f"http://inner.invalid/{name}"}) for name in ("data", "drip"))
    page, endless = call_tools(home, tmp_path / "work", *calls)
    if proxied:
        assert (page["url"], page["content"]) == ("http://inner.invalid/data", '{"a": 1}')
        assert endless["error"] == "stopped, or the page took too long"
    else:
        assert "there is no host 'inner.invalid'" in page["error"]
