"""The two tools a model sees, and what each action answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.errors import WriteRefused
from hermes.providers.facts.store import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.providers.facts.reasoning import Reasoner
    from hermes.providers.facts.store import FactStore

LIMIT, MOST = 10, 100


class FactTools:
    def __init__(
        self,
        store: FactStore,
        reasoner: Reasoner,
        *,
        screen: Callable[[str], None],
        min_trust: float,
        session: Callable[[], str],
    ) -> None:
        self._store = store
        self._reasoner = reasoner
        self._screen = screen
        self._min_trust = min_trust
        self._session = session

    def fact_store(self, given: dict[str, Any]) -> dict[str, Any]:
        action = given.get("action")
        actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "add": self._add,
            "search": self._search,
            "probe": lambda given: self._entity_question(self._reasoner.probe, given),
            "related": lambda given: self._entity_question(self._reasoner.related, given),
            "reason": self._reason,
            "contradict": self._contradict,
            "update": self._update,
            "remove": self._remove,
            "list": self._list,
        }
        if action not in actions:
            raise WriteRefused(f"there is no action {action!r}; the actions are {', '.join(actions)}", kind="arguments")
        return actions[action](given)

    def fact_feedback(self, given: dict[str, Any]) -> dict[str, Any]:
        action = given.get("action")
        if action not in ("helpful", "unhelpful"):
            raise WriteRefused(f"action must be helpful or unhelpful, not {action!r}", kind="arguments")
        return self._store.feedback(_fact_id(given), helpful=action == "helpful")

    def _add(self, given: dict[str, Any]) -> dict[str, Any]:
        content = _text(given, "content")
        self._screen(content)
        supersedes = given.get("supersedes")
        fact_id, new = self._store.add(
            content,
            category=_category(given) or "general",
            tags=str(given.get("tags") or ""),
            entities=_names(given),
            session=self._session(),
            supersedes=int(supersedes) if supersedes is not None else None,
        )
        answer: dict[str, Any] = {"fact_id": fact_id, "status": "added" if new else "exists"}
        if new and (against := self._reasoner.conflicts_of(fact_id)):
            answer["contradicts"] = [self._store.get(each).shown() for each in against]
            answer["hint"] = "if the new fact replaces one of these, remove or update that one"
        return answer

    def _search(self, given: dict[str, Any]) -> dict[str, Any]:
        found = self._reasoner.search(
            _text(given, "query"),
            category=_category(given),
            min_trust=self._trust(given),
            limit=_limit(given),
        )
        self._store.note_retrieved(each.fact.fact_id for each in found)
        return _results(found)

    def _entity_question(self, question: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
        found = question(_text(given, "entity"), min_trust=self._trust(given), limit=_limit(given))
        self._store.note_retrieved(each.fact.fact_id for each in found)
        return _results(found)

    def _reason(self, given: dict[str, Any]) -> dict[str, Any]:
        names = _names(given) or ([str(given["entity"])] if given.get("entity") else [])
        if not names:
            raise WriteRefused("reason needs entities, a list of names", kind="arguments")
        found = self._reasoner.reason(names, min_trust=self._trust(given), limit=_limit(given))
        self._store.note_retrieved(each.fact.fact_id for each in found)
        return _results(found)

    def _contradict(self, given: dict[str, Any]) -> dict[str, Any]:
        found = self._reasoner.contradict(entity=str(given.get("entity") or ""), limit=_limit(given))
        return {"results": found, "count": len(found)}

    def _update(self, given: dict[str, Any]) -> dict[str, Any]:
        content = given.get("content")
        if content is not None:
            self._screen(str(content))
        fact_id = _fact_id(given)
        now = self._store.update(
            fact_id,
            content=None if content is None else str(content),
            category=_category(given),
            tags=None if given.get("tags") is None else str(given["tags"]),
            trust_delta=float(given.get("trust_delta") or 0.0),
            entities=_names(given),
        )
        return {"updated": True, "fact_id": now, **({"superseded": fact_id} if now != fact_id else {})}

    def _remove(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"removed": self._store.remove(_fact_id(given))}

    def _list(self, given: dict[str, Any]) -> dict[str, Any]:
        facts = self._store.listed(
            category=_category(given), min_trust=float(given.get("min_trust") or 0.0), limit=_limit(given)
        )
        return {"facts": [fact.shown() for fact in facts], "count": len(facts)}

    def _trust(self, given: dict[str, Any]) -> float:
        return self._min_trust if given.get("min_trust") is None else float(given["min_trust"])


def _results(found: list[Any]) -> dict[str, Any]:
    return {"results": [each.shown() for each in found], "count": len(found)}


def _text(given: dict[str, Any], key: str) -> str:
    text = given.get(key)
    if not isinstance(text, str) or not text.strip():
        raise WriteRefused(f"{given.get('action')} needs {key}", kind="arguments")
    return text


def _names(given: dict[str, Any]) -> list[str]:
    names = given.get("entities") or []
    return [str(name) for name in ([names] if isinstance(names, str) else names) if str(name).strip()]


def _category(given: dict[str, Any]) -> str | None:
    category = given.get("category")
    if category is not None and category not in CATEGORIES:
        raise WriteRefused(f"category must be one of {', '.join(CATEGORIES)}, not {category!r}", kind="arguments")
    return category


def _fact_id(given: dict[str, Any]) -> int:
    try:
        return int(given["fact_id"])
    except (KeyError, TypeError, ValueError) as error:
        raise WriteRefused(f"{given.get('action')} needs fact_id, a number", kind="arguments") from error


def _limit(given: dict[str, Any]) -> int:
    return min(max(int(given.get("limit") or LIMIT), 1), MOST)
