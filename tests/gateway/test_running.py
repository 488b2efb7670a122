"""The gateway over time: overnight piles, chats that start over, its own memory, its status and its end."""

from __future__ import annotations

import logging
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from gateway_home import ANN, BOB, Clock, prepare, running
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent import Agent
from hermes.base.errors import ContextTooLong, ModelBusy
from hermes.conversations.context import Contexts
from hermes.conversations.database import SessionDB
from hermes.gateway.conversations import ResetPolicy
from hermes.gateway.ledger import Chat, Ledger
from hermes.gateway.platforms.base import split, units
from hermes.gateway.service import Monitor, Workers
from hermes.llm.scripted import Reply, Scripted
from hermes.session.session import MemorySession
from hermes.settings.home import find_home, person_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from telegram_server import BotApi

    from conftest import Ran


@pytest.mark.proves("gateway.model_failure")
def test_whatever_breaks_in_a_turn_is_told_and_logged_and_holds_nobody_up(
    home: Path, api: BotApi, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(home, api)

    def broken(*_places: Any, **_more: Any) -> Agent:
        raise RuntimeError("a plug-in of somebody else")

    with running(home, open_agent=broken) as gateway:
        api.say(ANN, "hello")
        [told] = api.wait_for_texts(ANN, 1)
        api.say(ANN, "/help")
        api.wait_for_texts(ANN, 2)
        assert gateway.settle(60)
    assert "the operator has to look at it (message 1 in the log)" in told
    assert "plug-in" not in told
    assert "a plug-in of somebody else" in caplog.text


def overnight(home: Path, *, messages: int, size: int) -> str:
    """A conversation of ann in which very much was said; its id."""
    place = person_home(find_home(home), "ann")
    with MemorySession.open(place, "telegram", project="") as session:
        for each in range(messages):
            role = "assistant" if each % 2 else "user"
            session.record({"role": role, "content": f"message {each} " + "about the harbour " * size})
        return session.id


def stand(home: Path, session: str) -> None:
    """The chat of ann stands in this conversation."""
    ledger = Ledger.open(find_home(home))
    key = f"agent:main:telegram:dm:{ANN}:@ann"
    ledger.move(session, Chat(key=key, person="ann", session=session, active=0))
    ledger.close()


@pytest.mark.proves("gateway.hygiene")
@pytest.mark.parametrize(("messages", "size", "settings"), [(300, 60, ""), (300, 1, "hygiene_hard_message_limit: 200")])
def test_an_overnight_pile_larger_than_the_window_is_compacted_before_the_model_is_called(
    home: Path, api: BotApi, messages: int, size: int, settings: str
) -> None:
    prepare(
        home,
        api,
        settings=f"compression:\n  {settings or 'threshold: 0.5'}\nauxiliary:\n  compression:\n    enabled: false\n",
    )
    stand(home, overnight(home, messages=messages, size=size))
    model = Scripted([Reply(text="Good morning.")] * 2, context_length=32_768)

    def open_agent(*places: Any, **more: Any) -> Agent:
        return Agent.open(*places, **{**more, "model": model})

    api.say(ANN, "and now?")
    with running(home, open_agent=open_agent) as gateway:
        [answer] = api.wait_for_texts(ANN, 1)
        assert gateway.settle(60)
    assert answer.startswith("Good morning.")
    assert "compacted" in answer.lower()
    [request] = model.requests
    assert len(request.messages) <= 200
    assert sum(len(str(each.get("content"))) for each in request.messages) < 32_768 * 3


@pytest.mark.proves("gateway.hygiene")
def test_a_pile_that_cannot_be_compacted_stays_as_it_is_and_the_person_is_told(home: Path, api: BotApi) -> None:
    prepare(home, api)
    session = overnight(home, messages=300, size=60)
    stand(home, session)
    place = str(home / "users" / "ann" / "state.db")

    def too_long(_messages: Any) -> ContextTooLong:
        return ContextTooLong("too much for this model")

    model = Scripted([too_long] * 4, context_length=32_768)

    def open_agent(*places: Any, **more: Any) -> Agent:
        return Agent.open(*places, **{**more, "model": model})

    with SessionDB.open(place) as database:
        before = [each.message["content"] for each in database.messages(session)]
        assert Contexts(database).lease(session, "another process")
        api.say(ANN, "and now?")
        with running(home, open_agent=open_agent) as gateway:
            [answer] = api.wait_for_texts(ANN, 1)
            assert gateway.settle(60)
        after = [each.message["content"] for each in database.messages(session)]
        live = Contexts(database).live(session)
    assert "could not be shortened" in answer
    assert "nothing was compacted" in answer
    assert after[: len(before)] == before
    assert len(live) >= len(before)


@pytest.mark.proves("gateway.model_failure")
def test_a_model_that_cannot_be_reached_is_told_and_the_next_message_is_answered(home: Path, api: BotApi) -> None:
    prepare(home, api)
    model = Scripted([ModelBusy("secret details of the operator")] + ["Back again."] * 2)

    def open_agent(*places: Any, **more: Any) -> Agent:
        return Agent.open(*places, **{**more, "model": model})

    with running(home, open_agent=open_agent) as gateway:
        api.say(ANN, "hello")
        [told] = api.wait_for_texts(ANN, 1)
        assert gateway.settle(60)
        api.say(ANN, "hello?")
        assert api.wait_for_texts(ANN, 2)[1] == "Back again."
    assert "cannot be reached" in told
    assert "operator" not in told


def moment(day: int, hour: int, minute: int = 0) -> float:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC).timestamp()


@pytest.mark.proves("gateway.reset")
@pytest.mark.parametrize(
    ("mode", "active", "now", "why"),
    [
        ("none", moment(1, 12), moment(20, 12), ""),
        ("idle", moment(1, 12), moment(1, 12, 59), ""),
        ("idle", moment(1, 12), moment(1, 13), "idle"),
        ("daily", moment(1, 12), moment(2, 3, 59), ""),
        ("daily", moment(1, 12), moment(2, 4), "daily"),
        ("daily", moment(2, 3, 59), moment(2, 4, 1), "daily"),
        ("daily", moment(2, 4), moment(2, 23), ""),
        ("both", moment(2, 3, 50), moment(2, 4, 1), "daily"),
        ("both", moment(2, 5), moment(2, 7), "idle"),
        ("both", moment(2, 5), moment(2, 5, 30), ""),
    ],
)
def test_when_a_chat_starts_over(mode: str, active: float, now: float, why: str) -> None:
    policy = ResetPolicy(mode=mode, at_hour=4, idle_minutes=60, zone=UTC)
    assert policy.due(active, now) == why


@pytest.mark.proves("gateway.reset")
@pytest.mark.parametrize("notify", [True, False])
def test_after_the_idle_time_a_chat_starts_over_and_says_so(home: Path, api: BotApi, notify: bool) -> None:
    settings = f"session_reset:\n  mode: idle\n  idle_minutes: 60\n  notify: {str(notify).lower()}\n"
    prepare(home, api, settings=settings)
    clock = Clock(moment(1, 12))
    with running(home, clock=clock) as gateway:
        for at, text in ((0, "first"), (3500, "second"), (3599, "third"), (3600, "fourth")):
            clock.now += at
            before = len(api.texts(ANN))
            api.say(ANN, text)
            api.wait_for_texts(ANN, before + 1)
            assert gateway.settle(60)
        clock.now += 3600
        gateway.conversations.close_finished(gateway.directory.knows)
        assert len(gateway.conversations) == 0
    answers = api.texts(ANN)
    assert answers[:3] == ["Understood."] * 3
    assert ("new conversation (1 hour without a message)" in answers[3]) == notify
    assert answers[3].endswith("Understood.")
    with SessionDB.open(str(home / "users" / "ann" / "state.db")) as database:
        newest, oldest = database.list_sessions()
    assert (oldest.message_count, oldest.end_reason) == (6, "idle")
    assert (newest.message_count, newest.end_reason) == (2, None)


@pytest.mark.proves("gateway.monitor")
def test_the_memory_of_the_process_is_logged_again_and_again(
    home: Path, api: BotApi, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(home, api, gateway="  monitor_interval: 0.05\n  monitor_warn_mb: 1\n")
    with caplog.at_level(logging.INFO, "hermes.gateway"), running(home) as gateway:
        done = threading.Event()
        while len([each for each in caplog.messages if "[MEMORY]" in each]) < 3:
            done.wait(0.02)
        reading = gateway.status()["memory"]
    lines = [each for each in caplog.records if "[MEMORY] rss=" in each.getMessage()]
    assert all(" gc=(" in each.getMessage() and " threads=" in each.getMessage() for each in lines)
    assert {each.levelno for each in lines} == {logging.WARNING}
    assert reading["rss_mb"] > 10
    assert reading["threads"] > 2


@pytest.mark.proves("gateway.monitor")
def test_a_monitor_that_is_switched_off_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        monitor = Monitor(seconds=0)
        monitor.start()
        monitor.stop()
    assert caplog.messages == []
    monitor = Monitor(seconds=1, resident=lambda: 5 << 20)
    monitor.look()
    assert monitor.last["rss_mb"] == 5.0


@pytest.mark.proves("gateway.status")
def test_the_status_says_what_runs_and_what_waits(home: Path, api: BotApi, hermes: Callable[..., Ran]) -> None:
    empty = hermes("gateway", "status", "--json")
    assert (empty.code, empty.json["running"]) == (1, False)
    prepare(home, api)
    with running(home) as gateway:
        api.say(ANN, "hello")
        api.wait_for_texts(ANN, 1)
        assert gateway.settle(60)
        gateway._write_status()
        status = hermes("gateway", "status", "--json")
        shown = hermes("gateway", "status").out
        second = hermes("gateway", "run")
    assert (status.code, status.json["running"]) == (0, True)
    assert status.json["platforms"] == {"telegram": {"identity": "@hermes_bot", "problem": ""}}
    assert status.json["messages"]["done"] == 1
    assert status.json["memory"]["rss_mb"] > 1
    assert "connected" in shown
    assert (second.code, "already" in second.err) == (2, True)
    after = hermes("gateway", "status")
    assert (after.code, "not running since 20" in after.out) == (1, True)
    assert "connected" not in after.out


@pytest.mark.proves("gateway.status")
def test_a_gateway_without_a_platform_or_a_token_says_what_to_do(home: Path, hermes: Callable[..., Ran]) -> None:
    assert "gateway.telegram.enabled" in hermes("gateway", "run").err
    hermes("config", "set", "gateway.telegram.enabled", "true")
    assert "TELEGRAM_BOT_TOKEN" in hermes("gateway", "run").err
    hermes("config", "set", "gateway.telegram.enabled", "false")
    hermes("config", "set", "gateway.webhook.enabled", "true")
    refused = hermes("gateway", "run")
    assert (refused.code, "GATEWAY_WEBHOOK_SECRET" in refused.err) == (2, True)
    with (home / ".env").open("a", encoding="utf-8") as file:
        file.write("GATEWAY_WEBHOOK_SECRET=sixteen-or-more-letters\n")
    assert "hermes config set gateway.webhook.reply_url" in hermes("gateway", "run").err


@pytest.mark.proves("gateway.drain")
def test_a_gateway_that_is_stopped_finishes_what_it_has_begun(home: Path, api: BotApi) -> None:
    prepare(home, api, [{"when": "", "text": "a long and careful answer " * 8, "pause": 0.02}])
    with running(home) as gateway:
        api.say(ANN, "begin")
        assert api.wait(lambda: api.count("sendChatAction") > 0)
        api.say(BOB, "hello")
    assert "careful answer" in api.texts(ANN)[0]
    with running(home) as gateway:
        api.wait_for_texts(BOB, 1)
        assert gateway.settle(60)
    assert [len(api.texts(chat)) for chat in (ANN, BOB)] == [1, 1]


@pytest.mark.proves("gateway.telegram_split")
@given(
    text=st.text(st.sampled_from("ab é漢😀\n "), max_size=400),
    limit=st.integers(min_value=2, max_value=60),
)
def test_pieces_are_short_enough_and_leave_out_nothing_but_blanks(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert all(units(piece) <= limit and piece.strip() for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


@pytest.mark.proves("gateway.commands")
def test_workers_keep_the_order_of_each_and_try_again_what_asks_for_it() -> None:
    handled: list[int] = []
    lock = threading.Lock()

    def work(number: int) -> float | None:
        with lock:
            handled.append(number)
            return 0.01 if number % 7 == 0 and handled.count(number) < 3 else None

    workers = Workers(work, most=4)
    for number in range(100):
        workers.add(f"key {number % 5}", number)
    assert workers.settle(60)
    assert workers.close(60)
    for key in range(5):
        seen = [number for number in dict.fromkeys(handled) if number % 5 == key]
        assert seen == sorted(seen)
    assert [handled.count(number) for number in (7, 8, 14)] == [3, 1, 3]


@pytest.mark.internal("an idle worker may be about to take another chat's message")
def test_a_chat_does_not_wait_behind_one_that_came_just_before() -> None:
    together = threading.Barrier(2)

    def work(number: int) -> None:
        if number:
            together.wait(60)

    workers = Workers(work, most=2)
    for _ in range(50):
        workers.add("first", 0)  # leaves a thread idle
        assert workers.settle(60)
        workers.add("ann", 1)
        workers.add("bob", 2)
        assert workers.settle(60)
    assert workers.close(60)


@pytest.mark.internal("a wake-up that reaches somebody who waits for the end must not be lost to the workers")
def test_what_comes_while_somebody_waits_until_all_is_done_is_begun() -> None:
    hold, before = threading.Event(), sys.getswitchinterval()

    def work(event: threading.Event) -> None:
        event.wait(60) if event is hold else event.set()

    workers = Workers(work, most=2)
    workers.add("long", hold)
    waiting = [threading.Thread(target=workers.settle, args=(60,)) for _ in range(4)]
    sys.setswitchinterval(1e-6)  # threads change places everywhere
    try:
        for each in waiting:
            each.start()
        for number in range(2_000):
            done = threading.Event()
            workers.add(f"short {number}", done)
            assert done.wait(60)
    finally:
        sys.setswitchinterval(before)
        hold.set()
    for each in waiting:
        each.join()
    assert workers.close(60)
