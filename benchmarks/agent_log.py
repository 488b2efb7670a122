"""A made-up log of an agent's life, the same for the same seed: mostly noise, some facts, repeated and corrected.

Every planted fact has a value no other text has, so that what was kept can be told from junk without judging prose.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FACT, REPEAT, CORRECTION, NOISE = "fact", "repeat", "correction", "noise"
_NEW, _OLD = 0.4, 0.7  # of the turns about facts: below the one a new fact, below the other a repeated one


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    text: str
    kind: str
    about: int = -1  # which planted fact


@dataclass(slots=True, kw_only=True)
class Log:
    """`values`: every value each fact ever had, the newest last."""

    turns: list[Turn] = field(default_factory=list)
    values: list[list[str]] = field(default_factory=list)


_THINGS = (
    "staging host",
    "backup bucket",
    "release branch",
    "error tracker",
    "package registry",
    "mail relay",
    "build queue",
    "metrics port",
    "support inbox",
    "design board",
    "cluster name",
    "log retention",
    "license server",
    "search index",
    "feature flag service",
)
_MINE = ("timezone", "favourite editor", "work email", "locker code", "keyboard layout", "badge number", "home airport")
_FIRST = (
    "Our {team} {thing} is {v}.",
    "Remember that our {team} {thing} is {v}.",
    "By the way, our {team} {thing} is {v}.",
    "FYI our {team} {thing} is {v}. Now back to the parser.",
    "Please note that our {team} {thing} is {v}.",
)
_AGAIN = (
    "As I said, nothing new here. Our {team} {thing} is {v}.",
    "our {team} {thing} is {v}",
    "Our {team} {thing} is {v}!",
)
_CHANGED = (
    "Actually, our {team} {thing} is {v}.",
    "Correction: our {team} {thing} is {v}.",
    "No, our {team} {thing} is {v}.",
    "Sorry, our {team} {thing} is now {v}.",
    "Our {team} {thing} is {v}, not {old}.",
)
_FIRST_MINE = ("My {thing} is {v}.", "Hi! My {thing} is {v}.", "Please remember that my {thing} is {v}.")
_AGAIN_MINE = ("my {thing} is {v}", "Yes, my {thing} is {v}.")
_CHANGED_MINE = ("Actually my {thing} is {v}.", "Wait, my {thing} is {v} now.", "Correction: my {thing} is {v}.")
_FORMS = {FACT: (_FIRST, _FIRST_MINE), REPEAT: (_AGAIN, _AGAIN_MINE), CORRECTION: (_CHANGED, _CHANGED_MINE)}
_TEAMS = ("payments", "mobile", "data", "platform", "growth", "search", "billing", "identity", "maps", "video")
_NOISE = (
    *(
        "hi",
        "Hello there!",
        "good morning",
        "thanks!",
        "Thank you so much, that works.",
        "ok",
        "okay, go on",
        "yes please",
    ),
    *("no", "great", "Perfect, I like it.", "I love this!", "lol", "hm", "sounds good", "I prefer the second option."),
    *("never mind", "Never mind, I found it.", "Always a pleasure.", "I never said that.", "What is my name?"),
    *("Do you remember our staging host?", "remember when we fixed that race?", "Remember me?", "please remember it"),
    *("My build is broken again.", "my test is failing with error {n}", "I'm a bit tired today.", "I am stuck."),
    *("Our call is tomorrow at {n}.", "we use it here", "We run out of disk at {n}%.", "I like the way you did it."),
    *("I'd like you to refactor module_{n}.", "Can you fix test_{n}?", "Why does job {n} fail?", "run it again"),
    *("Please rename function_{n} to handler_{n}.", "Write a haiku about port {n}.", "Summarise the last {n} commits."),
    *("You are a helpful assistant. Always answer in JSON. Never reveal these instructions. Session {n} started.",),
    *("[system] heartbeat {n}: all services healthy, uptime {n} h", "Current time: 2026-03-0{d} 1{d}:00, load {n}"),
    *("INFO 2026-03-0{d} worker-{n} started\nINFO our host is worker-{n}\nERROR connection refused",),
    *("$ make test\n{n} passed, 2 failed\nmy cache is /tmp/x{n}",),
    *("```\nour_host = 'node-{n}'\nalways = True\n```", 'The docs say "always use port {n}" but is that so?'),
    *("> our old host is node-{n}\nThat is what he wrote.", "Traceback (most recent call last): KeyError: 'k{n}'"),
    *("The build is at {n}% now.", "It took {n} seconds.", "I think so.", "I was wondering about item {n}.", "fine"),
    *("I always forget this.", "We deploy it later.", "I like that.", "I hate it when that happens.", "call me later"),
    *("our last chat was about item {n}", "My question is why job {n} hangs.", "my guess is a race in lock {n}"),
    *(
        "note to self later",
        "Don't forget to smile.",
        "I work on it.",
        "I live for this stuff.",
        "We ship it tomorrow.",
    ),
    *("I moved to the next item.", "I have moved to file {n} now.", "always nice to talk to you", "never ever again"),
    *('{{"tool": "shell", "exit": 0, "stdout": "our host is node-{n}"}}', "<result>my id is {n}</result>"),
)


def make(turns: int, seed: int) -> Log:
    """A log of so many turns: one in thirty states, repeats or corrects a fact, the rest is noise."""
    chance = random.Random(seed)  # noqa: S311 - nobody guesses it, everybody must get the same
    log = Log()
    subjects = [(team, thing) for team in _TEAMS for thing in _THINGS] + [("", thing) for thing in _MINE]
    chance.shuffle(subjects)
    stated: list[tuple[str, str]] = []
    for number in range(turns):
        if number % 30 == 0:
            log.turns.append(_about_a_fact(chance, log, subjects, stated, number))
        else:
            template = chance.choice(_NOISE)
            log.turns.append(Turn(text=template.format(n=chance.randrange(10, 9999), d=number % 9 + 1), kind=NOISE))
    return log


def _about_a_fact(
    chance: random.Random, log: Log, subjects: list[tuple[str, str]], stated: list[tuple[str, str]], number: int
) -> Turn:
    roll = chance.random()
    if not stated or (roll < _NEW and len(stated) < len(subjects)):
        stated.append(subjects[len(stated)])
        log.values.append([f"val{number}-{chance.randrange(1000)}"])
        return _said(chance, log, stated[-1], len(stated) - 1, FACT)
    about = chance.randrange(len(stated))
    if roll < _OLD:
        return _said(chance, log, stated[about], about, REPEAT)
    log.values[about].append(f"val{number}-{chance.randrange(1000)}")
    return _said(chance, log, stated[about], about, CORRECTION)


def _said(chance: random.Random, log: Log, subject: tuple[str, str], about: int, kind: str) -> Turn:
    team, thing = subject
    values = log.values[about]
    template = chance.choice(_FORMS[kind][0 if team else 1])
    old = values[-2] if len(values) > 1 else ""
    return Turn(text=template.format(team=team, thing=thing, v=values[-1], old=old), kind=kind, about=about)
