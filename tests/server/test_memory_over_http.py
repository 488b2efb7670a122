"""Changing memory over HTTP with as little ceremony as at the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from http_service import running

from hermes import MemorySession
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

    from conftest import Ran


def staged(home: Path, *contents: str) -> list[str]:
    """Writes of ann's model that wait for her, as recalled text in the same turn makes them wait."""
    with MemorySession.open(People(find_home(home)).home_of("ann")) as session:
        session.prepare_turn("What do you know?", recalled="Somebody wrote this elsewhere.")
        writes = [{"action": "add", "target": "user", "content": content} for content in contents]
        return [json.loads(session.call_tool("memory", write))["pending_id"] for write in writes]


@pytest.fixture
def http(home: Path) -> Iterator[httpx.Client]:
    with running(home) as up, up.client() as http:
        yield http


@pytest.mark.proves("http.api")
def test_one_operation_needs_no_list(http: httpx.Client) -> None:
    def change(**body: str) -> Any:
        return http.post("/api/v1/memory/user", json=body).json()["entries"]

    assert change(content="Speaks Danish.") == ["Speaks Danish."]
    assert change(action="add", content="Has a dog.") == ["Speaks Danish.", "Has a dog."]
    assert change(action="replace", old_text="dog", content="Has two dogs.") == ["Speaks Danish.", "Has two dogs."]
    assert change(action="remove", old_text="Danish") == ["Has two dogs."]


@pytest.mark.proves("http.api")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "say what to do"),
        ({"old_text": "dog"}, "say what to do"),
        ({"old_text": "dog", "content": "Has a cat."}, "say what to do"),
        ({"content": "Has a cat.", "operations": [{"action": "add", "content": "Has a dog."}]}, "not both"),
    ],
)
def test_what_could_mean_several_things_is_refused_and_says_what_to_send(
    http: httpx.Client, body: dict[str, Any], said: str
) -> None:
    answer = http.post("/api/v1/memory/user", json=body)
    assert answer.status_code == 422
    assert said in answer.json()["error"]["message"]
    assert http.get("/api/v1/memory/user").json()["entries"] == []


@pytest.mark.proves("http.api")
def test_undoing_without_a_body_takes_back_one_change_after_the_other(http: httpx.Client) -> None:
    http.post("/api/v1/memory/user", json={"content": "Speaks Danish."})
    http.post("/api/v1/memory/memory", json={"content": "Grows orchids."})
    assert http.post("/api/v1/memory-undo").json()["target"] == "memory"
    assert http.post("/api/v1/memory-undo", json={}).json()["target"] == "user"
    nothing = http.post("/api/v1/memory-undo")
    assert nothing.status_code == 422
    assert nothing.json()["error"]["message"] == "there is nothing left to undo"
    assert http.post("/api/v1/memory-undo", json={"change": ""}).status_code == 404


@pytest.mark.proves("http.api")
def test_somebody_without_a_shell_decides_about_writes_that_wait(http: httpx.Client, home: Path) -> None:
    boat, cat = staged(home, "Has a boat.", "Has a cat.")
    waiting = http.get("/api/v1/memory-pending").json()["pending"]
    assert [each["id"] for each in waiting] == [boat, cat]
    assert "Somebody wrote this elsewhere" in waiting[0]["reason"]
    assert http.post(f"/api/v1/memory-pending/{boat}", json={"decision": "approve"}).json()["message"] == "Entry added."
    thrown = http.post(f"/api/v1/memory-pending/{cat}", json={"decision": "reject"}).json()
    assert thrown == {"message": "Rejected: add 'Has a cat.'", "change": None, "target": "user"}
    assert http.get("/api/v1/memory/user").json()["entries"] == ["Has a boat."]
    assert http.post(f"/api/v1/memory-pending/{cat}", json={"decision": "approve"}).status_code == 404


@pytest.mark.proves("approval.http")
def test_a_key_decides_only_with_the_right_that_the_owner_gave_it(home: Path, hermes: Callable[..., Ran]) -> None:
    with running(home) as up:
        chat = hermes("users", "key", "ann", "--label", "phone", "--json").json
        full = hermes("users", "key", "ann", "--approve", "--json").json
        assert (chat["rights"], full["rights"]) == ([], ["approve"])
        boat, cat = staged(home, "Has a boat.", "Has a cat.")
        with up.client(headers={"authorization": f"Bearer {chat['key']}"}) as client:
            (first, _) = client.get("/api/v1/memory-pending").json()["pending"]
            assert "Somebody wrote this elsewhere" in first["sources"][0]["passage"]
            for decision in ("approve", "reject"):
                refused = client.post(f"/api/v1/memory-pending/{boat}", json={"decision": decision})
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "approve")
                assert "hermes users key NAME --approve" in refused.json()["error"]["message"]
            assert client.get("/api/v1/memory/user").json()["entries"] == []
        with up.client(headers={"authorization": f"Bearer {full['key']}"}) as client:
            edited = {"decision": "approve", "texts": ["Has a red boat."]}
            assert client.post(f"/api/v1/memory-pending/{boat}", json=edited).status_code == 200
            assert client.get("/api/v1/memory/user").json()["entries"] == ["Has a red boat."]
            wrong = client.post(f"/api/v1/memory-pending/{cat}", json={"decision": "approve", "texts": []})
            described = client.get("/openapi.json").json()["paths"]["/api/v1/memory-pending/{pending_id}"]["post"]
            assert "right `approve`" in described["summary"]
            assert (wrong.status_code, len(client.get("/api/v1/memory-pending").json()["pending"])) == (422, 1)
    assert "may approve" in hermes("users", "list").out


@pytest.mark.proves("http.api")
def test_one_person_cannot_decide_for_another(home: Path) -> None:
    with running(home) as up, up.client("bob") as bob:
        (boat,) = staged(home, "Has a boat.")
        assert bob.get("/api/v1/memory-pending").json() == {"pending": []}
        assert bob.post(f"/api/v1/memory-pending/{boat}", json={"decision": "approve"}).status_code == 404
