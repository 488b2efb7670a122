"""A loopback server that speaks Telegram's Bot API: updates by polling or webhook, messages, edits, failures."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKEN = "123456:loopback-test-token"
BOT = {"id": 999, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
LIMIT = 4096
LARGEST_DATA = 64
PATIENCE = 30.0


@dataclass
class Sent:
    """A message the bot has sent, with every text it ever had."""

    id: int
    chat: int
    fields: dict[str, Any]
    texts: list[str] = field(default_factory=list)
    formatted: list[str] = field(default_factory=list)  # the same with their tags, as they were sent
    keyboard: list[list[dict[str, str]]] = field(default_factory=list)  # its buttons now

    @property
    def text(self) -> str:
        return self.texts[-1]


class BotApi:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.updates: deque[dict[str, Any]] = deque()
        self.sent: list[Sent] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.failures: dict[str, deque[tuple[int, dict[str, Any]]]] = defaultdict(deque)
        self.not_before: dict[str, float] = defaultdict(float)  # a method asked again earlier than `retry_after` fails
        self.dropped: list[str] = []  # methods whose next call is carried out, and never answered
        self.webhook: dict[str, Any] = {}
        self.problems: list[str] = []
        self.url = ""
        self.closed = False
        self._update = 1000
        self._message = 1

    # --- what people do ----------------------------------------------------------------------------------------------

    def say(self, user: int, text: str, *, chat: int | None = None, **more: Any) -> int:
        """A person writes to the bot, or into a group; returns the number of the update."""
        with self.changed:
            self._update += 1
            self._message += 1
            place = {"id": chat, "type": "supergroup", "title": "a group"} if chat else {"id": user, "type": "private"}
            sender = {"id": user, "is_bot": False, "first_name": f"Person {user}"}
            message = {"message_id": self._message, "from": sender, "chat": place, "date": 0, "text": text, **more}
            self.updates.append({"update_id": self._update, "message": message})
            self.changed.notify_all()
            return self._update

    def press(self, user: int, sent: Sent, label: str, *, chat: int | None = None) -> None:
        """A person presses a button of a message."""
        [data] = [key["callback_data"] for row in sent.keyboard for key in row if key["text"] == label]
        with self.changed:
            self._update += 1
            message = {"message_id": sent.id, "chat": {"id": chat or sent.chat, "type": "private"}, "text": sent.text}
            sender = {"id": user, "is_bot": False, "first_name": f"Person {user}"}
            query = {"id": str(self._update), "from": sender, "message": message, "data": data}
            self.updates.append({"update_id": self._update, "callback_query": query})
            self.changed.notify_all()

    def fail(self, method: str, code: int, description: str = "no", **parameters: Any) -> None:
        with self.changed:
            told = {"ok": False, "error_code": code, "description": description}
            self.failures[method].append((code, {**told, **({"parameters": parameters} if parameters else {})}))

    def push(self, update: dict[str, Any], *, secret: str | None = None) -> int:
        """Calls the webhook once, as Telegram does; returns the status."""
        given = self.webhook.get("secret_token", "") if secret is None else secret
        headers = {"X-Telegram-Bot-Api-Secret-Token": given}
        return httpx.post(self.webhook["url"], json=update, headers=headers, timeout=30, trust_env=False).status_code

    def push_all(self) -> None:
        """Calls the webhook with every update until it is taken, as long as the server lives."""
        while not self.closed:
            with self.changed:
                self.changed.wait_for(lambda: self.closed or bool(self.updates and self.webhook), 1)
                update = self.updates[0] if self.updates and self.webhook else None
            if update is None:
                continue
            try:
                taken = self.push(update) == 200
            except httpx.HTTPError:
                taken = False
            with self.changed:
                if taken:
                    self.updates.popleft()
                else:
                    self.changed.wait(0.05)

    # --- what tests ask ----------------------------------------------------------------------------------------------

    def texts(self, chat: int) -> list[str]:
        """What stands in a chat now, drafts left out."""
        with self.changed:
            return [each.text for each in self.sent if each.chat == chat and each.text != "…"]

    def wait(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        with self.changed:
            return self.changed.wait_for(holds, seconds)

    def wait_for_texts(self, chat: int, count: int) -> list[str]:
        assert self.wait(lambda: len(self.texts(chat)) >= count), f"chat {chat} has {self.texts(chat)}"
        return self.texts(chat)

    def count(self, method: str) -> int:
        with self.changed:
            return sum(name == method for name, _ in self.calls)

    # --- the API -----------------------------------------------------------------------------------------------------

    def answer(self, method: str, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.changed:
            self.calls.append((method, fields))
            self.changed.notify_all()
            if time.monotonic() < self.not_before[method]:
                return _error(429, "Too Many Requests: asked again too early")
            if self.failures[method]:
                code, told = self.failures[method].popleft()
                self.not_before[method] = time.monotonic() + told.get("parameters", {}).get("retry_after", 0)
                return code, told
            known = getattr(self, f"_{method}", None)
            if known is None:
                return _error(404, "Not Found: method not found")
            done: tuple[int, dict[str, Any]] = known(fields)
            self.changed.notify_all()
            if method in self.dropped:
                self.dropped.remove(method)
                return 0, {}
            return done

    def _getMe(self, _fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802 - the names of the Bot API
        return _ok(BOT)

    def _deleteWebhook(self, _fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802
        self.webhook = {}
        return _ok(True)

    def _setWebhook(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802
        self.webhook = fields
        return _ok(True)

    def _getUpdates(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802
        if self.webhook:
            return _error(409, "Conflict: can't use getUpdates method while webhook is active")
        offset = fields.get("offset", 0)
        while self.updates and self.updates[0]["update_id"] < offset:
            self.updates.popleft()  # only asking for the next ones acknowledges them
        self.changed.wait_for(lambda: bool(self.updates) or self.closed, min(fields.get("timeout", 0), 2))
        return _ok(list(self.updates)[:100])

    def _sendMessage(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802
        text, problem = _shown(fields)
        if problem:
            self.problems.append(problem)
            return _error(400, problem)
        self._message += 1
        sent = Sent(id=self._message, chat=fields["chat_id"], fields=fields, texts=[text], formatted=[fields["text"]])
        self.sent.append(sent)
        return _ok({"message_id": sent.id, "chat": {"id": sent.chat}, "text": text})

    def _editMessageText(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802
        found = [each for each in self.sent if (each.chat, each.id) == (fields["chat_id"], fields["message_id"])]
        text, problem = _shown(fields)
        if not found:
            return _error(400, "Bad Request: message to edit not found")
        if problem:
            self.problems.append(problem)
            return _error(400, problem)
        if (found[0].text, found[0].formatted[-1]) == (text, fields["text"]):
            return _error(400, "Bad Request: message is not modified: specified new message content is the same")
        found[0].texts.append(text)
        found[0].keyboard = fields.get("reply_markup", {}).get("inline_keyboard", [])
        for key in (key for row in found[0].keyboard for key in row):
            if len(key["callback_data"].encode()) > LARGEST_DATA:
                self.problems.append("Bad Request: BUTTON_DATA_INVALID")
        found[0].formatted.append(fields["text"])
        return _ok({"message_id": found[0].id, "text": text})

    def _answerCallbackQuery(self, _fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802
        return _ok(True)

    def _sendChatAction(self, _fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: N802
        return _ok(True)


def _ok(result: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"ok": True, "result": result}


def _error(code: int, description: str) -> tuple[int, dict[str, Any]]:
    return code, {"ok": False, "error_code": code, "description": description}


class _Entities(HTMLParser):
    """Reads the HTML that Telegram knows, and is as strict as Telegram."""

    KNOWN = frozenset(("a", "b", "blockquote", "code", "i", "pre", "s", "u"))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.problem = "", ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        del attrs
        if tag not in self.KNOWN:
            self.problem = f'Unsupported start tag "{tag}"'
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problem = f'Unmatched end tag "{tag}"'

    def handle_data(self, data: str) -> None:
        self.text += data

    def read(self, text: str) -> Self:
        self.feed(text)
        self.close()
        if self._open and not self.problem:
            self.problem = f'Can\'t find end tag corresponding to start tag "{self._open[-1]}"'
        return self


def _shown(fields: dict[str, Any]) -> tuple[str, str]:
    """What a person sees of a message, and why Telegram does not take it."""
    text = fields["text"]
    if fields.get("parse_mode") == "HTML":
        entities = _Entities().read(text)
        if entities.problem:
            return "", f"Bad Request: can't parse entities: {entities.problem}"
        text = entities.text
    return text.strip(), _problem(text.strip())


def _problem(text: str) -> str:
    if not text:
        return "Bad Request: message text is empty"
    too_long = len(text.encode("utf-16-le")) // 2 > LIMIT
    return "Bad Request: message is too long" if too_long else ""


@contextmanager
def bot_api() -> Iterator[BotApi]:
    api = BotApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            prefix, _, method = self.path.rpartition("/")
            status, document = (
                api.answer(method, json.loads(body or b"{}"))
                if prefix == f"/bot{TOKEN}"
                else _error(401, "Unauthorized")
            )
            data = json.dumps(document).encode()
            if not status:
                self.close_connection = True
                return
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # whoever asked was killed

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A client that was killed is no news."""

    server = Server(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        with api.changed:
            api.closed = True
            api.changed.notify_all()
        server.shutdown()
        thread.join()
        server.server_close()
