"""How a session begins, branches, is titled and ends, and how it announces memory changes."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, StorageError
from hermes.base.values import value
from hermes.compaction.boundaries import last_request
from hermes.conversations.context import COPY, ORDER, WRITTEN, Contexts, first_id
from hermes.conversations.database import Opened
from hermes.session.context import Announcements, Nudges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from hermes.base.events import Usage
    from hermes.conversations.database import SessionDB
    from hermes.session.compaction import Compactor
    from hermes.session.models import Helper
    from hermes.session.parts import SessionParts
    from hermes.storage.records import StoredMessage


def take_back(database: SessionDB, session_id: str) -> tuple[str, list[StoredMessage]]:
    """Marks the person's newest message and everything after it as taken back; returns its text and what is left."""
    context = Contexts(database).live(session_id)
    place = next((place for place in reversed(range(len(context))) if _by_a_person(context[place])), None)
    spoken = list(Contexts(database).originals(session_id))
    asked = last_request([each.message for each in spoken])
    if asked is not None and first_id(spoken[asked]) not in map(first_id, context):
        raise NotFound(
            "the last exchange was compacted, and a summary cannot be undone: "
            f"`hermes sessions restore {session_id}` makes a conversation in which it can"
        )
    if place is None:
        raise NotFound("there is nothing to undo in this conversation")
    Contexts(database).take_back(session_id, context[place:])
    database.sync()
    return context[place].text, context[:place]


def branch_off(database: SessionDB, session_id: str, title: str | None = None) -> str:
    """A conversation of its own that begins with everything said so far; returns its id.

    It gets the same prompt and tools, so the provider's cache serves it, too.
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
    Nudges(database, session_id).pass_taint_to(branch)
    database.sync()
    return branch


def _copied(original: StoredMessage) -> dict[str, Any]:
    """The message for another session, in the order of the context, with the id of the first that said it."""
    return {COPY: original.id, **{key: part for key, part in original.message.items() if key != ORDER}}


def _by_a_person(message: StoredMessage) -> bool:
    return message.role == "user" and WRITTEN not in message.message


# Names a conversation after its first turn: from the person's words, and better by a helper model when one is set.

LONGEST = 60
_ASK = (
    "Name this conversation in two to six words, in the language it is held in. Answer with the name only: no quotation"
    " marks, no full stop, no explanation."
)
_SHOWN = 1_000  # characters of each side that the helper sees
_MARKUP = re.compile(r"^[\s#>*`\-\d.)]+|[`*_]{1,3}")
_GREETING = re.compile(r"^(?:hi|hello|hey|hallo|please|bitte)\b[\s,!.:]*", re.IGNORECASE)


def title_from(text: str) -> str:
    """A short name out of what a person wrote: its first line that says something, cut at a word."""
    lines = (" ".join(_MARKUP.sub("", line).split()) for line in text[:5_000].splitlines())
    first = next((line for line in lines if any(char.isalnum() for char in line)), "")
    said = _GREETING.sub("", first) or first
    if len(said) > LONGEST:
        cut = said[: LONGEST - 1]
        said = (cut.rpartition(" ")[0] if " " in cut[LONGEST // 2 :] else cut).rstrip(" ,;:.") + "…"
    return said[:1].upper() + said[1:]


class Titles:
    """Gives one conversation its name; `rename` stores it and is only called by `start` and `settle`."""

    def __init__(self, rename: Callable[[str], object], helper: Helper | None) -> None:
        self._rename = rename
        self._helper = helper
        self._worker: threading.Thread | None = None
        self._better = ""

    def start(self, asked: str, reply: str) -> None:
        """Names the conversation after its first turn and lets the helper think of a better name meanwhile."""
        if title := title_from(asked):
            self._rename(title)
        if self._helper is not None:
            self._worker = threading.Thread(target=self._think, args=(asked, reply), daemon=True, name="title")
            self._worker.start()

    def settle(self, seconds: float = 0) -> None:
        """Takes the helper's name when it is there; waits for it at most so long."""
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
            return  # the name from the person's words stays
        self._better = title_from(named.strip().strip("\"'“”„«»."))


# Why a provider's cache served so little of a prompt.

_LIFETIMES = {"5m": 300, "1h": 3600}
_GOOD_SHARE = 0.5


def what_broke_the_cache(usage: Usage, *, first: bool, idle_seconds: float, ttl: str, same_model: bool) -> str:
    """Why so little of the prompt came from the cache; empty when enough did."""
    if usage.cached_share >= _GOOD_SHARE or not usage.input_tokens:
        return ""
    if first:
        return "the first turn of a session fills the cache"
    if not same_model:
        return "the model changed"
    if idle_seconds > _LIFETIMES[ttl]:
        return f"the pause was longer than the cache lives ({ttl})"
    return "the prefix did not move; the provider did not keep it"


# When a conversation counts as ended: from the moment nobody has it open until somebody resumes it.
#
# Only ended conversations are ever pruned. One whose process was killed is ended by the next that opens any. A chat
# on a platform goes on when a program stops; the gateway ends it. A reason that says what the conversation became
# stays.

CLOSED = "agent_close"


def end(parts: SessionParts, session_id: str, compactor: Compactor | None, said: list[dict[str, Any]]) -> None:
    """Closes a session in the documents' order: providers hear of the end and shut down, then the engine hears."""
    parts.external.close(said)
    if compactor is not None:
        compactor.close()
    if not parts.storage.is_long_lived:
        opened = Opened(parts.database)
        with opened.together():
            with suppress(NotFound):  # deleted meanwhile, because nobody had said anything or by somebody else
                parts.database.end_session(session_id, CLOSED)
            opened.clear(parts.storage.opened_as)
    parts.close()


@value
class About:
    """What is known of a new session; `parent` is the session that delegates to it."""

    source: str
    title: str | None
    model: str
    cwd: str | None
    parent: str | None

    def as_told_to_providers(self, identity: Mapping[str, Any] | None) -> dict[str, Any]:
        """`identity` is what a host knows besides, and better."""
        return {
            "platform": self.source,
            "session_title": self.title,
            "cwd": self.cwd,
            "agent_context": "subagent" if self.parent else "primary",
            "parent_session_id": self.parent,
            **(identity or {}),
        }


@value
class PromptOptions:
    """What a host wants of the prompt; stored, because a compaction builds it again."""

    system_message: str
    skip_memory: bool
    skip_context_files: bool
    today: date | None


def begin(parts: SessionParts, session_id: str, about: About, options: PromptOptions) -> list[StoredMessage]:
    """Stores the row of a new session, in which nothing was said yet."""
    row: dict[str, Any] = {
        "source": about.source,
        "session_id": session_id,
        "title": about.title,
        "model": about.model or None,
        "cwd": about.cwd,
        "project": parts.project or None,
        "parent_session_id": about.parent,
        "kind": "delegate" if about.parent else None,
        **_prompt_and_tools(parts, about, options),
    }
    try:
        _create(parts, row)
    except StorageError as error:  # the session opens all the same
        spare = parts.storage.fall_back(error)
        known = {"parent_session_id": None, "kind": None}  # the session above is not in the spare database
        _create(parts, row | known)
        spare.begun(session_id, parent=about.parent)
        parts.notices.add("storage", spare.in_words())
    return []


def _create(parts: SessionParts, row: Mapping[str, Any]) -> None:
    with Opened(parts.database).together():
        parts.database.create_session(**row)
        parts.storage.mark_open(row["session_id"])


def go_on(parts: SessionParts, session_id: str, about: About, options: PromptOptions) -> list[StoredMessage]:
    """What the model knows of a session that is resumed; one that was not begun here gets a prompt and tools now."""
    from hermes.conversations.context import Contexts

    database = parts.storage.readable
    added: dict[str, Any] = {}
    if "tools" not in database.session_details(session_id):
        added = _prompt_and_tools(parts, about, options)
    try:
        parts.storage.mark_open(session_id)
        if added:
            if database.get_session(session_id).cwd is None:
                database.update_session(session_id, cwd=about.cwd)
            Contexts(database).furnish(session_id, **added)
        return Contexts(database).live(session_id)
    except StorageError as error:  # what can still be read goes on in a spare database
        with parts.storage.reading_after(error) as past:
            row, details = past.get_session(session_id), past.session_details(session_id)
            known = Contexts(past).live(session_id)
        spare = parts.storage.fall_back(error)
        spare.carry(row, details | added, ((each.id, each.message) for each in known))
        parts.notices.add("storage", spare.in_words())
        return Contexts(spare.db).live(session_id)


def _prompt_and_tools(parts: SessionParts, about: About, options: PromptOptions) -> dict[str, Any]:
    """The prompt and the tools of a session, which stay as they are, and what it takes to build the prompt again."""
    inputs = {**vars(options), "platform": about.source}
    prompt = parts.build_prompt(model=about.model, cwd=about.cwd, **inputs)
    for notice in prompt.notices:
        parts.notices.add("context", notice)
    return {
        "system_prompt": prompt.text,
        "prompt_sections": prompt.sizes(),
        "tools": parts.toolbox.schemas(),
        "announced": Announcements(parts.store, "").seen,
        "prompt_inputs": {**inputs, "today": options.today.isoformat() if options.today else None},
    }
