"""What reviews and curation may see of a session: a fork to read, captured facts, dated episode notes."""

from __future__ import annotations

import json
import logging
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, ModelError
from hermes.base.text import day
from hermes.compaction.facts import by_importance, find_facts, words_of
from hermes.compaction.messages import one_line, text_of
from hermes.memory.capture import KNOWN, capture, placed
from hermes.memory.metadata import USE
from hermes.session.context import Request, wire_message
from hermes.tools.registry import CUT_OFF, failure, to_json
from hermes.tools.taint import NO_TURN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.memory.approval import Approvals
    from hermes.memory.capture import Captured
    from hermes.memory.history import Cause
    from hermes.memory.store import MemoryStore
    from hermes.tools.memory import MemoryTool
    from hermes.tools.registry import Toolbox
    from hermes.tools.taint import TurnContext

    Ask = Callable[[str, str], str]

VERBATIM = 24  # newest messages another model sees whole
_OLDER = {"user": 300, "assistant": 200}
_LONGEST = 4_000


class Fork:
    """What `tools/loop` talks to during a review; nothing of it is stored, observed, searched or told to anybody.

    The model sees the parent's tools byte for byte, so that its cache is hit; only those of `toolbox` run.
    """

    def __init__(self, parent: Request, instruction: str, toolbox: Toolbox, turn: TurnContext) -> None:
        self._parent = parent
        self._messages = [*parent.messages, {"role": "user", "content": instruction}]
        self._toolbox = toolbox
        self._turn = turn

    def request(self) -> Request:
        return Request(system=self._parent.system, messages=list(self._messages), tools=self._parent.tools)

    def record(self, message: Mapping[str, Any]) -> None:
        self._messages.append(wire_message(dict(message)))

    def call_tool(self, name: str, arguments: str, *, call_id: str, cut_off: bool = False) -> str:
        if cut_off:
            result = to_json(failure(CUT_OFF))
        elif name in self._toolbox.names():
            result = self._toolbox.call(name, arguments, self._turn)
        else:
            allowed = ", ".join(self._toolbox.names())
            result = to_json(failure(f"{name} is not available in a review; nobody is there to agree. Use {allowed}"))
        self._messages.append({"role": "tool", "tool_call_id": call_id, "name": name, "content": result})
        return result


def transcript(messages: Sequence[Mapping[str, Any]]) -> str:
    """A conversation as text for a model that did not have it: the newest messages whole, older ones in short."""
    split = max(0, len(messages) - VERBATIM)
    lines = []
    for place, message in enumerate(messages):
        role = str(message.get("role"))
        longest = _LONGEST if place >= split else _OLDER.get(role, 0)
        text = _text(message)[:longest]
        if text:
            lines.append(f"[{role}] {text}")
    return "\n\n".join(lines)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    shown = [f"(calls {call['name']} with {json.dumps(call['arguments'], ensure_ascii=False)[:200]})" for call in calls]
    return " ".join([content, *shown]).strip()


# Capture without a model: what a person says in plain statements enters memory, or waits for them to agree.
#
# It reads the person's own clean words and nothing else, so neither recalled memory nor a tool's output can come back
# as a new memory, and a fact that was said a hundred times is one entry.

STAGE = "stage"


def capture_turn(
    said: str, store: MemoryStore, tool: MemoryTool, approvals: Approvals | None, turn: TurnContext = NO_TURN
) -> list[dict[str, Any]]:
    """Keeps the statements of one message through the memory tool; with `approvals` they wait there instead."""
    done = []
    for captured in capture(said):
        try:
            if captured.target in store.targets and (result := _keep(captured, store, tool, approvals, turn)):
                done.append(result)
        except HermesError:
            continue  # what cannot be kept now stays in the conversation, where search finds it
    return done


def _keep(
    captured: Captured, store: MemoryStore, tool: MemoryTool, approvals: Approvals | None, turn: TurnContext
) -> dict[str, Any] | None:
    target = captured.target
    archived = [each.entry for each in store.archived(target) if not each.into]
    write = placed(captured, [*archived, *store.entries(target)])
    if write.old_text in archived:  # somebody speaks of it again: it comes back before it is corrected
        store.restore(target, write.old_text, cause=turn.cause)
    if write.action == KNOWN:
        return None
    operation = {"action": write.action, "content": write.content}
    operation |= {"old_text": write.old_text} if write.old_text else {}
    if approvals is None:
        return tool.call({"target": target, **operation}, turn)
    _stage(target, operation, store, approvals, turn.cause)
    return None


def _stage(target: str, operation: dict[str, str], store: MemoryStore, approvals: Approvals, cause: Cause) -> None:
    waiting = [dict(each) for pending in approvals.pending()[0] for each in pending.operations]
    if operation not in waiting:
        store.rehearse(target, [operation], cause=cause)
        approvals.stage(target, [operation], cause, "memory.capture is stage: the user said so")


# A dated note for each conversation: its goal, its outcome, what was decided and what is open.
#
# It is written when a session ends, by the helper model of `compression` when `sessions.notes` is `model`, else from
# the messages alone. It is kept as a session of its own below the conversation: found with the conversations, deleted
# with its own, never listed and never put into a prompt by itself.

SOURCE = "episode"
_SUFFIX = ".note"
_LINE, _LINES = 280, 6
_FEWEST_TURNS = 3  # a question or two with their answers are found as they stand
_FACTS = 60
_LONGEST_TRANSCRIPT = 60_000
_WORD = re.compile(r"[^\W_]{4,}")
_SHARE_USED = 0.6
_FEWEST_WORDS = 2
_LOG = logging.getLogger("hermes.session")


def end_of_session(
    database: SessionDB,
    session_id: str,
    messages: Sequence[Mapping[str, Any]],
    store: MemoryStore | None,
    ask: Ask | None,
) -> None:
    """Writes the note and marks the entries that were of use; what goes wrong here must not spoil an end."""
    try:
        write_note(database, session_id, messages, ask)
        if store is not None:
            mark_used(store, messages)
    except HermesError as error:
        _LOG.warning("the note of session %s was not written: %s", session_id, error)


def write_note(
    database: SessionDB, session_id: str, messages: Sequence[Mapping[str, Any]], ask: Ask | None = None
) -> str:
    """The id of the session with the note, "" when there was too little to note; a newer note replaces the older."""
    if sum(message.get("role") == "user" for message in messages) < _FEWEST_TURNS:
        return ""
    text = _rendered(database, session_id, _by_model(messages, ask) or _extracted(messages))
    note_id = f"{session_id}{_SUFFIX}"
    with database.bulk():  # the old note and the new one change places at once
        if database.find_session(note_id) is None:
            database.create_session(source=SOURCE, session_id=note_id, parent_session_id=session_id, kind="delegate")
        older = [each.id for each in database.messages(note_id)]
        if older:
            database.set_rewound(note_id, older)
        database.append(note_id, {"role": "assistant", "content": text})
    return note_id


def mark_used(store: MemoryStore, messages: Sequence[Mapping[str, Any]]) -> None:
    """An entry whose words came up in the conversation was of use: a full store gives it up later than others."""
    said = {word for message in messages for word in _words(text_of(message)) if message.get("role") != "tool"}
    for target in store.targets:
        used = [entry for entry in store.entries(target) if _was_used(_words(entry), said)]
        store.marks_file(target).add(USE, used)


def _was_used(words: set[str], said: set[str]) -> bool:
    return len(words) >= _FEWEST_WORDS and len(words & said) >= max(_FEWEST_WORDS, _SHARE_USED * len(words))


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _extracted(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The first request, the last answer, and the sentences that say a decision or something open."""
    asked = [text_of(message) for message in messages if message.get("role") == "user" and text_of(message).strip()]
    answered = [text_of(m) for m in messages if m.get("role") == "assistant" and text_of(m).strip()]
    facts = by_importance(find_facts(messages, _FACTS))
    later = len(messages) - len(messages) // 3  # a question from the beginning was answered since
    return {
        "goal": one_line(asked[0], _LINE) if asked else "",
        "outcome": one_line(answered[-1], _LINE) if answered else "",
        "decisions": [fact.text for fact in facts if fact.kind == "decision" and fact.source in ("user", "assistant")],
        "open": [
            fact.text for fact in facts if fact.kind == "open" or (fact.kind == "question" and fact.position >= later)
        ],
    }


def _by_model(messages: Sequence[Mapping[str, Any]], ask: Ask | None) -> dict[str, Any] | None:
    """The helper's note, when it is one and names nothing that the conversation does not."""
    if ask is None:
        return None
    told = transcript(messages)[-_LONGEST_TRANSCRIPT:]
    try:
        found = json.loads(ask(files(__package__).joinpath("text/episode.md").read_text(encoding="utf-8"), told))
    except (ModelError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("goal", "outcome")):
        return None
    note = {name: found[name] for name in ("goal", "outcome")}
    for name in ("decisions", "open"):
        listed = found.get(name)
        note[name] = [one_line(str(each), _LINE) for each in listed] if isinstance(listed, list) else []
    whole = "\n".join(text_of(message) for message in messages)
    named = (word for _, word in words_of(json.dumps(note, ensure_ascii=False)))
    return note if all(word.strip('",[]{}') in whole for word in named) else None


def _rendered(database: SessionDB, session_id: str, note: Mapping[str, Any]) -> str:
    session = database.get_session(session_id)
    title = f" ({session.title})" if session.title else ""
    lines = [
        f"Note on the conversation of {day(session.started_at)}{title}",
        f"Goal: {note['goal']}",
        f"Outcome: {note['outcome']}",
    ]
    for heading, name in (("Decisions", "decisions"), ("Open", "open")):
        if note[name]:
            lines += [f"{heading}:", *(f"- {each}" for each in note[name][:_LINES])]
    return "\n".join(lines)
