"""MCP Apps: the cards that a host shows, in a sandboxed frame of a page that plays the host."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from hermes import MemorySession, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from web_page import Browser

HOSTILE = "Vim. </script><script>parent.postMessage('caught', '*')</script><img src=x onerror=alert(1)>"
# A host as the protocol describes it: it answers ui/initialize, and when it hears `initialized` it sends the result.
HOST = """<!doctype html><iframe id="card" sandbox="allow-scripts"></iframe><script>
window.heard = [];
addEventListener("message", ({ data, source }) => {
  heard.push(data.method ?? data);
  const say = (message) => source.postMessage({ jsonrpc: "2.0", ...message }, "*");
  if (data.method === "ui/initialize") say({ id: data.id, result: { protocolVersion: "2026-01-26" } });
  if (data.method === "ui/notifications/initialized" && RESULT)
    say({ method: "ui/notifications/tool-result", params: RESULT });
});
document.getElementById("card").srcdoc = CARD;
</script>"""


def talk(home: Path, name: str) -> tuple[Any, Any, Any]:
    """What a host gets: the tool with its card, the card, and the card of a receipt."""

    async def ask() -> tuple[Any, Any, Any]:
        words = ["-m", "hermes", "--home", str(home), "mcp"]
        async with Client(StdioTransport(sys.executable, words, env=dict(os.environ), cwd=str(home.parent))) as client:
            [tool] = [each for each in await client.list_tools() if each.name == "memory"]
            [card] = await client.read_resource(tool.meta["ui"]["resourceUri"])
            [receipt] = await client.read_resource(f"ui://hermes/receipts/{name}")
            return tool, card, receipt

    return asyncio.run(ask())


def shown(chromium: Browser, folder: Path, card: str, result: Any) -> str:
    """What stands in the card when a host has loaded it."""
    page = folder / "host.html"
    quoted = [json.dumps(each).replace("</", "<\\/") for each in (result, card)]
    page.write_text(HOST.replace("RESULT", quoted[0]).replace("CARD;", f"{quoted[1]};"), encoding="utf-8")
    driver = chromium.driver
    driver.get(page.as_uri())
    driver.switch_to.frame("card")
    chromium.wait(lambda: chromium.all("h1"))
    text = str(chromium.find("main").text)
    driver.switch_to.default_content()
    assert "caught" not in driver.execute_script("return window.heard")
    return text


@pytest.mark.proves("mcp.cards")
def test_a_host_shows_what_waits_and_what_an_answer_was_made_from(
    home: Path, tmp_path: Path, chromium: Browser
) -> None:
    MemoryStore.open(home).add("memory", "Uses Vim.")
    with MemorySession.open(home) as session:
        session.prepare_turn("Which editor?")
        session.finish_turn(HOSTILE)
        name = session.receipt_id
    _, card, receipt = talk(home, name)
    assert {card.mime_type, receipt.mime_type} == {"text/html;profile=mcp-app"}
    assert "://" not in card.text, "it loads nothing from anywhere"
    staged = {"structuredContent": {"success": True, "staged": True, "message": f"Staged: {HOSTILE}"}, "content": []}
    waits = shown(chromium, tmp_path, card.text, staged)
    assert waits.startswith("This waits for you")
    assert HOSTILE in waits
    told = shown(chromium, tmp_path, receipt.text, None)
    assert told.startswith("Receipt\nstate\nintact\nyou asked\nWhich editor?")
