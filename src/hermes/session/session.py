"""`MemorySession`: the entry point for every session.

    with MemorySession.open(source="my-agent") as session:
        request = session.prepare_turn("what did we decide about auth?")
        …send request.system, request.messages, request.tools to a model; run its calls through session.call_tool…
        session.finish_turn("We chose …")

The system prompt is built once, stored with the session and reused byte for byte, also after a resume. Whatever is
added to a turn later (recalled memory, announcements) comes after it, on a copy of the user's message.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import ExitStack, contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack

from hermes.base.errors import HermesError, NotFound, OutOfOrder, SettingsError, StorageError
from hermes.base.events import Usage
from hermes.base.text import counted
from hermes.base.tokens import estimate
from hermes.conversations.context import RECEIPT, WRITTEN, Contexts
from hermes.conversations.receipts import Issuer, ReceiptKeys, digest_of_text
from hermes.memory.approval import Approvals
from hermes.prompt.assembly import paths_in
from hermes.safety.fence import UNCLOSED, build_memory_context_block, is_unclosed, public_words, without_private
from hermes.safety.trust import Source, TurnContext
from hermes.session.context import (
    ENDED,
    OUTSIDE,
    ROLES,
    TYPED,
    Context,
    MemoryUpdates,
    Request,
    ReviewCounters,
    entries_in_prompt,
    held_back,
    is_answer,
    noted,
    origin_of,
    outside_from_dicts,
    parsed,
    record_fired,
    reminding,
    reply_message,
    rule_to_ask,
    shown,
    sizes_of,
    sources_in,
    staged_in,
    unanswered_calls,
    with_valid_calls,
    written_in,
)
from hermes.session.external import receipt_span, tool_span
from hermes.session.lifecycle import (
    begin,
    branch_off,
    capture_turn,
    end,
    end_of_session,
    go_on,
    take_back,
    what_broke_the_cache,
)
from hermes.session.parts import SessionOptions, open_parts
from hermes.session.receipts import Receipts
from hermes.session.unsaved import KIND, close_quietly, note_of, store
from hermes.storage.images import IMAGES, public_images, taken_in, without_bytes
from hermes.storage.ports import OPTIONAL_WAIT
from hermes.storage.records import new_id
from hermes.tools.registry import CUT_OFF, TOOLSETS, failure, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.base.errors import ContextTooLong
    from hermes.base.events import Compacted, Notice
    from hermes.conversations.database import SessionDB
    from hermes.llm.client import Model
    from hermes.memory.rules import Fired, RulesInForce
    from hermes.memory.store import MemoryStore
    from hermes.prompt.assembly import Prompt
    from hermes.session.compaction import Compactor
    from hermes.session.context import Boundary
    from hermes.session.parts import SessionKeywords, SessionParts
    from hermes.session.receipts import Receipt
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.storage.images import Content, Entry
    from hermes.storage.records import Session, StoredMessage
    from hermes.tools.registry import Tool

    Answer = TypeVar("Answer")

_LOG = logging.getLogger("hermes.session")
_FEWEST = 4  # with fewer messages nothing is compacted, so the compactor is not even created
_BROKEN_OFF = "[This turn was broken off before there was an answer.]"


class MemorySession:
    """One conversation with its memory; `id`, `system_prompt` and `notices` are public, besides the methods."""

    # Called with every request; the test suite uses it to check that each request extends the one before it.
    observers: ClassVar[list[Callable[[str, Request], None]]] = []

    def __init__(
        self,
        parts: SessionParts,
        session_id: str,
        stored: list[StoredMessage],
    ) -> None:
        self.id = session_id
        self._delegated_by: MemorySession | None = None
        self._parts = parts
        self.notices = parts.notices
        self.external = parts.external
        self.boundary: Boundary = parts.external
        self._details = details = parts.database.session_details(session_id)
        self.system_prompt: str = details["system_prompt"]
        self._tools: list[dict[str, Any]] = details["tools"]
        self._prefill = [dict(message) for message in parts.options.prefill]
        rebuilt = next(
            (each.message["prompt_outside"] for each in reversed(stored) if "prompt_outside" in each.message), None
        )
        self._prompt_outside = outside_from_dicts(details.get("prompt_outside") if rebuilt is None else rebuilt)
        self.context = Context((each.id, each.message) for each in stored)
        self.compactions: int = max((each.message.get("compactions", 0) for each in stored), default=0)
        self._compactor: Compactor | None = None
        self._real = last_count(stored)
        self._updates = MemoryUpdates(parts.store, session_id, seen_changes(stored, details["announced"]))
        self._row = row = parts.database.get_session(session_id)
        self._hints = parts.subdirectory_hints(row.cwd)
        self.last_id, self.model = row.last_id, row.model or ""
        self._answered = row.last_active if stored else None
        self.counters = ReviewCounters(parts.database, session_id)
        self._rules, self._reminders = parts.rules, parts.reminders
        self._issuer = Issuer(ReceiptKeys(parts.documents), session_id, stored)
        self._prompt_digest = ("", "")  # the prompt, and its digest
        self._fired: list[dict[str, str]] = []
        self._returned: dict[str, dict[str, Any]] = {}  # results that a host will record, with their origin
        self._said = ""  # the person's words of this turn
        # Called with an answer in the transaction that stores it, for what a host must store with it.
        self.beside_answer: Callable[[str], None] = lambda _reply: None
        self._unfinished = False  # whether the newest message of the person is still unanswered
        if parts.settings.text("context.engine") not in ("", "compressor"):
            _ = self.compactor.engine  # other engines are notified of a session at once
        self._close_open_calls()
        self._unfinished = bool(stored) and self.context.messages[-1]["role"] in ("user", "tool")

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | Home | None = None,
        source: str = "cli",
        *,
        resume: str | None = None,
        title: str | None = None,
        model: str = "",
        cwd: str | None = None,
        project: str | None = None,
        system_message: str = "",
        tools: Sequence[Tool] = (),
        options: SessionOptions | None = None,
        **more: Unpack[SessionKeywords],
    ) -> Self:
        """Opens a new session, or with `resume` (an id or a title) continues an earlier one.

        `home` is a folder ($HERMES_HOME, else ~/.hermes), `source` a name for the program. `project` scopes memory and
        search: a name, a path inside a repository, or "" for none; by default, the repository around `cwd`. `tools`
        are the host's own. `options` hold everything else; each field of `SessionOptions` is also accepted as a
        keyword.
        """
        chosen = (options or SessionOptions()).changed(more)
        parts = open_parts(
            home,
            owner=chosen.owner,
            platform=source,
            project=project,
            cwd=cwd,
            resume=resume,
            tools=tools,
            options=chosen,
        )
        about = {"source": source, "title": title, "model": model, "cwd": cwd}
        inputs = {
            "system_message": system_message,
            "skip_memory": chosen.skip_memory,
            "skip_context_files": chosen.skip_context_files,
            "today": chosen.today,
            "platform": source,
        }
        stored: list[StoredMessage] = []
        try:
            session_id = _tip(parts, resume) if resume is not None else new_id(time.time())
            if not chosen.skip_memory:
                told = {"platform": source, "session_title": title, "cwd": cwd, "parent_session_id": chosen.parent}
                told["agent_context"] = "subagent" if chosen.parent else "primary"
                parts.start_external(session_id, told | dict(chosen.identity or {}))  # the host knows the chat better
            if resume is None:
                begin(parts, session_id, about, inputs)
            else:
                stored = go_on(parts, session_id, about, inputs)
            session = cls(parts, session_id, stored)
            if (before := chosen.follows) is not None:
                session.external.take_over(
                    before.external, before.context.said(), session_id=session.id, reason=chosen.reason
                )
        except BaseException:
            parts.close()
            raise
        return session

    def prepare_turn(self, text: Content, *, recalled: str = "", overlay: str = "", attached: str = "") -> Request:
        """Saves the user's message and returns the request to send.

        `text` may be a list of parts with images, as OpenAI or Anthropic define them; `image_part` makes one from a
        file. `recalled` is memory from elsewhere, fenced so that the model cannot mistake it for the user's words;
        `overlay` is what a host adds to this turn only. Both are added to a copy: the clean message is stored and
        searched. `attached` follows the text and is stored with it: what the person hands in but did not write, such
        as a pipe. `<private>…</private>` in the text is sent and kept in this process, but stored only as `[private]`.
        If the message before has no answer, because the host failed, that turn is first marked as broken off.
        """
        self._refuse_closed()
        images: list[Entry] = []
        typed = text
        if not isinstance(typed, str):
            typed, images = taken_in(typed)
        text = "\n\n".join(filter(None, [typed, attached]))
        self._return_to_state_db()
        self._close_open_calls()
        if self._unfinished:  # a turn of this or another process
            self._save({"role": "assistant", "content": _BROKEN_OFF, "interrupted": True})
        self.preflight()
        kept = without_private(text)
        if is_unclosed(text):
            self.notices.add("private", UNCLOSED)
        handed, found = recalled, self.external.recall(public_words(text))
        recalled = "\n\n".join(filter(None, [handed, found]))
        with self._reading_documents():
            announced = self._updates.take()
            fired = self._ask_rules(lambda rules: rules.begin(public_words(typed), self._parts.now()))
            due = self._due_reminders(typed)
        rules, reminders = shown(fired), reminding(due)
        parts = (build_memory_context_block(recalled), announced, rules, reminders, overlay)
        additions = [part for part in parts if part]
        message: dict[str, Any] = {"role": "user", "content": kept}
        if attached:
            message |= {OUTSIDE: "piped", TYPED: without_private(typed)}
        if images and (stored := public_images(text, images)):
            message[IMAGES] = stored
        if additions:
            message["api_content"] = "\n\n".join([kept, *additions])
            message["additions"] = sizes_of(
                recalled=recalled, announcement=announced, rules=rules, reminders=reminders, overlay=overlay
            )
            record_fired(message["additions"], [*fired, *due])
            if recalled:
                message["additions"][0]["from"] = ["host"] * bool(handed) + self.external.recalled_by * bool(found)
            if overlay and self._parts.options.vouches:
                message["additions"][-1]["vouched"] = True
        if announced:
            message["announced"] = dict(self._updates.seen)
        self._said = typed if kept == text else ""  # do not capture a statement that has a private gap in it
        self._save(message, None if kept == text else (text, "\n\n".join([text, *additions])), images)
        self._note_reminders(due)
        self._hear_rules()
        self._sync()
        self._unfinished = True
        return self.request()

    def take_up(self) -> None:
        """Continues a turn that another process left unfinished, instead of marking it as broken off."""
        self._unfinished = False

    def request(self) -> Request:
        """Returns what to send now; call it again after tool results for the next step of the turn."""
        messages = [*self._prefill, *self.context.to_send(self._image)]
        request = Request(
            system=self.system_prompt,
            messages=messages,
            tools=self._tools,
            compactions=self.compactions,
            announcements={len(self._prefill) + at: text for at, text in self.context.announcements.items()},
        )
        for observe in self.observers:
            observe(self.id, request)
        return request

    def record(self, message: Mapping[str, Any], *, sync: bool = True) -> None:
        """Saves a message of the host's own loop: an assistant message with tool calls, or a tool's result.

        A tool's result survives a power cut when this returns. Without `sync`, it does so after the next message that
        is synced; use that for the messages of a longer history.
        """
        self._refuse_closed()
        refuse_strange_role(message)
        message = without_bytes(message, strict=True)
        if message.get("role") == "tool" and (about := self._returned.pop(str(message.get("content")), None)):
            message = {**message, **about}
        elif message.get("role") == "tool" and not origin_of(message):  # its name may be that of one of ours
            message = {**message, OUTSIDE: "tool"}
        elif message.get("role") in ("system", "developer") and not self._parts.options.vouches:
            message = {**message, OUTSIDE: "host"}
        self._save(dict(message))
        if sync and message.get("role") == "tool":
            self._sync()

    def record_result(self, call_id: str, content: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Saves the result of a host's own tool and returns what the model should see of it.

        OutOfOrder when no such call waits for one. If the arguments lead into a folder with notes for agents that are
        new to the session (AGENTS.md and the like), the notes follow the result, because the prompt must not change.
        """
        self._refuse_closed()
        self._with_fallback(lambda: expect_result(self, self._parts.database, call_id, content))
        hint = self._hints.for_call(arguments or {}) if self._hints else ""
        fired = self._rules_for_call(self._called_name(call_id), arguments) if arguments else []
        rules = shown(fired)
        told = "\n\n".join(filter(None, (content, hint, rules)))
        self.counters.called("")
        saved = {"role": "tool", "tool_call_id": call_id, "content": told, OUTSIDE: "tool"}
        self._save({**saved, **noted(hint, rules, fired)})
        self._sync()
        return told

    def call_tool(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None,
        *,
        call_id: str | None = None,
        cut_off: bool = False,
    ) -> str:
        """Runs one of our tools and returns its JSON result; stores the call and the result in the conversation.

        If the output limit `cut_off` the arguments, the call is not run: its result tells the model to shorten it.
        """
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
        result, about = self._run_tool(name, arguments, call_id)
        self._save({"role": "tool", "tool_call_id": call_id, "name": name, "content": result, **about})
        self._sync()
        return result

    def run_tool(self, name: str, arguments: str | Mapping[str, Any] | None, *, call_id: str = "") -> str:
        """Runs a tool like `call_tool`, for a framework that stores call and result itself with `record`."""
        self._refuse_closed()
        result, about = self._run_tool(name, arguments, call_id)
        self._returned[result] = about
        return result

    def _run_tool(
        self, name: str, arguments: str | Mapping[str, Any] | None, call_id: str
    ) -> tuple[str, dict[str, Any]]:
        """Runs a tool; returns the result with notes and rules added, and its origin and additions to be stored."""
        fired = self._rules_for_call(name, arguments)
        if held := held_back(fired, changes=getattr(self._parts.toolbox.get(name), "sink", "tool") != ""):
            return held, {OUTSIDE: "", **noted("", held, fired)}
        self.external.calling(call_id)
        with tool_span(name, arguments, self.home.person) as results:
            called = self._parts.toolbox.run(
                name, arguments, self.turn_context(compact=self._compact_range, rule=rule_to_ask(fired))
            )
            results.append(called.text)
        self.external.calling("")
        notes, origin = self._notes_for(name, arguments)
        rules = shown(fired)
        self.counters.called(name)
        result = called.text + notes + (f"\n\n{rules}" if rules else "")
        return result, {OUTSIDE: called.origin or origin, **noted(notes, rules, fired)}

    def finish_turn(
        self,
        reply: str,
        *,
        interrupted: bool = False,
        usage: Usage | Mapping[str, Any] | None = None,
        model: str = "",
        message: Mapping[str, Any] | None = None,
    ) -> None:
        """Saves the answer; an interrupted one is marked and not passed to external memory.

        `message` is the model's own message, if the host has it: its reasoning is stored and sent back. With `usage`,
        as the provider's API returned it (and `model`, if it is not the session's), the share of the prompt that came
        from the provider's cache is recorded, with the reason if it was small. OutOfOrder when there is no turn to
        finish.
        """
        self._refuse_closed()
        if not self.context.messages or is_answer(self.context.messages[-1]):
            raise OutOfOrder("there is no turn to finish: call prepare_turn first; this one already has its answer")
        self._close_open_calls()
        saved = reply_message(reply, message or {})
        if interrupted:
            saved["interrupted"] = True
        counted = Usage.of(usage) if usage is not None else None
        if real := self._real_tokens(counted):
            saved["prompt_tokens"] = real
        if counted is not None:
            saved |= {"usage": counted.as_dict(), "model": model or self.model}
            saved["cache"] = {
                "share": round(counted.cached_share, 3),
                "broken_by": self._cache_miss(counted, model, message or {}),
            }
        cost = self._cost(counted, model or self.model) if counted is not None else {}
        captured = [] if interrupted else self._capture(self._said)
        saved = self._marked(saved)
        saved = {**saved, RECEIPT: self._receipt(saved, cost, captured)}
        if not interrupted:
            self.counters.turn_finished()
        counts = {"api_call_count": 1, **counted.as_dict(), **cost} if counted is not None else {}
        self.last_id = self._with_fallback(lambda: self._store_answer(reply, saved, counts, counted=not interrupted))
        self.context.append(self.last_id, saved)
        self._unfinished = False
        if counted is not None:
            self._answered, self.model = time.time(), model or self.model
        receipt_span(saved[RECEIPT], self.home.person)
        self._sync()
        self.external.finish(reply, self.context.said(), interrupted=interrupted)

    def _store_answer(
        self, reply: str, message: Mapping[str, Any], counts: Mapping[str, float], *, counted: bool
    ) -> int:
        """Stores the answer, its cost and the counts of the turn in one transaction; returns the id of the message."""
        database = self._parts.database
        with database.store.transaction():
            stored = database.append(self.id, message)
            if counts:
                database.update_session(self.id, **counts)
            if counted:
                self.counters.save()
            self.beside_answer(reply)
        return stored

    def _cost(self, usage: Usage, model: str) -> dict[str, float]:
        from hermes.session.models import dollars_for

        try:
            dollars = dollars_for(self.settings, model, usage)
        except SettingsError as error:
            self.notices.add("settings", str(error))
            return {}
        return {} if dollars is None else {"estimated_cost_usd": dollars}

    def _receipt(self, answer: Mapping[str, Any], cost: Mapping[str, float], captured: list[dict[str, Any]]) -> Any:
        """Seals the record of this answer: what was new in the context, what was written, what it cost."""
        if self._prompt_digest[0] is not self.system_prompt:
            self._prompt_digest = (self.system_prompt, digest_of_text(self.system_prompt))
        prompt, turn = self._prompt_digest[1], self.context.this_turn()
        entries = None
        if not self._issuer.lists_prompt(self.id, prompt):
            details = self._with_fallback(lambda: self._parts.database.session_details(self.id))
            # A compaction that rebuilt the prompt stored the sizes of its sections with its summary.
            stored = [message for _, message in self.context.stored()]
            rebuilt = (message["prompt_sections"] for message in reversed(stored) if "prompt_sections" in message)
            sections = next(rebuilt, None) or details.get("prompt_sections") or []
            entries = entries_in_prompt(self.store, self.system_prompt, sections)
        changed = captured or any(message.get("role") == "tool" for message in turn)
        about = {
            "model": answer.get("model") or self.model,
            "usage": answer.get("usage") or {},
            "cached_share": (answer.get("cache") or {}).get("share"),
            "cost": cost.get("estimated_cost_usd"),
            "written": written_in(turn, self._parts.toolbox, self.store, self.id, self._updates.seen)
            if changed
            else [],
            "pending": [*staged_in(turn), *(each["pending_id"] for each in captured if "pending_id" in each)],
            "fired": self._fired,
        }
        self._fired = []
        seen = self.context.new_digests(self._issuer.newest_in(self.id))
        return self._issuer.issue(self.id, prompt=prompt, entries=entries, seen=seen, answer=answer, about=about)

    def fired(self, *, kind: str, name: str, text: str, trigger: str) -> None:
        """Notes for the receipt of this turn that the model was shown a rule or a reminder, and why."""
        self._fired.append({"kind": kind, "name": name, "text": text, "trigger": trigger})

    @property
    def receipt_id(self) -> str:
        """The id of the newest receipt of this session; "" before the first answer."""
        return self._issuer.last

    def receipt(self, receipt_id: str = "") -> Receipt:
        """Returns a receipt, by default that of the newest answer: what the answer was made from and what it cost.

        NotFound when no conversation of the person has this receipt.
        """
        return Receipts(self.home, self._parts.database).get(receipt_id or self.receipt_id)

    def undo(self) -> str:
        """Takes the last exchange out of the context and returns what the person had said in it."""
        self._refuse_closed()
        said, kept = take_back(self._parts.database, self.id)
        taken = sorted(self.context.private.keys() - {each.id for each in kept})
        said = str(self.context.private[taken[0]][0]) if taken else said
        self.reload()
        self._unfinished = False
        began = self._parts.database.session_details(self.id)["announced"]
        self._updates = MemoryUpdates(self._parts.store, self.id, seen_changes(kept, began))
        self._issuer = Issuer(ReceiptKeys(self._parts.documents), self.id, kept)
        self.external.on_session_switch(self.id, rewound=True, reason="undo")
        return said

    def asked(self) -> Content:
        """What the person said last, with its images: `prepare_turn` takes it again after `undo`."""
        return self.context.asked()

    def branch(self, title: str | None = None) -> str:
        """Copies this conversation into a new one and returns its id; open it with `resume`."""
        if self._parts.storage.spare is not None:
            raise StorageError(
                f"this conversation cannot be branched until it is stored: {self._parts.storage.spare.why}"
            )
        return branch_off(self._parts.database, self.id, title)

    def rename(self, title: str | None) -> str | None:
        """Gives the conversation a title and returns it, with ` #N` when another has it."""
        return self._with_fallback(lambda: self._parts.database.rename(self.id, title))

    def drop_if_empty(self) -> None:
        """Deletes a session without messages, so that no list shows it; the session cannot be used afterwards."""
        if not self.about().last_id:
            self._parts.database.delete(self.id)

    @property
    def opened_as(self) -> Session:
        """The stored facts about this session when it was opened."""
        return self._row

    def about(self) -> Session:
        """The stored facts about this session: title, source, tokens, times."""
        return self._with_fallback(lambda: self._parts.database.get_session(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; a second call does nothing."""
        if not self._parts.storage.is_open:
            return
        self._return_to_state_db(closing=True)
        self._report_unsaved()
        try:
            if self._compactor is not None:
                self._compactor.commit_if_ready()
            self._write_note()
            end(self._parts, self.id, self._compactor, self.context.said())
        except StorageError as error:
            if self._parts.storage.must_store:
                raise
            # What was said is stored. The mark that this process has it open is removed by the next process.
            self.notices.add("storage", f"the end of this conversation was not noted: {error}")
        finally:
            self._parts.close()

    # --- keeping inside the model's window ----------------------------------------------------------------------------

    def use_model(self, model: Model) -> None:
        """Sets the model that answers: its window limits the context, and it may be asked for a summary."""
        self._with_fallback(lambda: self.compactor.use_model(model))

    def counted(self, usage: Usage | Mapping[str, Any]) -> None:
        """Takes the token counts of the provider's API for the last request; call it before the answer is recorded."""
        self._with_fallback(lambda: self.compactor.counted(Usage.of(usage)))

    def fit(self, request: Request, too_long: ContextTooLong | None = None) -> Request:
        """Returns the request to send: `request` itself, or a shorter one after a compaction.

        Pass `too_long`, the model's refusal, to make it shorter in any case.
        """
        return self._with_fallback(lambda: self.compactor.fit(request, too_long))

    def compact(self, focus: str = "") -> Compacted | None:
        """Compacts because a person asked for it; None when there is nothing to take out, with a notice that says so.

        `focus` is a subject that gets most of the space. LockTimeout when another process is compacting the session.
        """
        return self.compactor.run("asked", focus=focus, force=True)

    def preflight(self) -> None:
        """Compacts a history that nearly fills the window, before a message is handled; `prepare_turn` calls it."""
        if len(self.context.messages) >= _FEWEST:
            self._with_fallback(lambda: self.compactor.preflight())  # noqa: PLW0108 - making it reads the database

    def take_events(self) -> list[Compacted | Notice]:
        """Returns what happened since the last call: compactions, then notices for the person."""
        happened: list[Compacted | Notice] = []
        if self._compactor is not None:
            happened += self._compactor.happened
            self._compactor.happened.clear()
        return happened + self.notices.take()

    @property
    def compactor(self) -> Compactor:
        """What compacts this session, created on first use."""
        if self._compactor is None:
            from hermes.llm.catalogue import UNKNOWN_CONTEXT, known_context
            from hermes.session.compaction import Compactor

            told = self._parts.options.context_length or self._parts.settings.get("model.context_length")
            window = told or known_context(self.model) or UNKNOWN_CONTEXT
            self._compactor = Compactor(self, self._parts, window, self._real)
        return self._compactor

    # --- what compaction does to the session -------------------------------------------------------------------------

    def rebuilt_prompt(self) -> Prompt:
        """Builds the system prompt again from its sources as they are now, with the inputs of the first time."""
        row = self._parts.database.get_session(self.id)
        given = {"platform": row.source, **self._parts.database.session_details(self.id).get("prompt_inputs", {})}
        if given.get("today"):
            given["today"] = date.fromisoformat(given["today"])
        if self._parts.store is not None:
            self._parts.store.freeze()
        prompt = self._parts.build_prompt(model=row.model or "", cwd=row.cwd, **given)
        self._prompt_outside = list(prompt.outside)
        return prompt

    def announced(self) -> dict[str, int]:
        """The newest change of each memory file; a prompt that is built now contains all of them."""
        return MemoryUpdates(self._parts.store, self.id).seen

    def go_on(
        self, session_id: str, context: Context, last_id: int, *, system_prompt: str, seen: dict[str, int]
    ) -> None:
        """Continues the conversation with another context, and perhaps as another session.

        `seen` are the changes of memory that the rebuilt prompt already contains.
        """
        self.system_prompt = system_prompt
        self._updates = MemoryUpdates(self._parts.store, session_id, seen)
        self.id, self.context, self.last_id = session_id, context, last_id
        self.compactions += 1

    def reload(self) -> None:
        """Loads what another process stored in this session, or in the one that continues it."""
        tip = self._parts.database.tip(self.id)
        stored = Contexts(self._parts.database).live(tip.id)
        self.system_prompt = self._parts.database.session_details(tip.id).get("system_prompt", self.system_prompt)
        self.id, self.last_id = tip.id, tip.last_id
        self.context = Context(((each.id, each.message) for each in stored), private=self.context.private)
        self.compactions += 1

    # --- for reviews, delegation and commands ---------------------------------------------------------------

    @property
    def home(self) -> Home:
        """The home of the person."""
        return self._parts.home

    @property
    def settings(self) -> Settings:
        """The settings that were read when the session opened."""
        return self._parts.settings

    @property
    def store(self) -> MemoryStore | None:
        """Curated memory; None when it is switched off."""
        return self._parts.store

    @property
    def database(self) -> SessionDB:
        """Where this conversation is stored, with all others of the same person."""
        return self._parts.database

    @property
    def tool_names(self) -> list[str]:
        """The tools the model of this session was offered."""
        return [str(tool["function"]["name"]) for tool in self._tools]

    def own_tool(self, name: str) -> Tool:
        """Makes the memory tool or one of the skill tools again, for a review of the session."""
        return self._parts.memory_tool() if name == "memory" else self._parts.skill_tool(name)

    def snapshot_request(self) -> Request:
        """The current request without private parts, for a review, which may use another model."""
        messages = [*self._prefill, *self.context.to_send(self.database.images.read, to_others=True)]
        return Request(system=self.system_prompt, messages=messages, tools=list(self._tools))

    def sources(self) -> list[Source]:
        """The texts from outside in prompt, prefill and messages; for a delegated task also those of its parent."""
        inherited = self._delegated_by.sources() if self._delegated_by is not None else []
        prefilled = [] if self._parts.options.vouches else self._prefill
        texts = [str(message.get("content") or "") for message in prefilled]
        prefill = [Source(origin="host", name="prefill", text="\n".join(texts))] if texts else []
        return sources_in(self.context, *self._prompt_outside, *prefill, *inherited)

    def said(self) -> list[str]:
        """What the person said. A delegated task was worded by a model, so its parent's messages count instead."""
        return self._delegated_by.said() if self._delegated_by is not None else self.context.of_person()

    def inherit(self, parent: MemorySession) -> None:
        """Names the session that delegated this one, whose sources count here: they may have influenced the task."""
        self._delegated_by = parent

    def turn_context(self, origin: str = "agent", **more: Any) -> TurnContext:
        """What a tool gets with a call: who acts (`origin`), the sources in the context, what the person said."""
        ask = self._parts.options.ask if origin == "agent" else None
        return TurnContext(
            session=self.id,
            origin=origin,
            sources=self.sources,
            said=self.said,
            private=self._private_texts,
            ask=ask,
            record=lambda decision: self._parts.decisions.add(decision, self.id),
            **more,
        )

    def _private_texts(self) -> list[str]:
        """The person's private texts: entries of memory, their earlier messages, and tool results."""
        store = self.store
        entries = [entry for target in store.targets for entry in store.entries(target)] if store else []
        shown = [str(m.get("content") or "") for m in self.context.public() if m["role"] == "tool"]
        return [*entries, *self.said()[:-1], *shown]

    # --- parts of the calls above -------------------------------------------------------------------------------------

    def overhead(self) -> int:
        """Estimated tokens of tools and prefill, which every request carries."""
        return estimate(json.dumps([self._tools, self._prefill], ensure_ascii=False))

    def _real_tokens(self, usage: Usage | None) -> int:
        """The counted size of the last request; the usage of a whole turn gives it only if the turn was one call."""
        if usage is not None and self.context.messages and self.context.messages[-1]["role"] == "user":
            self.counted(usage)
        return self._compactor.real_tokens if self._compactor is not None else 0

    def _cache_miss(self, usage: Usage, model: str, message: Mapping[str, Any]) -> str:
        from hermes.llm.catalogue import cache_minimum

        return what_broke_the_cache(
            usage,
            minimum=cache_minimum(model or self.model),
            told=str(message.get("cache_miss") or ""),
            first=self._answered is None,
            idle_seconds=time.time() - (self._answered or 0),
            ttl=self._parts.settings.text("prompt_caching.cache_ttl"),
            same_model=model in ("", self.model),
        )

    def _notes_for(self, name: str, arguments: str | Mapping[str, Any] | None) -> tuple[str, str]:
        """Notes for agents in a folder that a file tool entered for the first time, with their origin."""
        if self._hints is None or not getattr(self._parts.toolbox.get(name), "works_in_folders", False):
            return "", ""
        notes = self._hints.for_call(given) if (given := parsed(arguments)) else ""
        places = [os.path.join(self._row.cwd or "", os.path.expanduser(each)) for each in paths_in(given)]
        trusted = bool(places) and all(map(self._parts.folders.is_trusted, places))
        return notes, "file" if notes and not trusted else ""

    def _close_open_calls(self) -> None:
        """Adds a result to each call without one, because no model accepts such a history."""
        for call_id in unanswered_calls(self.context.messages):
            self._save({"role": "tool", "tool_call_id": call_id, "content": ENDED})

    def _refuse_closed(self) -> None:
        if not self._parts.storage.is_open:
            raise OutOfOrder(f"this session is closed; MemorySession.open(resume={self.id!r}) goes on with it")

    def _image(self, entry: Entry) -> bytes | None:
        data = entry.get("data")
        return data if isinstance(data, bytes) else self._parts.database.images.read(entry)

    def _save(
        self, message: dict[str, Any], private: tuple[str, str] | None = None, images: Sequence[Entry] = ()
    ) -> None:
        """Stores a message; `private` and `images` are its parts that are sent but may not be stored."""
        self._keep(self._marked(message), private, images)

    def _keep(
        self, message: dict[str, Any], private: tuple[str, str] | None = None, images: Sequence[Entry] = ()
    ) -> None:
        self.last_id = self._with_fallback(lambda: self._parts.database.append(self.id, message))
        self.context.append(self.last_id, message, private, images)
        self._unfinished = False

    def _marked(self, message: dict[str, Any]) -> dict[str, Any]:
        message = with_valid_calls(message)
        if message["role"] == "assistant" and OUTSIDE not in message and (sources := self.sources()):
            return {**message, OUTSIDE: sources[-1].origin}  # the model may repeat text from outside
        return message

    def _sync(self) -> None:
        """Makes what was saved survive a power cut; called after everything that could not be recreated."""
        self._with_fallback(lambda: self._parts.database.sync())  # noqa: PLW0108 - the retry may use another database

    def _rules_for_call(self, name: str, arguments: str | Mapping[str, Any] | None) -> list[Fired]:
        """The rules that apply to a call; none for tools that only use the agent's own memory, skills and steps."""
        if any(name in TOOLSETS[own] for own in ("memory", "session_search", "skills", "context", "todo")):
            return []
        return self._ask_rules(lambda rules: rules.before_call(name, parsed(arguments), self._parts.now()))

    def _ask_rules(self, ask: Callable[[RulesInForce], list[Fired]]) -> list[Fired]:
        fired: list[Fired] = []
        with self._or_notice("rules", "your rules cannot be read"):
            fired = ask(self._rules) if self._rules is not None else []
        for each in fired:
            self.fired(**each.as_dict())
        return fired

    @contextmanager
    def _or_notice(self, kind: str, what: str) -> Iterator[None]:
        """Turns an error into a notice, because a broken file of rules or reminders must not stop the turn."""
        try:
            yield
        except HermesError as error:
            self.notices.add(kind, f"{what}: {error}")

    @contextmanager
    def _reading_documents(self) -> Iterator[None]:
        """Reads all documents of a turn in one transaction, if they are in a database."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._parts.documents.reading())
            except StorageError:
                if self._parts.storage.must_store:
                    raise
            yield

    def _hear_rules(self) -> None:
        """Saves the rules and reminders that the person states; not in a delegated task, which a model worded."""
        said, turn = self._said, self.turn_context()
        if not said or self._delegated_by is not None:
            return
        with self._or_notice("rules", "what you asked for was not kept"):
            for told in self._rules.hear(said, turn) if self._rules is not None else ():
                self.notices.add("rules", told)
            if self._reminders is not None:
                for told in self._reminders.hear(said, self._parts.now(), turn, lambda: Approvals(self.home)):
                    self.notices.add("reminders", told)

    def _due_reminders(self, typed: str) -> list[Fired]:
        """Reminders that come up with this turn."""
        due: list[Fired] = []
        if self._reminders is not None and self._delegated_by is None:
            with self._or_notice("reminders", "your reminders cannot be read"):
                due = self._reminders.fired(self._parts.now(), public_words(typed))
        return due

    def _note_reminders(self, due: list[Fired]) -> None:
        """Marks reminders as shown, which happens after the message with them is stored, so that none is lost."""
        for each in due:
            self.notices.add("reminders", f"reminder: {each.text} ({each.trigger})")
            self.fired(**each.as_dict())
        if due and self._reminders is not None:
            with self._or_notice("reminders", "a reminder may come up again"):
                self._reminders.fire([each.name for each in due], self._parts.now())

    def _called_name(self, call_id: str) -> str:
        calls = (call for message in reversed(self.context.messages) for call in message.get("tool_calls") or ())
        return next((str(call["function"]["name"]) for call in calls if call.get("id") == call_id), "tool")

    def _capture(self, said: str) -> list[dict[str, Any]]:
        """Saves plain statements of the person's message if `memory.capture` is on; returns the results."""
        how = self.settings.text("memory.capture")
        if how == "off" or self.store is None or not said:
            return []
        why = "memory.capture is stage: the user said so"
        tool = self._parts.memory_tool(why) if how == "stage" else self._parts.memory
        return capture_turn(said, self.store, tool, self.turn_context())

    def _write_note(self) -> None:
        """Writes the dated note on this conversation, if this process answered anything."""
        how = self.settings.text("sessions.notes")
        if how == "off" or not self.counters.answered:
            return
        messages = [each.message for each in self.database.messages(self.id)]
        end_of_session(self.database, self.id, messages, self.store, self._note_helper() if how == "model" else None)

    def _note_helper(self) -> Callable[[str, str], str] | None:
        """The helper model that writes notes, with the same time limit at the end as a review."""
        from hermes.session.models import Background, helper

        seconds, budget = self.settings.number("review.close_seconds"), Background(self.database, self.settings)
        try:
            return helper(self.settings, "compression", seconds=seconds, budget=budget, counted_as="notes")
        except HermesError:
            return None

    def _compact_range(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Compacts a range for the tool `context_compact`."""
        from hermes.session.compaction import compact_range

        return compact_range(self.compactor, self.context, wanted)

    # --- continuing without state.db ----------------------------------------------------------------------------------

    def _with_fallback(self, act: Callable[[], Answer]) -> Answer:
        """Runs `act`; if the database fails, moves the conversation to a spare one and runs it again."""
        try:
            return act()
        except StorageError as error:
            self._fall_back(error)
            return act()

    def _count(self, act: Callable[[], object]) -> None:
        """Runs `act`, which stores counts; not repeated after a fallback, because the move stores them anyway."""
        try:
            act()
        except StorageError as error:
            self._fall_back(error)

    def _fall_back(self, error: StorageError) -> None:
        spare = self._parts.storage.fall_back(error)
        row = self._row._replace(id=self.id, model=self.model or None)
        details = {**self._details, "system_prompt": self.system_prompt, "announced": self._updates.seen}
        ids = spare.carry(row, details, self.context.stored())
        self.context.renumbered(ids)
        self.last_id = ids[-1] if ids else 0
        self._moved()
        self.notices.add(KIND, spare.in_words())

    def _return_to_state_db(self, *, closing: bool = False) -> None:
        """Adds the conversation in a spare database to `state.db`, if that works again, and continues there.

        One that was compacted meanwhile stays in the spare database until it is closed: `state.db` gets the original
        messages, which may not fit the model's window.
        """
        spare = self._parts.storage.spare
        if spare is None or not (closing or spare.worth_trying()):
            return
        if not closing and (self.id != spare.session or Contexts(spare.db).was_compacted(self.id)):
            return
        try:
            database = self._parts.storage.open_again(wait=OPTIONAL_WAIT if closing else 0.0)
        except StorageError:
            return
        try:
            session_id, added = store(spare.db, database, spare.name)
            if not session_id:  # the spare database is empty
                database.close()
                return
            stored = Contexts(database).live(session_id)
            last_id = database.get_session(session_id).last_id
        except StorageError:
            close_quietly(database)
            return
        self._parts.storage.go_back_to(database)
        context = Context((each.id, each.message) for each in stored)
        if context.messages == Context(self.context.stored()).messages:
            self.context.renumbered(context.ids)
        else:  # another process has also written to it, or it was compacted
            self.context = context
            self.compactions += 1
        self.id, self.last_id = session_id, last_id
        self._with_fallback(lambda: self._parts.database.set_meta(note_of(spare.name), None))
        self._with_fallback(lambda: self._parts.storage.mark_open(session_id))
        self._count(self._moved)
        self.notices.add(KIND, f"state.db can be used again; {counted(added, 'message')} of this conversation stored")

    def _moved(self) -> None:
        """Points counters and compactor to the database in which the conversation is now."""
        self.counters.move(self._parts.database, self.id)
        if self._compactor is not None:
            self._compactor.moved()

    def _report_unsaved(self) -> None:
        """At the close, reports a conversation that could not be added to `state.db` yet."""
        spare = self._parts.storage.spare
        if spare is None or spare.is_empty():
            return
        told = f"this conversation is not in state.db yet; {spare.db.path} has it, and the next session adds it"
        self.notices.add(KIND, told)
        _LOG.info("%s: %s", told, spare.why)


def _tip(parts: SessionParts, name: str) -> str:
    past = parts.storage.readable
    found = past.resolve(name)
    if found is None:
        raise NotFound(f"there is no session {name!r}; `hermes sessions list` shows them")
    return past.tip(found.id).id


def last_count(stored: list[StoredMessage]) -> tuple[int, int] | None:
    """The last count of a provider and the number of messages it covers; None if the context was compacted since."""
    for position in range(len(stored) - 1, -1, -1):
        message = stored[position].message
        if "prompt_tokens" in message:
            newest = max((each.id for each in stored if WRITTEN in each.message), default=0)
            return (message["prompt_tokens"], position) if stored[position].id > newest else None
    return None


def seen_changes(stored: list[StoredMessage], at_first: Mapping[str, int]) -> dict[str, int]:
    """The newest change of each memory file that the model knows, from the prompt or an announcement."""
    seen = dict(at_first)
    for each in stored:
        for target, number in each.message.get("announced", {}).items():
            seen[target] = max(number, seen.get(target, 0))
    return seen


def refuse_strange_role(message: Mapping[str, Any]) -> None:
    """Raises ValueError for a message whose role no model API knows."""
    if message.get("role") not in ROLES:
        raise ValueError(f"a message has the role {message.get('role')!r}; it must be one of {', '.join(ROLES)}")


def expect_result(session: MemorySession, database: SessionDB, call_id: str, content: object) -> None:
    """Checks that a call waits for this result; TypeError when it is not text, OutOfOrder when none waits.

    A resume gives open calls a result that says they did not finish. While only results follow that one, the real
    result may still replace it.
    """
    if not isinstance(content, str):
        raise TypeError(f"the result of {call_id} is {type(content).__name__}, not a text; json.dumps makes one")
    if call_id in unanswered_calls(session.context.messages) or call_id in _waiting(session):
        return
    closed = _closed_at_the_end(session, call_id)
    if closed is None:
        raise OutOfOrder(
            f"no call {call_id!r} waits for a result: record the model's message with its tool_calls first, and then "
            "one result for each, under the id of the call"
        )
    database.set_rewound(session.id, [closed])
    session.reload()


def _waiting(session: MemorySession) -> set[str]:
    """The ids of calls without a result, including those after which other messages were recorded."""
    waiting: set[str] = set()
    for message in session.context.messages:
        waiting.update(call["id"] for call in message.get("tool_calls") or ())
        waiting.discard(str(message.get("tool_call_id")))
    return waiting


def _closed_at_the_end(session: MemorySession, call_id: str) -> int | None:
    """The id of the message that closed this call, when only results follow it."""
    for number, message in zip(reversed(session.context.ids), reversed(session.context.messages), strict=True):
        if message["role"] != "tool":
            return None
        if message.get("tool_call_id") == call_id:
            return number if message.get("content") == ENDED else None
    return None
