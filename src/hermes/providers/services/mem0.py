"""`mem0`: facts extracted from turns and found by meaning; in the cloud, on a server, or in this process."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.base.errors import PACKAGES, ProviderError, command
from hermes.providers.config import configured, described
from hermes.providers.http import Remote
from hermes.providers.manager import home_of_the_caller
from hermes.providers.service import (
    SendOnce,
    ServiceProvider,
    bullets,
    clean,
    count_of,
    distinct_id,
    forget_all,
    question,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Message = dict[str, str]
    Memory = dict[str, Any]
    from collections.abc import Iterator

    from hermes.providers.service import Entry, Turn

CLOUD = "https://api.mem0.ai"
TAG = "hermes_key"  # in the metadata of what we store: the same for every attempt to store it
_PAGE = 100  # memories
_MOST_PAGES = 20
_RECALL_SECONDS = 3.0  # as long as a turn waits
_RESULTS = {"results": [{"id": (str, int), "memory?": str}]}
_INSTALL = f"{command('mem0')} installs it, or choose another mode with `hermes memory setup mem0`"


class _Http:
    """What the cloud and self-hosted APIs have in common; they differ in their paths.

    Memories are {"id", "memory", "score"?, "metadata"?}; everything is one person's.
    """

    add_path: str
    search_path: str
    memory_path: str  # of one memory, with {} for its id
    keeps = ""  # what is left after every memory is deleted, as text
    reranks = False

    def __init__(self, remote: Remote, user_id: str, agent_id: str) -> None:
        self._remote = remote
        self._user_id = user_id
        self._agent_id = agent_id

    def add(self, messages: list[Message], *, infer: bool, metadata: dict[str, Any]) -> Any:
        """Stores messages; with `infer`, Mem0 extracts facts from them, else it keeps them as they are."""
        body = {"messages": messages, "user_id": self._user_id, "agent_id": self._agent_id}
        return self._remote.post(self.add_path, {**body, "infer": infer, "metadata": metadata}, expect=(dict, list))

    def search(self, query: str, *, top_k: int, rerank: bool = False, seconds: float | None = None) -> list[Memory]:
        """The memories nearest to a query in meaning; only the cloud can `rerank` them."""
        body = {"query": query, "top_k": top_k, "filters": {"user_id": self._user_id}}
        body |= {"rerank": rerank} if self.reranks else {}
        return _memories(self._remote.post(self.search_path, body, expect=_RESULTS, timeout=seconds))

    def update(self, memory_id: str, text: str) -> None:
        """Replaces the text of a memory."""
        self._remote.put(self.memory_path.format(quote(memory_id, safe="")), {"text": text})

    def delete(self, memory_id: str) -> None:
        """Deletes one memory."""
        self._remote.delete(self.memory_path.format(quote(memory_id, safe="")))

    def close(self) -> None:
        """Does nothing: connections belong to the process."""


class Platform(_Http):
    """Mem0's cloud API."""

    add_path, search_path, memory_path = "/v3/memories/add/", "/v3/memories/search/", "/v1/memories/{}/"
    reranks = True

    def __init__(self, key: str, user_id: str, agent_id: str, *, host: str = CLOUD) -> None:
        # The second header identifies the account, not the person; Mem0's client derives it from the key, too.
        account = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
        headers = {"Authorization": f"Token {key}", "Mem0-User-ID": account}
        super().__init__(Remote("mem0", host, headers=headers, secrets=[key], timeout=30), user_id, agent_id)

    def all(self, most: int = _PAGE * _MOST_PAGES) -> list[Memory]:
        """Every memory of the person, page by page, up to `most`."""
        found: list[Memory] = []
        for page in range(1, _MOST_PAGES + 1):
            params = {"page": page, "page_size": _PAGE}
            body = {"filters": {"user_id": self._user_id}}
            answer = self._remote.post("/v3/memories/", body, params=params, expect=_RESULTS)
            found += _memories(answer)
            if len(answer["results"]) < _PAGE or len(found) >= most:
                break
        return found[:most]

    def check(self) -> str:
        """Contacts the service; returns one line about it."""
        found = self._remote.get("/v1/ping/", expect={"status": str})
        return f"the Mem0 platform answers ({found['status']}), user {self._user_id}"


class SelfHosted(_Http):
    """The API of a Mem0 server you run."""

    add_path, search_path, memory_path = "/memories", "/search", "/memories/{}"
    keeps = "; the server's history of what memories said is deleted only when its administrator resets it"

    def __init__(self, host: str, key: str, user_id: str, agent_id: str) -> None:
        headers = {"X-API-Key": key} if key else {}
        super().__init__(Remote("mem0", host, headers=headers, secrets=[key], timeout=30), user_id, agent_id)

    def all(self, most: int = _PAGE * _MOST_PAGES) -> list[Memory]:
        """Every memory of the person, up to `most`; this API has no pages."""
        found = self._remote.get("/memories", params={"user_id": self._user_id}, expect=_RESULTS)
        return _memories(found)[:most]

    def check(self) -> str:
        """Contacts the server; returns one line about it."""
        where = self._remote.base_url
        return f"the Mem0 server at {where} answers, {len(self.all()):,} memories of {self._user_id}"


class InProcess:
    """The library itself, with the configured models and vector store; loaded on the first call."""

    keeps = "; its history is in the home and is deleted with it"

    def __init__(self, config: Mapping[str, Any], home: str, user_id: str, agent_id: str) -> None:
        self._config = dict(config)
        self._folder = os.path.join(home, "mem0")
        self._user_id = user_id
        self._agent_id = agent_id
        self._memory: Any = None
        # The store can be opened only once, and the first recall and the first delivery may come at the same time.
        self._opening = threading.Lock()

    def add(self, messages: list[Message], *, infer: bool, metadata: dict[str, Any]) -> Any:
        call = {"user_id": self._user_id, "agent_id": self._agent_id, "infer": infer, "metadata": metadata}
        return self._guarded(lambda memory: memory.add(messages, **call))

    def search(self, query: str, *, top_k: int, rerank: bool = False, seconds: float | None = None) -> list[Memory]:
        filters = {"user_id": self._user_id}
        return _memories(self._guarded(lambda memory: memory.search(query, filters=filters, top_k=top_k)))

    def all(self, most: int = _PAGE * _MOST_PAGES) -> list[Memory]:
        """Every memory of the person, up to `most`."""
        filters = {"user_id": self._user_id}
        return _memories(self._guarded(lambda memory: memory.get_all(filters=filters, top_k=most)))

    def update(self, memory_id: str, text: str) -> None:
        self._guarded(lambda memory: memory.update(memory_id, text))

    def delete(self, memory_id: str) -> None:
        self._guarded(lambda memory: memory.delete(memory_id))

    def check(self) -> str:
        """Opens the store; returns one line about it."""
        return f"Mem0 runs in this process, {len(self.all()):,} memories of {self._user_id} in {self._folder}"

    def close(self) -> None:
        """Closes the vector store; the next call opens it again."""
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
        except Exception as error:  # the library passes on errors of any model and vector store
            kind = "missing" if "not found" in str(error).lower() else "busy"
            raise ProviderError(f"mem0 failed: {type(error).__name__}: {error}", kind=kind) from error

    def _opened(self) -> Any:
        # By default it sends telemetry and keeps files in the person's home folder.
        os.environ.setdefault("MEM0_TELEMETRY", "False")
        os.environ.setdefault("MEM0_DIR", self._folder)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        try:
            from mem0 import Memory  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise ProviderError(f"mem0 in this process needs the package mem0ai: {_INSTALL}", kind="absent") from error
        return Memory.from_config(self._completed())

    def _completed(self) -> dict[str, Any]:
        """The configuration, completed with files in the home."""
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


RECALLED = 10
_MIRRORS = 20  # hits among which a mirrored entry is looked for
_MOST_LISTED = 200


class Mem0Provider(ServiceProvider[Platform | SelfHosted | InProcess]):
    """External memory in Mem0: in its cloud, on your own server, or in this process."""

    name = "mem0"

    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        super().__init__()
        self._sent = SendOnce()

    def packages_for(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """What `hermes memory setup` installs: only Mem0 in this process needs a package."""
        return PACKAGES["mem0"] if values.get("mode") == "oss" else ()

    def is_available(self) -> bool:
        values = configured(self.name, home_of_the_caller(), self.FIELDS)
        return not self._missing(values) and (_mode(values) != "oss" or find_spec("mem0") is not None)

    def _missing(self, values: dict[str, Any]) -> list[str]:
        mode = _mode(values)
        key = ["MEM0_API_KEY"] if mode == "platform" and not values["api_key"] else []
        return key + super()._missing({**values, "mode": mode})

    def _connect(self) -> None:
        self.shutdown()
        config = self._config
        # Where one process serves many people, each has memories of their own.
        user = _without_spaces(self._person or str(config["user_id"]))
        agent, key = str(config["agent_id"]), str(config["api_key"] or "")
        match _mode(config):
            case "oss":
                self._api = InProcess(config["oss"] or {}, self._home, user, agent)
            case "selfhosted":
                self._api = SelfHosted(str(config["host"]), key, user, agent)
            case _:
                self._api = Platform(key, user, agent, host=str(config["base_url"]))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if not (query := question(query)):
            return ""
        found = self._opened().search(
            query, top_k=RECALLED, rerank=bool(self._config["rerank"]), seconds=_RECALL_SECONDS
        )
        return bullets("## Mem0 Memory", (each["memory"] for each in found))

    def _store_turn(self, turn: Turn) -> None:
        self._once(turn.spoken(), turn.key, infer=True, session=turn.session)

    def _keep(self, entry: Entry) -> None:
        self._once([{"role": "user", "content": entry.text}], entry.key, infer=False, target=entry.target)

    def _withdraw(self, entry: Entry) -> None:
        for memory in self._mirrored(entry.text):
            self._opened().delete(memory["id"])

    def _replace(self, old: Entry, new: Entry) -> None:
        """Updates the memory in place, which keeps Mem0's history of it."""
        if found := self._mirrored(old.text):
            self._opened().update(found[0]["id"], new.text)
        else:
            self._keep(new)

    def _forget(self) -> str:
        backend = self._opened()
        gone, left = forget_all(lambda: (str(each["id"]) for each in backend.all()), backend.delete)
        still = f" ({left:,} are still there)" if left else ""
        return f"deleted {gone:,} memories of {self._person}{still}{backend.keeps}"

    def check_connection(self) -> str:
        return self._opened().check()

    def shutdown(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None

    # --- tools ------------------------------------------------------------------------------------------------------

    def mem0_search(self, args: dict[str, Any]) -> dict[str, Any]:
        """Finds memories by meaning."""
        rerank = args.get("rerank")
        rerank = bool(self._config["rerank"] if rerank is None else rerank)
        top_k = count_of(args, "top_k", RECALLED, 50)
        return _listed(self._opened().search(text_of(args, "query"), top_k=top_k, rerank=rerank))

    def mem0_profile(self, args: dict[str, Any]) -> dict[str, Any]:
        """Lists what is stored about the person."""
        return _listed(self._opened().all(_MOST_LISTED))

    def mem0_conclude(self, args: dict[str, Any]) -> dict[str, Any]:
        """Stores a conclusion as `mem0_add` stores a text."""
        return self.mem0_add({"content": text_of(args, "conclusion")})

    def mem0_add(self, args: dict[str, Any]) -> dict[str, Any]:
        """Stores a text as it is, without extracting facts from it."""
        messages = [{"role": "user", "content": clean(text_of(args, "content"))}]
        answer = self._opened().add(messages, infer=False, metadata=self._metadata())
        event = answer.get("event_id") if isinstance(answer, dict) else None
        return {"result": "stored", **({"event_id": event} if event else {})}

    def mem0_update(self, args: dict[str, Any]) -> dict[str, Any]:
        """Replaces the text of a memory by its id."""
        memory_id = text_of(args, "memory_id")
        with _explained(memory_id):
            self._opened().update(memory_id, clean(text_of(args, "text")))
        return {"result": "updated", "memory_id": memory_id}

    def mem0_delete(self, args: dict[str, Any]) -> dict[str, Any]:
        """Deletes a memory by its id."""
        memory_id = text_of(args, "memory_id")
        with _explained(memory_id):
            self._opened().delete(memory_id)
        return {"result": "deleted", "memory_id": memory_id}

    # --- how --------------------------------------------------------------------------------------------------------

    def _once(self, messages: list[dict[str, str]], key: str, *, infer: bool, **metadata: str) -> None:
        backend = self._opened()
        about = self._metadata(key, **metadata)
        self._sent.send(
            key,
            lambda: backend.add(messages, infer=infer, metadata=about),
            arrived=lambda: any((each.get("metadata") or {}).get(TAG) == key for each in backend.all()),
        )

    def _metadata(self, key: str = "", **more: str) -> dict[str, Any]:
        known = {"channel": self._platform, TAG: key, **more}
        return {name: value for name, value in known.items() if value}

    def _mirrored(self, wanted: str) -> list[Memory]:
        """The memories that say exactly what an entry of curated memory said."""
        backend = self._opened()
        near = [each for each in backend.search(wanted, top_k=_MIRRORS) if each["memory"].strip() == wanted]
        return near or [each for each in backend.all() if each["memory"].strip() == wanted]


@contextmanager
def _explained(memory_id: str) -> Iterator[None]:
    """Turns "not found" into a sentence that the model can act on."""
    try:
        yield
    except ProviderError as error:
        if error.kind not in ("missing", "refused"):
            raise
        raise ProviderError(f"memory {memory_id} not found; mem0_search shows the ids", kind="missing") from error


def _without_spaces(name: str) -> str:
    """A name that Mem0 accepts: it refuses spaces."""
    return distinct_id(name) if len(name.split()) != 1 else name.strip()


def _mode(config: Mapping[str, Any]) -> str:
    """The mode; with an address it is self-hosted, even if hermes-agent's file says platform."""
    mode = str(config.get("mode") or "platform")
    return "selfhosted" if mode == "platform" and config.get("host") else mode


def _listed(found: list[Memory]) -> dict[str, Any]:
    if not found:
        return {"result": "nothing is stored about this yet", "results": [], "count": 0}
    keys = ("id", "memory", "score")
    return {"results": [{key: each[key] for key in keys if key in each} for each in found], "count": len(found)}
