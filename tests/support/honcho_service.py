"""Honcho's recorded wire on loopback: what peers said is what is known about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from wire_server import KEY, WireService, Wrong, fits, shared_words

if TYPE_CHECKING:
    from wire_server import Asked

_ID = re.compile(r"[a-zA-Z0-9_-]{1,512}")
_NOW = "2026-01-01T00:00:00Z"


class HonchoService(WireService):
    """`derives` makes a conclusion of everything said, for everybody in the session, as Honcho's deriver does later."""

    def __init__(self, *, derives: bool = False) -> None:
        super().__init__()
        self.derives = derives
        self.peers: set[str] = set()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.messages: list[dict[str, Any]] = []
        self.conclusions: dict[str, dict[str, Any]] = {}
        self.cards: dict[tuple[str, str], list[str]] = {}
        self.numbers = 0

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            raise Wrong("there is no key")
        if asked.path == "/v3/workspaces":
            return 200, {"id": _named(fits(asked.body, {"id": str}))}
        path = re.fullmatch("/v3/workspaces/[^/]+/([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?(?:/([a-z]+))?", asked.path)
        if path is None:
            raise Wrong("there is no such path")
        kind, name, part, more = path[1], unquote(path[2] or ""), path[3] or "", path[4] or ""
        if kind == "conclusions":
            return self._conclusion(asked, name)
        return self._peer(asked, name, part) if kind == "peers" else self._session(asked, name, part, more)

    def _peer(self, asked: Asked, peer: str, part: str) -> tuple[int, Any]:
        if (asked.method, peer) == ("POST", ""):
            self.peers.add(_named(fits(asked.body, {"id": str})))
            return 200, {"id": asked.body["id"]}
        if peer not in self.peers:
            return 404, {"detail": "no such peer"}
        target = asked.query.get("target", peer)
        match (asked.method, part):
            case ("GET", "context"):
                known = self._representation(peer, target, asked.query.get("search_query", ""))
                card = self.cards.get((peer, target))
                return 200, {"peer_id": peer, "target_id": target, "representation": known, "peer_card": card}
            case ("GET", "card"):
                return 200, {"peer_card": self.cards.get((peer, target))}
            case ("PUT", "card"):
                self.cards[peer, target] = fits(asked.body, {"peer_card": list})["peer_card"]
                return 200, {"peer_card": self.cards[peer, target]}
            case ("POST", "chat"):
                return self._chat(asked, peer)
            case ("POST", "search"):
                body = fits(asked.body, {"query": str, "limit": int})
                mine = [each for each in self.messages if each["peer_id"] == peer]
                return 200, [each for each in mine if shared_words(each["content"], body["query"])][: body["limit"]]
            case ("POST", "sessions"):
                mine = [{"id": name} for name, each in self.sessions.items() if peer in each["peers"]]
                return 200, _page(mine, asked)
        raise Wrong("there is no such call")

    def _chat(self, asked: Asked, peer: str) -> tuple[int, Any]:
        wanted = {"query": str, "stream": bool, "reasoning_level": str}
        body = fits(asked.body, wanted, {"target": str, "session_id": str})
        if not 0 < len(body["query"]) <= 10_000:
            raise Wrong("the question is too long")
        known = self._representation(peer, body.get("target", peer), body["query"])
        return 200, {"content": f"I think: {known}" if known else None}

    def _session(self, asked: Asked, session: str, part: str, more: str) -> tuple[int, Any]:
        if (asked.method, session) == ("POST", ""):
            body = fits(asked.body, {"id": str, "peers": dict})
            for peer, watching in body["peers"].items():
                fits(watching, {"observe_me": bool, "observe_others": bool})
                if peer not in self.peers:
                    raise Wrong(f"there is no peer {peer}")
            self.sessions.setdefault(_named(body), {"peers": body["peers"]})
            return 200, {"id": body["id"], "is_active": True}
        if session not in self.sessions:
            return 404, {"detail": "no such session"}
        match (asked.method, part, more):
            case ("DELETE", "", ""):
                del self.sessions[session]
                self.messages = [each for each in self.messages if each["session_id"] != session]
                return 202, {}
            case ("POST", "messages", ""):
                return 201, [self._say(session, each) for each in _batch(asked, "messages")]
            case ("POST", "messages", "list"):
                wanted = fits(asked.body, {"filters": dict})["filters"]["metadata"].items()
                here = [each for each in self.messages if each["session_id"] == session]
                return 200, _page([each for each in here if wanted <= each["metadata"].items()], asked)
            case ("GET", "context", ""):
                here = [each for each in self.messages if each["session_id"] == session]
                return 200, {"id": session, "messages": here, "summary": None}
        raise Wrong("there is no such call")

    def _say(self, session: str, message: dict[str, Any]) -> dict[str, Any]:
        fits(message, {"content": str, "peer_id": str, "metadata": dict})
        if len(message["content"]) > 25_000 or message["peer_id"] not in self.peers:
            raise Wrong("a message is too long or of nobody")
        said = {**message, "id": self._id("m"), "session_id": session, "created_at": _NOW, "token_count": 1}
        self.messages.append(said)
        for peer in self.sessions[session]["peers"] if self.derives else ():
            made = {"id": self._id("c"), "content": message["content"], "created_at": _NOW}
            self.conclusions[made["id"]] = {**made, "observer_id": peer, "observed_id": message["peer_id"]}
        return said

    def _conclusion(self, asked: Asked, name: str) -> tuple[int, Any]:
        match (asked.method, name):
            case ("POST", ""):
                made = []
                for each in _batch(asked, "conclusions"):
                    fits(each, {"content": str, "observer_id": str, "observed_id": str})
                    if not {each["observer_id"], each["observed_id"]} <= self.peers:
                        return 404, {"detail": "no such peer"}
                    made.append({**each, "id": self._id("c"), "created_at": _NOW})
                self.conclusions |= {each["id"]: each for each in made}
                return 201, made
            case ("POST", "list"):
                return 200, _page(self._about(fits(asked.body, {"filters": dict})["filters"]), asked)
            case ("POST", "query"):
                body = fits(asked.body, {"query": str, "top_k": int, "filters": dict})
                mine = self._about(body["filters"])
                return 200, [each for each in mine if shared_words(each["content"], body["query"])][: body["top_k"]]
            case ("DELETE", _):
                return (204, None) if self.conclusions.pop(name, None) else (404, {"detail": "no such conclusion"})
        raise Wrong("there is no such call")

    def _about(self, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return [each for each in self.conclusions.values() if filters.items() <= each.items()]

    def _representation(self, observer: str, target: str, query: str) -> str:
        """Conclusions, and what the peer said where nothing has been made of it."""
        concluded = self._about({"observer_id": observer, "observed_id": target})
        heard = [each for each in self.messages if each["peer_id"] == target and not self.derives]
        texts = [each["content"] for each in [*concluded, *heard]]
        return "\n".join(text for text in texts if not query or shared_words(text, query))

    def _id(self, letter: str) -> str:
        self.numbers += 1
        return f"{letter}{self.numbers}"


def _named(body: dict[str, Any]) -> str:
    if not _ID.fullmatch(body["id"]):
        raise Wrong(f"{body['id']!r} is no id")
    return str(body["id"])


def _batch(asked: Asked, key: str) -> list[Any]:
    found: list[Any] = fits(asked.body, {key: list})[key]
    if not 1 <= len(found) <= 100:
        raise Wrong(f"{len(found)} {key} in one request")
    return found


def _page(items: list[Any], asked: Asked) -> dict[str, Any]:
    page, size = int(asked.query.get("page", 1)), int(asked.query.get("size", 50))
    shown = items[(page - 1) * size : page * size]
    return {"items": shown, "total": len(items), "page": page, "size": size, "pages": -(-len(items) // size)}
