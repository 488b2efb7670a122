"""Reconstructs what the model saw at each turn of a stored conversation, and the receipt of each answer.

Every session stores the sections of its prompt, every message what was added to it on the way to the model, and every
compaction what it replaced by what. Sizes and sources are recorded; the texts are cut out of the stored messages. A
receipt is the sealed record of an answer (`conversations/receipts`) with all of that as a numbered list.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, WriteRefused
from hermes.base.tokens import estimate, estimate_message
from hermes.base.values import value
from hermes.compaction.messages import calls_of
from hermes.conversations.context import COPY, ORDER, RECEIPT, REPLACED_PROMPT, WRITTEN, Transcript, first_id
from hermes.conversations.database import Pages
from hermes.conversations.receipts import INTACT, ReceiptKeys, checked_receipts
from hermes.memory.entries import NEVER, PIN, RECALL, Cause, is_trusted, key_of, replay
from hermes.memory.store import ALL_TARGETS, entries_in
from hermes.safety.secrets import mask_secrets
from hermes.session.context import BETWEEN, origin_of, section_texts, wire_message
from hermes.session.external import store_beside
from hermes.settings.config import documents_of, load_settings
from hermes.settings.home import recorded_project

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.conversations.receipts import Checked
    from hermes.memory.entries import Change
    from hermes.memory.store import MemoryStore
    from hermes.settings.home import Home
    from hermes.storage.records import StoredMessage


# The texts behind the recorded sizes: what was added on the way to the model, cut out of the stored messages.
#
# A text that is not stored is None. It is not rebuilt from its sources, because they may have changed since.


def prompts(stored: Sequence[StoredMessage], newest: str | None) -> list[str | None]:
    """The prompts of a session, in order: the one it began with, then one for each compaction that rebuilt it."""
    rebuilt = (each.message for each in stored if WRITTEN in each.message and "prompt_sections" in each.message)
    return [*(message.get(REPLACED_PROMPT) for message in rebuilt), newest]


def addition_texts(stored: StoredMessage) -> list[str | None]:
    """The texts added to a message, in the order of their record; recall includes its fence, as the model saw it."""
    additions, sent = stored.message.get("additions", ()), stored.message.get("api_content")
    # Without `api_content` the message was sent as stored: notes and rules are the end of a tool's result.
    rest = stored.text if sent is None else sent[len(stored.text) + len(BETWEEN) :]
    texts: list[str | None] = []
    for each in reversed(additions):
        text = rest if each["source"] == "recalled" else rest[-each["characters"] :]
        rest = rest[: -len(text) - len(BETWEEN)]
        texts.insert(0, text)
    return texts


def summary_texts(context: Sequence[StoredMessage]) -> dict[int, str]:
    """The text of each block in the context, by the id of the message that carries its record."""
    texts: dict[int, list[str]] = {}
    for each in sorted((each for each in context if WRITTEN in each.message), key=lambda each: each.place):
        if "additions" in each.message or not texts:
            texts[each.id] = []
        texts[next(reversed(texts))].append(each.text)
    return {number: BETWEEN.join(written) for number, written in texts.items()}


def turns(db: SessionDB, session_id: str) -> Iterator[dict[str, Any]]:
    """Each turn of the conversation up to this session, with everything that was in the context when it began.

    What `parts_of` a turn returns carries its `text` as the model saw it, or None when that is not stored.
    """
    return (each.turn for each in _walk(db, session_id))


@value
class _Walked:
    """A turn with its messages; `history` is the context before them."""

    turn: dict[str, Any]
    asked: StoredMessage
    rest: list[StoredMessage]
    history: list[StoredMessage]


def _walk(db: SessionDB, session_id: str) -> Iterator[_Walked]:
    number, walked = 0, None
    for later, session in enumerate(Transcript(db).chain(db.get_session(session_id))):
        stored = [each for each in db.messages(session.id) if not each.damaged]
        seen = _Seen(db.session_details(session.id), stored)
        for at, each in enumerate(stored):
            if each.role == "user" and WRITTEN not in each.message and not (later and COPY in each.message):
                if walked is not None:
                    yield walked
                number += 1
                rest = _rest_of_turn(stored, at)
                turn = {"turn": number, "session_id": session.id, **_turn(seen, each, rest)}
                walked = _Walked(turn=turn, asked=each, rest=rest, history=list(seen.context))
            elif walked is not None and WRITTEN in each.message:
                added = [{"message_id": each.id, **one} for one in each.message.get("additions", ())]
                walked.turn["compacted"] += added
            seen.take(each)
    if walked is not None:
        yield walked


def parts_of(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """Lists everything in a turn that nobody said: sections of the prompt, summaries and additions."""
    results = (one for each in turn["results"] for one in each["added"])
    return [*turn["prompt"]["sections"], *turn["summaries"], *turn["added"], *results]


class _Seen:
    """Replays a session message by message to know what the model saw."""

    def __init__(self, details: dict[str, Any], stored: Sequence[StoredMessage]) -> None:
        self.tools = len(details.get("tools") or ())
        self.context: list[StoredMessage] = []
        self.tokens = 0
        self._by_place: dict[int, StoredMessage] = {}
        self._held: dict[str, int] = details.get("announced", {})
        self._sections: list[dict[str, Any]] = details.get("prompt_sections") or _whole(details)
        self._prompts = prompts(stored, details.get("system_prompt"))
        self._rebuilt = False
        self._summaries: list[dict[str, Any]] = []

    def take(self, each: StoredMessage) -> None:
        """Advances by one message; a compaction changes the context and perhaps the prompt."""
        self._by_place[each.place] = each
        if WRITTEN in each.message:  # a compaction, which may have rebuilt the prompt
            self._held = each.message.get("announced", self._held)
            if "prompt_sections" in each.message:
                self._sections, self._rebuilt = each.message["prompt_sections"], True
                del self._prompts[0]
        if ORDER in each.message:
            places = [place for first, last in each.message[ORDER] for place in range(first, last + 1)]
            self.context = [self._by_place[place] for place in places if place in self._by_place]
            self.tokens = sum(map(_tokens, self.context))
        else:
            self.context.append(each)
            self.tokens += _tokens(each)
        if WRITTEN in each.message:
            self._summaries = _summaries(self.context)

    def summaries(self) -> list[dict[str, Any]]:
        """The summaries with which compactions replaced messages."""
        return [dict(each) for each in self._summaries]

    def prompt(self) -> dict[str, Any]:
        """The sections of the prompt, and the newest changes of memory it contains."""
        return {
            "characters": sum(each["characters"] for each in self._sections),
            "tokens": sum(each["tokens"] for each in self._sections),
            "sections": _with_texts(self._sections, section_texts(self._sections, self._prompts[0])),
            "memory_up_to": _change_ids(self._held),
            "rebuilt": self._rebuilt,
        }


def _turn(seen: _Seen, asked: StoredMessage, rest: list[StoredMessage]) -> dict[str, Any]:
    told = {addition["source"] for addition in asked.message.get("additions", ())}
    return {
        "message_id": asked.id,
        "at": asked.timestamp,
        "said": asked.text,
        "prompt": seen.prompt(),
        "tools": seen.tools,
        "history": {"messages": len(seen.context), "tokens": seen.tokens},
        "summaries": seen.summaries(),
        "added": _additions(asked),
        "announced": _change_ids(asked.message.get("announced", {})) if "announcement" in told else {},
        "results": [
            {"tool": each.message.get("name") or "", "characters": len(each.text), "added": _additions(each)}
            for each in rest
            if each.role == "tool"
        ],
        "answer": _answer(rest),
        "compacted": [],  # summaries of compactions from here to the next turn
    }


def _whole(details: dict[str, Any]) -> list[dict[str, Any]]:
    """The prompt as a single section, for sessions of an earlier version and imported ones."""
    text = details.get("system_prompt") or ""
    return [{"name": "prompt", "characters": len(text), "tokens": estimate(text)}] if text else []


def _summaries(context: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    texts = summary_texts(context)
    carriers = [each for each in context if WRITTEN in each.message and "additions" in each.message]
    return [{"message_id": each.id, **each.message["additions"][0], "text": texts[each.id]} for each in carriers]


def _tokens(each: StoredMessage) -> int:
    return estimate_message(wire_message(each.message))


def _rest_of_turn(stored: Sequence[StoredMessage], at: int) -> list[StoredMessage]:
    rest = []
    for each in stored[at + 1 :]:
        if WRITTEN in each.message:
            continue
        if each.role == "user":
            break
        rest.append(each)
    return rest


def _additions(each: StoredMessage) -> list[dict[str, Any]]:
    return _with_texts(each.message.get("additions", ()), addition_texts(each))


def _with_texts(parts: Iterable[dict[str, Any]], texts: Sequence[str | None]) -> list[dict[str, Any]]:
    return [{**part, "text": text} for part, text in zip(parts, texts, strict=True)]


def _change_ids(seen: dict[str, int]) -> dict[str, str]:
    return {target: f"{target[0]}{number}" for target, number in seen.items() if number}


def _answer(rest: Sequence[StoredMessage]) -> dict[str, Any]:
    answered = next((each.message for each in reversed(rest) if each.message.get("usage")), None)
    if answered is None:
        return {}
    cache = answered.get("cache") or {}
    return {
        "model": answered.get("model") or "",
        "input_tokens": answered["usage"].get("input_tokens", 0),
        "cached_share": cache.get("share"),
        "cache_broken_by": cache.get("broken_by") or "",
    }


def how_told(db: SessionDB, session_id: str, changes: Sequence[Change]) -> dict[str, str]:
    """Says how a conversation learnt of each change of memory, by change id; unknown changes are left out.

    `changes` is the whole history, oldest first, because the model never sees what was undone before it looked.
    """
    known: dict[str, str] = {}
    up_to: dict[str, int] = {}
    chain = Transcript(db).chain(db.get_session(session_id))
    ours = {session.id for session in chain}
    for each in turns(db, session_id):
        prompt = f"in the prompt {'rebuilt before' if each['prompt']['rebuilt'] else 'from'} turn {each['turn']}"
        ways = {prompt: each["prompt"]["memory_up_to"], f"announced in turn {each['turn']}": each["announced"]}
        for way, newest in ways.items():
            for target in newest:
                until = int(newest[target][1:])
                known = {**dict.fromkeys(_seen(changes, target, up_to.get(target), until), way), **known}
                up_to[target] = max(until, up_to.get(target, 0))
    for change in changes:
        if change.cause.session in ours:
            known[change.id] = f"written in this conversation (session {change.cause.session})"
    return known


def _seen(changes: Sequence[Change], target: str, since: int | None, until: int) -> Iterator[str]:
    """The changes after `since`, up to `until`, whose effect is visible in memory at that point.

    At the first look (`since` is None), only added entries are visible, because nothing removed was known before.
    """
    past = [change for change in changes if change.target == target and change.number <= until]
    fresh = [change for change in past if change.number > (since or 0)]
    live = set(replay(past)) if fresh else set()
    for change in fresh:
        if live.intersection(change.added()) or (since is not None and not live.issuperset(change.removed())):
            yield change.id


# --- receipts ---------------------------------------------------------------------------------------------------------

PERSON, TRUSTED, OUTSIDE_GRADE = "person", "trusted", "outside"  # as `safety/trust` grades texts
_SAID = ("message", "question", "call", "result", "found")  # items that are one stored message
_BY_PERSON = Cause(origin="user", note="from a receipt")
_FOUND = re.compile(r"^(?:> )?#(\d+) ([^:\n]{1,80}): (.*)$", re.MULTILINE)  # a line of a result of session_search
_WHY = {
    "recalled": "recalled for this question",
    "announcement": "memory that changed since the prompt was built",
    "overlay": "added to this turn by the program that called",
    "folder_notes": "notes of a folder that a tool entered",
    "rules": "standing rules of the person that apply here",
    "reminders": "reminders of the person that are due",
}
# Grades of additions that Hermes itself makes; every other addition counts as outside unless the host vouched.
_OWN_ADDITIONS = {"announcement": TRUSTED, "rules": PERSON, "reminders": PERSON}


@dataclass(frozen=True, kw_only=True)
class ReceiptItem:
    """One thing that the model saw; the actions on a receipt refer to it by `number`.

    `kind` is entry, section, summary, message, question, call, result, found (in a result of a search), recalled,
    announcement, rules, reminders, overlay or folder_notes. `text` is None if only the size was stored.
    """

    number: int
    kind: str
    source: str
    grade: str
    why: str
    tokens: int
    at: float | None = None
    text: str | None = None
    target: str = ""  # of an entry: memory, user or project
    message_id: int | None = None
    session_id: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The item for JSON, with secrets in the text masked."""
        shown = mask_secrets(self.text) if self.text else self.text
        return {**vars(self), "text": shown}


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What one answer was made from, what was written, what waits for approval, and what it cost.

    `state` is intact, tampered (`problems` say what does not fit), unsealed (no key could be made at the time) or
    unknown key (another home sealed it, and its key is not here). `items` are there when one receipt is asked
    for, not in lists.
    """

    id: str
    session_id: str
    message_id: int
    turn: int
    at: float
    state: str
    problems: tuple[str, ...]
    question: str
    answer: str
    model: str
    usage: Mapping[str, int]
    cached_share: float | None
    cost: float | None
    written: tuple[Mapping[str, Any], ...]
    pending: tuple[str, ...]
    fired: tuple[Mapping[str, Any], ...]
    items: tuple[ReceiptItem, ...] = ()

    @property
    def intact(self) -> bool:
        """Whether the seal still matches the stored conversation."""
        return self.state == INTACT

    def as_dict(self) -> dict[str, Any]:
        """The receipt for `--json`, HTTP and MCP, with secrets masked."""
        plain = vars(self)
        listed = {name: list(plain[name]) for name in ("problems", "written", "pending", "fired")}
        texts = {name: mask_secrets(plain[name]) for name in ("question", "answer")}
        return {**plain, **listed, **texts, "items": [each.as_dict() for each in self.items]}


class Receipts:
    """Reads and verifies the receipts of one person, and carries out the person's actions on their items.

    Entries are changed in `store`, by default that of the home. Each action returns a sentence about what it did.
    """

    def __init__(self, home: Home, db: SessionDB, store: MemoryStore | None = None) -> None:
        self._home = home
        self._db = db
        self._given = store
        self._keys = ReceiptKeys(documents_of(home))

    def get(self, receipt_id: str) -> Receipt:
        """Returns one receipt with everything the model saw; NotFound if this person has none with this id."""
        session_id = receipt_id.rpartition(".")[0]
        session = self._db.find_session(session_id) if session_id else None
        known = (
            {each.record.get("id"): each for each in checked_receipts(self._db, session_id, self._keys)}
            if session
            else {}
        )
        if receipt_id not in known:
            raise NotFound(f"there is no receipt {receipt_id!r}; `hermes receipts list` shows the newest")
        for walked in _walk(self._db, session_id):
            if _receipt_in(walked) == receipt_id:
                return _receipt(known[receipt_id], walked, _items(walked, known[receipt_id].record, known))
        raise NotFound(f"the answer of receipt {receipt_id!r} was taken back")

    def of(self, session_id: str) -> list[Receipt]:
        """Lists the receipts of the conversation up to this session, oldest first, without their items."""
        chain = Transcript(self._db).chain(self._db.get_session(session_id))
        known = {
            each.record.get("id"): each
            for session in chain
            for each in checked_receipts(self._db, session.id, self._keys)
        }
        turns = ((known.get(_receipt_in(walked)), walked) for walked in _walk(self._db, session_id))
        return [_receipt(found, walked) for found, walked in turns if found is not None]

    def verify(self, session_id: str = "") -> Iterator[Checked]:
        """Checks the seals of all receipts of one session, or of every session."""
        sessions = [self._db.get_session(session_id)] if session_id else Pages.of_db(self._db).sessions()
        for session in sessions:
            yield from checked_receipts(self._db, session.id, self._keys)

    # Actions of a person on an item.

    def correct(self, receipt_id: str, number: int, text: str) -> str:
        """Replaces an entry by `text`.

        A message stays as it was said: the text becomes a new entry, and the message is kept from recall.
        """
        item = self._item(receipt_id, number)
        if item.kind == "entry":
            return (
                self._store(receipt_id).replace(item.target, str(item.text), text, cause=_BY_PERSON, whole=True).message
            )
        same = self._messages(item)
        kept = self._store(receipt_id).add("memory", text, cause=_BY_PERSON).message
        self._db.keep_from_recall(same)
        return f"{kept} Message {item.message_id} is kept from recall."

    def forget(self, receipt_id: str, number: int) -> str:
        """Removes an entry, or takes a message back: no search, list or resumed conversation shows it any more."""
        item = self._item(receipt_id, number)
        if item.kind == "entry":
            return self._store(receipt_id).remove(item.target, str(item.text), cause=_BY_PERSON, whole=True).message
        for message_id in self._messages(item):
            if (holder := self._db.session_of(message_id)) is not None:
                self._db.set_rewound(holder.id, [message_id])
        return (
            f"Message {item.message_id} withdrawn: nothing shows it any more. Its text stays in the file until the "
            "conversation is deleted (`hermes sessions delete`)."
        )

    def pin(self, receipt_id: str, number: int) -> str:
        """Keeps an entry from being archived, merged or reworded."""
        item = self._entry(receipt_id, self._item(receipt_id, number), "pinned")
        self._store(receipt_id).marks_file(item.target).add(PIN, [str(item.text)])
        return "Entry pinned."

    def never(self, receipt_id: str, number: int, *, recall: bool = False) -> str:
        """Hides an entry or message from models, or with `recall` shows it again; the person still finds it."""
        item = self._item(receipt_id, number)
        if item.kind == "entry":
            entry = self._entry(receipt_id, item, "kept from recall")
            self._store(receipt_id).marks_file(item.target).add(RECALL if recall else NEVER, [str(entry.text)])
        else:
            self._db.keep_from_recall(self._messages(item), recall=recall)
        what = "Entry" if item.kind == "entry" else f"Message {item.message_id}"
        return f"{what} may be recalled again." if recall else f"{what} is kept from recall from now on."

    def _item(self, receipt_id: str, number: int) -> ReceiptItem:
        items = self.get(receipt_id).items
        if not 1 <= number <= len(items):
            raise NotFound(f"receipt {receipt_id} has the items 1 to {len(items)}, not {number}")
        return items[number - 1]

    def _entry(self, receipt_id: str, item: ReceiptItem, done: str) -> ReceiptItem:
        if item.kind != "entry":
            raise WriteRefused(
                f"item {item.number} is a {item.kind}; only entries can be {done}: `hermes memory add` makes one of a "
                "fact that should stay",
                kind="item",
            )
        store = self._store(receipt_id)
        if item.text not in (*store.entries(item.target), *(each.entry for each in store.archived(item.target))):
            raise WriteRefused("that entry has since been changed or removed; see `hermes memory log`", kind="no_match")
        return item

    def _messages(self, item: ReceiptItem) -> list[int]:
        """The ids of an item's message: its own, and those of its copies in branches and continuations."""
        if item.message_id is None or item.kind not in _SAID:
            raise WriteRefused(
                f"item {item.number} is a {item.kind}, neither an entry nor a message; act on what it was made from",
                kind="item",
            )
        holder = self._db.session_of(item.message_id)
        if holder is None:
            raise NotFound(f"message {item.message_id} no longer exists")
        stored = self._db.messages(holder.id, around=item.message_id, window=0)
        ids = {item.message_id, *(first_id(each) for each in stored if each.id == item.message_id)}
        family, keys = {holder.root}, {holder.key}
        for session in Pages.of_db(self._db).sessions():  # parents precede their children
            if session.root in family or session.parent in keys:
                family.add(session.root)
                keys.add(session.key)
                if session.kind in ("branch", "compression"):
                    copies = self._db.messages(session.id, rewound=True)
                    ids.update(each.id for each in copies if each.message.get(COPY) in ids)
        return sorted(ids)

    def _store(self, receipt_id: str) -> MemoryStore:
        """Curated memory with the project of the receipt's session; changes are passed on to external memory."""
        if self._given is not None:
            return self._given
        project = recorded_project(self._db.get_session(receipt_id.rpartition(".")[0]).project)
        return store_beside(self._home, load_settings(self._home), platform="cli", project=project)


def _receipt_in(walked: _Walked) -> str:
    kept = next((each.message[RECEIPT] for each in reversed(walked.rest) if RECEIPT in each.message), None)
    return str(kept.get("id", "")) if isinstance(kept, dict) else ""


def _receipt(checked: Checked, walked: _Walked, items: Sequence[ReceiptItem] = ()) -> Receipt:
    record = checked.record
    return Receipt(
        id=record["id"],
        session_id=walked.turn["session_id"],
        message_id=checked.message.id,
        turn=walked.turn["turn"],
        at=record["at"],
        state=checked.state,
        problems=checked.problems,
        question=walked.asked.text,
        answer=checked.message.text,
        model=record.get("model", ""),
        usage=record.get("usage", {}),
        cached_share=record.get("cached_share"),
        cost=record.get("cost"),
        written=tuple(record.get("written", ())),
        pending=tuple(record.get("pending", ())),
        fired=tuple(record.get("fired", ())),
        items=tuple(items),
    )


def _items(walked: _Walked, record: Mapping[str, Any], known: Mapping[Any, Checked]) -> list[ReceiptItem]:
    """The items in the order in which the model read them: prompt, earlier messages, this turn."""
    lists = known.get(record.get("entries_in"))
    entries = record.get("entries") or (lists.record.get("entries") if lists is not None else None) or ()
    turn = walked.turn
    found = [*_in_prompt(turn["prompt"]["sections"], entries)]
    summaries = {each["message_id"] for each in turn["summaries"]}
    for each in turn["summaries"]:
        why = f"in place of {each['messages']} messages, because: {each['why']}"
        found.append(_made("summary", each["by"], OUTSIDE_GRADE, why, each["text"], message_id=each["message_id"]))
    found += [
        _of_message(each, "message", "said before in this conversation")
        for each in walked.history
        if each.id not in summaries and WRITTEN not in each.message
    ]
    found.append(_of_message(walked.asked, "question", "asked in this turn"))
    found += _added(turn["added"], walked.asked)
    results = iter(turn["results"])
    for each in walked.rest:
        if RECEIPT in each.message:
            break  # the answer itself
        if each.role == "tool":
            found.append(_of_message(each, "result", f"the model called {each.message.get('name') or 'a tool'}"))
            found += [*_added(next(results)["added"], each), *_found_in(each)]
        else:
            found.append(_of_message(each, "call", "called in this turn"))
    return [ReceiptItem(**{**each, "number": number}) for number, each in enumerate(found, start=1)]


def _made(kind: str, source: str, grade: str, why: str, text: str | None, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "source": source,
        "grade": grade,
        "why": why,
        "text": text,
        "tokens": estimate(text or ""),
        **more,
    }


def _in_prompt(sections: Sequence[Mapping[str, Any]], entries: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    known = {(target, key): (origin, at) for target, key, origin, at in entries}
    for section in sections:
        name, text = section["name"], section["text"]
        shown = entries_in(text) if name in ALL_TARGETS and text else ()
        if not shown:
            yield _made("section", name, TRUSTED, "part of the system prompt", text) | {"tokens": section["tokens"]}
        for entry in shown:
            origin, at = known.get((name, key_of(entry)), ("unknown", None))
            why = f"kept in {name}, in the prompt since the conversation began"
            yield _made("entry", origin, _grade(origin), why, entry, at=at, target=name)


def _grade(origin: str) -> str:
    if origin in ("user", "external"):
        return PERSON
    return TRUSTED if is_trusted(origin) else OUTSIDE_GRADE


def _of_message(stored: StoredMessage, kind: str, why: str) -> dict[str, Any]:
    origin = origin_of(stored.message)
    grade = OUTSIDE_GRADE if origin else PERSON if stored.role == "user" else TRUSTED
    source = origin or str(stored.message.get("name") or stored.role)
    calls = [f"{name} {arguments}" for _, name, arguments in calls_of(stored.message)]
    text = "\n".join(filter(None, [stored.text, *calls]))
    return {
        **_made(kind, source, grade, why, text, at=stored.timestamp, message_id=stored.id),
        "tokens": _tokens(stored),
    }


def _added(parts: Sequence[Mapping[str, Any]], stored: StoredMessage) -> Iterator[dict[str, Any]]:
    for each in parts:
        kind = each["source"]
        grade = TRUSTED if each.get("vouched") else _OWN_ADDITIONS.get(kind, OUTSIDE_GRADE)
        source = ", ".join(each.get("from", ())) or kind
        yield _made(kind, source, grade, _WHY.get(kind, kind), each["text"], at=stored.timestamp, message_id=stored.id)


def _found_in(stored: StoredMessage) -> Iterator[dict[str, Any]]:
    """The messages of past conversations that a search showed to the model."""
    if str(stored.message.get("name") or "").rpartition("__")[2] != "session_search":
        return
    try:
        answer = json.loads(stored.text)
    except ValueError:
        return
    query = answer.get("query")
    why = f"found for {query!r}" if query else "read in a past conversation"
    for result in answer.get("results") or [answer]:
        shown = result.get("messages")
        if isinstance(shown, str):
            lines = [(int(number), who, said) for number, who, said in _FOUND.findall(shown)]
        else:
            each = [one for one in shown or () if isinstance(one, dict) and "id" in one]
            lines = [(one["id"], one.get("role", ""), one.get("content") or "") for one in each]
        for number, who, said in lines:
            grade = PERSON if who == "user" else OUTSIDE_GRADE
            place = str(result.get("session_id", ""))
            yield _made("found", who, grade, why, said, message_id=number, session_id=place)
