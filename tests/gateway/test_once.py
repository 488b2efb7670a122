"""Processes that die: no message is lost, none is answered twice, and a turn goes on where it was."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from gateway_home import ANN, BOB, Clock, ask, prepare, running

from hermes.base.errors import StorageError
from hermes.conversations.database import SessionDB
from hermes.gateway.conversations import chat_key
from hermes.gateway.ledger import Ledger
from hermes.gateway.platforms.base import Incoming
from hermes.gateway.service import Turn
from hermes.memory.store import MemoryStore
from hermes.session.session import MemorySession
from hermes.settings.config import conversations_of, documents_of
from hermes.settings.home import find_home, person_home
from hermes.settings.people import People
from soak.common import Options
from soak.gateway import run_kills

if TYPE_CHECKING:
    from pathlib import Path

    from telegram_server import BotApi


KILLS = {"sqlite": 3, "postgresql": 1}  # in a database each life waits until the lease of the last one ends


@pytest.mark.proves("gateway.once")
@pytest.mark.parametrize("mode", ["polling", "webhook"])
def test_a_killed_gateway_loses_no_message_and_answers_none_twice(both_engines: str, tmp_path: Path, mode: str) -> None:
    outcome = run_kills(KILLS[both_engines], Options(folder=str(tmp_path), seed=3, quiet=True), mode=mode)
    assert outcome.failures == []
    assert outcome.figures["answers"] == outcome.figures["messages"] >= 2


@pytest.mark.proves("gateway.once")
@pytest.mark.usefixtures("both_engines")
def test_an_answer_that_a_dead_process_had_stored_is_delivered_without_asking_the_model_again(
    home: Path, api: BotApi
) -> None:
    prepare(home, api, ["Thought about it once."])
    with running(home) as gateway:
        number = api.say(ANN, "think")
        api.wait_for_texts(ANN, 1)
        assert gateway.settle(60)
        entry = gateway.ledger.entry(gateway.ledger.database.row("SELECT id FROM inbox")[0])
        # As if the process had died between the end of the turn and the storing of its answer.
        with gateway.ledger.writing() as database:
            kept = (
                f'{{"platform": "telegram", "update": "{number}", "chat": "{ANN}", "user": "{ANN}", "text": "think"}}'
            )
            database.run("UPDATE inbox SET state = 'running', message = ?", (kept,))
    assert entry is not None
    assert entry.state == "done"
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 2) == ["Thought about it once."] * 2
        assert gateway.settle(60)
        assert gateway.ledger.database.rows("SELECT outcome FROM inbox") == [("answered before",)]


def left_behind(home: Path, *messages: dict[str, Any]) -> None:
    """What a process that died in the middle of a turn leaves: a message that is running, and a part of its turn."""
    place = person_home(find_home(home), "ann")
    with MemorySession.open(place, "telegram", project="") as session:
        for message in messages:
            session.record(message)
    ledger = Ledger.open(find_home(home))
    asked = Incoming(platform="telegram", update="1", chat=str(ANN), user=str(ANN), text="buy the tickets")
    [entry] = ledger.store([(chat_key(asked, "ann"), "ann", asked)], 1.0)
    ledger.begin(entry, session.id, 0)
    ledger.close()


CALL = {"id": "c1", "type": "function", "function": {"name": "todo", "arguments": "{}"}}
ASKED = {"role": "user", "content": "buy the tickets"}


@pytest.mark.proves("gateway.once")
@pytest.mark.parametrize(
    "had",
    [
        (),
        (ASKED,),
        (ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]}),
        (
            ASKED,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "bought"},
        ),
    ],
)
@pytest.mark.usefixtures("both_engines")
def test_a_turn_that_was_cut_off_goes_on_where_it_was(home: Path, api: BotApi, had: tuple[dict[str, Any], ...]) -> None:
    prepare(home, api, ["The tickets are bought.", "You are welcome."])
    left_behind(home, *had)
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 1) == ["The tickets are bought."]
        assert gateway.settle(60)
        api.say(ANN, "thank you")
        assert api.wait_for_texts(ANN, 2)[1] == "You are welcome."
        assert gateway.settle(60)
    with SessionDB.open(**conversations_of(person_home(find_home(home), "ann"))) as database:
        [session] = database.list_sessions()
        stored = [each.message for each in database.messages(session.id)]
    said = [each["content"] for each in stored if each["role"] == "user"]
    assert said == ["buy the tickets", "thank you"]
    assert [each["content"] for each in stored if each["role"] == "assistant" and each["content"]] == [
        "The tickets are bought.",
        "You are welcome.",
    ]


@pytest.mark.proves("gateway.take_over")
def test_a_second_gateway_waits_and_goes_on_with_what_the_first_one_left(
    on_postgres: str, tmp_path: Path, api: BotApi
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    prepare(first, api)
    shutil.copytree(first, second)
    later: Future[str] = Future()
    with running(first) as gateway:
        assert ask(api, gateway, ANN, "hello") == "Understood."
        waiting = threading.Thread(target=_take_over, args=(second, api, later), daemon=True)
        waiting.start()
        with pytest.raises(TimeoutError):
            later.result(1)
    assert later.result(30) == "Understood."
    waiting.join()
    assert not (first / "gateway").exists()
    assert not (second / "gateway").exists()
    with SessionDB.open(**conversations_of(person_home(find_home(second), "ann"))) as database:
        [session] = database.list_sessions()
    assert session.message_count == 4


def _take_over(home: Path, api: BotApi, later: Future[str]) -> None:
    with running(home) as gateway:
        later.set_result(ask(api, gateway, ANN, "are you still there?"))


@pytest.mark.proves("gateway.take_over")
def test_a_gateway_that_was_not_heard_of_for_long_writes_nothing_until_it_knows(on_postgres: str, home: Path) -> None:
    documents = documents_of(find_home(home)).below("gateway")
    clock = Clock(0.0)
    turn = Turn(documents, clock)
    turn.await_it()
    ledger = Ledger.open(find_home(home), check=turn.check)
    ledger.attempted(1)
    clock.now = 60.0
    with pytest.raises(StorageError, match="may have taken over"):
        ledger.attempted(1)
    assert turn.keep()  # nobody has
    ledger.attempted(1)
    with psycopg.connect(on_postgres, autocommit=True) as connection:  # as if it had slept for a minute
        connection.execute("UPDATE hermes.documents SET updated_at = updated_at - interval '1 minute'")
    other = Turn(documents)
    other.await_it()
    assert not turn.keep()
    other.give_back()


@pytest.mark.proves("gateway.take_over")
def test_the_ledger_of_a_time_with_files_is_taken_into_the_database(
    home: Path, api: BotApi, request: pytest.FixtureRequest
) -> None:
    prepare(home, api, ["The tickets are bought."])
    ledger = Ledger.open(find_home(home))
    asked = Incoming(platform="telegram", update="1", chat=str(ANN), user=str(ANN), text="buy the tickets")
    ledger.store([(chat_key(asked, "ann"), "ann", asked)], time.time(), platform="telegram", cursor="7")
    ledger.close()
    request.getfixturevalue("on_postgres")
    for name in ("ann", "bob"):
        People(find_home(home)).add(name)
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 1) == ["The tickets are bought."]
        assert gateway.settle(60)
        assert gateway.ledger.counts()["done"] == 1
        assert not gateway.ledger.store([(chat_key(asked, "ann"), "ann", asked)], time.time())
    assert (home / "gateway" / "gateway.db.moved").exists()
    assert not (home / "gateway" / "gateway.db").exists()


@pytest.mark.proves("gateway.once")
def test_few_open_conversations_serve_many_chats(home: Path, api: BotApi) -> None:
    prepare(home, api, gateway="  open_conversations: 1\n  workers: 4\n")
    with running(home) as gateway:
        for each in range(12):
            api.say((ANN, BOB)[each % 2], f"message {each}")
        assert api.wait_for_texts(ANN, 6) == ["Understood."] * 6
        assert api.wait_for_texts(BOB, 6) == ["Understood."] * 6
        assert gateway.settle(60)
        assert len(gateway.conversations) <= 2
    for person in ("ann", "bob"):
        with SessionDB.open(str(home / "users" / person / "state.db")) as database:
            assert [each.message_count for each in database.list_sessions()] == [12]


@pytest.mark.proves("gateway.drain")
def test_a_gateway_that_cannot_wait_ends_at_once_and_the_next_one_answers(home: Path, api: BotApi) -> None:
    prepare(home, api, [{"when": "", "text": "a slow answer " * 40, "pause": 1}], gateway="  drain_seconds: 0\n")
    api.say(ANN, "begin")
    command = [sys.executable, "-m", "hermes", "--home", str(home), "gateway", "run"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    assert api.wait(lambda: api.count("sendChatAction") > 0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert api.texts(ANN) == []
    (home / "script.json").write_text('["An answer at last."]')
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 1) == ["An answer at last."]
        assert gateway.settle(60)


@pytest.mark.proves("gateway.once")
@pytest.mark.usefixtures("both_engines")
def test_a_note_is_removed_once_although_the_process_died_before_it_said_so(home: Path, api: BotApi) -> None:
    prepare(home, api)
    store = MemoryStore.open(person_home(find_home(home), "ann"))
    for note in ("Ann sings.", "Ann rows.", "Ann reads."):
        store.apply("user", [{"action": "add", "content": note}])
    with running(home) as gateway:
        number = api.say(ANN, "/memory forget 1")
        assert api.wait_for_texts(ANN, 1) == ["Forgotten: Ann sings."]
        assert gateway.settle(60)
        asked = Incoming(platform="telegram", update=str(number), chat=str(ANN), user=str(ANN), text="/memory forget 1")
        with gateway.ledger.writing() as database:
            database.run("UPDATE inbox SET state = 'new', message = ?", (json.dumps(asdict(asked)),))
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 2)[1] == "Forgotten: Ann sings."
        assert gateway.settle(60)
    assert MemoryStore.open(person_home(find_home(home), "ann")).entries("user") == ("Ann rows.", "Ann reads.")
