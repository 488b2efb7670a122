"""`mem0`: facts extracted from turns and found by meaning; in the cloud, on a server, or in this process."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from hermes.providers.calling import home_of_the_caller
from hermes.providers.config import configured
from hermes.providers.mem0_backends import CLOUD, TAG, InProcess, Platform, SelfHosted
from hermes.providers.service import ServiceProvider, bullets, clean, count_of, question, text_of, tool
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes.providers.mem0_backends import Backend, Memory
    from hermes.providers.service import Tool

RECALLED = 10
_MIRRORS = 20
_MOST_LISTED = 200
_NOTHING = "nothing is stored about this yet"


class Mem0Provider(ServiceProvider):
    name = "mem0"

    FIELDS: ClassVar[tuple[dict[str, Any], ...]] = (
        {
            "key": "mode",
            "description": "Where Mem0 runs: its cloud, a server of your own, or in this process",
            "default": "platform",
            "choices": ["platform", "selfhosted", "oss"],
            "env_var": "MEM0_MODE",
        },
        {
            "key": "api_key",
            "description": "API key (a server of your own may have none)",
            "secret": True,
            "env_var": "MEM0_API_KEY",
            "url": "https://app.mem0.ai/dashboard/api-keys",
            "when": {"mode": ["platform", "selfhosted"]},
        },
        {
            "key": "host",
            "description": "Address of your server, such as http://localhost:8888",
            "default": "",
            "required": True,
            "env_var": "MEM0_HOST",
            "when": {"mode": "selfhosted"},
        },
        {
            "key": "base_url",
            "description": "Address of the cloud",
            "file_only": True,
            "default": CLOUD,
            "env_var": "MEM0_BASE_URL",
            "when": {"mode": "platform"},
        },
        {"key": "user_id", "description": "Whose memories", "default": "hermes-user", "env_var": "MEM0_USER_ID"},
        {
            "key": "agent_id",
            "description": "Who writes them",
            "default": "hermes",
            "env_var": "MEM0_AGENT_ID",
            "file_only": True,
        },
        {"key": "rerank", "description": "Rerank results (slower)", "default": False, "when": {"mode": "platform"}},
        {
            "key": "oss",
            "file_only": True,
            "description": "llm, embedder and vector_store, as mem0ai takes them",
            "default": {},
            "when": {"mode": "oss"},
        },
    )
    TOOLS: ClassVar[tuple[dict[str, Any], ...]] = (
        tool(
            "mem0_search",
            "Finds memories by meaning.",
            ["query"],
            query="string",
            top_k={"type": "integer", "description": "Default 10, at most 50."},
            rerank="boolean",
        ),
        tool("mem0_profile", "Lists everything Mem0 knows about the person."),
        tool("mem0_conclude", "Stores a conclusion about the person, as worded.", ["conclusion"], conclusion="string"),
        tool("mem0_add", "Stores a fact, as worded.", ["content"], content="string"),
        tool("mem0_update", "Changes a memory.", ["memory_id", "text"], memory_id="string", text="string"),
        tool("mem0_delete", "Forgets a memory.", ["memory_id"], memory_id="string"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._backend: Backend | None = None
        self._unsure: set[str] = set()  # what may have been stored although no answer came

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
        user = self._person or str(config["user_id"])
        agent, key = str(config["agent_id"]), str(config["api_key"] or "")
        match _mode(config):
            case "oss":
                self._backend = InProcess(config["oss"] or {}, self._home, user, agent)
            case "selfhosted":
                self._backend = SelfHosted(str(config["host"]), key, user, agent)
            case _:
                self._backend = Platform(key, user, agent, host=str(config["base_url"]))

    def _handlers(self) -> dict[str, Tool]:
        return {
            "mem0_search": self._search,
            "mem0_profile": self._profile,
            "mem0_conclude": lambda args: self._store(text_of(args, "conclusion")),
            "mem0_add": lambda args: self._store(text_of(args, "content")),
            "mem0_update": self._update,
            "mem0_delete": self._delete,
        }

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        del session_id
        if not (query := question(query)):
            return ""
        found = self._opened().search(query, top_k=RECALLED, rerank=bool(self._config["rerank"]), hurry=True)
        return bullets("## Mem0 Memory", (each["memory"] for each in found))

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
        idempotency_key: str = "",
    ) -> None:
        del messages
        if self._writes:
            turn = [
                {"role": "user", "content": clean(user_content)},
                {"role": "assistant", "content": clean(assistant_content)},
            ]
            self._once(turn, idempotency_key, infer=True, session=session_id or self._session_id)

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        if not self._writes:
            return
        given = metadata or {}
        old = self._mirrored(str(given.get("old_text") or ""))
        backend = self._opened()
        if action == "remove":
            for memory in old:
                backend.delete(memory["id"])
        elif action == "replace" and old:
            backend.update(old[0]["id"], clean(content))
        elif action in ("add", "replace"):
            entry = [{"role": "user", "content": clean(content)}]
            self._once(entry, str(given.get("idempotency_key") or ""), infer=False, target=target)

    def forget_person(self) -> str:
        backend = self._opened()
        if not self._person:  # without a person these are everybody's
            return ""
        found = backend.all()
        for memory in found:
            backend.delete(str(memory["id"]))
        left = len(backend.all())
        return f"deleted {len(found) - left} memories of {self._person}" + (f", {left} are still there" if left else "")

    def check_connection(self) -> str:
        return self._opened().check()

    def shutdown(self) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    # --- tools ------------------------------------------------------------------------------------------------------

    def _search(self, args: dict[str, Any]) -> dict[str, Any]:
        rerank = args.get("rerank")
        found = self._opened().search(
            text_of(args, "query"),
            top_k=count_of(args, "top_k", RECALLED, 50),
            rerank=bool(self._config["rerank"] if rerank is None else rerank),
        )
        return _listed(found)

    def _profile(self, args: dict[str, Any]) -> dict[str, Any]:
        del args
        return _listed(self._opened().all(_MOST_LISTED))

    def _store(self, content: str) -> dict[str, Any]:
        metadata = self._metadata()
        answer = self._opened().add([{"role": "user", "content": clean(content)}], infer=False, metadata=metadata)
        event = answer.get("event_id") if isinstance(answer, dict) else None
        return {"result": "stored", **({"event_id": event} if event else {})}

    def _update(self, args: dict[str, Any]) -> dict[str, Any]:
        memory_id = text_of(args, "memory_id")
        with _explained(memory_id):
            self._opened().update(memory_id, clean(text_of(args, "text")))
        return {"result": "updated", "memory_id": memory_id}

    def _delete(self, args: dict[str, Any]) -> dict[str, Any]:
        memory_id = text_of(args, "memory_id")
        with _explained(memory_id):
            self._opened().delete(memory_id)
        return {"result": "deleted", "memory_id": memory_id}

    # --- how --------------------------------------------------------------------------------------------------------

    def _once(self, messages: list[dict[str, str]], key: str, *, infer: bool, **metadata: str) -> None:
        """Stores it, and does not do it again when an earlier attempt arrived and only its answer was lost."""
        backend = self._opened()
        if key in self._unsure and any((each.get("metadata") or {}).get(TAG) == key for each in backend.all()):
            self._unsure.discard(key)
            return
        try:
            backend.add(messages, infer=infer, metadata=self._metadata(key, **metadata))
        except ProviderError as error:
            if error.passing and error.kind != "unreachable":
                self._unsure.add(key)
            raise
        self._unsure.discard(key)

    def _metadata(self, key: str = "", **more: str) -> dict[str, Any]:
        known = {"channel": self._platform, TAG: key, **more}
        return {name: value for name, value in known.items() if value}

    def _mirrored(self, entry: str) -> list[Memory]:
        """The memories that say exactly what an entry of curated memory said."""
        wanted = clean(entry)
        if not wanted:
            return []
        backend = self._opened()
        near = [each for each in backend.search(wanted, top_k=_MIRRORS) if each["memory"].strip() == wanted]
        return near or [each for each in backend.all() if each["memory"].strip() == wanted]

    def _opened(self) -> Backend:
        if self._backend is None:
            raise ProviderError("mem0 is not open; start a session first", kind="absent")
        return self._backend


@contextmanager
def _explained(memory_id: str) -> Iterator[None]:
    """A 404 of the service as a sentence the model can act on."""
    try:
        yield
    except ProviderError as error:
        if error.kind not in ("missing", "refused"):
            raise
        raise ProviderError(f"memory {memory_id} not found; mem0_search shows the ids", kind="missing") from error


def _mode(config: Mapping[str, Any]) -> str:
    """An address means a server of one's own, also where hermes-agent's file says platform."""
    mode = str(config.get("mode") or "platform")
    return "selfhosted" if mode == "platform" and config.get("host") else mode


def _listed(found: list[Memory]) -> dict[str, Any]:
    if not found:
        return {"result": _NOTHING, "results": [], "count": 0}
    keys = ("id", "memory", "score")
    return {"results": [{key: each[key] for key in keys if key in each} for each in found], "count": len(found)}
