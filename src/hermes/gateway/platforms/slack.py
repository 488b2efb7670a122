"""Slack: receives over Socket Mode and answers over the Web API, so no public address is needed.

Every envelope is acknowledged after its message is stored; Slack repeats those that were not. What came while we were
not connected is read from the chats that people use; the ledger ignores what it already has.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any, Self

from hermes.gateway.platforms.base import (
    BUTTON,
    Connected,
    Incoming,
    Later,
    Markup,
    Never,
    call_api,
    in_group,
    needed,
    open_socket,
    split,
    understood,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.gateway.platforms.base import Buttons, Inbox, Socket
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

API = "https://slack.com/api"
_SECTION = 3000  # characters of one block above the buttons
_PLAIN_KINDS = ("", "file_share", "thread_broadcast")  # other subtypes say that somebody joined, edited and the like
_STYLES = {"Accept": {"style": "primary"}, "Reject": {"style": "danger"}}
_WRONG_TOKEN = (
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"),
)
_PASSING = ("ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout")
_GONE = ("message_not_found", "cant_update_message")
_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_LINK = re.compile(r"<([^<>|@#!][^<>|]*)(?:\|([^<>]*))?>")


class Slack(Connected):
    """Slack's Socket Mode and Web API."""

    name = "slack"
    limit = 4000  # characters of an edited message

    def __init__(self, token: str, app_token: str, *, api: str = API, groups: str = "mention") -> None:
        self._api = api.rstrip("/")
        self._token = token
        self._app_token = app_token
        self._groups = groups
        self._me: Mapping[str, Any] = {}

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Self:
        bot, app = needed(
            home,
            cls.name,
            SLACK_BOT_TOKEN="xoxb-…, OAuth & Permissions of your app",  # noqa: S106 - where to find it
            SLACK_APP_TOKEN="xapp-…, Basic Information, App-Level Tokens, scope connections:write",  # noqa: S106 - as above
        )
        return cls(bot, app, api=settings.text("gateway.slack.api_url") or API, groups=settings.text("gateway.groups"))

    # --- receiving ---------------------------------------------------------------------------------------------------

    def listen(self, inbox: Inbox, stop: Callable[[], bool], connected: Callable[[], None]) -> bool:
        """Serves one connection, which Slack ends every few hours."""
        if not self._me:
            self._me = self.call("auth.test")
        address = str(self.call("apps.connections.open", token=self._app_token)["url"])
        with open_socket("Slack", address) as socket:
            while not stop():
                frame = socket.receive()
                match frame.get("type") if frame else None:
                    case "hello":
                        self.catch_up(inbox)
                        connected()
                    case "disconnect":
                        return True
                    case "events_api" | "interactive" if frame:
                        self._take(frame, inbox, socket)
        return True

    def _take(self, frame: Mapping[str, Any], inbox: Inbox, socket: Socket) -> None:
        payload = frame.get("payload") or {}
        read = self.incoming if frame["type"] == "events_api" else self._pressed
        self.store(inbox, understood(read, payload.get("event") or {} if frame["type"] == "events_api" else payload))
        socket.send({"envelope_id": frame["envelope_id"]})

    def missed(self, chat: str, kind: str, active: float) -> Sequence[Mapping[str, Any]]:
        found = self.call(f"conversations.history?channel={chat}&oldest={active:.6f}&limit={self.replayed}")
        place = {"channel": chat, "channel_type": "im" if kind == "dm" else "channel"}
        return [{**each, **place} for each in reversed(found.get("messages") or [])]

    def incoming(self, event: Mapping[str, Any]) -> Incoming | None:
        """Reads a message; ignores those of bots, and notices such as that somebody joined."""
        # A mention arrives twice, as `app_mention` and as a message, with the same time and thus the same number.
        if event.get("type") not in ("message", "app_mention") or event.get("bot_id") or "user" not in event:
            return None
        if event.get("subtype", "") not in _PLAIN_KINDS:
            return None
        text, me = str(event.get("text") or ""), str(self._me.get("user_id", ""))
        group = event.get("channel_type") != "im" and not str(event["channel"]).startswith("D")
        named = _MENTION.findall(text)
        replied = str(event.get("parent_user_id") or "")
        found = Incoming(
            platform=self.name,
            update=f"{event['channel']}:{event['ts']}",
            chat=str(event["channel"]),
            kind="group" if group else "dm",
            thread=str(event.get("thread_ts") or ""),
            user=str(event["user"]),
            text=_as_written(re.sub(rf"^\s*<@{me}(?:\|[^>]*)?>\s*", "", text)),
            message=str(event["ts"]),
            addressed=not group or me in named or replied == me,
            to=next((each for each in (*named, replied) if each and each != me), ""),
        )
        return in_group(found, self._groups) if group else found

    def _pressed(self, payload: Mapping[str, Any]) -> Incoming | None:
        """Reads a press on one of our buttons as a command; only the person sees those of a private chat."""
        [action] = payload["actions"]
        data, chat = str(action.get("value") or ""), str(payload["channel"]["id"])
        if payload.get("type") != "block_actions" or not BUTTON.fullmatch(data):
            return None
        return Incoming(
            platform=self.name,
            update=f"{chat}:{action['action_ts']}:{payload['user']['id']}",
            chat=chat,
            kind="dm" if chat.startswith("D") else "group",
            thread=str(payload["message"].get("thread_ts") or ""),
            user=str(payload["user"]["id"]),
            text=f"/memory {data}",
            message=str(payload["message"]["ts"]),
            pressed=str(action["action_ts"]),
        )

    # --- answering ---------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return f"@{self._me['user']}" if self._me else ""

    def send(self, to: Incoming, text: str, *, delivery: str) -> str:  # noqa: ARG002 - edits make repetitions harmless
        thread = {"thread_ts": to.thread} if to.thread else {}
        return str(self.call("chat.postMessage", channel=to.chat, **_message(text), **thread)["ts"])

    def edit(self, to: Incoming, sent: str, text: str, *, buttons: Buttons = ()) -> None:
        message = _message(text)
        keys = [
            {
                "type": "button",
                "text": {"type": "plain_text", "text": label},
                "action_id": f"memory_{place}",
                "value": data,
                **_STYLES.get(label, {}),
            }
            for place, (label, data) in enumerate(buttons)
        ]
        sections = [
            {"type": "section", "text": {"type": "mrkdwn", "text": piece}} for piece in split(message["text"], _SECTION)
        ]
        blocks = [*sections, {"type": "actions", "elements": keys}] if keys else []  # [] removes old ones
        self.call("chat.update", channel=to.chat, ts=sent, blocks=blocks, **message)

    def fits(self, text: str) -> bool:
        return len(_MRKDWN.render(text)) <= self.limit

    def call(self, method: str, *, token: str = "", **fields: Any) -> Mapping[str, Any]:
        """Calls the Web API; errors become `Later` or `Never`. A method with a query only reads."""
        headers = {"authorization": f"Bearer {token or self._token}"}
        # Slack's reading methods do not accept JSON.
        verb, body = ("POST", fields) if "?" not in method else ("GET", None)
        answer = call_api("Slack", verb, f"{self._api}/{method}", body=body, headers=headers)
        method = method.partition("?")[0]
        if answer.document.get("ok"):
            return answer.document
        problem = str(answer.document.get("error") or f"status {answer.status}")
        if answer.passing or problem in _PASSING:
            raise Later(f"Slack {method}: {problem}", seconds=answer.seconds)
        if problem in _WRONG_TOKEN:  # not Never: once the token is corrected, the answer is sent
            which = "SLACK_APP_TOKEN" if token else "SLACK_BOT_TOKEN"
            raise Later(f"Slack does not accept the token ({problem}); check {which} in .env", seconds=60)
        raise Never(f"Slack {method}: {problem}", gone=problem in _GONE)


def _as_written(text: str) -> str:
    """What a person typed, without Slack's markup for mentions and links and without its escapes."""
    text = _MENTION.sub(r"@\1", text)
    return unescape(_LINK.sub(r"\1", text))


# --- formatting ------------------------------------------------------------------------------------------------------


def _escaped(text: str) -> str:
    """Escapes the three characters that Slack reads; so nothing a model writes can notify a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _link(address: str, text: str) -> str:
    if not address.startswith(("http://", "https://", "mailto:")):
        return f"{text} ({_escaped(address)})"
    return f"<{_escaped(address).replace('|', '%7C')}|{text}>"


_MRKDWN = Markup(
    marks={"strong": ("*", "*"), "em": ("_", "_"), "s": ("~", "~"), "code_inline": ("`", "`")},
    escape=_escaped,
    block=lambda code, _language: f"```\n{code}\n```",
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    link=_link,
)


def _message(text: str) -> dict[str, Any]:
    return {"text": _MRKDWN.render(text), "unfurl_links": False, "unfurl_media": False}
