"""`honcho`: a model of the person that grows with every conversation, and reasoning over it; cloud or own server."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from hermes.providers.config import configured
from hermes.providers.held_turns import HeldTurns
from hermes.providers.honcho_api import CLOUD, LEVELS, Honcho
from hermes.providers.honcho_entries import EVERYTHING, CuratedEntries, knows_entries
from hermes.providers.honcho_fields import FIELDS, TOOLS
from hermes.providers.honcho_names import Peers, peers_of, read_file, save_file, session_name
from hermes.providers.honcho_thinking import cut, is_trivial, pieces, think
from hermes.providers.service import Once, ServiceProvider, bullets, clean, count_of, question, text_of
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.providers.service import Entry, Tool, Turn

_LOCAL = "http://localhost:8000"
_TURN_SECONDS = 2.6  # what recall may take in all, a little less than a turn waits for it
_CHARACTERS_PER_TOKEN = 4
_FOUND = 10


class HonchoProvider(ServiceProvider[Honcho]):
    name = "honcho"

    FIELDS = FIELDS
    TOOLS = TOOLS

    def __init__(self) -> None:
        super().__init__()
        self._peers = Peers(user="user", ai="hermes", directional=True, observed={})
        self._place = ""
        self._turn = 0
        self._lock = threading.Lock()
        self._ready: set[str] = set()
        self._sent = Once()
        self._base: tuple[int, str] | None = None
        self._thought: tuple[int, str] | None = None
        self._generation = 0

    @property
    def recall_mode(self) -> str:
        return str(self._config.get("recallMode") or "")

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._place = os.path.abspath(str(kwargs.get("cwd") or os.getcwd()))
        super().initialize(session_id, **kwargs)

    def _configured(self, hermes_home: str) -> dict[str, Any]:
        return configured(self.name, hermes_home, self.FIELDS, file=read_file(hermes_home))

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        save_file(values, hermes_home)

    def _missing(self, values: dict[str, Any]) -> list[str]:
        return ["HONCHO_API_KEY"] if _address(values) == CLOUD and not values["apiKey"] else []

    def _connect(self) -> None:
        config = self._config
        key, timeout = str(config["apiKey"] or ""), float(config["timeout"])
        self._api = Honcho(_address(config), key, str(config["workspace"]), timeout=timeout)
        self._peers = peers_of(config, self._person)

    def _handlers(self) -> dict[str, Tool]:
        return {
            "honcho_profile": self._profile,
            "honcho_search": self._search,
            "honcho_reasoning": self._reasoning,
            "honcho_context": self._context,
            "honcho_conclude": self._conclude,
        }

    # --- recall -----------------------------------------------------------------------------------------------------

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        del message, kwargs
        self._turn = turn_number

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What is known, looked up for this turn; and what Honcho thinks, prepared after the turn before."""
        end = time.monotonic() + _TURN_SECONDS
        first = self._turn <= 1
        if self._config["injectionFrequency"] == "first-turn" and not first:
            return ""
        query, trivial = question(query), is_trivial(query)
        with self._lock:
            base, thought, generation = self._base, self._thought, self._generation
        cadence = max(int(self._config["contextCadence"]), 1)
        if not trivial and (base is None or cadence == 1 or self._turn - base[0] >= cadence):
            wait = min(float(self._config["firstTurnBaseWait"]), _TURN_SECONDS) if first else _TURN_SECONDS
            base = (self._turn, self._known(query, session_id, wait))
        left = min(float(self._config["firstTurnDialecticWait"]), end - time.monotonic())
        if first and thought is None and not trivial and left > 0:
            hasty = self._hasty_thought(query, left)
            thought = (self._turn, hasty) if hasty else None
        with self._lock:
            if generation == self._generation:
                self._base, self._thought = base, thought
        return "\n\n".join(filter(None, (base[1] if base else "", _thinking(thought[1]) if thought else "")))

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Honcho's reasoning asks a model and takes seconds, so the next turn's is made now."""
        del session_id
        query = question(query)
        with self._lock:
            last, generation = self._thought, self._generation
        due = last is None or self._turn - last[0] >= max(int(self._config["dialecticCadence"]), 1)
        if is_trivial(query) or not due:
            return
        thought = (self._turn, think(self._config, query, self._ask))
        with self._lock:
            if generation == self._generation:
                self._thought = thought

    # --- storing ----------------------------------------------------------------------------------------------------

    def _store_turn(self, turn: Turn) -> None:
        self._entries().upload_once()
        if self._config["saveMessages"]:
            said = ((self._peers.user, turn.user), (self._peers.ai, turn.assistant))
            messages = [{"peer_id": peer, "content": text} for peer, text in said if text]
            together = _turns_together(self._config["writeFrequency"])
            self._turns().add(turn.session, messages, turn.key, together=together)

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        del messages, idempotency_key
        self._turns().finish(session_id or self._session_id)

    def _keep(self, entry: Entry) -> None:
        """An entry about the person is a conclusion about them, a note of the assistant one about itself."""
        self._entries().keep(entry.target, [entry.text])
        self._forget_recall()

    def _withdraw(self, entry: Entry) -> None:
        self._entries().withdraw(entry.target, entry.text)
        self._forget_recall()

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        super().on_session_switch(new_session_id, **kwargs)
        self._forget_recall()

    def check_connection(self) -> str:
        api, peers = self._opened(), self._peers
        api.ensure_workspace()
        known = len(api.conclusions(peers.observer, peers.user))
        return f"Honcho answers, {known:,} conclusions about {peers.user} in the workspace {api.workspace}"

    def forget_person(self) -> str:
        if not self._person:
            return ""
        if self._config["pinUserPeer"]:
            raise ProviderError(
                f"pinUserPeer makes everybody the peer {self._peers.user}, so what one person said cannot be told from "
                "the rest",
                kind="refused",
            )
        api, peers = self._opened(), self._peers
        conclusions = [
            each for who in {peers.ai, peers.user} for each in api.conclusions(who, peers.user, most=EVERYTHING)
        ]
        for each in conclusions:
            api.drop_conclusion(str(each["id"]))
        sessions = api.sessions_of(peers.user)
        for session in sessions:
            api.drop_session(session)
        api.set_card(peers.observer, peers.user, [])
        return (
            f"deleted {len(conclusions):,} conclusions about {peers.user}, the card and {len(sessions):,} sessions; "
            f"the peer {peers.user} itself stays, empty: Honcho has no call that deletes one"
        )

    # --- tools ------------------------------------------------------------------------------------------------------

    def _profile(self, args: dict[str, Any]) -> dict[str, Any]:
        peer = self._peers.named(str(args.get("peer") or ""))
        observer, card = self._peers.observer_of(peer), args.get("card")
        if card is None:
            return {"result": self._opened().card(observer, peer)}
        if not isinstance(card, list) or not all(isinstance(line, str) for line in card):
            raise ProviderError("card is a list of texts", kind="refused")
        self._opened().ensure_peers(self._peers.observed)
        kept = self._opened().set_card(observer, peer, [clean(line) for line in card])
        self._forget_recall()
        return {"result": "the card is set", "card": kept}

    def _search(self, args: dict[str, Any]) -> dict[str, Any]:
        query, most = text_of(args, "query"), count_of(args, "max_tokens", 800, 2000)
        peer = self._peers.named(str(args.get("peer") or ""))
        api = self._opened()
        known = api.conclusions(self._peers.observer_of(peer), peer, query, most=_FOUND)
        said = api.search(peer, query, _FOUND) if self._met() else []
        parts = (
            bullets("## Known", (each["content"] for each in known)),
            bullets("## Said", (cut(each["content"], 500) for each in said)),
        )
        text = "\n\n".join(filter(None, parts))
        return {"result": cut(text, most * _CHARACTERS_PER_TOKEN) or "nothing is known about this yet"}

    def _reasoning(self, args: dict[str, Any]) -> dict[str, Any]:
        query, wanted = text_of(args, "query"), str(args.get("reasoning_level") or "")
        chosen = wanted if wanted in LEVELS and self._config["dialecticDynamic"] else ""
        level = chosen or str(self._config["dialecticReasoningLevel"])
        peer = self._peers.named(str(args.get("peer") or ""))
        answer = self._opened().ask(self._peers.observer_of(peer), peer, query, level=level)
        return {"result": answer or "Honcho has nothing to say about this yet"}

    def _context(self, args: dict[str, Any]) -> dict[str, Any]:
        peer = self._peers.named(str(args.get("peer") or ""))
        api, seconds = self._opened(), float(self._config["timeout"])
        known = api.known(self._peers.observer_of(peer), peer, "", seconds=seconds)
        session = self._honcho_session(self._session_id)
        talk = api.conversation(session, tokens=int(self._config["contextTokens"]), seconds=seconds)
        recent = (f"{each['peer_id']}: {each['content']}" for each in talk.get("messages") or ())
        parts = (
            _section("Summary", (talk.get("summary") or {}).get("content")),
            _section("Representation", known.get("representation")),
            bullets("## Card", known.get("peer_card") or ()),
            bullets("## Recent messages", recent),
        )
        return {"result": "\n\n".join(filter(None, parts)) or "nothing is known yet"}

    def _conclude(self, args: dict[str, Any]) -> dict[str, Any]:
        given = [key for key in ("conclusion", "delete_id", "list") if args.get(key)]
        if len(given) != 1:
            raise ProviderError("give exactly one of conclusion, delete_id and list", kind="refused")
        peer, api = self._peers.named(str(args.get("peer") or "")), self._opened()
        observer = self._peers.observer_of(peer)
        if given == ["list"]:
            found = api.conclusions(observer, peer, str(args.get("query") or ""))
            return {"conclusions": [{"id": each["id"], "content": each["content"]} for each in found]}
        self._forget_recall()
        if given == ["delete_id"]:
            if not api.drop_conclusion(text_of(args, "delete_id")):
                raise ProviderError("there is no such conclusion; list shows the ids", kind="missing")
            return {"result": "deleted"}
        api.ensure_peers(self._peers.observed)
        [conclusion_id] = api.conclude([clean(text_of(args, "conclusion"))], observer, peer)
        return {"result": "concluded", "id": conclusion_id}

    # --- how: recall ------------------------------------------------------------------------------------------------

    def _known(self, query: str, session_id: str, seconds: float) -> str:
        api, peers = self._opened(), self._peers
        end = time.monotonic() + seconds
        known = api.known(peers.observer, peers.user, query, seconds=seconds)
        parts = [
            bullets("## Who the person is", known.get("peer_card") or ()),
            _section("What Honcho knows about them", known.get("representation")),
        ]
        session = self._honcho_session(session_id or self._session_id)
        if self._met() and (left := end - time.monotonic()) > 0:
            summary = api.conversation(session, tokens=int(self._config["contextTokens"]), seconds=left).get("summary")
            parts.append(_section("Summary of earlier conversations", (summary or {}).get("content")))
        return "\n\n".join(filter(None, parts))

    def _hasty_thought(self, query: str, seconds: float) -> str:
        """The first turn has nothing prepared; if Honcho is not quick, it goes without."""
        if not self._met():
            return ""
        end = time.monotonic() + seconds
        try:
            return think(self._config, query, lambda asked, level: self._ask(asked, level, end - time.monotonic()))
        except ProviderError as error:
            if error.kind != "slow":
                raise
            return ""

    def _met(self) -> bool:
        """Whether Honcho has ever heard of this person."""
        return bool(self._ready) or knows_entries(self._home)

    def _ask(self, asked: str, level: str, seconds: float = 0) -> str:
        return self._opened().ask(self._peers.observer, self._peers.user, asked, level=level, seconds=seconds)

    def _forget_recall(self) -> None:
        """What was prepared is out of date; also what is being prepared at this moment."""
        with self._lock:
            self._generation += 1
            self._base = self._thought = None

    # --- how: storing -----------------------------------------------------------------------------------------------

    def _turns(self) -> HeldTurns:
        return HeldTurns(self.name, self._home, self._store_turns)

    def _store_turns(self, session_id: str, turns: list[list[dict[str, str]]], key: str) -> None:
        session = self._honcho_session(session_id)
        self._prepare(session)
        longest = min(max(int(self._config["messageMaxChars"]), 1), 25_000)
        about = {"session_id": session_id, "platform": self._platform, "hermes_key": key}
        metadata = {name: text for name, text in about.items() if text}
        messages = [
            {"content": part, "peer_id": message["peer_id"], "metadata": metadata}
            for turn in turns
            for message in turn
            for part in pieces(message["content"], longest)
        ]
        api = self._opened()
        self._sent.send(
            key,
            lambda: api.add_messages(session, messages),
            arrived=lambda: api.messages_with(session, hermes_key=key),
        )

    def _prepare(self, session: str) -> None:
        if session not in self._ready:
            self._opened().ensure_session(session, self._peers.observed)
            self._ready.add(session)

    def _entries(self) -> CuratedEntries:
        return CuratedEntries(self._opened(), self._peers, self._home, shared=not self._person)

    def _honcho_session(self, session_id: str) -> str:
        shared = "" if self._config["pinUserPeer"] else self._person
        return session_name(self._config, session_id, self._place, shared)


def _address(values: Mapping[str, Any]) -> str:
    url = str(values["baseUrl"] or CLOUD)
    return _LOCAL if url == CLOUD and values["environment"] == "local" else url


def _turns_together(frequency: Any) -> int:
    if str(frequency) == "session":
        return EVERYTHING
    return int(frequency) if str(frequency).isdigit() else 1


def _section(title: str, text: Any) -> str:
    return f"## {title}\n{text.strip()}" if isinstance(text, str) and text.strip() else ""


def _thinking(text: str) -> str:
    return _section("What Honcho thinks", text)
