"""`honcho`: a model of the person that grows with every conversation; in its cloud or self-hosted."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.base.errors import ProviderError
from hermes.base.values import value
from hermes.providers.config import TEXTS, configured, described, home_of, read_config, read_elsewhere, save_config
from hermes.providers.http import Remote
from hermes.providers.service import (
    SendOnce,
    ServiceProvider,
    TurnBatches,
    bullets,
    clean,
    count_of,
    digest,
    distinct_id,
    plain_id,
    question,
    text_of,
)
from hermes.settings.config import documents_of, secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hermes.providers.service import Entry, Turn

CLOUD = "https://api.honcho.dev"
LONGEST_QUERY = 10_000  # characters
LEVELS = ("minimal", "low", "medium", "high", "max")  # how much Honcho reasons about a question
_MOST = 100  # messages or conclusions in one request
_CONCLUSION = {"id": str, "content": str}
_MESSAGE = {"id": str, "content": str, "peer_id": str}
_THINKING_SECONDS = 60.0


class Honcho:
    """Honcho's HTTP API."""

    def __init__(self, base_url: str, key: str, workspace: str, *, timeout: float) -> None:
        self._remote = Remote("honcho", base_url, bearer=key, timeout=timeout)
        self.workspace = workspace
        self._ready = False
        self._root = f"/v3/workspaces/{_part(workspace)}"

    # --- what there is ------------------------------------------------------------------------------------------------

    def ensure_workspace(self) -> None:
        """Creates the workspace if it does not exist."""
        self._remote.post("/v3/workspaces", {"id": self.workspace}, expect={"id": str})

    def ensure_peers(self, peers: Iterable[str]) -> None:
        """Creates the workspace and the peers if they do not exist."""
        if not self._ready:
            self.ensure_workspace()
            for peer in peers:
                self._remote.post(f"{self._root}/peers", {"id": peer}, expect={"id": str})
            self._ready = True

    def ensure_session(self, session: str, peers: dict[str, dict[str, bool]]) -> None:
        """Creates the session with its peers, and what they observe, if it does not exist."""
        self.ensure_peers(peers)
        body = {"id": session, "peers": peers}
        self._remote.post(f"{self._root}/sessions", body, expect={"id": str})

    def drop_sessions(self, peer: str) -> int:
        """Deletes every session of a peer; returns their number."""
        sessions = [str(each["id"]) for each in self._pages(f"{self._peer(peer)}/sessions", {}, {"id": str})]
        for session in sessions:
            self._remote.delete(self._session(session))
        return len(sessions)

    # --- messages -----------------------------------------------------------------------------------------------------

    def add_messages(self, session: str, messages: list[dict[str, Any]]) -> None:
        """Adds messages to a session, in as many requests as Honcho's limit needs."""
        for start in range(0, len(messages), _MOST):
            body = {"messages": messages[start : start + _MOST]}
            self._remote.post(f"{self._session(session)}/messages", body, expect=[{"id": str}])

    def messages_with(self, session: str, **metadata: str) -> int:
        """How many messages of a session carry this metadata."""
        path, body = f"{self._session(session)}/messages/list", {"filters": {"metadata": metadata}}
        shape = {"items": list, "total": int}
        return int(self._remote.post(path, body, expect=shape, otherwise={"total": 0})["total"])

    def search(self, peer: str, query: str, limit: int) -> list[dict[str, Any]]:
        """Finds messages of a peer."""
        return list(
            self._remote.post(f"{self._peer(peer)}/search", {"query": query, "limit": limit}, expect=[_MESSAGE])
        )

    # --- what is known ------------------------------------------------------------------------------------------------

    def known(self, observer: str, target: str, query: str, *, seconds: float) -> dict[str, Any]:
        """What one peer knows about another that fits a query, and the card; empty if there is no such peer yet."""
        params = {"target": target, "search_query": query or None}
        shape = {"peer_id": str, "representation?": str, "peer_card?": [str]}
        path = f"{self._peer(observer)}/context"
        return dict(self._remote.get(path, params=params, expect=shape, timeout=seconds, otherwise={}))

    def conversation(self, session: str, *, tokens: int | None, seconds: float) -> dict[str, Any]:
        """The summary of a session and its last messages; empty if there is no such session yet."""
        params = {"summary": "true", "tokens": tokens}
        shape = {"id": str, "messages": [_MESSAGE], "summary?": {"content": str}}
        path = f"{self._session(session)}/context"
        return dict(self._remote.get(path, params=params, expect=shape, timeout=seconds, otherwise={}))

    def card(self, observer: str, target: str) -> list[str]:
        """The lines of the card that one peer keeps about another; empty if there is none."""
        path, shape = f"{self._peer(observer)}/card", {"peer_card?": [str]}
        found = self._remote.get(path, params={"target": target}, expect=shape, timeout=10.0, otherwise={})
        return list(found.get("peer_card") or ())

    def set_card(self, observer: str, target: str, lines: list[str]) -> list[str]:
        """Replaces the card that one peer keeps about another; returns the lines Honcho kept."""
        path = f"{self._peer(observer)}/card"
        body, params = {"peer_card": lines}, {"target": target}
        return list(self._remote.put(path, body, params=params, expect={"peer_card?": [str]}).get("peer_card") or ())

    def ask(self, observer: str, target: str, query: str, *, level: str, seconds: float = _THINKING_SECONDS) -> str:
        """The answer of Honcho's reasoning, which asks a model and may take long."""
        body: dict[str, Any] = {"query": query[:LONGEST_QUERY], "stream": False, "reasoning_level": level}
        body |= {"target": target} if target != observer else {}
        path = f"{self._peer(observer)}/chat"
        found = self._remote.post(path, body, expect={"content?": str}, timeout=seconds)
        if "content" not in found:
            raise ProviderError("honcho answered a question without content", kind="malformed")
        return str(found["content"] or "").strip()

    # --- conclusions --------------------------------------------------------------------------------------------------

    def conclude(self, contents: list[str], observer: str, observed: str) -> list[str]:
        """Stores conclusions; returns their ids in the same order."""
        ids = []
        for start in range(0, len(contents), _MOST):
            pair = {"observer_id": observer, "observed_id": observed}
            body = {"conclusions": [{"content": each, **pair} for each in contents[start : start + _MOST]]}
            found = self._remote.post(f"{self._root}/conclusions", body, expect=[_CONCLUSION])
            ids += [str(each["id"]) for each in found]
        return ids

    def conclusions(self, observer: str, observed: str, query: str = "", *, most: int = _MOST) -> list[dict[str, Any]]:
        """The conclusions about a peer: all, or those nearest to a query."""
        filters = {"filters": {"observer_id": observer, "observed_id": observed}}
        if not query:
            return list(self._pages(f"{self._root}/conclusions/list", filters, _CONCLUSION))[:most]
        body = {"query": query, "top_k": min(most, _MOST), **filters}
        return list(self._remote.post(f"{self._root}/conclusions/query", body, expect=[_CONCLUSION], otherwise=[]))

    def drop_conclusion(self, conclusion_id: str) -> bool:
        """Deletes a conclusion; False if there is none with this id."""
        path = f"{self._root}/conclusions/{_part(conclusion_id)}"
        return self._remote.delete(path, otherwise=False) is not False

    # --- how ----------------------------------------------------------------------------------------------------------

    def _pages(self, path: str, body: dict[str, Any], each: dict[str, Any]) -> Iterator[dict[str, Any]]:
        page, pages = 1, 1
        while page <= pages:
            shape = {"items": [each], "pages": int}
            params, nothing = {"page": page, "size": _MOST}, {"items": (), "pages": 0}
            found = self._remote.post(path, body, params=params, expect=shape, otherwise=nothing)
            yield from found["items"]
            page, pages = page + 1, found["pages"]

    def _peer(self, peer: str) -> str:
        return f"{self._root}/peers/{_part(peer)}"

    def _session(self, session: str) -> str:
        return f"{self._root}/sessions/{_part(session)}"


def _part(text: str) -> str:
    return quote(text, safe="")


_NAME = "honcho"
_PROFILES = "profiles"


@value
class Peers:
    """The peers of the person and the assistant, and which of them observes the person."""

    user: str
    ai: str
    directional: bool
    observed: dict[str, dict[str, bool]]

    @property
    def observer(self) -> str:
        """The peer whose view of the person is asked for: the assistant, or the person in unified mode."""
        return self.ai if self.directional else self.user

    def named(self, name: str) -> str:
        """The peer that a tool's argument means: user, ai, or the id of another."""
        return {"": self.user, "user": self.user, "ai": self.ai}.get(name) or plain_id(name)

    def observer_of(self, peer: str) -> str:
        """The peer whose view of another is asked for; the assistant observes itself."""
        return self.observer if peer != self.ai else self.ai


def peers_of(config: Mapping[str, Any], person: str) -> Peers:
    """Chooses the peers from the configuration; among several people, each has a peer of their own."""
    user = plain_id(str(config["peerName"] or "user"))
    if person and not config["pinUserPeer"]:
        aliases = config["userPeerAliases"] or {}
        user = distinct_id(str(aliases.get(person) or f"{config['runtimePeerPrefix']}{person}"))
    ai = plain_id(str(config["aiPeer"] or "hermes"))
    if ai == user:
        ai = f"{ai}-ai"
    directional = config["observationMode"] != "unified"
    mine = (config["observation"] or {}).get("user") or {}
    others = (config["observation"] or {}).get("ai") or {}
    observed = {
        user: _watching(mine, me=True, others=directional),
        ai: _watching(others, me=directional, others=directional),
    }
    return Peers(user=user, ai=ai, directional=directional, observed=observed)


def session_name(config: Mapping[str, Any], session_id: str, place: str, person: str) -> str:
    """Names Honcho's session by the configured strategy; several people of one process never share a session."""
    named = (config["sessions"] or {}).get(place)
    match str(config["sessionStrategy"]):
        case "per-session":
            name = session_id
        case "global":
            name = str(config["workspace"])
        case "per-repo":
            name = named or _of_folder(_repository(place))
        case _:
            name = named or _of_folder(place)
    if config["sessionPeerPrefix"] and not person:
        name = f"{config['peerName']}-{name}"
    return distinct_id(f"{person}-{name}" if person else name)


def _host(hermes_home: str) -> str:
    chosen = secret(home_of(hermes_home), "HERMES_HONCHO_HOST")
    folder, name = os.path.split(os.path.normpath(hermes_home))
    return chosen or (f"hermes_{name}" if os.path.basename(folder) == _PROFILES else "hermes")


def _watching(given: Mapping[str, Any], *, me: bool, others: bool) -> dict[str, bool]:
    return {
        "observe_me": bool(given.get("observeMe", me)),
        "observe_others": bool(given.get("observeOthers", others)),
    }


def _repository(place: str) -> str:
    folder = place
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return place
        folder = above
    return folder


def _of_folder(place: str) -> str:
    """The folder's name with a digest of the whole path, because many folders are called `src`."""
    name = os.path.basename(place)
    mark = distinct_id(f"/{place}")[-8:]
    return f"{name}-{mark}" if name else mark


_LONG, _VERY_LONG = 120, 400  # characters of a message that raise the level by one and by two
# Messages that are not worth a recall, in several languages.
_TRIVIAL = re.compile(
    r"(?:ok(?:ay)?|yes|yep|yeah|no|nope|sure|thanks?|thank you|great|good|nice|fine|cool|right|go(?: on| ahead)?|"
    r"continue|hi|hello|hey|ja|nein|danke|oui|non|merci|sí|gracias|好的?|是的?|谢谢|はい|ありがとう)?[\s\W]*",
    re.IGNORECASE,
)


def is_trivial(message: str) -> bool:
    """Whether a message is not worth a recall, such as "ok" or "thanks"."""
    return bool(_TRIVIAL.fullmatch(message.strip()))


def level_for(config: Mapping[str, Any], message: str) -> str:
    """The configured level, raised for longer messages up to the cap."""
    base = _position(config["dialecticReasoningLevel"], "low")
    if not config["reasoningHeuristic"]:
        return LEVELS[base]
    more = (len(message) >= _LONG) + (len(message) >= _VERY_LONG)
    return LEVELS[max(base, min(base + more, _position(config["reasoningLevelCap"], "high")))]


def think(config: Mapping[str, Any], message: str, ask: Callable[[str, str], str]) -> str:
    """Asks once, and again about the answer for more depth; `ask` takes a question and a level."""
    longest = int(config["dialecticMaxInputChars"])
    depth = min(max(int(config["dialecticDepth"]), 1), 3)
    levels = [str(each) for each in config["dialecticDepthLevels"] or ()]
    answer = ""
    for step in range(depth):
        level = levels[step] if step < len(levels) and levels[step] in LEVELS else level_for(config, message)
        question = f"{_text('honcho_question')}\n{message}"
        if step:
            question = f"{_text('honcho_deeper')}\n\n{question}\n\n{answer}"
        improved = ask(question[:longest], level)
        if not improved:
            break
        answer = improved
    return cut(answer, int(config["dialecticMaxChars"]))


def cut(text: str, longest: int) -> str:
    """Shortens a text after a whole word and marks the cut."""
    if len(text) <= longest:
        return text
    return f"{text[: longest + 1].rsplit(None, 1)[0]} …"


def pieces(text: str, longest: int) -> list[str]:
    """Splits a long message into parts that Honcho accepts, between lines or words if possible."""
    parts, rest = [], text
    while len(rest) > longest:
        head = rest[:longest]
        at = max(head.rfind("\n", longest // 2), head.rfind(" ", longest // 2)) + 1 or longest
        parts.append(rest[:at])
        rest = rest[at:]
    return [*parts, rest]


def _position(level: Any, otherwise: str) -> int:
    return LEVELS.index(str(level) if str(level) in LEVELS else otherwise)


def _text(name: str) -> str:
    with open(os.path.join(TEXTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()


_LOCAL = "http://localhost:8000"
EVERYTHING = 1_000_000  # conclusions or turns; stands for "no limit"
_KEPT = "honcho_conclusions"  # the file that maps entries to conclusions
_BETWEEN = "\n§\n"  # separates the entries of curated memory
_LARGEST_FILE = 4 << 20  # bytes
_TURN_SECONDS = 2.6  # for a whole recall: a little less than a turn waits for it
_CHARACTERS_PER_TOKEN = 4  # on average, in English
_FOUND = 10  # conclusions and messages for one search


class HonchoProvider(ServiceProvider[Honcho]):
    """External memory in Honcho: the person and the assistant are peers, and one observes the other."""

    name = "honcho"

    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        super().__init__()
        self._peers = Peers(user="user", ai="hermes", directional=True, observed={})
        self._place = ""
        self._turn = 0
        self._lock = threading.Lock()
        self._ready: set[str] = set()
        self._sent = SendOnce()
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
        """Reads Honcho's own file, which other programs share: each may have its own block under `hosts`."""
        file = read_config(_NAME, hermes_home) or read_elsewhere("~/.hermes/honcho.json", "~/.honcho/config.json")
        hosts = file.get("hosts")
        block = hosts.get(_host(hermes_home)) if isinstance(hosts, dict) else None
        file = {**file, **block} if isinstance(block, dict) else file
        return configured(self.name, hermes_home, self.FIELDS, file=file)

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Saves into our block of the file if it has one, because the block takes precedence over the rest."""
        hosts, host = read_config(_NAME, hermes_home).get("hosts"), _host(hermes_home)
        if isinstance(hosts, dict) and isinstance(hosts.get(host), dict):
            values = {"hosts": {**hosts, host: {**hosts[host], **values}}}
        save_config(_NAME, hermes_home, values)

    def _missing(self, values: dict[str, Any]) -> list[str]:
        return ["HONCHO_API_KEY"] if _address(values) == CLOUD and not values["apiKey"] else []

    def _connect(self) -> None:
        config = self._config
        key, timeout = str(config["apiKey"] or ""), float(config["timeout"])
        self._api = Honcho(_address(config), key, str(config["workspace"]), timeout=timeout)
        self._peers = peers_of(config, self._person)

    # --- recall -----------------------------------------------------------------------------------------------------

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self._turn = turn_number

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Returns what is known, looked up for this turn, and what Honcho thinks, prepared after the previous one."""
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
        return "\n\n".join(
            filter(None, (base[1] if base else "", _section("What Honcho thinks", thought[1]) if thought else ""))
        )

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Prepares Honcho's reasoning for the next turn, because it asks a model and takes seconds."""
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
        self._upload_once()
        if self._config["saveMessages"]:
            said = ((self._peers.user, turn.user), (self._peers.ai, turn.assistant))
            messages = [{"peer_id": peer, "content": text} for peer, text in said if text]
            together = _turns_together(self._config["writeFrequency"])
            self._turns().add(turn.session, messages, turn.key, together=together)

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        self._turns().finish(session_id or self._session_id)

    def _keep(self, entry: Entry) -> None:
        """Stores an entry about the person as a conclusion about them, and a note as one about the assistant."""
        self._keep_entries(entry.target, [entry.text])
        self._forget_recall()

    def _withdraw(self, entry: Entry) -> None:
        """Deletes the conclusion made of an entry, and any other with exactly the same text."""
        api, name = self._opened(), self._entry_name(entry.target, entry.text)
        known = read_config(_KEPT, self._home).get(name)
        near = api.conclusions(*self._observer_and_observed(entry.target), entry.text)
        same = [str(each["id"]) for each in near if each["content"] == entry.text]
        for conclusion_id in dict.fromkeys([*([str(known)] if known else []), *same]):
            api.drop_conclusion(conclusion_id)
        save_config(_KEPT, self._home, {name: None})
        self._forget_recall()

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        super().on_session_switch(new_session_id, **kwargs)
        self._forget_recall()

    def check_connection(self) -> str:
        api, peers = self._opened(), self._peers
        api.ensure_workspace()
        known = len(api.conclusions(peers.observer, peers.user))
        return f"Honcho answers, {known:,} conclusions about {peers.user} in the workspace {api.workspace}"

    def _forget(self) -> str:
        if self._config["pinUserPeer"]:
            raise ProviderError(
                f"pinUserPeer makes everybody the peer {self._peers.user}, so one person's data cannot be separated "
                "from the rest",
                kind="refused",
            )
        api, peers = self._opened(), self._peers
        conclusions = [
            each for who in {peers.ai, peers.user} for each in api.conclusions(who, peers.user, most=EVERYTHING)
        ]
        for each in conclusions:
            api.drop_conclusion(str(each["id"]))
        sessions = api.drop_sessions(peers.user)
        api.set_card(peers.observer, peers.user, [])
        return (
            f"deleted {len(conclusions):,} conclusions about {peers.user}, the card and {sessions:,} sessions; "
            f"the peer {peers.user} itself stays, empty: Honcho has no call that deletes one"
        )

    # --- tools ------------------------------------------------------------------------------------------------------

    def honcho_profile(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns the card of a peer, or replaces it."""
        (observer, peer), card = self._asked_about(args), args.get("card")
        if card is None:
            return {"result": self._opened().card(observer, peer)}
        if not isinstance(card, list) or not all(isinstance(line, str) for line in card):
            raise ProviderError("card is a list of texts", kind="refused")
        self._opened().ensure_peers(self._peers.observed)
        kept = self._opened().set_card(observer, peer, [clean(line) for line in card])
        self._forget_recall()
        return {"result": "the card is set", "card": kept}

    def honcho_search(self, args: dict[str, Any]) -> dict[str, Any]:
        """Finds conclusions about a peer and messages of it."""
        query, most = text_of(args, "query"), count_of(args, "max_tokens", 800, 2000)
        (observer, peer), api = self._asked_about(args), self._opened()
        known = api.conclusions(observer, peer, query, most=_FOUND)
        said = api.search(peer, query, _FOUND) if self._met() else []
        parts = (
            bullets("## Known", (each["content"] for each in known)),
            bullets("## Said", (cut(each["content"], 500) for each in said)),
        )
        text = "\n\n".join(filter(None, parts))
        return {"result": cut(text, most * _CHARACTERS_PER_TOKEN) or "nothing is known about this yet"}

    def honcho_reasoning(self, args: dict[str, Any]) -> dict[str, Any]:
        """Asks Honcho's reasoning a question about a peer."""
        query, wanted = text_of(args, "query"), str(args.get("reasoning_level") or "")
        chosen = wanted if wanted in LEVELS and self._config["dialecticDynamic"] else ""
        level = chosen or str(self._config["dialecticReasoningLevel"])
        answer = self._opened().ask(*self._asked_about(args), query, level=level)
        return {"result": answer or "Honcho has nothing to say about this yet"}

    def honcho_context(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns what Honcho knows about a peer and the current conversation."""
        api, seconds = self._opened(), float(self._config["timeout"])
        known = api.known(*self._asked_about(args), "", seconds=seconds)
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

    def honcho_conclude(self, args: dict[str, Any]) -> dict[str, Any]:
        """Adds, deletes or lists conclusions about a peer."""
        given = [key for key in ("conclusion", "delete_id", "list") if args.get(key)]
        if len(given) != 1:
            raise ProviderError("give exactly one of conclusion, delete_id and list", kind="refused")
        (observer, peer), api = self._asked_about(args), self._opened()
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

    def _asked_about(self, args: dict[str, Any]) -> tuple[str, str]:
        """The observer and the observed peer that a tool call means."""
        peer = self._peers.named(str(args.get("peer") or ""))
        return self._peers.observer_of(peer), peer

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
        """Asks Honcho in the first turn, which has nothing prepared; empty if the answer does not come in time."""
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
        return bool(self._ready or read_config(_KEPT, self._home))

    def _ask(self, asked: str, level: str, seconds: float = _THINKING_SECONDS) -> str:
        return self._opened().ask(self._peers.observer, self._peers.user, asked, level=level, seconds=seconds)

    def _forget_recall(self) -> None:
        """Drops what was prepared, and by the generation also what another thread is preparing at this moment."""
        with self._lock:
            self._generation += 1
            self._base = self._thought = None

    # --- how: storing -----------------------------------------------------------------------------------------------

    def _turns(self) -> TurnBatches:
        return TurnBatches(self.name, self._home, self._store_turns)

    def _store_turns(self, session_id: str, turns: list[list[dict[str, str]]], key: str) -> None:
        api, session = self._opened(), self._honcho_session(session_id)
        if session not in self._ready:
            api.ensure_session(session, self._peers.observed)
            self._ready.add(session)
        longest = min(max(int(self._config["messageMaxChars"]), 1), 25_000)
        about = {"session_id": session_id, "platform": self._platform, "hermes_key": key}
        metadata = {name: text for name, text in about.items() if text}
        messages = [
            {"content": part, "peer_id": message["peer_id"], "metadata": metadata}
            for turn in turns
            for message in turn
            for part in pieces(message["content"], longest)
        ]
        self._sent.send(
            key,
            lambda: api.add_messages(session, messages),
            arrived=lambda: api.messages_with(session, hermes_key=key),
        )

    def _upload_once(self) -> None:
        """Uploads the entries that existed before Honcho was chosen, once; a deleted conclusion does not return."""
        mark = f"uploaded {self._opened().workspace} {self._peers.user}"
        if read_config(_KEPT, self._home).get(mark):
            return
        for target, file in (("user", "USER.md"), ("memory", "MEMORY.md")):
            self._keep_entries(target, _entries(self._home, file))
        save_config(_KEPT, self._home, {mark: True})

    def _keep_entries(self, target: str, entries: list[str]) -> None:
        """Stores entries as conclusions, except those that Honcho already has."""
        known = read_config(_KEPT, self._home)
        left = [entry for entry in dict.fromkeys(entries) if self._entry_name(target, entry) not in known]
        if not left:
            return
        api, pair = self._opened(), self._observer_and_observed(target)
        there = {each["content"]: str(each["id"]) for each in api.conclusions(*pair, most=EVERYTHING)}
        if new := [entry for entry in left if entry not in there]:
            api.ensure_peers(self._peers.observed)
            there |= dict(zip(new, api.conclude(new, *pair), strict=True))
        save_config(_KEPT, self._home, {self._entry_name(target, entry): there[entry] for entry in left})

    def _entry_name(self, target: str, text: str) -> str:
        whose = f"{self._opened().workspace}\n{self._peers.user}\n{text}"
        return f"{target}-{digest(whose)}"

    def _observer_and_observed(self, target: str) -> tuple[str, str]:
        """Notes are the assistant's own, unless it serves several people: then they belong to the person."""
        peer = self._peers.ai if target != "user" and not self._person else self._peers.user
        return self._peers.observer_of(peer), peer

    def _honcho_session(self, session_id: str) -> str:
        shared = "" if self._config["pinUserPeer"] else self._person
        return session_name(self._config, session_id, self._place, shared)


def _address(values: Mapping[str, Any]) -> str:
    url = str(values["baseUrl"] or CLOUD)
    return _LOCAL if url == CLOUD and values["environment"] == "local" else url


def _entries(home: str, name: str) -> list[str]:
    folder = documents_of(home_of(home)).below("memories").open()
    if folder is None:
        return []
    with folder:
        data = folder.read(name, at_most=_LARGEST_FILE) or b""
    return [text for each in data.decode("utf-8", "replace").split(_BETWEEN) if (text := clean(each))]


def _turns_together(frequency: Any) -> int:
    if str(frequency) == "session":
        return EVERYTHING
    return int(frequency) if str(frequency).isdigit() else 1


def _section(title: str, text: Any) -> str:
    return f"## {title}\n{text.strip()}" if isinstance(text, str) and text.strip() else ""
