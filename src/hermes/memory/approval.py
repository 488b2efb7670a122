"""Pending writes: changes of memory and skills and tool calls that wait for a person, each staged in its own file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hermes.base.errors import NotFound, StorageError, WriteRefused
from hermes.base.values import value
from hermes.memory.entries import Cause
from hermes.memory.file import pending_writes
from hermes.memory.store import Written
from hermes.storage.documents import Waiting, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from hermes.memory.store import MemoryStore, Operation
    from hermes.settings.home import Home


SKILLS, SKILL_TOOL = "skills", "skill_manage"  # a change of a skill waits as a call of this tool, in its own folder


@value
class Pending:
    """One pending write. `reason` says why a person is asked, `sources` where the text may come from.

    `sink` is what it would change (a name of `safety.trust.SINKS`). Each source has its origin, its name and the
    passage that is nearest to the text. Anything other than a change of memory is a `call` (tool, arguments, cwd)
    that runs on approval.
    """

    id: str
    target: str
    operations: tuple[Operation, ...]
    cause: Cause
    created_at: float
    reason: str = ""
    project: str = ""
    sources: tuple[Mapping[str, str], ...] = ()
    call: Mapping[str, Any] | None = None

    @property
    def sink(self) -> str:
        """What the write would change, as `safety.trust.SINKS` names it."""
        return self.target

    @property
    def summary(self) -> str:
        """Describes the write in one line for lists and notices."""
        if self.call is not None:
            return _call_in_words(self.call)
        return "; ".join(_in_words(operation) for operation in self.operations)

    @property
    def texts(self) -> tuple[str, ...]:
        """What would be kept, in order: the texts a person may change before they agree."""
        if self.call is not None:
            return tuple(self.call["arguments"][name] for name in _kept_arguments(self.call))
        return tuple(each["content"] for each in self.operations if each.get("content"))

    def with_texts(self, texts: Sequence[str]) -> Pending:
        """Returns the same write with its texts replaced; `texts` must have as many as the write keeps."""
        if len(texts) != len(self.texts):
            raise WriteRefused(f"{self.id} keeps {len(self.texts)} texts, not {len(texts)}", kind="texts")
        new = iter(texts)
        if self.call is not None:
            given = {**self.call["arguments"], **{name: next(new) for name in _kept_arguments(self.call)}}
            return Pending(**(vars(self) | {"call": {**self.call, "arguments": given}}))
        operations = tuple({**each, "content": next(new)} if each.get("content") else each for each in self.operations)
        return Pending(**(vars(self) | {"operations": operations}))

    def as_dict(self) -> dict[str, Any]:
        """For programs: the command line's `--json` and the HTTP API."""
        arguments = {"arguments": dict(self.call["arguments"])} if self.call and self.target == SKILLS else None
        return {
            "id": self.id,
            "target": self.target,
            **(arguments or {"operations": [dict(operation) for operation in self.operations]}),
            "origin": self.cause.origin,
            "session": self.cause.session,
            "created_at": self.created_at,
            "reason": self.reason,
            "sink": self.sink,
            "summary": self.summary,
            "sources": [dict(source) for source in self.sources],
            **({"call": dict(self.call)} if self.call is not None and not arguments else {}),
        }


class Approvals:
    """The pending writes of one folder of the home: memory changes with tool calls, or skill changes."""

    def __init__(self, home: Home, folder: str = "memory") -> None:
        self._waiting = Waiting(pending_writes(home, folder))

    def stage(
        self,
        target: str,
        operations: Sequence[Operation],
        cause: Cause,
        reason: str = "",
        project: str = "",
        *,
        sources: Sequence[Mapping[str, str]] = (),
        call: Mapping[str, Any] | None = None,
    ) -> Pending:
        """Keeps a write for later; durable when it returns. The caller has checked and screened it.

        An identical pending write is returned instead of staged again, so that a person decides about it only once,
        however often a model asks.
        """
        wanted = (target, tuple(dict(operation) for operation in operations), project, call)
        for waiting in self.pending()[0]:
            operations_there = tuple(dict(each) for each in waiting.operations)
            if (waiting.target, operations_there, waiting.project, waiting.call) == wanted:
                return waiting
        pending = Pending(
            id=new_id(),
            target=target,
            operations=tuple(operations),
            cause=cause,
            created_at=time.time(),
            reason=reason,
            project=project,
            sources=tuple(sources),
            call=call,
        )
        self._waiting.put(pending.id, _to_json(pending))
        return pending

    def pending(self) -> tuple[list[Pending], list[str]]:
        """The staged writes, oldest first, and the files that could not be understood."""
        found, unreadable = self._waiting.all(_from_json)
        return sorted(found, key=lambda pending: pending.created_at), unreadable

    def approve(
        self, pending_id: str, store: MemoryStore, run: Callable[[Mapping[str, Any]], str] | None = None
    ) -> Written:
        """Carries out a staged write with the origin it was staged with; a refusal leaves it staged.

        `run` performs a tool call and returns its result, or raises WriteRefused.
        """
        pending = self.get(pending_id)
        if pending.call is not None:
            if run is None:
                raise WriteRefused(f"{pending_id} is a call; approve it with `hermes memory approve`", kind="target")
            done = Written(target=pending.target, message=run(pending.call), entries=(), limit=0, change=None)
            self._waiting.drop(pending_id)
            return done
        if pending.project and pending.project != store.project:
            raise WriteRefused(
                f"{pending_id} is a note of a project; approve it with --project {pending.project}",
                kind="target",
            )
        cause = Cause(
            origin=pending.cause.origin, session=pending.cause.session, note="approved by the user", approved=True
        )
        # Write first, then unstage: a crash in between leaves a write that can be rejected, and loses nothing.
        written = store.apply(pending.target, pending.operations, cause=cause)
        try:
            self._waiting.drop(pending_id)
        except StorageError as error:
            return written.saying(f"{written.message} If it is still listed as pending, reject it there: {error}")
        return written

    def edit(self, pending_id: str, texts: Sequence[str]) -> Pending:
        """Replaces the texts of a pending write, which stays pending."""
        edited = self.get(pending_id).with_texts(texts)
        self._waiting.put(pending_id, _to_json(edited))
        return edited

    def reject(self, pending_id: str) -> Pending:
        """Discards a staged write and returns it, so that the caller can say what was rejected."""
        pending = self.get(pending_id)
        self._waiting.drop(pending_id)
        return pending

    def get(self, pending_id: str) -> Pending:
        """Returns one staged write by its id; raises NotFound when nothing is pending under it."""
        for pending in self.pending()[0]:
            if pending.id == pending_id:
                return pending
        raise NotFound(f"nothing is pending under {pending_id!r}; `hermes memory pending` lists what is")


# The arguments in which our tools and those of memory providers carry the text they keep.
_KEPT_ARGUMENTS = ("content", "new_text", "text", "conclusion", "new_string", "file_content")


def _kept_arguments(call: Mapping[str, Any]) -> list[str]:
    return [name for name in _KEPT_ARGUMENTS if isinstance(call["arguments"].get(name), str)]


def _in_words(operation: Operation) -> str:
    old, new = operation.get("old_text", ""), operation.get("content", "")
    words = {"add": f"add {new!r}", "replace": f"replace {old!r} by {new!r}"}
    return words.get(operation["action"], f"remove {old!r}")


def _call_in_words(call: Mapping[str, Any]) -> str:
    given = call["arguments"]
    if call["tool"] == SKILL_TOOL:
        return f"{given.get('action')} {given.get('name')}"
    where = given.get("path") or given.get("action") or ""
    texts = [given[name] for name in ("content", "new_text") if isinstance(given.get(name), str)]
    what = repr(texts[0]) if texts else ", ".join(f"{name}={each!r}" for name, each in given.items())
    return f"{call['tool']} {where}: {what}" if where else f"{call['tool']}: {what}"


def _to_json(pending: Pending) -> dict[str, Any]:
    operations = [dict(operation) for operation in pending.operations]
    if pending.call is not None:
        operations = [{"action": "call", **pending.call}]
    single = operations[0] if len(operations) == 1 else {"action": "batch", "operations": operations}
    record = {
        "id": pending.id,
        "subsystem": "memory",
        "action": single["action"],
        "summary": pending.summary,
        "origin": pending.cause.origin,
        "session": pending.cause.session,
        "created_at": pending.created_at,
        "reason": pending.reason,
        "sources": [dict(source) for source in pending.sources],
        "payload": {**single, "target": pending.target, **({"project": pending.project} if pending.project else {})},
    }
    if pending.call is not None and pending.target == SKILLS:
        record |= {"subsystem": SKILLS, "payload": dict(pending.call["arguments"])}
    return record


def _from_json(pending_id: str, record: dict[str, Any]) -> Pending:
    payload = record["payload"]
    if record.get("subsystem") == SKILLS:
        payload = {"action": "call", "target": SKILLS, "tool": SKILL_TOOL, "arguments": dict(payload), "cwd": ""}
    is_call = payload["action"] == "call"
    operations = [] if is_call else payload["operations"] if payload["action"] == "batch" else [payload]
    kept = ("action", "content", "old_text")
    return Pending(
        id=pending_id,
        target=payload["target"],
        operations=tuple({name: str(op[name]) for name in kept if op.get(name) is not None} for op in operations),
        # hermes-agent, whose records look the same, calls a write by the agent itself "foreground".
        cause=Cause(origin=record["origin"].replace("foreground", "agent"), session=record.get("session", "")),
        created_at=float(record["created_at"]),
        reason=record.get("reason", ""),
        project=str(payload.get("project", "")),
        sources=tuple({str(k): str(v) for k, v in each.items()} for each in record.get("sources", ())),
        call={name: payload[name] for name in ("tool", "arguments", "cwd")} if is_call else None,
    )
