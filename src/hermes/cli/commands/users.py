"""`hermes users`: the people of this home, their keys, and forgetting one of them."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hermes.base.text import counted
from hermes.cli.output import OK, REFUSED, add_json_option, print_json, print_text, when
from hermes.operations.forget import finish_removals, forget, rehearse
from hermes.settings.home import DATABASE
from hermes.settings.people import OWNER, People

if TYPE_CHECKING:
    import argparse

    from hermes.cli.output import Context
    from hermes.operations.forget import Forgotten
    from hermes.settings.people import Person

_SHOWN = 60  # letters of a phrase


def _list(given: argparse.Namespace, context: Context) -> int:
    people = People(context.home)
    everybody = people.all()
    if given.json:
        print_json([_as_json(people, person) for person in everybody])
        return OK
    for person in everybody:
        print_text(f"{person.name:<20}  since {when(person.added)[:10]}  {counted(len(person.keys), 'key')}")
        for key in person.keys:
            print_text(f"    key {key.id}  made {when(key.made)[:16]}  {key.label}".rstrip())
    if not everybody:
        print_text("nobody yet; `hermes users add NAME` makes a home and a key for somebody")
    return OK


def _add(given: argparse.Namespace, context: Context) -> int:
    people = People(context.home)
    person = people.add(given.name, given.note)
    key, secret = people.make_key(given.name) if not given.no_key else (None, None)
    home = people.home_of(given.name).path
    if given.json:
        print_json({"name": person.name, "home": home, "key_id": key.id if key else None, "key": secret})
        return OK
    print_text(f"{person.name} has a home at {home}")
    if secret:
        _show_key(secret)
    return OK


def _key(given: argparse.Namespace, context: Context) -> int:
    people = People(context.home)
    if given.revoke:
        people.revoke(given.name, given.revoke)
        done: dict[str, Any] = {"name": given.name, "revoked": given.revoke}
        print_json(done) if given.json else print_text(f"key {given.revoke} of {given.name} no longer opens anything")
        return OK
    key, secret = people.make_key(given.name, given.label)
    if given.json:
        print_json({"name": given.name, "key_id": key.id, "key": secret})
    else:
        print_text(f"key {key.id} of {given.name}")
        _show_key(secret)
    return OK


def _forget(given: argparse.Namespace, context: Context) -> int:
    people = People(context.home)
    finish_removals(people.home)
    sure = given.yes and not given.dry_run
    if sure:
        from hermes.gateway.ledger import forget_person

        people.get(given.name)
        forget_person(people.home, given.name)
    report = forget(people, given.name) if sure else rehearse(people, given.name)
    print_json(asdict(report)) if given.json else _print_report(report)
    incomplete = report.elsewhere or any("could NOT" in line for line in report.providers)
    return REFUSED if report.done and incomplete else OK


def _show_key(secret: str) -> None:
    print_text(f"    {secret}\nThis is the only time it is shown: only its SHA-256 is kept.")


def _print_report(report: Forgotten) -> None:
    verb = "removed" if report.done else "would remove"
    print_text(
        f"{verb} {report.name}: {counted(report.entries, 'memory entry', 'memory entries')} with history, "
        f"{counted(report.messages, 'message')} in {counted(report.conversations, 'conversation')}, "
        f"{counted(report.keys, 'key')}, {counted(report.files, 'file')} ({report.bytes:,} bytes)"
    )
    for line in report.providers:
        print_text(f"provider: {line}")
    print_text(
        f"searched {counted(report.searched_files, 'other file')} for {counted(report.searched_phrases, 'phrase')} "
        f"of theirs: found in {counted(len(report.elsewhere), 'file')}"
    )
    for path in report.elsewhere:
        such = f", such as {report.words[path][:_SHOWN]!r}" if path in report.words else ""
        print_text(f"    {path}: holds words of {report.name}{such}; {_remedy(path)}")
    for path in report.archives:
        print_text(f"    {path}: an archive with their home in it; delete it or make it anew")
    for problem in report.problems:
        print_text(f"    ! {problem}")
    if not report.done:
        print_text(f"nothing was changed; `hermes users forget {report.name} --yes` does it, for good")


def _remedy(path: str) -> str:
    if os.path.basename(path).startswith(DATABASE):
        return "`hermes sessions search` finds them, `hermes sessions delete` removes a conversation"
    return "look at it and remove them"


def _as_json(people: People, person: Person) -> dict[str, Any]:
    return {
        "name": person.name,
        "added": person.added,
        "note": person.note,
        "home": people.home_of(person.name).path,
        "keys": [{"id": key.id, "made": key.made, "label": key.label} for key in person.keys],
    }


def _configure_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="small letters, digits, - and _")
    parser.add_argument("--note", default="", metavar="TEXT", help="a remark for you, such as the person's full name")
    parser.add_argument("--no-key", action="store_true", help="make no key yet")
    add_json_option(parser)


def _configure_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"whose; {OWNER} for the home itself")
    parser.add_argument("--label", default="", metavar="TEXT", help="what the key is for")
    parser.add_argument("--revoke", metavar="ID", help="instead of making a key, make this one useless")
    add_json_option(parser)


def _configure_forget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="whom to remove")
    parser.add_argument("--yes", action="store_true", help="do it; without this, only say what would be removed")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    add_json_option(parser)


COMMANDS = {
    "list": (add_json_option, _list),
    "add": (_configure_add, _add),
    "key": (_configure_key, _key),
    "forget": (_configure_forget, _forget),
}
