"""The sections of the web page, in the order of the navigation; each is a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.server.web import approvals, conversations, forget, health, memory, now, people, receipts, rules

if TYPE_CHECKING:
    from hermes.server.web.site import Section

SECTIONS: tuple[Section, ...] = (
    now.SECTION,
    memory.SECTION,
    approvals.SECTION,
    conversations.SECTION,
    rules.SECTION,
    receipts.SECTION,
    health.SECTION,
    people.SECTION,
    forget.SECTION,
)
