"""`mem0`: facts extracted from turns and found by meaning; in the cloud, on a server, or in this process."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from hermes.providers.calling import home_of_the_caller
from hermes.providers.config import configured
from hermes.providers.mem0_backends import CLOUD, TAG, Backend, InProcess, Platform, SelfHosted
from hermes.providers.service import (
    Once,
    ServiceProvider,
    bullets,
    clean,
    count_of,
    distinct_id,
    forget_all,
    question,
    text_of,
    tool,
)
from hermes.vocabulary.errors import ProviderError
from hermes.vocabulary.extras import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes.providers.mem0_backends import Memory
    from hermes.providers.service import Entry, Tool, Turn

RECALLED = 10
_MIRRORS = 20
_MOST_LISTED = 200
_NOTHING = "nothing is stored about this yet"


class Mem0Provider(ServiceProvider[Backend]):
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
        self._sent = Once()

    def packages_for(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """What `hermes memory setup` installs for these answers: only Mem0 in this process is a package."""
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

    def _store_turn(self, turn: Turn) -> None:
        self._once(turn.spoken(), turn.key, infer=True, session=turn.session)

    def _keep(self, entry: Entry) -> None:
        self._once([{"role": "user", "content": entry.text}], entry.key, infer=False, target=entry.target)

    def _withdraw(self, entry: Entry) -> None:
        for memory in self._mirrored(entry.text):
            self._opened().delete(memory["id"])

    def _replace(self, old: Entry, new: Entry) -> None:
        """In place, so that Mem0's history of the memory goes on."""
        if found := self._mirrored(old.text):
            self._opened().update(found[0]["id"], new.text)
        else:
            self._keep(new)

    def forget_person(self) -> str:
        if not self._person:  # without a person these are everybody's
            return ""
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
    """A 404 of the service as a sentence the model can act on."""
    try:
        yield
    except ProviderError as error:
        if error.kind not in ("missing", "refused"):
            raise
        raise ProviderError(f"memory {memory_id} not found; mem0_search shows the ids", kind="missing") from error


def _without_spaces(name: str) -> str:
    """Mem0 refuses the name of a user that has any."""
    return distinct_id(name) if len(name.split()) != 1 else name.strip()


def _mode(config: Mapping[str, Any]) -> str:
    """An address means a server of one's own, also where hermes-agent's file says platform."""
    mode = str(config.get("mode") or "platform")
    return "selfhosted" if mode == "platform" and config.get("host") else mode


def _listed(found: list[Memory]) -> dict[str, Any]:
    if not found:
        return {"result": _NOTHING, "results": [], "count": 0}
    keys = ("id", "memory", "score")
    return {"results": [{key: each[key] for key in keys if key in each} for each in found], "count": len(found)}
