"""`openviking`: a tree of memories and resources on your own server, read in tiers.

Turns go to a session on the server, which makes memories of them when the session is committed: at every boundary, and
again if more was said afterwards.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes.base.errors import ProviderError
from hermes.providers.base import RECALLED
from hermes.providers.config import configured, described, read_config, read_elsewhere, save_config
from hermes.providers.http import Remote, misfit
from hermes.providers.service import (
    SendOnce,
    ServiceProvider,
    bullets,
    clean,
    count_of,
    digest,
    distinct_id,
    one_of,
    question,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.providers.service import Entry, Turn

_SLOW = 30.0  # seconds, where nobody waits
_MEMORIES = {"memories?": [{"uri": str}], "resources?": [{"uri": str}], "skills?": [{"uri": str}]}
_BATCH = 100  # messages in one request


class OpenViking:
    """OpenViking's HTTP API."""

    def __init__(self, endpoint: str, key: str, *, account: str, user: str, agent: str, recall_seconds: float) -> None:
        headers = {"X-OpenViking-Actor-Peer": agent}
        headers |= {"X-API-Key": key} if key else {}
        # In trusted mode the server needs the user's name; otherwise the key identifies the user.
        headers |= {"X-OpenViking-Account": account, "X-OpenViking-User": user} if user else {}
        self._remote = Remote("openviking", endpoint, bearer=key, headers=headers, timeout=_SLOW)
        self._recall_seconds = recall_seconds
        self._user = ""

    def user(self) -> str:
        """The user that the server identifies us as."""
        if not self._user:
            self._user = str(self._call("GET", "system/status", shape={"user": str})["user"])
        return self._user

    def count(self) -> int:
        """How many memories the server has of the user."""
        return int(self._call("GET", "stats/memories", shape={"total_memories": int})["total_memories"])

    # --- sessions -----------------------------------------------------------------------------------------------------

    def add_messages(self, session: str, messages: list[dict[str, Any]]) -> None:
        """Adds messages to a session, creating it if necessary, in as many requests as the server's limit needs."""
        for start in range(0, len(messages), _BATCH):
            body = {"messages": messages[start : start + _BATCH]}
            self._call("POST", f"{_session(session)}/messages/batch", body, shape={"session_id": str})

    def has_turn(self, session: str, turn_id: str) -> bool:
        """Whether messages of a turn have arrived and are not committed yet."""
        path, shape = f"{_session(session)}/context", {"messages": [dict]}
        nothing: dict[str, Any] = {"messages": []}
        found = self._call("GET", path, shape=shape, otherwise=nothing)
        return any(message.get("turn_id") == turn_id for message in found["messages"])

    def commit(self, session: str) -> str:
        """Has the server extract memories from what is new; returns the task's id, empty if nothing is new."""
        path, body = f"{_session(session)}/commit", {"keep_recent_count": 0}
        return str(self._call("POST", path, body, shape={"session_id": str}).get("task_id") or "")

    def sessions(self) -> list[str]:
        """The ids of the user's sessions."""
        return [str(each["session_id"]) for each in self._call("GET", "sessions", shape=[{"session_id": str}])]

    def drop_session(self, session: str) -> None:
        """Deletes a session, if it exists."""
        self._remote.delete(f"/api/v1/{_session(session)}", otherwise=None)

    def outcome(self, task: str) -> tuple[str, str]:
        """The state of a task (pending, running, completed, failed) and its error."""
        path, forgotten = f"tasks/{quote(task, safe='')}", {"status": "completed"}  # old tasks are forgotten
        found = self._call("GET", path, shape={"status": str}, otherwise=forgotten)
        return str(found["status"]), str(found.get("error") or "")

    # --- recall -------------------------------------------------------------------------------------------------------

    def find(
        self, query: str, *, limit: int, scope: str = "", session: str = "", hurry: bool = False
    ) -> dict[str, Any]:
        """Hits by kind; with a session, the server's model interprets the query first."""
        body: dict[str, Any] = {"query": query, "limit": limit, "score_threshold": 0}
        body |= {"target_uri": scope} if scope else {}
        body |= {"session_id": session} if session else {}
        path = "search/search" if session else "search/find"
        found: dict[str, Any] = self._call("POST", path, body, shape=_MEMORIES, hurry=hurry)
        if not found.keys() & {"memories", "resources", "skills"}:
            raise ProviderError("openviking answered a search without results", kind="malformed")
        return found

    # --- files --------------------------------------------------------------------------------------------------------

    def read(self, uri: str, level: str, *, hurry: bool = False) -> str:
        """`level` is abstract, overview or read (everything)."""
        return str(self._call("GET", f"content/{level}", shape=str, hurry=hurry, params={"uri": uri}))

    def is_folder(self, uri: str) -> bool:
        """Whether an address is a folder; only folders have summaries."""
        return bool(self._call("GET", "fs/stat", shape=dict, params={"uri": uri}).get("isDir"))

    def below(self, uri: str) -> list[str]:
        """The folders and files in a folder; none if it does not exist."""
        found = self._call("GET", "fs/ls", shape=[{"uri": str}], params={"uri": uri}, otherwise=[])
        return [str(each["uri"]) for each in found]

    def browse(self, action: str, uri: str) -> Any:
        """Calls `tree`, `ls` or `stat` on an address and returns the answer as it is."""
        return self._call("GET", f"fs/{action}", shape=(dict, list), params={"uri": uri})

    def write(self, uri: str, content: str) -> None:
        """Writes a file; writing the same content again changes nothing."""
        body = {"uri": uri, "content": content, "mode": "create", "wait": True}
        try:
            self._call("POST", "content/write", body, shape={"uri": str})
        except ProviderError as error:
            if error.status != 409:  # noqa: PLR2004 - some versions say that it exists
                raise

    def delete(self, uri: str, *, below: bool = False) -> int:
        """Deletes a file, or with `below` a folder and its contents; returns the number of files."""
        params, nothing = {"uri": uri, "recursive": str(below).lower()}, {"uri": uri, "estimated_deleted_count": 0}
        found = self._call("DELETE", "fs", shape={"uri": str}, params=params, otherwise=nothing)
        return int(found.get("estimated_deleted_count", 1))

    def add_resource(self, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Has the server fetch and index a web page or a repository."""
        found: dict[str, Any] = self._call("POST", "resources", body, shape=dict, timeout=seconds)
        return found

    def _call(self, method: str, path: str, body: Any = None, *, shape: Any, hurry: bool = False, **more: Any) -> Any:
        """The result inside the answer's envelope, which some versions leave out."""
        more |= {"timeout": self._recall_seconds} if hurry else {}
        answer = self._remote.request(method, f"/api/v1/{path}", body, **more)
        if isinstance(answer, dict) and answer.get("status") == "error":
            error = answer.get("error") or {}
            said = error.get("message") if isinstance(error, dict) else error
            raise ProviderError(f"openviking refused it: {said}", kind="refused")
        return _fitting(answer["result"] if isinstance(answer, dict) and "result" in answer else answer, shape)


def _fitting(found: Any, shape: Any) -> Any:
    if wrong := misfit(shape, found):
        said = f"openviking answered something unexpected ({wrong}); is its version one this provider knows?"
        raise ProviderError(said, kind="malformed")
    return found


def _session(session: str) -> str:
    return f"sessions/{quote(session, safe='')}"


CATEGORIES = {
    "preference": "preferences",
    "entity": "entities",
    "event": "events",
    "case": "cases",
    "pattern": "patterns",
}
LEVELS = ("abstract", "overview", "full")


_LONGEST_OUTPUT = 4_000  # characters of a tool's result that are stored
# How the results of failed tools begin; OpenViking wants to know which calls failed.
_ERRORS = ('{"error"', '{"success": false')


def as_messages(turn: Turn, *, agent: str, own: Sequence[str]) -> list[dict[str, Any]]:
    """A finished turn in OpenViking's format, with its tool calls.

    Leaves out tools that recall (`own`), so that their results are not stored again.
    """
    results = {str(each.get("tool_call_id")): each for each in turn.steps if each.get("role") == "tool"}
    parts = []
    for call in (call for step in turn.steps for call in step.get("tool_calls") or ()):
        function, result = call.get("function") or {}, results.get(str(call.get("id")))
        name = str(function.get("name") or "")
        if name not in own and not (result is not None and result.get("content") == RECALLED):
            parts.append(_tool_part(str(call.get("id") or ""), name, function.get("arguments"), result))
    turn_id = {"turn_id": turn.key} if turn.key else {}
    return [
        {"role": "user", "parts": [{"type": "text", "text": turn.user}], **turn_id},
        {
            "role": "assistant",
            "parts": [*parts, {"type": "text", "text": turn.assistant}],
            "peer_id": agent,
            **turn_id,
        },
    ]


def _tool_part(call_id: str, name: str, arguments: Any, result: Mapping[str, Any] | None) -> dict[str, Any]:
    part = {"type": "tool", "tool_id": call_id, "tool_name": name, "tool_input": _as_object(arguments)}
    if result is None:
        return {**part, "tool_status": "pending"}
    content = result.get("content")
    if isinstance(content, list):
        content = "\n".join(str(each.get("text") or "") for each in content if isinstance(each, dict))
    output = clean(str(content or ""))
    status = "error" if output.startswith(_ERRORS) else "completed"
    return {**part, "tool_output": output[:_LONGEST_OUTPUT], "tool_status": status}


def _as_object(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {}


_STATE = "openviking_sessions"  # sessions with something uncommitted, and running commits
_ENDED = ("completed", "failed", "cancelled")
_COMMIT_SECONDS, _LOOK_SECONDS = 60.0, 0.5  # to wait for running commits, and between two looks
# The folders for the entries of curated memory.
_MIRRORED = {"user": "preferences", "memory": "patterns"}
_CAPS = {"abstract": 1_200, "overview": 4_000, "full": 8_000}  # characters that a model reads
_CAP_TOGETHER = 2_500  # of each of several addresses
_MOST_READ, _MOST_SHOWN = 3, 50
_SHORTEST_QUERY = 5
_BLURBS = (".abstract.md", ".overview.md")  # summaries that the server writes into each folder
_RESOURCES = ("http://", "https://", "git@", "ssh://")


class OpenVikingProvider(ServiceProvider[OpenViking]):
    """External memory in OpenViking; which sessions still need a commit is kept in the home."""

    name = "openviking"

    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        super().__init__()
        self._sent = SendOnce()
        self._others_finished = False

    def _configured(self, hermes_home: str) -> dict[str, Any]:
        values = configured(self.name, hermes_home, self.FIELDS)
        if values["use_ovcli_config"]:
            file = read_elsewhere(str(values["ovcli_config_path"]))
            names = {"endpoint": "url", "api_key": "api_key", "account": "account", "user": "user", "agent": "agent"}
            values |= {key: file[other] for key, other in names.items() if file.get(other)}
        return values

    def _connect(self) -> None:
        config = self._config
        key = str(config["api_key"] or "")
        # Where one process serves many people, each is a user of their own.
        user = distinct_id(self._person) if self._person else str(config["user"] or ("" if key else "default"))
        self._api = OpenViking(
            str(config["endpoint"]),
            key,
            account=str(config["account"]),
            user=user,
            agent=str(config["agent"]),
            recall_seconds=float(config["recall_timeout_seconds"]),
        )
        self._others_finished = False

    # --- hooks ------------------------------------------------------------------------------------------------------

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        query = question(query)
        if len(query) < _SHORTEST_QUERY:
            return ""
        self._user()
        longest = count_of(self._config, "recall_max_injected_chars", 4000, 50_000)
        lines = (f"[{_category(str(hit['uri']))}] {hit['text']} ({hit['uri']})" for hit in self._hits(query))
        return bullets("## OpenViking Memory", lines)[:longest]

    def _store_turn(self, turn: Turn) -> None:
        self._surface_failed_commits()
        self._finish_others(turn.session)
        api, name = self._opened(), self._viking_session(turn.session)
        self._user()
        # Note the session before sending, so that after a kill the next start still commits it.
        save_config(_STATE, self._home, {f"session {turn.session}": True})
        messages = as_messages(turn, agent=str(self._config["agent"]), own=[str(each["name"]) for each in self.TOOLS])
        self._sent.send(
            turn.key, lambda: api.add_messages(name, messages), arrived=lambda: api.has_turn(name, turn.key)
        )

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        self._surface_failed_commits()
        self._commit(session_id or self._session_id)

    def _keep(self, entry: Entry) -> None:
        self._opened().write(self._entry_address(entry), entry.text)

    def _withdraw(self, entry: Entry) -> None:
        self._opened().delete(self._entry_address(entry))

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        super().on_session_switch(new_session_id, **kwargs)
        self._others_finished = False

    def check_connection(self) -> str:
        user = self._user()
        return f"OpenViking answers, {self._opened().count():,} memories of {user}"

    def _forget(self) -> str:
        api, user = self._opened(), self._user()
        busy = self._commits_under_way(time.monotonic() + _COMMIT_SECONDS)
        sessions = api.sessions()
        for session in sessions:
            api.drop_session(session)
        root = f"viking://user/{user}"
        gone = sum(api.delete(each, below=True) for each in self._held_below(root))
        left = self._held_below(root)
        still = f"; still there: {', '.join(left)}" if left else ""
        still += (
            f"; the server is still working on {busy} commits and may write more, so try again later" if busy else ""
        )
        return (
            f"deleted {len(sessions):,} sessions and {gone:,} files and folders of {user}{still}; pages that were "
            "added as resources belong to everybody and stay"
        )

    def _commits_under_way(self, until: float) -> int:
        """Waits for running commits, which would write after the deletion; returns how many still run."""
        while busy := sum(self._opened().outcome(task)[0] not in _ENDED for task, _ in self._commits()):
            if time.monotonic() >= until:
                break
            time.sleep(_LOOK_SECONDS)
        return busy

    def _held_below(self, root: str) -> list[str]:
        """The person's files and folders, except the folder of sessions, which cannot be deleted."""
        return [each for each in self._opened().below(root) if each.rstrip("/") != f"{root}/sessions"]

    # --- tools ------------------------------------------------------------------------------------------------------

    def viking_search(self, args: dict[str, Any]) -> dict[str, Any]:
        """Finds memories, resources and skills; the mode `deep` has the server's model interpret the query."""
        query = text_of(args, "query")
        scope = self._allowed(str(args["scope"])) if args.get("scope") else ""
        session = self._viking_session(self._session_id) if args.get("mode") == "deep" else ""
        limit = count_of(args, "limit", 10, 100)
        found = self._opened().find(query, limit=limit * 4, scope=scope, session=session)
        hits = [
            {"uri": hit["uri"], "type": kind, "score": hit.get("score"), "abstract": hit.get("abstract") or ""}
            for kind, hits in (("memory", "memories"), ("resource", "resources"), ("skill", "skills"))
            for hit in found.get(hits) or ()
            if not str(hit["uri"]).endswith(_BLURBS) and self._is_mine(str(hit["uri"]))
        ]
        hits.sort(key=lambda hit: -float(hit["score"] or 0))
        return {"results": hits[:limit], "total": len(hits)}

    def viking_read(self, args: dict[str, Any]) -> dict[str, Any]:
        """Reads one address or several, as abstract, overview or in full."""
        level = one_of(args, "level", LEVELS, "overview")
        uris = [str(uri) for uri in args.get("uris") or ()] if isinstance(args.get("uris"), list) else []
        if not uris:
            return self._one(text_of(args, "uri"), level, _CAPS[level])
        cap = min(_CAPS[level], _CAP_TOGETHER)
        results = [self._one(uri, level, cap) for uri in uris[:_MOST_READ]]
        counts = {"requested": len(uris), "returned": len(results), "truncated": len(uris) > _MOST_READ}
        return {"level": level, "results": results, **counts}

    def viking_browse(self, args: dict[str, Any]) -> dict[str, Any]:
        """Lists what is in a folder of the person's tree."""
        actions = {"tree": "tree", "list": "ls", "stat": "stat"}
        action = one_of(args, "action", actions)
        path = self._allowed(str(args.get("path") or f"viking://user/{self._user()}"))
        found = self._opened().browse(actions[action], path)
        entries = found if isinstance(found, list) else found.get("entries") or [found]
        return {"path": path, "entries": [_entry(each) for each in entries[:_MOST_SHOWN] if isinstance(each, dict)]}

    def viking_remember(self, args: dict[str, Any]) -> dict[str, Any]:
        """Stores a memory in the folder of its category; the same text is stored only once."""
        content, category = clean(text_of(args, "content")), one_of(args, "category", CATEGORIES, "preference")
        uri = self._address(CATEGORIES[category], content)
        self._opened().write(uri, content)
        return {"status": "stored", "message": f"kept as {uri}", "uri": uri}

    def viking_forget(self, args: dict[str, Any]) -> dict[str, Any]:
        """Deletes a memory of this person; refuses other addresses."""
        uri = self._allowed(text_of(args, "uri"))
        if not uri.startswith(self._memories()) or not uri.endswith(".md") or uri.endswith(_BLURBS):
            raise ProviderError(f"{uri} is not a memory of yours; viking_search shows their addresses", kind="refused")
        if not self._opened().delete(uri):
            raise ProviderError(f"there is no memory {uri}; viking_search shows what is there", kind="missing")
        return {"status": "deleted", "uri": uri}

    def viking_add_resource(self, args: dict[str, Any]) -> dict[str, Any]:
        """Adds a web page or a repository; refuses local files."""
        url = text_of(args, "url")
        if not url.startswith(_RESOURCES):
            raise ProviderError("only addresses (https, git) can be added, not local files", kind="refused")
        if args.get("to") and args.get("parent"):
            raise ProviderError("give to or parent, not both", kind="refused")
        body: dict[str, Any] = {"path": url, "wait": bool(args.get("wait"))}
        body |= {key: str(args[key]) for key in ("reason", "to", "parent", "instruction") if args.get(key)}
        found = self._opened().add_resource(body, min(max(float(args.get("timeout") or 30), 1.0), 300.0))
        root = str(found.get("root_uri") or found.get("uri") or "")
        return {"status": "added", "root_uri": root, "message": "it can be searched once the server has read it"}

    # --- how: recall ------------------------------------------------------------------------------------------------

    def _hits(self, query: str) -> list[dict[str, Any]]:
        api, most = self._opened(), count_of(self._config, "recall_limit", 6, 100)
        # More than needed, because summaries of folders and other people's hits are left out below.
        scope = "" if self._config["recall_resources"] else self._memories()
        found = api.find(query, limit=max(4 * most, 20), scope=scope, hurry=True)
        kinds = ("memories", "resources") if self._config["recall_resources"] else ("memories",)
        hits = [hit for kind in kinds for hit in found.get(kind) or () if self._is_worth(hit)]
        hits = sorted(hits, key=lambda hit: -float(hit.get("score") or 0))[:most]
        whole = 0 if self._config["recall_prefer_abstract"] else int(self._config["recall_full_read_limit"])
        cap = _CAPS["abstract"]
        texts = [
            api.read(str(hit["uri"]), "read", hurry=True)[:cap] if place < whole else str(hit.get("abstract") or "")
            for place, hit in enumerate(hits)
        ]
        return [{**hit, "text": text} for hit, text in zip(hits, texts, strict=True) if text.strip()]

    def _is_worth(self, hit: dict[str, Any]) -> bool:
        """Whether this is a memory of this person that fits well enough, and not the server's summary of a folder."""
        uri, least = str(hit["uri"]), float(self._config["recall_score_threshold"])
        if uri.endswith(_BLURBS) or not uri.endswith(".md") or float(hit.get("score") or 0) < least:
            return False
        return uri.startswith(self._memories()) or (bool(self._config["recall_resources"]) and self._is_mine(uri))

    def _memories(self) -> str:
        return f"viking://user/{self._user()}/memories/"

    def _is_mine(self, uri: str) -> bool:
        """Whether an address is in our user's tree: a server without keys shows everybody's."""
        whose = uri.removeprefix("viking://user/").split("/", 1)[0]
        return not uri.startswith("viking://user") or whose == self._user()

    def _allowed(self, uri: str) -> str:
        if not uri.startswith("viking://") or ".." in uri or not self._is_mine(uri):
            raise ProviderError(f"{uri} is not an address of yours; viking_search shows them", kind="refused")
        return uri

    def _one(self, uri: str, level: str, cap: int) -> dict[str, Any]:
        api, uri = self._opened(), self._allowed(uri)
        # A file has no summary: the server would return that of its folder.
        whole = level == "full" or not api.is_folder(uri)
        text = api.read(uri, "read" if whole else level)
        fallback = {"fallback": "full"} if whole and level != "full" else {}
        return {"uri": uri, "resolved_uri": uri, "level": level, "content": text[:cap], **fallback}

    # --- how: storing -----------------------------------------------------------------------------------------------

    def _commit(self, session: str) -> None:
        if not read_config(_STATE, self._home).get(f"session {session}"):
            return
        task = self._opened().commit(self._viking_session(session))
        save_config(_STATE, self._home, {f"session {session}": None, **({f"task {task}": session} if task else {})})

    def _finish_others(self, session: str) -> None:
        """Commits sessions that never ended, such as those of a killed program, once after each start or switch."""
        if self._others_finished:
            return
        for name in read_config(_STATE, self._home):
            kind, _, other = name.partition(" ")
            if kind == "session" and other != session:
                self._commit(other)
        self._others_finished = True

    def _surface_failed_commits(self) -> None:
        """Raises if a commit failed on the server, which processes it after it has answered."""
        failed = []
        for task, session in self._commits():
            state, why = self._opened().outcome(task)
            if state == "failed":  # commit it again with the next turn
                failed.append(why or "it gave no reason")
                save_config(_STATE, self._home, {f"task {task}": None, f"session {session}": True})
            elif state in _ENDED:
                save_config(_STATE, self._home, {f"task {task}": None})
        if failed:
            said = f"openviking could not make memories of a session: {failed[0][:300]} (see the server's log)"
            raise ProviderError(said, kind="busy")

    def _commits(self) -> list[tuple[str, str]]:
        """The tasks that were running when we last looked, each with its session."""
        known = read_config(_STATE, self._home).items()
        return [(name.removeprefix("task "), str(session)) for name, session in known if name.startswith("task ")]

    def _address(self, category: str, content: str) -> str:
        return f"{self._memories()}{category}/mem_{digest(content, 12)}.md"

    def _entry_address(self, entry: Entry) -> str:
        return self._address(_MIRRORED.get(entry.target, "patterns"), entry.text)

    def _user(self) -> str:
        user = self._opened().user()
        if self._person and user != distinct_id(self._person):
            raise ProviderError(
                f"openviking identifies everybody as {user}, so people cannot be kept apart: give Hermes a root key, "
                "or run the server in trusted mode",
                kind="absent",
            )
        return user

    def _viking_session(self, session: str) -> str:
        return distinct_id(session)


def _category(uri: str) -> str:
    below = uri.partition("/memories/")[2]
    return below.split("/", 1)[0].removesuffix(".md") if below else "resource"


def _entry(found: dict[str, Any]) -> dict[str, Any]:
    uri = str(found.get("uri") or "")
    name = str(found.get("name") or uri.rstrip("/").rsplit("/", 1)[-1])
    kind = "folder" if found.get("isDir") else "file"
    return {"name": name, "uri": uri, "type": kind, "abstract": str(found.get("abstract") or "")}
