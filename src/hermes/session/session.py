"""`MemorySession`: the front door for anybody's agent loop.

    with MemorySession.open(source="my-agent") as session:
        request = session.prepare_turn("what did we decide about auth?")
        …send request.system, request.messages, request.tools to a model; run its calls through session.call_tool…
        session.finish_turn("We chose …")

The system prompt is built once, stored with the session and reused byte for byte, also after a resume. Whatever is
added to a turn later (recalled memory, announcements) goes behind it, on a copy of the user's message.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from hermes.safety.fence import build_memory_context_block
from hermes.safety.private import UNCLOSED, is_unclosed, public_words, without_private
from hermes.session.announcements import Announcements
from hermes.session.beginning import About, PromptWishes, begin, go_on
from hermes.session.branching import branch_off, take_back
from hermes.session.compacting import Compacting, last_count, seen_changes
from hermes.session.context import Context
from hermes.session.ending import CHAT, end
from hermes.session.nudges import Nudges
from hermes.session.outside import ENDED, OUTSIDE, origin_of
from hermes.session.recording import expect_result, refuse_strange_role
from hermes.session.requests import (
    Request,
    is_answer,
    noted,
    parsed,
    reply_message,
    sizes_of,
    unanswered_calls,
    with_valid_calls,
)
from hermes.session.reviewable import Reviewable
from hermes.session.usage import what_broke_the_cache
from hermes.session.wiring import open_parts
from hermes.storage.conversations import new_id
from hermes.storage.images import IMAGES, public_images, taken_in, without_bytes
from hermes.tools.registry import CUT_OFF, failure, to_json
from hermes.vocabulary.closing import Closing
from hermes.vocabulary.errors import NotFound, OutOfOrder, SettingsError, StorageError
from hermes.vocabulary.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from hermes.providers.base import MemoryProvider
    from hermes.session.host import Boundary
    from hermes.session.wiring import Parts
    from hermes.settings.home import Home
    from hermes.storage.conversations import Session
    from hermes.storage.images import Content, Entry
    from hermes.storage.transcripts import StoredMessage
    from hermes.tools.registry import Tool

Kind = TypeVar("Kind", bound="MemorySession")
_BROKEN_OFF = "[This turn was broken off before there was an answer.]"


class MemorySession(Compacting, Reviewable, Closing):
    """One conversation with its memory. Besides the calls it has `id`, `system_prompt` and `notices`."""

    # Told of every request; the test-suite checks here that no request moves the prefix of the one before it.
    observers: ClassVar[list[Callable[[str, Request], None]]] = []

    def __init__(self, parts: Parts, session_id: str, stored: list[StoredMessage]) -> None:
        self.id = session_id
        self._parts = parts
        parts.compact_range = self.compact_range
        parts.taint.earlier, parts.taint.said = self.sources, self.said
        self.notices = parts.notices
        self.external = parts.external
        self.boundary: Boundary = parts.external
        self._details = details = parts.database.session_details(session_id)
        self.system_prompt: str = details["system_prompt"]
        self._tools: list[dict[str, Any]] = details["tools"]
        self.context = Context((each.id, each.message) for each in stored)
        self.compactions = max((each.message.get("compactions", 0) for each in stored), default=0)
        self._compactor = None
        self._real = last_count(stored)
        self._prefill: list[dict[str, Any]] = []
        self._unfinished = False  # nothing followed the newest words of the person, here or in the process before
        self._announcements = Announcements(parts.store, session_id, seen_changes(stored, details["announced"]))
        self._row = row = parts.database.get_session(session_id)
        self._hints = parts.subdirectory_hints(row.cwd)
        self.last_id, self.model = row.last_id, row.model or ""
        self._answered = row.last_active if stored else None
        self.nudges = Nudges(parts.database, session_id)
        self._said = ""  # the person's words of this turn

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | Home | None = None,
        source: str = "cli",
        *,
        resume: str | None = None,
        title: str | None = None,
        model: str = "",
        context_length: int | None = None,
        cwd: str | None = None,
        project: str | None = None,
        system_message: str = "",
        tools: Sequence[Tool] = (),
        prefill: Sequence[Mapping[str, Any]] = (),
        owner: str = "local",
        skip_memory: bool = False,
        skip_context_files: bool = False,
        today: date | None = None,
        toolsets: Collection[str] | None = None,
        must_store: bool | None = None,
        identity: Mapping[str, Any] | None = None,
        providers: Sequence[MemoryProvider] = (),
        follows: MemorySession | None = None,
        reason: str = "new",
        makers: Mapping[str, Callable[[], Tool]] | None = None,
        parent: str | None = None,
    ) -> Self:
        """A new session, or with `resume` (an id or a title) one that goes on where it stopped.

        `home` is a folder ($HERMES_HOME, else ~/.hermes), `source` a name for the program. `context_length` is how many
        tokens the host's model takes, for a model that is not known by its name; hand it in on resume too. `project`
        scopes memory and search: a name, a path inside a repository, "" for none; left out, the repository around `cwd`
        counts. `prefill` are messages that every request begins with and that are never stored: hand the same in on
        resume. `toolsets` replaces what the settings enable for this platform (`source`). `identity` is what a gateway
        knows about the chat, for memory providers: user_id, user_name, chat_id, thread_id and the like; `providers` are
        used besides those of the settings. A session that `follows` another in one program takes over its providers,
        which hear of the change (`reason`: new, reset, resume or branch); the other is closed after it. `tools` are the
        host's own, `makers` how to make more of them by name when they are needed. `parent` is the session that
        delegates to this one.

        When `state.db` is locked or damaged, the session goes on with a notice and keeps the conversation in `unsaved/`
        until it can be added. With `must_store` (default: the setting `sessions.required`) it raises StorageError.
        """
        parts = open_parts(
            home,
            owner=owner,
            extra=tools,
            makers=makers,
            with_memory=not skip_memory,
            project=project,
            cwd=cwd,
            resume=resume,
            toolsets=toolsets,
            platform=source,
            must_store=must_store,
        )
        about = About(source=source, title=title, model=model, cwd=cwd, parent=parent)
        wishes = PromptWishes(
            system_message=system_message, skip_memory=skip_memory, skip_context_files=skip_context_files, today=today
        )
        try:
            parts.context_length = context_length
            session_id = cls._tip(parts, resume) if resume is not None else new_id(time.time())
            known = about.as_told_to_providers(identity)
            parts.goes_on = CHAT in known
            if not skip_memory:
                before = follows.external if follows is not None else None
                parts.start_external(session_id, owner=owner, identity=known, handed=providers, follows=before)
            stored = (begin if resume is None else go_on)(parts, session_id, about, wishes)
            return _following(cls._ready(parts, session_id, stored, prefill), follows, reason)
        except BaseException:
            parts.close()
            raise

    def prepare_turn(self, text: Content, *, recalled: str = "", overlay: str = "") -> Request:
        """Saves the user's message and returns what to send.

        `text` may be a list of parts with images, as OpenAI or Anthropic define them; `image_part` makes one of a file.
        `recalled` is memory from elsewhere, wrapped so that the model cannot mistake it for the user's words; `overlay`
        is what a host adds to this turn only. Both go on a copy: the clean message is what is stored and searched.
        `<private>…</private>` in the text is sent and kept in this process; all that is stored of it is `[private]`.
        When nothing followed the message before it, because the host failed there, that turn is marked as broken off.
        """
        self._refuse_closed()
        text, images = taken_in(text)
        self._store_again()
        self._close_open_calls()
        self._close_broken_turn()
        self.preflight()
        self._parts.toolbox.start_turn()
        kept = without_private(text)
        if is_unclosed(text):
            self.notices.add("private", UNCLOSED)
        handed, found = recalled, self.external.recall(public_words(text))
        recalled = "\n\n".join(filter(None, [handed, found]))
        announced = self._announcements.take()
        additions = [part for part in (build_memory_context_block(recalled), announced, overlay) if part]
        message: dict[str, Any] = {"role": "user", "content": kept}
        if images and (stored := public_images(text, images)):
            message[IMAGES] = stored
        if additions:
            message["api_content"] = "\n\n".join([kept, *additions])
            message["additions"] = sizes_of(recalled=recalled, announcement=announced, overlay=overlay)
            if recalled:
                message["additions"][0]["from"] = ["host"] * bool(handed) + self.external.recalled_by * bool(found)
        if announced:
            message["announced"] = dict(self._announcements.seen)
        if recalled:
            self._taint("recall", "memory provider", recalled)
        self._said = text if kept == text else ""  # a statement with a gap in it is no statement to keep
        self._save(message, None if kept == text else (text, "\n\n".join([text, *additions])), images)
        self._unfinished = True
        return self.request()

    def take_up(self) -> None:
        """The turn that another process did not finish goes on, instead of being marked as broken off."""
        self._unfinished = False

    def request(self) -> Request:
        """What to send now; call it again after tool results for the next step of the turn."""
        messages = [*self._prefill, *self.context.to_send(self._image)]
        request = Request(system=self.system_prompt, messages=messages, tools=self._tools, compactions=self.compactions)
        for observe in self.observers:
            observe(self.id, request)
        return request

    def record(self, message: Mapping[str, Any]) -> None:
        """Saves a message of the host's own loop: an assistant message with tool calls, or a tool's result."""
        self._refuse_closed()
        refuse_strange_role(message)
        message = without_bytes(message, strict=True)
        if message.get("role") == "tool":
            self._taint("tool", "a tool of the host", str(message.get("content") or ""))
            if not origin_of(message):  # a host's tool may have the name of one of ours
                message = {**message, OUTSIDE: "tool"}
        self._save(dict(message))

    def record_result(self, call_id: str, content: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Saves the result of a host's own tool and returns what the model should see of it.

        OutOfOrder when no such call waits for one. When the arguments lead into a folder with notes for agents that the
        session has not seen (AGENTS.md and the like), they follow the result: the prompt must not move any more.
        """
        self._refuse_closed()
        self._kept(lambda: expect_result(self, self._parts.database, call_id, content))
        hint = self._hints.for_call(arguments or {}) if self._hints else ""
        shown = f"{content}\n\n{hint}" if hint else content
        self.nudges.called("")
        self._taint("tool", "a tool of the host", shown)
        self._save({"role": "tool", "tool_call_id": call_id, "content": shown, **noted(hint)})
        return shown

    def call_tool(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None,
        *,
        call_id: str | None = None,
        cut_off: bool = False,
    ) -> str:
        """Runs one of our tools and returns its JSON result; call and result are part of the conversation.

        A call whose arguments the output limit `cut_off` is not run: its result tells the model to make it shorter.
        """
        import json

        self._refuse_closed()
        if call_id is None or call_id not in unanswered_calls(self.context.messages):
            call_id = call_id or f"call_{len(self.context.messages)}_{os.urandom(4).hex()}"
            text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments or {}), ensure_ascii=False)
            call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
            self._save({"role": "assistant", "content": None, "tool_calls": [call]})
        if cut_off:
            result = to_json(failure(CUT_OFF))
            self._save({"role": "tool", "tool_call_id": call_id, "name": name, "content": result, OUTSIDE: ""})
            return result
        self.external.calling(call_id)
        result = self._parts.toolbox.call(name, arguments)
        self.external.calling("")
        notes = self._notes_for(name, arguments)
        result += notes
        self.nudges.called(name)
        self._counting(lambda: self.nudges.tainted(self._parts.taint.origin))
        brings = "file" if notes else self._parts.toolbox.brings(name)
        told = {"role": "tool", "tool_call_id": call_id, "name": name, "content": result, OUTSIDE: brings}
        self._save({**told, **noted(notes)})
        return result

    def finish_turn(
        self,
        reply: str,
        *,
        interrupted: bool = False,
        usage: Usage | Mapping[str, Any] | None = None,
        model: str = "",
        message: Mapping[str, Any] | None = None,
    ) -> None:
        """Saves the answer; an interrupted one is marked and kept from external memory.

        `message` is the model's own message, when the host has it: its reasoning is kept and sent back.
        With `usage`, as the provider's API returned it (and `model`, when it is not the session's), the share of the
        prompt that came from the provider's cache is recorded, and why, when it was small. OutOfOrder when there is no
        turn to finish.
        """
        self._refuse_closed()
        if not self.context.messages or is_answer(self.context.messages[-1]):
            raise OutOfOrder("there is no turn to finish: prepare_turn begins one, and this one has its answer already")
        self._close_open_calls()
        saved = reply_message(reply, message or {})
        if interrupted:
            saved["interrupted"] = True
        counted = Usage.of(usage) if usage is not None else None
        if real := self._real_tokens(counted):
            saved["prompt_tokens"] = real
        if counted is not None:
            saved |= {"usage": counted.as_dict(), "model": model or self.model}
            saved["cache"] = {"share": round(counted.cached_share, 3), "broken_by": self._cache_miss(counted, model)}
        self._save(saved)
        if counted is not None:
            more = counted.as_dict() | self._cost(counted, model or self.model)
            self._kept(lambda: self._parts.database.update_session(self.id, api_call_count=1, **more))
            self._answered, self.model = time.time(), model or self.model
        if not interrupted:
            self._counting(self.nudges.turn_finished)
            self.capture(self._said)
        self._kept(lambda: self._parts.database.sync())  # noqa: PLW0108 - it may be another one then
        self.external.finish(reply, self.context.said(), interrupted=interrupted)

    def _cost(self, usage: Usage, model: str) -> dict[str, float]:
        from hermes.llm.catalogue import cost_of

        settings = self._parts.settings
        ttl = settings.text("prompt_caching.cache_ttl")
        try:
            dollars = cost_of(model, usage, own=settings.get("model.prices"), cache_ttl=ttl)
        except SettingsError as error:
            self.notices.add("settings", str(error))
            return {}
        return {} if dollars is None else {"estimated_cost_usd": dollars}

    def undo(self) -> str:
        """Takes the last exchange out of the context and returns what the person had said in it."""
        self._refuse_closed()
        said, kept = take_back(self._parts.database, self.id)
        taken = sorted(self.context.private.keys() - {each.id for each in kept})
        said = str(self.context.private[taken[0]][0]) if taken else said
        self.reload()
        self._unfinished = False
        began = self._parts.database.session_details(self.id)["announced"]
        self._announcements = Announcements(self._parts.store, self.id, seen_changes(kept, began))
        self.external.on_session_switch(self.id, rewound=True, reason="undo")
        return said

    def asked(self) -> Content:
        """What the person said last, with its images: `prepare_turn` takes it again after `undo`."""
        return self.context.asked()

    def branch(self, title: str | None = None) -> str:
        """The id of a new conversation that begins with this one; open it with `resume`."""
        if self._parts.spare is not None:
            raise StorageError(f"a conversation cannot branch before it is stored: {self._parts.spare.why}")
        return branch_off(self._parts.database, self.id, title)

    def rename(self, title: str | None) -> str | None:
        """Gives the conversation a title and returns it, with ` #N` when another has it."""
        return self._kept(lambda: self._parts.database.rename(self.id, title))

    def drop_if_empty(self) -> None:
        """Forgets a session in which nobody has said anything, so that no list shows it; the session is over then."""
        if not self.about().last_id:
            self._parts.database.delete(self.id)

    def about(self) -> Session:
        """The stored facts about this session: title, source, tokens, times."""
        return self._kept(lambda: self._parts.database.get_session(self.id))

    def close(self) -> None:
        """Ends the session; a second call does nothing."""
        if not self._parts.has_database:
            return
        self._store_again(closing=True)
        self._tell_unsaved()
        try:
            self.write_note()
            end(self._parts, self.id, self._compactor, self.context.said())
        except StorageError as error:
            if self._parts.must_store:
                raise
            # What was said is stored. The mark that this process has it open goes when the next one looks.
            self.notices.add("storage", f"the end of this conversation was not noted: {error}")
        finally:
            self._parts.close()

    @classmethod
    def _tip(cls, parts: Parts, name: str) -> str:
        found = parts.readable.resolve(name)
        if found is None:
            raise NotFound(f"there is no session {name!r}; `hermes sessions list` shows them")
        return parts.readable.tip(found.id).id

    @classmethod
    def _ready(
        cls, parts: Parts, session_id: str, stored: list[StoredMessage], prefill: Sequence[Mapping[str, Any]]
    ) -> Self:
        parts.bind(session_id)
        session = cls(parts, session_id, stored)
        session._prefill = [dict(message) for message in prefill]
        session.start_engine()
        session._close_open_calls()
        session._unfinished = bool(stored) and session.context.messages[-1]["role"] in ("user", "tool")
        if session._unfinished:  # whoever goes on with this turn has read what the process before it had read
            for source in session.sources(since_person=True):
                parts.taint.note(source.origin, source.name, source.text)
        return session

    def overhead(self) -> int:
        """Tokens of what every request carries besides the prompt and the conversation."""
        import json

        from hermes.vocabulary.tokens import estimate

        return estimate(json.dumps([self._tools, self._prefill], ensure_ascii=False))

    def _real_tokens(self, usage: Usage | None) -> int:
        """What the last request of this turn really took; usage of a whole turn tells only when it was one call."""
        if usage is not None and self.context.messages and self.context.messages[-1]["role"] == "user":
            self.counted(usage)
        return self._compactor.real_tokens if self._compactor is not None else 0

    def _cache_miss(self, usage: Usage, model: str) -> str:
        return what_broke_the_cache(
            usage,
            first=self._answered is None,
            idle_seconds=time.time() - (self._answered or 0),
            ttl=self._parts.settings.text("prompt_caching.cache_ttl"),
            same_model=model in ("", self.model),
        )

    def _notes_for(self, name: str, arguments: str | Mapping[str, Any] | None) -> str:
        """Notes for agents in a folder that one of our file tools entered for the first time."""
        if self._hints is None or not getattr(self._parts.toolbox.get(name), "works_in_folders", False):
            return ""
        notes = self._hints.for_call(given) if (given := parsed(arguments)) else ""
        if notes:  # also by a tool that brings in nothing itself, such as one that writes a file
            self._parts.taint.note("file", "notes for agents", notes)
        return notes

    def _close_open_calls(self) -> None:
        """A call without a result would make the history invalid for every model; it gets one that says why."""
        for call_id in unanswered_calls(self.context.messages):
            self._save({"role": "tool", "tool_call_id": call_id, "content": ENDED})

    def _close_broken_turn(self) -> None:
        """A turn that was not finished, here or in another process, is marked before the next one begins."""
        if self._unfinished:
            self._save({"role": "assistant", "content": _BROKEN_OFF, "interrupted": True})

    def _refuse_closed(self) -> None:
        if not self._parts.has_database:
            raise OutOfOrder(f"this session is closed; MemorySession.open(resume={self.id!r}) goes on with it")

    def _taint(self, origin: str, name: str, text: str) -> None:
        self._parts.taint.note(origin, name, text)
        self._counting(lambda: self.nudges.tainted(self._parts.taint.origin))

    def _image(self, entry: Entry) -> bytes | None:
        data = entry.get("data")
        return data if isinstance(data, bytes) else self._parts.database.images.read(entry)

    def _save(
        self, message: dict[str, Any], private: tuple[str, str] | None = None, images: Sequence[Entry] = ()
    ) -> None:
        """`private` and `images` are what the message had before its private parts were left out."""
        message = with_valid_calls(message)
        self.last_id = self._kept(lambda: self._parts.database.append(self.id, message))
        self.context.append(self.last_id, message, private, images)
        self._unfinished = False


def _following(session: Kind, before: MemorySession | None, reason: str) -> Kind:
    if before is not None:
        said = before.context.said()
        session.external.take_over(before.external, said, session.notices, session_id=session.id, reason=reason)
    return session
