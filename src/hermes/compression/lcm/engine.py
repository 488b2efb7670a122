"""`lcm`: every message stays in the database, and a graph of summaries leads to it.

What leaves the context becomes leaf summaries of a bounded stretch each. When there are more than a handful, the
oldest are condensed into one of the next depth. The block holds the summaries nobody has condensed yet, each with its
number; `lcm_expand` goes down from a number to its parts, and from a leaf to the messages themselves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hermes.compression.compressor import ContextCompressor
from hermes.compression.facts import find_facts
from hermes.compression.ladder import EXTRACT, Attempt
from hermes.compression.lcm.tools import SCHEMAS, LcmTools
from hermes.compression.pointers import format_ranges, parse_ranges, to_ranges
from hermes.compression.reading import Counts, excerpt
from hermes.compression.summary import Task
from hermes.storage.summaries import SummaryGraph
from hermes.vocabulary.tokens import estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.compression.facts import Fact
    from hermes.compression.reading import Message
    from hermes.storage.sessions import SessionDB
    from hermes.storage.summaries import Node

FRESH_TAIL = 64
FANOUT = 8
LEAF_TOKENS = 20_000
LEAF_SUMMARY = 1_200
CONDENSED_SUMMARY = 2_000
MOST_ASKED = 16  # leaves of one compaction that a model is asked for; older ones are made of the messages' own words
_HEADING = re.compile(r"^### lcm:(\d{1,18}) ", re.MULTILINE)


class LosslessEngine(ContextCompressor):
    def __init__(self, **given: Any) -> None:
        super().__init__(**({"protect_last_n": FRESH_TAIL} | given))
        self._graph: SummaryGraph | None = None
        self._tools: LcmTools | None = None

    @property
    def name(self) -> str:
        return "lcm"

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """Takes the session's database and the models that may be asked for summaries."""
        database: SessionDB | None = kwargs.get("database")
        if database is not None:
            self._graph = SummaryGraph(database, session_id)
            self._tools = LcmTools(database, self._graph)
        names = ("summarise", "summary_context_length", "main_summarise")
        self.use_summarisers(**{name: kwargs[name] for name in names if name in kwargs})

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return SCHEMAS

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        if self._tools is None:
            return super().handle_tool_call(name, args, **kwargs)
        return self._tools.call(name, args)

    def summarised(
        self, task: Task, facts: Callable[[], Sequence[Fact]], *, deadline: float | None, force: bool
    ) -> Attempt:
        graph = self._graph
        if graph is None or any(number is None for number in task.ids):
            return super().summarised(task, facts, deadline=deadline, force=force)  # nothing to hang a graph on
        nodes = graph.several(dict.fromkeys(map(int, _HEADING.findall(task.previous))))  # a summary may name one again
        # What an older block says that no node stands for: another engine wrote it. It becomes the first leaf's past.
        foreign = task.previous if not nodes else ""
        chunks = self._chunks(task)
        for at, (messages, ids) in enumerate(chunks):
            asked = len(chunks) - at <= MOST_ASKED
            leaf = Task(
                messages=messages, ids=ids, budget=min(LEAF_SUMMARY, task.budget), previous=foreign if not at else "",
                focus=task.focus, memory_context=task.memory_context,
            )  # fmt: skip
            nodes.append(self._leaf(graph, leaf, deadline=deadline if asked else 0.0, force=force))
        nodes = self._condensed(graph, nodes, task.budget, deadline=deadline, force=force)
        text = "\n\n".join(f"### lcm:{node.number} · messages {node.ids}\n{node.text}" for node in nodes)
        return Attempt(text=text, how=self.name, breaker=self.breaker)

    def _chunks(self, task: Task) -> list[tuple[list[Message], list[int | None]]]:
        """Stretches of about `LEAF_TOKENS`, never between a call and its results."""
        counts = Counts(task.messages)
        chunks: list[tuple[list[Message], list[int | None]]] = []
        filled = 0
        for at, message in enumerate(task.messages):
            if not chunks or (filled >= LEAF_TOKENS and message.get("role") != "tool"):
                chunks.append(([], []))
                filled = 0
            chunks[-1][0].append(message)
            chunks[-1][1].append(task.ids[at])
            filled += counts[at]
        return chunks

    def _leaf(self, graph: SummaryGraph, task: Task, *, deadline: float | None, force: bool) -> Node:
        known = [number for number in task.ids if number is not None]
        ids = format_ranges(to_ranges(known))
        found = graph.find(0, ids)
        if found is not None:  # made before a compaction that did not come to its end
            return found
        attempt = super().summarised(task, lambda: find_facts(task.messages, 60), deadline=deadline, force=force)
        self.breaker = attempt.breaker
        return graph.add(depth=0, ids=ids, messages=len(known), text=attempt.text, made_by=attempt.how)

    def _condensed(
        self, graph: SummaryGraph, nodes: list[Node], budget: int, *, deadline: float | None, force: bool
    ) -> list[Node]:
        """At most `FANOUT` summaries of a depth, and no more of them than the block has room for."""
        while len(nodes) > 1:
            crowded = next((depth for depth in range(64) if _at(nodes, depth) > FANOUT), None)
            if crowded is None and sum(estimate(node.text) + 12 for node in nodes) <= budget:
                break
            run = [node for node in nodes if node.depth == crowded] if crowded is not None else nodes
            group = run[:FANOUT]
            at = nodes.index(group[0])
            merged = self._merged(graph, group, budget, deadline=deadline, force=force)
            nodes = [*nodes[:at], merged, *(node for node in nodes[at:] if node not in group)]
        return nodes

    def _merged(
        self, graph: SummaryGraph, group: list[Node], budget: int, *, deadline: float | None, force: bool
    ) -> Node:
        ids = format_ranges(to_ranges(each for node in group for span in parse_ranges(node.ids) for each in span))
        depth = max(node.depth for node in group) + 1
        found = graph.find(depth, ids)
        if found is not None:
            return found
        room = min(CONDENSED_SUMMARY, max(budget // 2, 1))
        messages = [{"role": "user", "content": node.text} for node in group]
        task = Task(messages=messages, ids=[None] * len(group), budget=room)
        attempt = super().summarised(task, lambda: find_facts(messages, 60), deadline=deadline, force=force)
        self.breaker = attempt.breaker
        text = attempt.text if attempt.how != EXTRACT else _shared(group, room)
        number = sum(node.messages for node in group)
        return graph.add(depth=depth, ids=ids, messages=number, text=text, made_by=attempt.how, children=group)


def _at(nodes: list[Node], depth: int) -> int:
    return sum(node.depth == depth for node in nodes)


def _shared(group: list[Node], room: int) -> str:
    """Without a model: the beginning and end of each part, in equal shares."""
    share = max(room * 3 // len(group), 120)
    return "\n\n".join(f"[lcm:{node.number}] {excerpt(node.text, share)}" for node in group)
