"""Telegram's Bot API: long polling or a webhook in, messages and edits out."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
from html import escape, unescape
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import SettingsError
from hermes.gateway.platforms.base import (
    BUTTON,
    TIMEOUT,
    Incoming,
    Later,
    Markup,
    Never,
    Platform,
    call_api,
    in_group,
    keep_receiving,
    needed,
    understood,
    units,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes.gateway.platforms.base import Buttons, Inbox
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_LOG = logging.getLogger("hermes.gateway")
API = "https://api.telegram.org"
_SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - the name of a header
_POLL_SECONDS = 25  # for which Telegram holds an empty answer back
_BAD, _WRONG_TOKEN, _NO_BOT, _CONFLICT, _TOO_MANY, _SERVER = 400, 401, 404, 409, 429, 500
_UPDATES = ["message", "callback_query"]
_LINKS = ("http://", "https://", "mailto:", "tg://")


class Telegram(Platform):
    """The Telegram Bot API, by polling or webhook."""

    name = "telegram"
    edits = True
    buttons = True
    limit = 4096  # UTF-16 units

    def __init__(self, token: str, *, api: str = API, webhook_url: str = "", groups: str = "mention") -> None:
        self._address = f"{api.rstrip('/')}/bot{token}/"
        self._webhook_url = webhook_url
        self.is_called = bool(webhook_url)  # else we ask Telegram
        self._groups = groups
        self._me: dict[str, Any] = {}
        self._begun = False
        # Only the owner of the token can compute the secret, which does not reveal the token.
        self.secret = hmac.new(token.encode(), b"hermes gateway webhook", hashlib.sha256).hexdigest()

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Self:
        [token] = needed(home, cls.name, TELEGRAM_BOT_TOKEN="@BotFather on Telegram gives one")  # noqa: S106 - who has it
        url = (
            settings.text("gateway.telegram.webhook_url") if settings.text("gateway.telegram.mode") == "webhook" else ""
        )
        if settings.text("gateway.telegram.mode") == "webhook" and not url.startswith(("https://", "http://127.0.0.1")):
            raise SettingsError(
                "gateway.telegram.mode is webhook, so gateway.telegram.webhook_url must be the public https address "
                "that leads to this gateway's /telegram"
            )
        api = settings.text("gateway.telegram.api_url") or API
        return cls(token, api=api, webhook_url=url, groups=settings.text("gateway.groups"))

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:
        """Sets up polling or the webhook; returns once a webhook is set."""

        def step(connected: Callable[[], None]) -> bool:
            if not self._begun:
                self._begin()
            if not self._webhook_url:
                self._poll(inbox, stop)
            connected()
            return not self._webhook_url

        keep_receiving(step, stop, report)

    def _begin(self) -> None:
        self._me = self.call("getMe")  # our name, by which mentions are recognized
        if self._webhook_url:
            self.call("setWebhook", url=self._webhook_url, secret_token=self.secret, allowed_updates=_UPDATES)
        else:
            self.call("deleteWebhook")
        self._begun = True

    def _poll(self, inbox: Inbox, stop: Callable[[], bool]) -> None:
        known = inbox.cursor(self.name)
        offset = {"offset": int(known) + 1} if known else {}
        updates = self.call(
            "getUpdates",
            seconds=_POLL_SECONDS + TIMEOUT,
            cancelled=stop,
            timeout=_POLL_SECONDS,
            allowed_updates=_UPDATES,
            **offset,
        )
        if updates:  # the next call acknowledges them by its offset, so they are stored first
            self.store(inbox, updates)

    def accept(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Checks the secret that Telegram sends with each call of the webhook, then stores the update."""
        if not hmac.compare_digest(headers.get(_SECRET_HEADER, "").encode(), self.secret.encode()):
            return 401, "the secret is missing or wrong"
        if not self.identity():
            return 503, "not ready yet; send it again"
        self.store(inbox, [json.loads(body)])
        return 200, ""

    def store(self, inbox: Inbox, updates: list[Mapping[str, Any]]) -> None:
        """Stores updates from either way; one that is not for us only moves the cursor."""
        numbers = [int(update["update_id"]) for update in updates]
        known = inbox.cursor(self.name)
        newest = max([*numbers, *([int(known)] if known else [])])
        found = [understood(self._incoming, update) for update in updates]
        inbox.take(self.name, [each for each in found if each is not None], cursor=str(newest))

    def _incoming(self, update: Mapping[str, Any]) -> Incoming | None:
        if "callback_query" in update:
            return self._pressed(update["update_id"], update["callback_query"])
        message = update.get("message") or {}
        sender, chat = message.get("from") or {}, message.get("chat") or {}
        if "id" not in sender or "id" not in chat or sender.get("is_bot") or chat.get("type") == "channel":
            return None
        text = str(message.get("text") or message.get("caption") or "")
        group = chat.get("type") != "private"
        replied = (message.get("reply_to_message") or {}).get("from") or {}
        name = " ".join(filter(None, [sender.get("first_name"), sender.get("last_name")]))
        found = Incoming(
            platform=self.name,
            update=str(update["update_id"]),
            chat=str(int(chat["id"])),
            kind="group" if group else "dm",
            thread=str(int(message["message_thread_id"])) if message.get("is_topic_message") else "",
            user=str(int(sender["id"])),
            user_name=name or str(sender.get("username") or ""),
            chat_name=str(chat.get("title") or ""),
            text=self._without_mention(text),
            message=str(int(message["message_id"])),
            addressed=not group or self._is_for_us(replied, text),
            to=str(replied.get("id", "")),
        )
        return in_group(found, self._groups) if group else found

    def _pressed(self, number: int, query: Mapping[str, Any]) -> Incoming | None:
        """Reads a press on one of our buttons as a command; in a private chat only its own person can press.

        A private chat has the same number as its person, so nobody can press for somebody else.
        """
        message, sender, data = query.get("message") or {}, query["from"], str(query.get("data") or "")
        chat = message.get("chat") or {}
        private = chat.get("type") == "private"
        if (private and chat.get("id") != sender["id"]) or not BUTTON.fullmatch(data):
            return None
        return Incoming(
            platform=self.name,
            update=str(number),
            chat=str(int(chat["id"])),
            user=str(int(sender["id"])),
            user_name=str(sender.get("first_name") or sender.get("username") or ""),
            kind="dm" if private else "group",
            thread=str(int(message["message_thread_id"])) if message.get("is_topic_message") else "",
            text=f"/memory {data}",
            message=str(int(message["message_id"])),
            pressed=str(query["id"]),
        )

    def _is_for_us(self, replied: Mapping[str, Any], text: str) -> bool:
        mention = self._mention().lower()
        words = text.lower().split()
        return (
            replied.get("id") == self._me.get("id")
            or mention in (word.strip(".,:;!?()") for word in words)
            or any(word.startswith("/") and word.endswith(mention) for word in words[:1])
        )

    def _without_mention(self, text: str) -> str:
        """The text without our name: `/new@our_bot` is `/new`, and `@our_bot hello` is `hello`."""
        ours = self._mention()
        first, space, rest = text.partition(" ")
        if first.lower() == ours.lower():
            return rest.strip()
        if first.startswith("/") and first.lower().endswith(ours.lower()):
            return first[: -len(ours)] + space + rest
        return text

    def _mention(self) -> str:
        return f"@{self._me.get('username', '')}"

    # --- answering ---------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return self._mention() if self._me else ""

    def send(self, to: Incoming, text: str, *, delivery: str) -> str:  # noqa: ARG002 - edits make repetitions harmless
        fields: dict[str, Any] = {"chat_id": int(to.chat), **_thread(to)}
        if to.kind == "group" and to.message:
            fields["reply_parameters"] = {"message_id": int(to.message), "allow_sending_without_reply": True}
        return str(self._say("sendMessage", text, **fields)["message_id"])

    def edit(self, to: Incoming, sent: str, text: str, *, buttons: Buttons = ()) -> None:
        """Replaces the text; an edit that changes nothing is no error."""
        keys = [[{"text": label, "callback_data": data} for label, data in buttons]]
        markup = {"reply_markup": {"inline_keyboard": keys}} if buttons else {}
        try:
            self._say("editMessageText", text, chat_id=int(to.chat), message_id=int(sent), **markup)
        except Never as error:
            if "not modified" not in str(error):  # an earlier attempt has arrived
                raise

    def acknowledge(self, pressed: Incoming) -> None:
        self.call("answerCallbackQuery", callback_query_id=pressed.pressed)

    def typing(self, to: Incoming) -> None:
        self.call("sendChatAction", chat_id=int(to.chat), action="typing", **_thread(to))

    def fits(self, text: str) -> bool:
        """Whether a text fits with and without formatting; Telegram counts the text without its tags."""
        return units(text) <= self.limit and units(_without_tags(_HTML.render(text))) <= self.limit

    def _say(self, method: str, text: str, **fields: Any) -> Any:
        """Sends a text as HTML, or as plain text if Telegram does not accept the formatting."""
        formatted = _HTML.render(text)
        if formatted == text:
            return self.call(method, text=text, **fields)
        try:
            return self.call(method, text=formatted, parse_mode="HTML", **fields)
        except _Refused as error:
            if error.gone or "not modified" in str(error):
                raise
            _LOG.warning("sent without formatting: %s", error)
            return self.call(method, text=text, **fields)

    def call(
        self, method: str, *, seconds: float = TIMEOUT, cancelled: Callable[[], bool] | None = None, **fields: Any
    ) -> Any:
        """Calls the Bot API; errors become `Later` or `Never` and do not contain the token."""
        answer = call_api("Telegram", "POST", self._address + method, body=fields, seconds=seconds, cancelled=cancelled)
        if answer.document.get("ok"):
            return answer.document.get("result")
        raise _failure(method, answer.document, answer.status)


class _Refused(Never):
    """Status 400: Telegram does not accept this request, but may accept another one, such as plain text."""


def _failure(method: str, document: Mapping[str, Any], status: int) -> Later | Never:
    code = int(document.get("error_code") or status)
    told = str(document.get("description") or f"status {code}")
    if code in (_TOO_MANY, _CONFLICT) or code >= _SERVER:
        seconds = float((document.get("parameters") or {}).get("retry_after") or 0)
        return Later(f"Telegram {method}: {told}", seconds=seconds)
    if code in (_WRONG_TOKEN, _NO_BOT):
        # Nothing is lost meanwhile: when the token is right again, everything that waits is answered.
        return Later(f"Telegram does not know this bot ({told}); check TELEGRAM_BOT_TOKEN in .env", seconds=60)
    kind = _Refused if code == _BAD else Never
    return kind(f"Telegram {method}: {told}", gone="not found" in told or "can't be edited" in told)


def _thread(to: Incoming) -> dict[str, Any]:
    return {"message_thread_id": int(to.thread)} if to.thread else {}


# --- formatting ------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    return escape(text, quote=False)


def _code(code: str, language: str) -> str:
    return f'<pre><code class="language-{language}">{code}</code></pre>' if language else f"<pre>{code}</pre>"


def _link(address: str, text: str) -> str:
    known = address.startswith(_LINKS)
    return f'<a href="{escape(address)}">{text}</a>' if known else f"{text} ({_text(address)})"


_HTML = Markup(
    marks={
        "strong": ("<b>", "</b>"),
        "em": ("<i>", "</i>"),
        "s": ("<s>", "</s>"),
        "code_inline": ("<code>", "</code>"),
    },
    escape=_text,
    block=_code,
    quote="<blockquote>{}</blockquote>".format,
    link=_link,
)


def _without_tags(formatted: str) -> str:
    return unescape(re.sub("<[^>]*>", "", formatted))  # every other < is escaped
