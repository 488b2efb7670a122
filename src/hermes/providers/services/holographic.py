"""`holographic`: facts on this machine that are recalled, reasoned over and rated; no network, no model."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import WriteRefused
from hermes.providers.base import MemoryProvider
from hermes.providers.config import described, home_of, typed
from hermes.providers.facts.claims import statements_in
from hermes.providers.facts.store import CATEGORIES, FactStore, Reasoner, adopt
from hermes.providers.service import ServiceProvider, bullets, count_of
from hermes.safety.scanner import scan
from hermes.safety.secrets import find_secrets
from hermes.settings.config import load_settings
from hermes.settings.yaml_file import set_plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.providers.facts.store import Found
    from hermes.providers.service import Entry, Turn

SECTION = "hermes-memory-store"  # of `plugins` in config.yaml
RECALLED = 5  # facts for a turn
_SHORTEST_QUERY = 2  # characters
_NEAR_THE_BEST = 0.4  # of the best score; facts that only share a common word are left out


class HolographicProvider(ServiceProvider[Reasoner]):
    """External memory in a local fact store."""

    name = "holographic"
    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()  # recall and delivery call from two threads

    def _configured(self, hermes_home: str) -> dict[str, Any]:
        """The settings under `plugins.hermes-memory-store`, with defaults; the text "false" is read as false."""
        given = (load_settings(home_of(hermes_home)).get("plugins") or {}).get(SECTION) or {}
        return {
            field["key"]: typed(field, given.get(field["key"], field["default"]), f"plugins.{SECTION}.{field['key']}")
            for field in self.FIELDS
        }

    def _connect(self) -> None:
        home, config = self._home, self._config
        path = os.path.expanduser(str(config["db_path"]).replace("${HERMES_HOME}", home).replace("$HERMES_HOME", home))
        if home_of(home).person:  # a shared file would show people each other's facts
            path = os.path.basename(path)
        config["db_path"] = path = os.path.join(home, path)
        with self._lock:
            self.shutdown()
            trust, dimensions = _share(config["default_trust"]), max(int(config["hrr_dim"]), 64)
            opened = partial(FactStore.open, default_trust=trust, dimensions=dimensions)
            adopt(path, opened)
            half_life = max(float(config["temporal_decay_half_life"]), 0.0)
            self._api = Reasoner(opened(path), hrr_weight=_share(config["hrr_weight"]), half_life_days=half_life)

    # --- hooks ------------------------------------------------------------------------------------------------------

    sync_turn = MemoryProvider.sync_turn  # not a hook here, so that no turn is queued

    def _store_turn(self, turn: Turn) -> None:
        """Nothing: facts come from tools, curated memory and the end of a session."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        with self._lock:
            return super().handle_tool_call(tool_name, args, **kwargs)

    def system_prompt_block(self) -> str:
        with self._lock:
            count = self._opened().store.count()
        return super().system_prompt_block().format(count=f"{count:,}" if count else "none")

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if len(query.strip()) < _SHORTEST_QUERY:
            return ""
        with self._lock:
            found = self._opened().search(query, min_trust=self._trust({}), limit=RECALLED)
            found = [each for each in found if each.score >= _NEAR_THE_BEST * found[0].score]
            self._shown(found)
        return bullets("## Holographic Memory", (f"[{each.fact.trust:.2f}] {each.fact.content}" for each in found))

    def _keep(self, entry: Entry, replaced: int | None = None) -> None:
        category, source = "user_pref" if entry.target == "user" else "general", f"mirror:{entry.target}"
        with self._lock:
            store = self._opened().store
            store.add(entry.text, category=category, source=source, session=self._session_id, supersedes=replaced)

    def _withdraw(self, entry: Entry) -> None:
        with self._lock:
            store = self._opened().store
            if (fact_id := store.mirrored(entry.target, entry.text)) is not None:
                store.remove(fact_id)

    def _replace(self, old: Entry, new: Entry) -> None:
        """Marks the old fact as superseded instead of deleting it, so that its history stays."""
        with self._lock:
            self._keep(new, replaced=self._opened().store.mirrored(old.target, old.text))

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        """Stores what the person stated in the session, unless it is a secret or a threat."""
        if not (self._writes and self._config.get("auto_extract")):
            return
        for statement in statements_in(messages):
            try:
                screen(statement.text)
            except WriteRefused:
                continue  # a threat or a secret is not stored; the session is over, so there is nobody to report it to
            with self._lock:
                session = session_id or self._session_id
                self._opened().store.add(
                    statement.text, category=statement.category, source="extracted", session=session
                )

    def shutdown(self) -> None:
        with self._lock:
            if self._api is not None:
                self._api.store.close()
            self._api = None

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Saves the values in config.yaml, under `plugins.hermes-memory-store`."""
        known = {field["key"]: field for field in self.FIELDS}
        typed_values = {key: typed(known[key], value, key) for key, value in values.items() if key in known}
        set_plugin(home_of(hermes_home), SECTION, typed_values)

    def check_connection(self) -> str:
        with self._lock:
            count = self._opened().store.count()
            return f"{count:,} {'fact' if count == 1 else 'facts'} in {self._config['db_path']}"

    def backup_paths(self) -> list[str]:
        path = str(self._config.get("db_path", ""))
        return [path] if path and not path.startswith(self._home + os.sep) else []

    def forget_person(self) -> str:
        """Deletes nothing: the file is in the person's home, and goes with it."""
        return "keeps its facts in the home, and they go with it"

    # --- tools ------------------------------------------------------------------------------------------------------

    def fact_store(self, args: dict[str, Any]) -> dict[str, Any]:
        """Runs one of the actions on facts: add, search, probe, related, reason, contradict, update, remove, list."""
        action, reasoner = args.get("action"), self._opened()
        actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "add": self._add,
            "search": lambda args: self._asked(partial(reasoner.search, category=_category(args)), "query", args),
            "probe": lambda args: self._asked(reasoner.probe, "entity", args),
            "related": lambda args: self._asked(reasoner.related, "entity", args),
            "reason": lambda args: self._asked(reasoner.reason, "entities", args),
            "contradict": self._contradict,
            "update": self._update,
            "remove": lambda args: {"removed": reasoner.store.remove(_fact_id(args))},
            "list": self._list,
        }
        if action not in actions:
            raise WriteRefused(f"there is no action {action!r}; the actions are {', '.join(actions)}", kind="arguments")
        return actions[action](args)

    def fact_feedback(self, args: dict[str, Any]) -> dict[str, Any]:
        """Raises or lowers the trust in a fact that was helpful or unhelpful."""
        action = args.get("action")
        if action not in ("helpful", "unhelpful"):
            raise WriteRefused(f"action must be helpful or unhelpful, not {action!r}", kind="arguments")
        return self._opened().store.feedback(_fact_id(args), helpful=action == "helpful")

    def _add(self, args: dict[str, Any]) -> dict[str, Any]:
        content = _text(args, "content")
        screen(content)
        reasoner, supersedes = self._opened(), args.get("supersedes")
        fact_id, new = reasoner.store.add(
            content,
            category=_category(args) or "general",
            tags=str(args.get("tags") or ""),
            entities=_names(args),
            session=self._session_id,
            supersedes=int(supersedes) if supersedes is not None else None,
        )
        answer: dict[str, Any] = {"fact_id": fact_id, "status": "added" if new else "exists"}
        if new and (against := reasoner.conflicts_of(fact_id)):
            answer["contradicts"] = [reasoner.store.get(each).shown() for each in against]
            answer["hint"] = "if the new fact replaces one of these, remove or update that one"
        return answer

    def _asked(self, question: Callable[..., list[Found]], about: str, args: dict[str, Any]) -> dict[str, Any]:
        """What a question finds about a text of the arguments, or about the names in `entities`."""
        if about == "entities":
            asked: Any = _names(args) or ([str(args["entity"])] if args.get("entity") else [])
            if not asked:
                raise WriteRefused("reason needs entities, a list of names", kind="arguments")
        else:
            asked = _text(args, about)
        found = question(asked, min_trust=self._trust(args), limit=_limit(args))
        self._shown(found)
        return {"results": [each.shown() for each in found], "count": len(found)}

    def _contradict(self, args: dict[str, Any]) -> dict[str, Any]:
        found = self._opened().contradict(entity=str(args.get("entity") or ""), limit=_limit(args))
        return {"results": found, "count": len(found)}

    def _update(self, args: dict[str, Any]) -> dict[str, Any]:
        content, tags = (None if args.get(key) is None else str(args[key]) for key in ("content", "tags"))
        if content is not None:
            screen(content)
        fact_id = _fact_id(args)
        now = self._opened().store.update(
            fact_id,
            content=content,
            category=_category(args),
            tags=tags,
            trust_delta=float(args.get("trust_delta") or 0.0),
            entities=_names(args),
        )
        return {"updated": True, "fact_id": now, **({"superseded": fact_id} if now != fact_id else {})}

    def _list(self, args: dict[str, Any]) -> dict[str, Any]:
        least = float(args.get("min_trust") or 0.0)
        facts = self._opened().store.listed(category=_category(args), min_trust=least, limit=_limit(args))
        return {"facts": [fact.shown() for fact in facts], "count": len(facts)}

    def _shown(self, found: list[Found]) -> None:
        """Counts how often a fact was retrieved."""
        self._opened().store.note_retrieved(each.fact.fact_id for each in found)

    def _trust(self, args: dict[str, Any]) -> float:
        given = args.get("min_trust")
        return _share(self._config["min_trust_threshold"]) if given is None else float(given)


def screen(text: str) -> None:
    """Refuses what must not come back into a prompt: secrets, and text that would command the model."""
    if found := find_secrets(text):
        kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
        raise WriteRefused(f"the fact holds a secret ({kinds}); keep it in .env and store where it is", kind="secret")
    verdict = scan(text, "memory")
    if verdict.level == "refuse":
        raise WriteRefused(f"the fact looks like {', '.join(verdict.classes)}: {verdict.excerpt!r}", kind="threat")


def _share(number: Any) -> float:
    return min(max(float(number), 0.0), 1.0)


def _text(args: dict[str, Any], key: str) -> str:
    text = args.get(key)
    if not isinstance(text, str) or not text.strip():
        raise WriteRefused(f"{args.get('action')} needs {key}", kind="arguments")
    return text


def _names(args: dict[str, Any]) -> list[str]:
    names = args.get("entities") or []
    return [str(name) for name in ([names] if isinstance(names, str) else names) if str(name).strip()]


def _category(args: dict[str, Any]) -> str | None:
    category = args.get("category")
    if category is not None and category not in CATEGORIES:
        raise WriteRefused(f"category must be one of {', '.join(CATEGORIES)}, not {category!r}", kind="arguments")
    return category


def _fact_id(args: dict[str, Any]) -> int:
    try:
        return int(args["fact_id"])
    except (KeyError, TypeError, ValueError) as error:
        raise WriteRefused(f"{args.get('action')} needs fact_id, a number", kind="arguments") from error


def _limit(args: dict[str, Any]) -> int:
    return count_of(args, "limit", 10, 100)
