"""Who is signed in to the web page: session cookies, one-time links and CSRF tokens.

A session is a random id in an HttpOnly cookie; what it stands for is only in this process. Signing in always makes a
new id, so an id that somebody planted in a browser never becomes a session.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.settings.people import Key

COOKIE = "hermes-session"
_IDLE_SECONDS = 12 * 3600.0
_LINK_SECONDS = 120.0
_MOST = 10_000  # sessions, and links


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSession:
    """A signed-in browser. `key` is the id of the key it came with; "" for the one-time link of `hermes ui`."""

    id: str
    person: str
    key: str = ""
    may_approve: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """What the next page says once; `undo` are the changes of memory that a button takes back."""

    text: str
    undo: str = ""
    wrong: bool = False


class Sessions:
    """`keys_of` gives the keys a person has now: a session ends with the key it came with."""

    def __init__(
        self, keys_of: Callable[[str], tuple[Key, ...]] = lambda _person: (), clock: Callable[[], float] = time.time
    ) -> None:
        self._keys_of = keys_of
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, tuple[WebSession, float]] = OrderedDict()  # with when it was last used
        self._links: OrderedDict[str, tuple[str, float]] = OrderedDict()  # the person, and until when
        self._notices: dict[str, Notice] = {}

    def sign_in(self, person: str, *, key: Key | None = None, may_approve: bool) -> WebSession:
        session = WebSession(
            id=secrets.token_urlsafe(32), person=person, key=key.id if key else "", may_approve=may_approve
        )
        with self._lock:
            self._sessions[session.id] = (session, self._clock())
            while len(self._sessions) > _MOST:
                self._drop(next(iter(self._sessions)))
        return session

    def find(self, cookie: str) -> WebSession | None:
        """The session of a Cookie header; None when there is none, or its key was revoked."""
        with self._lock:
            found, used = self._sessions.get(session_id(cookie), (None, 0.0))
            if found is None:
                return None
            if self._clock() - used > _IDLE_SECONDS:
                self._drop(found.id)
                return None
        if found.key and all(key.id != found.key for key in self._keys_of(found.person)):
            self.sign_out(found)
            return None
        with self._lock:
            if found.id in self._sessions:
                self._sessions[found.id] = (found, self._clock())
                self._sessions.move_to_end(found.id)
        return found

    def sign_out(self, session: WebSession) -> None:
        with self._lock:
            self._drop(session.id)

    def make_link(self, person: str) -> str:
        """A token that signs somebody in once, within two minutes."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links[token] = (person, self._clock() + _LINK_SECONDS)
            while len(self._links) > _MOST:
                self._links.popitem(last=False)
        return token

    def use_link(self, token: str) -> WebSession | None:
        with self._lock:
            person, until = self._links.pop(token, ("", 0.0))
        return self.sign_in(person, may_approve=True) if person and self._clock() <= until else None

    def csrf(self, visitor: str) -> str:
        """The token that belongs to the cookie of a visitor, signed in or not."""
        return hmac.new(self._secret, visitor.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def is_csrf(self, visitor: str, token: str) -> bool:
        return bool(visitor) and hmac.compare_digest(self.csrf(visitor).encode(), token.encode("utf-8", "replace"))

    def say(self, session: WebSession, notice: Notice) -> None:
        with self._lock:
            if session.id in self._sessions:
                self._notices[session.id] = notice

    def take_notice(self, session: WebSession) -> Notice | None:
        with self._lock:
            return self._notices.pop(session.id, None)

    def last_seen(self, person: str) -> float:
        """When somebody last used the web page, since this process began; 0.0 when they did not."""
        with self._lock:
            return max((used for session, used in self._sessions.values() if session.person == person), default=0.0)

    def _drop(self, wanted: str) -> None:
        self._sessions.pop(wanted, None)
        self._notices.pop(wanted, None)


def session_id(cookie: str) -> str:
    """The value of our cookie in a Cookie header; "" when it has none."""
    return cookie_value(cookie, COOKIE)


def cookie_value(cookie: str, name: str) -> str:
    try:
        found = SimpleCookie(cookie).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def set_cookie(value: str, *, name: str = COOKIE, secure: bool, seconds: int | None = None) -> str:
    """The Set-Cookie header; only the web page gets it back, and only from itself."""
    lasting = f"; Max-Age={seconds}" if seconds is not None else ""
    return f"{name}={value}; Path=/ui; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}{lasting}"
