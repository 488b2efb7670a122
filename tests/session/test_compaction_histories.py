"""Generated histories of every awkward kind, compacted in a real session: what holds for all of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compacted import configure
from histories import anthropic_faults, histories, openai_faults
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hermes.compaction.messages import last_request
from hermes.conversations.context import Contexts
from hermes.session.context import in_tool_order
from hermes.session.session import MemorySession
from hermes.storage.images import bare

if TYPE_CHECKING:
    from histories import Message

# Each example is a home with a database; looking for a smaller one would take minutes.
FEW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])


def _in_order(messages: list[Message]) -> list[Message]:
    """As a resumed session sends them: no stray result, no call without one."""
    return [dict(message) for _, message in in_tool_order(enumerate(messages))]


@pytest.mark.proves("compaction.histories")
@FEW
@given(histories(14), histories(14), st.booleans())
def test_any_history_stays_valid_reachable_and_restorable_after_two_compactions(
    first: list[Message], more: list[Message], in_place: bool
) -> None:
    done_with_it = {"role": "assistant", "content": "Done."}
    spoken = [[*(each for each in part if each["role"] != "system"), done_with_it] for part in (first, more)]
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        configure(home, in_place=in_place, window=4_000)
        with MemorySession.open(home) as session:
            for part in spoken:
                for message in part:
                    session.record(message)
                before = session.request().messages
                done = session.compact()
                after = session.request().messages
                last = last_request(before)
                assert last is None or before[last] in after
                if done is not None:
                    assert openai_faults(after) == []
                    assert anthropic_faults(after, before) == []
                    assert done.tokens_after < done.tokens_before
        with MemorySession.open(home, resume=session.id) as again:
            sent = again.request().messages
            assert sent[: len(_in_order(after))] == _in_order(after)
            contexts = Contexts(again._parts.database)
            originals = [each.message for each in contexts.originals(again.id) if "copy_of" not in each.message]
            said = [{key: part for key, part in each.items() if key != "outside"} for each in originals]
            wanted = [message for part in spoken for message in part]
            stored = [bare(message) for message in wanted]
            assert [message for message in said if message in stored] == stored
            restored, count = contexts.restore(again.id)
            assert count >= len(wanted)
        with MemorySession.open(home, resume=restored) as whole:
            sound_ones = [each for each in _in_order(wanted) if each in wanted]
            assert [each for each in whole.request().messages if each in wanted] == sound_ones
