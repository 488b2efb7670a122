"""The three ways to Mem0: its cloud, a server of one's own, and the library in this process."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from hermes.providers.remote import Remote
from hermes.vocabulary.errors import ProviderError
from hermes.vocabulary.extras import command

if TYPE_CHECKING:
    from collections.abc import Mapping

    Message = dict[str, str]
    Memory = dict[str, Any]

CLOUD = "https://api.mem0.ai"
TAG = "hermes_key"  # in the metadata of what we store: the same for every attempt to store it
_PAGE = 100
_MOST_PAGES = 20
_RECALL_SECONDS = 3.0
_RESULTS = {"results": [{"id": (str, int), "memory?": str}]}
_INSTALL = f"{command('mem0')} brings it, or choose another mode with `hermes memory setup mem0`"


class Backend(Protocol):
    """Memories are {"id", "memory", "score"?, "metadata"?}; everything is one person's."""

    keeps: str  # what is left when every memory is deleted, in words

    def add(self, messages: list[Message], *, infer: bool, metadata: dict[str, Any]) -> Any: ...
    def search(self, query: str, *, top_k: int, rerank: bool = False, hurry: bool = False) -> list[Memory]: ...
    def all(self, most: int = _PAGE * _MOST_PAGES) -> list[Memory]: ...
    def update(self, memory_id: str, text: str) -> None: ...
    def delete(self, memory_id: str) -> None: ...
    def check(self) -> str: ...
    def close(self) -> None: ...


class _Http:
    """What the cloud and a server of one's own have in common; they differ in their paths."""

    add_path: str
    search_path: str
    memory_path: str  # of one memory, whose id stands for {}
    keeps = ""

    def __init__(self, remote: Remote, user_id: str, agent_id: str) -> None:
        self._remote = remote
        self._hurried = remote.hurried(_RECALL_SECONDS)
        self._user_id = user_id
        self._agent_id = agent_id

    def add(self, messages: list[Message], *, infer: bool, metadata: dict[str, Any]) -> Any:
        body = {"messages": messages, "user_id": self._user_id, "agent_id": self._agent_id}
        return self._remote.post(self.add_path, {**body, "infer": infer, "metadata": metadata}, expect=(dict, list))

    def search(self, query: str, *, top_k: int, rerank: bool = False, hurry: bool = False) -> list[Memory]:
        del rerank  # only the cloud has it
        return self._searched({"query": query, "top_k": top_k}, hurry=hurry)

    def update(self, memory_id: str, text: str) -> None:
        self._remote.put(self._one(memory_id), {"text": text})

    def delete(self, memory_id: str) -> None:
        self._remote.delete(self._one(memory_id))

    def close(self) -> None:
        """Connections belong to the process."""

    def _searched(self, body: dict[str, Any], *, hurry: bool) -> list[Memory]:
        remote = self._hurried if hurry else self._remote
        whose = {"filters": {"user_id": self._user_id}}
        return _memories(remote.post(self.search_path, {**body, **whose}, expect=_RESULTS, repeatable=True))

    def _one(self, memory_id: str) -> str:
        return self.memory_path.format(quote(memory_id, safe=""))


class Platform(_Http):
    add_path, search_path, memory_path = "/v3/memories/add/", "/v3/memories/search/", "/v1/memories/{}/"

    def __init__(self, key: str, user_id: str, agent_id: str, *, host: str = CLOUD) -> None:
        # The second header names the account, as Mem0's own client makes it from the key: not the person.
        account = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
        headers = {"Authorization": f"Token {key}", "Mem0-User-ID": account}
        super().__init__(Remote("mem0", host, headers=headers, secrets=[key], timeout=30), user_id, agent_id)

    def search(self, query: str, *, top_k: int, rerank: bool = False, hurry: bool = False) -> list[Memory]:
        return self._searched({"query": query, "top_k": top_k, "rerank": rerank}, hurry=hurry)

    def all(self, most: int = _PAGE * _MOST_PAGES) -> list[Memory]:
        found: list[Memory] = []
        for page in range(1, _MOST_PAGES + 1):
            params = {"page": page, "page_size": _PAGE}
            body = {"filters": {"user_id": self._user_id}}
            answer = self._remote.request(
                "POST", "/v3/memories/", body, params=params, expect=_RESULTS, repeatable=True
            )
            found += _memories(answer)
            if len(answer["results"]) < _PAGE or len(found) >= most:
                break
        return found[:most]

    def check(self) -> str:
        found = self._remote.get("/v1/ping/", expect={"status": str})
        return f"the Mem0 platform answers ({found['status']}), user {self._user_id}"


class SelfHosted(_Http):
    add_path, search_path, memory_path = "/memories", "/search", "/memories/{}"
    keeps = "; the server's history of what memories said is deleted only when its administrator resets it"

    def __init__(self, host: str, key: str, user_id: str, agent_id: str) -> None:
        headers = {"X-API-Key": key} if key else {}
        super().__init__(Remote("mem0", host, headers=headers, secrets=[key], timeout=30), user_id, agent_id)

    def all(self, most: int = _PAGE * _MOST_PAGES) -> list[Memory]:
        found = self._remote.get("/memories", params={"user_id": self._user_id}, expect=_RESULTS)
        return _memories(found)[:most]

    def check(self) -> str:
        where = self._remote.base_url
        return f"the Mem0 server at {where} answers, {len(self.all()):,} memories of {self._user_id}"


class InProcess:
    """The library itself, with the models and the vector store the configuration names; loaded with the first call."""

    keeps = "; its history lies in the home and goes with it"

    def __init__(self, config: Mapping[str, Any], home: str, user_id: str, agent_id: str) -> None:
        self._config = dict(config)
        self._folder = os.path.join(home, "mem0")
        self._user_id = user_id
        self._agent_id = agent_id
        self._memory: Any = None
        self._opening = threading.Lock()  # its store can be opened once; a recall and a delivery may both be first

    def add(self, messages: list[Message], *, infer: bool, metadata: dict[str, Any]) -> Any:
        call = {"user_id": self._user_id, "agent_id": self._agent_id, "infer": infer, "metadata": metadata}
        return self._guarded(lambda memory: memory.add(messages, **call))

    def search(self, query: str, *, top_k: int, rerank: bool = False, hurry: bool = False) -> list[Memory]:
        del rerank, hurry  # the manager's deadline holds
        filters = {"user_id": self._user_id}
        return _memories(self._guarded(lambda memory: memory.search(query, filters=filters, top_k=top_k)))

    def all(self, most: int = _PAGE * _MOST_PAGES) -> list[Memory]:
        filters = {"user_id": self._user_id}
        return _memories(self._guarded(lambda memory: memory.get_all(filters=filters, top_k=most)))

    def update(self, memory_id: str, text: str) -> None:
        self._guarded(lambda memory: memory.update(memory_id, text))

    def delete(self, memory_id: str) -> None:
        self._guarded(lambda memory: memory.delete(memory_id))

    def check(self) -> str:
        return f"Mem0 runs in this process, {len(self.all()):,} memories of {self._user_id} in {self._folder}"

    def close(self) -> None:
        client = getattr(getattr(self._memory, "vector_store", None), "client", None)
        close = getattr(client, "close", None)
        if callable(close):
            close()
        self._memory = None

    def _guarded(self, work: Any) -> Any:
        try:
            with self._opening:
                if self._memory is None:
                    self._memory = self._opened()
            return work(self._memory)
        except ProviderError:
            raise
        except Exception as error:
            kind = "missing" if "not found" in str(error).lower() else "busy"
            raise ProviderError(f"mem0 failed: {type(error).__name__}: {error}", kind=kind) from error

    def _opened(self) -> Any:
        # It sends usage figures home unless told not to, and keeps files in the person's home folder.
        os.environ.setdefault("MEM0_TELEMETRY", "False")
        os.environ.setdefault("MEM0_DIR", self._folder)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        try:
            from mem0 import Memory  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise ProviderError(f"mem0 in this process needs the package mem0ai: {_INSTALL}", kind="absent") from error
        return Memory.from_config(self._completed())

    def _completed(self) -> dict[str, Any]:
        """What the person configured, with files of ours below the home where they named none."""
        store = self._config.get("vector_store") or {"provider": "qdrant", "config": {}}
        inside = dict(store.get("config") or {})
        if store.get("provider", "qdrant") in ("qdrant", "faiss") and not inside.keys() & {"host", "url", "path"}:
            inside |= {"path": os.path.join(self._folder, str(store.get("provider", "qdrant")))}
            inside.setdefault("collection_name", "hermes")
            if store.get("provider", "qdrant") == "qdrant":
                inside.setdefault("on_disk", True)
        history = os.path.join(self._folder, "history.db")
        return {"history_db_path": history, **self._config, "vector_store": {**store, "config": inside}}


def _memories(found: Any) -> list[Memory]:
    rows = found.get("results", []) if isinstance(found, dict) else found
    return [{**row, "id": str(row["id"])} for row in rows or () if isinstance(row, dict) and row.get("memory")]
