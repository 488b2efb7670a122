"""`hermes skills` where a person decides: what stays, what leaves, what comes back, what waits for approval."""

from __future__ import annotations

import time

from hermes.cli.context import OK
from hermes.cli.decisions import add_ids, chosen_ids
from hermes.cli.render import add_json_option, print_all, print_json, print_text, when
from hermes.session.wiring import open_parts
from hermes.skills import lifecycle
from hermes.skills.pending import PendingSkills
from hermes.vocabulary.errors import NotFound, WriteRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from hermes.cli.context import Context
    from hermes.skills.pending import PendingSkill

_LISTING = "hermes skills pending"


def _usage(given: argparse.Namespace, context: Context) -> int:
    settings = context.settings
    ages = settings.integer("curator.stale_after_days"), settings.integer("curator.archive_after_days")
    found = lifecycle.standings(_root(context), time.time(), *ages)
    gone = lifecycle.archived(_root(context))
    if given.json:
        fields = ("name", "state", "last_used", "views", "changes", "pinned")
        shown = [{name: getattr(each, name) for name in fields} for each in found]
        print_json({"skills": shown, "archived": [{"name": each.name, "stamp": each.stamp} for each in gone]})
        return OK
    for each in found:
        state = "pinned" if each.pinned else "due for the archive" if each.state == lifecycle.DUE else each.state
        print_text(
            f"{each.name}  {state}, opened {each.views}, changed {each.changes}, last {when(each.last_used)[:10]}"
        )
    for archived in gone:
        print_text(f"{archived.name}  archived {archived.stamp}")
    if not found and not gone:
        print_text("there are no skills yet")
    return OK


def _one(act: Callable[[str, str], str], done: str) -> Callable[[argparse.Namespace, Context], int]:
    """A command about one skill: what to do with the skills folder and its name, and how to say that it is done."""

    def command(given: argparse.Namespace, context: Context) -> int:
        try:
            name = act(_root(context), given.name)
        except WriteRefused as refusal:
            known = refusal.details.get("available_skills")
            more = f" (there are: {', '.join(known)})" if isinstance(known, list) and known else "; there are none yet"
            raise NotFound(f"{refusal}{more}") from refusal
        print_json({"name": name, "done": done}) if given.json else print_text(f"{done}: {name}")
        return OK

    return command


def _pending(given: argparse.Namespace, context: Context) -> int:
    waiting = _pendings(context).all()
    if given.json:
        print_json([_as_json(each) for each in waiting])
        return OK
    for each in waiting:
        print_text(f"{each.id}  {when(each.created_at)}  {each.summary}  by {each.origin}")
        print_text(f"          because {each.reason}")
    if not waiting:
        print_text("nothing is pending")
    return OK


def _approve(given: argparse.Namespace, context: Context) -> int:
    pending, skills = _pendings(context), open_parts(context.home, settings=context.settings).skills
    done = []
    for each in _chosen(given, pending):
        result = skills.handle("skill_manage", each.arguments)
        if not result["success"]:
            raise WriteRefused(f"{each.id} stays pending: {result['error']}", kind="refused")
        pending.drop(each.id)
        done.append({"id": each.id, "message": result["message"]})
    if given.json:
        print_json(done)
    else:
        for one in done:
            print_text(f"{one['id']}: {one['message']}")
    return OK


def _reject(given: argparse.Namespace, context: Context) -> int:
    pending = _pendings(context)
    rejected = _chosen(given, pending)
    for each in rejected:
        pending.drop(each.id)
    print_all(given, rejected, _as_json, lambda each: f"{each.id} rejected: {each.summary}")
    return OK


def _chosen(given: argparse.Namespace, pending: PendingSkills) -> list[PendingSkill]:
    ids = chosen_ids(given, _LISTING, lambda: (each.id for each in pending.all()))
    return [pending.get(each) for each in ids]


def _root(context: Context) -> str:
    return context.home.join("skills")


def _pendings(context: Context) -> PendingSkills:
    return PendingSkills(context.home.join("pending", "skills"))


def _as_json(pending: PendingSkill) -> dict[str, Any]:
    fields = ("id", "arguments", "origin", "session", "created_at", "reason")
    return {name: getattr(pending, name) for name in fields}


def _configure_one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the skill, or category/name")
    add_json_option(parser)


def _configure_decision(parser: argparse.ArgumentParser) -> None:
    add_ids(parser, _LISTING)
    add_json_option(parser)


COMMANDS = {
    "usage": (add_json_option, _usage),
    "pin": (_configure_one, _one(lambda root, name: lifecycle.pin(root, name, pinned=True), "pinned")),
    "unpin": (_configure_one, _one(lambda root, name: lifecycle.pin(root, name, pinned=False), "no longer pinned")),
    "archive": (
        _configure_one,
        _one(lambda root, name: lifecycle.archive(root, name, time.time())[0], "archived"),
    ),
    "restore": (_configure_one, _one(lifecycle.restore, "restored")),
    "pending": (add_json_option, _pending),
    "approve": (_configure_decision, _approve),
    "reject": (_configure_decision, _reject),
}
