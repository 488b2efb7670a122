"""Helper models for searching past conversations: used when the settings name one, so that searching is free without.

`auxiliary.session_search` writes a digest of each conversation that was found, `auxiliary.memory_query_rewrite` puts a
question in other words.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.recall.session_search import Helpers
from hermes.session.models import helper
from hermes.session.past import DIGEST, REWRITE, is_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.settings.load import Settings

_MOST_QUERIES = 3


def search_helpers(settings: Settings) -> Helpers:
    """Models are made when they are asked; one that cannot be made or does not answer leaves the plain search."""
    digest, rewrite = _asking(settings, DIGEST), _asking(settings, REWRITE)

    def summarise(text: str) -> str:
        return digest(_prose("search_digest.md"), text)

    def expand(question: str) -> list[str]:
        lines = [line.strip(" -*") for line in rewrite(_prose("search_queries.md"), question).splitlines()]
        return [line for line in lines if line][:_MOST_QUERIES]

    return Helpers(
        summarise=summarise if is_named(settings, DIGEST) else None,
        expand=expand if is_named(settings, REWRITE) else None,
    )


def _asking(settings: Settings, task: str) -> Callable[[str, str], str]:
    def asked(system: str, text: str) -> str:
        ask = helper(settings, task, own_only=True)  # one for each question: several may be asked at once
        assert ask is not None  # noqa: S101 - nobody asks for a task that names no model
        return ask(system, text)

    return asked


def _prose(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "text", name), encoding="utf-8") as file:
        return file.read().strip()
