"""RetainDB's wire on loopback, as its local edition and the source of its server speak it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from wire_server import KEY, WireService, Wrong, fits, shared_words

if TYPE_CHECKING:
    from wire_server import Asked

_WHOSE = {"project": str, "user_id": str, "session_id": str}
_VECTOR = [0.25] * 64


class RetainDBService(WireService):
    """Every hit comes with its embedding, as in the local edition; `older` knows only the older paths."""

    def __init__(self, *, older: bool = False) -> None:
        super().__init__()
        self.older = older
        self.memories: dict[str, dict[str, Any]] = {}
        self.ingested: set[str] = set()

    def answer(self, asked: Asked) -> tuple[int, Any]:
        keys = (asked.headers.get("authorization"), asked.headers.get("x-api-key"), asked.headers.get("x-sdk-runtime"))
        if keys != (f"Bearer {KEY}", KEY, "hermes-plugin"):
            raise Wrong(f"the headers are {keys}")
        one = re.fullmatch(r"/v1/(memory|memories)(?:/(r[0-9]+))?", asked.path)
        wrong_age = one and asked.method in ("POST", "DELETE") and (one[1] == "memories") != self.older
        if wrong_age or (self.older and asked.path.startswith("/v1/memory/profile/")):
            return 404, {"error": "no such route"}
        return self._one(asked, one[2]) if one and asked.method != "GET" else self._question(asked)

    def _one(self, asked: Asked, memory_id: str | None) -> tuple[int, Any]:
        if asked.method == "DELETE" and memory_id:
            return (200, {"deleted": True}) if self.memories.pop(memory_id, None) else (404, {"error": "not found"})
        extra = {"content": str, "memory_type": str, "importance": (int, float), "write_mode": str}
        body = fits(asked.body, {**_WHOSE, **extra})
        return 201, {"memory": self._store(body, body["content"])}

    def _question(self, asked: Asked) -> tuple[int, Any]:
        match (asked.method, asked.path):
            case ("POST", "/v1/memory/search"):
                body = fits(asked.body, {**_WHOSE, "query": str, "top_k": int, "include_pending": bool})
                return 200, {"results": [{"memory": each, "score": 0.8} for each in self._found(body)[: body["top_k"]]]}
            case ("POST", "/v1/context/query"):
                wanted = {"query": str, "include_memories": bool, "max_tokens": int}
                body = fits(asked.body, {**_WHOSE, **wanted})
                return 200, {"results": self._found(body), "memories": [], "context": ""}
            case ("POST", "/v1/memory/ingest/session"):
                body = fits(asked.body, {**_WHOSE, "messages": list, "write_mode": str})
                if (key := asked.headers.get("idempotency-key", "")) not in self.ingested:
                    self.ingested.add(key)
                    self._store(body, body["messages"][0]["content"])
                return 200, {"success": True}
        return self._profile(asked)

    def _profile(self, asked: Asked) -> tuple[int, Any]:
        user = re.fullmatch("/v1/memory/profile/(.+)", asked.path)
        if asked.method != "GET" or not (user or asked.path == "/v1/memories"):
            raise Wrong("there is no such path")
        person = unquote(user[1]) if user else asked.query["user_id"]
        return 200, {"memories": self._of({"project": asked.query["project"], "user_id": person})}

    def _store(self, body: dict[str, Any], content: str) -> dict[str, Any]:
        memory_id = f"r{len(self.memories) + 1}"
        whose = {"project": body["project"], "user_id": body["user_id"]}
        self.memories[memory_id] = {"id": memory_id, "content": content, "embedding": _VECTOR, **whose}
        return self.memories[memory_id]

    def _of(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        whose = [(each["project"], each["user_id"]) for each in self.memories.values()]
        rows = zip(self.memories.values(), whose, strict=True)
        return [each for each, owner in rows if owner == (body["project"], body["user_id"])]

    def _found(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return [each for each in self._of(body) if shared_words(each["content"], body["query"])]
