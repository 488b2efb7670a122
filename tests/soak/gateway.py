"""`bin/soak gateway`: kills a real gateway process again and again while people write to it."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_home import ANN, BOB, prepare
from postgres_server import Server, binaries
from telegram_server import bot_api

from hermes.conversations.database import SessionDB
from hermes.gateway.ledger import Ledger
from hermes.settings.config import STORAGE_URL, conversations_of
from hermes.settings.home import find_home, person_home
from hermes.storage.engines import forget_conversations
from hermes.storage.postgres.schema import migrate
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from telegram_server import BotApi

    from soak.common import Options

SUMMARY = "a chat gateway that is killed"
DESCRIPTION = """Kills `hermes gateway run` at random moments while two people write over a loopback Bot API that also
fails, limits and loses answers. Every message must be answered, in order, none twice. Everything random follows from
--seed (moments of kills depend on the machine, too)."""
_MOST_PER_LIFE = 3
_LONGEST_LIFE = 0.9
_PATIENCE = 120.0


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=30, metavar="N", help="how often to kill (default: 30)")
    parser.add_argument("--mode", choices=("polling", "webhook", "both"), default="both", help="how updates come in")
    parser.add_argument(
        "--postgres",
        action="store_true",
        help="keep everything in PostgreSQL",
    )


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    modes = ("polling", "webhook") if given.mode == "both" else (given.mode,)
    if not given.postgres:
        for mode in modes:
            yield run_kills(given.kills, options, mode=mode)
        return
    found = binaries()
    if found is None:
        raise SystemExit("there is no PostgreSQL 15 or newer on this machine")
    server = Server(found)
    try:
        migrate(server.address(), partitions=2)
        os.environ[STORAGE_URL] = server.address()
        for mode in modes:
            yield run_kills(given.kills, options, mode=mode)
            for person in ("users/ann", "users/bob", "local"):
                forget_conversations(server.address(), person)
    finally:
        server.close()


def run_kills(kills: int, options: Options, *, mode: str = "polling") -> Outcome:
    figures = {"kills": 0, "messages": 0, "answers": 0, "lonely drafts": 0, "in a turn": 0}
    outcome = Outcome(name=f"gateway kills by {mode} in {options.folder}", figures=figures)
    progress = Progress("kills", kills, options)
    chance = random.Random(options.seed)
    place = tempfile.mkdtemp(dir=options.folder, prefix="soak-")
    try:
        with bot_api() as api:
            trial = _Trial(Path(place) / "home", api, mode=mode, most=(kills + 1) * _MOST_PER_LIFE)
            while outcome.figures["kills"] < kills and progress.goes_on(outcome.figures["kills"], outcome):
                trial.live(chance)
                outcome.count("kills")
                outcome.count("in a turn", trial.unfinished())
            trial.finish()
            outcome.fail(*trial.problems())
            outcome.count("messages", sum(map(len, trial.asked.values())))
            outcome.count("answers", sum(len(api.texts(chat)) for chat in (ANN, BOB)))
            outcome.count("lonely drafts", sum(each.text == "…" for each in api.sent))
    finally:
        shutil.rmtree(place)
    progress.goes_on(kills, outcome)
    return outcome


class _Trial:
    def __init__(self, home: Path, api: BotApi, *, mode: str, most: int) -> None:
        self._home = home
        self._sign_of_life = "getUpdates" if mode == "polling" else "setWebhook"
        self._api = api
        self._next = 0
        self.asked: dict[int, list[int]] = {ANN: [], BOB: []}
        port = _free_port()
        where = f"    mode: webhook\n    webhook_url: http://127.0.0.1:{port}/telegram\n" if mode == "webhook" else ""
        also = f"  stream_seconds: 0.02\n  drain_seconds: 20\n  port: {port}\n"
        prepare(home, api, _script(most), gateway=also, telegram=where)
        if where:
            threading.Thread(target=api.push_all, daemon=True).start()

    def live(self, chance: random.Random) -> None:
        """One life of the process: people write before and while it runs, Telegram fails now and then."""
        self._say(chance)
        before = self._api.count(self._sign_of_life)
        process = self._start()
        try:
            if not self._api.wait(lambda: self._api.count(self._sign_of_life) > before, _PATIENCE):
                raise RuntimeError(f"the gateway did not start: {process.poll()}")
            for _ in range(chance.randrange(_MOST_PER_LIFE)):
                self._trouble(chance)
                self._say(chance)
                time.sleep(chance.uniform(0, _LONGEST_LIFE / _MOST_PER_LIFE))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def finish(self) -> None:
        """A last life without a kill, in which everything that is left must be answered."""
        process = self._start()
        wanted = {chat: len(asked) for chat, asked in self.asked.items()}
        self._api.wait(lambda: all(len(self._api.texts(chat)) >= count for chat, count in wanted.items()), _PATIENCE)
        process.send_signal(signal.SIGTERM)
        self._ended = process.wait(_PATIENCE)

    def unfinished(self) -> int:
        """Whether the kill came while something was being answered."""
        ledger = Ledger.open(find_home(self._home))
        try:
            return int(ledger.counts()["running"] > 0)
        finally:
            ledger.database.close()

    def problems(self) -> list[str]:
        found = [] if self._ended == 0 else [f"the last process ended with {self._ended}"]
        found += self._api.problems
        for chat, person in ((ANN, "ann"), (BOB, "bob")):
            texts = self._api.texts(chat)
            numbers = [int(each) for text in texts for each in re.findall(r"answer (\d+);", text)]
            found += [f"{person} got half an answer: {text!r}" for text in texts if not text.endswith(";")]
            if len(texts) != len(self.asked[chat]):
                found.append(f"{person} asked {len(self.asked[chat])} times and got {len(texts)} answers")
            if numbers != sorted(set(numbers)) or not set(numbers) <= set(self.asked[chat]):
                found.append(f"{person} got answers twice, in a wrong order or of others: {numbers}")
            found += self._history_problems(chat, person)
        return found

    def _history_problems(self, chat: int, person: str) -> list[str]:
        where = conversations_of(person_home(find_home(self._home), person))
        with SessionDB.open(where["path"], owner=where["owner"]) as database:
            sessions = [each for each in database.list_sessions(limit=100) if each.message_count]
            stored = [each.message for one in sessions for each in database.messages(one.id)]
        said = [str(each["content"]) for each in stored if each["role"] == "user"]
        expected = [f"question {number};" for number in self.asked[chat]]
        if sorted(said) != sorted(expected):
            return [f"the history of {person} has {len(said)} questions instead of {len(expected)}"]
        if len(sessions) != 1:
            return [f"the conversation of {person} fell into {len(sessions)}"]
        return [] if said == expected else [f"the history of {person} is out of order"]

    def _say(self, chance: random.Random) -> None:
        chat = chance.choice((ANN, BOB))
        self.asked[chat].append(self._next)
        self._api.say(chat, f"question {self._next};")
        self._next += 1

    def _trouble(self, chance: random.Random) -> None:
        method = chance.choice(("sendMessage", "editMessageText", "getUpdates"))
        match chance.randrange(4):
            case 0:
                self._api.fail(method, 502, "Bad Gateway")
            case 1:
                self._api.fail("editMessageText", 429, "Too Many Requests", retry_after=1)
            case 2:
                self._api.dropped.append(method)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "hermes", "--home", str(self._home), "gateway", "run"]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        with open(self._home / "log.txt", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _script(most: int) -> list[dict[str, Any]]:
    """An answer for every question; every third is given after a tool call."""
    steps: list[dict[str, Any]] = [{"when": "did not finish", "text": "answered after a break;"}]
    for number in range(most):
        answer = f"this is a longer text so that it is streamed in pieces: answer {number};"
        if number % 3 == 0:
            todo = {"todos": [{"id": "1", "content": f"noted {number};", "status": "pending"}]}
            steps.append({"when": f"noted {number};", "text": answer, "pause": 0.01})
            steps.append({"when": f"question {number};", "calls": [{"name": "todo", "arguments": todo}]})
        else:
            steps.append({"when": f"question {number};", "text": answer, "pause": 0.02})
    return steps
