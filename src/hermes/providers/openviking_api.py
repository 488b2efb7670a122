"""OpenViking's HTTP API: sessions that are committed, a tree of files in short and long forms, and search over it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hermes.providers.remote import Remote, misfit, unless_missing
from hermes.vocabulary.errors import ProviderError

_SLOW = 30.0
_MEMORIES = {"memories?": [{"uri": str}], "resources?": [{"uri": str}], "skills?": [{"uri": str}]}
_ENTRIES = {"entries": [{"uri": str, "text": str}]}
_BATCH = 100


class OpenViking:
    def __init__(self, endpoint: str, key: str, *, account: str, user: str, agent: str, recall_seconds: float) -> None:
        headers = {"X-OpenViking-Actor-Peer": agent}
        headers |= {"X-API-Key": key, "Authorization": f"Bearer {key}"} if key else {}
        # A server that trusts us is told who asks; one that gives out keys knows it from the key.
        headers |= {"X-OpenViking-Account": account, "X-OpenViking-User": user} if user else {}
        self._remote = Remote("openviking", endpoint, headers=headers, secrets=[key], timeout=_SLOW)
        self._hurried = self._remote.hurried(recall_seconds)
        self._user = ""

    def user(self) -> str:
        """Whom the server takes us for."""
        if not self._user:
            found = self._result(self._remote.get("/api/v1/system/status"), {"user": str})
            self._user = str(found["user"])
        return self._user

    def count(self) -> int:
        found = self._result(self._remote.get("/api/v1/stats/memories"), {"total_memories": int})
        return int(found["total_memories"])

    # --- sessions -----------------------------------------------------------------------------------------------------

    def add_messages(self, session: str, messages: list[dict[str, Any]]) -> None:
        for start in range(0, len(messages), _BATCH):
            body = {"messages": messages[start : start + _BATCH]}
            self._result(self._remote.post(f"{_session(session)}/messages/batch", body), {"session_id": str})

    def has_turn(self, session: str, turn_id: str) -> bool:
        """Whether messages of a turn have arrived and are not committed yet."""
        nothing: dict[str, Any] = {"messages": []}
        answer = unless_missing(lambda: self._remote.get(f"{_session(session)}/context"), nothing)
        found = self._result(answer, {"messages": [dict]})
        return any(message.get("turn_id") == turn_id for message in found["messages"])

    def commit(self, session: str) -> str:
        """Has the server extract what is new in a session; the id of the task, empty when there was nothing."""
        answer = self._remote.post(f"{_session(session)}/commit", {"keep_recent_count": 0}, repeatable=True)
        return str(self._result(answer, {"session_id": str}).get("task_id") or "")

    def sessions(self) -> list[str]:
        found = self._result(self._remote.get("/api/v1/sessions"), [{"session_id": str}])
        return [str(each["session_id"]) for each in found]

    def drop_session(self, session: str) -> None:
        unless_missing(lambda: self._remote.delete(_session(session)), None)

    def outcome(self, task: str) -> tuple[str, str]:
        """How far a task is (pending, running, completed, failed) and what went wrong."""
        forgotten = {"result": {"status": "completed"}}  # the server keeps tasks for a while
        answer = unless_missing(lambda: self._remote.get(f"/api/v1/tasks/{quote(task, safe='')}"), forgotten)
        found = self._result(answer, {"status": str})
        return str(found["status"]), str(found.get("error") or "")

    # --- recall -------------------------------------------------------------------------------------------------------

    def context(self, query: str, session: str, max_tokens: int, *, limit: int, scope: str) -> list[dict[str, Any]]:
        """What fits a query within a budget; a server that cannot do this refuses or answers in another form.

        No `purpose` is named: with one, the server leaves out kinds of memories that it has no share for.
        """
        wanted = {"mode": "context", "max_tokens": max_tokens, "query_expansion": "off", "limit": limit}
        where = {"target_uri": scope} if scope else {}
        body = {"query": query, "session_id": session, **wanted, **where}
        answer = self._hurried.post("/api/v1/search/search", body, repeatable=True)
        found = self._result(answer, dict)
        if "entries" not in found and not misfit(_MEMORIES, found) and found.keys() & {"memories", "resources"}:
            raise ProviderError("openviking has no budgeted search", kind="refused", status=422)
        return list(self._result(answer, _ENTRIES)["entries"])

    def find(
        self, query: str, *, limit: int, scope: str = "", session: str = "", hurry: bool = False
    ) -> dict[str, Any]:
        """Hits by kind; with a session, the server first thinks about what is meant."""
        body: dict[str, Any] = {"query": query, "limit": limit, "score_threshold": 0}
        body |= {"target_uri": scope} if scope else {}
        body |= {"session_id": session} if session else {}
        path = "/api/v1/search/search" if session else "/api/v1/search/find"
        answer = (self._hurried if hurry else self._remote).post(path, body, repeatable=True)
        found: dict[str, Any] = self._result(answer, _MEMORIES)
        if not found.keys() & {"memories", "resources", "skills"}:
            raise ProviderError("openviking answered a search without results", kind="malformed")
        return found

    # --- files --------------------------------------------------------------------------------------------------------

    def read(self, uri: str, level: str, *, hurry: bool = False) -> str:
        """`level` is abstract, overview or read (everything)."""
        remote = self._hurried if hurry else self._remote
        return str(self._result(remote.get(f"/api/v1/content/{level}", params={"uri": uri}), str))

    def is_folder(self, uri: str) -> bool:
        found = self._result(self._remote.get("/api/v1/fs/stat", params={"uri": uri}), dict)
        return bool(found.get("isDir"))

    def below(self, uri: str) -> list[str]:
        """The folders and files right below a folder; none where it does not exist."""
        nothing: dict[str, Any] = {"result": []}
        answer = unless_missing(lambda: self._remote.get("/api/v1/fs/ls", params={"uri": uri}), nothing)
        return [str(each["uri"]) for each in self._result(answer, [{"uri": str}])]

    def browse(self, action: str, uri: str) -> Any:
        return self._result(self._remote.get(f"/api/v1/fs/{action}", params={"uri": uri}), (dict, list))

    def write(self, uri: str, content: str) -> None:
        """The same content under the same address again changes nothing."""
        body = {"uri": uri, "content": content, "mode": "create", "wait": True}
        try:
            self._result(self._remote.post("/api/v1/content/write", body, repeatable=True), {"uri": str})
        except ProviderError as error:
            if error.status != 409:  # noqa: PLR2004 - some versions say that it exists
                raise

    def delete(self, uri: str, *, below: bool = False) -> int:
        """How many files are gone; `below` is for a folder with all that is in it."""
        params = {"uri": uri, "recursive": str(below).lower()}
        nothing = {"uri": uri, "estimated_deleted_count": 0}
        answer = unless_missing(lambda: self._remote.delete("/api/v1/fs", params=params, expect=dict), nothing)
        return int(self._result(answer, {"uri": str}).get("estimated_deleted_count", 1))

    def add_resource(self, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        answer = self._remote.post("/api/v1/resources", body, timeout=seconds)
        found: dict[str, Any] = self._result(answer, dict)
        return found

    @staticmethod
    def _result(answer: Any, shape: Any) -> Any:
        """What is inside the envelope; some versions answer without one."""
        if isinstance(answer, dict) and answer.get("status") == "error":
            error = answer.get("error") or {}
            said = error.get("message") if isinstance(error, dict) else error
            raise ProviderError(f"openviking refused it: {said}", kind="refused")
        found = answer["result"] if isinstance(answer, dict) and "result" in answer else answer
        if wrong := misfit(shape, found):
            said = f"openviking answered something unexpected ({wrong}); is its version one this provider knows?"
            raise ProviderError(said, kind="malformed")
        return found


def _session(session: str) -> str:
    return f"/api/v1/sessions/{quote(session, safe='')}"
