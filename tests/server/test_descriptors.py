"""`hermes serve` lives on few descriptors; `bin/soak descriptors` does this for longer."""

from __future__ import annotations

import json
import logging
import os
import resource
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from http_service import prepare, running

from hermes.cli.commands.serve import Repeated
from hermes.http_server import raise_descriptor_limit
from hermes.server.conversations import Conversations
from hermes.server.openai_wire import parse
from hermes.settings.home import find_home
from hermes.settings.people import People
from soak.common import Options
from soak.descriptors import conversations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from http_service import Running

STEPS = [{"when": "", "text": "Understood."}]
SAID = {"messages": [{"role": "user", "content": "Hello there."}]}


@pytest.fixture
def limits() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.proves("http.descriptors")
def test_a_new_conversation_with_every_turn_needs_no_more_descriptors(tmp_path: Path) -> None:
    outcome = conversations(260, 96, Options(folder=str(tmp_path), quiet=True))
    assert outcome.failures == []
    assert outcome.figures["turns"] == 260
    assert outcome.figures["descriptors most"] < 48


@pytest.mark.proves("http.descriptors")
def test_conversations_of_one_person_share_one_handle(tmp_path: Path) -> None:
    with running(tmp_path / "home", STEPS) as up:
        before = _open_files()
        for number in range(12):
            _chat(up, f"number {number}")
        assert len(up.service.conversations) == 12
        assert _open_files() - before < 12


@pytest.mark.proves("http.descriptors")
def test_idle_conversations_are_closed_before_descriptors_run_out(tmp_path: Path, limits: None) -> None:
    home = tmp_path / "home"
    prepare(home, STEPS)
    known = Conversations(People(find_home(home)).home_of)
    for name in ("one", "two", "three"):
        known.converse("ann", name, parse(json.dumps(SAID).encode()), say=lambda _text: None, cancelled=lambda: False)
    assert len(known) == 3
    with ExitStack() as others:
        for _ in range(40):
            others.enter_context(open(os.devnull, "rb"))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (_open_files() + 12, hard))
        answer = known.converse(
            "ann", "four", parse(json.dumps(SAID).encode()), say=lambda _text: None, cancelled=lambda: False
        )
    assert answer.text == "Understood."
    assert len(known) == 1
    known.close()


@pytest.mark.proves("http.descriptors")
def test_a_server_goes_on_in_a_database_that_was_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(home, STEPS) as up:
        _chat(up, "before")
        for name in ("state.db", "state.db-wal", "state.db-shm"):
            (home / "users/ann" / name).rename(tmp_path / name)
        _chat(up, "after")
        with up.client() as http:
            listed = http.get("/api/v1/sessions").json()["sessions"]
        assert [each["title"] for each in listed] == ["after"]


@pytest.mark.proves("http.descriptors")
def test_the_soft_limit_is_raised_at_start(limits: None) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (_open_files() + 50, hard))
    raise_descriptor_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 1 << 16)


@pytest.mark.proves("http.descriptors")
def test_a_complaint_that_repeats_is_logged_once_a_minute() -> None:
    now = [100.0]
    repeated = Repeated(lambda: now[0])
    through = []
    for _ in range(200):
        record = logging.LogRecord("hermes.server", logging.ERROR, "", 0, "a turn failed", None, None)
        if repeated.filter(record):
            through.append(record.getMessage())
        now[0] += 0.5
    assert through == ["a turn failed", "a turn failed (and 119 more of the same kind)"]
    other = logging.LogRecord("hermes.server", logging.ERROR, "", 0, "something else", None, None)
    assert repeated.filter(other)


def _chat(up: Running, name: str) -> None:
    with up.client(headers={"x-hermes-session": name}) as http:
        answer = http.post("/v1/chat/completions", json=SAID)
    assert answer.status_code == 200, answer.text


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))
