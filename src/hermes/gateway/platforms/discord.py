"""Discord: receives over a WebSocket and answers over the HTTP API, so no public address is needed.

After a lost connection the session is resumed, and Discord sends what came meanwhile. When it cannot be resumed, or the
process is new, the latest messages of chats that people use are read over HTTP; the ledger knows which are new.
"""

from __future__ import annotations

import hashlib
import re
import time
from typing import TYPE_CHECKING, Any, Self

from hermes.base.version import __version__
from hermes.gateway.platforms.base import (
    BUTTON,
    LOOK,
    Closed,
    Connected,
    Incoming,
    Later,
    Never,
    call_api,
    in_group,
    needed,
    open_socket,
    understood,
    units,
    with_tables_aligned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.gateway.platforms.base import Buttons, Inbox, Socket
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

API = "https://discord.com/api/v10"
_DISPATCH, _HEARTBEAT, _IDENTIFY, _RESUME, _RECONNECT, _INVALID, _HELLO, _BEAT_SEEN = 0, 1, 2, 6, 7, 9, 10, 11
_GUILD_MESSAGES, _DIRECT_MESSAGES, _CONTENT = 1 << 9, 1 << 12, 1 << 15  # the intents, which choose the events
_PLAIN_KINDS = (0, 19)  # a message and a reply; others say that somebody joined and the like
_PRESSED_BUTTON = 3
_NOT_FOUND, _WRONG_TOKEN, _OK = 404, 401, 300
_EPOCH = 1_420_070_400  # the second from which Discord counts; the number of a message contains its time
_STYLES = {"Accept": 3, "Reject": 4}  # green, red; else 2, grey
_REASONS = {  # codes of a connection that would be refused again
    4004: "it does not know this bot; check DISCORD_BOT_TOKEN in .env",
    4014: "gateway.groups needs the Message Content Intent: switch it on for this bot in Discord's developer portal",
}


class Discord(Connected):
    """Discord's gateway WebSocket and HTTP API."""

    name = "discord"
    limit = 2000

    def __init__(self, token: str, *, api: str = API, groups: str = "mention") -> None:
        self._api = api.rstrip("/")
        agent = f"DiscordBot (https://hermes-memory.github.io, {__version__})"
        self._headers = {"authorization": f"Bot {token}", "user-agent": agent}
        self._token = token
        self._groups = groups
        self._me: dict[str, Any] = {}
        self._session: tuple[str, str] | None = None  # its id, and the address to resume it at
        self._sequence: int | None = None

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Self:
        where = "Discord's developer portal gives one: your application, Bot, Reset Token"
        [token] = needed(home, cls.name, DISCORD_BOT_TOKEN=where)
        return cls(token, api=settings.text("gateway.discord.api_url") or API, groups=settings.text("gateway.groups"))

    # --- receiving ---------------------------------------------------------------------------------------------------

    def listen(self, inbox: Inbox, stop: Callable[[], bool], connected: Callable[[], None]) -> bool:
        """Serves one connection; keeps the session for the next one unless Discord has ended it."""
        address = self._session[1] if self._session else str(self.call("GET", "/gateway/bot")["url"])
        try:
            with open_socket("Discord", f"{address}?v=10&encoding=json") as socket:
                self._converse(socket, inbox, stop, connected)
        except Closed as error:
            if error.code in _REASONS:
                raise Later(f"Discord: {_REASONS[error.code]}", seconds=60) from None
            if 4000 < error.code < 4010:  # noqa: PLR2004 - codes for a session that cannot be resumed
                self._session = None
            raise
        return True

    def _converse(self, socket: Socket, inbox: Inbox, stop: Callable[[], bool], connected: Callable[[], None]) -> None:
        beat = next_beat = float("inf")
        seen = True
        while not stop():
            if time.monotonic() >= next_beat:
                if not seen:
                    raise Later("Discord has stopped answering", seconds=0)
                socket.send({"op": _HEARTBEAT, "d": self._sequence})
                seen, next_beat = False, time.monotonic() + beat
            frame = socket.receive(max(0.0, min(LOOK, next_beat - time.monotonic())))
            if frame is None:
                continue
            code = frame["op"]
            if code == _HELLO:
                beat = float(frame["d"]["heartbeat_interval"]) / 1000
                next_beat = time.monotonic() + beat / 2
                socket.send(self._hello())
            elif code == _DISPATCH:
                self._take(frame, inbox, connected)
                self._sequence = frame["s"]  # a resumed session continues after this event, so it is stored first
            elif code == _HEARTBEAT:
                next_beat = 0.0
            elif code == _BEAT_SEEN:
                seen = True
            elif code in (_RECONNECT, _INVALID):
                self._session = self._session if code == _RECONNECT or frame.get("d") else None
                raise Later("Discord asks for a new connection", seconds=0)

    def _hello(self) -> dict[str, Any]:
        if self._session:
            data = {"token": self._token, "session_id": self._session[0], "seq": self._sequence}
            return {"op": _RESUME, "d": data}
        # Without _CONTENT, Discord still sends the text of private messages and of those that mention us.
        intents = _DIRECT_MESSAGES | (_GUILD_MESSAGES if self._groups != "off" else 0)
        intents |= _CONTENT if self._groups in ("all", "listen") else 0
        properties = {"os": "linux", "browser": "hermes-memory", "device": "hermes-memory"}
        return {"op": _IDENTIFY, "d": {"token": self._token, "intents": intents, "properties": properties}}

    def _take(self, frame: Mapping[str, Any], inbox: Inbox, connected: Callable[[], None]) -> None:
        data = frame["d"]
        match frame["t"]:
            case "READY":
                self._me = data["user"]
                self.catch_up(inbox)
                self._session = (str(data["session_id"]), str(data["resume_gateway_url"]))
                connected()
            case "RESUMED":
                connected()
            case "MESSAGE_CREATE":
                self.store(inbox, understood(self.incoming, data))
            case "INTERACTION_CREATE":
                self.store(inbox, understood(self._pressed, data))

    def missed(self, chat: str, kind: str, active: float) -> Sequence[Mapping[str, Any]]:
        after = (int(active) - _EPOCH) * 1000 << 22  # the lower 22 bits of a number do not belong to the time
        found = self.call("GET", f"/channels/{chat}/messages?after={after}&limit={self.replayed}")["list"]
        known = {"guild_id": ""} if kind == "group" else {}  # events say which server it is, lists of messages do not
        return [{**known, **each} for each in sorted(found, key=lambda each: int(each["id"]))]

    def incoming(self, message: Mapping[str, Any]) -> Incoming | None:
        """Reads a message; ignores those of bots and webhooks, and notices such as that somebody joined."""
        author = message["author"]
        if author.get("bot") or message.get("webhook_id") or message.get("type", 0) not in _PLAIN_KINDS:
            return None
        group = "guild_id" in message
        me = str(self._me.get("id", ""))
        named = {str(each["id"]): str(each.get("username", "")) for each in message.get("mentions") or ()}
        replied = str(((message.get("referenced_message") or {}).get("author") or {}).get("id", ""))
        others = [replied, *(each for each in named if each != me)]
        found = Incoming(
            platform=self.name,
            update=str(int(message["id"])),
            chat=str(int(message["channel_id"])),
            kind="group" if group else "dm",
            user=str(int(author["id"])),
            user_name=str(author.get("global_name") or author.get("username") or ""),
            text=_without_mention(str(message.get("content") or ""), me, named),
            message=str(int(message["id"])),
            addressed=not group or me in named or replied == me,
            to=next(filter(None, others), ""),
        )
        return in_group(found, self._groups) if group else found

    def _pressed(self, interaction: Mapping[str, Any]) -> Incoming | None:
        """Reads a press on one of our buttons as a command; only the person sees those of a private chat."""
        data = str((interaction.get("data") or {}).get("custom_id") or "")
        if interaction["type"] != _PRESSED_BUTTON or not BUTTON.fullmatch(data):
            return None
        member = interaction.get("member")
        user = (member or interaction)["user"]
        return Incoming(
            platform=self.name,
            update=str(int(interaction["id"])),
            chat=str(int(interaction["channel_id"])),
            kind="group" if member else "dm",
            user=str(int(user["id"])),
            user_name=str(user.get("global_name") or user.get("username") or ""),
            text=f"/memory {data}",
            message=str(int(interaction["message"]["id"])),
            pressed=f"{int(interaction['id'])}/{interaction['token']}",
        )

    # --- answering ---------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return f"@{self._me['username']}" if self._me else ""

    def send(self, to: Incoming, text: str, *, delivery: str) -> str:
        # Discord accepts a nonce only once within minutes, so a lost answer to this call leaves no second draft.
        nonce = hashlib.sha256(delivery.encode()).hexdigest()[:25]
        fields: dict[str, Any] = {**_content(text), "nonce": nonce, "enforce_nonce": True}
        if to.kind == "group" and to.message:
            fields["message_reference"] = {"message_id": to.message, "fail_if_not_exists": False}
        return str(self.call("POST", f"/channels/{to.chat}/messages", fields)["id"])

    def edit(self, to: Incoming, sent: str, text: str, *, buttons: Buttons = ()) -> None:
        keys = [
            {"type": 2, "style": _STYLES.get(label, 2), "label": label, "custom_id": data} for label, data in buttons
        ]
        rows = [{"type": 1, "components": keys}] if keys else []
        self.call("PATCH", f"/channels/{to.chat}/messages/{sent}", {**_content(text), "components": rows})

    def acknowledge(self, pressed: Incoming) -> None:
        self.call("POST", f"/interactions/{pressed.pressed}/callback", {"type": 6})

    def typing(self, to: Incoming) -> None:
        self.call("POST", f"/channels/{to.chat}/typing")

    def fits(self, text: str) -> bool:
        return units(with_tables_aligned(text)) <= self.limit

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Calls the HTTP API; errors become `Later` or `Never`."""
        answer = call_api("Discord", method, self._api + path, body=body, headers=self._headers)
        if answer.status < _OK:
            return answer.document
        told = f"Discord {method}: {answer.document.get('message') or answer.status}"
        if answer.passing:
            raise Later(told, seconds=float(answer.document.get("retry_after") or 0))
        if answer.status == _WRONG_TOKEN:  # not Never: once the token is corrected, the answer is sent
            raise Later(f"Discord: {_REASONS[4004]}", seconds=60)
        raise Never(told, gone=answer.status == _NOT_FOUND)


def _content(text: str) -> dict[str, Any]:
    """The text for Discord, which knows Markdown except for tables; nothing a model writes can notify anybody."""
    return {"content": with_tables_aligned(text), "allowed_mentions": {"parse": [], "replied_user": True}}


def _without_mention(text: str, me: str, named: Mapping[str, str]) -> str:
    """The text without our own mention at its beginning, and with other mentions as names."""
    text = re.sub(rf"^\s*<@!?{me or '0'}>\s*", "", text)
    return re.sub(r"<@!?(\d+)>", lambda found: f"@{named.get(found[1]) or found[1]}", text)
