"""LangGraph: a store on the documents of a home.

graph = builder.compile(store=HermesStore())
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from langgraph.store.base import Item, SearchItem, SearchOp
from langgraph.store.memory import InMemoryStore

from hermes.base.words import searchable
from hermes.settings.config import documents_of
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST = 1 << 28  # bytes of one namespace
_EVERY = 1 << 30  # items: the ranking needs all of them before it applies the limit
_WORD = re.compile(r"\w+")


class HermesStore(InMemoryStore):
    """Items are kept in one document for each namespace; a query ranks them by the words they share with it."""

    def __init__(self, home: Any = None) -> None:
        super().__init__()
        self._documents = documents_of(find_home(home)).below("langgraph-store")

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Runs the operations under a lock on the stored items, and writes the namespaces that they change."""
        given = list(ops)
        wide = [op._replace(limit=_EVERY, offset=0) if isinstance(op, SearchOp) and op.query else op for op in given]
        with self._documents.create() as folder, folder.lock("changes", timeout=30):
            before = self._load(folder)
            results = super().batch(wide)
            for namespace, items in self._data.items():
                data = json.dumps([each.dict() for each in items.values()]).encode()
                if data != before.get(namespace, b"[]"):
                    _keep(folder, _name(namespace), data if items else None)
        return [
            each if op is asked else _ranked(op, each) for op, asked, each in zip(given, wide, results, strict=True)
        ]

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _load(self, folder: Any) -> dict[tuple[str, ...], bytes]:
        """Reads what is stored now, because other processes write too; returns the bytes of each namespace."""
        self._data.clear()
        before = {}
        for name in folder.names():
            if name.endswith(".json"):
                data = folder.read(name, at_most=_LONGEST)
                for each in map(_item, json.loads(data)):
                    self._data[each.namespace][each.key] = each
                    before[each.namespace] = data
        return before


def _item(kept: dict[str, Any]) -> Any:
    return Item(**kept)


def _keep(folder: Any, name: str, data: bytes | None) -> None:
    if data is None:
        folder.remove(name)
    else:
        folder.replace(name, data)


def _name(namespace: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(namespace).encode()).hexdigest()[:24] + ".json"


def _ranked(op: Any, found: Sequence[Any]) -> list[Any]:
    """The items that share words with the query, those with most of its words first."""
    asked = _words(op.query)
    scored = [
        (len(asked & _words(json.dumps(each.value, ensure_ascii=False))) / len(asked or "-"), each) for each in found
    ]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[op.offset : op.offset + op.limit]
    return [
        SearchItem(each.namespace, each.key, each.value, each.created_at, each.updated_at, score)
        for score, each in best
    ]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(searchable(text).lower()))
