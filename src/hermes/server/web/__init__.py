"""The web page: its sections, in the order of the navigation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.server.web.conversations import CONVERSATIONS, RECEIPTS
from hermes.server.web.forget import FORGET
from hermes.server.web.health import HEALTH, PEOPLE
from hermes.server.web.memory import APPROVALS, MEMORY, RULES
from hermes.server.web.now import NOW

if TYPE_CHECKING:
    from hermes.server.web.site import Section

SECTIONS: tuple[Section, ...] = (NOW, MEMORY, APPROVALS, CONVERSATIONS, RULES, RECEIPTS, HEALTH, PEOPLE, FORGET)
