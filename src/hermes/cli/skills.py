"""`hermes skills`: the procedures the agent has, for a person to look at."""

from __future__ import annotations

import os

from hermes.cli.context import OK
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.session.wiring import open_parts
from hermes.vocabulary.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from hermes.cli.context import Context


def _list(given: argparse.Namespace, context: Context) -> int:
    found = _call(context, "skills_list", {"category": given.category} if given.category else {})
    if given.json:
        print_json(found["skills"])
        return OK
    for skill in found["skills"]:
        note = f"  ({skill['note']})" if skill.get("note") else ""
        print_text(f"{skill['category']}/{skill['name']}  {skill['description']}{note}")
    if not found["skills"]:
        print_text(found["message"])
    return OK


def _show(given: argparse.Namespace, context: Context) -> int:
    arguments = {"name": given.name} | ({"file_path": given.file} if given.file else {})
    found = _call(context, "skill_view", arguments)
    if given.json:
        print_json(found)
    else:
        print_text(found["content"])
        for path in [path for paths in found.get("linked_files", {}).values() for path in paths]:
            print_text(f"linked: {path}")
    return OK


def _path(given: argparse.Namespace, context: Context) -> int:
    folder = context.home.join("skills")
    if given.name:
        folder = os.path.join(folder, os.path.dirname(_call(context, "skill_view", {"name": given.name})["path"]))
    if given.json:
        print_json({"path": folder})
    else:
        print_text(folder)
    return OK


def _call(context: Context, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = open_parts(context.home, settings=context.settings).skills.handle(tool, arguments)
    if not result["success"]:
        more = [*result.get("available_skills", ()), *result.get("matches", ()), *result.get("available_files", ())]
        raise NotFound(f"{result['error']}" + (f" (there are: {', '.join(more)})" if more else ""))
    return result


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--category", help="only this category")
    add_json_option(parser)


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the skill, or category/name")
    parser.add_argument("--file", metavar="PATH", help="one of its linked files")
    add_json_option(parser)


def _configure_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a skill (default: the folder of all skills)")
    add_json_option(parser)


COMMANDS = {"list": (_configure_list, _list), "show": (_configure_show, _show), "path": (_configure_path, _path)}
