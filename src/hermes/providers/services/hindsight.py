"""`hindsight`: facts drawn from turns and joined in a graph, with reflection; in its cloud or self-hosted.

Every turn and every mirrored entry is a document of its own, whose id is the same for each attempt: nothing said before
is sent again, and nothing is stored twice.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.base.errors import ProviderError
from hermes.providers.config import configured, described, read_config, read_elsewhere
from hermes.providers.http import Remote
from hermes.providers.service import (
    ServiceProvider,
    TurnBatches,
    bullets,
    clean,
    digest,
    distinct_id,
    entry_id,
    plain_id,
    question,
    text_of,
)

if TYPE_CHECKING:
    from hermes.providers.service import Entry, Turn

CLOUD = "https://api.hindsight.vectorize.io"
FRESH = ("world", "experience")  # what was just said; the server turns it into observations later
TYPES = ("observation", *FRESH)
_RECALL_SECONDS = 3.0  # as long as a turn waits
_FACT = {"id": str, "text": str}


def _bank(bank: str) -> str:
    """The path of a bank, which is what Hindsight calls a separate memory."""
    return f"/v1/default/banks/{quote(bank, safe='')}"


_HEADING = "## Hindsight Memory"


class HindsightProvider(ServiceProvider[Remote]):
    """External memory in Hindsight: facts in a bank, one bank for each person unless the template says otherwise."""

    name = "hindsight"

    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._described: set[str] = set()
        self._prepared: dict[str, str] = {}
        self._parent = ""
        self._workspace = ""

    @property
    def recall_mode(self) -> str:
        return str(self._config.get("memory_mode") or "")

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._workspace = str(kwargs.get("agent_workspace") or "")
        self._parent = str(kwargs.get("parent_session_id") or "")
        super().initialize(session_id, **kwargs)

    def _configured(self, hermes_home: str) -> dict[str, Any]:
        elsewhere = (os.path.join(hermes_home, "hindsight", "config.json"), "~/.hindsight/config.json")
        file = read_config(self.name, hermes_home) or read_elsewhere(*elsewhere)
        return configured(self.name, hermes_home, self.FIELDS, file=file)

    def _missing(self, values: dict[str, Any]) -> list[str]:
        key = ["HINDSIGHT_API_KEY"] if values["api_url"] == CLOUD and not values["api_key"] else []
        return key + super()._missing(values)

    def _connect(self) -> None:
        config = self._config
        key, timeout = str(config["api_key"] or ""), float(config["timeout"])
        self._api = Remote(self.name, str(config["api_url"]), bearer=key, timeout=timeout)

    # --- hooks ------------------------------------------------------------------------------------------------------

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if not (query := question(query)) or not self._config["auto_recall"]:
            return ""
        session = session_id or self._session_id
        heading = str(self._config["recall_prompt_preamble"] or _HEADING)
        with self._lock:
            prepared = self._prepared.pop(session, "")
        if prepared:
            return f"{heading}\n{prepared}"
        return bullets(heading, (each["text"] for each in self._found(query, session, seconds=_RECALL_SECONDS)))

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Reflects after a turn, for the next one, because a reflection asks a model and takes seconds."""
        asked = question(query)[: int(self._config["recall_max_input_chars"])]
        if self._config["recall_prefetch_method"] != "reflect" or not self._config["auto_recall"] or not asked:
            return
        session = session_id or self._session_id
        thought = self._thought(asked, session)
        with self._lock:
            if session == self._session_id:  # it may have changed while the model was thinking
                self._prepared[session] = thought

    def _store_turn(self, turn: Turn) -> None:
        if self._config["auto_retain"]:
            together = int(self._config["retain_every_n_turns"])
            self._turns().add(turn.session, self._spoken(turn), turn.key, together=together)

    def _keep(self, entry: Entry) -> None:
        item = {
            "content": entry.text,
            "document_id": entry_id(entry.target, entry.text),
            "context": f"curated memory ({entry.target})",
            "tags": self._tags("", f"curated:{entry.target}"),
        }
        self._store(entry.session, item, wait=True)

    def _withdraw(self, entry: Entry) -> None:
        self._drop(self._bank(entry.session), entry_id(entry.target, entry.text))

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        self._turns().finish(session_id or self._session_id)

    def on_session_switch(self, new_session_id: str, *, parent_session_id: str = "", **kwargs: Any) -> None:
        super().on_session_switch(new_session_id, **kwargs)
        self._parent = parent_session_id
        with self._lock:
            self._prepared.clear()

    def check_connection(self) -> str:
        api, bank = self._opened(), self._bank(self._session_id)
        version = api.get("/version", expect={"api_version": str})["api_version"]
        self._describe(bank)
        path, shape = f"{_bank(bank)}/documents", {"items": list, "total": int}
        documents = int(api.get(path, params={"limit": 1}, expect=shape, otherwise={"total": 0})["total"])
        return f"Hindsight {version} answers, {documents:,} documents in the bank {bank}"

    def _forget(self) -> str:
        template = str(self._config["bank_id_template"])
        if "{session}" in template:
            raise ProviderError(
                f"the template {template} gives each session a bank of its own: delete those of {self._person} in "
                "Hindsight",
                kind="refused",
            )
        bank = self._bank(self._session_id)
        gone = int(self._opened().delete(_bank(bank), expect={"success": bool}).get("deleted_count") or 0)
        return f"deleted the bank {bank} with {gone:,} memories"

    # --- tools ------------------------------------------------------------------------------------------------------

    def hindsight_retain(self, args: dict[str, Any]) -> dict[str, Any]:
        """Stores a fact at once; the same text is stored only once."""
        content = clean(text_of(args, "content"))
        about = str(args.get("context") or self._config["retain_context"])
        more = [str(each) for each in args.get("tags") or ()] if isinstance(args.get("tags"), list) else []
        document = entry_id("kept", content)
        item = {"content": content, "document_id": document, "context": about}
        self._store(self._session_id, {**item, "tags": self._tags(self._session_id, *more)}, wait=True)
        return {"result": "stored", "document_id": document}

    def hindsight_recall(self, args: dict[str, Any]) -> dict[str, Any]:
        """Finds memories for a query, as numbered lines and with their ids."""
        found = self._found(text_of(args, "query"), self._session_id)
        lines = [f"{number}. {each['text']}" for number, each in enumerate(found, 1)]
        memories = [{"id": each["id"], "text": each["text"]} for each in found]
        return {"result": "\n".join(lines) or "nothing is known about this yet", "memories": memories}

    def hindsight_reflect(self, args: dict[str, Any]) -> dict[str, Any]:
        """Has the server reason about a question with what it knows."""
        return {"result": self._thought(text_of(args, "query"), self._session_id) or "nothing is known about this yet"}

    def hindsight_forget(self, args: dict[str, Any]) -> dict[str, Any]:
        """Deletes the documents that a memory was made from, and with them all memories made from them."""
        memory_id = text_of(args, "memory_id")
        bank = self._bank(self._session_id)
        documents = self._sources(bank, memory_id)
        if not documents:
            raise ProviderError(f"{memory_id} comes from no document; it is deleted with its sources", kind="refused")
        gone = sum(self._drop(bank, document) for document in documents)
        return {"result": "forgotten", "memory_id": memory_id, "memories_deleted": gone}

    # --- how --------------------------------------------------------------------------------------------------------

    def _found(self, query: str, session: str, *, seconds: float | None = None) -> list[dict[str, Any]]:
        config = self._config
        types = _words(config["recall_types"]) or list(TYPES)
        options = {"budget": config["recall_budget"], "max_tokens": int(config["recall_max_tokens"]), **self._filter()}
        asked, bank = query[: int(config["recall_max_input_chars"])], self._bank(session)

        def ask(types: list[str]) -> list[dict[str, Any]]:
            # An observation replaces the facts that it was made from.
            body = {"query": asked, "types": types, "prefer_observations": True, **options}
            nothing: dict[str, Any] = {"results": []}  # a bank does not exist until something is stored in it
            path, shape = f"{_bank(bank)}/memories/recall", {"results": [_FACT]}
            return list(self._opened().post(path, body, expect=shape, timeout=seconds, otherwise=nothing)["results"])

        found = ask(types)
        # What was said a moment ago has no observation yet.
        return found or ([] if set(FRESH) & set(types) else ask(list(TYPES)))

    def _thought(self, query: str, session: str) -> str:
        bank = self._bank(session)
        self._describe(bank)
        body = {"query": query, "budget": self._config["recall_budget"], **self._filter()}
        return str(self._opened().post(f"{_bank(bank)}/reflect", body, expect={"text": str})["text"]).strip()

    def _sources(self, bank: str, memory_id: str) -> list[str]:
        """The documents that a memory comes from; an observation comes from other memories."""
        memory = self._opened().get(f"{_bank(bank)}/memories/{quote(memory_id, safe='')}", expect=dict)
        if memory.get("document_id"):
            return [str(memory["document_id"])]
        behind = memory.get("source_memory_ids") or memory.get("source_fact_ids") or ()
        found = [document for each in behind for document in self._sources(bank, str(each))]
        return list(dict.fromkeys(found))

    def _drop(self, bank: str, document: str) -> int:
        """Deletes a document and the memories made from it; returns their number."""
        path, what = f"{_bank(bank)}/documents/{quote(document, safe='')}", "memory_units_deleted"
        return int(self._opened().delete(path, expect={what: int}, otherwise={what: 0})[what])

    def _filter(self) -> dict[str, Any]:
        tags = _words(self._config["recall_tags"])
        return {"tags": tags, "tags_match": self._config["recall_tags_match"]} if tags else {}

    def _spoken(self, turn: Turn) -> list[dict[str, str]]:
        who = self._config["retain_user_prefix"], self._config["retain_assistant_prefix"]
        said = (("user", f"{who[0]}: {turn.user}"), ("assistant", f"{who[1]}: {turn.assistant}"))
        return [{"role": role, "content": text} for role, text in said]

    def _store_turns(self, session: str, turns: list[list[dict[str, str]]], key: str) -> None:
        content = json.dumps([message for turn in turns for message in turn], ensure_ascii=False)
        about = {
            "source": self._config["retain_source"],
            "session_id": session,
            "platform": self._platform,
            "user_id": self._person,
            "agent_identity": self._identity,
            "retained_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "message_count": str(sum(map(len, turns))),
        }
        item = {
            "content": content,
            "context": self._config["retain_context"],
            "document_id": plain_id(f"{session}-{key or digest(content)}"),
            "metadata": {name: str(text) for name, text in about.items() if text},
            "tags": self._tags(session),
        }
        self._store(session, item, wait=not self._config["retain_async"], key=key)

    def _turns(self) -> TurnBatches:
        return TurnBatches(self.name, self._home, self._store_turns)

    def _store(self, session: str, item: dict[str, Any], *, wait: bool, key: str = "") -> None:
        """Stores a document. It replaces one of the same id, so that a second attempt stores nothing twice."""
        bank = self._bank(session)
        self._describe(bank)
        scopes = self._config["observation_scopes"]
        more = {"observation_scopes": scopes} if scopes else {}
        body: dict[str, Any] = {"items": [{**item, **more, "update_mode": "replace"}], "async": not wait}
        if key and not wait:
            body["operation_id"] = str(uuid.uuid5(uuid.NAMESPACE_OID, key))  # the same for every attempt
        self._opened().post(f"{_bank(bank)}/memories", body, expect={"success": bool})

    def _describe(self, bank: str) -> None:
        """Tells the server once what the bank is for."""
        missions = {
            "reflect_mission": str(self._config["bank_mission"] or ""),
            "retain_mission": str(self._config["bank_retain_mission"] or ""),
        }
        if any(missions.values()) and bank not in self._described:
            given = {name: text for name, text in missions.items() if text}
            self._opened().put(_bank(bank), given, expect={"bank_id": str})
            self._described.add(bank)

    def _tags(self, session: str, *more: str) -> list[str]:
        parent = f"parent:{self._parent}" if session and self._parent and session == self._session_id else ""
        own = [f"session:{session}" if session else "", parent]
        return list(dict.fromkeys(filter(None, [*_words(self._config["retain_tags"]), *more, *own])))

    def _bank(self, session: str) -> str:
        template = str(self._config["bank_id_template"] or self._config["bank_id"])
        known = {
            "profile": self._identity,
            "workspace": self._workspace,
            "platform": self._platform,
            "user": self._person,
            "session": session,
        }
        bank = template
        for name, text in known.items():
            bank = bank.replace(f"{{{name}}}", text)
        # Where one process serves many people, each has a bank of their own.
        own = self._person and "{user}" not in template
        return distinct_id(f"{bank}-{self._person}" if own else bank)


def _words(given: Any) -> list[str]:
    """A list, or words with commas between them."""
    parts = given.split(",") if isinstance(given, str) else given or ()
    return [str(part).strip() for part in parts if str(part).strip()]
