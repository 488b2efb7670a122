"""`lcm_grep`, `lcm_describe`, `lcm_expand`: from words to messages and summaries, and from summaries down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes.compression.pointers import format_ranges, parse_ranges
from hermes.compression.reading import calls_of, excerpt, find_folded, one_line, text_of
from hermes.storage.compaction import Contexts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes.storage.sessions import SessionDB
    from hermes.storage.summaries import Node, SummaryGraph

MOST_CHARACTERS = 24_000
_HITS = 20
_AROUND = 160
_LINE = 200
_NODE = {"type": "integer", "description": "Number of a summary, as in lcm:12."}

SCHEMAS: list[dict[str, Any]] = [
    {
        "name": "lcm_grep",
        "description": (
            "Find words in everything this conversation ever held, also in messages and summaries that left the "
            "context. Every word must occur; the newest hits come first."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words that must all occur."},
                "limit": {"type": "integer", "description": f"Hits at most (default {_HITS})."},
            },
            "required": ["query"],
        },
    },
    {
        "name": "lcm_describe",
        "description": "Show the graph of summaries of this conversation, or one of them with its parts.",
        "parameters": {"type": "object", "properties": {"node": _NODE}},
    },
    {
        "name": "lcm_expand",
        "description": (
            "Go down from a summary: a condensed one gives the summaries it was made of, a leaf gives its messages "
            "word for word. With ids, messages are read directly."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "node": _NODE,
                "ids": {"type": "string", "description": "Message ids and ranges, such as '4096-4131, 4140'."},
            },
        },
    },
]


class LcmTools:
    def __init__(self, db: SessionDB, graph: SummaryGraph) -> None:
        self._contexts = Contexts(db)
        self._graph = graph

    def call(self, name: str, args: Mapping[str, Any]) -> str:
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
            {"id": number, "role": message.get("role"), "snippet": _around(text, words[0])}
            for number, message, text in self._texts()
            if all(word in text.casefold() for word in words)
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

    def _texts(self) -> Iterator[tuple[int, Mapping[str, Any], str]]:
        for stored in self._contexts.originals(self._graph.session_id):
            yield stored.id, stored.message, _whole(stored.message)


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
