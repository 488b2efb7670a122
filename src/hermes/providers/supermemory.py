"""`supermemory`: semantic recall, a profile of the person, and whole conversations, in one container or several."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from hermes.providers.config import read_config, save_config
from hermes.providers.remote import unless_missing
from hermes.providers.service import (
    ServiceProvider,
    bullets,
    clean,
    count_of,
    distinct_id,
    entry_id,
    plain_id,
    question,
    text_of,
    tool,
)
from hermes.providers.supermemory_api import CLOUD, Speak, connect
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from hermes.providers.service import Entry, Tool, Turn
    from hermes.providers.supermemory_api import Generation, Message

_OWN_FENCE = re.compile(r"<supermemory-context\b[^>]*>.*?</supermemory-context\s*>", re.DOTALL | re.IGNORECASE)
_ACKNOWLEDGED = re.compile(
    r"\W*(ok(ay)?|yes|yep|no|nope|thanks?( you)?|thx|sure|great|cool|go on|continue|好的?|谢谢|是的?)\W*", re.IGNORECASE
)
_DOCUMENTS = "supermemory-documents"  # which document mirrors which entry
_MOST_TURNS = 40  # of one conversation; a longer one goes on as another, so that each upload stays small
_LONGEST_CONTEXT = 1500
_PREVIEW = 80
_CLEAR_MATCH = 0.5


class SupermemoryProvider(ServiceProvider[Speak]):
    name = "supermemory"

    FIELDS: ClassVar[tuple[dict[str, Any], ...]] = (
        {
            "key": "api_key",
            "description": "API key",
            "secret": True,
            "required": True,
            "env_var": "SUPERMEMORY_API_KEY",
            "url": "https://console.supermemory.ai",
        },
        {
            "key": "base_url",
            "description": "Address (your own server, if you run one)",
            "default": CLOUD,
            "env_var": "SUPERMEMORY_BASE_URL",
        },
        {
            "key": "api",
            "file_only": True,
            "description": "Which API it speaks",
            "default": "auto",
            "choices": ["auto", "v4", "v5"],
        },
        {
            "key": "container_tag",
            "description": "Container; {identity} stands for the profile",
            "default": "hermes",
            "env_var": "SUPERMEMORY_CONTAINER_TAG",
        },
        {"key": "auto_recall", "description": "Recall before each turn", "default": True},
        {"key": "auto_capture", "description": "Store conversations", "default": True},
        {
            "key": "capture_mode",
            "file_only": True,
            "description": "all leaves out turns that only acknowledge, everything does not",
            "default": "all",
            "choices": ["all", "everything"],
        },
        {
            "key": "search_mode",
            "file_only": True,
            "description": "What is searched",
            "default": "hybrid",
            "choices": ["hybrid", "memories", "documents"],
        },
        {
            "key": "max_recall_results",
            "file_only": True,
            "description": "Memories recalled at most (1 to 20)",
            "default": 10,
        },
        {
            "key": "profile_frequency",
            "file_only": True,
            "description": "Turns between two profiles in recall",
            "default": 50,
        },
        {
            "key": "entity_context",
            "file_only": True,
            "description": "What new memories are about, for the extraction",
            "default": "",
        },
        {"key": "api_timeout", "file_only": True, "description": "Seconds (0.5 to 15)", "default": 5.0},
        {
            "key": "enable_custom_container_tags",
            "file_only": True,
            "description": "Let the model choose a container",
            "default": False,
        },
        {"key": "custom_containers", "file_only": True, "description": "The containers it may choose", "default": []},
        {"key": "custom_container_instructions", "file_only": True, "description": "When to use which", "default": ""},
    )

    def __init__(self) -> None:
        super().__init__()
        self._container = "hermes"
        self._turn = 0
        self._lock = threading.Lock()
        self._conversations: dict[str, tuple[str, list[Message]]] = {}

    def _connect(self) -> None:
        config = self._config
        tag = str(config["container_tag"]).replace("{identity}", self._identity)
        # Where one process serves many people, each has a container of their own.
        self._container = f"{plain_id(tag, 50)}-{distinct_id(self._person, 49)}" if self._person else plain_id(tag)
        timeout = min(max(float(config["api_timeout"]), 0.5), 15.0)
        self._api = connect(str(config["base_url"]), str(config["api_key"]), timeout, str(config["api"]))

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        choice: dict[str, Any] = {}
        if self._config.get("enable_custom_container_tags"):
            wording = str(self._config["custom_container_instructions"] or "Where it belongs.")
            choice = {"container_tag": {"type": "string", "enum": self._containers(), "description": wording}}
        limit = {"type": "integer", "description": "Default 5, at most 20."}
        return [
            tool(
                "supermemory_store",
                "Keeps something on purpose.",
                ["content"],
                content="string",
                metadata="object",
                **choice,
            ),
            tool("supermemory_search", "Finds memories by meaning.", ["query"], query="string", limit=limit, **choice),
            tool(
                "supermemory_forget",
                "Removes a memory, by id or by what it says.",
                id="string",
                query="string",
                **choice,
            ),
            tool("supermemory_profile", "What is known about the person.", query="string", **choice),
        ]

    def _handlers(self) -> dict[str, Tool]:
        by_name: dict[str, Tool] = {
            "store": self._store,
            "search": self._search,
            "forget": self._forget,
            "profile": self._profile,
        }
        aliases = {f"supermemory-{'save' if name == 'store' else name}": each for name, each in by_name.items()}
        return {f"supermemory_{name}": each for name, each in by_name.items()} | aliases

    # --- hooks ------------------------------------------------------------------------------------------------------

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        del message, kwargs
        self._turn = turn_number

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        del session_id
        if not (query := question(query)) or not self._config["auto_recall"]:
            return ""
        api = self._speak(hurry=True)
        most = min(max(int(self._config["max_recall_results"]), 1), 20)
        if self._turn <= 1 or self._turn % max(int(self._config["profile_frequency"]), 1) == 0:
            found = api.profile(self._container, query)
            hits = found["results"][:most]
            parts = [
                bullets("## Who the person is", found["static"][:most]),
                bullets("## What they are doing", found["dynamic"][:most]),
            ]
        else:
            hits, parts = api.search(self._container, query, limit=most, mode=self._config["search_mode"]), []
        parts.append(bullets("## Supermemory", (hit["text"] for hit in hits)))
        return "\n\n".join(filter(None, parts))

    def _store_turn(self, turn: Turn) -> None:
        """Sends the conversation so far under one id: the service stores what is new in it.

        Nothing is held back for the end of the session, so a killed program loses nothing, and nothing is sent again
        after a compaction or at exit.
        """
        if not (self._config["auto_capture"] and turn.user and turn.assistant):
            return
        if self._config["capture_mode"] == "all" and _ACKNOWLEDGED.fullmatch(turn.user):
            return
        with self._lock:
            name, before = self._conversations.get(turn.session) or (_named(turn), [])
        if len(before) >= 2 * _MOST_TURNS:
            name, before = _named(turn), []
        about = {"session_id": turn.session, "partial": True}
        said = [*before, *turn.spoken()]
        self._speak().conversation(self._container, name, said, about)
        with self._lock:  # only what has arrived counts as said before
            self._conversations[turn.session] = (name, said)

    def _keep(self, entry: Entry) -> None:
        name = entry_id(entry.target, entry.text)  # the same for every attempt: adding it twice is adding it once
        document = self._add(entry.text, name, {"type": "explicit_memory", "target": entry.target})
        save_config(_DOCUMENTS, self._home, {name: document})

    def _withdraw(self, entry: Entry) -> None:
        """Takes back the document of an entry, and what was made of it where it says just the same."""
        api, name = self._speak(), entry_id(entry.target, entry.text)
        document = str(read_config(_DOCUMENTS, self._home).get(name) or name)
        unless_missing(lambda: api.drop(self._container, document), None)
        for hit in api.search(self._container, entry.text, limit=20, mode="hybrid"):
            if hit["text"] == entry.text:
                api.forget(self._container, hit["id"])
        save_config(_DOCUMENTS, self._home, {name: None})

    def _storable(self, text: str) -> str:
        return clean(_OWN_FENCE.sub("", text))

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        super().on_session_switch(new_session_id, **kwargs)
        with self._lock:
            self._conversations.clear()  # a session that is taken up again goes on as a conversation of its own

    def check_connection(self) -> str:
        api = self._speak()
        found = api.profile(self._container)
        facts = len(found["static"]) + len(found["dynamic"])
        return f"Supermemory answers (API {api.name}), {facts:,} facts in the profile of {self._container}"

    def forget_person(self) -> str:
        if not self._person:
            return ""
        api = self._speak()
        said = f"deleted {api.clear(self._container):,} documents of the container {self._container}"
        found = api.profile(self._container)
        if left := len(found["static"]) + len(found["dynamic"]):
            said += f" ({left:,} facts are still in its profile)"
        shared = self._containers()[1:] if self._config["enable_custom_container_tags"] else []
        return said + (f"; what is in {', '.join(shared)} belongs to everybody and stays" if shared else "")

    # --- tools ------------------------------------------------------------------------------------------------------

    def _store(self, args: dict[str, Any]) -> dict[str, Any]:
        content = self._storable(text_of(args, "content"))
        metadata = args.get("metadata") if isinstance(args.get("metadata"), dict) else {}
        container = self._chosen(args)
        document = self._add(content, "", {"type": "explicit_memory", **(metadata or {})}, container)
        tag = {"container_tag": container} if container != self._container else {}
        return {"saved": True, "id": document, "preview": content[:_PREVIEW], **tag}

    def _search(self, args: dict[str, Any]) -> dict[str, Any]:
        limit = count_of(args, "limit", 5, 20)
        mode = self._config["search_mode"]
        found = self._speak().search(self._chosen(args), text_of(args, "query"), limit=limit, mode=mode)
        results = [{"id": hit["id"], "content": hit["text"], **_percent(hit)} for hit in found]
        return {"results": results, "count": len(results)}

    def _forget(self, args: dict[str, Any]) -> dict[str, Any]:
        container, memory_id = self._chosen(args), str(args.get("id") or "")
        if not memory_id:
            query = text_of(args, "query")
            hits = self._speak().search(container, query, limit=5, mode="memories")
            same = [hit for hit in hits if hit["text"].casefold() == query.casefold()]
            clear = [hit for hit in hits if (hit["similarity"] or 0) >= _CLEAR_MATCH]
            chosen = same or clear[:1]
            if not chosen:
                return {"success": False, "message": "nothing stored says that; supermemory_search shows what is there"}
            memory_id = chosen[0]["id"]
        done = self._speak().forget(container, memory_id)
        return {"forgotten": done, "success": done, "id": memory_id}

    def _profile(self, args: dict[str, Any]) -> dict[str, Any]:
        found = self._speak().profile(self._chosen(args), str(args.get("query") or ""))
        text = "\n\n".join(
            filter(None, (bullets("## Lasting", found["static"]), bullets("## Recent", found["dynamic"])))
        )
        return {"profile": text, "static_count": len(found["static"]), "dynamic_count": len(found["dynamic"])}

    # --- how --------------------------------------------------------------------------------------------------------

    def _add(self, content: str, custom_id: str, metadata: dict[str, Any], container: str = "") -> str:
        context = str(self._config["entity_context"] or "")[:_LONGEST_CONTEXT]
        return self._speak().add(
            container or self._container, content, custom_id=custom_id, metadata=metadata, context=context
        )

    def _containers(self) -> list[str]:
        named = self._config["custom_containers"] or []
        names = named.split(",") if isinstance(named, str) else named
        return list(dict.fromkeys([self._container, *(plain_id(str(name)) for name in names if str(name).strip())]))

    def _chosen(self, args: dict[str, Any]) -> str:
        wanted = args.get("container_tag")
        if not wanted:
            return self._container
        allowed = self._containers() if self._config["enable_custom_container_tags"] else [self._container]
        if wanted not in allowed:
            raise ProviderError(f"there is no container {wanted!r}; choose one of {', '.join(allowed)}", kind="refused")
        return str(wanted)

    def _speak(self, *, hurry: bool = False) -> Generation:
        return self._opened()(self._container, hurry=hurry)


def _named(turn: Turn) -> str:
    """The id of a conversation: the same for every attempt, another for each time a session is taken up."""
    return plain_id(f"{turn.session}-{turn.key[:8]}" if turn.key else turn.session)


def _percent(hit: dict[str, Any]) -> dict[str, Any]:
    similarity = hit["similarity"]
    return {"similarity": round(similarity * 100)} if isinstance(similarity, int | float) else {}
