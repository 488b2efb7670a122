"""Receipts over HTTP and MCP: a header on the answer, the record behind it, and nobody else's."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from http_service import running
from mcp.shared.exceptions import MCPError

from hermes import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

ASK = {"model": "hermes", "messages": [{"role": "user", "content": "Which editor do we use?"}]}


@pytest.mark.proves("receipts.surfaces")
def test_an_answer_over_http_names_its_receipt_and_only_its_person_can_read_it(home: Path) -> None:
    with running(home) as up, up.client("ann") as ann, up.client("bob") as bob:
        answered = ann.post("/v1/chat/completions", json=ASK)
        name, session = answered.headers["hermes-receipt"], answered.headers["x-hermes-session"]
        receipt = ann.get(f"/api/v1/receipts/{name}").json()
        listed = ann.get("/api/v1/receipts", params={"conversation": session}).json()["receipts"]
        strangers = [
            bob.get(f"/api/v1/receipts/{name}").status_code,
            bob.get("/api/v1/receipts", params={"conversation": session}).status_code,
            ann.get(f"/api/v1/receipts/{session}.00000000").status_code,
        ]
    assert (receipt["id"], receipt["state"], receipt["answer"]) == (name, "intact", "Understood.")
    assert "Which editor do we use?" in [each["text"] for each in receipt["items"]]
    assert [each["id"] for each in listed] == [name]
    assert strangers == [404, 404, 404]


@pytest.mark.proves("receipts.act")
def test_a_person_acts_on_an_item_over_http(home: Path) -> None:
    with running(home) as up, up.client("ann") as ann, up.client("bob") as bob:
        ann.post("/api/v1/memory/user", json={"content": "Likes tea."})
        name = ann.post("/v1/chat/completions", json=ASK).headers["hermes-receipt"]
        items = ann.get(f"/api/v1/receipts/{name}").json()["items"]
        number = next(each["number"] for each in items if each["text"] == "Likes tea.")
        place = f"/api/v1/receipts/{name}/items/{number}"
        assert bob.post(f"{place}/forget").status_code == 404
        assert ann.post(f"{place}/burn").status_code == 404
        assert ann.post(f"{place}/correct").status_code == 422
        assert ann.post(f"{place}/never").json()["message"] == "Entry is kept from recall from now on."
        assert ann.post(f"{place}/recall").json()["message"] == "Entry may be recalled again."
        assert ann.post(f"{place}/pin").json()["message"] == "Entry pinned."
        assert ann.post(f"{place}/correct", json={"text": "Likes coffee."}).status_code == 200
        assert ann.get("/api/v1/memory/user").json()["entries"] == ["Likes coffee."]


@pytest.mark.proves("receipts.surfaces")
def test_the_last_event_of_a_stream_names_the_receipt(home: Path) -> None:
    with running(home) as up, up.client("ann") as ann:
        streamed = ann.post("/v1/chat/completions", json={**ASK, "stream": True}).text
        events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
        names = [each["receipt"] for each in events if "receipt" in each]
        assert [ann.get(f"/api/v1/receipts/{name}").status_code for name in names] == [200]


@pytest.mark.proves("receipts.surfaces")
def test_an_mcp_host_reads_a_receipt_as_a_resource(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("Which editor do we use?")
        session.finish_turn("Vim.")
        name = session.receipt_id

    async def talk() -> tuple[Any, Any]:
        words = ["-m", "hermes", "--home", str(home), "mcp"]
        transport = StdioTransport(sys.executable, words, env=dict(os.environ), cwd=str(home.parent))
        async with Client(transport) as client:
            templates = await client.list_resource_templates()
            with pytest.raises(MCPError):
                await client.read_resource(f"hermes://receipts/{name}0")
            return templates, await client.read_resource(f"hermes://receipts/{name}")

    templates, (card,) = asyncio.run(talk())
    assert "hermes://receipts/{id}" in [each.uri_template for each in templates]
    assert json.loads(card.text)["answer"] == "Vim."
