"""`retaindb`: hybrid search over turns, memories and files; in its cloud or its local edition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.base.errors import ProviderError
from hermes.providers.config import described
from hermes.providers.http import Remote, unless_missing
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
from hermes.safety.secrets import find_secrets
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from hermes.providers.service import Entry, Turn

CLOUD = "https://api.retaindb.com"
_HEAVY = frozenset({"embedding", "embeddings", "vector", "vectors"})
_QUICK, _INGEST, _FILE, _INGEST_FILE = 5.0, 15.0, 30.0, 60.0
_RECALL_SECONDS = 3.0
_LISTED = 200
_CONTEXT_TOKENS = 1200


class RetainDB:
    """RetainDB's HTTP API."""

    def __init__(self, base_url: str, key: str, project: str, user_id: str) -> None:
        headers = {"x-sdk-runtime": "hermes-plugin"}
        if key:
            headers |= {"Authorization": f"Bearer {key}", "X-API-Key": key}
        self._remote = Remote("retaindb", base_url, headers=headers, secrets=[key], timeout=8)
        self.project = project
        self.user_id = user_id

    def search(self, query: str, session_id: str, top_k: int) -> list[dict[str, Any]]:
        body = {**self._whose(session_id), "query": query, "top_k": top_k, "include_pending": True}
        found = self._remote.post("/v1/memory/search", body, expect=dict)
        return memories_in(found)

    def context(self, query: str, session_id: str, *, seconds: float | None = None) -> dict[str, Any]:
        wanted = {"query": query, "include_memories": True, "max_tokens": _CONTEXT_TOKENS}
        body = {**self._whose(session_id), **wanted}
        found = self._remote.post("/v1/context/query", body, expect=dict, timeout=seconds)
        slim: dict[str, Any] = without_vectors(found)
        return slim

    def profile(self) -> list[dict[str, Any]]:
        path = f"/v1/memory/profile/{quote(self.user_id, safe='')}"
        params: dict[str, Any] = {"project": self.project, "include_pending": "true"}
        found = unless_missing(lambda: self._remote.get(path, params=params), None)
        if found is None:
            params = {"project": self.project, "user_id": self.user_id, "limit": _LISTED}
            found = self._remote.get("/v1/memories", params=params)
        return memories_in(found)

    def remember(
        self, content: str, session_id: str, *, memory_type: str = "factual", importance: float = 0.7, key: str = ""
    ) -> dict[str, Any]:
        about = {"content": content, "memory_type": memory_type, "importance": importance, "write_mode": "sync"}
        body = {**self._whose(session_id), **about}
        found: dict[str, Any] = without_vectors(self._either("POST", "", body, timeout=_QUICK, headers=_once(key)))
        return found

    def forget(self, memory_id: str) -> None:
        self._either("DELETE", f"/{quote(memory_id, safe='')}", timeout=_QUICK, expect=None)

    def ingest(self, session_id: str, messages: list[dict[str, str]], key: str = "") -> None:
        body = {**self._whose(session_id), "messages": messages, "write_mode": "sync"}
        self._remote.post("/v1/memory/ingest/session", body, timeout=_INGEST, headers=_once(key))

    def upload(self, name: str, data: bytes, path: str, scope: str) -> dict[str, Any]:
        # The other fields are parts without a file name.
        parts = {"file": (name, data), "path": (None, path), "scope": (None, scope)}
        found = self._remote.post("/v1/files", files=parts, timeout=_FILE, expect={"file": {"id": (str, int)}})
        return dict(found["file"])

    def files(self, prefix: str, limit: int) -> list[dict[str, Any]]:
        params = {"prefix": prefix or None, "limit": limit}
        return list(self._remote.get("/v1/files", params=params, expect={"files": [dict]})["files"])

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
        """Calls the newer path, or the older one if the server does not know it."""
        unknown = object()
        found = unless_missing(lambda: self._remote.request(method, f"/v1/memory{rest}", body, **more), unknown)
        return self._remote.request(method, f"/v1/memories{rest}", body, **more) if found is unknown else found

    def _whose(self, session_id: str) -> dict[str, Any]:
        return {"project": self.project, "user_id": self.user_id, "session_id": session_id}


def memories_in(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The memories in an answer, flat and without vectors."""
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
SCOPES = ("USER", "PROJECT", "ORG")
_LARGEST_FILE = 20 << 20
_LONGEST_TEXT = 32_000
_MIRRORS = 20
_PLAIN = ("id", "content", "memory_type", "score", "importance", "created_at")


class RetainDBProvider(ServiceProvider[RetainDB]):
    """External memory in RetainDB."""

    name = "retaindb"

    FIELDS, TOOLS = described(name)

    def _missing(self, values: dict[str, Any]) -> list[str]:
        key = ["RETAINDB_API_KEY"] if values["base_url"] == CLOUD and not values["api_key"] else []
        return key + super()._missing(values)

    def _connect(self) -> None:
        config = self._config
        # Each home has its own project, so that profiles do not share memories.
        project = str(config["project"] or f"hermes-{plain_id(os.path.basename(self._home).lstrip('.'))}")
        user = self._person or str(config["user_id"])
        self._api = RetainDB(str(config["base_url"]), str(config["api_key"] or ""), project, user)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if not (query := question(query)):
            return ""
        found = self._opened().context(query, session_id or self._session_id, seconds=_RECALL_SECONDS)
        return _overlay(found)

    def _store_turn(self, turn: Turn) -> None:
        self._opened().ingest(turn.session, turn.spoken(), turn.key)

    def _keep(self, entry: Entry) -> None:
        if not self._saying(entry.text):  # an earlier attempt may have stored it
            kind = "preference" if entry.target == "user" else "factual"
            self._opened().remember(entry.text, self._session_id, memory_type=kind, key=entry.key)

    def _withdraw(self, entry: Entry) -> None:
        for memory_id in self._saying(entry.text):
            self._opened().forget(memory_id)

    def check_connection(self) -> str:
        api = self._opened()
        return f"RetainDB answers, {len(api.profile()):,} memories of {api.user_id} in project {api.project}"

    def _forget(self) -> str:
        api = self._opened()
        gone, left = forget_all(lambda: (str(each["id"]) for each in api.profile() if "id" in each), api.forget)
        still = f" ({left:,} are still there)" if left else ""
        return (
            f"deleted {gone:,} memories of {api.user_id} in the project {api.project}{still}; its files belong to "
            "the project and stay, and transcripts that RetainDB keeps can be deleted only in its dashboard"
        )

    # --- tools ------------------------------------------------------------------------------------------------------

    def retaindb_profile(self, args: dict[str, Any]) -> dict[str, Any]:
        return _listed(self._opened().profile(), "memories")

    def retaindb_search(self, args: dict[str, Any]) -> dict[str, Any]:
        top_k = count_of(args, "top_k", 8, 20)
        return _listed(self._opened().search(text_of(args, "query"), self._session_id, top_k), "results")

    def retaindb_context(self, args: dict[str, Any]) -> dict[str, Any]:
        found = self._opened().context(text_of(args, "query"), self._session_id)
        return {"context": _overlay(found), "raw": found}

    def retaindb_remember(self, args: dict[str, Any]) -> dict[str, Any]:
        kind = one_of(args, "memory_type", TYPES, "factual")
        importance = 0.7 if args.get("importance") is None else min(max(float(args["importance"]), 0.0), 1.0)
        content = clean(text_of(args, "content"))
        stored = self._opened().remember(content, self._session_id, memory_type=kind, importance=importance)
        return {"result": "stored", **stored}

    def retaindb_forget(self, args: dict[str, Any]) -> dict[str, Any]:
        memory_id = text_of(args, "memory_id")
        self._opened().forget(memory_id)
        return {"result": "forgotten", "memory_id": memory_id}

    def retaindb_upload_file(self, args: dict[str, Any]) -> dict[str, Any]:
        path = os.path.abspath(os.path.expanduser(text_of(args, "local_path")))
        scope = one_of(args, "scope", SCOPES, "PROJECT")
        data = self._readable(path)
        name = os.path.basename(path)
        file = self._opened().upload(name, data, str(args.get("remote_path") or f"/{name}"), scope)
        if args.get("ingest"):
            self._opened().ingest_file(str(file["id"]), str(self._identity))
        return {"file": file, "ingested": bool(args.get("ingest"))}

    def retaindb_list_files(self, args: dict[str, Any]) -> dict[str, Any]:
        files = self._opened().files(str(args.get("prefix") or ""), count_of(args, "limit", 50, 200))
        return {"files": files, "count": len(files)}

    def retaindb_read_file(self, args: dict[str, Any]) -> dict[str, Any]:
        about, content = self._opened().file(text_of(args, "file_id"))
        return {"file": about, "content": content[:_LONGEST_TEXT], "truncated": len(content) > _LONGEST_TEXT}

    def retaindb_ingest_file(self, args: dict[str, Any]) -> dict[str, Any]:
        file_id = text_of(args, "file_id")
        self._opened().ingest_file(file_id, self._identity)
        return {"result": "ingested", "file_id": file_id}

    def retaindb_delete_file(self, args: dict[str, Any]) -> dict[str, Any]:
        file_id = text_of(args, "file_id")
        self._opened().delete_file(file_id)
        return {"result": "deleted", "file_id": file_id}

    # --- how --------------------------------------------------------------------------------------------------------

    def _readable(self, path: str) -> bytes:
        """The contents of a file that may be uploaded: not in our home, not hidden, without secrets."""
        real = os.path.realpath(path)
        hidden = any(part.startswith(".") for part in real.split(os.sep))
        if hidden or real.startswith(os.path.realpath(self._home) + os.sep):
            said = f"{path} is a private file and is not uploaded; copy what you need elsewhere first"
            raise ProviderError(said, kind="refused")
        folder = Folder.open(os.path.dirname(real))
        data = None
        if folder is not None:
            with folder:
                data = folder.read(os.path.basename(real), at_most=_LARGEST_FILE)
        if data is None:
            raise ProviderError(f"there is no file {path}", kind="missing")
        if found := find_secrets(data.decode("utf-8", "ignore")):
            raise ProviderError(f"{path} holds a secret ({found[0].kind}) and is not uploaded", kind="refused")
        return data

    def _saying(self, content: str) -> list[str]:
        """The ids of memories with exactly this text."""
        api = self._opened()
        found = [*api.search(content, self._session_id, _MIRRORS), *api.profile()]
        ids = (str(each["id"]) for each in found if each["content"].strip() == content and "id" in each)
        return list(dict.fromkeys(ids))


def _overlay(found: dict[str, Any]) -> str:
    context = found.get("context")
    if isinstance(context, str) and context.strip():
        return f"## RetainDB Memory\n{context.strip()}"
    rows = [*(found.get("results") or ()), *(found.get("memories") or ())]
    return bullets("## RetainDB Memory", (str(row.get("content") or "") for row in rows if isinstance(row, dict)))


def _listed(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    rows = [{key: row[key] for key in _PLAIN if row.get(key) is not None} for row in found]
    return {name: rows, "count": len(rows)}
