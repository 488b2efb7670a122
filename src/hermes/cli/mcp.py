"""`hermes mcp`: this memory for other agents, and the commands that put it into their configuration."""

from __future__ import annotations

import os

from hermes.cli.context import OK
from hermes.vocabulary.errors import ExtraMissing
from hermes.vocabulary.extras import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def _serve(given: argparse.Namespace, context: Context) -> int:
    if given.http:
        from hermes.cli.serve import start

        return start(context, host=given.host or "", port=given.port, only_mcp=True)
    import gc

    home = context.home
    gc.disable()  # the SDK makes a hundred thousand objects that stay: looking through them again and again is waste
    try:
        import anyio

        from hermes.server.mcp import build_server, serve_stdio
        from hermes.server.workspace import Workspace
    except ImportError as error:
        raise ExtraMissing(f"{error.name} is not installed; {command('server')} brings it") from error
    gc.freeze()
    gc.enable()
    workspace = Workspace(home, source=given.source, project=given.project, cwd=os.getcwd())
    try:
        anyio.run(serve_stdio, build_server(lambda _context: workspace, recorded=given.recorded))
    finally:
        workspace.close()
    return OK


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", metavar="NAME", help="whose notes to show (default: the repository it starts in)")
    parser.add_argument("--source", default="mcp", metavar="NAME", help="what recorded conversations are filed under")
    parser.add_argument("--http", action="store_true", help="streamable HTTP at /mcp instead; needs a key")
    parser.add_argument("--host", metavar="ADDRESS", help="with --http: where to listen (default: server.host)")
    parser.add_argument("--port", type=int, metavar="PORT", help="with --http: on which port (default: server.port)")
    parser.add_argument("--recorded", action="store_true", help="a hook records the host's conversations already")


COMMANDS = {"serve": (_configure_serve, _serve)}
