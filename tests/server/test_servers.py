"""Several servers on one PostgreSQL: a conversation moves between them; `bin/soak servers` does it for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_service import listening, prepare

from hermes.conversations.database import SessionDB
from hermes.settings.config import conversations_of
from hermes.settings.home import find_home
from hermes.settings.people import People
from soak.common import Options
from soak.servers import Load, trial

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from hermes.storage.postgres.database import pool_of

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

_ANSWERS = [{"when": word, "text": f"Answer to {word}."} for word in ("four", "three", "two", "one")]


def _say(client: httpx.Client, history: list[dict[str, str]], text: str, **headers: str) -> list[dict[str, str]]:
    asked = [*history, {"role": "user", "content": text}]
    answer = client.post("/v1/chat/completions", json={"messages": asked}, headers=headers)
    assert answer.status_code == 200, answer.text
    return [*asked, {"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]}]


def _stored(home: Path) -> list[list[str]]:
    """What was said in each conversation of Ann."""
    with SessionDB.open(**conversations_of(People(find_home(home)).home_of("ann"))) as db:
        return [[each.text for each in db.messages(session.id)] for session in db.list_sessions()]


@pytest.mark.proves("storage.servers")
@pytest.mark.parametrize("named", [False, True])
def test_a_conversation_moves_between_servers_and_back(tmp_path: Path, on_postgres: str, named: bool) -> None:
    home = tmp_path / "one"
    keys = prepare(home, _ANSWERS)
    other = tmp_path / "two"
    other.mkdir()
    for name in ("config.yaml", "script.json"):
        (other / name).write_text((home / name).read_text())
    headers = {"X-Hermes-Session": "our talk"} if named else {}
    said: list[dict[str, str]] = []
    pool_of(on_postgres).resize(1, 1)  # a turn that needs a second connection while it has one would never get it
    with listening(home, keys) as first, listening(other, keys) as second:
        for server, text in ((first, "one"), (second, "two"), (first, "three"), (second, "four")):
            with server.client() as client:
                said = _say(client, [] if named else said, text, **headers)
    assert _stored(home) == [
        ["one", "Answer to one.", "two", "Answer to two.", "three", "Answer to three.", "four", "Answer to four."]
    ]


@pytest.mark.proves("storage.servers")
def test_an_answer_that_was_lost_on_the_way_begins_no_second_conversation(tmp_path: Path, on_postgres: str) -> None:
    home = tmp_path / "one"
    keys = prepare(home, _ANSWERS)
    with listening(home, keys) as first, first.client() as client:
        said = _say(client, [], "one")
        _say(client, said, "two")  # the server is killed, and nobody reads this answer
    with listening(home, keys) as second, second.client() as client:
        _say(client, said, "two, please")
    assert _stored(home) == [["one", "Answer to one.", "two", "Answer to two.", "two, please", "Answer to two."]]


@pytest.mark.proves("storage.servers")
def test_servers_and_the_database_are_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    from postgres_server import binaries

    found = binaries()
    if found is None:
        pytest.skip("there is no PostgreSQL to restart")
    load = Load(people=3, seconds=3, think=0.2, kill_every=1, restart_every=1)
    outcome = trial(found, load, 2, Options(folder=str(tmp_path), quiet=True), alone=False)
    assert outcome.failures == []
    assert outcome.figures["servers killed"]
    assert outcome.figures["restarts of PostgreSQL"]
