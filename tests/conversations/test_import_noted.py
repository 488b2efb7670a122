"""What a session notes beside its messages comes back by import; what somebody made up in its place does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk

from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

MADE_UP = [
    {"additions": "x"},
    {"additions": []},
    {"additions": [5]},
    {"additions": [{"source": "recalled"}]},
    {"additions": [{"source": "recalled", "characters": -3}], "api_content": "hello"},
    {"additions": [{"source": "summary", "characters": 3}], "compaction": True},
    {"api_content": 5, "additions": [{"source": "recalled", "characters": 3}]},
    {"announced": 5},
    {"announced": {"memory": "m"}},
    {"usage": 5, "cache": 5},
    {"usage": {"input_tokens": "5"}, "cache": {"share": "all"}},
    {"compaction": True, "context_order": [[0, "x"]]},
    {"compaction": True, "context_order": [[0, 10**12]]},
    {"compaction": True, "prompt_sections": [{"name": "x"}], "replaced_prompt": 5},
]


@pytest.mark.proves("search.cli-import", "record.texts")
@pytest.mark.parametrize("fields", MADE_UP, ids=str)
def test_notes_that_somebody_made_up_neither_end_nor_hold_up_a_command(
    fields: dict[str, Any], hermes: Command, tmp_path: Path
) -> None:
    rows = [
        {"type": "session", "id": "s", "source": "cli", "title": "Made up", "details": fields},
        {"type": "message", "session": "s", "message": {"role": "user", "content": "hello", **fields}},
        {"type": "message", "session": "s", "message": {"role": "assistant", "content": "yes", **fields}},
        {"type": "message", "session": "s", "message": {"role": "user", "content": "and then?"}},
    ]
    file = tmp_path / "made-up.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert hermes("sessions", "import", str(file)).code == 0
    assert "and then?" in hermes("sessions", "show", "Made up", "--context", "--text").out
    with MemorySession.open(resume="s") as session:
        assert "and then?" in str(session.request().messages)


@pytest.mark.proves("search.cli-round-trip", "record.texts")
def test_what_a_session_noted_itself_comes_back(home: Path, hermes: Command, tmp_path: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 12)
        session.prepare_turn("and now?", recalled="Likes tea.")
        session.finish_turn("Tea.", usage={"input_tokens": 900, "cache_read_tokens": 450})
        session.compact()
    before = hermes("sessions", "show", session.id, "--context", "--text")
    assert "Likes tea." in before.out
    file = tmp_path / "all.jsonl"
    assert hermes("sessions", "export", "--all", "--out", str(file)).code == 0
    other = ("--home", str(tmp_path / "other"))
    assert hermes(*other, "sessions", "import", str(file)).code == 0
    after = hermes(*other, "sessions", "show", session.id, "--context", "--text", "--json").json
    assert after["turns"] == hermes("sessions", "show", session.id, "--context", "--text", "--json").json["turns"]
