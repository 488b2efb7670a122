"""Which account on which platform belongs to which person, and the codes that pair them.

An account is known when the settings list it (`gateway.people`) or when its owner has sent a pairing code. Codes are
random, valid once and for a short time, and stored only as digests.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from hermes.base.errors import NotFound, SettingsError
from hermes.settings.people import OWNER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes.gateway.ledger import Ledger
    from hermes.gateway.platforms.base import Incoming
    from hermes.settings.config import Settings
    from hermes.settings.people import People

PAIR, HAND_OVER, FORGET = "pair", "hand over", "forget"
SECONDS = {PAIR: 3600.0, HAND_OVER: 900.0, FORGET: 600.0}  # for which a code is valid
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # no two that look alike, such as l and 1
_LENGTH = 12  # 59 bits


class Directory:
    """Maps accounts on chat platforms to people."""

    def __init__(self, people: People, settings: Settings, ledger: Ledger, clock: Callable[[], float]) -> None:
        self.people = people
        self._listed = listed_accounts(settings)
        self._ledger = ledger
        self._clock = clock

    def person(self, platform: str, user: str) -> str:
        """The person an account belongs to, or "" for a stranger, such as a person who was removed."""
        name = self._listed.get((platform, user)) or self._linked(platform, user)
        return name if name and self.knows(name) else ""

    def group(self, message: Incoming) -> str:
        """The name of a group, which has a home of its own, like a person; its first message creates it."""
        digest = hashlib.sha256(message.chat.encode()).hexdigest()[:10]
        name = f"group-{message.platform}-{digest}"
        if not self.knows(name):
            self.people.add(name, note=message.chat_name or f"a group on {message.platform}")
        return name

    def knows(self, name: str) -> bool:
        """Whether there is a person or a group of this name."""
        try:
            self.people.home_of(name)
        except NotFound:
            return False
        return True

    def accounts(self) -> list[dict[str, str]]:
        """All known accounts with their people, and whether the settings or a pairing code made them known."""
        rows = self._ledger.database.rows('SELECT platform, "user", person FROM links ORDER BY 3, 1, 2')
        linked = [{"platform": row[0], "account": row[1], "person": row[2], "by": "pairing"} for row in rows]
        listed = [
            {"platform": platform, "account": user, "person": person, "by": "settings"}
            for (platform, user), person in sorted(self._listed.items())
        ]
        return listed + linked

    def link(self, platform: str, user: str, person: str) -> None:
        """Assigns an account to a person, and takes it from anyone who had it before."""
        self.people.home_of(person)
        with self._ledger.writing() as database:
            database.run('DELETE FROM links WHERE platform = ? AND "user" = ?', (platform, user))
            values = (platform, user, person, self._clock())
            database.run('INSERT INTO links (platform, "user", person, made) VALUES (?, ?, ?, ?)', values)

    def unlink(self, platform: str, user: str) -> None:
        """Removes a paired account; raises NotFound if it was not paired."""
        with self._ledger.writing() as database:
            gone = database.rows(
                'DELETE FROM links WHERE platform = ? AND "user" = ? RETURNING person', (platform, user)
            )
        if not gone:
            raise NotFound(
                f"{platform} account {user[:100]!r} is not paired; `hermes gateway people` lists paired accounts"
            )

    def pair(self, code: str, platform: str, user: str) -> str:
        """Assigns the account to the code's person and returns their name; "" if the code is wrong or has expired."""
        person, _ = self.redeem(PAIR, code) or ("", "")
        if person and self.knows(person):
            self.link(platform, user, person)
            return person
        return ""

    # --- codes -------------------------------------------------------------------------------------------------------

    def make_code(self, kind: str, person: str, about: str = "") -> str:
        """Makes a code for a person; an earlier one of the same kind no longer works."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        now = self._clock()
        with self._ledger.writing() as database:
            database.run("DELETE FROM codes WHERE expires < ? OR (kind = ? AND person = ?)", (now, kind, person))
            values = (_digest(kind, code), kind, person, about, now + SECONDS[kind])
            database.run("INSERT INTO codes (digest, kind, person, about, expires) VALUES (?, ?, ?, ?, ?)", values)
        return code

    def check(self, kind: str, code: str, *, at: float | None = None) -> tuple[str, str] | None:
        """The person and the subject of a code that is valid now, or was when it arrived (`at`)."""
        moment = self._clock() if at is None else at
        row = self._ledger.database.row(
            "SELECT person, about FROM codes WHERE digest = ? AND expires >= ?", (_digest(kind, code), moment)
        )
        return (str(row[0]), str(row[1])) if row else None

    def redeem(self, kind: str, code: str) -> tuple[str, str] | None:
        """Like `check`, and makes the code invalid."""
        found = self.check(kind, code)
        if found:
            with self._ledger.writing() as database:
                database.run("DELETE FROM codes WHERE digest = ?", (_digest(kind, code),))
        return found

    def _linked(self, platform: str, user: str) -> str:
        row = self._ledger.database.row('SELECT person FROM links WHERE platform = ? AND "user" = ?', (platform, user))
        return str(row[0]) if row else ""


def listed_accounts(settings: Settings) -> dict[tuple[str, str], str]:
    """The accounts that the settings list: `gateway.people: {telegram: {"12345": ann}}`."""
    found: dict[tuple[str, str], str] = {}
    platforms: Mapping[str, Mapping[str, str]] = settings.get("gateway.people") or {}
    for platform, accounts in platforms.items():
        if not hasattr(accounts, "items"):
            raise SettingsError(
                f'gateway.people.{platform}: expected accounts and whose they are, such as {{"12345": {OWNER}}}'
            )
        found |= {(str(platform), str(user)): str(person) for user, person in accounts.items()}
    return found


def _digest(kind: str, code: str) -> str:
    return hashlib.sha256(f"{kind}:{code.strip().lower()}".encode()).hexdigest()
