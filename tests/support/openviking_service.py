"""OpenViking's wire on loopback, as version 0.5 speaks it: a commit makes a memory of what each user message says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from wire_server import KEY, WireService, Wrong, fits, shared_words

if TYPE_CHECKING:
    from wire_server import Asked

_TOOL = {"type": str, "tool_id": str, "tool_name": str, "tool_input": dict, "tool_status": str}
_FOLDER = "Stores what the person said about parrots and everything else."


class OpenVikingService(WireService):
    """It trusts the headers and, as the real one does then, finds everybody's memories unless a scope is named."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        self.sessions: dict[str, list[dict[str, Any]]] = {}
        self.committed: list[str] = []
        self.tasks: dict[str, dict[str, Any]] = {}
        self.commits_fail = ""

    def answer(self, asked: Asked) -> tuple[int, Any]:
        sent = asked.headers
        if (sent.get("x-api-key"), sent.get("authorization")) != (KEY, f"Bearer {KEY}"):
            raise Wrong("there is no key")
        if sent.get("x-openviking-actor-peer") != "hermes":
            raise Wrong("nobody says which assistant asks")
        user = sent.get("x-openviking-user", "owner")
        status, result = self._route(asked, user)
        if status >= 400:
            return status, {"status": "error", "error": {"code": "NOT_FOUND", "message": result}}
        return status, {"status": "ok", "result": result, "error": None, "telemetry": None}

    def _route(self, asked: Asked, user: str) -> tuple[int, Any]:
        session = re.fullmatch("/api/v1/sessions/([^/]+)(?:/([a-z/]+))?", asked.path)
        if session:
            return self._session(asked, f"{user}/{unquote(session[1])}", session[2] or "")
        match (asked.method, asked.path):
            case ("GET", "/api/v1/system/status"):
                return 200, {"initialized": True, "user": user}
            case ("POST", "/api/v1/search/find" | "/api/v1/search/search"):
                return self._search(asked)
            case ("POST", "/api/v1/content/write"):
                body = fits(asked.body, {"uri": str, "content": str, "mode": str, "wait": bool})
                if not body["uri"].startswith(f"viking://user/{user}/memories/"):
                    raise Wrong(f"{body['uri']} would be no memory of {user}")
                self.files[body["uri"]] = body["content"]
                return 200, {"uri": body["uri"], "mode": "create"}
            case ("POST", "/api/v1/resources"):
                fits(asked.body, {"path": str, "wait": bool}, dict.fromkeys(("reason", "to", "instruction"), str))
                return 200, {"root_uri": "viking://resources/page"}
            case ("GET", "/api/v1/sessions"):
                mine = [name.split("/", 1)[1] for name in self.sessions if name.startswith(f"{user}/")]
                return 200, [{"session_id": name, "uri": f"viking://user/{user}/sessions/{name}"} for name in mine]
            case ("DELETE", "/api/v1/fs"):
                return self._delete(asked.query, user)
        return self._look(asked)

    def _delete(self, query: dict[str, str], user: str) -> tuple[int, Any]:
        uri = query["uri"]
        if uri == f"viking://user/{user}":
            return 403, "the folder of a user cannot be removed"
        below = query["recursive"] == "true"
        gone = [each for each in self.files if each == uri or (below and each.startswith(f"{uri}/"))]
        for each in gone:
            del self.files[each]
        return 200, {"uri": uri, "estimated_deleted_count": len(gone)}

    def _look(self, asked: Asked) -> tuple[int, Any]:
        task = re.fullmatch("/api/v1/tasks/(.+)", asked.path)
        if task:
            return (200, self.tasks[task[1]]) if task[1] in self.tasks else (404, "no such task")
        if (asked.method, asked.path) == ("GET", "/api/v1/stats/memories"):
            return 200, {"total_memories": len(self.files), "by_category": {}}
        uri = asked.query["uri"]
        match (asked.method, asked.path.removeprefix("/api/v1/")):
            case ("GET", "content/abstract" | "content/overview"):
                return 200, f"{asked.path.rsplit('/', 1)[1]} of a folder"
            case ("GET", "content/read"):
                return (200, self.files[uri]) if uri in self.files else (404, "no such file")
            case ("GET", "fs/stat"):
                return 200, {"uri": uri, "name": uri.rsplit("/", 1)[1], "isDir": uri not in self.files}
            case ("GET", "fs/ls") if uri.count("/") == 3:  # a user, who has folders
                inside = {each.removeprefix(f"{uri}/").split("/")[0] for each in self.files if each.startswith(uri)}
                return 200, [{"uri": f"{uri}/{each}", "isDir": True} for each in sorted({*inside, "sessions"})]
            case ("GET", "fs/ls" | "fs/tree"):
                below = [each for each in self.files if each.startswith(uri)]
                return 200, [{"uri": each, "isDir": False, "abstract": self.files[each]} for each in below]
        raise Wrong("there is no such call")

    def _session(self, asked: Asked, name: str, part: str) -> tuple[int, Any]:
        match (asked.method, part):
            case ("DELETE", ""):
                return (404, "no such session") if self.sessions.pop(name, None) is None else (200, {})
            case ("POST", "messages/batch"):
                found = fits(asked.body, {"messages": list})["messages"]
                for message in found:
                    fits(message, {"role": str, "parts": list}, {"peer_id": str, "turn_id": str})
                    for each in message["parts"]:
                        fits(
                            each,
                            *(
                                ({"type": str, "text": str},)
                                if each["type"] == "text"
                                else (_TOOL, {"tool_output": str})
                            ),
                        )
                self.sessions.setdefault(name, []).extend(found)
                return 200, {"session_id": name, "added": len(found)}
            case ("GET", "context"):
                if name not in self.sessions:
                    return 404, "no such session"
                return 200, {"messages": self.sessions[name], "latest_archive_overview": ""}
            case ("POST", "commit"):
                fits(asked.body, {"keep_recent_count": int})
                return 200, {"session_id": name, "task_id": self._commit(name)}
        raise Wrong("there is no such call")

    def _commit(self, name: str) -> str | None:
        messages, self.sessions[name] = self.sessions.get(name, []), []
        if not messages:
            return None
        self.committed.append(name)
        task, user = f"task-{len(self.tasks)}", name.split("/", maxsplit=1)[0]
        self.tasks[task] = {"task_id": task, "status": "failed" if self.commits_fail else "completed"}
        self.tasks[task] |= {"error": self.commits_fail} if self.commits_fail else {}
        said = [each["parts"][0]["text"] for each in messages if each["role"] == "user"]
        if not self.commits_fail:
            place = f"viking://user/{user}/memories/events/e"
            self.files |= {f"{place}{len(self.files)}-{number}.md": text for number, text in enumerate(said)}
        return task

    def _search(self, asked: Asked) -> tuple[int, Any]:
        wanted = {"query": str, "limit": int, "score_threshold": (int, float)}
        body = fits(asked.body, wanted, {"target_uri": str, "session_id": str})
        memories = [{"uri": uri, "score": 0.6, "abstract": text, "level": 2} for uri, text in self._found(body)]
        blurb = {"uri": "viking://user/owner/memories/.overview.md", "score": 0.9, "abstract": _FOLDER, "level": 1}
        resource = {"uri": "viking://resources/.abstract.md", "score": 0.9, "abstract": _FOLDER, "level": 0}
        return 200, {"memories": [blurb, *memories], "resources": [resource], "skills": []}

    def _found(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        scope = body.get("target_uri", "")
        return [
            (uri, text)
            for uri, text in self.files.items()
            if uri.startswith(scope) and shared_words(text, body["query"])
        ]
