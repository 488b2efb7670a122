"""E-mail: an IMAP folder is read every few seconds, answers go out over SMTP as text and HTML.

Anybody can write any name into From. So a message is accepted only if the receiving server confirms its sender
(`Authentication-Results`, DMARC). An answer goes to the sender and recipients of the message, never to Reply-To. Each
attempt at one answer has the same Message-ID, by which mailboxes recognize a repetition.
"""

from __future__ import annotations

import hashlib
import imaplib
import re
import smtplib
import ssl
import threading
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses, parseaddr
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from hermes.base.errors import SettingsError
from hermes.gateway.platforms.base import (
    MARKDOWN,
    TIMEOUT,
    Incoming,
    Later,
    Never,
    Platform,
    in_group,
    keep_receiving,
)
from hermes.settings.config import secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.gateway.platforms.base import Inbox
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_LARGEST = 2 << 20  # bytes of a message that is read
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PASSED = re.compile(r"\bdmarc\s*=\s*pass\b", re.IGNORECASE)
# The line above a quoted message, such as "On Monday, Ann wrote:", in seven languages.
_ATTRIBUTION = re.compile(r"^(?:On|Am|Le|El|Il|Em|Op) .{4,300}:\s*$", re.DOTALL)
# Tags of HTML that begin a line, and those whose content is no text.
_BREAKS = frozenset(("br", "p", "div", "li", "tr", "h1", "h2", "h3", "blockquote"))
_SILENT = frozenset(("style", "script", "head", "title"))


class Mail(Platform):
    """E-mail: IMAP to receive, SMTP to answer."""

    name = "email"
    limit = 500_000

    def __init__(
        self,
        address: str,
        password: str,
        *,
        imap: str,
        smtp: str,
        vouched_by: str,
        folder: str = "INBOX",
        seconds: float = 20,
        groups: str = "mention",
    ) -> None:
        self._address = address.lower()
        self._password = password
        self._imap = urlsplit(imap)
        self._smtp = urlsplit(smtp)
        self._vouched_by = vouched_by.lower()
        self._folder = folder
        self._seconds = seconds
        self._groups = groups

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Self:
        given = {name: settings.text(f"gateway.email.{name}") for name in ("address", "imap", "smtp", "vouched_by")}
        password = secret(home, "EMAIL_PASSWORD")
        missing = [f"gateway.email.{name}" for name in ("address", "imap", "smtp") if not given[name]]
        if missing or not password:
            wanted = ", ".join([*missing, *([] if password else ["EMAIL_PASSWORD in .env"])])
            raise SettingsError(f"gateway.email.enabled is true, but this is missing: {wanted}")
        for name, schemes in (("imap", ("imaps", "imap")), ("smtp", ("smtps", "smtp"))):
            parts = urlsplit(given[name])
            if parts.scheme not in schemes or not parts.hostname:
                example = f"{schemes[0]}://{name}.example.org"
                raise SettingsError(f"gateway.email.{name}: expected an address such as {example}")
            if parts.scheme == "imap" and parts.hostname not in _LOOPBACK:
                raise SettingsError("gateway.email.imap: expected imaps://; imap:// sends the password unencrypted")
        if not given["vouched_by"]:
            raise SettingsError(
                "gateway.email.vouched_by must name the server that checks senders: the first word after "
                "Authentication-Results in any mail you received. Without it, anybody could write in somebody's name"
            )
        return cls(
            password=password,
            **given,
            folder=settings.text("gateway.email.folder"),
            seconds=settings.number("gateway.email.poll_seconds"),
            groups=settings.text("gateway.groups"),
        )

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:
        """Keeps one connection to the mailbox, and reads it every few seconds."""
        pause = threading.Event()

        def step(connected: Callable[[], None]) -> bool:
            with self._mailbox() as mailbox:
                connected()
                while not stop():
                    self._read(mailbox, inbox)
                    left = self._seconds
                    while left > 0 and not stop():
                        pause.wait(min(left, 0.2))
                        left -= 0.2
            return True

        keep_receiving(step, stop, report)

    @contextmanager
    def _mailbox(self) -> Iterator[imaplib.IMAP4]:
        host, port = self._imap.hostname or "", self._imap.port
        try:
            if self._imap.scheme == "imaps":
                mailbox: imaplib.IMAP4 = imaplib.IMAP4_SSL(
                    host, port or 993, ssl_context=ssl.create_default_context(), timeout=TIMEOUT
                )
            else:
                mailbox = imaplib.IMAP4(host, port or 143, timeout=TIMEOUT)
            with mailbox:
                mailbox.login(self._address, self._password)
                status, _ = mailbox.select(_quoted(self._folder))
                if status != "OK":
                    raise Later(f"the mailbox has no folder {self._folder} (gateway.email.folder)", seconds=60)
                yield mailbox
        except (OSError, imaplib.IMAP4.error) as error:
            raise Later(f"the mailbox at {host} cannot be read ({error})", seconds=0) from None

    def _read(self, mailbox: imaplib.IMAP4, inbox: Inbox) -> None:
        """Stores the messages above the cursor, which is the mailbox's UIDVALIDITY and the last UID."""
        validity = (mailbox.response("UIDVALIDITY")[1] or [b"0"])[0] or b"0"
        mailbox.untagged_responses["UIDVALIDITY"] = [validity]  # sent once; reading it removes it
        folder, _, last = inbox.cursor(self.name).partition(":")
        if folder != validity.decode():  # a new or renumbered mailbox: do not answer old messages
            _, found = mailbox.uid("SEARCH", "ALL")
            last = max((found[0] or b"").split(), key=int, default=b"0").decode()
            inbox.take(self.name, [], cursor=f"{validity.decode()}:{last}")
            return
        mailbox.noop()
        # "N:*" always includes the highest number, even if that is below N.
        _, found = mailbox.uid("SEARCH", f"UID {int(last) + 1}:*")
        for number in sorted(int(each) for each in (found[0] or b"").split() if int(each) > int(last)):
            _, parts = mailbox.uid("FETCH", str(number), f"(BODY.PEEK[]<0.{_LARGEST}>)")
            raw = next((part[1] for part in parts if isinstance(part, tuple)), b"")
            message = self.incoming(message_from_bytes(raw, policy=policy.default))
            inbox.take(self.name, [message] if message else [], cursor=f"{validity.decode()}:{number}")

    def incoming(self, message: EmailMessage) -> Incoming | None:
        """Reads a person's message; None for automatic messages, and for senders that no server has confirmed."""
        sender = parseaddr(str(message.get("From", "")))[1].lower()
        automatic = str(message.get("Auto-Submitted", "no")).lower() != "no" or "List-Id" in message
        if not sender or sender == self._address or automatic or not self._is_vouched_for(message):
            return None
        own = _identifier(message.get("Message-ID")) or hashlib.sha256(message.as_bytes()).hexdigest()
        fields = [str(each) for name in ("To", "Cc") for each in message.get_all(name, [])]
        people = {address.lower() for _, address in getaddresses(fields) if address} | {sender}
        others = sorted(people - {self._address})
        group = len(others) > 1
        referred = str(message.get("References", "")).split() or [str(message.get("In-Reply-To", ""))]
        first = {address.lower() for _, address in getaddresses([str(each) for each in message.get_all("To", [])])}
        subject = str(message.get("Subject", ""))
        found = Incoming(
            platform=self.name,
            update=hashlib.sha256(own.encode()).hexdigest(),
            chat=",".join(others),
            kind="group" if group else "dm",
            thread=_identifier(referred[0]) or own,
            user=sender,
            user_name=parseaddr(str(message.get("From", "")))[0],
            chat_name=re.sub(r"^(?:(?:re|aw|fwd?|wg):\s*)+", "", subject, flags=re.IGNORECASE),
            text=_new_text(_body(message)),
            message=own,
            addressed=self._address in first or not group,  # as Cc it is only heard
        )
        return in_group(found, self._groups) if group else found

    def _is_vouched_for(self, message: EmailMessage) -> bool:
        """Whether our own server confirmed the sender; its line is the first of that name, because it writes on top."""
        for line in map(str, message.get_all("Authentication-Results", [])):
            server, _, results = line.partition(";")
            if server.lower().split()[:1] == [self._vouched_by]:  # a version may follow the name
                return _PASSED.search(results) is not None
        return False

    # --- answering ---------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return self._address

    def send(self, to: Incoming, text: str, *, delivery: str) -> str:
        """Sends the answer as a reply in the thread, as text and as HTML."""
        answer = EmailMessage()
        number = hashlib.sha256(f"{self._address} {delivery}".encode()).hexdigest()[:40]
        answer["From"] = self._address
        answer["To"] = ", ".join(to.chat.split(","))
        answer["Subject"] = f"Re: {to.chat_name}" if to.chat_name else "From your assistant"
        answer["Message-ID"] = f"<{number}@{self._address.rpartition('@')[2]}>"
        answer["Auto-Submitted"] = "auto-replied"  # else two programs could answer each other forever
        if to.message:
            answer["In-Reply-To"] = f"<{to.message}>"
            answer["References"] = " ".join(dict.fromkeys(f"<{each}>" for each in (to.thread, to.message) if each))
        answer.set_content(text)
        answer.add_alternative(f"<!doctype html><html><body>{MARKDOWN.render(text)}</body></html>", subtype="html")
        self._deliver(answer)
        return str(answer["Message-ID"])

    def _deliver(self, answer: EmailMessage) -> None:
        host, port = self._smtp.hostname or "", self._smtp.port
        try:
            if self._smtp.scheme == "smtps":
                tls = ssl.create_default_context()
                server: smtplib.SMTP = smtplib.SMTP_SSL(host, port or 465, timeout=TIMEOUT, context=tls)
            else:
                server = smtplib.SMTP(host, port or 587, timeout=TIMEOUT)
            with server:
                if self._smtp.scheme == "smtp" and host not in _LOOPBACK:
                    server.starttls(context=ssl.create_default_context())
                server.ehlo_or_helo_if_needed()
                if server.has_extn("auth"):
                    server.login(self._address, self._password)
                server.send_message(answer)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            told = f"the mail server {host} accepts no mail for this person ({codes})"
            raise (Never(told) if min(codes) >= 500 else Later(told, seconds=60)) from None  # noqa: PLR2004 - for good
        except smtplib.SMTPAuthenticationError:
            raise Later(f"{host} does not accept the password; check EMAIL_PASSWORD in .env", seconds=60) from None
        except smtplib.SMTPResponseException as error:
            told = f"the mail server {host} refuses the answer ({error.smtp_code})"
            raise (Never(told) if error.smtp_code >= 500 else Later(told, seconds=0)) from None  # noqa: PLR2004 - for good
        except (OSError, smtplib.SMTPException) as error:
            raise Later(f"the mail server {host} cannot be reached ({type(error).__name__})", seconds=0) from None


def _identifier(field: object) -> str:
    return str(field or "").strip().strip("<>")


def _quoted(folder: str) -> str:
    return '"' + folder.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    try:
        text = str(part.get_content())
    except (LookupError, ValueError):  # an unknown character set
        text = (part.get_payload(decode=True) or b"").decode("utf-8", "replace")  # type: ignore[union-attr]
    return _Text().read(text) if part.get_content_subtype() == "html" else text


def _new_text(text: str) -> str:
    """What the sender has written, without the quoted message, the line above it, and the signature."""
    lines = text.replace("\r\n", "\n").split("\n")
    signature = next((place for place, line in enumerate(lines) if line.rstrip("\n") in ("-- ", "--")), len(lines))
    lines = lines[:signature]
    first = next((place for place, line in enumerate(lines) if line.startswith(">")), None)
    if first is not None:
        for begin in (first - 1, first - 2, first - 3):  # the line above may be folded
            if begin >= 0 and _ATTRIBUTION.match("\n".join(lines[begin:first]).strip() + "\n"):
                lines = lines[:begin] + lines[first:]
                break
    return "\n".join(line for line in lines if not line.startswith(">")).strip()


class _Text(HTMLParser):
    """Extracts the text of HTML, with a line for each paragraph and "> " before quotes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._words: list[str] = []
        self._silent = self._quoted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as the library calls it
        self._silent += tag in _SILENT
        self._quoted += tag == "blockquote"
        if tag in _BREAKS:
            self._words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT and self._silent > 0
        self._quoted -= tag == "blockquote" and self._quoted > 0
        if tag in _BREAKS and tag != "br":
            self._words.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            words = re.sub(r"\s+", " ", data)
            self._words.append(f"> {words}" if self._quoted and words.strip() else words)

    def read(self, html: str) -> str:
        """Returns the text of a document."""
        self.feed(html)
        self.close()
        return re.sub(r"\n\s*\n+", "\n\n", "".join(self._words)).strip()
