"""The context of a session: its messages as sent, the source of each, and the request built from them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from hermes.base.errors import StorageError
from hermes.base.text import read_arguments, valid_arguments
from hermes.base.tokens import estimate_message
from hermes.compaction.messages import is_block, is_synthetic
from hermes.conversations.context import RECEIPT, WRITTEN
from hermes.conversations.receipts import digest_of
from hermes.memory.entries import key_of, provenance
from hermes.memory.file import FILES
from hermes.memory.store import ALL_TARGETS, blocked_in_prompt, entries_in
from hermes.safety.fence import storable
from hermes.safety.trust import Source
from hermes.storage.images import (
    IMAGES,
    as_parts,
    bare,
    own_parts,
    public,
    public_images,
    text_only,
    tokens,
    without_data,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hermes.base.values import Notices
    from hermes.conversations.database import SessionDB
    from hermes.memory.entries import Change
    from hermes.memory.rules import Fired
    from hermes.memory.store import MemoryStore
    from hermes.prompt.assembly import Prompt
    from hermes.settings.config import Settings
    from hermes.storage.images import Content, Entry
    from hermes.tools.registry import Toolbox

    Numbered = tuple[int, Mapping[str, Any]]
    Private = tuple[Any, ...]

# The fields of a message that a model client gets; all others in a stored message are our own records.
# `reasoning_model` names the model that wrote the reasoning; our clients read it and do not send it.
WIRE_KEYS = (
    *("role", "content", "name", "tool_calls", "tool_call_id", "is_error"),
    *("reasoning_content", "reasoning_details", "reasoning_model"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a host sends to the model: each request of a session extends the one before it, so change nothing in place.

    Only a compaction changes the prefix: the request after it has a higher number of `compactions`.
    """

    system: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    compactions: int = 0
    # Memory updates by the place of the message that contains them: some APIs accept them as system messages.
    announcements: Mapping[int, str] = field(default_factory=dict)

    def text_only(self) -> Request:
        """Returns the request for a model without vision: a short placeholder replaces each image."""
        return replace(self, messages=[dict(text_only(message)) for message in self.messages])


def _announced_in(stored: Mapping[str, Any]) -> str:
    """The memory update that was added to a message; rules, reminders and overlay follow it."""
    sent = stored.get("api_content")
    sizes = {str(each.get("source")): each.get("characters") for each in stored.get("additions") or ()}
    size = sizes.get("announcement")
    if not isinstance(sent, str) or not isinstance(size, int):
        return ""
    end = len(sent) - sum(
        int(sizes[name] or 0) + len("\n\n") for name in ("rules", "reminders", "overlay") if name in sizes
    )
    return sent[end - size : end]


def wire_message(stored: dict[str, Any]) -> dict[str, Any]:
    """Returns a stored message as it was sent, with the text that was added at request time."""
    message = {key: stored[key] for key in WIRE_KEYS if key in stored}
    if message["role"] == "developer":
        message["role"] = "system"  # the older name of the role, which every model knows
    if "api_content" in stored:
        message["content"] = stored["api_content"]
    if message["role"] == "assistant" and not message.get("content") and not message.get("tool_calls"):
        refusal = stored.get("refusal")  # OpenAI's models put it here instead of in content
        # No API accepts a message without text and calls.
        message["content"] = refusal if isinstance(refusal, str) else ""
    return with_valid_calls(message)


def reply_message(reply: str, answered: Mapping[str, Any]) -> dict[str, Any]:
    """Builds the last message of a turn: the text the person saw, with the model's reasoning.

    The model's own content blocks are kept only if they contain exactly that text.
    """
    content = answered.get("content")
    whole = "".join(part.get("text", "") for part in content) if isinstance(content, list) else content
    kept = {key: part for key, part in answered.items() if key.startswith("reasoning")}
    return {"role": "assistant", "content": content if content and whole == reply else reply, **kept}


def parsed(arguments: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a call as an object; empty when they are not a JSON object."""
    return read_arguments(arguments)[0] or {}


def with_valid_calls(message: dict[str, Any]) -> dict[str, Any]:
    """Repairs the arguments of the message's calls: models sometimes write invalid JSON, and servers refuse it.

    The same arguments always become the same text, so that a message is sent with the same bytes every time.
    """
    calls = message.get("tool_calls") or ()
    functions = [call.get("function") if isinstance(call, dict) else None for call in calls]
    texts = [valid_arguments(each.get("arguments")) if isinstance(each, dict) else None for each in functions]
    if all(each is None or each.get("arguments") is text for each, text in zip(functions, texts, strict=True)):
        return message
    valid = [
        call if text is None else {**call, "function": {**call["function"], "arguments": text}}
        for call, text in zip(calls, texts, strict=True)
    ]
    return {**message, "tool_calls": valid}


def is_answer(message: Mapping[str, Any]) -> bool:
    """Whether this message ends a turn: text of the model without a tool call."""
    return message.get("role") == "assistant" and not message.get("tool_calls")


def unanswered_calls(messages: list[dict[str, Any]]) -> list[str]:
    """Lists the ids of the newest tool calls that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.add(str(message.get("tool_call_id")))
        elif message["role"] == "assistant":
            return [call["id"] for call in message.get("tool_calls") or () if call["id"] not in answered]
        else:
            break
    return []


def settled_until(messages: list[dict[str, Any]]) -> int:
    """How many messages precede a group of calls that still runs; all of them if none does."""
    if not unanswered_calls(messages):
        return len(messages)
    return next(at for at in range(len(messages) - 1, -1, -1) if messages[at]["role"] == "assistant")


def noted(notes: str, rules: str = "", fired: Sequence[Fired] = ()) -> dict[str, Any]:
    """The fields that record what was added to a tool's result in its message."""
    additions = sizes_of(folder_notes=notes, rules=rules)
    record_fired(additions, fired)
    return {"additions": additions} if additions else {}


def record_fired(additions: list[dict[str, Any]], fired: Sequence[Fired]) -> None:
    """Records which rules and reminders fired, and why, with the additions that showed them; receipts read it."""
    for each in additions:
        kind = _KINDS_FIRED.get(each["source"])
        if kind is not None:
            each["fired"] = [one.as_dict() for one in fired if one.kind == kind]


_KINDS_FIRED = {"rules": "rule", "reminders": "reminder"}
_REMINDERS = "[Reminders of the user that come up now; the user sees them, too:]"
_RULES = "[Standing rules of the user that apply here; follow them:]"
_HELD = (
    "This call was not run yet, because rules of the user apply to it: {rules} Do what they say first. If the call "
    "follows them, make it again; if it goes against them, do not make it and tell the user."
)


def shown(fired: Sequence[Fired]) -> str:
    """Renders the rules that fired for the model; "" when none did."""
    return "\n".join([_RULES, *(f"- {each.text}" for each in fired)]) if fired else ""


def reminding(fired: Sequence[Fired]) -> str:
    """Renders the reminders that are due for the model, with why they come up; "" when none is."""
    return "\n".join([_REMINDERS, *(f"- {each.text} ({each.trigger})" for each in fired)]) if fired else ""


def rule_to_ask(fired: Sequence[Fired]) -> str:
    """The texts of the rules that require the person's consent to this call; "" when none does."""
    return " ".join(each.text for each in fired if each.enforce == "ask")


def held_back(fired: Sequence[Fired], *, changes: bool) -> str:
    """The result that replaces a call once, so that the model reads the rules before it acts; "" lets the call run.

    A call that only reads runs, and so does one that needs the person's consent anyway.
    """
    if not changes or rule_to_ask(fired) or not any(each.enforce == "hold" for each in fired):
        return ""
    rules = [each.text for each in fired]
    told = _HELD.format(rules=" ".join(f"{text.rstrip('.!')}." for text in rules))
    return json.dumps({"success": False, "held": True, "error": told}, ensure_ascii=False)


def sizes_of(**parts: str) -> list[dict[str, Any]]:
    """The record of what was added to a message: source and size. The texts are already part of the message."""
    return [{"source": source, "characters": len(text)} for source, text in parts.items() if text]


# When a review is due: turns and tool calls of a conversation, counted in the database so that a restart keeps them.
#
# A model that saves memory or skills by itself needs no review yet: its own call restarts the count.

MEMORY, SKILLS = "memory", "skills"


class ReviewCounters:
    """Counts the turns and tool calls of one conversation, across all of its sessions."""

    def __init__(self, database: SessionDB, session_id: str) -> None:
        self._database = database
        self._key = f"nudges:{database.get_session(session_id).root}"
        kept = kept_object(database.get_meta(self._key))
        self.turns = int(kept.get("turns", 0))
        self.calls = int(kept.get("calls", 0))
        self._saved_memory = False
        self.answered = 0  # turns of this process; the note at the end is written only if there were any

    def move(self, database: SessionDB, session_id: str) -> None:
        """Continues in another database, to which the conversation moved, and stores the counts there."""
        self._database = database
        self._key = f"nudges:{database.get_session(session_id).root}"
        self.save()

    def called(self, name: str) -> None:
        """Counts a tool call; saving memory or a skill restarts the respective count."""
        self.calls += 1
        if name == "memory":
            self.turns, self._saved_memory = 0, True
        elif name == "skill_manage":
            self.calls = 0

    def turn_finished(self) -> None:
        """Counts an answered turn; `save` stores the counts."""
        self.turns = 0 if self._saved_memory else self.turns + 1
        self._saved_memory = False
        self.answered += 1

    def due(self, settings: Settings, tools: frozenset[str]) -> frozenset[str]:
        """Which reviews are due now: of memory, skills, both or neither."""
        counts = {
            MEMORY: (self.turns, settings.integer("memory.nudge_interval"), "memory" in tools),
            SKILLS: (self.calls, settings.integer("skills.creation_nudge_interval"), "skill_manage" in tools),
        }
        return frozenset(kind for kind, (count, every, offered) in counts.items() if offered and 0 < every <= count)

    def review_began(self, kinds: frozenset[str]) -> None:
        """Restarts the counts of a review that begins, so that a failing one is not repeated after every turn."""
        self.turns = 0 if MEMORY in kinds else self.turns
        self.calls = 0 if SKILLS in kinds else self.calls
        self.save()

    def save(self) -> None:
        """Stores the counts with the conversation."""
        kept = {"turns": self.turns, "calls": self.calls}
        self._database.set_meta(self._key, json.dumps(kept))


def kept_object(stored: object) -> dict[str, Any]:
    """Reads an object that the database keeps as JSON text; empty when there is none."""
    try:
        found = json.loads(stored) if isinstance(stored, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# Puts tool results directly after their calls: every model refuses a history that is out of order.
#
# Two programs that continue one conversation at the same time store their messages interleaved, a damaged row can
# remove a call or its result, and an import contains what other programs wrote, such as roles that no model knows.
# The stored messages stay as they are; only what is sent is put in order.

ROLES = ("system", "developer", "user", "assistant", "tool")
_LOST = "[A tool call without a result was here.]"


def in_tool_order(stored: Iterable[Numbered]) -> list[Numbered]:
    """Orders messages so that each group of results directly follows its calls; unsendable messages are left out."""
    given = [(number, _sendable(message)) for number, message in stored if message["role"] in ROLES]
    if _is_sound([message for _, message in given]):
        return given
    last = max((at for at, (_, message) in enumerate(given) if message["role"] != "tool"), default=-1)
    placed: set[int] = set()
    arranged: list[Numbered] = []
    for at, (number, message) in enumerate(given):
        if message["role"] == "tool":
            continue  # placed after its call, or left out because its call is lost
        results = _results(given, at, placed)
        placed.update(results.values())
        arranged.append((number, message if at == last else _answered(message, results)))
        arranged += [given[place] for place in results.values()]
    return arranged


def _is_sound(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether only the newest group of calls, which may still run, has no results."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return True


def _results(given: Sequence[Numbered], at: int, placed: set[int]) -> dict[str, int]:
    """The places of the results of one message's calls, by call id and in the order of the calls."""
    wanted = [call["id"] for call in given[at][1].get("tool_calls") or ()]
    open_calls = set(wanted)
    found: dict[str, int] = {}
    for place in range(at + 1, len(given)):
        if not open_calls:
            break
        message = given[place][1]
        # Some models restart their call ids in each answer: results after a later call with this id belong to it.
        open_calls -= {call["id"] for call in message.get("tool_calls") or ()}
        name = str(message.get("tool_call_id")) if message["role"] == "tool" else ""
        if name in open_calls and place not in placed:
            found[name] = place
            open_calls.remove(name)
    return {name: found[name] for name in wanted if name in found}


def _answered(message: Mapping[str, Any], results: Mapping[str, int]) -> Mapping[str, Any]:
    """The message without the calls that never got a result."""
    calls = message.get("tool_calls") or ()
    return _with_calls(message, [call for call in calls if call["id"] in results])


def _sendable(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the message with text or parts as content, and without calls that lack an id or a name."""
    content, calls = message.get("content"), message.get("tool_calls") or ()
    in_parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    if not (content is None or isinstance(content, str) or in_parts):
        message = {**message, "content": json.dumps(content, ensure_ascii=False)}
    return _with_calls(message, [call for call in calls if _is_call(call)])


def _is_call(given: Any) -> bool:
    function = given.get("function") if isinstance(given, dict) else None
    named = isinstance(function, dict) and isinstance(function.get("name"), str)
    return named and isinstance(given.get("id"), str)


def _with_calls(message: Mapping[str, Any], kept: list[Any]) -> Mapping[str, Any]:
    if len(kept) == len(message.get("tool_calls") or ()):
        return message
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": kept} if kept else {**rest, "content": message.get("content") or _LOST}


# Which text in a conversation came from outside: a page, a file, a tool's output, a recall.
#
# Each stored message says where its text comes from (`OUTSIDE`), so that a resumed session, a branch, a search and a
# block that replaces compacted messages know what the running session knew. `TYPED` is the part that the person typed
# of a message that also contains text they handed in, such as a pipe.

OUTSIDE, TYPED = "outside", "typed"
SYNTHETIC = "synthetic"
ENDED = "[This call did not finish: the turn ended before it returned.]"
# Tools whose results are not from outside; decides for results without the mark: imported ones, and older ones.
_OWN_TOOLS = frozenset(
    {"memory", "skills_list", "skill_view", "skill_manage", "context_compact", "todo", "write_file", "patch"}
)
MCP_PREFIX = "mcp_"  # of the names of MCP servers' tools (`tools.mcp.tool_name`)
_COMPACTED = "earlier in the conversation"
_ADDED = {"recalled": "recall", "overlay": "host"}
_KEPT_TEXT = 4_000  # characters of each outside text in a prompt that are stored with the session


def origin_of(stored: Mapping[str, Any]) -> str:
    """Where the text of a stored message comes from; "" when the person, the model or this program wrote it."""
    known = stored.get(OUTSIDE)
    if isinstance(known, str) and (known or WRITTEN in stored or stored.get("role") in ("tool", "assistant")):
        return known
    if stored.get("role") == "tool":
        return "" if stored.get("name") in _OWN_TOOLS or stored.get("content") == ENDED else "tool"
    if is_block(stored) or (stored.get("role") == "user" and is_synthetic(stored)):
        return "recall"  # written by an older version or another program: its sources are unknown
    additions = [each for each in stored.get("additions") or () if isinstance(each, dict)]
    if "api_content" in stored and not additions:
        return "recall"  # our sessions record every addition, so another program added this text
    return next(
        (_ADDED[each["source"]] for each in additions if each.get("source") in _ADDED and not each.get("vouched")), ""
    )


def words_of_person(stored: Mapping[str, Any]) -> str:
    """The part of a stored message that the person typed; "" when the text has another author."""
    by_program = WRITTEN in stored or SYNTHETIC in stored or is_block(stored) or is_synthetic(stored)
    if stored.get("role") != "user" or by_program:
        return ""
    if stored.get(OUTSIDE):
        return str(stored.get(TYPED, ""))
    content = stored.get("content")
    return content if isinstance(content, str) else ""


def sources_in(context: Context, *others: Source) -> list[Source]:
    """Lists the texts from outside in the context, after `others`.

    What the model wrote after reading such text counts only when the text itself is no longer in the context.
    """
    found = [(str(message["role"]), _source(message, origin)) for _, origin, message in context.outside()]
    read = [*others, *(source for role, source in found if role != "assistant")]
    return read or [source for _, source in found]


def _source(message: Mapping[str, Any], origin: str) -> Source:
    brought = message["role"] == "tool" and not is_block(message)
    public = brought and (origin == "web" or str(message.get("name")).startswith(MCP_PREFIX))
    return Source(origin=origin, name=_source_name(message, origin), text=_text(message), public=public)


def _source_name(message: Mapping[str, Any], origin: str) -> str:
    """The address or path in a tool's result, else the tool's name, else a phrase for its origin."""
    place = re.match(r'\{"success": true, "(?:url|path)": "([^"]{1,300})"', _text(message))
    named = place[1] if place else str(message.get("name") or _NAMES.get(origin, "a tool"))
    return _COMPACTED if is_block(message) else named


def outside_as_dicts(sources: Iterable[Source]) -> list[dict[str, str]]:
    """Sources of a prompt as dicts, to store them with its session."""
    return [{"origin": each.origin, "name": each.name, "text": each.text[:_KEPT_TEXT]} for each in sources]


def outside_from_dicts(stored: object) -> list[Source]:
    """Reads back the sources that `outside_as_dicts` stored; anything malformed is left out."""
    known = [each for each in stored if isinstance(each, dict)] if isinstance(stored, list) else []
    texts = ([str(each.get(name, "")) for name in ("origin", "name", "text")] for each in known)
    return [Source(origin=origin, name=name, text=text) for origin, name, text in texts]


_NAMES = {
    "recall": "memory provider",
    "tool": "a tool of the host",
    "host": "what the host adds to a turn",
    "piped": "piped input",
    "import": "an imported conversation",
}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


# Announces to a running session what changed in memory since its prompt was frozen: once, after the prefix.

_HEADLINE = "[Memory changed since this conversation began. From now on this holds:]"


class MemoryUpdates:
    """Finds changes of memory that the model does not know yet; `seen`, the last known ones, is kept for a resume."""

    def __init__(self, store: MemoryStore | None, session_id: str, seen: dict[str, int] | None = None) -> None:
        self._store = store
        self._session_id = session_id
        self.seen = dict(seen) if seen is not None else self._newest()

    def take(self) -> str:
        """What others changed since the last call; the session's own writes are already in its tool results."""
        if self._store is None:
            return ""
        lines = [line for target in self._store.targets for line in self._news(self._store, target)]
        return "\n".join([_HEADLINE, *lines]) if lines else ""

    def _news(self, store: MemoryStore, target: str) -> list[str]:
        changes = _changes(store, target)
        fresh = [change for change in changes if change.number > self.seen.get(target, 0)]
        if fresh:
            self.seen[target] = fresh[-1].number
        foreign = [change for change in fresh if change.cause.session != self._session_id]
        if not foreign:
            return []
        live = store.entries(target)
        added = [entry for change in foreign for entry in change.added() if entry in live]
        removed = [entry for change in foreign for entry in change.removed() if entry not in live]
        added, removed = (list(store.recalled(target, list(dict.fromkeys(each)))) for each in (added, removed))
        shown = blocked_in_prompt(added, FILES[target], lambda: store.provenance(target))
        gone = blocked_in_prompt(removed, FILES[target])
        return [f"- {target}, new: {entry}" for entry in shown] + [f"- {target}, no longer: {entry}" for entry in gone]

    def _newest(self) -> dict[str, int]:
        targets = self._store.targets if self._store else ()
        changes = {target: _changes(self._store, target) for target in targets}
        return {target: max((each.number for each in found), default=0) for target, found in changes.items()}


def _changes(store: MemoryStore | None, target: str) -> list[Change]:
    try:
        return store.history(target)[0] if store else []
    except StorageError:
        return []  # `hermes memory status` reports the unreadable history


_MOST_DIGESTS = 2_000  # on one receipt; the first one of a long history lists only its newest messages


@dataclass(slots=True)
class _Known:
    """What a context knows about a message besides the text that is sent."""

    stored: Mapping[str, Any]
    # The message without the additions, if it has any: only that belongs in a summary.
    said: dict[str, Any] | None = None
    outside: str = ""  # the origin of text from outside; "" for the person, the model and Hermes
    of_person: str = ""  # a person's own words
    # For a message with private parts, known only to this process: the text as typed, as sent, and as a resume sends.
    private: Private | None = None
    images: Sequence[Entry] = ()  # none before the newest summary: those messages keep placeholders
    pictured: dict[str, Any] | None = None  # the message with its images, as it is sent
    size: int | None = None  # tokens, by estimate
    digest: str = ""  # for receipts
    announced: str = ""  # the memory update that was added to it


class Context:
    """The messages a session sends, with their additions, and what is known about each."""

    def __init__(
        self, stored: Iterable[tuple[int, Mapping[str, Any]]] = (), *, private: Mapping[int, Private] | None = None
    ) -> None:
        """`private` is what this process still knows of messages whose private parts were not stored."""
        self.messages: list[dict[str, Any]] = []
        self.ids: list[int] = []
        self._known: list[_Known] = []
        self.compacted = False  # whether a block in it replaces messages
        self._receipted = 0  # number of messages that receipts cover, including the next answer; 0 if unknown
        originals = dict(stored)
        for number, message in in_tool_order(originals.items()):
            self.append(number, message, (private or {}).get(number))
            if message is not originals[number]:  # changed for sending; receipts use the digest of the stored form
                self._known[-1].digest = digest_of(originals[number])

    def append(
        self, number: int, stored: Mapping[str, Any], private: Private | None = None, images: Sequence[Entry] = ()
    ) -> None:
        """Appends a stored message; `private` and `images` hold what was typed and sent but may not be stored."""
        if IMAGES in stored:
            images, stored = images or stored[IMAGES], bare(public(stored))
        if (kept := storable(stored)) is not stored:
            private = private or (stored.get("content"), wire_message(dict(stored))["content"])
            stored = kept
        message = wire_message(dict(stored))
        known = _Known(stored, outside=origin_of(stored), of_person=words_of_person(stored))
        known.announced = _announced_in(stored) if "announced" in stored else ""
        if private is not None:
            known.private = (*private[:2], message["content"])
            message["content"] = private[1]
        if "api_content" in stored or private is not None:
            known.said = {**message, "content": stored.get("content")}
        if WRITTEN in stored and message["role"] != "tool":  # a block; a shortened tool result keeps the images
            for earlier in self._known:
                earlier.images = ()
        elif message["role"] == "user":
            known.images = list(images)
        self.compacted = self.compacted or WRITTEN in stored
        self.messages.append(message)
        self.ids.append(number)
        self._known.append(known)

    @property
    def announcements(self) -> dict[int, str]:
        """Memory updates by the place of the message that contains them."""
        return {at: known.announced for at, known in enumerate(self._known) if known.announced}

    @property
    def private(self) -> dict[int, Private]:
        """The private texts that only this process knows, by message id."""
        return {number: known.private for number, known in self._numbered() if known.private is not None}

    def to_send(self, read: Callable[[Entry], bytes | None], *, to_others: bool = False) -> list[dict[str, Any]]:
        """The messages with their images, loaded by `read`; with `to_others`, without private parts (`public`)."""
        messages = self.public() if to_others else self.messages
        return [
            _with_images(message, known, read, to_others=to_others) if known.images else message
            for message, known in zip(messages, self._known, strict=True)
        ]

    def asked(self) -> Content:
        """What the person said last, with its images, in the form that `prepare_turn` accepts."""
        known = next((known for known in reversed(self._known) if known.of_person), None)
        if known is None:
            return ""
        text = str(known.private[0]) if known.private else known.of_person
        return own_parts(text, known.images) if known.images else text

    def said(self) -> list[dict[str, Any]]:
        """The messages without additions and private parts: what a summary, a provider or an engine may see."""
        return [known.said or message for message, known in zip(self.messages, self._known, strict=True)]

    def stored(self) -> list[tuple[int, Mapping[str, Any]]]:
        """The messages as stored, with their ids."""
        return [(number, known.stored) for number, known in self._numbered()]

    def outside(self) -> list[tuple[int, str, dict[str, Any]]]:
        """The messages with text from outside: place, origin, and the message without private parts."""
        return [(at, known.outside, self._without_private(at)) for at, known in enumerate(self._known) if known.outside]

    def public(self) -> list[dict[str, Any]]:
        """The messages as they were sent, without private parts, for readers other than the session's model."""
        return [self._without_private(at) for at in range(len(self.messages))]

    def of_person(self) -> list[str]:
        """What the person said, as far as the context still contains it."""
        return [known.of_person for known in self._known if known.of_person]

    def new_digests(self, receipt_id: str) -> list[str]:
        """The digests of the messages since the newest receipt, which has this id.

        A longer history without a receipt is cut to its newest messages. The next message is the answer, which its own
        receipt covers.
        """
        new: Sequence[int] = range(self._receipted, len(self._known))
        if not self._receipted:
            new = self._since(receipt_id)
        self._receipted = len(self._known) + 1
        for at in new[-_MOST_DIGESTS:]:
            self._known[at].digest = self._known[at].digest or digest_of(self._known[at].stored)
        return [self._known[at].digest for at in new[-_MOST_DIGESTS:]]

    def _since(self, receipt_id: str) -> list[int]:
        """Places of the messages after the one with this receipt, and of those that a compaction wrote since."""
        receipts = {at: known.stored.get(RECEIPT) for at, known in enumerate(self._known)}
        ids = {str(each.get("id")): at for at, each in receipts.items() if isinstance(each, dict)}
        last = ids.get(receipt_id, -1) if receipt_id else -1
        number = self.ids[last] if last >= 0 else -1
        return [at for at in range(len(self.ids)) if at > last or self.ids[at] > number]

    def this_turn(self) -> list[Mapping[str, Any]]:
        """The messages after the person's newest one, as stored."""
        asked = (at for at in range(len(self._known) - 1, -1, -1) if self._known[at].of_person)
        return [known.stored for known in self._known[next(asked, -1) + 1 :]]

    def sizes(self) -> list[int]:
        """Estimated tokens of each message, cached after the first estimate."""
        return [self._size(at) for at in range(len(self.messages))]

    def tokens(self, start: int = 0) -> int:
        """Estimated tokens of the messages from `start` on."""
        return sum(self._size(at) for at in range(start, len(self.messages)))

    def replaced(self, ids: Sequence[int], written: Mapping[int, Mapping[str, Any]]) -> Context:
        """Builds the context after a compaction: kept messages stay the same objects, new ones come from `written`."""
        places = {number: at for at, number in enumerate(self.ids)}
        new = Context()
        for number in ids:
            if number in written:
                new.append(number, {**written[number], WRITTEN: True})
            else:
                at = places[number]
                new.messages.append(self.messages[at])
                new.ids.append(number)
                new._known.append(replace(self._known[at]))
        new.compacted = new.compacted or self.compacted
        return new

    def renumbered(self, ids: Sequence[int]) -> None:
        """Gives the messages the ids they have in another session."""
        self.ids = list(ids)

    def _numbered(self) -> Iterable[tuple[int, _Known]]:
        return zip(self.ids, self._known, strict=True)

    def _without_private(self, at: int) -> dict[str, Any]:
        message, private = self.messages[at], self._known[at].private
        return message if private is None else {**message, "content": private[2]}

    def _size(self, at: int) -> int:
        known = self._known[at]
        if known.size is None:
            known.size = estimate_message(self.messages[at])
        return known.size + sum(map(tokens, known.images))


def _with_images(
    message: dict[str, Any], known: _Known, read: Callable[[Entry], bytes | None], *, to_others: bool
) -> dict[str, Any]:
    """Builds the message with its images once: model clients recognise the object and reuse its bytes."""
    if to_others and known.private is not None:
        shown = public_images(known.private[0], known.images)
        return {**message, "content": as_parts(message["content"], shown, read)}
    if known.pictured is None:
        known.pictured = {**message, "content": as_parts(message["content"], known.images, read)}
        if known.private is None:  # images of private messages are stored nowhere else, so their data stays
            known.images = [without_data(entry) for entry in known.images]
    return known.pictured


# The interfaces through which compaction uses the session.


class Boundary(Protocol):
    """The hooks of external memory that compaction calls; `External` implements them."""

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """Announces messages that are about to be taken out; returns text for the summary."""

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        """Announces the end of a stretch of the conversation."""

    def on_session_switch(
        self, new_session_id: str, *, parent_session_id: str = "", reset: bool = False, **kwargs: Any
    ) -> None:
        """Announces the session in which the conversation continues."""


class Host(Protocol):
    """What compaction needs from a session; `MemorySession` implements it."""

    id: str
    system_prompt: str
    context: Context
    last_id: int
    compactions: int
    boundary: Boundary
    notices: Notices
    model: str

    def request(self) -> Request:
        """The request for the current context."""

    def overhead(self) -> int:
        """Estimated tokens of tools and prefill, which every request carries."""

    def sources(self) -> list[Source]:
        """The texts from outside that the model has read."""

    def rebuilt_prompt(self) -> Prompt:
        """The system prompt, built again from its sources."""

    def announced(self) -> dict[str, int]:
        """The newest change of each memory file, which a rebuilt prompt already includes."""

    def go_on(
        self,
        session_id: str,
        context: Context,
        last_id: int,
        *,
        system_prompt: str,
        seen: dict[str, int],
    ) -> None:
        """Continues with another context, and perhaps as another session."""

    def reload(self) -> None:
        """Loads what another process stored in the session."""


# The contents of a receipt, collected when a turn ends.

BETWEEN = "\n\n"  # between two sections of a prompt, and between a message and what is added to it


def entries_in_prompt(
    store: MemoryStore | None, prompt: str, sections: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str, float | None]]:
    """Lists the entries that the prompt shows, as (target, key, origin, time)."""
    found: list[tuple[str, str, str, float | None]] = []
    for section, text in zip(sections, section_texts(sections, prompt), strict=True):
        target = section["name"]
        if store is None or target not in store.targets or not text:
            continue
        for entry, known in provenance(entries_in(text), _changes(store, target)).items():
            found.append((target, key_of(entry), known.origin, known.change.at if known.change else None))
    return found


def written_in(
    turn: Sequence[Mapping[str, Any]],
    toolbox: Toolbox,
    store: MemoryStore | None,
    session_id: str,
    seen: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Lists what a turn changed: changes of memory after those `seen`, and successful calls of tools that write."""
    written: list[dict[str, Any]] = []
    for target in store.targets if store is not None else ():
        written += [
            {"kind": "memory", "target": target, "change": each.id, "action": each.action, "by": each.cause.origin}
            for each in _changes(store, target)
            if each.number > seen.get(target, 0) and each.cause.session == session_id
        ]
    for message in turn:
        tool = toolbox.get(str(message.get("name") or "")) if message.get("role") == "tool" else None
        sink = getattr(tool, "sink", "")
        if sink and sink not in ALL_TARGETS and _succeeded(message):
            written.append({"kind": sink, "tool": message["name"], "call": message.get("tool_call_id")})
    return written


def staged_in(turn: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ids of the pending writes that the tools of a turn created."""
    results = (_STAGED.match(str(message.get("content"))) for message in turn if message.get("role") == "tool")
    return [found[1] for found in results if found]


# How the results of our tools begin.
_STAGED = re.compile(r'\{"success": true, "staged": true, "pending_id": "([^"]+)"')


def _succeeded(message: Mapping[str, Any]) -> bool:
    text = str(message.get("content"))
    return text.startswith('{"success": true') and not _STAGED.match(text)


def section_texts(sections: Sequence[Mapping[str, Any]], prompt: str | None) -> list[str | None]:
    """Cuts the prompt into its sections; None for each if the prompt is not the one that was measured."""
    ends, at = [], 0
    for each in sections:
        ends.append(at + each["characters"])
        at = ends[-1] + len(BETWEEN)
    if prompt is None or not ends or ends[-1] != len(prompt):
        return [None] * len(sections)
    return [prompt[end - each["characters"] : end] for each, end in zip(sections, ends, strict=True)]
