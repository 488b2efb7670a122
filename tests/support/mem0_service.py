"""Mem0's recorded wires on loopback: the platform, and a server of one's own (`hosted`)."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from wire_server import KEY, WireService, Wrong, fits, shared_words

if TYPE_CHECKING:
    from wire_server import Asked

_STORED = {"messages": list, "user_id": str, "agent_id": str, "infer": bool}


class Mem0Service(WireService):
    """Extraction is the identity here: what the user said is the memory."""

    def __init__(self, *, hosted: bool) -> None:
        super().__init__()
        self.hosted = hosted
        self.memories: dict[str, dict[str, Any]] = {}

    def answer(self, asked: Asked) -> tuple[int, Any]:
        self._check_key(asked)
        path = asked.path if self.hosted else asked.path.rstrip("/") + "/"
        if path != asked.path:
            raise Wrong("the platform's paths end in a slash")
        plain = re.sub(r"^/v[13]", "", path).rstrip("/")
        match (asked.method, plain):
            case ("GET", "/ping") if not self.hosted:
                return 200, {"status": "ok", "org_id": "o", "project_id": "p", "user_email": "a@b.c"}
            case ("POST", "/memories/add") if not self.hosted:
                self._store(fits(asked.body, _STORED, {"metadata": dict}))
                return 200, {"status": "PENDING", "event_id": "e1"}
            case ("POST", "/memories") if self.hosted:
                return 200, {"results": [self._store(fits(asked.body, _STORED, {"metadata": dict}))]}
            case ("POST", "/memories/search" | "/search"):
                extra = {} if self.hosted else {"rerank": bool}
                body = fits(asked.body, {"query": str, "filters": dict, "top_k": int, **extra})
                found = [each for each in self._of(body["filters"]) if shared_words(each["memory"], body["query"])]
                return 200, {"results": [{**each, "score": 0.9} for each in found[: body["top_k"]]]}
            case ("POST", "/memories"):
                body = fits(asked.body, {"filters": dict})
                page, size = int(asked.query["page"]), int(asked.query["page_size"])
                return 200, {"results": self._of(body["filters"])[(page - 1) * size : page * size]}
            case ("GET", "/memories") if self.hosted:
                return 200, {"results": self._of(asked.query)}
        return self._one(asked, plain)

    def _one(self, asked: Asked, plain: str) -> tuple[int, Any]:
        found = re.fullmatch("/memories/(m[0-9]+)", plain)
        if found is None or asked.method not in ("PUT", "DELETE"):
            raise Wrong("there is no such path")
        if found[1] not in self.memories:
            return 404, {"detail": "Memory not found"}
        if asked.method == "DELETE":
            del self.memories[found[1]]
            return 200, {"message": "deleted"}
        self.memories[found[1]]["memory"] = fits(asked.body, {"text": str})["text"]
        return 200, {"message": "updated"}

    def _check_key(self, asked: Asked) -> None:
        name, text = ("x-api-key", KEY) if self.hosted else ("authorization", f"Token {KEY}")
        if asked.headers.get(name) != text:
            raise Wrong(f"{name} is {asked.headers.get(name)!r}")
        account = hashlib.md5(KEY.encode(), usedforsecurity=False).hexdigest()
        if not self.hosted and asked.headers.get("mem0-user-id") != account:
            raise Wrong("the account is not made from the key")

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        if len(body["user_id"].split()) != 1:
            raise Wrong("the name of a user has no spaces")
        said = [message["content"] for message in body["messages"] if message["role"] == "user"]
        memory = {"id": f"m{len(self.memories) + 1}", "memory": " ".join(said), "user_id": body["user_id"]}
        self.memories[memory["id"]] = {**memory, "metadata": body.get("metadata", {})}
        return {**memory, "event": "ADD"}

    def _of(self, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return [each for each in self.memories.values() if each["user_id"] == filters["user_id"]]
