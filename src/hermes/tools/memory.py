"""The tools with which a model keeps facts and skills, searches past conversations, and manages its own context."""

from __future__ import annotations

from hermes.base.errors import HermesError, StorageError, WriteRefused
from hermes.compaction.messages import calls_of, find_folded, format_ranges, parse_ranges, text_of
from hermes.memory.entries import Cause, preview
from hermes.memory.store import ACTIONS, ASK
from hermes.safety.trust import NO_TURN, decide
from hermes.tools.registry import ORIGIN, SCHEMAS, failure, staged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from hermes.conversations.database import SessionDB
    from hermes.conversations.session_search import Helpers, SessionSearch
    from hermes.memory.approval import Approvals, Pending
    from hermes.memory.store import MemoryStore, Operation, Written
    from hermes.safety.trust import TurnContext
    from hermes.skills.tool import SkillTools

    Read = Callable[[Sequence[int], str], Iterable[tuple[int, Mapping[str, Any]]]]


_IN_PROJECT = {
    "type": "string",
    "enum": ["memory", "user", "project"],
    "description": "memory: your notes; user: facts about the person; project: what matters only in this project",
}
_NOTE = "Saved for good. The prompt of this session stays as it is; the next session starts with these entries."
_MANY_REFUSALS = 3  # in a turn; after that the model is told to stop trying
# Refusals that count, because a model can answer each of them with one more attempt.
_FULL_OR_UNMATCHED = frozenset({"full", "too_long", "no_match", "ambiguous", "missing_old_text"})


class MemoryTool:
    """The tool `memory`; `store` is None when memory is switched off.

    A write is staged instead of made when a person must agree to every write (`why` says why), when the scanner cannot
    tell a threat from a harmless note, or when text from outside may have caused it and `untrusted` says so.
    """

    schema = SCHEMAS["memory"]
    brings = ""
    sink = "memory"
    gates_itself = True  # each target is a sink of its own, and pending writes have a form that other programs read
    in_turn = True
    defaults = {"target": "memory"}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        store: MemoryStore | None,
        *,
        approvals: Approvals,
        why: str = "",
        untrusted: str = "stage",
    ) -> None:
        if store is not None and "project" in store.targets:
            whole = self.schema["parameters"]
            fields = {**whole["properties"], "target": _IN_PROJECT}  # elsewhere a model need not know of projects
            self.schema = {**self.schema, "parameters": {**whole, "properties": fields}}
        self._store = store
        self._approvals = approvals
        self._why = why
        self._untrusted = untrusted
        self._refused_in = (0, 0)  # how often the person had spoken, and refusals since

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Makes or stages the changes, and shows the entries that result; a refusal shows what there is."""
        if self._store is None:
            return failure(
                "memory is switched off in the settings (memory.memory_enabled, memory.user_profile_enabled)"
            )
        target = arguments["target"]
        try:
            result = self._write(self._store, target, arguments.get("operations") or [_single(arguments)], turn)
        except WriteRefused as refusal:
            return _shown(self._refused(refusal, len(turn.said())), self._store, target)
        self._refused_in = (0, 0)
        return _shown(result, self._store, target)

    def _write(self, store: MemoryStore, target: str, operations: list[Operation], turn: TurnContext) -> dict[str, Any]:
        """Applies the operations, or stages them if there is a reason to.

        They are rehearsed before they are staged, so that the model learns of a mistake now, not after an approval.
        """
        cause = cause_of(turn)
        reasons = [self._why] if self._why else []
        new = [each.get("content", "") for each in operations if each["action"] != "remove"]
        decision = decide(target, turn, writes=new, removes=_replaced(store.entries(target), operations))
        if not decision.allowed:
            cause = Cause(origin=decision.origin or "unknown", session=cause.session, note=cause.note)
            if self._untrusted == "refuse":
                raise WriteRefused(f"{decision.reason}, and memory.untrusted_writes is refuse", kind="untrusted")
            reasons += [decision.reason] if self._untrusted == "stage" else []
        try:
            if not reasons:
                return _success(store.apply(target, operations, cause=cause))
            store.rehearse(target, operations, cause=cause)
        except WriteRefused as refusal:
            if refusal.kind != ASK:
                raise
            reasons.append(str(refusal))
        why, project = "; ".join(reasons), store.project if target == "project" else ""
        return _staged(self._approvals.stage(target, operations, cause, why, project, sources=decision.evidence()))

    def _refused(self, refusal: WriteRefused, spoken: int) -> dict[str, Any]:
        """The refusal as a result; after several in a turn, it tells the model to stop trying."""
        before = self._refused_in[1] if self._refused_in[0] == spoken else 0
        number = before + (refusal.kind in _FULL_OR_UNMATCHED)
        self._refused_in = (spoken, number)
        if number <= _MANY_REFUSALS:
            return failure(str(refusal), refusal.details)
        stop = f"{refusal}. That was refusal number {number} in this turn: leave memory as it is and continue."
        return failure(stop, {"done": True})


def cause_of(turn: TurnContext) -> Cause:
    """The cause that the history records for memory changes of this turn."""
    return Cause(origin=turn.origin, session=turn.session, note=turn.note, approved=turn.approved)


def _shown(result: dict[str, Any], store: MemoryStore, target: str) -> dict[str, Any]:
    """The result without the text of entries that a prompt would hide, blocked or kept from recall."""
    hidden: list[str] = []
    for name in ("entries", "current_entries", "conflicts"):
        live = result.get(name, ())
        result |= {name: store.shown(target, live)} if live else {}
        hidden += [was for was, now in zip(live, result.get(name, ()), strict=True) if was != now]
    for each in result.get("archived", ()):
        left = each["entry"]
        each["entry"] = store.shown(target, [left])[0]
        hidden += [left] if each["entry"] != left else []
    previews = [preview(entry) for entry in hidden]
    if "matches" in result:
        result["matches"] = [each for each in result["matches"] if each not in previews]
    for each in previews if "message" in result else ():
        result["message"] = result["message"].replace(repr(each), "an entry that is not shown")
    return result


def _replaced(entries: Sequence[str], operations: Sequence[Operation]) -> list[str]:
    """The entries that the operations would replace or remove, for the trust gate."""
    pieces = [each["old_text"] for each in operations if each["action"] != "add" and each.get("old_text")]
    return [entry for entry in entries if any(piece.strip() in entry for piece in pieces)]


def _single(arguments: dict[str, Any]) -> Operation:
    """The operation of a call that does not use the list `operations`."""
    if "action" not in arguments:
        raise WriteRefused(
            f"action is missing; give one of {', '.join(ACTIONS)}, or a list of operations", kind="missing_action"
        )
    return {field: arguments[field] for field in ("action", "content", "old_text") if field in arguments}


def _success(written: Written) -> dict[str, Any]:
    moved = [{"entry": each.entry, "reason": each.reason} for each in written.archived]
    return {
        "success": True,
        "done": True,
        **({"archived": moved} if moved else {}),
        **({"conflicts": list(written.conflicts)} if written.conflicts else {}),
        "target": written.target,
        "message": written.message,
        "usage": written.usage,
        "entry_count": len(written.entries),
        "entries": list(written.entries),
        "note": _NOTE,
    }


def _staged(pending: Pending) -> dict[str, Any]:
    return {
        "success": True,
        "staged": True,
        "pending_id": pending.id,
        "target": pending.target,
        "message": (
            f"Staged, not saved yet, because {pending.reason}. The user decides with `/memory approve {pending.id}` "
            f"or `/memory reject {pending.id}` in a chat with Hermes, in a shell `hermes memory …` likewise; tell them."
        ),
    }


# The conversation tools: search and read earlier ones, compact this one, read its compacted messages again.

DEFAULT_LIMIT, MOST_RESULTS = 10, 10
DEFAULT_BUDGET, LEAST_BUDGET, MOST_BUDGET = 2_000, 300, 20_000  # tokens of what is shown
DEFAULT_WINDOW, LARGEST_WINDOW = 5, 20  # messages around the one that is named


class SessionSearchTool:
    """The tool `session_search`: finds, reads and lists past conversations.

    `open_db` opens the conversations of a profile ("" for this one) for one call; None when there are none.
    """

    schema = SCHEMAS["session_search"]
    in_turn = True
    sink = ""
    grades_results = True  # each stored message keeps the grade it was stored with

    def __init__(
        self,
        open_db: Callable[[str], AbstractContextManager[SessionDB] | None],
        *,
        mask: Callable[[str], str] | None = None,
        helpers: Helpers | None = None,
        archived: Callable[[str, str], list[dict[str, Any]]] = lambda _query, _session: [],
        project: str = "",
    ) -> None:
        self._open_db = open_db
        self._mask = mask
        self._helpers = helpers
        self._archived = archived  # finds archived entries of curated memory that match a query
        self._project = project

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Searches, reads, scrolls or lists, depending on the arguments given.

        A database that cannot be used becomes a failure the model can work around, not an exception.
        """
        from hermes.base.words import scrub

        given = {name: scrub(value) if isinstance(value, str) else value for name, value in arguments.items()}
        profile, session_id = _profile_of(given)
        try:
            opened = self._open_db(profile)
            if opened is None:
                return self._with_archived(_nothing_yet(given), {} if profile else given, turn.session)
            with opened as db:
                search = self._search(db, "" if profile else turn.session)
                answer = {**self._answer(search, given, session_id), ORIGIN: search.origin}
        except StorageError as error:
            return failure(f"past conversations are unavailable: {error}", {"unavailable": True})
        except HermesError as error:
            return failure(str(error))
        if profile:
            return {**answer, "profile": profile}
        return self._with_archived(answer, given, turn.session)

    def _with_archived(self, answer: dict[str, Any], given: dict[str, Any], current: str) -> dict[str, Any]:
        query = given.get("query", "").strip()
        found = self._archived(query, current) if query and answer.get("mode") in ("discover", "coverage") else []
        return {**answer, "archived_memory": found} if found else answer

    def _answer(self, search: SessionSearch, given: dict[str, Any], session_id: str) -> dict[str, Any]:
        """Scrolls around a message, reads a session, searches, or lists sessions, in this order of preference."""
        query = given.get("query", "").strip()
        if "around_message_id" in given and (session_id or not query):
            window = _clamped(given.get("window", DEFAULT_WINDOW), 1, LARGEST_WINDOW)
            return search.scroll(session_id, given["around_message_id"], window)
        if session_id:
            return search.read(session_id)
        wanted = _criteria(given, self._project)
        return search.discover(query, wanted) if query else search.browse(wanted)

    def _search(self, db: SessionDB, current: str) -> SessionSearch:
        from hermes.conversations.session_search import SessionSearch
        from hermes.safety.secrets import mask_secrets

        return SessionSearch(
            db,
            current=current or None,
            mask=self._mask or mask_secrets,
            helpers=self._helpers,
        )


def _profile_of(given: dict[str, Any]) -> tuple[str, str]:
    """Splits `profile/id`, a form that names both at once, into profile and session id."""
    profile, session_id = given.get("profile", "").strip(), given.get("session_id", "").strip()
    before, slash, after = session_id.partition("/")
    if slash and not profile and before and after and " " not in before:
        return before, after
    return profile, session_id


def _criteria(given: dict[str, Any], here: str) -> Any:
    import time

    from hermes.base import dates
    from hermes.conversations.retrieval import Criteria

    roles = tuple(role for role in given.get("role_filter", "").lower().replace(",", " ").split() if role)
    now = time.time()
    return Criteria(
        limit=_clamped(given.get("limit", DEFAULT_LIMIT), 1, MOST_RESULTS),
        budget=_clamped(given.get("budget", DEFAULT_BUDGET), LEAST_BUDGET, MOST_BUDGET),
        sort=given.get("sort", "relevance"),
        roles=roles or None,
        since=dates.since(given["since"], now) if given.get("since", "").strip() else None,
        until=dates.until(given["until"], now) if given.get("until", "").strip() else None,
        source=given.get("source", "").strip() or None,
        project=given.get("project", "").strip() or None,
        include_superseded=bool(given.get("include_superseded")),
        prefer_project=here or None,  # ranked first; results from other projects follow
    )


def _clamped(number: int, low: int, high: int) -> int:
    return max(low, min(high, number))


def _nothing_yet(given: dict[str, Any]) -> dict[str, Any]:
    """The answer of a home without conversations, in the same form as any other."""
    if given.get("session_id"):
        return failure(f"there is no session {given['session_id'][:100]!r}: there are no past conversations yet")
    mode = "discover" if given.get("query", "").strip() else "browse"
    answer: dict[str, Any] = {"success": True, "mode": mode, "results": [], "count": 0}
    if mode == "discover":
        answer |= {"query": given["query"], "sessions_searched": 0}
    return {**answer, "message": "There are no past conversations yet."}


class ContextCompact:
    """The tool `context_compact`: lets the model make room in its context before it runs out."""

    in_turn = True
    brings = ""
    sink = ""  # the originals stay stored, and the block gets the grade of what it replaces
    schema = SCHEMAS["context_compact"]

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Compacts the running conversation; outside a session there is none, which is a failure."""
        if turn.compact is None:
            return failure("there is no running conversation here; context_compact works inside a session")
        return turn.compact(arguments)


MOST_CHARACTERS = 24_000  # of one answer; the rest can be asked for
_AROUND = 400  # characters shown on each side of a hit
_FRAME = 80  # characters of JSON around one message
_LONGEST_NAME = 64


class ContextExpand:
    """The tool `context_expand`: shows stored messages that a compaction replaced by a block.

    `read` gets ids and the current session, and yields messages one by one: reading stops when the answer is full.
    """

    in_turn = True
    sink = ""
    schema = SCHEMAS["context_expand"]

    def __init__(self, read: Read, most_characters: int = MOST_CHARACTERS) -> None:
        self._read = read
        self._most = most_characters

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Shows messages by their ids, or with `find` the passages that hold a text, and says how to read on."""
        wanted = parse_ranges(arguments["ids"])
        if not wanted:
            return failure(f"ids must be numbers and ranges such as '4096-4131', not {arguments['ids'][:60]!r}")
        found = ((number, _plain(message)) for ids in wanted for number, message in self._read(ids, turn.session))
        if needle := arguments.get("find", "").strip():
            return self._shown(_hits(found, needle), wanted, 0)
        return self._shown(found, wanted, max(arguments.get("start", 0), 0))

    def origin_of(self, _arguments: dict[str, Any], _result: object, turn: TurnContext) -> str:
        """From recall if the conversation has outside text: bringing messages back must not raise their grade."""
        return "recall" if turn.sources() else ""

    def _shown(self, found: Iterator[tuple[int, dict[str, Any]]], wanted: list[range], start: int) -> dict[str, Any]:
        """Collects messages until the answer is full; cuts a single one that is too long, and says how to go on."""
        messages: list[dict[str, Any]] = []
        left = self._most
        for number, message in found:
            whole = message["content"]
            content, start = whole[start:], 0
            size = len(content) + _FRAME
            if size > left and messages:
                return {"success": True, "messages": messages, "more": {"ids": _from(wanted, number)}}
            if size > left:
                room = max(left - _FRAME, 1)
                shown = {"id": number, **message, "content": content[:room]}
                more = {"ids": _from(wanted, number), "start": len(whole) - len(content) + room}
                return {"success": True, "messages": [shown], "more": more}
            messages.append({"id": number, **message, "content": content})
            left -= size
        if not messages:
            return failure("none of these messages holds that, or they belong to another conversation")
        return {"success": True, "messages": messages}


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Role and text; tool calls become lines of the text, so that a long one can be cut anywhere."""
    calls = [f"[calls {name}({arguments})]" for _, name, arguments in calls_of(message)]
    shown: dict[str, Any] = {
        "role": message.get("role"),
        "content": "\n".join(filter(None, (text_of(message), *calls))),
    }
    if isinstance(message.get("name"), str):
        shown["name"] = message["name"][:_LONGEST_NAME]
    return shown


def _hits(found: Iterator[tuple[int, dict[str, Any]]], needle: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each message that contains the text, cut to what is around its first occurrence."""
    for number, message in found:
        content = message["content"]
        place = find_folded(content, needle)
        if place >= 0:
            low, high = max(place - _AROUND, 0), place + len(needle) + _AROUND
            before, after = "…" if low else "", "…" if high < len(content) else ""
            yield number, {**message, "content": f"{before}{content[low:high]}{after}"}


def _from(wanted: list[range], number: int) -> str:
    """The wanted ids from this one on, in the notation of the `ids` argument, for the next call."""
    at = next(at for at, ids in enumerate(wanted) if number in ids)
    first, *others = wanted[at:]
    return format_ranges([(number, first.stop - 1), *((each.start, each.stop - 1) for each in others)])


# The skill tools. The description of a skill is part of every prompt, as memory is, so a change may have to wait.

MANAGE, VIEW, LIST = "skill_manage", "skill_view", "skills_list"
_KEPT = ("content", "new_string", "file_content")  # arguments of `skill_manage` that hold what would be kept


class SkillTool:
    """One of the skill tools as the toolbox needs it; `hermes.skills` does the work.

    With `approvals`, changes wait for a person there: all of them if `why` says so, otherwise those that text from
    outside may have caused, as `untrusted` (stage, refuse or allow) says.
    """

    in_turn = True

    def __init__(
        self,
        name: str,
        tools: SkillTools,
        approvals: Approvals | None = None,
        *,
        why: str = "",
        untrusted: str = "stage",
    ) -> None:
        self._name = name
        self._tools = tools
        self._approvals = approvals if name == MANAGE else None
        self._why = why
        self._untrusted = untrusted
        self.sink = "skills" if name == MANAGE else ""
        self.gates_itself = name == MANAGE  # a pending skill change is stored in a form of its own
        self.schema = tools.schemas[name]

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Runs the tool. A change that must wait is staged, or refused at once if it could never succeed."""
        if self._approvals is None:
            return self._tools.handle(self._name, arguments)
        reasons = [self._why] if self._why else []
        new = [arguments[name] for name in _KEPT if isinstance(arguments.get(name), str)]
        decision = decide("skills", turn, writes=new, removes=_lost(arguments))
        if not decision.allowed and self._untrusted != "allow":
            reasons.append(decision.reason)
            if self._untrusted == "refuse":
                raise WriteRefused(f"{decision.reason}, and memory.untrusted_writes is refuse", kind="untrusted")
        if not reasons:
            return self._tools.handle(self._name, arguments)
        if refusal := self._tools.refusal(arguments):
            return refusal
        cause = Cause(origin=decision.origin or turn.origin, session=turn.session)
        call = {"tool": MANAGE, "arguments": arguments, "cwd": ""}
        why, evidence = "; ".join(reasons), decision.evidence()
        return staged(self._approvals.stage("skills", (), cause, why, sources=evidence, call=call), "skills")

    def origin_of(self, arguments: dict[str, Any], _result: object, _turn: TurnContext) -> str:
        """From a file if the skill is in a folder of other people's that the person does not trust."""
        name = arguments.get("name")
        viewed = self._name == VIEW and isinstance(name, str) and self._tools.is_outside(name)
        return "file" if viewed or (self._name == LIST and self._tools.outside_skills()) else ""


def _lost(arguments: dict[str, Any]) -> list[str]:
    """The words that identify what a change removes; a change that only adds removes nothing."""
    taken = {"patch": ("old_string",), "delete": ("name",), "remove_file": ("name", "file_path")}
    named = [arguments.get(each) for each in taken.get(str(arguments.get("action")), ())]
    return [" ".join(each for each in named if isinstance(each, str))] if named else []
