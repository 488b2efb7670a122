"""Opens the past conversations of a home, for the tool and for commands; nothing is loaded until somebody looks."""

from __future__ import annotations

import os
from functools import partial

from hermes.settings.home import DATABASE, locate_home
from hermes.tools.session_search import SessionSearchTool
from hermes.vocabulary.errors import LockTimeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from hermes.recall.session_search import Helpers
    from hermes.settings.home import Home
    from hermes.settings.load import Settings
    from hermes.storage.semantic import Embedding
    from hermes.storage.sessions import SessionDB
    from hermes.tools.context_expand import ContextExpand

LOCAL = "local"
DIGEST, REWRITE = "session_search", "memory_query_rewrite"  # tasks of helper models


def open_past(home: Home, owner: str = LOCAL) -> SessionDB | None:
    """The home's conversations, or None when nothing was ever stored; looking does not create the file.

    While another program keeps them locked they are opened for reading.
    """
    path = home.join(DATABASE)
    if not os.path.lexists(path):
        return None
    from hermes.storage.sessions import SessionDB

    semantic = partial(embedding_of, home)
    try:
        return SessionDB.open(path, owner=owner, semantic=semantic)
    except LockTimeout:
        return SessionDB.open(path, owner=owner, semantic=semantic, reading=True)


def embedding_of(home: Home) -> Embedding | None:
    """What a home's conversations are searched by meaning with, as its settings say."""
    from hermes.settings.load import load_settings
    from hermes.storage.semantic import static_vectors

    return static_vectors(load_settings(home).text("recall.semantic"))


def is_named(settings: Settings, task: str) -> bool:
    """Whether the settings name a model for a task of its own."""
    keys = ("provider", "model", "base_url")
    named = any(settings.text(f"auxiliary.{task}.{key}") not in ("", "auto", "main") for key in keys)
    return named and settings.flag(f"auxiliary.{task}.enabled")


def session_search_tool(
    home: Home,
    current_session: Callable[[], str],
    database: Callable[[], SessionDB | None] = lambda: None,
    archived: Callable[[str], list[dict[str, Any]]] = lambda _query: [],
    *,
    project: str = "",
    helpers: Helpers | None = None,
) -> SessionSearchTool:
    """The tool for a home; asked at each call in which session the model is, and for the database it has open.

    Whose conversations are searched is the owner of that database, in other profiles too; those of `project`
    come first.
    """

    def past(profile: str) -> AbstractContextManager[SessionDB] | None:
        opened = database()
        if opened is None:
            return open_past(locate_home(home.root, profile) if profile else home)
        if profile:
            return open_past(locate_home(home.root, profile), owner=opened.owner)
        from contextlib import nullcontext

        return nullcontext(opened)

    return SessionSearchTool(
        past, current_session=current_session, mask=_mask, archived=archived, project=project, helpers=helpers
    )


def context_expand_tool(
    home: Home,
    current_session: Callable[[], str],
    database: Callable[[Sequence[int]], SessionDB | None] = lambda _ids: None,
) -> ContextExpand:
    """Reads the messages of the conversation the model is in; without one, of any conversation of the owner."""

    def read(ids: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        from hermes.storage.compaction import Contexts

        opened = database(ids)
        if opened is not None:
            yield from Contexts(opened).read(current_session(), ids)
            return
        past = open_past(home)
        if past is not None:
            with past:
                yield from Contexts(past).read(current_session(), ids)

    from hermes.tools.context_expand import ContextExpand

    return ContextExpand(read)


def _mask(text: str) -> str:
    from hermes.safety.secrets import mask_secrets

    return mask_secrets(text)
