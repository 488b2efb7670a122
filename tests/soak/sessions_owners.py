"""One owner tries every public method on what is another's; "absent" and "not yours" must look the same."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from soak.common import Options

_OWNERS = ("local", "alice", "bob")
_SESSIONS = 6
_ABSENT_MESSAGE = 999_999_999
# These take no name of a session, a message or a key, and return nothing that was stored.
# An image is asked for by the hash of its bytes, which only its own messages tell.
NOT_ABOUT_DATA = frozenset(
    [
        "open",
        "close",
        "path",
        "journal_mode",
        "index",
        "embed",
        "importing",
        "sync",
        "bulk",
        "owner",
        "remove_unused_images",
        "images",
        "share",
    ]
)


@dataclass
class _Person:
    db: SessionDB
    secret: str
    sessions: list[str] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)


BY_SESSION: dict[str, Callable[[SessionDB, str], Any]] = {
    "get_session": lambda db, sid: db.get_session(sid),
    "find_session": lambda db, sid: db.find_session(sid),
    "resolve": lambda db, sid: db.resolve(sid),
    "resembling": lambda db, sid: db.resembling(sid),
    "session_details": lambda db, sid: db.session_details(sid),
    "lineage": lambda db, sid: db.lineage(sid),
    "root": lambda db, sid: db.root(sid),
    "tip": lambda db, sid: db.tip(sid),
    "messages": lambda db, sid: db.messages(sid),
    "bookends": lambda db, sid: db.bookends(sid),
    "append": lambda db, sid: db.append(sid, {"role": "user", "content": "intruder"}),
    "append_many": lambda db, sid: db.append_many(sid, [{"role": "user", "content": "intruder"}] * 2),
    "rename": lambda db, sid: db.rename(sid, "Taken over"),
    "update_session": lambda db, sid: db.update_session(sid, model="intruder"),
    "end_session": lambda db, sid: db.end_session(sid, "intruder"),
    "delete": lambda db, sid: db.delete(sid),
    "create_session": lambda db, sid: db.create_session(parent_session_id=sid),
}
BY_MESSAGE: dict[str, Callable[[SessionDB, str, int], Any]] = {
    "messages": lambda db, mine, mid: db.messages(mine, around=mid),
    "session_of": lambda db, _, mid: db.session_of(mid),
    "set_compacted": lambda db, mine, mid: db.set_compacted(mine, [mid]),
    "set_rewound": lambda db, mine, mid: db.set_rewound(mine, [mid]),
    "keep_from_recall": lambda db, _, mid: db.keep_from_recall([mid]),
    "rewind": lambda db, mine, mid: db.rewind(mine, max(mid, _ABSENT_MESSAGE)),
}
BY_QUESTION = ("search", "list_sessions", "counts", "get_meta", "set_meta", "never_recalled")


def run(trials: int, options: Options) -> Outcome:
    outcome = Outcome(name="other owners", figures={"trials": 0})
    uncovered = public_names() - set(BY_SESSION) - set(BY_MESSAGE) - set(BY_QUESTION) - NOT_ABOUT_DATA
    if uncovered:
        outcome.fail(f"no trial covers SessionDB.{', SessionDB.'.join(sorted(uncovered))}")
    progress = Progress("other owners", trials, options)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
        people = {name: _move_in(os.path.join(place, "state.db"), name) for name in _OWNERS}
        for number in range(trials):
            if not progress.goes_on(number, outcome):
                break
            chance = random.Random(f"{options.seed}/{number}")
            victim, attacker = chance.sample(_OWNERS, 2)
            problem = _attack(chance, people[victim], people[attacker])
            outcome.count("trials")
            if problem:
                outcome.fail(f"trial {number} (--seed {options.seed}): {attacker} against {victim}: {problem}")
        for name, person in people.items():
            outcome.fail(*(f"{name}: {each}" for each in _unharmed(person)))
            person.db.close()
    progress.goes_on(trials, outcome)
    return outcome


def public_names() -> set[str]:
    return {name for name in vars(SessionDB) if not name.startswith("_")}


def _move_in(path: str, owner: str) -> _Person:
    person = _Person(db=SessionDB.open(path, owner=owner, durability="turn"), secret=f"secretof{owner}")
    for number in range(_SESSIONS):
        parent = person.sessions[-1] if number % 2 else None
        name = person.db.create_session(
            title=f"Plans of {owner} {number}",
            parent_session_id=parent,
            system_prompt=person.secret,
            session_id="shared-name" if number == 0 else None,  # the same id may be used by everybody
        )
        person.sessions.append(name)
        texts = [f"{person.secret} number {at} in the common valley" for at in range(40)]
        person.messages += person.db.append_many(name, [{"role": "user", "content": text} for text in texts])
    person.db.set_meta("note", person.secret)
    return person


def _attack(chance: random.Random, victim: _Person, attacker: _Person) -> str:
    theirs = chance.choice(victim.sessions[1:])
    kind = chance.choice(("session", "session", "message", "question"))
    if kind == "session":
        name = chance.choice(list(BY_SESSION))
        found = _answer(lambda: BY_SESSION[name](attacker.db, theirs), theirs)
        absent = _answer(lambda: BY_SESSION[name](attacker.db, "no-such-session"), "no-such-session")
    elif kind == "message":
        name, mine = chance.choice(list(BY_MESSAGE)), chance.choice(attacker.sessions)
        message = chance.choice(victim.messages)
        found = _answer(lambda: BY_MESSAGE[name](attacker.db, mine, message), f"message {message} ")
        absent = _answer(lambda: BY_MESSAGE[name](attacker.db, mine, _ABSENT_MESSAGE), f"message {_ABSENT_MESSAGE} ")
    else:
        name = "search, list_sessions, counts and get_meta"
        found = _everything_seen(chance, victim, attacker)
        absent = found
    if victim.secret in found:
        return f"{name} showed {found:.200}"
    return "" if found == absent else f"{name} tells {found!r:.150} from {absent!r:.150}"


def _answer(call: Callable[[], Any], given: str) -> str:
    """What came back, with the name that was asked for taken out, so that two answers can be compared."""
    try:
        return repr(call()).replace(given, "<it>")
    except HermesError as error:
        return f"{type(error).__name__}: {error}".replace(given, "<it>")


def _everything_seen(chance: random.Random, victim: _Person, attacker: _Person) -> str:
    query = chance.choice(
        (victim.secret, "common valley", f'"{victim.secret}"', f"{victim.secret[:9]}*", "plans", "number")
    )
    filters: dict[str, Any] = chance.choice(({}, {"sessions": victim.sessions}, {"sort": "newest"}, {"sort": "oldest"}))
    seen = [repr(attacker.db.search(query, limit=50, **filters))]
    seen += [repr(attacker.db.list_sessions(limit=100, archived=flag)) for flag in (False, True)]
    if {session.id for session in attacker.db.resembling("plans", 100)} & set(victim.sessions[1:]):
        seen.append(f"titles include others': {victim.secret}")
    seen += [repr(attacker.db.get_meta(key)) for key in ("note", "1:note", "2:note")]
    if attacker.db.counts()["sessions"] != _SESSIONS:
        seen.append(f"counts include others: {victim.secret}")
    attacker.db.set_meta("note", attacker.secret)
    return " ".join(seen)


def _unharmed(person: _Person) -> list[str]:
    problems = []
    for name in person.sessions:
        session = person.db.get_session(name)
        texts = [message.text for message in person.db.messages(name)]
        if len(texts) != 40 or not all(person.secret in text for text in texts):
            problems.append(f"{name} was changed by somebody else")
        if session.model or session.end_reason or any(message.compacted for message in person.db.messages(name)):
            problems.append(f"{name} was marked by somebody else")
    if person.db.never_recalled() & set(person.messages):
        problems.append("its messages were kept from recall by somebody else")
    if person.db.get_meta("note") != person.secret:
        problems.append("its metadata was overwritten")
    return problems
