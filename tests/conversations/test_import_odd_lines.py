"""JSONL as people have it: in pieces, out of order, cut off, too long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hermes.conversations.database import SessionDB
from hermes.portability import conversations_import as importing
from hermes.portability import transcripts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.fixture
def bring(home: Path, tmp_path: Path, hermes: Command) -> Callable[..., Ran]:
    def brought(*lines: Any, raw: bytes = b"") -> Ran:
        file = tmp_path / "lines.jsonl"
        file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + raw)
        return hermes("sessions", "import", str(file), "--json")

    return brought


def said(number: int, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": f"message {number}", **more}


def message(session: str, number: int) -> dict[str, Any]:
    return {"type": "message", "session": session, "message": said(number)}


@pytest.mark.proves("search.cli-import-once")
def test_a_long_row_of_messages_is_one_conversation_and_grows(bring: Callable[..., Ran]) -> None:
    assert bring(*map(said, range(20))).json["messages"] == 20
    again = bring(*map(said, range(25))).json
    assert (again["sessions"], again["messages"], again["already_there"]) == (0, 5, 20)


@pytest.mark.proves("search.cli-import")
def test_conversations_that_take_turns_in_a_file_come_in_whole(home: Path, bring: Callable[..., Ran]) -> None:
    lines = [{"type": "session", "id": name} for name in ("one", "two")]
    lines += [message(name, number) for number in range(5) for name in ("one", "two")]
    assert bring(*lines).json["messages"] == 10
    assert bring(*lines).json["already_there"] == 10
    with SessionDB.open(home / "state.db") as db:
        assert [each.text for each in db.messages("two")] == [f"message {number}" for number in range(5)]


@pytest.mark.proves("search.cli-import")
def test_a_parent_that_is_not_there_and_a_session_that_differs_are_no_end(
    home: Path, bring: Callable[..., Ran]
) -> None:
    child = {"id": "child", "parent_session_id": "lost", "kind": "compression", "messages": [said(1), said(2)]}
    assert bring(child).json["bad_lines"] == 0
    with SessionDB.open(home / "state.db") as db:
        assert db.session_details("child")["missing_parent"] == "lost"
    changed = {**child, "messages": [said(1), said(7), said(8)]}
    refused = bring(changed, {"id": "other", "messages": [said(3)]})
    assert refused.code != 0
    assert "'child' is already there and differs from message 2 on" in refused.json["problems"][0]["problem"]
    assert refused.json["messages"] == 1
    strays = bring(message("nowhere", 1), [1, 2], {"type": "what"}, {"messages": 5, "id": "x"}, raw=b"{\n")
    assert strays.json["bad_lines"] == 5


@pytest.mark.proves("search.cli-import")
def test_a_line_that_is_too_long_is_left_out_and_the_rest_comes_in(
    bring: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "LONGEST_LINE", 1 << 20)
    monkeypatch.setattr(importing, "_CHUNK", 100)
    told = bring({"id": "long", "messages": [said(1, note="x" * 3_000_000)]}, *map(said, range(12))).json
    assert (told["bad_lines"], told["messages"]) == (1, 12)
    assert "longer than 1 MiB" in told["problems"][0]["problem"]


@pytest.mark.proves("search.cli-import")
def test_only_so_many_problems_are_told(bring: Callable[..., Ran]) -> None:
    told = bring(said(1), raw=b"{\n" * 150)
    assert (told.json["bad_lines"], len(told.json["problems"]), told.json["messages"]) == (150, 100, 1)
    assert "and 50 more lines could not be read" in told.err


@pytest.mark.proves("search.cli-import")
@pytest.mark.parametrize("name", ["started_at", "created_at", "create_time", "created", "date"])
@pytest.mark.parametrize("when", ["2024-05-03T12:10:00Z", 1_714_738_200, 1_714_738_200_000])
def test_a_conversation_is_as_old_as_it_says_whatever_it_calls_that(
    hermes: Command, tmp_path: Path, name: str, when: object
) -> None:
    said = [{"role": "user", "content": "how warm is the kettle?"}, {"role": "assistant", "content": "not very"}]
    later = {"role": "user", "content": "and now?", "created_at": 1_714_741_800}
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps({"id": "kettle", name: when, "messages": [*said, later]}), encoding="utf-8")
    assert hermes("sessions", "import", str(file)).code == 0
    shown = hermes("sessions", "show", "kettle", "--json").json
    assert shown["started_at"] == 1_714_738_200
    assert [each["timestamp"] for each in shown["messages"]] == [1_714_738_200, 1_714_738_200, 1_714_741_800]
    assert "already" in hermes("sessions", "import", str(file)).out
    assert [row["session_id"] for row in hermes("sessions", "list", "--json").json] == ["kettle"]
