"""The life of a session: how it begins, resumes, branches, gets its title and ends, and what is saved then."""

from __future__ import annotations

import json
import logging
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, ModelError, NotFound, StorageError
from hermes.base.text import day
from hermes.compaction.facts import by_importance, find_facts, words_of
from hermes.compaction.messages import calls_of, is_block, last_request, one_line, text_of
from hermes.conversations.context import COPY, ORDER, RECEIPT, WRITTEN, Contexts, first_id
from hermes.conversations.database import Opened
from hermes.memory.capture import KNOWN, capture, placed
from hermes.memory.entries import USE
from hermes.safety.secrets import mask_secrets
from hermes.safety.trust import NO_TURN
from hermes.session.context import OUTSIDE, MemoryUpdates, origin_of, outside_as_dicts
from hermes.session.parts import prose
from hermes.tools.memory import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.memory.store import MemoryStore
    from hermes.safety.trust import TurnContext
    from hermes.tools.memory import MemoryTool

    Ask = Callable[[str, str], str]
    from hermes.base.events import Usage
    from hermes.session.compaction import Compactor
    from hermes.session.models import Helper
    from hermes.session.parts import SessionParts
    from hermes.storage.records import StoredMessage

VERBATIM = 24  # newest messages that a transcript shows in full
_OLDER = {"user": 300, "assistant": 200}  # characters of older messages, by role; tool results are left out
_LONGEST = 4_000  # characters of a message that is shown in full


def transcript(messages: Sequence[Mapping[str, Any]]) -> str:
    """Renders a conversation for another model: the newest messages in full, older ones shortened."""
    split = max(0, len(messages) - VERBATIM)
    lines = []
    for place, message in enumerate(messages):
        role = str(message.get("role"))
        longest = _LONGEST if place >= split else _OLDER.get(role, 0)
        calls = [f"(calls {name} with {arguments[:200]})" for _, name, arguments in calls_of(message)]
        content = message.get("content") or ""
        if not isinstance(content, str):
            content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        text = " ".join([content, *calls]).strip()[:longest]
        if text:
            lines.append(f"[{role}] {text}")
    return "\n\n".join(lines)


# Capture without a model: plain statements of the person become entries, or pending writes.
#
# It reads only the person's own clean words, so neither recalled memory nor a tool's output can return as a new memory,
# and a fact that is said a hundred times is one entry.


def capture_turn(said: str, store: MemoryStore, tool: MemoryTool, turn: TurnContext = NO_TURN) -> list[dict[str, Any]]:
    """Saves the statements of one message through the memory tool; returns its results."""
    done = []
    for captured in capture(said):
        target = captured.target
        with suppress(HermesError):  # the statement stays in the conversation, where search finds it
            archived = [each.entry for each in store.archived(target) if not each.into]
            write = placed(captured, [*archived, *store.entries(target)])
            if write.old_text in archived:  # an archived entry that comes up again is restored before it is corrected
                store.restore(target, write.old_text, cause=cause_of(turn))
            if write.action != KNOWN:
                old = {"old_text": write.old_text} if write.old_text else {}
                done.append(
                    tool.call({"target": target, "action": write.action, "content": write.content, **old}, turn)
                )
    return done


# A dated note for each conversation: its goal, its outcome, what was decided and what is open.
#
# It is written when a session ends, by the helper model of `compression` if `sessions.notes` is `model`, otherwise from
# the messages alone. It is a session of its own below the conversation: search finds it, it is deleted with the
# conversation, and it is never listed or added to a prompt.

SOURCE = "episode"
_SUFFIX = ".note"
_LINE, _LINES = 280, 6  # characters of a line, and lines under a heading
_FEWEST_TURNS = 3  # search finds a shorter conversation just as well without a note
_FACTS = 60  # facts looked for in a conversation
_LONGEST_TRANSCRIPT = 60_000  # last characters of the transcript that the helper reads
_WORD = re.compile(r"[^\W_]{4,}")
_SHARE_USED = 0.6  # share of an entry's words that must come up for the entry to count as used
_FEWEST_WORDS = 2  # an entry with fewer words of four letters is not judged
_LOG = logging.getLogger("hermes.session")


def end_of_session(
    database: SessionDB,
    session_id: str,
    messages: Sequence[Mapping[str, Any]],
    store: MemoryStore | None,
    ask: Ask | None,
) -> None:
    """Writes the note and marks the entries that were used; an error is logged and does not stop the end."""
    try:
        write_note(database, session_id, messages, ask)
        if store is not None:
            mark_used(store, messages)
    except HermesError as error:
        _LOG.warning("the note of session %s was not written: %s", session_id, error)


def write_note(
    database: SessionDB, session_id: str, messages: Sequence[Mapping[str, Any]], ask: Ask | None = None
) -> str:
    """Writes or replaces the note; returns the id of its session, "" for a conversation that is too short."""
    if sum(message.get("role") == "user" for message in messages) < _FEWEST_TURNS:
        return ""
    text = _rendered(database, session_id, _by_model(messages, ask) or _extracted(messages))
    note_id = f"{session_id}{_SUFFIX}"
    with database.bulk():  # replace the old note in one transaction
        if database.find_session(note_id) is None:
            database.create_session(source=SOURCE, session_id=note_id, parent_session_id=session_id, kind="delegate")
        older = [each.id for each in database.messages(note_id)]
        if older:
            database.set_rewound(note_id, older)
        outside = next(filter(None, map(origin_of, messages)), "")  # the note may repeat text from outside
        database.append(note_id, {"role": "assistant", "content": text, OUTSIDE: outside})
    return note_id


def mark_used(store: MemoryStore, messages: Sequence[Mapping[str, Any]]) -> None:
    """Marks the entries whose words came up in the conversation as used; a full store archives them later."""
    said = {word for message in messages for word in _words(text_of(message)) if message.get("role") != "tool"}
    for target in store.targets:
        words = {entry: _words(entry) for entry in store.entries(target)}
        fewest = {entry: max(_FEWEST_WORDS, _SHARE_USED * len(each)) for entry, each in words.items()}
        store.marks_file(target).add(USE, [entry for entry, each in words.items() if len(each & said) >= fewest[entry]])


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _extracted(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A note without a model: the first request, the last answer, and sentences with decisions or open matters."""
    messages = [message for message in messages if not is_block(message)]
    asked = [text_of(message) for message in messages if message.get("role") == "user" and text_of(message).strip()]
    answered = [text_of(m) for m in messages if m.get("role") == "assistant" and text_of(m).strip()]
    facts = by_importance(find_facts(messages, _FACTS))
    later = len(messages) - len(messages) // 3  # earlier questions have probably been answered
    return {
        "goal": one_line(asked[0], _LINE) if asked else "",
        "outcome": one_line(answered[-1], _LINE) if answered else "",
        "decisions": [fact.text for fact in facts if fact.kind == "decision" and fact.source in ("user", "assistant")],
        "open": [
            fact.text for fact in facts if fact.kind == "open" or (fact.kind == "question" and fact.position >= later)
        ],
    }


def _by_model(messages: Sequence[Mapping[str, Any]], ask: Ask | None) -> dict[str, Any] | None:
    """The helper's note; None when it is malformed or contains a name that the conversation does not."""
    if ask is None:
        return None
    told = transcript(messages)[-_LONGEST_TRANSCRIPT:]
    try:
        found = json.loads(ask(prose("episode"), told))
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


def take_back(database: SessionDB, session_id: str) -> tuple[str, list[StoredMessage]]:
    """Takes back the person's newest message and everything after it; returns its text and the remaining messages."""
    context = Contexts(database).live(session_id)
    by_person = (each.role == "user" and WRITTEN not in each.message for each in reversed(context))
    place = next((len(context) - back for back, found in enumerate(by_person, start=1) if found), None)
    spoken = list(Contexts(database).originals(session_id))
    asked = last_request([each.message for each in spoken])
    if asked is not None and first_id(spoken[asked]) not in map(first_id, context):
        raise NotFound(
            "the last exchange was compacted, and a summary cannot be undone: "
            f"`hermes sessions restore {session_id}` makes a copy of the conversation in which it can"
        )
    if place is None:
        raise NotFound("there is nothing to undo in this conversation")
    Contexts(database).take_back(session_id, context[place:])
    database.sync()
    return context[place].text, context[:place]


def branch_off(database: SessionDB, session_id: str, title: str | None = None) -> str:
    """Creates a conversation that begins with a copy of everything said so far; returns its id.

    It gets the same prompt and tools, so the provider's cache applies to it too.
    """
    parent = database.get_session(session_id)
    name = title or (f"{parent.title} (branch)" if parent.title else None)
    details: dict[str, Any] = database.session_details(session_id)
    said = [_copied(each) for each in Contexts(database).live(session_id)]
    branch = database.create_session(
        source=parent.source,
        title=name,
        parent_session_id=session_id,
        kind="branch",
        **details | {"model": parent.model, "cwd": parent.cwd, "project": parent.project},
    )
    database.append_many(branch, said)
    database.sync()
    return branch


def _copied(original: StoredMessage) -> dict[str, Any]:
    """A copy of a message for another session, with the id of the original."""
    kept = {key: part for key, part in original.message.items() if key not in (ORDER, RECEIPT)}
    return {COPY: original.id, **kept}


# Titles a conversation after its first turn: from the person's words, then better by a helper model if one is set.

LONGEST = 60  # characters of a title
_ASK = (
    "Name this conversation in two to six words, in the language it is held in. Answer with the name only: no quotation"
    " marks, no full stop, no explanation."
)
_SHOWN = 1_000  # characters of each side that the helper sees
# Markdown, list and number signs at the start of a line, and emphasis and code marks anywhere.
_MARKUP = re.compile(r"^[\s#>*`\-\d.)]+|[`*_]{1,3}")
_GREETING = re.compile(r"^(?:hi|hello|hey|hallo|please|bitte)\b[\s,!.:]*", re.IGNORECASE)


def title_from(text: str) -> str:
    """Makes a title from what a person wrote: the first line with a letter or digit, cut at a word."""
    # Mask secrets first: a token without its underscores would not be recognised.
    lines = (" ".join(_MARKUP.sub("", line).split()) for line in mask_secrets(text[:5_000]).splitlines())
    first = next((line for line in lines if any(char.isalnum() for char in line)), "")
    said = _GREETING.sub("", first) or first
    if len(said) > LONGEST:
        cut = said[: LONGEST - 1]
        said = (cut.rpartition(" ")[0] if " " in cut[LONGEST // 2 :] else cut).rstrip(" ,;:.") + "…"
    return said[:1].upper() + said[1:]


class Titles:
    """Gives a conversation its title; `rename` stores it, and only `start` and `settle` call it."""

    def __init__(self, rename: Callable[[str], object], helper: Helper | None) -> None:
        self._rename = rename
        self._helper = helper
        self._worker: threading.Thread | None = None
        self._better = ""

    def start(self, asked: str, reply: str) -> None:
        """Sets a title after the first turn and asks the helper for a better one in a thread."""
        if title := title_from(asked):
            self._rename(title)
        if self._helper is not None:
            self._worker = threading.Thread(target=self._think, args=(asked, reply), daemon=True, name="title")
            self._worker.start()

    def settle(self, seconds: float = 0) -> None:
        """Sets the helper's title if it is ready; waits at most `seconds` for it."""
        if self._worker is None:
            return
        self._worker.join(seconds)
        if not self._worker.is_alive():
            self._worker = None
            if self._better:
                self._rename(self._better)

    def _think(self, asked: str, reply: str) -> None:
        assert self._helper is not None  # noqa: S101 - only started with one
        try:
            named = self._helper(_ASK, f"Person: {asked[:_SHOWN]}\n\nAssistant: {reply[:_SHOWN]}")
        except HermesError:
            return  # the title from the person's words stays
        self._better = title_from(named.strip().strip("\"'“”„«»."))


_LIFETIMES = {"5m": 300, "1h": 3600}  # seconds, by `prompt_caching.cache_ttl`
_GOOD_SHARE = 0.5  # cached share of a prompt from which on no reason is given


def what_broke_the_cache(
    usage: Usage, *, first: bool, idle_seconds: float, ttl: str, same_model: bool, minimum: int = 0, told: str = ""
) -> str:
    """Why so little of the prompt came from the cache; "" when enough did.

    `minimum` is the number of tokens below which the provider caches nothing; `told` is the provider's own reason.
    """
    if usage.cached_share >= _GOOD_SHARE or not usage.input_tokens:
        return ""
    if usage.input_tokens < minimum:
        return f"the prompt is shorter than the {minimum:,} tokens from which on this model's provider caches"
    if first:
        return "the first turn of a session fills the cache"
    if not same_model:
        return "the model changed"
    if idle_seconds > _LIFETIMES[ttl]:
        return f"the pause was longer than the cache lives ({ttl})"
    if told:
        return told
    return "the prefix did not move; the provider did not keep it"


# A conversation counts as ended from when no process has it open until it is resumed.
#
# Only ended conversations are pruned. One whose process was killed is ended by the next process that opens any. A chat
# on a platform continues when a program stops; the gateway ends it. An end reason that says how the conversation
# continued is kept.

CLOSED = "agent_close"


def end(parts: SessionParts, session_id: str, compactor: Compactor | None, said: list[dict[str, Any]]) -> None:
    """Closes a session: shuts down the providers, then notifies the engine, then marks the session as ended."""
    parts.external.close(said)
    if compactor is not None:
        compactor.close()
    if not parts.storage.is_long_lived:
        opened = Opened(parts.database)
        with opened.together():
            with suppress(NotFound):  # deleted meanwhile, because it was empty or by another process
                parts.database.end_session(session_id, CLOSED)
            opened.clear(parts.storage.opened_as)
    parts.close()


def begin(parts: SessionParts, session_id: str, about: Mapping[str, Any], inputs: dict[str, Any]) -> None:
    """Stores a new session without messages.

    `about` contains its source, title, model and folder; `inputs`, the host's inputs of the prompt, are stored because
    a compaction rebuilds the prompt.
    """
    parent = parts.options.parent
    row: dict[str, Any] = {
        **about,
        "session_id": session_id,
        "model": about["model"] or None,
        "project": parts.project or None,
        "parent_session_id": parent,
        "kind": "delegate" if parent else None,
        **_prompt_and_tools(parts, about, inputs),
    }
    try:
        _create(parts, row)
    except StorageError as error:  # the session opens nevertheless, with a spare database
        spare = parts.storage.fall_back(error)
        known = {"parent_session_id": None, "kind": None}  # the parent is not in the spare database
        _create(parts, row | known)
        spare.begun(session_id, parent=parent)
        parts.notices.add("storage", spare.in_words())


def _create(parts: SessionParts, row: Mapping[str, Any]) -> None:
    with Opened(parts.database).together():
        parts.database.create_session(**row)
        parts.storage.mark_open(row["session_id"])


def go_on(
    parts: SessionParts, session_id: str, about: Mapping[str, Any], inputs: dict[str, Any]
) -> list[StoredMessage]:
    """Resumes a session and returns its context; one without a prompt, such as an imported one, gets it now."""
    database = parts.storage.readable
    added: dict[str, Any] = {}
    if "tools" not in database.session_details(session_id):
        added = _prompt_and_tools(parts, about, inputs)
    try:
        parts.storage.mark_open(session_id)
        if added:
            if database.get_session(session_id).cwd is None:
                database.update_session(session_id, cwd=about["cwd"])
            Contexts(database).set_prompt(session_id, **added)
        return Contexts(database).live(session_id)
    except StorageError as error:  # continue with what can still be read, in a spare database
        with parts.storage.reading_after(error) as past:
            row, details = past.get_session(session_id), past.session_details(session_id)
            known = Contexts(past).live(session_id)
        spare = parts.storage.fall_back(error)
        spare.carry(row, details | added, ((each.id, each.message) for each in known))
        parts.notices.add("storage", spare.in_words())
        return Contexts(spare.db).live(session_id)


def _prompt_and_tools(parts: SessionParts, about: Mapping[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """The prompt and tools of a session, which stay the same, and the inputs for rebuilding the prompt."""
    prompt, today = parts.build_prompt(model=about["model"], cwd=about["cwd"], **inputs), inputs["today"]
    for notice in prompt.notices:
        parts.notices.add("context", notice)
    return {
        "system_prompt": prompt.text,
        "prompt_sections": prompt.sizes(),
        "prompt_outside": outside_as_dicts(prompt.outside),
        "tools": parts.toolbox.schemas(),
        "announced": MemoryUpdates(parts.store, "").seen,
        "prompt_inputs": {**inputs, "today": today.isoformat() if today else None},
    }
