"""Why a prompt was not read from the provider's cache, and what helps a provider to find it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from model_server import Answer, ModelServer, claude

from hermes import Agent, MemorySession
from hermes.llm.catalogue import cache_minimum, open_model
from hermes.llm.client import Endpoint
from hermes.memory.store import MemoryStore
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from pathlib import Path

TOLD = "[Memory changed since this conversation began."
SAYS = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Yes."}])


def answered(number: int, missed: str = "") -> Answer:
    """An answer to a prompt of 5,000 tokens, none of them from the cache."""
    about = {"id": f"msg_{number}", "model": "claude-opus-4-8", "usage": {"input_tokens": 5_000, "output_tokens": 1}}
    reason = {"type": missed, "cache_missed_input_tokens": 4_000} if missed else None
    start = json.dumps({**about, "diagnostics": {"cache_miss_reason": reason}}).encode()
    events = claude(SAYS).split(b"\n\n")
    events[0] = b'event: message_start\ndata: {"type": "message_start", "message": ' + start + b"}"
    return Answer(pieces=[b"\n\n".join(events)])


@pytest.mark.proves("llm.cache-causes")
def test_the_provider_is_asked_what_broke_the_cache_and_its_answer_is_kept(home: Path) -> None:
    with ModelServer(answered(1), answered(2, "tools_changed"), answered(3, "unavailable")) as server:
        endpoint = Endpoint(
            model="claude-opus-4-8", base_url=server.url, wire="anthropic", cache_points="native", diagnoses_cache=True
        )
        with Agent(MemorySession.open(home), open_model(endpoint)) as agent:
            for text in ("one", "two", "three"):
                list(agent.turn(text))
            stored = agent.session.database.messages(agent.session.id)
    causes = [each.message["cache"]["broken_by"] for each in stored if each.message.get("cache")]
    assert causes == [
        "the first turn of a session fills the cache",
        "the tools changed (4,000 tokens were read again)",
        "the prefix did not move; the provider did not keep it",
    ]
    sent = [each.json["diagnostics"] for each in server.received]
    assert sent == [{"previous_message_id": each} for each in (None, "msg_1", "msg_2")]
    assert all(each.body.endswith(b'"}}') or b"null" in each.body[-40:] for each in server.received)


@pytest.mark.proves("llm.cache-causes")
def test_a_prompt_below_the_minimum_of_its_model_is_said_to_be_too_short(home: Path) -> None:
    small: Any = {"prompt_tokens": 900, "completion_tokens": 1}
    with MemorySession.open(home, model="claude-opus-4-7") as session:
        session.prepare_turn("hello")
        session.finish_turn("Yes.", usage=small)
        stored = session.database.messages(session.id)
    assert "shorter than the 2,048 tokens" in stored[-1].message["cache"]["broken_by"]
    minimums = ("claude-opus-5", "anthropic/claude-opus-4.6", "claude-sonnet-5", "gpt-5.4", "qwen3")
    assert [cache_minimum(model) for model in minimums] == [512, 4_096, 1_024, 1_024, 0]


@pytest.mark.proves("llm.cache-key")
def test_each_person_has_a_cache_key_of_their_own_at_openai_and_nobody_elsewhere(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("model:\n  default: gpt-5.4\n")
    (home / ".env").write_text("OPENAI_API_KEY=sk-test\n")
    (home / ".env").chmod(0o600)
    people = People(find_home(home))
    people.add("ann")
    people.add("bob")

    def key(person: str, model: str = "gpt-5.4") -> Any:
        with Agent.open(people.home_of(person), "server", model=model, project="") as agent:
            agent.switch_model(model)
            first: Any = agent.model
        return json.loads(first.body("", [], [])).get("prompt_cache_key")

    ann = key("ann")
    assert ann == key("ann", "gpt-5.4-mini")
    assert len(ann) == 32
    assert ann != key("bob")
    (home / "config.yaml").write_text(
        "model:\n  default: gpt-5.4\n  provider: openai\n  base_url: http://127.0.0.1:9/v1\n"
    )
    assert key("ann") is None


@pytest.mark.proves("llm.announcements")
@pytest.mark.parametrize(
    ("takes", "expected"),
    [
        (True, [("user", "two"), ("system", TOLD)]),
        (False, [("user", f"two\n\n{TOLD}")]),
    ],
)
def test_a_memory_update_is_a_message_of_the_system_where_the_model_takes_one(
    home: Path, takes: bool, expected: list[tuple[str, str]]
) -> None:
    with ModelServer(*(answered(number) for number in (1, 2, 3))) as server:
        endpoint = Endpoint(
            model="claude-opus-5", base_url=server.url, wire="anthropic", cache_points="native", system_messages=takes
        )
        with Agent(MemorySession.open(home), open_model(endpoint)) as agent:
            list(agent.turn("one"))
            MemoryStore.open(home).add("user", "Lives in Porto.")
            list(agent.turn("two"))
            list(agent.turn("three"))
    first, second, third = (
        [(each["role"], "".join(block["text"] for block in each["content"])) for each in sent.json["messages"]]
        for sent in server.received
    )
    asked = [("user", "one"), ("assistant", "Yes."), *expected, ("assistant", "Yes."), ("user", "three")]
    assert [(role, text.partition(" From")[0]) for role, text in third] == asked
    assert "Lives in Porto." in third[1 + len(expected)][1]
    assert third[: len(second)] == second
    assert second[: len(first)] == first
