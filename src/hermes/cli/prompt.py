"""`hermes prompt`: the system prompt a new session would get, and what each part of it costs."""

from __future__ import annotations

import difflib
import os

from hermes.cli.context import OK
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.session.wiring import open_parts
from hermes.vocabulary.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.session.wiring import Parts


def _prompt(given: argparse.Namespace, context: Context) -> int:
    cwd = given.cwd or os.getcwd()
    owner = "local" if given.diff else None
    parts = open_parts(context.home, settings=context.settings, owner=owner, project=given.project, cwd=cwd)
    try:
        parts.start_external("prompt", owner="local", identity={"platform": given.platform, "agent_context": "flush"})
        prompt = parts.build_prompt(model=given.model, cwd=cwd, platform=given.platform)
        if given.diff:
            return _print_difference(parts, given.diff, prompt.text)
    finally:
        parts.external.close([])
        parts.close()
    sizes = prompt.sizes()
    total = {"characters": len(prompt.text), "tokens": sum(size["tokens"] for size in sizes)}
    if given.json:
        print_json({"prompt": prompt.text, "sections": sizes, "total": total})
        return OK
    if not given.sizes:
        print_text(f"{prompt.text}\n")
    for size in [*sizes, {"name": "total", **total}]:
        print_text(f"{size['name']:<26} {size['characters']:>8,} characters  about {size['tokens']:>6,} tokens")
    return OK


def _print_difference(parts: Parts, name: str, now: str) -> int:
    session = parts.database.resolve(name)
    if session is None:
        raise NotFound(f"there is no session {name!r}; `hermes sessions list` shows them")
    then = parts.database.session_details(session.id).get("system_prompt", "")
    lines = difflib.unified_diff(
        then.splitlines(), now.splitlines(), f"session {session.id}", "a new session", lineterm=""
    )
    print_text("\n".join(lines) or "the prompt of that session is what a new session would get")
    return OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", action="store_true", help="only the size of each section")
    parser.add_argument("--diff", metavar="SESSION", help="how it differs from the prompt a session (id or title) has")
    parser.add_argument("--model", default="", help="for which model (some get more guidance)")
    parser.add_argument("--platform", default="cli", help="for which platform (default: cli)")
    parser.add_argument("--cwd", metavar="DIR", help="in which folder to look for context files (default: here)")
    parser.add_argument("--project", metavar="NAME", help="of which project (default: the repository of that folder)")
    add_json_option(parser)


COMMANDS = {"prompt": (_configure, _prompt)}
