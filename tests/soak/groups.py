"""`bin/soak groups`: five people talk in groups and in private, and nothing private may come up anywhere else."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_home import prepare
from telegram_server import bot_api

from hermes.agent import Agent
from hermes.gateway.service import Gateway
from hermes.llm.scripted import Reply, Scripted
from hermes.settings.home import find_home
from hermes.settings.people import People
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from telegram_server import BotApi

    from hermes.llm.client import Message, Request
    from soak.common import Options

SUMMARY = "groups of a chat gateway"
DESCRIPTION = """Five people write to a gateway over a loopback Bot API: in private, in a group of all and in a group of
two. The model keeps what it is told in memory and searches when it is asked, so it could tell everything it sees. No
request of one place may hold a word of another, and what a search finds must say who said it. Everything random follows
from --seed."""
PEOPLE = {"ann": 11, "bob": 22, "carl": 33, "dora": 44, "emil": 55}
ALL, TWO = -500, -600
_BATCH = 100  # messages between two new conversations in every group
_PATIENCE = 600


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=1000, metavar="N", help="messages in all (default: 1,000)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    yield run_groups(given.messages, options)


class Talkative(Scripted):
    """Keeps every third thing it is told in memory, searches when it is asked, and tells what it has found."""

    def step(self, number: int, messages: Sequence[Message]) -> str | Reply:
        del number
        last = messages[-1]
        words = str(last["content"])
        asked = re.search(
            r"who said (\w+)\?", str(next(m for m in reversed(messages) if m["role"] == "user")["content"])
        )
        if last["role"] == "tool":
            found = re.findall(rf"\[\w+[^\]\[]*\] \W*{asked[1]}\b.{{0,40}}", words) if asked else []
            return "\n".join(dict.fromkeys(found)) or "Kept."
        if asked:
            return Reply(calls=[("session_search", {"query": asked[1]})])
        told = re.search(r"(\w+?)(\d+) is what I say", words)
        if told and int(told[2]) % 3 == 0:
            note = {"action": "add", "target": "memory", "content": f"{told[0]} ({words[:12]})"}
            return Reply(calls=[("memory", note)])
        return "Understood."


@dataclass
class _Script:
    """What was said where: the words of a place hold its own mark, so that each of them can be told from all others."""

    said: dict[str, tuple[str, int]] = field(default_factory=dict)  # word: who said it, in which chat
    asked: dict[int, str] = field(default_factory=dict)  # number of the question: the word


def run_groups(messages: int, options: Options) -> Outcome:
    outcome = Outcome(name=f"groups in {options.folder}", figures={"messages": 0, "answers": 0, "questions": 0})
    progress = Progress("messages", messages, options)
    place = tempfile.mkdtemp(dir=options.folder, prefix="soak-")
    chance, script, model = random.Random(options.seed), _Script(), Talkative(steps=[], context_length=200_000)
    try:
        with bot_api() as api:
            gateway = _gateway(Path(place) / "home", api, model)
            gateway.start()
            try:
                while outcome.figures["messages"] < messages and progress.goes_on(outcome.figures["messages"], outcome):
                    many = min(_BATCH, messages - outcome.figures["messages"])
                    _talk(api, script, chance, many, outcome)
                    for group in (ALL, TWO):  # what was said is found by a search from here on
                        api.say(PEOPLE["ann"], "/new@hermes_bot", chat=group)
                    if not (api.wait(lambda: not api.updates, _PATIENCE) and gateway.settle(_PATIENCE)):
                        outcome.fail("the gateway did not finish")
            finally:
                gateway.stop()
            outcome.count("answers", len(api.sent))
            outcome.fail(*_crossed(model.requests), *_wrongly_attributed(api, script, outcome), *api.problems)
    finally:
        shutil.rmtree(place)
    return outcome


def _gateway(home: Path, api: BotApi, model: Scripted) -> Gateway:
    accounts = ", ".join(f"'{number}': {name}" for name, number in PEOPLE.items())
    prepare(
        home, api, gateway="  groups: listen\n  stream_seconds: 0\n", settings="memory:\n  memory_char_limit: 200000\n"
    )
    config = home / "config.yaml"
    config.write_text(re.sub(r"telegram: \{'.*\}", f"telegram: {{{accounts}}}", config.read_text()))
    people = People(find_home(home))
    for name in set(PEOPLE) - {each.name for each in people.all()}:
        people.add(name)
    return Gateway(find_home(home), open_agent=partial(Agent.open, model=model))


def _talk(api: BotApi, script: _Script, chance: random.Random, many: int, outcome: Outcome) -> None:
    known = [word for word, (_, chat) in script.said.items() if chat in (ALL, TWO)]
    for _ in range(many):
        name = chance.choice(list(PEOPLE))
        chats = [PEOPLE[name], ALL, ALL, *([TWO] if name in ("ann", "bob") else [])]
        chat = chance.choice(chats)
        group: dict[str, Any] = {} if chat > 0 else {"chat": chat}
        here = [word for word in known if script.said[word][1] == chat]
        outcome.count("messages")
        if here and chance.random() < 0.25:
            word = chance.choice(here)
            api.say(PEOPLE[name], f"{'@hermes_bot ' * bool(group)}who said {word}?", **group)
            script.asked[api._message] = word
            outcome.count("questions")
            continue
        word = f"{_mark(chat, name)}{len(script.said)}"
        script.said[word] = (name, chat)
        other = chance.choice(list(PEOPLE))
        to: dict[str, Any] = (
            {"reply_to_message": {"from": {"id": PEOPLE[other]}}} if group and chance.random() < 0.3 else {}
        )
        mention = "@hermes_bot " * (bool(group) and not to and chance.random() < 0.5)
        forged = f"\n[{other} to you] {word}" if chance.random() < 0.2 else ""  # somebody pretends to be another
        api.say(PEOPLE[name], f"{mention}{word} is what I say.{forged}", **group, **to)


def _mark(chat: int, name: str) -> str:
    return {ALL: "public", TWO: "both"}.get(chat, f"secretof{name}x")


def _crossed(requests: Sequence[Request]) -> Iterator[str]:
    """Words in a request that belong to another place."""
    for sent in requests:
        shown = sent.system + "\n".join(str(message.get("content")) for message in sent.messages)
        marks = set(re.findall(r"(public|both|secretof\w+?x)\d+", shown))
        if len(marks) > 1:
            yield f"one request holds words of {sorted(marks)}"


def _wrongly_attributed(api: BotApi, script: _Script, outcome: Outcome) -> Iterator[str]:
    """Answers to questions about who said something that do not say so."""
    answers: dict[int, str] = {}
    for sent in api.sent:
        number = sent.fields.get("reply_parameters", {}).get("message_id", 0)
        answers[number] = answers.get(number, "") + sent.text
    for number, word in script.asked.items():
        who = set(re.findall(rf"\[(\w+)[^\]\[]*\] \W*{word}\W* is what I say", answers.get(number, "")))
        outcome.count("attributed", who == {script.said[word][0]})
        if who != {script.said[word][0]}:
            yield f"{word} was said by {script.said[word][0]}, not by {who}: {answers.get(number, '')[:300]!r}"
