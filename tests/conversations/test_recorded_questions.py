"""A question that was searched for before is on record itself; the record is no answer to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hermes.storage.local import index

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Ran
    from hermes.conversations.database import SessionDB

    Search = Callable[..., dict[str, Any]]

QUESTION = "which hotel in Lisbon last year?"


def looked_up(db: SessionDB, tool: str = "session_search", **arguments: Any) -> str:
    """A conversation in which the agent called a tool."""
    made = db.create_session()
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    db.append_many(
        made,
        [
            {"role": "user", "content": "Do you remember?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": tool, "content": json.dumps({"results": [], **arguments})},
            {"role": "assistant", "content": "I do not."},
        ],
    )
    return made


def stayed_in_lisbon(db: SessionDB) -> str:
    made = db.create_session()
    db.append(made, {"role": "user", "content": "Where did we stay in Lisbon last year?"})
    db.append(made, {"role": "assistant", "content": "At the Hotel Avenida, near Rossio."})
    return made


def conversations(answer: dict[str, Any]) -> list[str]:
    return [result["session_id"] for result in answer["results"]]


def assert_found(wanted: str, search: Search, query: str) -> None:
    answer = search(query=query)
    assert conversations(answer)[0] == wanted, query
    assert not [result for result in answer["results"] if "session_search" in result["snippet"]], query


@pytest.mark.proves("search.discover")
def test_the_conversation_is_found_and_not_the_searches_for_it(
    db: SessionDB, search: Search, hermes: Callable[..., Ran]
) -> None:
    for tool in ("session_search", "context_expand", "lcm_grep", "lcm_expand", "mcp__hermes__session_search"):
        looked_up(db, tool, query=QUESTION)
    wanted = stayed_in_lisbon(db)
    for query in (QUESTION, '"hotel in lisbon"'):
        assert_found(wanted, search, query)
    for query in ("hotel Lisbon", "hotel AND rossio"):
        assert conversations(search(query=query)) == [wanted], query
    assert hermes("sessions", "search", QUESTION, "--json").json["results"][0]["session_id"] == wanted


@pytest.mark.proves("search.discover")
def test_what_an_older_index_holds_of_them_is_left_out_too(
    db: SessionDB, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(index, "called", lambda calls: calls)  # names and arguments, whatever the tool
        for _ in range(3):
            looked_up(db, query=QUESTION)
        wanted = stayed_in_lisbon(db)
        assert db.search("Avenida")  # by now all of it is indexed
    for query in (QUESTION, '"hotel in lisbon"', "hotel AND lisbon"):
        assert_found(wanted, search, query)
    assert conversations(search(query="hotel Lisbon")) == [wanted]
    assert conversations(search(query="hotel", sort="newest")) == [wanted]


@pytest.mark.proves("search.tools")
def test_the_names_of_all_tools_and_the_arguments_of_others_are_found(db: SessionDB, search: Search) -> None:
    looked = looked_up(db, query=QUESTION)
    booked = looked_up(db, "book_room", hotel="Bairro Alto")
    assert conversations(search(query="session_search")) == [looked]
    assert conversations(search(query="Bairro Alto")) == [booked]
    assert conversations(search(query="hotel")) == [booked]
