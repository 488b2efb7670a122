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

    gc.disable()  # the SDK makes a hundred thousand objects that stay: looking through them again and again is waste
    load_server()
    gc.freeze()
    gc.enable()
    import anyio

    from hermes.server.mcp import build_server, serve_stdio
    from hermes.server.workspace import Workspace

    workspace = Workspace(context.home, source=given.source, project=given.project, cwd=os.getcwd())
    try:
        anyio.run(serve_stdio, build_server(lambda _context: workspace, recorded=given.recorded))
    finally:
        workspace.close()
    return OK


def load_server() -> None:
    """Loads what the server is made of; ExtraMissing says what to install when something is not there."""
    try:
        import hermes.server.mcp  # noqa: F401 - whoever starts the server finds it loaded
    except ImportError as error:
        raise ExtraMissing(f"{error.name} is not installed; {command('server')} brings it") from error


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", metavar="NAME", help="whose notes to show (default: the repository it starts in)")
    parser.add_argument("--source", default="mcp", metavar="NAME", help="what recorded conversations are filed under")
    parser.add_argument("--http", action="store_true", help="streamable HTTP at /mcp instead; needs a key")
    parser.add_argument("--host", metavar="ADDRESS", help="with --http: where to listen (default: server.host)")
    parser.add_argument("--port", type=int, metavar="PORT", help="with --http: on which port (default: server.port)")
    parser.add_argument("--recorded", action="store_true", help="a hook records the host's conversations already")


COMMANDS = {"serve": (_configure_serve, _serve)}
