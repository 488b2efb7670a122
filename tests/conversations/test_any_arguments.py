"""Nothing a model can send makes the tool fail, and nothing it can send shows another owner's words."""

from __future__ import annotations

import json
import random
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.conversations.database import SessionDB
from hermes.safety.trust import TurnContext
from hermes.tools.memory import SessionSearchTool
from hermes.tools.registry import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

FIELDS = list(SCHEMAS["session_search"]["parameters"]["properties"])
ODD_TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", " ", "*", '"', "(", "AND", "NOT a", "a OR", "\x00", "\ud800", "日", "s1", "default/s1", "a" * 5000]
    ),
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    ODD_TEXTS,
    st.integers(),
    st.sampled_from([None, True, 1.5, [], {}, 32, 33, -1, 2**63, 2**70, "newest", "last week", "user,tool"]),
)
ARGUMENTS = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5),
    st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
    VALUES,
)


@pytest.mark.proves("search.any-arguments")
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=ARGUMENTS, inside=st.sampled_from(["", "s1", "nowhere"]))
def test_any_arguments_give_a_result_with_a_verdict(
    db: SessionDB, hermes: Command, arguments: Any, inside: str
) -> None:
    if db.find_session("s1") is None:
        made = db.create_session(session_id="s1", title="first")
        db.append_many(made, [{"role": "user", "content": "hello 日本 world"}, {"role": "assistant", "content": None}])
    result = hermes("tool", "session_search", json.dumps(arguments), "--session", inside).json
    assert result["success"] in (True, False)
    assert "error" in result or result["mode"] in ("browse", "discover", "scroll", "read")


@pytest.mark.proves("search.owners")
def test_no_call_shows_a_word_of_another_owner(tmp_path: Path) -> None:
    """Every route with shared words, shared titles, and the other owner's own ids."""
    chance = random.Random(20260527)
    path = tmp_path / "state.db"
    words = ["alpha", "beta", "gamma", "delta", "日本", "auth_refactor_v2"]
    owners = ["local", "anna", "ben"]
    databases = {owner: SessionDB.open(path, owner=owner, durability="turn") for owner in owners}
    sessions: dict[str, list[str]] = {owner: [] for owner in owners}
    messages: dict[str, list[int]] = {owner: [] for owner in owners}
    for number in range(48):
        owner = chance.choice(owners)
        db = databases[owner]
        parent = chance.choice([None, *sessions[owner]])
        made = db.create_session(title=chance.choice([None, *words]), parent_session_id=parent)
        text = [f"{chance.choice(words)} {chance.choice(words)} mark-of-{owner} {number}" for _ in range(3)]
        messages[owner] += db.append_many(made, [{"role": chance.choice(["user", "tool"]), "content": t} for t in text])
        sessions[owner].append(made)
    for _ in range(250):
        asker, other = chance.sample(owners, 2)
        tool = SessionSearchTool(
            lambda _, asker=asker: nullcontext(databases[asker]),  # type: ignore[misc]
        )
        turn = TurnContext(session=chance.choice(["", *sessions[asker], *sessions[other]]))
        everyone = [*sessions[asker], *sessions[other], *words]
        arguments: dict[str, Any] = chance.choice(
            [
                {},
                {"query": chance.choice(words), "limit": 10, "sort": chance.choice(["relevance", "newest", "oldest"])},
                {"query": f"{chance.choice(words)} mark-of-{other}", "role_filter": chance.choice(["user", "tool"])},
                {"query": f'"{chance.choice(words)}" OR mark-of-{other}', "source": "cli"},
                {"session_id": chance.choice(everyone)},
                {"session_id": chance.choice(everyone), "around_message_id": chance.choice(messages[other])},
            ]
        )
        answer = json.dumps(tool.call(arguments, turn), ensure_ascii=False)
        shown = answer.replace(json.dumps(arguments.get("query", "")), "")
        assert not any(f"mark-of-{owner} " in shown for owner in owners if owner != asker)
        assert not any(session in shown for session in sessions[other] if session != arguments.get("session_id"))
    for db in databases.values():
        db.close()
