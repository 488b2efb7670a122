"""`hermes serve`, `ui`, `gateway` and `users`: memory over HTTP, in a browser and on chat platforms, and for whom."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, SettingsError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.operations.forget import finish_removals, forget, rehearse
from hermes.settings.home import DATABASE
from hermes.settings.people import APPROVE, People

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from hermes.gateway.directory import Directory
    from hermes.operations.forget import Forgotten
    from hermes.settings.config import Settings
    from hermes.settings.people import Key


# The lines of the first two hold addresses, and Telegram's hold the token; the third has one for every request.
_QUIET = ("httpx", "httpcore", "mcp")
_ONCE_IN = 60.0  # seconds between two lines about the same trouble
_MOST_COMPLAINTS = 200


def log_with_times() -> None:
    """Each line with its time, level and source."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeated())


class Repeated(logging.Filter):
    """Lets the same complaint through once a minute, with how often it was left out since."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        what = (record.name, str(record.msg), str(record.exc_info[0]) if record.exc_info else "")
        at, left_out = self._seen.get(what, (0.0, 0))
        if at and self._clock() - at < _ONCE_IN:
            self._seen[what] = (at, left_out + 1)
            return False
        self._seen = dict(list(self._seen.items())[-_MOST_COMPLAINTS:]) | {what: (self._clock(), 0)}
        if left_out:
            record.msg = f"{record.msg} (and {left_out:,} more of the same kind)"
        return True


_SWITCH_SECONDS = 0.0005

_LAST_PORT = 65535


def start(context: ui.Context, *, host: str = "", port: int | None = None, only_mcp: bool = False) -> None:
    """Serves until SIGINT or SIGTERM, then lets running requests finish."""
    with ui.needing("server"):
        from hermes.http_server import HttpServer, raise_descriptor_limit
        from hermes.server.app import build
    raise_descriptor_limit()
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


def _listen(host: str, port: int) -> socket.socket:
    """Before anything is said: a port that is taken is no place to send clients to."""
    from hermes.http_server import listen

    if not 0 <= port <= _LAST_PORT:
        raise SettingsError(f"--port is {port}; expected a number from 0 (any free one) to {_LAST_PORT}")
    try:
        return listen(host, port)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # where is said already
        others = "choose others with --host and --port, or server.host and server.port"
        raise SettingsError(f"cannot listen on {host}, port {port}: {why}; {others}") from error


def _say_what_is_served(settings: Settings, host: str, port: int) -> None:
    """Prints the addresses for clients, and warns at once if there is no model to answer them."""
    from hermes.session.models import main_model

    where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    places = (f"OpenAI clients: {where}/v1", f"the plain API: {where}/docs", f"MCP: {where}/mcp", f"web page: {where}/")
    print("    ".join(places), file=sys.stderr)
    try:
        main_model(settings)
    except HermesError as error:
        ui.problem(f"{error}; until then only memory, search and MCP are served")


def run_serve(given: ui.Given, context: ui.Context) -> None:
    start(context, host=given.host or "", port=given.port)


_WEB_DRAIN_SECONDS = 1  # nothing that takes long runs there


def run_ui(given: ui.Given, context: ui.Context) -> None:
    """Serves the web page of this home on loopback until it is stopped."""
    with ui.needing("server"):
        from hermes.http_server import HttpServer
        from hermes.server.app import build_web_page
    page = build_web_page(context.home)
    server = HttpServer(page.app, _listen("127.0.0.1", given.port or 0), drain_seconds=_WEB_DRAIN_SECONDS)
    address = f"http://127.0.0.1:{server.port}{page.link()}"
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it complains about live pages when it is stopped
    if given.no_browser or not _open_browser(address):
        print(f"Open this within two minutes; it works once:\n\n    {address}\n\nCtrl-C ends it.", flush=True)
    else:
        print(f"http://127.0.0.1:{server.port} is open in your browser; Ctrl-C ends it.", flush=True)
    server.run()


def _open_browser(address: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def gateway_run(given: ui.Given, context: ui.Context) -> int:
    import signal
    import threading

    with ui.needing("server"):
        from hermes.gateway.service import Gateway
        from hermes.http_server import raise_descriptor_limit

        raise_descriptor_limit()
    log_with_times()
    gateway = Gateway(context.home, port=given.port)  # waits while another gateway has its turn
    sys.setswitchinterval(_SWITCH_SECONDS)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    gateway.start()
    while not over.wait(1):
        if gateway.lost.is_set():
            break
    logging.getLogger("hermes.gateway").info("stopping when the answers in progress are finished")
    if not gateway.stop():
        logging.getLogger("hermes.gateway").warning("some answers took too long; the next start continues with them")
        logging.shutdown()
        os._exit(ui.OK)  # everything is stored; the threads that still wait for a model have nothing left to save
    return ui.REFUSED if gateway.lost.is_set() else ui.OK


def gateway_status(given: ui.Given, context: ui.Context) -> int:
    from hermes.gateway.service import stored_status

    status, lines = stored_status(context.home), []
    if status["running"]:
        lines.append(f"running as process {status.get('pid')} since {ui.when(status.get('started', 0))}")
        for name, each in status["platforms"].items():
            lines.append(f"  {name:<10} {each['identity'] or '-'}  {each['problem'] or 'connected'}")
    else:
        wrong = [f"; {name}: {each['problem']}" for name, each in status["platforms"].items() if each["problem"]]
        last = f" since {ui.when(status['written'])}{''.join(wrong)}" if status.get("written") else ""
        lines.append(f"not running{last}; `hermes gateway run` starts it")
    if messages := status["messages"]:
        waiting = messages["new"] + messages["running"] + messages["answered"]
        lines.append(f"{counted(waiting, 'message')} open, {messages['done']:,} answered in the last 14 days")
    if status["running"] and (memory := status.get("memory")):
        lines.append(f"memory {memory['rss_mb']} MB (at most {memory['peak_mb']}), {memory['threads']} threads")
    ui.show(given, status, *lines)
    return ui.OK if status["running"] else ui.REFUSED


def gateway_pair(given: ui.Given, context: ui.Context) -> None:
    from hermes.gateway.directory import PAIR

    with _directory(context) as directory:
        directory.people.home_of(given.name)
        code = directory.make_code(PAIR, given.name)
    document = {"person": given.name, "code": code, "good_for_seconds": 3600}
    ui.show(given, document, f"{given.name} sends this to the bot within an hour; it works once:\n\n    /pair {code}")


def gateway_unpair(given: ui.Given, context: ui.Context) -> None:
    with _directory(context) as directory:
        directory.unlink(given.platform, given.account)
    line = f"{given.platform} account {given.account} no longer belongs to anybody"
    ui.show(given, {"platform": given.platform, "account": given.account}, line)


def gateway_people(given: ui.Given, context: ui.Context) -> None:
    with _directory(context) as directory:
        accounts = directory.accounts()
    lines = [f"{each['person']:<20}  {each['platform']:<10} {each['account']}  (by {each['by']})" for each in accounts]
    nobody = "nobody yet; `hermes gateway pair NAME` makes a code that somebody sends to the bot"
    ui.show(given, accounts, *(lines or [nobody]))


@contextmanager
def _directory(context: ui.Context) -> Iterator[Directory]:
    from hermes.gateway.directory import Directory
    from hermes.gateway.ledger import Ledger

    people = People(context.home)
    ledger = Ledger.open(context.home)
    try:
        yield Directory(people, context.settings, ledger, time.time)
    finally:
        ledger.database.close()


_SHOWN = 60  # letters of a phrase
_KEY = "    {}\nThis is the only time it is shown: only its SHA-256 is kept."


def users_list(given: ui.Given, context: ui.Context) -> None:
    people = People(context.home)
    document, lines = [], []
    for person in people.all():
        keys = [ui.pick(key, "id", "made", "label", "rights") for key in person.keys]
        home = people.home_of(person.name).path
        document.append({**ui.pick(person, "name", "added", "note"), "home": home, "keys": keys})
        lines.append(f"{person.name:<20}  since {ui.when(person.added)[:10]}  {counted(len(keys), 'key')}")
        for key in person.keys:
            about = f"    key {key.id}  made {ui.when(key.made)[:16]}  {key.label}{_may(key)}"
            lines.append(about.rstrip())
    ui.show(given, document, *(lines or ["nobody yet; `hermes users add NAME` makes a home and a key for somebody"]))


def _may(key: Key) -> str:
    return f"  may {', '.join(key.rights)}" if key.rights else ""


def users_add(given: ui.Given, context: ui.Context) -> None:
    people = People(context.home)
    person = people.add(given.name, given.note)
    rights = (APPROVE,) if given.approve else ()
    key, secret = people.make_key(given.name, rights=rights) if not given.no_key else (None, None)
    home = people.home_of(given.name).path
    document = {"name": person.name, "home": home, "key_id": key.id if key else None, "key": secret}
    ui.show(given, document, f"{person.name} has a home at {home}", *([_KEY.format(secret)] if secret else []))


def users_key(given: ui.Given, context: ui.Context) -> None:
    people = People(context.home)
    if given.revoke:
        people.revoke(given.name, given.revoke)
        document = {"name": given.name, "revoked": given.revoke}
        ui.show(given, document, f"key {given.revoke} of {given.name} is revoked")
        return
    key, secret = people.make_key(given.name, given.label, rights=(APPROVE,) if given.approve else ())
    document = {"name": given.name, "key_id": key.id, "key": secret, "rights": list(key.rights)}
    ui.show(given, document, f"key {key.id} of {given.name}{_may(key)}", _KEY.format(secret))


def users_forget(given: ui.Given, context: ui.Context) -> int:
    people = People(context.home)
    finish_removals(people.home)
    sure = given.yes and not given.dry_run
    if sure:
        from hermes.gateway.ledger import forget_person

        people.get(given.name)
        forget_person(people.home, given.name)
    report = forget(people, given.name) if sure else rehearse(people, given.name)
    ui.show(given, asdict(report), *_report_lines(report))
    incomplete = report.elsewhere or any("could NOT" in line for line in report.providers)
    return ui.REFUSED if report.done and incomplete else ui.OK


def _report_lines(report: Forgotten) -> Iterator[str]:
    verb = "removed" if report.done else "would remove"
    yield (
        f"{verb} {report.name}: {counted(report.entries, 'memory entry', 'memory entries')} with history, "
        f"{counted(report.messages, 'message')} in {counted(report.conversations, 'conversation')}, "
        f"{counted(report.keys, 'key')}, {counted(report.files, 'file')} ({report.bytes:,} bytes)"
    )
    for line in report.providers:
        yield f"provider: {line}"
    yield (
        f"searched {counted(report.searched_files, 'other file')} for {counted(report.searched_phrases, 'phrase')} "
        f"of theirs: found in {counted(len(report.elsewhere), 'file')}"
    )
    for path in report.elsewhere:
        such = f", such as {report.words[path][:_SHOWN]!r}" if path in report.words else ""
        remedy = "look at it and remove them"
        if os.path.basename(path).startswith(DATABASE):
            remedy = "`hermes sessions search` finds them, `hermes sessions delete` removes a conversation"
        yield f"    {path}: holds words of {report.name}{such}; {remedy}"
    for path in report.archives:
        yield f"    {path}: an archive with their home in it; delete it, or create it again"
    for problem in report.problems:
        yield f"    ! {problem}"
    if not report.done:
        yield f"nothing was changed; `hermes users forget {report.name} --yes` does it, for good"
