"""`hermes sessions restore`: the conversation as it was said before any compaction, as a session of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.cli.context import OK
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.cli.sessions_report import named, open_existing
from hermes.storage.compaction import Contexts
from hermes.vocabulary.errors import NotFound
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def _restore(given: argparse.Namespace, context: Context) -> int:
    with open_existing(context) as db:
        session = db.tip(named(db, given.session).id)
        contexts = Contexts(db)
        if not contexts.was_compacted(session.id):
            raise NotFound(f"{session.id} was never compacted; there is nothing to restore")
        restored, messages = contexts.restore(session.id)
        title = db.get_session(restored).title
    if given.json:
        print_json({"session_id": restored, "restored_from": session.id, "title": title, "messages": messages})
    else:
        print_text(f"{restored} holds all {counted(messages, 'message')} of {session.id}, which stays as it is")
        print_text(f"`hermes --resume {restored}` goes on from there, with a model that has room for it")
    return OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID|TITLE", help="any session of the compacted conversation")
    add_json_option(parser)


COMMANDS = {"restore": (_configure, _restore)}
