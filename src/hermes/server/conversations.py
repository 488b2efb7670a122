"""Conversations that clients have over HTTP: kept open between turns, one turn at a time in each."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from hermes.agent import Agent
from hermes.base.errors import DamagedFile, HermesError, NotFound, OutOfOrder, StorageError
from hermes.base.events import ReasoningDelta, Retrying, TextDelta, ToolReturned, TurnFinished
from hermes.http_server import descriptor_limit, free_descriptors
from hermes.server.openai_wire import Answer, BadRequest, Digest, as_message
from hermes.server.workspace import Workspace
from hermes.session.context import unanswered_calls
from hermes.settings.config import conversations_of
from hermes.storage.images import IMAGES
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from hermes.base.events import TurnEvent
    from hermes.conversations.database import SessionDB
    from hermes.server.openai_wire import ChatRequest
    from hermes.settings.home import Home

    Open = Callable[..., Agent]
    Say = Callable[[TextDelta | ReasoningDelta], None]
    HomeOf = Callable[[str], Home]

_LOG = logging.getLogger("hermes.server")
SOURCE = "server"
_IN_USE = 60.0  # seconds after which no call can still use a workspace that it got
_IN_USE_IN_NEED = 10.0  # the same while descriptors run out
_RESERVE = 0.25  # of the descriptors, kept for what runs: sockets, files of a turn
_COPIED = ("role", "content", "name", "tool_calls", "tool_call_id", "is_error", IMAGES)
_CLOSED_AT_ONCE = 8  # people whose conversations are closed at the same time, when the server ends
_BUSY_SECONDS = 60.0  # seconds a request waits for the turn before it in the same conversation


class Conversation:
    """One open conversation of one person."""

    def __init__(self, person: str, agent: Agent, instructions: Collection[str], after: str) -> None:
        self.person = person
        self.agent = agent
        self._prompted = frozenset(instructions)  # instructions that are in its prompt
        # Later instructions that the context contains, and the count of compactions when they were added.
        self._told: tuple[int, frozenset[str]] = (0, frozenset())
        self.after = after  # digest of the history after the last answer; "" for a named conversation
        self.before = ""  # the same before the last answer
        self.stored = ""  # the newest one that is stored
        self.key = (person, agent.session.id)  # its key in the list; a compaction may change the session's id
        self.lock = threading.Lock()
        self.users = 0

    def _not_told(self, instructions: Collection[str]) -> list[str]:
        """The instructions that the context does not contain yet; a compaction may have removed earlier ones."""
        now = self.agent.session.compactions
        known = self._prompted | (self._told[1] if self._told[0] == now else frozenset())
        self._told = (now, known | frozenset(instructions))
        return [each for each in instructions if each not in known]

    def answer(
        self, request: ChatRequest, say: Say, cancelled: Callable[[], bool], beside: Callable[[str], None]
    ) -> Answer:
        """Runs one turn, and passes pieces of the answer to `say`; the caller holds the lock.

        `beside` is called with the text of the answer in the transaction that stores it.
        """
        results, said = request.results, request.said
        for message in request.history if request.previous else ():  # what the stored conversation lacks
            self.agent.session.record(message)
        if said:
            for result in results:
                self.agent.session.record(result)
            for text in said[:-1]:
                self.agent.session.record({"role": "user", "content": text})
        overlay = "\n\n".join(self._not_told(request.instructions)) if said else ""
        turn = self.agent.turn_with(
            request.functions,
            said[-1] if said else None,
            results,
            overlay=overlay,
            cancelled=cancelled,
            options=request.options,
        )
        session, telling = self.agent.session, _Telling(request, say)
        session.beside_answer = lambda reply: beside(telling.text or reply)
        text, end = telling.run(turn)
        calls = end.message.get("tool_calls", []) if end.reason == "tool_calls" else []
        return Answer(
            text=text,
            calls=calls,
            usage=end.usage,
            reason=end.reason,
            model=end.model,
            session=session.id,
            receipt="" if end.reason == "tool_calls" else session.receipt_id,
        )


class _Telling:
    """Passes an answer on; pieces are sent at once if the client reads a stream of text.

    Text before a call of one of our own tools is dropped from an answer that has to fit a schema.
    """

    def __init__(self, request: ChatRequest, say: Say) -> None:
        self._at_once = request.stream and not request.is_structured
        self._is_structured = request.is_structured
        self._say = say
        self.text = ""

    def run(self, turn: Iterator[TurnEvent]) -> tuple[str, TurnFinished]:
        """The text of an answer and how it ended."""
        kept, end = "", None
        for event in turn:
            match event:
                case TextDelta():
                    self.text += event.text
                    if self._at_once:
                        self._say(event)
                case ReasoningDelta():
                    self._say(event)
                case ToolReturned():
                    self.text = kept = "" if self._is_structured else self.text
                case Retrying() if not self._at_once:  # the client has not seen the discarded text
                    self.text = kept
                case TurnFinished():
                    end = event
        if end is None:
            raise RuntimeError("a turn ended without its last event")
        whole = self.text or end.reply  # the notice about the limit of model calls is not streamed
        if whole and not (self.text and self._at_once):
            self._say(TextDelta(text=whole))
        return whole, end


class Conversations:
    """The open conversations, closed again when idle or when there are too many."""

    def __init__(
        self,
        home_of: HomeOf,
        *,
        most: int = 512,
        most_people: int = 512,
        toolsets: Collection[str] | None = None,
        open_agent: Open = Agent.open,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home_of = home_of
        self._toolsets = toolsets
        self._most = most
        self._most_people = most_people
        self._open_agent = open_agent
        self._clock = clock
        self._lock = threading.Lock()
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()  # by person and session
        self._names: dict[tuple[str, str], tuple[str, str]] = {}  # by person and name or digest: the conversation
        self._workspaces: OrderedDict[str, tuple[Workspace, float]] = OrderedDict()  # with when it was last asked for

    def __len__(self) -> int:
        return len(self._conversations)

    def workspace(self, person: str) -> Workspace:
        """The open workspace of a person, for calls that need no conversation."""
        now = self._clock()
        with self._lock:
            known = self._workspaces.get(person)
        if known is None:
            self._keep_reserve()
        with self._lock:
            known = self._workspaces.pop(person, None)
            found = known[0] if known else Workspace(self._home_of(person), source=SOURCE)
            self._workspaces[person] = (found, now)
        self._close_workspaces(_IN_USE, self._most_people)
        return found

    def _close_workspaces(self, idle_seconds: float, most: int) -> None:
        now = self._clock()
        with self._lock:
            idle = [name for name, (_, used) in self._workspaces.items() if now - used > idle_seconds]
            gone = [self._workspaces.pop(name)[0] for name in idle[: max(0, len(self._workspaces) - most)]]
        for workspace in gone:
            workspace.close()

    def _keep_reserve(self) -> bool:
        """Closes what nobody uses if few descriptors are left; returns whether that was necessary."""
        if free_descriptors() > descriptor_limit() * _RESERVE:
            return False
        _LOG.warning(
            "few descriptors are left of %d: idle conversations are closed; raise the limit (ulimit -n)",
            descriptor_limit(),
        )
        with self._lock:
            idle = self._drop_idle(0)
        for conversation in idle:
            _close(conversation)
        self._close_workspaces(_IN_USE_IN_NEED, 0)
        return True

    def converse(
        self,
        person: str,
        name: str,
        request: ChatRequest,
        *,
        say: Say,
        cancelled: Callable[[], bool],
        model: str = "",
    ) -> Answer:
        """Runs one turn; `name` is the client's name for the conversation, or "" to recognise it by its history."""
        history = Digest(request.history)

        def found_by(text: str, calls: list[dict[str, Any]]) -> str:
            """By what the next request finds the conversation; "" if the client has named it."""
            if request.previous:
                return request.answer_id
            return "" if name else str(history.and_then([*request.fresh, as_message(text, calls)]))

        with self._entered(person, name, history, request, model) as conversation:
            # Stored with the answer, because another server must not find the one without the other.
            answer = conversation.answer(
                request, say, cancelled, lambda text: self._store_key(conversation, found_by(text, []))
            )
            self._remember(conversation, found_by(answer.text, answer.calls))
            if request.answer_id:
                session = conversation.agent.session
                with suppress(StorageError):
                    session.database.set_meta(f"answer:{request.answer_id}", f"{session.id} {session.last_id}")
            return answer

    def leave(self, person: str) -> None:
        """Closes a person's conversations and workspace, as after their removal."""
        with self._lock:
            gone = [conversation for key, conversation in self._conversations.items() if key[0] == person]
            self._conversations = OrderedDict(
                (key, conversation) for key, conversation in self._conversations.items() if key[0] != person
            )
            self._names = {key: place for key, place in self._names.items() if key[0] != person}
            known = self._workspaces.pop(person, None)
        for conversation in gone:
            _close(conversation)
        if known is not None:
            known[0].close()

    def people(self) -> set[str]:
        """Everybody who has a conversation or a workspace open."""
        with self._lock:
            return {person for person, _ in self._conversations} | set(self._workspaces)

    def close(self) -> None:
        """Closes everything, of everybody; most of the time that takes is waiting for a database."""
        with ThreadPoolExecutor(_CLOSED_AT_ONCE, "close") as pool:
            for _ in pool.map(self.leave, self.people()):
                continue

    def _place(self, person: str, request: ChatRequest) -> tuple[str, int]:
        """The session of the answer that a request continues, and its last message at that time."""
        stored = self.workspace(person).past.get_meta(f"answer:{request.previous}")
        if not stored:
            said = f"there is no answer {request.previous!r} to go on from"
            raise BadRequest(said, "previous_response_id", code="previous_response_not_found")
        session, _, last = str(stored).partition(" ")
        return session, int(last)

    def _history(self, person: str, request: ChatRequest) -> list[dict[str, Any]]:
        """The messages a new conversation begins with: the client's, or another's up to the answer it names."""
        if not request.previous:
            return request.history
        session, last = self._place(person, request)
        told = (each for each in self.workspace(person).past.messages(session) if each.id <= last and not each.rewound)
        before = [{key: each.message[key] for key in _COPIED if key in each.message} for each in told]
        return [*before, *request.history]

    @contextmanager
    def _entered(
        self, person: str, name: str, history: Digest, request: ChatRequest, model: str
    ) -> Iterator[Conversation]:
        name = "" if request.previous else name
        key = name or (str(history) if request.history and not request.previous else "")
        try:
            conversation = self._find(person, name, key, request, model)
        except (HermesError, OSError):
            if not self._keep_reserve():
                raise
            conversation = self._find(person, name, key, request, model)  # safe to repeat: the turn has not begun
        self._wait_for(conversation)
        if _went_on_elsewhere(conversation):
            conversation.lock.release()
            self._drop(conversation)
            conversation = self._find(person, name, key, request, model)
            self._wait_for(conversation)
        try:
            # Another request may have continued it meanwhile, or answered its open calls.
            if not self._fits(conversation, key if not name else "", request):
                conversation.lock.release()
                self._release(conversation)
                conversation = self._enter(self._begin(person, name, request, model), name)
                conversation.lock.acquire()
            if model:
                conversation.agent.switch_model(model)
            yield conversation
        finally:
            conversation.lock.release()
            self._release(conversation)

    def _wait_for(self, conversation: Conversation) -> None:
        if not conversation.lock.acquire(timeout=_BUSY_SECONDS):
            self._release(conversation)
            raise BadRequest("this conversation is still answering; wait for it", status=409, code="busy")

    def _drop(self, conversation: Conversation) -> None:
        """Takes a conversation off the list that its user found outdated, and closes it."""
        with self._lock:
            self._conversations.pop(conversation.key, None)
            self._names = {key: place for key, place in self._names.items() if place in self._conversations}
        self._release(conversation)
        _close(conversation)

    def _fits(self, conversation: Conversation, after: str, request: ChatRequest) -> bool:
        """Whether nothing happened since the client's last answer; `after` is the digest of its history, if any."""
        session = conversation.agent.session
        if request.previous:
            return session.last_id == self._place(conversation.person, request)[1]
        if after and conversation.after != after:
            return False
        if not request.results:
            return True
        open_calls = unanswered_calls(session.context.messages)
        return all(result["tool_call_id"] in open_calls for result in request.results)

    def _find(self, person: str, name: str, key: str, request: ChatRequest, model: str) -> Conversation:
        """Finds or opens a conversation by `key`: its name or the digest of its history, "" if there is neither."""
        with self._lock:
            conversation = self._conversations.get(self._names.get((person, key), ("", ""))) if key else None
            if conversation is not None:
                conversation.users += 1
                self._conversations.move_to_end(conversation.key)
                return conversation
        stored = self._stored(person, name, key)
        if request.previous:
            stored = self.workspace(person).past.tip(self._place(person, request)[0]).id
        if not stored:
            return self._enter(self._begin(person, name, request, model), name)
        with self._lock:
            mine = (each for each in self._conversations.values() if each.person == person)
            conversation = next((each for each in mine if each.agent.session.id == stored), None)
            if conversation is not None:
                conversation.users += 1
                return conversation
        try:
            agent = self._open(person, resume=stored, model=model)
        except (NotFound, DamagedFile):
            return self._enter(self._begin(person, name, request, model), name)
        return self._enter(Conversation(person, agent, request.instructions, "" if name else key), key)

    def _stored(self, person: str, name: str, key: str) -> str:
        """The id of the stored session of this name or history; "" if there is none."""
        if not key:
            return ""
        try:
            database = self.workspace(person).past
            if name:
                found = database.resolve(name)
                return database.tip(found.id).id if found is not None else ""
            return str(database.get_meta(f"chat:{key}") or "")
        except StorageError:
            if _is_shared(self._home_of(person)):
                raise  # it may exist: a new one would store everything twice
            return ""  # continue with what the client sends; the session reports the problem

    def _begin(self, person: str, name: str, request: ChatRequest, model: str) -> Conversation:
        history = self._history(person, request)
        agent = self._open(person, title=name or None, model=model, system_message=request.system)
        if request.results and not request.said:
            open_calls = set(unanswered_calls(history))
            if not any(result["tool_call_id"] in open_calls for result in request.results):
                agent.close()
                raise BadRequest("these results belong to no call of the message before them", "messages")
        for message in history:
            agent.session.record(message, sync=False)
        return Conversation(person, agent, request.instructions, "" if name else str(Digest(history)))

    def _open(self, person: str, *, model: str, **more: Any) -> Agent:
        self._keep_reserve()
        home, database = self._home_of(person), self._database(person)
        if _is_shared(home):
            more["must_store"] = True  # a spare database on this disk would be lost with this server
        return self._open_agent(
            home, SOURCE, model=model, project="", toolsets=self._toolsets, database=database, **more
        )

    def _database(self, person: str) -> SessionDB | None:
        """The handle that all conversations of a person share: one each would take five descriptors."""
        try:
            return self.workspace(person).database
        except StorageError:
            return None  # the session reports the problem, and stores the messages elsewhere

    def _enter(self, conversation: Conversation, name: str = "") -> Conversation:
        """Adds a conversation to the list, or returns the one that another thread has opened meanwhile."""
        with self._lock:
            known = self._conversations.get(conversation.key)
            if known is None:
                self._conversations[conversation.key] = conversation
            chosen = known or conversation
            chosen.users += 1
            if name:
                self._names[conversation.person, name] = conversation.key
            idle = self._drop_idle(self._most)
        if known is not None:
            conversation.agent.close()
        for each in idle:
            _close(each)
        return chosen

    def _drop_idle(self, most: int) -> list[Conversation]:
        """Takes the longest unused conversations beyond `most` off the list and returns them."""
        idle = [key for key, conversation in self._conversations.items() if not conversation.users]
        gone = [self._conversations.pop(key) for key in idle[: max(0, len(self._conversations) - most)]]
        if gone:
            self._names = {key: place for key, place in self._names.items() if place in self._conversations}
        return gone

    def _release(self, conversation: Conversation) -> None:
        with self._lock:
            conversation.users -= 1

    def _store_key(self, conversation: Conversation, after: str) -> None:
        database = conversation.agent.session.database
        conversation.stored = after
        if not after:
            return
        with database.store.transaction():
            database.set_meta(f"chat:{after}", conversation.agent.session.id)
            # If several servers share the database, a client whose answer was lost may ask another server again,
            # with the history from before that answer; so the digest before it stays valid for one more turn.
            gone = conversation.before if is_address(database.path) else conversation.after
            if gone and gone != after:
                database.set_meta(f"chat:{gone}", None)

    def _remember(self, conversation: Conversation, after: str) -> None:
        if not after:
            return
        try:
            if conversation.stored != after:  # a call of a client's tool, or an answer that was broken off
                self._store_key(conversation, after)
        except StorageError:
            if is_address(conversation.agent.session.database.path):
                raise  # else another server would start a new conversation with the client's history
        with self._lock:
            self._names.pop((conversation.person, conversation.after), None)
            self._names[conversation.person, after] = conversation.key
        conversation.before, conversation.after = conversation.after, after


def _is_shared(home: Home) -> bool:
    """Whether other servers have the same conversations."""
    return is_address(conversations_of(home)["path"])


def _went_on_elsewhere(conversation: Conversation) -> bool:
    """Whether another server has continued the conversation, so that the open one is out of date."""
    session = conversation.agent.session
    try:
        if not is_address(session.database.path):
            return False
        stored = session.database.find_session(session.id)
    except OutOfOrder:  # closed: another thread has just noticed the same
        return True
    return stored is None or stored.last_id != session.last_id


def _close(conversation: Conversation) -> None:
    if conversation.lock.acquire(timeout=_BUSY_SECONDS):
        try:
            conversation.agent.close()
        finally:
            conversation.lock.release()
