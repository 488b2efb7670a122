"""RetainDB's HTTP API: its cloud, and its local edition, which has neither files nor every path."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hermes.providers.remote import Remote
from hermes.vocabulary.errors import ProviderError

CLOUD = "https://api.retaindb.com"
_HEAVY = frozenset({"embedding", "embeddings", "vector", "vectors"})
_QUICK, _INGEST, _FILE, _INGEST_FILE = 5.0, 15.0, 30.0, 60.0
_RECALL_SECONDS = 3.0
_LISTED = 200
_CONTEXT_TOKENS = 1200


class RetainDB:
    def __init__(self, base_url: str, key: str, project: str, user_id: str) -> None:
        headers = {"x-sdk-runtime": "hermes-plugin"}
        if key:
            headers |= {"Authorization": f"Bearer {key}", "X-API-Key": key}
        self._remote = Remote("retaindb", base_url, headers=headers, secrets=[key], timeout=8)
        self._hurried = self._remote.hurried(_RECALL_SECONDS)
        self.project = project
        self.user_id = user_id

    def search(self, query: str, session_id: str, top_k: int) -> list[dict[str, Any]]:
        body = {**self._whose(session_id), "query": query, "top_k": top_k, "include_pending": True}
        found = self._remote.post("/v1/memory/search", body, expect=dict, repeatable=True)
        return memories_in(found)

    def context(self, query: str, session_id: str, *, hurry: bool = False) -> dict[str, Any]:
        wanted = {"query": query, "include_memories": True, "max_tokens": _CONTEXT_TOKENS}
        body = {**self._whose(session_id), **wanted}
        remote = self._hurried if hurry else self._remote
        found = remote.post("/v1/context/query", body, expect=dict, repeatable=True)
        slim: dict[str, Any] = without_vectors(found)
        return slim

    def profile(self) -> list[dict[str, Any]]:
        try:
            path = f"/v1/memory/profile/{quote(self.user_id, safe='')}"
            found = self._remote.get(path, params={"project": self.project, "include_pending": "true"})
        except ProviderError as error:
            if error.kind != "missing":
                raise
            params = {"project": self.project, "user_id": self.user_id, "limit": _LISTED}
            found = self._remote.get("/v1/memories", params=params)
        return memories_in(found)

    def remember(
        self, content: str, session_id: str, *, memory_type: str = "factual", importance: float = 0.7, key: str = ""
    ) -> dict[str, Any]:
        body = {
            **self._whose(session_id),
            "content": content,
            "memory_type": memory_type,
            "importance": importance,
            "write_mode": "sync",
        }
        found: dict[str, Any] = without_vectors(self._either("POST", "", body, timeout=_QUICK, headers=_once(key)))
        return found

    def forget(self, memory_id: str) -> None:
        self._either("DELETE", f"/{quote(memory_id, safe='')}", timeout=_QUICK, expect=None)

    def ingest(self, session_id: str, messages: list[dict[str, str]], key: str = "") -> None:
        body = {**self._whose(session_id), "messages": messages, "write_mode": "sync"}
        self._remote.post("/v1/memory/ingest/session", body, timeout=_INGEST, headers=_once(key))

    def upload(self, name: str, data: bytes, path: str, scope: str) -> dict[str, Any]:
        # The other fields travel as parts without a file name.
        parts = {"file": (name, data), "path": (None, path), "scope": (None, scope)}
        found = self._remote.request(
            "POST", "/v1/files", files=parts, timeout=_FILE, expect={"file": {"id": (str, int)}}
        )
        return dict(found["file"])

    def files(self, prefix: str, limit: int) -> list[dict[str, Any]]:
        found = self._remote.get(
            "/v1/files", params={"prefix": prefix or None, "limit": limit}, expect={"files": [dict]}
        )
        return list(found["files"])

    def file(self, file_id: str) -> tuple[dict[str, Any], str]:
        path = f"/v1/files/{quote(file_id, safe='')}"
        about = self._remote.get(path, timeout=_FILE)
        content = self._remote.get(f"{path}/content", timeout=_FILE, expect=str)
        return dict(about.get("file") or about), content

    def ingest_file(self, file_id: str, agent_id: str) -> None:
        body = {"user_id": self.user_id, "agent_id": agent_id}
        self._remote.post(f"/v1/files/{quote(file_id, safe='')}/ingest", body, timeout=_INGEST_FILE)

    def delete_file(self, file_id: str) -> None:
        self._remote.delete(f"/v1/files/{quote(file_id, safe='')}", timeout=_FILE)

    def _either(self, method: str, rest: str, body: Any = None, **more: Any) -> Any:
        """The newer path, and the older one where a server does not know it."""
        try:
            return self._remote.request(method, f"/v1/memory{rest}", body, **more)
        except ProviderError as error:
            if error.kind != "missing":
                raise
        return self._remote.request(method, f"/v1/memories{rest}", body, **more)

    def _whose(self, session_id: str) -> dict[str, Any]:
        return {"project": self.project, "user_id": self.user_id, "session_id": session_id}


def memories_in(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The memories of an answer, flat and without vectors; a hit may wrap its memory."""
    slim = without_vectors(found)
    rows = slim.get("results") or slim.get("memories") or []
    flat = (
        {**row, **row["memory"]} if isinstance(row.get("memory"), dict) else row
        for row in rows
        if isinstance(row, dict)
    )
    return [row for row in flat if isinstance(row.get("content"), str) and row["content"].strip()]


def without_vectors(found: Any) -> Any:
    """The answer without embeddings, which are most of its bytes and of no use to a reader."""
    if isinstance(found, dict):
        return {key: without_vectors(each) for key, each in found.items() if key not in _HEAVY}
    return [without_vectors(each) for each in found] if isinstance(found, list) else found


def _once(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}
