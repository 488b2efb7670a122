"""`byterover`: a tree of Markdown notes that the program `brv` keeps on this machine."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any, ClassVar

from hermes.providers.byterover_data import remove_history
from hermes.providers.byterover_process import Brv
from hermes.providers.byterover_tree import Tree
from hermes.providers.calling import home_of_the_caller
from hermes.providers.service import ServiceProvider, clean, distinct_id, question, text_of, tool
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.providers.service import Entry, Tool, Turn

_PLACES = ("~/.brv-cli/bin/brv", "/usr/local/bin/brv", "~/.npm-global/bin/brv")
_MISSING = (
    "the program brv is not there; install it with `npm install -g byterover-cli`, or say where it is with "
    "`hermes memory setup byterover`"
)
_RECALL_SECONDS, _QUERY_SECONDS, _CURATE_SECONDS = 2.6, 25.0, 60.0
_LOOK_SECONDS = 0.1
_SHORTEST_QUERY, _SHORTEST_ANSWER, _LONGEST_ANSWER = 10, 20, 8_000
_LONGEST_QUERY, _LONGEST_SIDE, _LONGEST_MESSAGE = 5_000, 2_000, 500
_LAST_MESSAGES, _SHOWN = 10, 50
_NOTHING = ("No matching knowledge found", "Context tree is empty")


class ByteRoverProvider(ServiceProvider[Brv]):
    name = "byterover"

    FIELDS: ClassVar[tuple[dict[str, Any], ...]] = (
        {"key": "command", "description": "Where brv is (empty: looked for)", "default": "", "env_var": "BRV_COMMAND"},
        {
            "key": "api_key",
            "description": "ByteRover key (only for its cloud)",
            "secret": True,
            "env_var": "BRV_API_KEY",
            "url": "https://app.byterover.dev/settings/keys",
        },
        {"key": "auto_curate", "description": "Have it take notes of every turn", "default": True},
        {"key": "auto_extract", "description": "Have it take notes before a compaction", "default": True},
        {
            "key": "curate_wait",
            "file_only": True,
            "description": "Seconds brv_curate waits for a note to appear",
            "default": 15.0,
        },
    )
    TOOLS: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("brv_query", "Asks the notes.", ["query"], query="string"),
        tool("brv_curate", "Has something noted.", ["content"], content="string"),
        tool("brv_status", "How ByteRover is, and which notes there are."),
        tool("brv_forget", "Deletes one note; brv_status lists them.", ["note"], note="string"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._tree = Tree("")
        self._before: dict[str, int] | None = None
        self._curated = self._empty = 0

    def is_available(self) -> bool:
        try:
            self._program(self._configured(home_of_the_caller()))
        except ProviderError as error:
            self.unavailable_because = str(error)
            return False
        return True

    def _connect(self) -> None:
        self.shutdown()
        command, key = self._program(self._config), str(self._config["api_key"] or "")
        # Where one process serves many people, each has a tree of their own.
        mine = f"-{distinct_id(self._person)}" if self._person else ""
        self._tree = Tree(os.path.join(self._home, f"byterover{mine}"))
        self._tree.prepare()
        self._api = Brv(command, self._tree.folder, {"BRV_API_KEY": key} if key else {}, key)
        self._api.start()

    def _program(self, config: Mapping[str, Any]) -> str:
        given = str(config["command"] or "")
        found = shutil.which(os.path.expanduser(given) if given else "brv")
        places = () if given else filter(os.path.exists, map(os.path.expanduser, _PLACES))
        found = found or next(iter(places), None)
        if found is None:
            raise ProviderError(_MISSING, kind="absent")
        return found

    def _handlers(self) -> dict[str, Tool]:
        return {
            "brv_query": self._query,
            "brv_curate": self._curate,
            "brv_status": self._status,
            "brv_forget": self._forget,
        }

    # --- hooks ------------------------------------------------------------------------------------------------------

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        del session_id
        query = question(query)
        if len(query) < _SHORTEST_QUERY or not self._tree.notes():
            return ""
        found = self._asked(query, _RECALL_SECONDS)
        return f"## ByteRover Memory\n{found}" if len(found) >= _SHORTEST_ANSWER else ""

    def _store_turn(self, turn: Turn) -> None:
        if self._config["auto_curate"]:
            said = (("User", turn.user), ("Assistant", turn.assistant))
            lines = [f"{who}: {text[:_LONGEST_SIDE]}" for who, text in said]
            self._note("\n".join([f"Conversation {turn.session}", *lines]))

    def _keep(self, entry: Entry) -> None:
        """Entries are notes of their own, written as files: no model is asked, and they can be taken back."""
        self._tree.keep(entry.target, entry.text)

    def _withdraw(self, entry: Entry) -> None:
        self._tree.withdraw(entry.target, entry.text)

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """Has noted what is about to leave the context; brv works on it in its own time."""
        said = [
            f"{message.get('role')}: {text[:_LONGEST_MESSAGE]}"
            for message in messages[-_LAST_MESSAGES:]
            if isinstance(message.get("content"), str) and (text := clean(message["content"]))
        ]
        if said and self._writes and self._config["auto_extract"]:
            self._note("\n".join([f"End of a part of the conversation {self._session_id}", *said]), _RECALL_SECONDS)
        return ""

    def check_connection(self) -> str:
        self._asked("What do you know about the person?", _QUERY_SECONDS)
        return f"brv answers, {len(self._tree.notes()):,} notes in {self._tree.folder}"

    def forget_person(self) -> str:
        if not self._person:
            return ""
        notes = len(self._tree.notes())
        self.shutdown()
        history = remove_history(self._tree.folder)
        self._tree.remove()
        kept = f" and brv's history of them in {history}" if history else ""
        return (
            f"deleted {notes:,} notes{kept}; a brv that is still at work on something may write more until "
            "`brv restart`, and what was pushed to ByteRover's cloud stays there"
        )

    def shutdown(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None

    # --- tools ------------------------------------------------------------------------------------------------------

    def _query(self, args: dict[str, Any]) -> dict[str, Any]:
        found = self._asked(text_of(args, "query")[:_LONGEST_QUERY], _QUERY_SECONDS)
        return {"result": found or "nothing is noted about this yet"}

    def _curate(self, args: dict[str, Any]) -> dict[str, Any]:
        before = self._tree.state()
        self._note(clean(text_of(args, "content")))
        end = time.monotonic() + float(self._config["curate_wait"])
        while (now := self._tree.state()) == before:
            if time.monotonic() >= end:
                return {
                    "result": "nothing was noted: brv took it, but no note has appeared or changed; its model may "
                    "still be at work, or may not be able to do it (brv_status shows the notes)",
                    "stored": False,
                }
            time.sleep(_LOOK_SECONDS)
        changed = [path for path, when in now.items() if before.get(path) != when]
        return {"result": "noted", "stored": True, "notes": sorted(map(os.path.basename, changed))}

    def _status(self, args: dict[str, Any]) -> dict[str, Any]:
        del args
        self._count_empty()
        notes = self._tree.notes()
        counts = {"curated": self._curated, "of_which_changed_nothing": self._empty}
        return {"status": self.check_connection(), **counts, "notes": notes[:_SHOWN], "total": len(notes)}

    def _forget(self, args: dict[str, Any]) -> dict[str, Any]:
        note = text_of(args, "note")
        self._tree.forget(note)
        return {"result": "forgotten", "note": note}

    # --- how --------------------------------------------------------------------------------------------------------

    def _asked(self, query: str, seconds: float) -> str:
        found = self._opened().call("brv-query", {"query": query, "cwd": self._tree.folder}, seconds)
        return "" if any(words in found for words in _NOTHING) else found[:_LONGEST_ANSWER]

    def _note(self, text: str, seconds: float = _CURATE_SECONDS) -> None:
        self._count_empty()
        self._before = self._tree.state()
        self._opened().call("brv-curate", {"context": text, "cwd": self._tree.folder}, seconds)
        self._curated += 1

    def _count_empty(self) -> None:
        """`brv` says that it succeeded also when it noted nothing, so the notes themselves are looked at."""
        if self._before is not None and self._curated:
            self._empty += self._before == self._tree.state()
            self._before = None
