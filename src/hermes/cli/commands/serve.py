"""`hermes serve` and `hermes gateway`: memory for many people, over HTTP and on chat platforms."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ExtraMissing, HermesError, SettingsError, command
from hermes.base.text import counted
from hermes.cli.output import OK, REFUSED, add_json_option, print_json, print_text, when

if TYPE_CHECKING:
    import argparse
    import socket
    from collections.abc import Iterator

    from hermes.cli.output import Context
    from hermes.gateway.directory import Directory
    from hermes.settings.config import Settings

# The lines of the first two hold addresses, and Telegram's hold the token; the third has one for every request.
_QUIET = ("httpx", "httpcore", "mcp")


def log_with_times() -> None:
    """Each line with its time, level and source."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


_SWITCH_SECONDS = 0.0005
_LAST_PORT = 65535


def start(context: Context, *, host: str = "", port: int | None = None, only_mcp: bool = False) -> int:
    """Serves until it is told to stop (SIGINT, SIGTERM), then lets what is running finish."""
    try:
        from hermes.http_server import HttpServer
        from hermes.server.app import build
    except ImportError as error:
        raise ExtraMissing(f"{error.name} is not installed; {command('server')} brings it") from error
    settings = context.settings
    service = build(context.home, only_mcp=only_mcp)
    host = host or settings.text("server.host")
    listening = _listen(host, settings.integer("server.port") if port is None else port)
    server = HttpServer(service.app, listening, drain_seconds=settings.integer("server.drain_seconds"))
    log_with_times()
    # Turns give the interpreter up at every file and database call; getting it back must not take the usual 5 ms each.
    sys.setswitchinterval(_SWITCH_SECONDS)
    if not only_mcp:
        _say_what_is_served(settings, host, server.port)
    server.run()
    return OK


def _listen(host: str, port: int) -> socket.socket:
    """Before anything is said: a port that is taken is no place to send clients to."""
    from hermes.http_server import listen

    if not 0 <= port <= _LAST_PORT:
        raise SettingsError(f"--port is {port}; expected a number from 0 (any free one) to {_LAST_PORT}")
    try:
        return listen(host, port)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # where is said already
        raise SettingsError(
            f"cannot listen on {host}, port {port}: {why}; choose others with --host and --port, or server.host and"
            " server.port"
        ) from error


def _say_what_is_served(settings: Settings, host: str, port: int) -> None:
    """Where clients go; and, while it is early, that nobody would answer them."""
    from hermes.cli.output import print_problem
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


# `hermes gateway`: people talk to their memory on chat platforms; one process for all of them.


def _run(given: argparse.Namespace, context: Context) -> int:
    import logging
    import signal
    import sys
    import threading

    try:
        from hermes.gateway.service import Gateway

        gateway = Gateway(context.home, port=given.port)
    except ImportError as error:
        raise ExtraMissing(f"{error.name} is not installed; {command('server')} brings it") from error
    log_with_times()
    sys.setswitchinterval(_SWITCH_SECONDS)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    gateway.start()
    over.wait()
    logging.getLogger("hermes.gateway").info("stopping: what is being answered is finished first")
    if not gateway.stop():
        logging.getLogger("hermes.gateway").warning("some answers took too long; the next start goes on with them")
        logging.shutdown()
        os._exit(OK)  # everything is stored; the threads that still wait for a model have nothing left to save
    return OK


def _status(given: argparse.Namespace, context: Context) -> int:
    from hermes.gateway.service import stored_status

    status = stored_status(context.home)
    if given.json:
        print_json(status)
        return OK if status["running"] else REFUSED
    if status["running"]:
        print_text(f"running as process {status.get('pid')} since {when(status.get('started', 0))}")
        for name, each in status["platforms"].items():
            print_text(f"  {name:<10} {each['identity'] or '-'}  {each['problem'] or 'connected'}")
    else:
        print_text(f"not running{_last_seen(status)}; `hermes gateway run` starts it")
    if messages := status["messages"]:
        waiting = messages["new"] + messages["running"] + messages["answered"]
        print_text(f"{counted(waiting, 'message')} open, {messages['done']:,} answered in the last 14 days")
    if status["running"] and (memory := status.get("memory")):
        print_text(f"memory {memory['rss_mb']} MB (at most {memory['peak_mb']}), {memory['threads']} threads")
    return OK if status["running"] else REFUSED


def _last_seen(status: dict[str, Any]) -> str:
    """When it last wrote down how it fares, and what was wrong with its platforms then."""
    if not status.get("written"):
        return ""
    wrong = [f"; {name}: {each['problem']}" for name, each in status["platforms"].items() if each["problem"]]
    return f" since {when(status['written'])}{''.join(wrong)}"


def _pair(given: argparse.Namespace, context: Context) -> int:
    from hermes.gateway.directory import PAIR

    with _directory(context) as directory:
        directory.people.home_of(given.name)
        code = directory.make_code(PAIR, given.name)
    if given.json:
        print_json({"person": given.name, "code": code, "good_for_seconds": 3600})
    else:
        print_text(f"{given.name} sends this to the bot, once and within the hour:\n\n    /pair {code}")
    return OK


def _unpair(given: argparse.Namespace, context: Context) -> int:
    with _directory(context) as directory:
        directory.unlink(given.platform, given.account)
    done: dict[str, Any] = {"platform": given.platform, "account": given.account}
    print_json(done) if given.json else print_text(f"{given.platform} account {given.account} is nobody's any more")
    return OK


def _people(given: argparse.Namespace, context: Context) -> int:
    with _directory(context) as directory:
        accounts = directory.accounts()
    if given.json:
        print_json(accounts)
        return OK
    for each in accounts:
        print_text(f"{each['person']:<20}  {each['platform']:<10} {each['account']}  (by {each['by']})")
    if not accounts:
        print_text("nobody yet; `hermes gateway pair NAME` makes a code that somebody sends to the bot")
    return OK


@contextmanager
def _directory(context: Context) -> Iterator[Directory]:
    from hermes.gateway.directory import Directory
    from hermes.gateway.ledger import Ledger
    from hermes.settings.people import People

    people = People(context.home)
    ledger = Ledger.open(context.home)
    try:
        yield Directory(people, context.settings, ledger, time.time)
    finally:
        ledger.database.close()


def _configure_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="PORT", help="where webhooks knock (default: gateway.port, 8485)")


def _configure_pair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="whose account it will be (`hermes users list`, or owner)")
    add_json_option(parser)


def _configure_unpair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("platform", metavar="PLATFORM", help="telegram or webhook")
    parser.add_argument("account", metavar="ACCOUNT", help="the account as `hermes gateway people` shows it")
    add_json_option(parser)


COMMANDS = {
    "serve": (configure, _serve),
    "run": (_configure_run, _run),
    "status": (add_json_option, _status),
    "pair": (_configure_pair, _pair),
    "unpair": (_configure_unpair, _unpair),
    "people": (add_json_option, _people),
}
