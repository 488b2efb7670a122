"""`<private>…</private>`: the model reads it, and nothing that stays behind holds it."""

# ruff: noqa: ARG002 - hooks are called with more than a test looks at

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest
from agents import configure
from compacted import configure as configure_compaction
from compacted import talk, texts
from gateway_home import ANN, ask
from gateway_home import prepare as prepare_gateway
from gateway_home import running as running_gateway
from http_service import running as running_server
from hypothesis import given
from hypothesis import strategies as st
from provider_plugins import Notebook
from reviewed import chat as chat_and_review
from reviewed import settings as review_settings
from telegram_server import bot_api

from hermes import Agent, MemorySession, SessionDB
from hermes.base.events import Notice
from hermes.gateway.ledger import Ledger
from hermes.gateway.platforms.base import Incoming
from hermes.llm.scripted import Scripted
from hermes.safety.fence import PLACEHOLDER, storable, without_private
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from conftest import Ran

SECRET = "swordfish-4711"
SAID = f"Open the safe, the code is <private>{SECRET}</private>, then lock it."
KEPT = f"Open the safe, the code is {PLACEHOLDER}, then lock it."


def files_with(folder: Path, words: str = SECRET) -> list[str]:
    """Every file below the folder that holds the words, databases and their logs included."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in paths if words.encode() in path.read_bytes() and path.name != "script.json"]


class Listener(Notebook):
    """Keeps all that any hook was given."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        self.heard.append(query)
        return super().prefetch(query, session_id=session_id)

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        self.heard.append(query)
        super().queue_prefetch(query, session_id=session_id)

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self.heard.append(message)

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        self.heard.append(json.dumps(messages))

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        self.heard.append(json.dumps(messages))
        return ""


@pytest.mark.proves("private.sent", "private.stored")
def test_the_model_reads_it_in_every_request_and_no_file_holds_it(home: Path, hermes: Callable[..., Ran]) -> None:
    with MemorySession.open(home) as session:
        first = session.prepare_turn(SAID, recalled="The safe is in the cellar.")
        assert first.messages[0]["content"].startswith(f"{SAID}\n\n<memory-context")
        session.finish_turn("It is open.")
        session.record({"role": "user", "content": f"also <PRIVATE>{SECRET}</PRIVATE>"})
        second = session.prepare_turn("thanks")
        assert second.messages[0] == first.messages[0]
        assert SECRET in second.messages[2]["content"]
        session.finish_turn("You are welcome.")
        assert session.database.messages(session.id)[0].message["content"] == KEPT
    assert files_with(home) == []
    assert hermes("sessions", "search", SECRET, "--json").json["results"] == []
    assert KEPT in hermes("sessions", "show", session.id).out
    assert SECRET not in hermes("sessions", "show", session.id, "--context", "1", "--text").out


@pytest.mark.proves("private.resumed")
@pytest.mark.moves_prefix
def test_a_resumed_conversation_has_a_placeholder_and_the_rest_as_it_was(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn(SAID, recalled="The safe is in the cellar.", overlay="Be brief.")
        session.finish_turn("It is open.")
        sent = session.request().messages
    with MemorySession.open(home, resume=session.id) as resumed:
        again = resumed.prepare_turn("and now?").messages
    assert again[0]["content"] == sent[0]["content"].replace(SAID, KEPT)
    assert again[1] == sent[1]


@pytest.mark.proves("private.unclosed")
def test_a_tag_that_is_not_closed_makes_the_rest_private_and_the_person_is_told(home: Path) -> None:
    with Agent.open(home, model=Scripted(["Noted."])) as agent:
        events = list(agent.turn(f"One thing: <private>{SECRET} and all that follows"))
        stored = agent.session.database.messages(agent.session.id)[0].message["content"]
        (told,) = [event.text for event in events if isinstance(event, Notice)]
    assert stored == f"One thing: {PLACEHOLDER}"
    assert "`<private>` was not closed" in told
    assert files_with(home) == []


@pytest.mark.proves("private.providers")
def test_providers_hear_nothing_of_it_in_any_hook(home: Path) -> None:
    configure_compaction(home)
    listener = Listener()
    with MemorySession.open(home, providers=[listener]) as session:
        session.prepare_turn(SAID)
        session.finish_turn("It is open.")
        session.prepare_turn(f"<private>{SECRET}</private>")
        session.finish_turn("I will not repeat it.")
        talk(session, 20)
        assert session.compact() is not None
    everything = "\n".join([*listener.heard, *listener.calls, json.dumps([listener.turns, listener.messages])])
    assert SECRET not in everything
    assert KEPT in everything
    assert [asked for asked, _, _ in listener.turns][:2] == [
        KEPT,
        "Please repair src/module_0.py for ticket ABC-0000. " + "more words " * 60,
    ]
    assert files_with(home) == []


@pytest.mark.proves("private.compacted")
@pytest.mark.parametrize("in_place", [True, False])
def test_a_summary_never_holds_it_and_what_stays_in_the_context_is_sent_as_before(home: Path, in_place: bool) -> None:
    configure_compaction(home, in_place=in_place)
    asked: list[str] = []

    def summary(messages: Sequence[Mapping[str, Any]]) -> str:
        asked.append(texts([dict(message) for message in messages]))
        return "- work on modules"

    model = Scripted([summary] * 40)
    with Agent.open(home, model=model) as agent:
        session = agent.session
        session.use_model(model)
        session.prepare_turn("the first line is protected")
        session.finish_turn("yes")
        talk(session, 1, words=2)
        session.prepare_turn(SAID)
        session.finish_turn("It is open.")
        talk(session, 20)
        session.prepare_turn(f"the newest: <private>{SECRET}-new</private>")
        assert session.compact() is not None
        messages = session.request().messages
    assert asked
    assert SECRET not in "".join(asked)
    assert [message for message in messages if SECRET in str(message["content"])] == [
        {"role": "user", "content": f"the newest: <private>{SECRET}-new</private>"}
    ]
    assert files_with(home) == []


@pytest.mark.proves("private.background")
def test_titles_and_reviews_do_not_read_it(home: Path) -> None:
    review_settings(home)
    agent, model = chat_and_review(home, ["Open.", "Nothing to save."], said=SAID)
    with agent:
        assert len(model.requests) == 2
        assert SECRET in json.dumps(model.requests[0].messages)
        assert SECRET not in json.dumps(model.requests[1].messages)
        assert KEPT in json.dumps(model.requests[1].messages)
        title = agent.session.about().title
    assert title is None or SECRET not in title
    assert files_with(home) == []


@pytest.mark.proves("private.background")
def test_a_helper_that_thinks_of_a_title_is_not_told(home: Path) -> None:
    configure(home, "auxiliary: {title_generation: {model: 'scripted:title.json'}}\n")
    (home / "title.json").write_text(json.dumps([{"when": SECRET, "text": "Leaked"}, {"when": "", "text": "The safe"}]))
    with Agent.open(home, model=Scripted(["Open."])) as agent:
        list(agent.turn(SAID))
    with SessionDB.open(home / "state.db") as db:
        assert db.get_session(agent.session.id).title == "The safe"


@pytest.mark.proves("private.sent")
def test_what_is_taken_back_can_be_asked_again(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn(SAID)
        session.finish_turn("Open.")
        session.prepare_turn(f"and <private>{SECRET}-2</private>")
        session.finish_turn("Locked.")
        assert session.undo() == f"and <private>{SECRET}-2</private>"
        assert session.prepare_turn("go on").messages[0]["content"] == SAID


@pytest.mark.proves("private.gateway")
def test_the_gateway_hands_it_to_the_model_and_keeps_it_in_no_ledger(home: Path) -> None:
    with bot_api() as api:
        prepare_gateway(home, api, [{"when": SECRET, "text": "I read it."}, {"when": "", "text": "I read nothing."}])
        with running_gateway(home) as gateway:
            assert ask(api, gateway, ANN, SAID) == "I read it."
    assert files_with(home) == []


@pytest.mark.proves("private.gateway")
def test_a_message_that_waits_is_stored_without_it_and_a_later_process_has_the_placeholder(home: Path) -> None:
    message = Incoming(platform="telegram", update="1", chat="11", user="11", text=SAID)
    ledger = Ledger.open(find_home(home))
    (entry,) = ledger.store([("lane", "ann", message)], 1.0)
    assert (entry.message.text, ledger.words(entry)) == (KEPT, SAID)
    ledger.close()
    assert files_with(home) == []
    later = Ledger.open(find_home(home))
    assert [later.words(each) for each in later.open_entries()] == [KEPT]
    later.close()


@pytest.mark.proves("private.http")
def test_a_client_that_sends_its_history_again_has_one_conversation_and_none_of_it_is_stored(home: Path) -> None:
    with running_server(home, [{"when": SECRET, "text": "I read it."}, {"when": "", "text": "Nothing."}]) as up:
        client = openai.OpenAI(base_url=f"{up.url}/v1", api_key=up.keys["ann"], max_retries=0)
        history: list[Any] = [{"role": "user", "content": SAID}]
        for follows in (f"and <private>{SECRET}</private>?", "and then?"):
            answer = client.chat.completions.create(model="hermes", messages=history).choices[0].message.content
            assert answer == "I read it."
            history += [{"role": "assistant", "content": answer}, {"role": "user", "content": follows}]
        with up.client("ann") as http:
            assert len(http.get("/api/v1/sessions").json()["sessions"]) == 1
    assert files_with(home) == []


@pytest.mark.proves("private.imported")
def test_imported_transcripts_leave_it_out_and_can_be_imported_again(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran]
) -> None:
    said = {"type": "user", "uuid": "u1", "sessionId": "7f3c", "cwd": "/src", "timestamp": "2026-01-02T03:04:05Z"}
    claude = tmp_path / "7f3c.jsonl"
    claude.write_text(json.dumps({**said, "message": {"role": "user", "content": SAID}}) + "\n")
    plain = tmp_path / "plain.jsonl"
    plain.write_text(json.dumps({"messages": [{"role": "user", "content": SAID}]}) + "\n")
    parts = [{"type": "text", "text": SAID}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    with_parts = tmp_path / "parts.jsonl"
    with_parts.write_text(json.dumps({"messages": [{"role": "user", "content": parts}]}) + "\n")
    for expected in (1, 0):
        assert (
            hermes("sessions", "import", str(claude), "--format", "claude-code", "--json").json["messages"] == expected
        )
        assert hermes("sessions", "import", str(plain), "--json").json["messages"] == expected
        assert hermes("sessions", "import", str(with_parts), "--json").json["messages"] == expected
    assert files_with(home) == []
    assert len(hermes("sessions", "search", "open the safe", "--json").json["results"]) == 3


@pytest.mark.proves("private.stored")
@given(st.lists(st.sampled_from(["<private>", "</private>", "< Private >", "<b>", "a", " ", "\n", "<private x='1'>"])))
def test_leaving_private_parts_out_twice_changes_nothing_more(pieces: list[str]) -> None:
    text = "".join(pieces)
    kept = without_private(text)
    assert without_private(kept) == kept
    assert kept == text or PLACEHOLDER in kept


@pytest.mark.proves("private.stored")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a <private>b <private>c</private> d</private> e", "a [private] e"),
        ("a </private> b", "a </private> b"),
        ("<private-key> and <privates>", "<private-key> and <privates>"),
        ("< Private >x</ PRIVATE > y", "[private] y"),
        ('<private why="mine">x</private>', "[private]"),
        ("if a < b: private", "if a < b: private"),
    ],
)
def test_what_counts_as_a_private_part(text: str, kept: str) -> None:
    assert without_private(text) == kept


@pytest.mark.proves("private.stored")
def test_a_part_that_is_not_closed_hides_the_parts_behind_it() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,x"}}
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "look <private>here"}, image, {"type": "text", "text": "</private>!"}],
    }
    said = [part.get("text") for part in storable(message)["content"]]
    assert said == ["look [private]", "[private]", "[private]!"]
    assistant = {"role": "assistant", "content": "<private>x</private>"}
    assert storable(assistant) is assistant
