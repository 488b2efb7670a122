"""`supermemory`: semantic recall, a profile of the person, and whole conversations, in one or more containers."""

from __future__ import annotations

import re
import threading
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.base.errors import ProviderError
from hermes.providers.config import described, read_config, save_config
from hermes.providers.http import Remote
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
)

if TYPE_CHECKING:
    Message = dict[str, str]
    from hermes.providers.service import Entry, Turn

SOURCE = "hermes"
_HITS = {"results": [{"id": (str, int)}]}


class TagApi:
    """The API with container tags (/v3, /v4). Hits are {"id", "text", "similarity"}, as in `NamespaceApi`."""

    name = "v4"

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def add(self, container: str, content: str, *, custom_id: str, metadata: dict[str, Any], context: str) -> str:
        """Stores a document and returns its id; the same `custom_id` is stored only once."""
        body = {"content": content, "containerTags": [container], "metadata": {"sm_source": SOURCE, **metadata}}
        body |= {"customId": custom_id} if custom_id else {}
        body |= {"entityContext": context} if context else {}
        found = self._remote.post("/v3/documents", body, expect={"id": str})
        return str(found["id"])

    def conversation(
        self, container: str, conversation_id: str, messages: list[Message], metadata: dict[str, Any]
    ) -> None:
        """Stores a conversation so far; the service extracts what is new in it."""
        body = {"conversationId": conversation_id, "messages": messages, "containerTags": [container]}
        about = {"type": "full_session", "sm_source": SOURCE, "message_count": len(messages), **metadata}
        self._remote.post("/v4/conversations", {**body, "metadata": about})

    def search(self, container: str, query: str, *, limit: int, mode: str) -> list[dict[str, Any]]:
        """Finds memories, documents or both (`mode`), best first."""
        body = {"q": query, "containerTag": container, "limit": limit, "searchMode": mode}
        return _hits(self._remote.post("/v4/search", body, expect=_HITS))

    def profile(self, container: str, query: str = "") -> dict[str, list[Any]]:
        """The lasting and recent facts about the person; with a query, also what matches it."""
        body = {"containerTag": container, **({"q": query} if query else {})}
        found = self._remote.post("/v4/profile", body, expect={"profile": dict})
        return {**_profile(found["profile"]), "results": _hits(found.get("searchResults") or {})}

    def forget(self, container: str, memory_id: str) -> bool:
        """Deletes one memory; False if the service did not."""
        body = {"containerTag": container, "id": memory_id}
        found = self._remote.delete("/v4/memories", body)
        return bool(found.get("forgotten", True)) if isinstance(found, dict) else True

    def drop(self, container: str, document: str) -> None:
        """Deletes a document, if it exists."""
        self._remote.delete(f"/v3/documents/{quote(document, safe='')}", otherwise=None)

    def clear(self, container: str) -> int:
        """Deletes a container; returns the number of its documents."""
        body, shape = {"containerTags": [container]}, {"deletedCount": (int, float)}
        return int(self._remote.delete("/v3/documents/bulk", body, expect=shape)["deletedCount"])


class NamespaceApi:
    """The newer API with namespaces (/ns); its calls mean the same as those of `TagApi`."""

    name = "v5"

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def add(self, container: str, content: str, *, custom_id: str, metadata: dict[str, Any], context: str) -> str:
        body = {"content": content, "metadata": {"sm_source": SOURCE, **metadata}}
        body |= {"id": custom_id} if custom_id else {}
        body |= {"supportingContext": context} if context else {}
        found = self._remote.post(_path(container, "document"), body, expect={"id": str})
        return str(found["id"])

    def conversation(
        self, container: str, conversation_id: str, messages: list[Message], metadata: dict[str, Any]
    ) -> None:
        """Stores a conversation as one document, because this generation has no call for conversations."""
        text = "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)
        about = {"type": "full_session", "message_count": len(messages), **metadata}
        self.add(container, text, custom_id=conversation_id, metadata=about, context="")

    def search(self, container: str, query: str, *, limit: int, mode: str) -> list[dict[str, Any]]:
        body = {"query": query, "searchMode": "chunks" if mode == "documents" else mode, "limit": limit}
        return _hits(self._remote.post(_path(container, "search"), body, expect=_HITS))

    def profile(self, container: str, query: str = "") -> dict[str, list[Any]]:
        found = self._remote.post(_path(container, "profile"), {}, expect={"profile": dict})
        hits = self.search(container, query, limit=10, mode="hybrid") if query else []
        return {**_profile(found["profile"]), "results": hits}

    def forget(self, container: str, memory_id: str) -> bool:
        self._remote.delete(_path(container, "memories"), {"ids": [memory_id]})
        return True

    def drop(self, container: str, document: str) -> None:
        self._remote.delete(_path(container, "document"), {"ids": [document]}, otherwise=None)

    def clear(self, container: str) -> int:
        path, what = f"/ns/{quote(container, safe='')}", "deletedDocumentsCount"
        return int(self._remote.delete(path, expect={what: int}, otherwise={what: 0})[what])


Api = TagApi | NamespaceApi
APIS: tuple[type[Api], ...] = (TagApi, NamespaceApi)


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
    """The facts as texts: one API answers with texts, the other with {"id", "memory"}."""
    return {
        kind: [
            text for each in found.get(kind) or () if (text := each if isinstance(each, str) else each.get("memory"))
        ]
        for kind in ("static", "dynamic")
    }


# What Supermemory's own clients put around recalled text, which must not be stored again.
_OWN_FENCE = re.compile(r"<supermemory-context\b[^>]*>.*?</supermemory-context\s*>", re.DOTALL | re.IGNORECASE)
# Messages that hold nothing to remember.
_ACKNOWLEDGED = re.compile(
    r"\W*(ok(ay)?|yes|yep|no|nope|thanks?( you)?|thx|sure|great|cool|go on|continue|好的?|谢谢|是的?)\W*", re.IGNORECASE
)
_DOCUMENTS = "supermemory-documents"  # maps entries to documents
_MOST_TURNS = 40  # per conversation; a longer one continues under another id, so that uploads stay small
_LONGEST_CONTEXT = 1500  # characters
_PREVIEW = 80  # characters
_CLEAR_MATCH = 0.5  # similarity from which a hit may be deleted for a query


class SupermemoryProvider(ServiceProvider[Remote]):
    """External memory in Supermemory; each person has a container, and a server may have either of two APIs."""

    name = "supermemory"

    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        super().__init__()
        self._container = "hermes"
        self._spoken: type[Api] | None = None
        self._turn = 0
        self._lock = threading.Lock()
        self._conversations: dict[str, tuple[str, list[Message]]] = {}

    def _connect(self) -> None:
        config = self._config
        tag = str(config["container_tag"]).replace("{identity}", self._identity)
        # Where one process serves many people, each has a container of their own.
        self._container = f"{plain_id(tag, 50)}-{distinct_id(self._person, 49)}" if self._person else plain_id(tag)
        key, timeout = str(config["api_key"]), min(max(float(config["api_timeout"]), 0.5), 15.0)
        source = {"x-sm-source": SOURCE}
        self._api = Remote(self.name, str(config["base_url"]), bearer=key, headers=source, timeout=timeout)
        self._spoken = next((each for each in APIS if each.name == str(config["api"])), None)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        tools = deepcopy(super().get_tool_schemas())
        if self._config.get("enable_custom_container_tags"):
            wording = str(self._config["custom_container_instructions"] or "Where it belongs.")
            choice = {"type": "string", "enum": self._containers(), "description": wording}
            for each in tools:
                each["parameters"]["properties"]["container_tag"] = choice
        return tools

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Also accepts older names of hermes-agent's provider: `supermemory-save`, `supermemory-search`."""
        alias = tool_name.replace("supermemory-", "supermemory_").replace("_save", "_store")
        return super().handle_tool_call(alias, args, **kwargs)

    # --- hooks ------------------------------------------------------------------------------------------------------

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self._turn = turn_number

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if not (query := question(query)) or not self._config["auto_recall"]:
            return ""
        api = self._speak()
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

        Nothing waits for the end of the session, so a killed program loses nothing.
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
        with self._lock:  # remember only what has arrived
            self._conversations[turn.session] = (name, said)

    def _keep(self, entry: Entry) -> None:
        name = entry_id(entry.target, entry.text)  # the same for every attempt, so that it is added once
        document = self._add(entry.text, name, {"type": "explicit_memory", "target": entry.target})
        save_config(_DOCUMENTS, self._home, {name: document})

    def _withdraw(self, entry: Entry) -> None:
        """Deletes the document of an entry, and memories with exactly its text."""
        api, name = self._speak(), entry_id(entry.target, entry.text)
        document = str(read_config(_DOCUMENTS, self._home).get(name) or name)
        api.drop(self._container, document)
        for hit in api.search(self._container, entry.text, limit=20, mode="hybrid"):
            if hit["text"] == entry.text:
                api.forget(self._container, hit["id"])
        save_config(_DOCUMENTS, self._home, {name: None})

    def _storable(self, text: str) -> str:
        return clean(_OWN_FENCE.sub("", text))

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        super().on_session_switch(new_session_id, **kwargs)
        with self._lock:
            self._conversations.clear()  # a resumed session continues as a new conversation

    def check_connection(self) -> str:
        api = self._speak()
        found = api.profile(self._container)
        facts = len(found["static"]) + len(found["dynamic"])
        return f"Supermemory answers (API {api.name}), {facts:,} facts in the profile of {self._container}"

    def _forget(self) -> str:
        api = self._speak()
        said = f"deleted {api.clear(self._container):,} documents of the container {self._container}"
        found = api.profile(self._container)
        if left := len(found["static"]) + len(found["dynamic"]):
            said += f" ({left:,} facts are still in its profile)"
        shared = self._containers()[1:] if self._config["enable_custom_container_tags"] else []
        return said + (f"; what is in {', '.join(shared)} belongs to everybody and stays" if shared else "")

    # --- tools ------------------------------------------------------------------------------------------------------

    def supermemory_store(self, args: dict[str, Any]) -> dict[str, Any]:
        """Stores a text as a document of the chosen container."""
        content = self._storable(text_of(args, "content"))
        metadata = args.get("metadata") if isinstance(args.get("metadata"), dict) else {}
        container = self._chosen(args)
        document = self._add(content, "", {"type": "explicit_memory", **(metadata or {})}, container)
        tag = {"container_tag": container} if container != self._container else {}
        return {"saved": True, "id": document, "preview": content[:_PREVIEW], **tag}

    def supermemory_search(self, args: dict[str, Any]) -> dict[str, Any]:
        """Finds memories; similarities are shown in percent."""
        limit = count_of(args, "limit", 5, 20)
        mode = self._config["search_mode"]
        found = self._speak().search(self._chosen(args), text_of(args, "query"), limit=limit, mode=mode)
        results = [{"id": hit["id"], "content": hit["text"], **_percent(hit)} for hit in found]
        return {"results": results, "count": len(results)}

    def supermemory_forget(self, args: dict[str, Any]) -> dict[str, Any]:
        """Deletes a memory by its id, or the one that a query describes clearly."""
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

    def supermemory_profile(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns the lasting and the recent facts about the person."""
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

    def _speak(self) -> Api:
        """The client for the API that the server has; the first call finds out which."""
        remote = self._opened()
        if self._spoken is None:
            self._spoken = self._probe(remote)
        return self._spoken(remote)

    def _probe(self, remote: Remote) -> type[Api]:
        """Tries each API in turn; the one that is missing answers "not found"."""
        for each in APIS:
            try:
                each(remote).profile(self._container)
            except ProviderError as error:
                if error.kind != "missing":
                    raise
            else:
                return each
        said = "supermemory answers, but has neither of the two known APIs; check base_url in supermemory.json"
        raise ProviderError(said, kind="malformed")


def _named(turn: Turn) -> str:
    """The id of a conversation: the same for every attempt, and a new one each time a session is resumed."""
    return plain_id(f"{turn.session}-{turn.key[:8]}" if turn.key else turn.session)


def _percent(hit: dict[str, Any]) -> dict[str, Any]:
    similarity = hit["similarity"]
    return {"similarity": round(similarity * 100)} if isinstance(similarity, int | float) else {}
