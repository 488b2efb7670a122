"""`lcm`, the lossless context engine: every message stays in the database, and a graph of summaries leads to it.

Messages that leave the context are summarised in leaves of about 20,000 tokens each. When a depth has more than eight
summaries, the oldest are condensed into one at the next depth. The block shows the summaries that are not condensed
yet, with their numbers. `lcm_expand` leads from a number to its parts, and from a leaf to its messages.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hermes.base.tokens import estimate
from hermes.compaction.compressor import EXTRACT, Attempt, ContextCompressor, Task
from hermes.compaction.facts import find_facts
from hermes.compaction.messages import (
    Counts,
    calls_of,
    excerpt,
    find_folded,
    format_ranges,
    one_line,
    parse_ranges,
    text_of,
    to_ranges,
)
from hermes.conversations.context import Contexts, SummaryGraph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.compaction.engine import EngineRegistry
    from hermes.conversations.context import Node
    from hermes.conversations.database import SessionDB

MOST_CHARACTERS = 24_000  # of messages that one call of lcm_expand shows; the rest is named by its ids
_HITS = 20  # results of lcm_grep, unless the model gives a limit
_AROUND = 160  # characters shown on each side of a hit
_LINE = 200  # characters shown of a summary in lists
with open(os.path.join(os.path.dirname(__file__), "text", "lcm_tools.json"), encoding="utf-8") as _file:
    SCHEMAS: list[dict[str, Any]] = json.load(_file)


class LcmTools:
    """The tools with which a model searches and expands the summary graph."""

    def __init__(self, db: SessionDB, graph: SummaryGraph) -> None:
        self._contexts = Contexts(db)
        self._graph = graph

    def call(self, name: str, args: Mapping[str, Any]) -> str:
        """Runs one of the tools and returns its result as JSON; an unknown name yields an error."""
        known = {"lcm_grep": self._grep, "lcm_describe": self._describe, "lcm_expand": self._expand}
        if name not in known:
            return json.dumps({"error": f"lcm has no tool {name!r}"})
        return json.dumps(known[name](args), ensure_ascii=False)

    def _grep(self, args: Mapping[str, Any]) -> dict[str, Any]:
        words = str(args.get("query", "")).casefold().split()
        if not words:
            return {"error": "query holds no words"}
        most = max(min(int(args.get("limit") or _HITS), 100), 1)
        found = [
            {"id": stored.id, "role": stored.message.get("role"), "snippet": _around(text, words[0])}
            for stored in self._contexts.originals(self._graph.session_id)
            if (text := _whole(stored.message)) and all(word in text.casefold() for word in words)
        ]
        nodes = [node for node in self._graph.all() if all(word in node.text.casefold() for word in words)]
        return {
            "messages": found[::-1][:most],
            "summaries": [{"node": node.number, "snippet": _around(node.text, words[0])} for node in nodes[-most:]],
            "hits": len(found),
        }

    def _describe(self, args: Mapping[str, Any]) -> dict[str, Any]:
        if args.get("node") is not None:
            node = self._graph.get(int(args["node"]))
            if node is None:
                return {"error": f"there is no summary lcm:{args['node']} in this conversation"}
            parts = [_described(child) for child in self._graph.children(node.number)]
            return {**_described(node), "text": node.text, "parts": parts}
        nodes = self._graph.all()
        return {"summaries": [_described(node) for node in nodes], "count": len(nodes)}

    def _expand(self, args: Mapping[str, Any]) -> dict[str, Any]:
        ids = str(args.get("ids") or "")
        if args.get("node") is not None:
            node = self._graph.get(int(args["node"]))
            if node is None:
                return {"error": f"there is no summary lcm:{args['node']} in this conversation"}
            if node.depth:
                parts = [{**_described(child), "text": child.text} for child in self._graph.children(node.number)]
                return {"node": node.number, "parts": parts}
            ids = node.ids
        wanted = parse_ranges(ids)
        return (
            self._messages(wanted) if wanted else {"error": "give the number of a summary, or ids such as '4096-4131'"}
        )

    def _messages(self, wanted: list[range]) -> dict[str, Any]:
        shown: list[dict[str, Any]] = []
        left = MOST_CHARACTERS
        for at, span in enumerate(wanted):
            for number, message in self._contexts.read(self._graph.session_id, span):
                text = _whole(message)
                if len(text) > left and shown:
                    rest = [(number, span[-1]), *((each[0], each[-1]) for each in wanted[at + 1 :])]
                    return {"messages": shown, "more": {"ids": format_ranges(rest)}}
                shown.append({"id": number, "role": message.get("role"), "content": excerpt(text, MOST_CHARACTERS)})
                left -= len(text)
        return {"messages": shown} if shown else {"error": "none of these messages is part of this conversation"}


def _whole(message: Mapping[str, Any]) -> str:
    calls = (f"[calls {name}({arguments})]" for _, name, arguments in calls_of(message))
    return "\n".join(filter(None, (text_of(message), *calls)))


def _described(node: Node) -> dict[str, Any]:
    return {
        "node": node.number,
        "depth": node.depth,
        "ids": node.ids,
        "messages": node.messages,
        "begins": one_line(node.text, _LINE),
        "made_by": node.made_by,
    }


def _around(text: str, word: str) -> str:
    place = max(find_folded(text, word), 0)
    return one_line(text[max(place - _AROUND, 0) : place + len(word) + _AROUND], 2 * _AROUND)


FRESH_TAIL = 64  # newest messages that stay in the context
FANOUT = 8  # summaries of one depth; with more, the oldest are condensed
LEAF_TOKENS = 20_000  # of messages that one leaf summarises
LEAF_SUMMARY = 1_200  # tokens
CONDENSED_SUMMARY = 2_000  # tokens
_FACTS = 60  # facts looked for in the text of one summary
MOST_ASKED = 16  # leaves per compaction that a model writes; older ones are extracts
_HEADING = re.compile(r"^### lcm:(\d{1,18}) ", re.MULTILINE)


class LosslessEngine(ContextCompressor):
    """The bundled engine `lcm`: summaries of summaries, each expandable to its messages."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**({"protect_last_n": FRESH_TAIL} | given))
        self._graph: SummaryGraph | None = None
        self._tools: LcmTools | None = None

    @property
    def name(self) -> str:
        return "lcm"

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """Takes the session's database, which stores the graph, and the models that write summaries."""
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

    def summarised(self, task: Task) -> Attempt:
        graph = self._graph
        if graph is None or any(number is None for number in task.ids):
            return super().summarised(task)  # a graph needs a database and the ids of the messages
        # Without duplicates: the text of a summary may name one again.
        nodes = graph.several(dict.fromkeys(map(int, _HEADING.findall(task.previous))))
        # A block without nodes was written by another engine; the first leaf continues its summary.
        foreign = task.previous if not nodes else ""
        chunks = self._chunks(task)
        for at, places in enumerate(chunks):
            messages = [task.messages[place] for place in places]
            leaf = replace(
                task,
                messages=messages,
                ids=[task.ids[place] for place in places],
                sizes=[task.sizes[place] for place in places],
                budget=min(LEAF_SUMMARY, task.budget),
                previous=foreign if not at else "",
                facts=find_facts(messages, _FACTS),
                ask=task.ask and len(chunks) - at <= MOST_ASKED,
            )
            nodes.append(self._leaf(graph, leaf))
        nodes = self._condensed(graph, nodes, task)
        text = "\n\n".join(f"### lcm:{node.number} · messages {node.ids}\n{node.text}" for node in nodes)
        return Attempt(text=text, how=self.name)

    def _chunks(self, task: Task) -> list[list[int]]:
        """Cuts the messages into stretches of about `LEAF_TOKENS`, never between a call and its results."""
        counts = Counts(task.messages)
        chunks: list[list[int]] = []
        filled = 0
        for at, message in enumerate(task.messages):
            if not chunks or (filled >= LEAF_TOKENS and message.get("role") != "tool"):
                chunks.append([])
                filled = 0
            chunks[-1].append(at)
            filled += counts[at]
        return chunks

    def _leaf(self, graph: SummaryGraph, task: Task) -> Node:
        known = [number for number in task.ids if number is not None]
        ids = format_ranges(to_ranges(known))
        found = graph.find(0, ids)
        if found is not None:  # written by a compaction that was then interrupted
            return found
        attempt = super().summarised(task)
        return graph.add(depth=0, ids=ids, messages=len(known), text=attempt.text, made_by=attempt.how)

    def _condensed(self, graph: SummaryGraph, nodes: list[Node], task: Task) -> list[Node]:
        """Condenses summaries until no depth has more than `FANOUT` and all of them fit into the block."""
        while len(nodes) > 1:
            depths = Counter(node.depth for node in nodes)
            crowded = min((depth for depth, count in depths.items() if count > FANOUT), default=None)
            if crowded is None and sum(estimate(node.text) + 12 for node in nodes) <= task.budget:
                break
            run = [node for node in nodes if node.depth == crowded] if crowded is not None else nodes
            group = run[:FANOUT]
            at = nodes.index(group[0])
            merged = self._merged(graph, group, task)
            nodes = [*nodes[:at], merged, *(node for node in nodes[at:] if node not in group)]
        return nodes

    def _merged(self, graph: SummaryGraph, group: list[Node], task: Task) -> Node:
        ids = format_ranges(to_ranges(each for node in group for span in parse_ranges(node.ids) for each in span))
        depth = max(node.depth for node in group) + 1
        found = graph.find(depth, ids)
        if found is not None:
            return found
        room = min(CONDENSED_SUMMARY, max(task.budget // 2, 1))
        messages = [{"role": "user", "content": node.text} for node in group]
        facts = find_facts(messages, _FACTS)
        parts = Task(
            messages=messages,
            ids=[None] * len(group),
            sizes=[len(node.text) for node in group],
            budget=room,
            facts=facts,
            ask=task.ask,
            force=task.force,
        )
        attempt = super().summarised(parts)
        text = attempt.text if attempt.how != EXTRACT else _shared(group, room)
        number = sum(node.messages for node in group)
        return graph.add(depth=depth, ids=ids, messages=number, text=text, made_by=attempt.how, children=group)


def _shared(group: list[Node], room: int) -> str:
    """Condenses without a model: the beginning and end of each part, in equal shares."""
    share = max(room * 3 // len(group), 120)  # characters, about three per token
    return "\n\n".join(f"[lcm:{node.number}] {excerpt(node.text, share)}" for node in group)


def register(ctx: EngineRegistry, **given: Any) -> None:
    """Registers the engine, as a plug-in would; `given` are the settings of the compressor."""
    ctx.register_context_engine(LosslessEngine(**given))
