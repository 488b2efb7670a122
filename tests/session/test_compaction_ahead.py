"""Compaction that is prepared while the conversation goes on, and the ledger that survives every one."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk, texts

from hermes.agent import Agent
from hermes.base.errors import ModelRefused
from hermes.base.events import Compacted, TurnFinished
from hermes.compaction.messages import is_block, parse_block
from hermes.conversations.context import Contexts
from hermes.llm.scripted import Scripted
from hermes.session.session import MemorySession
from hermes.tools.memory import ContextExpand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from conftest import Ran
    from hermes.base.errors import ModelError
    from hermes.llm.client import Message

    Command = Callable[..., Ran]

WINDOW = 32_000
NO_REVIEW = "review:\n  enabled: false\n"
SUMMARY = (
    "## Goal\nRepair every module.\n\n## Progress\n### Done\n- The early modules work again.\n\n## Next Steps\n- Go on."
)
NO_HELPER = "auxiliary:\n  compression:\n    enabled: false\nreview:\n  enabled: false\n"


def do(session: MemorySession, tool: str, result: str = '{"success": true}', **arguments: object) -> None:
    """A turn in which a tool of the host is called."""
    session.prepare_turn(f"Please use {tool}. {'more words ' * 60}")
    function = {"name": tool, "arguments": json.dumps(arguments)}
    session.record(
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    )
    session.record_result("c1", result)
    session.finish_turn(f"Done. {'it works now ' * 60}")


def ledger(session: MemorySession) -> list[str]:
    (block,) = [message for message in session.request().messages if is_block(message)]
    return parse_block(block).ledger.splitlines()


@pytest.mark.proves("compaction.ledger")
def test_files_changed_and_commands_run_are_listed_exactly_after_every_compaction(home: Path, hermes: Command) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        talk(session, 4)
        do(session, "write_file", path="src/a.py", content="x = 1")
        do(session, "patch", path="src/a.py", old_text="1", new_text="2")
        do(session, "patch", '{"success": false, "error": "no such text"}', path="src/b.py", old_text="1", new_text="2")
        do(session, "apply_patch", input="*** Begin Patch\n*** Update File: src/c.py\n@@\n-1\n+2\n*** End Patch")
        do(session, "read_file", path="src/d.py")
        do(session, "terminal", '{"success": false, "exit_code": 1, "output": "1 failed"}', command="pytest -q\n  -x")
        do(session, "terminal", '{"success": false, "error": "held back"}', command="rm -rf build")
        do(session, "Bash", "ok", command="git push origin main")
        talk(session, 4, start=4)
        assert session.compact()
        first = ["- changed: src/a.py (2 times)", "- changed: src/c.py", "- ran: pytest -q -x"]
        assert ledger(session) == [*first, "- ran: git push origin main"]
        do(session, "terminal", command="pytest -q -x")
        talk(session, 6, start=8)
        assert session.compact()
        talk(session, 6, start=14)
        assert session.compact()
        last = ["- ran: git push origin main", "- ran: pytest -q -x (2 times)"]
        assert ledger(session) == [*first[:2], *last]
    with MemorySession.open(home, resume=session.id) as again:
        assert ledger(again) == [*first[:2], *last]
    assert hermes("sessions", "show", session.id, "--ledger").out.splitlines() == [*first[:2], *last]
    told = hermes("sessions", "show", session.id, "--ledger", "--json").json
    assert told[0] == {"did": "changed", "what": "src/a.py", "times": 2}


@pytest.mark.proves("compaction.ledger")
def test_a_ledger_without_room_counts_what_it_does_not_show(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        talk(session, 2)  # the first messages are never compacted
        for number in range(40):
            do(session, "write_file", path=f"src/part_{number}/{'deep/' * 12}module.py", content="x = 1")
        assert session.compact()
        lines = ledger(session)
        talk(session, 8)
        assert session.compact()
        later = ledger(session)
    for shown in (lines, later):
        hidden = int(shown[0].removeprefix("- changed before these: "))
        assert 0 < hidden < 40
        assert shown[-1].startswith("- changed: src/part_")
    assert int(later[0].rpartition(" ")[2]) + len(later) - 1 == 40


class Slow:
    """A model that answers at once, and summarises when it is let go."""

    def __init__(self, summary: str | ModelError = SUMMARY, window: int = WINDOW) -> None:
        self._summary = summary
        self._let_go = threading.Event()
        self.asked = threading.Event()
        self.model = Scripted([self._step] * 400, context_length=window)

    def let_go(self) -> None:
        self._let_go.set()

    @property
    def summaries(self) -> int:
        return sum("<session>" in str(sent.messages[-1]["content"]) for sent in self.model.requests)

    def _step(self, messages: Sequence[Message]) -> str | ModelError:
        if "<session>" not in str(messages[-1]["content"]):
            return "Yes."
        self.asked.set()
        assert self._let_go.wait(60)
        return self._summary


@pytest.fixture
def slow() -> Iterator[Slow]:
    model = Slow()
    yield model
    model.let_go()  # no thread outlives a test


def turn(session: MemorySession, slow: Slow, text: str) -> list[Compacted]:
    """A whole turn, and the compactions that happened in it."""
    events = list(Agent(session, slow.model).turn(text))
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reply == "Yes."
    return [event for event in events if isinstance(event, Compacted)]


def fill(session: MemorySession, share: float, start: int = 0) -> None:
    """Turns until so much of the window is used."""
    while session.compactor.tokens() < share * WINDOW:
        talk(session, 1, start=start)
        start += 1


def reachable(session: MemorySession) -> str:
    """The context, and what one call for each line of its block brings back."""
    shown = session.request().messages
    lines = [line for each in shown if is_block(each) for line in parse_block(each).chapters]
    stored = {each.id: each.message for each in Contexts(session.database).originals(session.id)}
    expand = ContextExpand(lambda ids, _session: ((each, stored[each]) for each in ids if each in stored))
    answers = [str(expand.call({"ids": line.line.removeprefix("- ").partition(" (")[0]})) for line in lines]
    return "\n".join([texts(shown), *answers])


@pytest.mark.proves("compaction.ahead")
def test_no_turn_waits_for_a_summary_and_nothing_is_lost(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    with MemorySession.open(home) as session:
        session.prepare_turn("Never deploy on a Friday. The key of the door is K-7731.")
        session.finish_turn("Understood.")
        fill(session, 0.42)
        assert turn(session, slow, "How far are we?") == []  # four fifths of the threshold: it is prepared
        assert slow.asked.wait(60)
        fill(session, 0.6, start=100)
        assert turn(session, slow, "And now?") == []  # the model still thinks about the summary; nobody waits
        before = session.request().messages
        slow.let_go()
        session.compactor.wait()
        (done,) = turn(session, slow, "And now, really?")
        assert (done.why, done.how, slow.summaries) == ("threshold", "main", 1)
        after = session.request().messages
        assert after[-4:-2] == before[-2:]  # what was said meanwhile follows as it was
        assert "The early modules work again" in texts(after)
        assert done.tokens_after < done.tokens_before
        everything = reachable(session)
    for number in range(3):
        assert f"ABC-{number:04}" in everything
    assert "Never deploy on a Friday." in everything
    assert "K-7731" in everything


@pytest.mark.proves("compaction.ahead")
def test_a_full_window_waits_for_what_is_being_prepared_and_asks_nobody_twice(home: Path, slow: Slow) -> None:
    configure(home, f"  threshold: 0.8\n{NO_REVIEW}", window=WINDOW)
    with MemorySession.open(home) as session:
        fill(session, 0.75)
        assert turn(session, slow, "How far are we?") == []
        assert slow.asked.wait(60)
        while session.compactor.tokens() < 0.86 * WINDOW:  # a host that does not compact in its loop
            session.record({"role": "user", "content": f"Go on. {'more words ' * 100}"})
            session.record({"role": "assistant", "content": f"I did. {'it works now ' * 50}"})
        slow.let_go()
        assert turn(session, slow, "And now?")
        assert slow.summaries == 1


@pytest.mark.proves("compaction.ahead.checked")
def test_a_name_used_meanwhile_is_in_the_block_with_the_message_that_had_it(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    with MemorySession.open(home) as session:
        talk(session, 1)
        do(session, "read_file", "the lock is in src/locks/old_table.py, see line 12", path="README")
        fill(session, 0.65, start=2)
        slow.let_go()
        assert turn(session, slow, "How far are we?") == []
        session.compactor.wait()
        do(session, "read_file", "…", path="src/locks/old_table.py")
        assert turn(session, slow, "And now?")
        (block,) = [message for message in session.request().messages if is_block(message)]
        (line,) = [each for each in parse_block(block).kept.splitlines() if each.startswith("- used again: ")]
        number = int(line.partition("[")[2].partition("]")[0])
        (stored,) = [each for each in Contexts(session.database).originals(session.id) if each.id == number]
    assert "src/locks/old_table.py" in line
    assert "see line 12" in line
    assert "see line 12" in stored.text


@pytest.mark.proves("compaction.ahead.checked")
def test_a_command_run_again_is_there_also_when_the_ledger_had_no_room_for_it(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    slow.let_go()
    with MemorySession.open(home) as session:
        talk(session, 1)
        do(session, "terminal", '{"success": true, "exit_code": 0, "output": "tagged"}', command="make release now")
        number = 0
        while session.compactor.tokens() < 0.65 * WINDOW:
            do(session, "write_file", path=f"src/part_{number}/{'deep/' * 12}module.py", content="x = 1")
            number += 1
        assert turn(session, slow, "How far are we?") == []
        session.compactor.wait()
        do(session, "terminal", command="make release now")
        assert turn(session, slow, "And now?")
        assert "- ran: make release now" not in ledger(session)
        assert "- used again: make release now [" in texts(session.request().messages)


@pytest.mark.proves("compaction.ahead", "compaction.hooks")
def test_external_memory_is_asked_once_and_its_words_reach_the_summary(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    slow.let_go()
    told: list[tuple[str, int | str]] = []

    class Witness:
        def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
            told.append(("on_pre_compress", len(messages)))
            return "The provider knows: the release is on Friday."

        def on_session_end(self, messages: list[dict[str, Any]]) -> None:
            told.append(("on_session_end", len(messages)))

        def on_session_switch(self, new_session_id: str, **_more: Any) -> None:
            told.append(("on_session_switch", new_session_id))

    with MemorySession.open(home) as session:
        session.boundary = Witness()
        fill(session, 0.65)
        count = len(session.context.messages)
        assert turn(session, slow, "How far are we?") == []
        session.compactor.wait()
        assert turn(session, slow, "And now?")
    assert told == [("on_pre_compress", count + 1), ("on_session_end", count + 3), ("on_session_switch", session.id)]
    (asked,) = [text for sent in slow.model.requests if "<session>" in (text := str(sent.messages[-1]["content"]))]
    assert "the release is on Friday" in asked


@pytest.mark.proves("compaction.ahead.checked")
def test_when_the_work_went_elsewhere_the_summary_is_made_again(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    names = [f"src/old/part_{number}.py" for number in range(30)]
    with MemorySession.open(home) as session:
        talk(session, 1)
        do(session, "search_files", "\n".join(["found:", *["words " * 20] * 4, *names, *["words " * 20] * 4]), path="x")
        fill(session, 0.65, start=2)
        slow.let_go()
        assert turn(session, slow, "How far are we?") == []
        session.compactor.wait()
        assert turn(session, slow, f"Now repair {' '.join(names)}") == []
        session.compactor.wait()
        assert turn(session, slow, "And now?")
        assert slow.summaries == 2
        assert names[7] in texts(session.request().messages)


@pytest.mark.proves("compaction.ahead")
def test_a_session_that_is_closed_meanwhile_is_as_it_was_and_goes_on(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    with MemorySession.open(home) as session:
        fill(session, 0.65)
        assert turn(session, slow, "How far are we?") == []
        assert slow.asked.wait(60)
        before = session.request().messages
    slow.let_go()
    with MemorySession.open(home, resume=session.id) as again:
        assert again.request().messages == before
        assert turn(again, slow, "Good morning.") == []  # nor does the first turn of a resumed one wait
        again.compactor.wait()
        assert turn(again, slow, "And now?")


@pytest.mark.proves("compaction.ahead")
def test_what_is_ready_when_the_session_ends_is_not_made_again(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    slow.let_go()
    with MemorySession.open(home) as session:
        fill(session, 0.65)
        assert turn(session, slow, "How far are we?") == []
        session.compactor.wait()
    with MemorySession.open(home, resume=session.id) as again:
        assert "The early modules work again" in texts(again.request().messages)
    assert slow.summaries == 1


@pytest.mark.proves("compaction.ahead")
def test_a_branch_and_an_interrupted_turn_keep_their_own_messages(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    slow.let_go()
    with MemorySession.open(home) as session:
        fill(session, 0.65)
        assert turn(session, slow, "How far are we?") == []
        session.compactor.wait()
        session.prepare_turn("Stop at module_1.")
        session.finish_turn("I sto", interrupted=True)
        before = session.request().messages
        branch = session.branch()
        assert turn(session, slow, "And now?")
        assert session.request().messages[-4:-2] == before[-2:]
    with MemorySession.open(home, resume=branch) as other:
        assert other.request().messages == before


@pytest.mark.proves("compaction.ahead")
def test_what_no_longer_fits_is_dropped(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    slow.let_go()
    with MemorySession.open(home) as session:
        fill(session, 0.65)
        assert turn(session, slow, "How far are we?") == []
        session.compactor.wait()
        session.undo()
        assert turn(session, slow, "How far, I ask?") == []  # of the exchange that was taken back nothing may return
        session.compactor.wait()
        smaller = Slow(window=28_000)
        smaller.let_go()
        assert turn(session, smaller, "And you?") == []  # made for another window
        session.compactor.wait()
        assert turn(session, smaller, "And now?")
        assert (slow.summaries, smaller.summaries) == (2, 1)
        assert "How far are we?" not in texts(session.request().messages)


@pytest.mark.proves("compaction.ahead", "compaction.elsewhere")
def test_another_process_may_compact_meanwhile(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    with MemorySession.open(home) as session:
        fill(session, 0.65)
        assert turn(session, slow, "How far are we?") == []
        assert slow.asked.wait(60)
        with MemorySession.open(home, resume=session.id) as other:
            assert other.compact()
            compacted = other.context.messages
        slow.let_go()
        session.compactor.wait()
        assert turn(session, slow, "And now?") == []  # what the other one made of it is taken over
        assert session.request().messages[: len(compacted)] == compacted


@pytest.mark.proves("compaction.ahead", "compaction.ladder")
def test_a_summary_that_fails_in_the_background_becomes_an_extract(home: Path) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    failing = Slow(ModelRefused("no credit"))
    failing.let_go()
    with MemorySession.open(home) as session:
        fill(session, 0.65)
        assert turn(session, failing, "How far are we?") == []
        session.compactor.wait()
        (done,) = turn(session, failing, "And now?")
    assert done.how == "extract"
    assert [failure for failure in done.failures if "no credit" in failure]


class OneAtATime(Scripted):
    one_at_a_time = True  # as the embedded model


@pytest.mark.proves("compaction.ahead")
def test_a_model_that_answers_one_at_a_time_is_not_asked_beside_a_turn(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    slow.let_go()
    slow.model = OneAtATime(slow.model.steps, context_length=WINDOW)
    with MemorySession.open(home) as session:
        fill(session, 0.42)
        assert turn(session, slow, "How far are we?") == []
        assert slow.summaries == 0
        fill(session, 0.65, start=100)
        assert turn(session, slow, "And now?")


@pytest.mark.proves("compaction.ahead")
def test_whoever_wants_it_waits_as_before(home: Path, slow: Slow) -> None:
    configure(home, f"  prepare_at: 0\n{NO_REVIEW}", window=WINDOW)
    slow.let_go()
    with MemorySession.open(home) as session:
        fill(session, 0.65)
        assert turn(session, slow, "How far are we?")


@pytest.mark.proves("compaction.ahead", "compaction.reachable")
def test_of_what_was_planted_through_several_of_them_nothing_is_lost(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    slow.let_go()
    done = []
    rules = [f"Never restart host-{number:03} before {number % 24}:00." for number in range(110)]
    tickets = [f"T{number:03}-{number * 7919 % 65536:04x}" for number in range(110)]
    with MemorySession.open(home) as session:
        for rule, ticket in zip(rules, tickets, strict=True):
            done += turn(session, slow, f"{rule} The ticket is {ticket}. {'more words ' * 150}")
        everything = reachable(session)
    assert len(done) > 2
    assert {event.how for event in done} == {"main"}
    assert [planted for planted in (*rules, *tickets) if planted not in everything] == []


@pytest.mark.proves("compaction.ahead", "compaction.kill")
def test_a_process_that_is_killed_while_it_prepares_leaves_the_session_as_it_was(home: Path, slow: Slow) -> None:
    configure(home, NO_REVIEW, window=WINDOW)
    with MemorySession.open(home) as session:
        fill(session, 0.65)
    code = textwrap.dedent(
        f"""
        import threading
        from hermes.agent import Agent
        from hermes.llm.scripted import Scripted
        from hermes.session.session import MemorySession

        def step(messages):
            if "<session>" in str(messages[-1]["content"]):
                print("preparing", flush=True)
                threading.Event().wait()
            return "Yes."

        with MemorySession.open({str(home)!r}, resume={session.id!r}) as session:
            list(Agent(session, Scripted([step] * 9, context_length={WINDOW})).turn("How far are we?"))
            threading.Event().wait()
        """
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "preparing\n"
        process.kill()
    slow.let_go()
    with MemorySession.open(home, resume=session.id) as again:
        assert not any(map(is_block, again.request().messages))
        assert "module_5" in texts(again.request().messages)
        assert turn(again, slow, "Good morning.") == []
        again.compactor.wait()
        assert turn(again, slow, "And now?")  # no lease of the dead one is in the way
