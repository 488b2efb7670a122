"""`hermes serve`: memory behind an OpenAI-compatible API, a plain API and MCP."""

from __future__ import annotations

import socket
import sys

from hermes.cli.context import OK
from hermes.vocabulary.errors import ExtraMissing, HermesError, SettingsError
from hermes.vocabulary.extras import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.settings.load import Settings

_SWITCH_SECONDS = 0.0005
_LAST_PORT = 65535


def start(context: Context, *, host: str = "", port: int | None = None, only_mcp: bool = False) -> int:
    """Serves until it is told to stop (SIGINT, SIGTERM), then lets what is running finish."""
    try:
        import uvicorn

        from hermes.cli.operator_log import log_with_times
        from hermes.server.http import build
        from hermes.server.patience import Impatient
    except ImportError as error:
        raise ExtraMissing(f"{error.name} is not installed; {command('server')} brings it") from error
    settings = context.settings
    service = build(context.home, only_mcp=only_mcp)
    config = uvicorn.Config(
        service.app,
        host=host or settings.text("server.host"),
        port=settings.integer("server.port") if port is None else port,
        http=Impatient,
        log_config=None,  # as everything else is logged
        access_log=False,  # addresses and paths of people are nobody's business; /metrics counts
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=settings.integer("server.drain_seconds"),
        limit_concurrency=4096,
        h11_max_incomplete_event_size=64 << 10,
    )
    log_with_times()
    listening = _listen(config.host, config.port)
    # Turns give the interpreter up at every file and database call; getting it back must not take the usual 5 ms each.
    sys.setswitchinterval(_SWITCH_SECONDS)
    if not only_mcp:
        _say_what_is_served(settings, config.host, listening.getsockname()[1])
    uvicorn.Server(config).run(sockets=[listening])
    return OK


def _listen(host: str, port: int) -> socket.socket:
    """Before anything is said: a port that is taken is no place to send clients to."""
    if not 0 <= port <= _LAST_PORT:
        raise SettingsError(f"--port is {port}; expected a number from 0 (any free one) to {_LAST_PORT}")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # where is said already
        raise SettingsError(
            f"cannot listen on {host}, port {port}: {why}; choose others with --host and --port, or server.host and"
            " server.port"
        ) from error


def _say_what_is_served(settings: Settings, host: str, port: int) -> None:
    """Where clients go; and, while it is early, that nobody would answer them."""
    from hermes.cli.render import print_problem
    from hermes.session.models import main_model

    where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(f"OpenAI clients: {where}/v1    the plain API: {where}/docs    MCP: {where}/mcp", file=sys.stderr)
    try:
        main_model(settings)
    except HermesError as error:
        print_problem(f"{error}; until then only memory, search and MCP are served")


def _serve(given: argparse.Namespace, context: Context) -> int:
    return start(context, host=given.host or "", port=given.port)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="ADDRESS", help="where to listen (default: server.host, 127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="PORT", help="on which port (default: server.port, 8484)")


COMMANDS = {"serve": (configure, _serve)}
