"""`retaindb`: hybrid search over turns and memories; in its cloud or its local edition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.providers.config import described
from hermes.providers.http import Remote
from hermes.providers.service import (
    ServiceProvider,
    bullets,
    clean,
    count_of,
    forget_all,
    one_of,
    plain_id,
    question,
    text_of,
)

if TYPE_CHECKING:
    from hermes.providers.service import Entry, Turn

CLOUD = "https://api.retaindb.com"
_HEAVY = frozenset({"embedding", "embeddings", "vector", "vectors"})
_QUICK, _INGEST = 5.0, 15.0  # seconds
_RECALL_SECONDS = 3.0  # as long as a turn waits
_LISTED = 200
_CONTEXT_TOKENS = 1200
_UNKNOWN = object()


def memories_in(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The memories in an answer, whose form depends on the call: flat, without vectors, and only those with text."""
    slim = without_vectors(found)
    rows = slim.get("results") or slim.get("memories") or []
    flat = (
        {**row, **row["memory"]} if isinstance(row.get("memory"), dict) else row
        for row in rows
        if isinstance(row, dict)
    )
    return [row for row in flat if isinstance(row.get("content"), str) and row["content"].strip()]


def without_vectors(found: Any) -> Any:
    """The answer without embeddings, which are large and useless to a reader."""
    if isinstance(found, dict):
        return {key: without_vectors(each) for key, each in found.items() if key not in _HEAVY}
    return [without_vectors(each) for each in found] if isinstance(found, list) else found


def _once(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}


TYPES = ("factual", "preference", "goal", "instruction", "event", "opinion")
_MIRRORS = 20  # hits among which a mirrored entry is looked for
_PLAIN = ("id", "content", "memory_type", "score", "importance", "created_at")


class RetainDBProvider(ServiceProvider[Remote]):
    """External memory in RetainDB: each home is a project, and each person a user in it."""

    name = "retaindb"

    FIELDS, TOOLS = described(name)
    _project = _user = ""

    def _missing(self, values: dict[str, Any]) -> list[str]:
        key = ["RETAINDB_API_KEY"] if values["base_url"] == CLOUD and not values["api_key"] else []
        return key + super()._missing(values)

    def _connect(self) -> None:
        config = self._config
        # Each home has its own project, so that profiles do not share memories.
        self._project = str(config["project"] or f"hermes-{plain_id(os.path.basename(self._home).lstrip('.'))}")
        self._user = self._person or str(config["user_id"])
        key = str(config["api_key"] or "")
        headers = {"x-sdk-runtime": "hermes-plugin", **({"X-API-Key": key} if key else {})}
        self._api = Remote(self.name, str(config["base_url"]), bearer=key, headers=headers, timeout=8)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if not (query := question(query)):
            return ""
        return _overlay(self._context(query, session_id or self._session_id, seconds=_RECALL_SECONDS))

    def _store_turn(self, turn: Turn) -> None:
        body = {**self._whose(turn.session), "messages": turn.spoken(), "write_mode": "sync"}
        self._opened().post("/v1/memory/ingest/session", body, timeout=_INGEST, headers=_once(turn.key))

    def _keep(self, entry: Entry) -> None:
        if not self._saying(entry.text):  # an earlier attempt may have stored it
            self._remember(entry.text, "preference" if entry.target == "user" else "factual", key=entry.key)

    def _withdraw(self, entry: Entry) -> None:
        for memory_id in self._saying(entry.text):
            self._drop(memory_id)

    def check_connection(self) -> str:
        return f"RetainDB answers, {len(self._profile()):,} memories of {self._user} in project {self._project}"

    def _forget(self) -> str:
        gone, left = forget_all(lambda: (str(each["id"]) for each in self._profile() if "id" in each), self._drop)
        still = f" ({left:,} are still there)" if left else ""
        return (
            f"deleted {gone:,} memories of {self._user} in the project {self._project}{still}; its files belong to "
            "the project and stay, and transcripts that RetainDB keeps can be deleted only in its dashboard"
        )

    # --- tools ------------------------------------------------------------------------------------------------------

    def retaindb_profile(self, args: dict[str, Any]) -> dict[str, Any]:
        """Lists what is stored about the person."""
        return _listed(self._profile(), "memories")

    def retaindb_search(self, args: dict[str, Any]) -> dict[str, Any]:
        """Finds memories by words and meaning."""
        return _listed(self._search(text_of(args, "query"), count_of(args, "top_k", 8, 20)), "results")

    def retaindb_context(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns the text that the service would add to a prompt for a query."""
        found = self._context(text_of(args, "query"), self._session_id)
        return {"context": _overlay(found), "raw": found}

    def retaindb_remember(self, args: dict[str, Any]) -> dict[str, Any]:
        """Stores one memory with its type and importance."""
        kind = one_of(args, "memory_type", TYPES, "factual")
        importance = 0.7 if args.get("importance") is None else min(max(float(args["importance"]), 0.0), 1.0)
        return {"result": "stored", **self._remember(clean(text_of(args, "content")), kind, importance=importance)}

    def retaindb_forget(self, args: dict[str, Any]) -> dict[str, Any]:
        """Deletes one memory by its id."""
        memory_id = text_of(args, "memory_id")
        self._drop(memory_id)
        return {"result": "forgotten", "memory_id": memory_id}

    # --- how --------------------------------------------------------------------------------------------------------

    def _saying(self, content: str) -> list[str]:
        """The ids of memories with exactly this text."""
        found = [*self._search(content, _MIRRORS), *self._profile()]
        ids = (str(each["id"]) for each in found if each["content"].strip() == content and "id" in each)
        return list(dict.fromkeys(ids))

    def _search(self, query: str, top_k: int) -> list[dict[str, Any]]:
        body = {**self._whose(self._session_id), "query": query, "top_k": top_k, "include_pending": True}
        return memories_in(self._opened().post("/v1/memory/search", body))

    def _context(self, query: str, session_id: str, *, seconds: float | None = None) -> dict[str, Any]:
        wanted = {"query": query, "include_memories": True, "max_tokens": _CONTEXT_TOKENS}
        body = {**self._whose(session_id), **wanted}
        return dict(without_vectors(self._opened().post("/v1/context/query", body, timeout=seconds)))

    def _profile(self) -> list[dict[str, Any]]:
        api, path = self._opened(), f"/v1/memory/profile/{quote(self._user, safe='')}"
        found = api.get(path, params={"project": self._project, "include_pending": "true"}, otherwise=None)
        if found is None:
            params = {"project": self._project, "user_id": self._user, "limit": _LISTED}
            found = api.get("/v1/memories", params=params)
        return memories_in(found)

    def _remember(self, content: str, kind: str, *, importance: float = 0.7, key: str = "") -> dict[str, Any]:
        about = {"content": content, "memory_type": kind, "importance": importance, "write_mode": "sync"}
        body = {**self._whose(self._session_id), **about}
        return dict(without_vectors(self._either("POST", "", body, timeout=_QUICK, headers=_once(key))))

    def _drop(self, memory_id: str) -> None:
        self._either("DELETE", f"/{quote(memory_id, safe='')}", timeout=_QUICK, expect=None)

    def _either(self, method: str, rest: str, body: Any = None, **more: Any) -> Any:
        """Calls the newer path, or the older one if the server does not know it."""
        api = self._opened()
        found = api.request(method, f"/v1/memory{rest}", body, otherwise=_UNKNOWN, **more)
        return api.request(method, f"/v1/memories{rest}", body, **more) if found is _UNKNOWN else found

    def _whose(self, session_id: str) -> dict[str, Any]:
        return {"project": self._project, "user_id": self._user, "session_id": session_id}


def _overlay(found: dict[str, Any]) -> str:
    context = found.get("context")
    if isinstance(context, str) and context.strip():
        return f"## RetainDB Memory\n{context.strip()}"
    rows = [*(found.get("results") or ()), *(found.get("memories") or ())]
    return bullets("## RetainDB Memory", (str(row.get("content") or "") for row in rows if isinstance(row, dict)))


def _listed(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    rows = [{key: row[key] for key in _PLAIN if row.get(key) is not None} for row in found]
    return {name: rows, "count": len(rows)}
