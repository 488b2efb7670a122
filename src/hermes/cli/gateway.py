"""`hermes gateway`: people talk to their memory on chat platforms; one process for all of them."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.cli.context import OK, REFUSED
from hermes.cli.operator_log import log_with_times
from hermes.cli.render import add_json_option, print_json, print_text, when
from hermes.vocabulary.errors import ExtraMissing
from hermes.vocabulary.extras import command
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hermes.cli.context import Context
    from hermes.gateway.directory import Directory

_SWITCH_SECONDS = 0.0005


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
    "run": (_configure_run, _run),
    "status": (add_json_option, _status),
    "pair": (_configure_pair, _pair),
    "unpair": (_configure_unpair, _unpair),
    "people": (add_json_option, _people),
}
