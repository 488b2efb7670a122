"""Loopback servers that speak the wire formats of Discord, Slack and e-mail, and are as strict as the originals."""

from __future__ import annotations

import json
import re
import socketserver
import threading
import time
from collections import defaultdict, deque
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from websockets.sync.server import ServerConnection

PATIENCE = 30.0
TOKEN, APP_TOKEN = "loopback-bot-token", "xapp-loopback"
BOT = "900"
DISCORD_EPOCH = 1_420_070_400_000


@dataclass
class Said:
    """A message of the bot, with every text it ever had."""

    id: str
    chat: str
    fields: dict[str, Any]
    texts: list[str] = field(default_factory=list)
    buttons: dict[str, str] = field(default_factory=dict)  # labels, and what they give back

    @property
    def text(self) -> str:
        return self.texts[-1]


class ChatServer:
    """What the servers share: what people say, what the bot said, failures, and waiting for it."""

    platform = ""
    group = "G1"

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.said: list[Said] = []
        self.calls: list[tuple[str, Any]] = []
        self.failures: dict[str, deque[tuple[int, dict[str, Any]]]] = defaultdict(deque)
        self.dropped: list[str] = []  # calls that are carried out, and never answered
        self.problems: list[str] = []
        self.history: list[dict[str, Any]] = []
        self.url = self.socket_url = ""
        self.connections: list[ServerConnection] = []
        self.connects = 0
        self._number = 0

    def settings(self) -> str:
        return f"  {self.platform}:\n    enabled: true\n    api_url: {self.url}\n"

    def account(self, user: int) -> str:
        return str(user)

    def chat(self, user: int, *, group: bool = False) -> str:
        return self.group if group else f"1{user}"

    def next(self) -> int:
        self._number += 1
        return self._number

    def texts(self, chat: str) -> list[str]:
        with self.changed:
            return [each.text for each in self.said if each.chat == chat and each.text != "…"]

    def wait(self, holds: Callable[[], bool]) -> bool:
        with self.changed:
            return self.changed.wait_for(holds, PATIENCE)

    def wait_for_texts(self, chat: str, count: int) -> list[str]:
        assert self.wait(lambda: len(self.texts(chat)) >= count), f"{chat} has {self.texts(chat)}"
        return self.texts(chat)

    def fail(self, call: str, status: int, document: dict[str, Any]) -> None:
        self.failures[call].append((status, document))

    def find(self, number: str) -> Said | None:
        return next((each for each in self.said if each.id == number), None)

    def push(self, frame: dict[str, Any]) -> None:
        for connection in list(self.connections):
            try:
                connection.send(json.dumps(frame))
            except ConnectionClosed:
                continue

    def disconnect(self, code: int = 4000) -> None:
        """Every connection ends, as on any bad network."""
        for connection in list(self.connections):
            connection.close(code)

    def answer(self, verb: str, path: str, fields: dict[str, Any], headers: Any) -> tuple[int, dict[str, Any]]:
        raise NotImplementedError

    def converse(self, connection: ServerConnection) -> None:
        raise NotImplementedError

    def handled(self, verb: str, path: str, fields: dict[str, Any], headers: Any) -> tuple[int, dict[str, Any]]:
        with self.changed:
            name = self.name_of(verb, path)
            self.calls.append((name, fields))
            if self.failures[name]:
                self.changed.notify_all()
                return self.failures[name].popleft()
            done = self.answer(verb, path, fields, headers)
            self.changed.notify_all()
            if name in self.dropped:
                self.dropped.remove(name)
                return 0, {}
            return done

    def name_of(self, verb: str, path: str) -> str:
        return urlsplit(path).path.rpartition("/")[2] if self.platform == "slack" else f"{verb} {_shape(path)}"


def _shape(path: str) -> str:
    return re.sub(r"\d+", "N", urlsplit(path).path)


class DiscordServer(ChatServer):
    platform = "discord"
    group = "777"

    def __init__(self) -> None:
        super().__init__()
        self.sequence = 0
        self.replay: list[dict[str, Any]] = []
        self.nonces: dict[str, Said] = {}
        self.hellos: list[dict[str, Any]] = []

    def _id(self) -> str:
        """A number that holds its time, as Discord's do."""
        return str(((int(time.time() * 1000) - DISCORD_EPOCH) << 22) + self.next())

    def dispatch(self, kind: str, data: dict[str, Any]) -> None:
        with self.changed:
            self.sequence += 1
            frame = {"op": 0, "t": kind, "s": self.sequence, "d": data}
            self.replay.append(frame)
        self.push(frame)

    def say(self, user: int, text: str, *, group: bool = False, mention: bool = False, to: int = 0) -> None:
        author = {"id": str(user), "username": f"person{user}", "global_name": f"Person {user}"}
        mentions = [{"id": BOT, "username": "hermes"}] if mention else []
        message: dict[str, Any] = {
            "id": self._id(),
            "channel_id": self.chat(user, group=group),
            "author": author,
            "content": f"<@{BOT}> {text}" if mention else text,
            "mentions": mentions,
            "type": 19 if to else 0,
        }
        if group:
            message |= {"guild_id": "5", "member": {"nick": None}}
        if to:
            message["referenced_message"] = {"id": "1", "author": {"id": str(to)}}
        self.history.append(message)
        self.dispatch("MESSAGE_CREATE", message)

    def press(self, user: int, said: Said, label: str) -> None:
        data = {"custom_id": said.buttons[label], "component_type": 2}
        place = {"id": self._id(), "token": "press-token", "type": 3, "data": data, "channel_id": said.chat}
        person = {"id": str(user), "username": f"person{user}"}
        who: dict[str, Any] = {"member": {"user": person}} if said.chat == self.group else {"user": person}
        self.dispatch("INTERACTION_CREATE", {**place, **who, "message": {"id": said.id}})

    def converse(self, connection: ServerConnection) -> None:
        connection.send(json.dumps({"op": 10, "d": {"heartbeat_interval": 200}}))
        for raw in connection:
            frame = json.loads(raw)
            if frame["op"] == 1:
                connection.send(json.dumps({"op": 11}))
            elif frame["op"] in (2, 6):
                if frame["d"]["token"] != TOKEN:
                    return connection.close(4004)
                self.hellos.append(frame)
                self._welcome(connection, frame)
        return None

    def _welcome(self, connection: ServerConnection, frame: dict[str, Any]) -> None:
        with self.changed:
            if frame["op"] == 2:
                me = {"id": BOT, "username": "hermes", "bot": True}
                data = {"user": me, "session_id": "s1", "resume_gateway_url": self.socket_url}
                self.sequence += 1
                missed = [{"op": 0, "t": "READY", "s": self.sequence, "d": data}]
            else:
                missed = [each for each in self.replay if each["s"] > frame["d"]["seq"]]
                missed.append({"op": 0, "t": "RESUMED", "s": self.sequence, "d": {}})
            for each in missed:
                connection.send(json.dumps(each))
            self.connections.append(connection)
            self.connects += 1
            self.changed.notify_all()

    def answer(self, verb: str, path: str, fields: dict[str, Any], headers: Any) -> tuple[int, Any]:
        shape = _shape(path)
        if headers.get("authorization") != f"Bot {TOKEN}":
            return 401, {"message": "401: Unauthorized", "code": 0}
        if shape == "/gateway/bot":
            return 200, {"url": self.socket_url}
        numbers = re.findall(r"\d+", urlsplit(path).path)
        if (verb, shape) == ("GET", "/channels/N/messages"):
            after = int(parse_qs(urlsplit(path).query)["after"][0])
            found = [each for each in self.history if each["channel_id"] == numbers[0] and int(each["id"]) > after]
            return 200, [_as_listed(each) for each in reversed(found)]
        if (verb, shape) == ("POST", "/channels/N/messages"):
            self._check(fields)
            if fields.get("enforce_nonce") and fields["nonce"] in self.nonces:
                return 200, {"id": self.nonces[fields["nonce"]].id}
            said = Said(id=self._id(), chat=numbers[0], fields=fields, texts=[fields["content"]])
            self.said.append(said)
            self.nonces[fields.get("nonce", said.id)] = said
            return 200, {"id": said.id}
        if (verb, shape) == ("PATCH", "/channels/N/messages/N"):
            self._check(fields)
            edited = self.find(numbers[1])
            if edited is None:
                return 404, {"message": "Unknown Message", "code": 10008}
            edited.texts.append(fields["content"])
            keys = [key for row in fields.get("components", []) for key in row["components"]]
            edited.buttons = {key["label"]: key["custom_id"] for key in keys}
            return 200, {"id": edited.id}
        return (204, {}) if verb == "POST" else (404, {"message": "404: Not Found"})

    def _check(self, fields: dict[str, Any]) -> None:
        if not 0 < len(fields["content"].encode("utf-16-le")) // 2 <= 2000:
            self.problems.append("content has the wrong length")
        if fields.get("allowed_mentions", {}).get("parse") != []:
            self.problems.append("a model could call everybody")
        if len(fields.get("nonce", "")) > 25:
            self.problems.append("nonce is too long")


def _as_listed(message: dict[str, Any]) -> dict[str, Any]:
    """Messages that are listed do not say in which guild they are, only who of it wrote them."""
    return {name: value for name, value in message.items() if name not in ("guild_id", "member")}


class SlackServer(ChatServer):
    platform = "slack"
    group = "C1"

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: list[str] = []

    def account(self, user: int) -> str:
        return f"U{user}"

    def chat(self, user: int, *, group: bool = False) -> str:
        return self.group if group else f"D{user}"

    def _ts(self) -> str:
        return f"{time.time():.3f}{self.next():03d}"

    def say(self, user: int, text: str, *, group: bool = False, mention: bool = False, to: int = 0) -> None:
        words = (f"<@U{BOT}> " if mention else "") + (f"<@U{to}> " if to and str(to) != BOT else "") + text
        event = {
            "type": "message",
            "channel": self.chat(user, group=group),
            "channel_type": "channel" if group else "im",
            "user": f"U{user}",
            "text": words,
            "ts": self._ts(),
        }
        self.history.append(event)
        self._envelope("events_api", {"type": "event_callback", "event_id": f"E{self.next()}", "event": event})
        if mention:  # comes a second time, as itself
            again = {**event, "type": "app_mention"}
            del again["channel_type"]
            self._envelope("events_api", {"type": "event_callback", "event_id": f"E{self.next()}", "event": again})

    def press(self, user: int, said: Said, label: str) -> None:
        action = {"type": "button", "action_id": "memory_0", "value": said.buttons[label], "action_ts": self._ts()}
        payload = {"type": "block_actions", "user": {"id": f"U{user}"}, "channel": {"id": said.chat}}
        self._envelope("interactive", {**payload, "message": {"ts": said.id}, "actions": [action]})

    def _envelope(self, kind: str, payload: dict[str, Any]) -> None:
        self.push({"type": kind, "envelope_id": f"env-{self.next()}", "payload": payload})

    def converse(self, connection: ServerConnection) -> None:
        connection.send(json.dumps({"type": "hello", "num_connections": 1}))
        with self.changed:
            self.connections.append(connection)
            self.connects += 1
            self.changed.notify_all()
        for raw in connection:
            with self.changed:
                self.acknowledged.append(json.loads(raw)["envelope_id"])
                self.changed.notify_all()

    def answer(self, _verb: str, path: str, fields: dict[str, Any], headers: Any) -> tuple[int, dict[str, Any]]:
        method = urlsplit(path).path.rpartition("/")[2]
        wanted = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if headers.get("authorization") != f"Bearer {wanted}":
            return 200, {"ok": False, "error": "invalid_auth"}
        if method == "auth.test":
            return 200, {"ok": True, "user": "hermes", "user_id": f"U{BOT}", "bot_id": "B1"}
        if method == "apps.connections.open":
            return 200, {"ok": True, "url": self.socket_url}
        if method == "conversations.history":
            query = {name: given[0] for name, given in parse_qs(urlsplit(path).query).items()}
            found = [
                {name: value for name, value in each.items() if not name.startswith("channel")}
                for each in self.history
                if each["channel"] == query["channel"] and float(each["ts"]) > float(query["oldest"])
            ]
            return 200, {"ok": True, "messages": found[::-1]}
        if method == "chat.postMessage":
            said = Said(id=self._ts(), chat=fields["channel"], fields=fields, texts=[self._shown(fields)])
            self.said.append(said)
            return 200, {"ok": True, "ts": said.id}
        if method == "chat.update":
            edited = self.find(fields["ts"])
            if edited is None:
                return 200, {"ok": False, "error": "message_not_found"}
            edited.texts.append(self._shown(fields))
            keys = [key for block in fields.get("blocks", []) for key in block.get("elements", [])]
            edited.buttons = {key["text"]["text"]: key["value"] for key in keys}
            return 200, {"ok": True, "ts": edited.id}
        return 200, {"ok": False, "error": "unknown_method"}

    def _shown(self, fields: dict[str, Any]) -> str:
        text = str(fields["text"])
        if not 0 < len(text) <= 4000:
            self.problems.append("msg_too_long")
        if any(len(block["text"]["text"]) > 3000 for block in fields.get("blocks", []) if block["type"] == "section"):
            self.problems.append("a section is too long")
        if re.search(r"<!(?:channel|here|everyone)|<@", text):
            self.problems.append("a model could call everybody")
        return text


class MailServer(ChatServer):
    """An IMAP and an SMTP server; what people send arrives in the mailbox, what the bot sends is what it said."""

    platform = "email"
    address = "hermes@bot.example"

    def __init__(self) -> None:
        super().__init__()
        self.mailbox: list[bytes] = []
        self.imap = self.smtp = 0
        self.answers: list[EmailMessage] = []

    def settings(self) -> str:
        return (
            f"  email:\n    enabled: true\n    address: {self.address}\n    imap: imap://127.0.0.1:{self.imap}\n"
            f"    smtp: smtp://127.0.0.1:{self.smtp}\n    vouched_by: mx.bot.example\n    poll_seconds: 0.05\n"
        )

    def account(self, user: int) -> str:
        return f"p{user}@people.example"

    def chat(self, user: int, *, group: bool = False) -> str:
        return "friend@people.example" if group else self.account(user)

    def say(
        self, user: int, text: str, *, group: bool = False, mention: bool = False, fields: dict[str, str] | None = None
    ) -> None:
        message = EmailMessage()
        given = {
            "Authentication-Results": "mx.bot.example; dkim=pass; dmarc=pass header.from=people.example",
            "From": f"Person {user} <{self.account(user)}>",
            "To": f"friend@people.example, {self.address}" if group and mention else self.address,
            "Subject": "Re: hello",
            "Message-ID": f"<{self.next()}.{user}@people.example>",
            **(fields or {}),
        }
        if group and not mention:
            given |= {"To": "friend@people.example", "Cc": self.address}
        for name, field_text in given.items():
            message[name] = field_text
        message.set_content(text)
        with self.changed:
            self.mailbox.append(message.as_bytes())
            self.changed.notify_all()

    def deliver(self, raw: bytes) -> None:
        """Takes a mail of the bot; one that has come before is known by its Message-ID, as in any mailbox."""
        message = message_from_bytes(raw, policy=policy.default)
        with self.changed:
            self.calls.append(("mail", str(message["Message-ID"])))
            if self.find(str(message["Message-ID"])) is None:
                body = message.get_body(("plain",))
                text = str(body.get_content()).strip() if body else ""
                chat = ",".join(sorted(each.strip() for each in str(message["To"]).split(",")))
                self.said.append(Said(id=str(message["Message-ID"]), chat=chat, fields=dict(message), texts=[text]))
                self.answers.append(message)
            self.changed.notify_all()


class _Imap(socketserver.StreamRequestHandler):
    """As much of IMAP4rev1 as `imaplib` needs to read one folder."""

    def handle(self) -> None:
        mail: MailServer = self.server.mail  # type: ignore[attr-defined]
        self._say("* OK IMAP4rev1 ready")
        while line := self.rfile.readline().decode().strip():
            tag, command, *rest = line.split(" ", 2)
            arguments = rest[0] if rest else ""
            match command.upper():
                case "CAPABILITY":
                    self._say("* CAPABILITY IMAP4rev1")
                case "LOGIN" if f'"{TOKEN}"' not in arguments:
                    self._say(f"{tag} NO wrong password")
                    continue
                case "SELECT":
                    self._say(f"* {len(mail.mailbox)} EXISTS")
                    self._say("* OK [UIDVALIDITY 7] UIDs valid")
                case "UID" if arguments.upper().startswith("SEARCH ALL"):
                    self._say("* SEARCH " + " ".join(str(each + 1) for each in range(len(mail.mailbox))))
                case "UID" if arguments.upper().startswith("SEARCH UID"):
                    first = min(int(arguments.split()[2].partition(":")[0]), len(mail.mailbox))
                    found = range(first, len(mail.mailbox) + 1)  # the highest always fits
                    self._say("* SEARCH " + " ".join(str(each) for each in found if each))
                case "UID" if arguments.upper().startswith("FETCH"):
                    number = int(arguments.split()[1])
                    raw = mail.mailbox[number - 1]
                    self._say(f"* {number} FETCH (UID {number} BODY[]<0> {{{len(raw)}}}")
                    self.wfile.write(raw + b")\r\n")
                case "LOGOUT":
                    self._say("* BYE")
                    self._say(f"{tag} OK bye")
                    return
            self._say(f"{tag} OK done")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Smtp(socketserver.StreamRequestHandler):
    """As much of SMTP as `smtplib` needs to send."""

    def handle(self) -> None:
        mail: MailServer = self.server.mail  # type: ignore[attr-defined]
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            command = line.split()[0].upper()
            if mail.failures[command]:
                status, _ = mail.failures[command].popleft()
                self._say(f"{status} no")
            elif command == "DATA":
                self._say("354 go on")
                lines = []
                while (part := self.rfile.readline()) != b".\r\n":
                    lines.append(part.removeprefix(b".") if part.startswith(b"..") else part)
                mail.deliver(b"".join(lines))
                if "DATA" in mail.dropped:  # taken, and nobody was told
                    mail.dropped.remove("DATA")
                    return
                self._say("250 taken")
            elif command == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: Any) -> None:
        """A client that went away is no news."""


@contextmanager
def _serving(server: socketserver.BaseServer | Any) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join(5)


@contextmanager
def mail_server() -> Iterator[MailServer]:
    mail = MailServer()
    with ExitStack() as stack:
        for name, handler in (("imap", _Imap), ("smtp", _Smtp)):
            server = stack.enter_context(_Threads(("127.0.0.1", 0), handler))
            server.mail = mail  # type: ignore[attr-defined]
            setattr(mail, name, server.server_address[1])
            stack.enter_context(_serving(server))
        yield mail


@contextmanager
def chat_server(platform: str) -> Iterator[Any]:
    """The loopback server of a platform by its name."""
    if platform == "email":
        with mail_server() as mail:
            yield mail
        return
    server: ChatServer = DiscordServer() if platform == "discord" else SlackServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, document = server.handled(self.command, self.path, json.loads(body or b"{}"), self.headers)
            if not status:
                self.close_connection = True
                return
            data = b"" if status == 204 else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _handle  # noqa: N815 - as the library calls them

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    def connected(connection: ServerConnection) -> None:
        try:
            server.converse(connection)
        except ConnectionClosed:
            return
        finally:
            if connection in server.connections:
                server.connections.remove(connection)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http, serve(connected, "127.0.0.1", 0) as sockets:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        server.socket_url = f"ws://127.0.0.1:{sockets.socket.getsockname()[1]}"
        with _serving(http), _serving(sockets):
            yield server
            server.disconnect(1001)
