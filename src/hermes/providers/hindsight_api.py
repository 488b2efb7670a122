"""Hindsight's HTTP API: banks, documents, the facts made of them, recall and reflection."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

from hermes.providers.remote import Remote, unless_missing

CLOUD = "https://api.hindsight.vectorize.io"
LOCAL = "http://localhost:8888"
FRESH = ("world", "experience")  # what was just said; observations are made of it later, in the background
TYPES = ("observation", *FRESH)
_RECALL_SECONDS = 3.0
_FACT = {"id": str, "text": str}


class Hindsight:
    def __init__(self, base_url: str, key: str, *, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._remote = Remote("hindsight", base_url, headers=headers, secrets=[key], timeout=timeout)
        self._hurried = self._remote.hurried(_RECALL_SECONDS)

    def version(self) -> str:
        return str(self._remote.get("/version", expect={"api_version": str})["api_version"])

    def describe_bank(self, bank: str, **missions: str) -> None:
        self._remote.put(_bank(bank), missions, expect={"bank_id": str})

    def retain(self, bank: str, item: dict[str, Any], *, wait: bool = True, key: str = "") -> None:
        """Stores a document. It replaces one of the same id, so that a second attempt stores nothing twice."""
        body: dict[str, Any] = {"items": [{**item, "update_mode": "replace"}], "async": not wait}
        if key and not wait:
            body["operation_id"] = str(uuid.uuid5(uuid.NAMESPACE_OID, key))  # the same for every attempt
        self._remote.post(f"{_bank(bank)}/memories", body, expect={"success": bool}, repeatable=True)

    def recall(self, bank: str, query: str, *, hurry: bool = False, **options: Any) -> list[dict[str, Any]]:
        remote = self._hurried if hurry else self._remote
        path, body, shape = f"{_bank(bank)}/memories/recall", {"query": query, **options}, {"results": [_FACT]}
        nothing: dict[str, Any] = {"results": []}  # a bank begins with the first thing stored in it
        found = unless_missing(lambda: remote.post(path, body, expect=shape, repeatable=True), nothing)
        return list(found["results"])

    def reflect(self, bank: str, query: str, **options: Any) -> str:
        body = {"query": query, **options}
        found = self._remote.post(f"{_bank(bank)}/reflect", body, expect={"text": str}, repeatable=True)
        return str(found["text"]).strip()

    def sources(self, bank: str, memory_id: str) -> list[str]:
        """The documents that a memory was made of; an observation was made of other memories."""
        memory = self._remote.get(f"{_bank(bank)}/memories/{quote(memory_id, safe='')}", expect=dict)
        if memory.get("document_id"):
            return [str(memory["document_id"])]
        behind = memory.get("source_memory_ids") or memory.get("source_fact_ids") or ()
        found = [document for each in behind for document in self.sources(bank, str(each))]
        return list(dict.fromkeys(found))

    def drop(self, bank: str, document: str) -> int:
        """Deletes a document with all that was made of it; how many memories that were."""
        path, shape = f"{_bank(bank)}/documents/{quote(document, safe='')}", {"memory_units_deleted": int}
        found = unless_missing(lambda: self._remote.delete(path, expect=shape), {"memory_units_deleted": 0})
        return int(found["memory_units_deleted"])

    def drop_bank(self, bank: str) -> int:
        found = self._remote.delete(_bank(bank), expect={"success": bool})
        return int(found.get("deleted_count") or 0)

    def documents(self, bank: str) -> int:
        path, shape = f"{_bank(bank)}/documents", {"items": list, "total": int}
        return int(
            unless_missing(lambda: self._remote.get(path, params={"limit": 1}, expect=shape), {"total": 0})["total"]
        )


def _bank(bank: str) -> str:
    return f"/v1/default/banks/{quote(bank, safe='')}"
