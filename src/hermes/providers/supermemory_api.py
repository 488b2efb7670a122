"""Supermemory's HTTP API in both generations: /v3 and /v4 with container tags, and /ns/<namespace>.

Which one a server speaks is found out by one question that both answer: the profile of a container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from hermes.providers.remote import Remote, unless_missing
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    Message = dict[str, str]

CLOUD = "https://api.supermemory.ai"
SOURCE = "hermes"
_HITS = {"results": [{"id": (str, int)}]}


class Generation(Protocol):
    """What the provider needs of either; hits are {"id", "text", "similarity"}."""

    name: str

    def add(self, container: str, content: str, *, custom_id: str, metadata: dict[str, Any], context: str) -> str: ...
    def conversation(
        self, container: str, conversation_id: str, messages: list[Message], metadata: dict[str, Any]
    ) -> None: ...
    def search(self, container: str, query: str, *, limit: int, mode: str) -> list[dict[str, Any]]: ...
    def profile(self, container: str, query: str = "") -> dict[str, list[Any]]: ...
    def forget(self, container: str, memory_id: str) -> bool: ...
    def drop(self, container: str, document: str) -> None: ...
    def clear(self, container: str) -> int: ...


class TagApi:
    """The generation with container tags (/v3, /v4)."""

    name = "v4"

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def add(self, container: str, content: str, *, custom_id: str, metadata: dict[str, Any], context: str) -> str:
        body = {"content": content, "containerTags": [container], "metadata": {"sm_source": SOURCE, **metadata}}
        body |= {"customId": custom_id} if custom_id else {}
        body |= {"entityContext": context} if context else {}
        # With an id of ours, adding it twice is adding it once.
        found = self._remote.post("/v3/documents", body, expect={"id": str}, repeatable=bool(custom_id))
        return str(found["id"])

    def conversation(
        self, container: str, conversation_id: str, messages: list[Message], metadata: dict[str, Any]
    ) -> None:
        body = {"conversationId": conversation_id, "messages": messages, "containerTags": [container]}
        about = {"type": "full_session", "sm_source": SOURCE, "message_count": len(messages), **metadata}
        self._remote.post("/v4/conversations", {**body, "metadata": about}, repeatable=True)

    def search(self, container: str, query: str, *, limit: int, mode: str) -> list[dict[str, Any]]:
        body = {"q": query, "containerTag": container, "limit": limit, "searchMode": mode}
        return _hits(self._remote.post("/v4/search", body, expect=_HITS, repeatable=True))

    def profile(self, container: str, query: str = "") -> dict[str, list[Any]]:
        body = {"containerTag": container, **({"q": query} if query else {})}
        found = self._remote.post("/v4/profile", body, expect={"profile": dict}, repeatable=True)
        return {**_profile(found["profile"]), "results": _hits(found.get("searchResults") or {})}

    def forget(self, container: str, memory_id: str) -> bool:
        body = {"containerTag": container, "id": memory_id}
        found = self._remote.request("DELETE", "/v4/memories", body, expect=None)
        return bool(found.get("forgotten", True)) if isinstance(found, dict) else True

    def drop(self, container: str, document: str) -> None:
        del container
        self._remote.delete(f"/v3/documents/{quote(document, safe='')}")

    def clear(self, container: str) -> int:
        """Deletes a container with all its documents; how many those were."""
        body, shape = {"containerTags": [container]}, {"deletedCount": (int, float)}
        return int(self._remote.request("DELETE", "/v3/documents/bulk", body, expect=shape)["deletedCount"])


class NamespaceApi:
    """The generation with namespaces (/ns)."""

    name = "v5"

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def add(self, container: str, content: str, *, custom_id: str, metadata: dict[str, Any], context: str) -> str:
        body = {"content": content, "metadata": {"sm_source": SOURCE, **metadata}}
        body |= {"id": custom_id} if custom_id else {}
        body |= {"supportingContext": context} if context else {}
        found = self._remote.post(_path(container, "document"), body, expect={"id": str}, repeatable=bool(custom_id))
        return str(found["id"])

    def conversation(
        self, container: str, conversation_id: str, messages: list[Message], metadata: dict[str, Any]
    ) -> None:
        text = "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)
        about = {"type": "full_session", "message_count": len(messages), **metadata}
        self.add(container, text, custom_id=conversation_id, metadata=about, context="")

    def search(self, container: str, query: str, *, limit: int, mode: str) -> list[dict[str, Any]]:
        body = {"query": query, "searchMode": "chunks" if mode == "documents" else mode, "limit": limit}
        return _hits(self._remote.post(_path(container, "search"), body, expect=_HITS, repeatable=True))

    def profile(self, container: str, query: str = "") -> dict[str, list[Any]]:
        found = self._remote.post(_path(container, "profile"), {}, expect={"profile": dict}, repeatable=True)
        hits = self.search(container, query, limit=10, mode="hybrid") if query else []
        return {**_profile(found["profile"]), "results": hits}

    def forget(self, container: str, memory_id: str) -> bool:
        self._remote.request("DELETE", _path(container, "memories"), {"ids": [memory_id]}, expect=None)
        return True

    def drop(self, container: str, document: str) -> None:
        self._remote.request("DELETE", _path(container, "document"), {"ids": [document]}, expect=None)

    def clear(self, container: str) -> int:
        path, shape = f"/ns/{quote(container, safe='')}", {"deletedDocumentsCount": int}
        found = unless_missing(lambda: self._remote.delete(path, expect=shape), {"deletedDocumentsCount": 0})
        return int(found["deletedDocumentsCount"])


class Speak(Protocol):
    """From a container to the API its server speaks; with `hurry` there is one attempt, for a turn that waits."""

    def __call__(self, container: str, *, hurry: bool = False) -> Generation: ...


def connect(base_url: str, key: str, timeout: float, wanted: str) -> Speak:
    """Which API the server speaks is asked once, when it is first needed."""
    headers = {"Authorization": f"Bearer {key}", "x-sm-source": SOURCE}
    remote = Remote("supermemory", base_url, headers=headers, secrets=[key], timeout=timeout)
    patient, hurried = _both(remote), _both(remote.hurried(timeout))
    known: list[str] = [wanted] if wanted in patient else []

    def speak(container: str, *, hurry: bool = False) -> Generation:
        chosen = hurried if hurry else patient
        if not known:
            known.append(_probe(list(chosen.values()), container).name)
        return chosen[known[0]]

    return speak


def _both(remote: Remote) -> dict[str, Generation]:
    return {"v4": TagApi(remote), "v5": NamespaceApi(remote)}


def _probe(candidates: list[Generation], container: str) -> Generation:
    for each in candidates:
        try:
            each.profile(container)
        except ProviderError as error:
            if error.kind == "missing":
                continue
            raise
        return each
    raise ProviderError(
        "supermemory answers, but knows neither of its two APIs; check base_url in supermemory.json", kind="malformed"
    )


def _path(container: str, rest: str) -> str:
    return f"/ns/{quote(container, safe='')}/{rest}"


def _hits(found: dict[str, Any]) -> list[dict[str, Any]]:
    hits = []
    for row in found.get("results") or ():
        text = row.get("memory") or row.get("chunk") or row.get("content")
        if isinstance(text, str) and text.strip():
            hits.append({"id": str(row["id"]), "text": text.strip(), "similarity": row.get("similarity")})
    return hits


def _profile(found: dict[str, Any]) -> dict[str, list[Any]]:
    """Facts are texts in one generation and {"id", "memory"} in the other."""
    return {
        kind: [
            text for each in found.get(kind) or () if (text := each if isinstance(each, str) else each.get("memory"))
        ]
        for kind in ("static", "dynamic")
    }
