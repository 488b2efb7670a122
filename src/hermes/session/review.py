"""Background review: after the answer, the same model looks back and saves what is worth keeping.

It sees the parent's prompt, messages and tools byte for byte, so that the provider's cache applies, plus one message
that is not stored. It can change only memory and skills, through the parent's store. External providers are not
notified, nobody is asked for consent, and text from outside in the conversation makes every write wait for approval. A
review that fails is logged and shown by `hermes status`; the person's turn is not affected.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError
from hermes.base.events import ToolReturned, TurnFinished
from hermes.base.text import counted
from hermes.base.tokens import estimate, estimate_message
from hermes.conversations.context import Contexts
from hermes.conversations.database import Opened
from hermes.conversations.maintenance import Maintenance
from hermes.safety.trust import TurnContext
from hermes.session.context import (
    MEMORY,
    SKILLS,
    Context,
    Request,
    ReviewCounters,
    outside_from_dicts,
    sources_in,
    wire_message,
)
from hermes.session.lifecycle import transcript
from hermes.session.models import CACHED, CURATION, REVIEW, Background, helper_model
from hermes.session.parts import prose
from hermes.tools.loop import run_turn
from hermes.tools.registry import CUT_OFF, TOOLSETS, Toolbox, failure, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes.base.events import Usage
    from hermes.conversations.database import SessionDB
    from hermes.llm.client import Model
    from hermes.session.session import MemorySession
    from hermes.settings.config import Settings


class Fork:
    """The session that `tools/loop` uses during a review; nothing in it is stored, searched or sent to providers.

    The model sees the parent's tools byte for byte, so that its cache applies; only those in `toolbox` run.
    """

    def __init__(self, parent: Request, instruction: str, toolbox: Toolbox, turn: TurnContext) -> None:
        self._parent = parent
        self._messages = [*parent.messages, {"role": "user", "content": instruction}]
        self._toolbox = toolbox
        self._turn = turn

    def request(self) -> Request:
        """The request with the instruction of the review and everything since."""
        return replace(self._parent, messages=list(self._messages))

    def record(self, message: Mapping[str, Any]) -> None:
        """Appends a message to the review, in memory only."""
        self._messages.append(wire_message(dict(message)))

    def call_tool(self, name: str, arguments: str, *, call_id: str, cut_off: bool = False) -> str:
        """Runs a tool of the review; for any other, the result tells the model which ones are available."""
        if cut_off:
            result = to_json(failure(CUT_OFF))
        elif name in self._toolbox.names():
            result = self._toolbox.call(name, arguments, self._turn)
        else:
            allowed = ", ".join(self._toolbox.names())
            result = to_json(failure(f"{name} is not available in a review, where nobody can be asked. Use {allowed}"))
        self._messages.append({"role": "tool", "tool_call_id": call_id, "name": name, "content": result})
        return result


LAST_PRUNE = "last_auto_prune"  # key of the time of the last pruning
# Rewriting a file blocks writers; up to this size, that takes about a second.
QUICKLY_REWRITTEN = 64_000_000


def is_due(database: SessionDB, settings: Settings) -> bool:
    """Whether old conversations should be pruned again, by `sessions.min_interval_hours`."""
    last = float(database.get_meta(LAST_PRUNE) or 0)
    return abs(time.time() - last) >= settings.integer("sessions.min_interval_hours") * 3600


def prune(database: SessionDB, settings: Settings) -> int:
    """Deletes conversations that were unused for `sessions.retention_days`, except archived ones; returns how many."""
    database.set_meta(LAST_PRUNE, str(time.time()))
    Opened(database).end_abandoned()
    upkeep = Maintenance.of_db(database)
    old = upkeep.unused(settings.integer("sessions.retention_days"))
    for session in old:
        for part in reversed(database.lineage(session.id)):
            if part.kind != "delegate" or part.parent is None:  # a delegated session is deleted with its parent
                database.delete(part.id)
    if old and settings.flag("sessions.vacuum_after_prune") and upkeep.sizes()["file_bytes"] <= QUICKLY_REWRITTEN:
        upkeep.rewrite()
    return len(old)


ORIGIN = "background_review"
LAST_REVIEW = "review:last"  # key of the outcome of the newest review
_SIDE_WORK = ("subagent", "tool", "cron")  # sources without a person, whose sessions are not reviewed
_MADE_UP_FOR = 3  # waiting reviews that are made at one start
_ROOM = 0.9  # share of the context window a review may fill
_LOG = logging.getLogger("hermes.review")


class Reviews:
    """The reviews of one session, one at a time, in a thread of their own."""

    def __init__(self, session: MemorySession, now: Callable[[], float] = time.time) -> None:
        self._session = session
        self._settings = session.settings
        self._database = session.database  # held, so that a session closed meanwhile raises a reportable error
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._budget = Background(session.database, session.settings, now)

    def after_turn(self, model: Model) -> bool:
        """Starts a review if one is due and says whether it did; call it once the person has the answer."""
        session = self._session
        if self._is_side_work():
            return False
        kinds = session.counters.due(self._settings, frozenset(session.tool_names))
        if not kinds or not self._settings.flag("review.enabled") or self.running:
            return False
        if why := self._budget.why_not(task=REVIEW):
            self._wait(session.id, kinds, why)  # the counts stay, so it is due again at the next turn
            return False
        try:
            session.counters.review_began(kinds)
            chosen = self._model(model)
        except HermesError as error:
            self._keep({"at": time.time(), "status": "failed", "error": str(error), "saved": []})
            return False
        if chosen is None:
            return False
        parent = session.snapshot_request()
        self._in_background(lambda: self.run(chosen, kinds, parent, same_model=chosen is model), "review")
        return True

    def tidy_if_due(self, model: Model | None = None) -> bool:
        """Starts the scheduled work that is due: pruning old conversations, curation, and reviews that waited.

        `model` makes the reviews; without it they keep waiting.
        """
        if self._is_side_work() or self.running:
            return False
        due = [work for work in (self._pruning(), self._curating(), self._waiting(model)) if work is not None]
        if due:
            self._in_background(lambda: [work() for work in due], "tidying")
        return bool(due)

    def _pruning(self) -> Callable[[], object] | None:
        if not self._settings.flag("sessions.auto_prune"):
            return None

        database, settings = self._database, self._settings
        return (lambda: prune(database, settings)) if is_due(database, settings) else None

    def _curating(self) -> Callable[[], object] | None:
        """A run of the curator, if it is due and nobody has used the home for a while."""
        from hermes.session.curator import Curator, helper_for

        session, settings = self._session, self._settings
        curator = Curator(session.home, settings, session.store)
        others = [each for each in session.database.list_sessions(limit=2) if each.id != session.id]
        if curator.why_not_now(max((each.last_active for each in others), default=0.0)):
            return None
        ask = helper_for(settings, self._budget)
        if ask is not None and self._budget.why_not():
            return None  # it stays due until a day with budget left

        def run() -> None:
            before = self._budget.spent().get(CURATION, {}).get("tokens", 0)
            done = Curator(session.home, settings, session.store, ask=ask).run(trigger="schedule")
            tokens = self._budget.spent().get(CURATION, {}).get("tokens", 0) - before
            self._budget.consolidated(CURATION, changed=bool(done["operations"]), tokens=tokens)
            _tell_curated(session, done)

        return run

    def _waiting(self, model: Model | None) -> Callable[[], object] | None:
        """The reviews for which no budget was left, the oldest first, if there is budget again."""
        own = self._session.id
        if model is None or not self._settings.flag("review.enabled"):
            return None
        waiting = [each for each in self._budget.waiting() if each["session"] != own][:_MADE_UP_FOR]
        if not waiting or self._budget.why_not(task=REVIEW):
            return None
        chosen = self._model(model)
        if chosen is None:
            return None
        return lambda: [self.run_waiting(chosen, each["session"], frozenset(each["about"])) for each in waiting]

    @property
    def running(self) -> bool:
        """Whether a review or scheduled work is running."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for running work; False if it takes longer than `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.running

    def close(self) -> None:
        """Waits a limited time for a review, then stops it; what it has saved stays saved."""
        if not self.wait(self._settings.number("review.close_seconds")):
            self._stop.set()
            self.wait(self._settings.number("review.close_seconds"))

    def run(self, model: Model, kinds: frozenset[str], parent: Request, *, same_model: bool = True) -> dict[str, Any]:
        """Makes one review in the calling thread; its outcome is stored for `hermes status`."""
        request = parent if same_model else _elsewhere(parent, self._toolbox())
        turn = self._session.turn_context(ORIGIN)
        return self._review(model, kinds, request, turn, cached=same_model)

    def run_waiting(self, model: Model, session_id: str, kinds: frozenset[str]) -> dict[str, Any]:
        """Makes the review of a stored conversation that waited for a new day or was killed."""
        database = self._database
        if database.find_session(session_id) is None:
            self._budget.done(session_id)
            return {}
        stored, details = Contexts(database).live(session_id), database.session_details(session_id)
        context = Context((each.id, each.message) for each in stored)
        parent = Request(system=details.get("system_prompt") or "", messages=context.public(), tools=[])
        outside = outside_from_dicts(details.get("prompt_outside"))
        turn = TurnContext(
            session=session_id, origin=ORIGIN, sources=lambda: sources_in(context, *outside), said=context.of_person
        )
        ReviewCounters(database, session_id).review_began(kinds)
        return self._review(model, kinds, _elsewhere(parent, self._toolbox()), turn, cached=False)

    def _review(
        self, model: Model, kinds: frozenset[str], request: Request, turn: TurnContext, *, cached: bool
    ) -> dict[str, Any]:
        started = time.time()
        outcome: dict[str, Any] = {"at": started, "session": turn.session, "about": sorted(kinds), "model": model.name}
        limit, spent = self._settings.integer("review.max_tokens"), 0

        def count(usage: Usage) -> None:
            nonlocal spent
            spent += self._budget.count(REVIEW, usage, model.name)

        prompt = prose(f"review_{'both' if kinds == {MEMORY, SKILLS} else min(kinds)}")
        tokens = estimate(request.system) + estimate(prompt) + sum(map(estimate_message, request.messages))
        expected = int(tokens * (CACHED if cached else 1))
        why = _too_dear(tokens, expected, limit, model)
        if not why and (later := self._budget.why_not(expected, REVIEW)):
            if self._budget.can_ever_pay(expected, REVIEW):
                return self._wait(turn.session, kinds, later)
            why = later
        if not why and not self._budget.begin(turn.session, kinds):
            why = "the process was killed during each attempt to make it"
        if why:
            self._budget.done(turn.session)
            return self._keep({**outcome, "status": "skipped", "error": why})
        fork = Fork(request, prompt, self._toolbox(), turn)
        saved: list[dict[str, Any]] = []
        try:
            events = run_turn(
                model,
                fork,
                counted=count,
                limit=self._settings.integer("review.max_calls"),
                cancelled=lambda: self._stop.is_set() or 0 < limit <= spent,
            )
            for event in events:
                if isinstance(event, ToolReturned) and (what := _saved(event)):
                    saved.append(what)
                elif isinstance(event, TurnFinished):
                    outcome |= {"status": _status(event, used_up=0 < limit <= spent), "calls": event.model_calls}
        except Exception as error:  # noqa: BLE001 - models and plug-ins are other people's code, and the turn is over
            _LOG.warning("the review of session %s failed: %s", turn.session, type(error).__name__)
            outcome |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        self._budget.done(turn.session)
        outcome |= {"saved": saved, "tokens": spent, "seconds": round(time.time() - started, 3)}
        self._budget.consolidated(REVIEW, changed=bool(saved), tokens=spent)
        _tell(self._session, saved)
        return self._keep(outcome)

    def _wait(self, session_id: str, kinds: frozenset[str], why: str) -> dict[str, Any]:
        self._budget.wait(session_id, kinds, why)
        return self._keep({"at": time.time(), "session": session_id, "status": "waiting", "error": why, "saved": []})

    def _is_side_work(self) -> bool:
        """Whether this is a delegated task or a tool's session, without a person whose habits could be learnt."""
        row = self._session.opened_as
        return row.kind == "delegate" or row.source in _SIDE_WORK

    def _model(self, main: Model) -> Model | None:
        return helper_model(self._settings, "background_review", main=main)

    def _keep(self, outcome: dict[str, Any]) -> dict[str, Any]:
        try:
            self._database.set_meta(LAST_REVIEW, json.dumps(outcome, ensure_ascii=False))
        except HermesError as error:
            _LOG.warning("the outcome of a review could not be kept: %s", error)
        return outcome

    def _toolbox(self) -> Toolbox:
        session = self._session
        offered = frozenset(session.tool_names)
        names = ("memory", *TOOLSETS["skills"])
        return Toolbox({name: partial(session.own_tool, name) for name in names if name in offered})

    def _in_background(self, work: Callable[[], object], name: str) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a thread that dies silently would hide why nothing is saved
                _LOG.warning("%s failed: %s", name, error)
                self._keep({"at": time.time(), "status": "failed", "error": f"{name}: {error}", "saved": []})

        self._stop.clear()
        self._thread = threading.Thread(target=run, name=f"hermes-{name}", daemon=True)
        self._thread.start()


def _too_dear(tokens: int, expected: int, limit: int, model: Model) -> str:
    """Says why a review with a first call of so many tokens must wait; "" if not. A cached token counts a tenth."""
    if tokens > model.context_length * _ROOM:
        return f"the conversation ({tokens:,} tokens) leaves no room for a review in {model.name}'s window"
    if limit and expected > limit:
        return f"one call would take about {expected:,} tokens; review.max_tokens is {limit:,}"
    return ""


def last_review(database: SessionDB) -> dict[str, Any] | None:
    """The outcome of the newest review, for status commands."""
    kept = database.get_meta(LAST_REVIEW)
    return json.loads(kept) if isinstance(kept, str) else None


def _elsewhere(parent: Request, toolbox: Toolbox) -> Request:
    """The request for another model, which has nothing cached: a short transcript, and only tools that run."""
    told = f"<transcript>\n{transcript(parent.messages)}\n</transcript>"
    system = f"{prose('review_elsewhere')}\n\n{parent.system}"
    answered = {"role": "assistant", "content": "I have read it."}
    return Request(system=system, messages=[{"role": "user", "content": told}, answered], tools=toolbox.schemas())


def _status(event: TurnFinished, *, used_up: bool) -> str:
    if event.reason == "interrupted":
        return "stopped at its cost limit" if used_up else "stopped"
    return "stopped at its call limit" if event.reason == "limit" else "done"


def _saved(event: ToolReturned) -> dict[str, Any]:
    """What a tool call of the review changed; empty when it only read or was refused."""
    result = json.loads(event.result)
    if not result.get("success") or event.call.name not in ("memory", "skill_manage"):
        return {}
    arguments = json.loads(event.call.arguments or "{}")
    what = str(arguments.get("target", "memory")) if event.call.name == "memory" else f"skill {arguments.get('name')}"
    texts = [arguments.get("content", ""), *(each.get("content", "") for each in arguments.get("operations") or ())]
    shown = [text for text in texts if text] if event.call.name == "memory" else [str(arguments.get("action"))]
    return {"what": what, "texts": shown, "staged": bool(result.get("staged"))}


def _tell(session: MemorySession, saved: list[dict[str, Any]]) -> None:
    """Adds a notice about what the review saved, as `display.memory_notifications` says."""
    how = session.settings.text("display.memory_notifications")
    if how == "off" or not saved:
        return
    done = list(dict.fromkeys(each["what"] for each in saved if not each["staged"]))
    waiting = sum(each["staged"] for each in saved)
    parts = [f"updated {', '.join(done)}"] if done else []
    parts += (
        [f"{waiting} waiting for your approval (`hermes memory pending`, `hermes skills pending`)"] if waiting else []
    )
    line = f"Looked back: {'; '.join(parts)}."
    if how == "verbose":
        line += " " + " | ".join(text for each in saved for text in each["texts"])
    session.notices.add("review", line)


def _tell_curated(session: MemorySession, run: dict[str, Any]) -> None:
    if session.settings.text("display.memory_notifications") == "off":
        return
    if run["changes"] or run["skills"]:
        count = len(run["operations"]) + len(run["skills"])
        session.notices.add(
            "curation", f"Tidied memory ({counted(count, 'change')}); `hermes curator undo` takes it back."
        )
    for each in run["contradictions"]:
        session.notices.add("curation", f"Which holds? {each['one']!r} or {each['other']!r} (`hermes curator status`)")
