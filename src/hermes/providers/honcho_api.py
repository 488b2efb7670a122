"""Honcho's HTTP API: a workspace with peers, the sessions they speak in, and what peers conclude about each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.providers.remote import Remote, unless_missing
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CLOUD = "https://api.honcho.dev"
LONGEST_QUERY = 10_000
LEVELS = ("minimal", "low", "medium", "high", "max")
_MOST = 100  # messages or conclusions in one request
_CONCLUSION = {"id": str, "content": str}
_MESSAGE = {"id": str, "content": str, "peer_id": str}
_THINKING_SECONDS = 60.0


class Honcho:
    def __init__(self, base_url: str, key: str, workspace: str, *, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._remote = Remote("honcho", base_url, headers=headers, secrets=[key], timeout=timeout)
        self.workspace = workspace
        self._ready = False
        self._root = f"/v3/workspaces/{_part(workspace)}"

    # --- what there is ------------------------------------------------------------------------------------------------

    def ensure_workspace(self) -> None:
        self._remote.post("/v3/workspaces", {"id": self.workspace}, expect={"id": str}, repeatable=True)

    def ensure_peers(self, peers: Iterable[str]) -> None:
        """Makes the workspace and the peers, whichever are not there yet."""
        if not self._ready:
            self.ensure_workspace()
            for peer in peers:
                self._remote.post(f"{self._root}/peers", {"id": peer}, expect={"id": str}, repeatable=True)
            self._ready = True

    def ensure_session(self, session: str, peers: dict[str, dict[str, bool]]) -> None:
        self.ensure_peers(peers)
        body = {"id": session, "peers": peers}
        self._remote.post(f"{self._root}/sessions", body, expect={"id": str}, repeatable=True)

    def sessions_of(self, peer: str) -> list[str]:
        return [str(each["id"]) for each in self._pages(f"{self._peer(peer)}/sessions", {}, {"id": str})]

    def drop_session(self, session: str) -> None:
        self._remote.delete(self._session(session))

    # --- messages -----------------------------------------------------------------------------------------------------

    def add_messages(self, session: str, messages: list[dict[str, Any]]) -> None:
        for start in range(0, len(messages), _MOST):
            body = {"messages": messages[start : start + _MOST]}
            self._remote.post(f"{self._session(session)}/messages", body, expect=[{"id": str}])

    def messages_with(self, session: str, **metadata: str) -> int:
        """How many messages of a session carry this metadata."""
        path, body = f"{self._session(session)}/messages/list", {"filters": {"metadata": metadata}}
        shape = {"items": list, "total": int}
        found = unless_missing(lambda: self._remote.post(path, body, expect=shape, repeatable=True), {"total": 0})
        return int(found["total"])

    def search(self, peer: str, query: str, limit: int) -> list[dict[str, Any]]:
        body = {"query": query, "limit": limit}
        found = self._remote.post(f"{self._peer(peer)}/search", body, expect=[_MESSAGE], repeatable=True)
        return list(found)

    # --- what is known ------------------------------------------------------------------------------------------------

    def known(self, observer: str, target: str, query: str, *, seconds: float) -> dict[str, Any]:
        """What one peer knows about another that fits a query, with the card."""
        params = {"target": target, "search_query": query or None}
        shape = {"peer_id": str, "representation?": str, "peer_card?": [str]}
        return self._or_nothing(f"{self._peer(observer)}/context", params, shape, seconds)

    def conversation(self, session: str, *, tokens: int | None, seconds: float) -> dict[str, Any]:
        """The summary of a session and its last messages."""
        params = {"summary": "true", "tokens": tokens}
        shape = {"id": str, "messages": [_MESSAGE], "summary?": {"content": str}}
        return self._or_nothing(f"{self._session(session)}/context", params, shape, seconds)

    def card(self, observer: str, target: str) -> list[str]:
        found = self._or_nothing(f"{self._peer(observer)}/card", {"target": target}, {"peer_card?": [str]}, 10.0)
        return list(found.get("peer_card") or ())

    def set_card(self, observer: str, target: str, lines: list[str]) -> list[str]:
        path = f"{self._peer(observer)}/card"
        body, params = {"peer_card": lines}, {"target": target}
        return list(self._remote.put(path, body, params=params, expect={"peer_card?": [str]}).get("peer_card") or ())

    def ask(self, observer: str, target: str, query: str, *, level: str, session: str = "", seconds: float = 0) -> str:
        """What Honcho's own reasoning answers; it asks a model and may take long."""
        body: dict[str, Any] = {"query": query[:LONGEST_QUERY], "stream": False, "reasoning_level": level}
        body |= {"target": target} if target != observer else {}
        body |= {"session_id": session} if session else {}
        remote = self._remote.hurried(seconds) if seconds else self._remote
        timeout = None if seconds else _THINKING_SECONDS
        path = f"{self._peer(observer)}/chat"
        found = remote.post(path, body, expect={"content?": str}, timeout=timeout, repeatable=True)
        if "content" not in found:
            raise ProviderError("honcho answered a question without content", kind="malformed")
        return str(found["content"] or "").strip()

    # --- conclusions --------------------------------------------------------------------------------------------------

    def conclude(self, contents: list[str], observer: str, observed: str) -> list[str]:
        """Keeps conclusions; their ids, in the same order."""
        ids = []
        for start in range(0, len(contents), _MOST):
            pair = {"observer_id": observer, "observed_id": observed}
            body = {"conclusions": [{"content": each, **pair} for each in contents[start : start + _MOST]]}
            found = self._remote.post(f"{self._root}/conclusions", body, expect=[_CONCLUSION])
            ids += [str(each["id"]) for each in found]
        return ids

    def conclusions(self, observer: str, observed: str, query: str = "", *, most: int = _MOST) -> list[dict[str, Any]]:
        """Those about a peer, all or the nearest to a query."""
        filters = {"filters": {"observer_id": observer, "observed_id": observed}}

        def ask() -> list[dict[str, Any]]:
            if not query:
                return list(self._pages(f"{self._root}/conclusions/list", filters, _CONCLUSION))[:most]
            body = {"query": query, "top_k": min(most, _MOST), **filters}
            path = f"{self._root}/conclusions/query"
            return list(self._remote.post(path, body, expect=[_CONCLUSION], repeatable=True))

        return unless_missing(ask, [])  # nobody has said anything in this workspace yet

    def drop_conclusion(self, conclusion_id: str) -> bool:
        def drop() -> bool:
            self._remote.delete(f"{self._root}/conclusions/{_part(conclusion_id)}")
            return True

        return unless_missing(drop, otherwise=False)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _pages(self, path: str, body: dict[str, Any], each: dict[str, Any]) -> Iterator[dict[str, Any]]:
        page, pages = 1, 1
        while page <= pages:
            shape = {"items": [each], "pages": int}
            params = {"page": page, "size": _MOST}
            found = self._remote.post(path, body, params=params, expect=shape, repeatable=True)
            yield from found["items"]
            page, pages = page + 1, found["pages"]

    def _or_nothing(self, path: str, params: dict[str, Any], shape: dict[str, Any], seconds: float) -> dict[str, Any]:
        """A peer or session that does not exist yet knows nothing."""
        found: dict[str, Any] = unless_missing(
            lambda: self._remote.hurried(seconds).get(path, params=params, expect=shape), {}
        )
        return found

    def _peer(self, peer: str) -> str:
        return f"{self._root}/peers/{_part(peer)}"

    def _session(self, session: str) -> str:
        return f"{self._root}/sessions/{_part(session)}"


def _part(text: str) -> str:
    return quote(text, safe="")
