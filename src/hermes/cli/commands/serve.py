"""`hermes serve`, `ui`, `mcp` and `gateway`: offer memory to other programs, in a browser and on chat platforms."""

from __future__ import annotations

import difflib
import gc
import json
import logging
import os
import shlex
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, SettingsError, StorageError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.server.hosts import BY_MODEL, HOSTS, RECORDED, carry_out, configured, list_tools, plan, record, this_copy
from hermes.settings.people import People

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from hermes.gateway.ledger import Directory
    from hermes.server.hosts import Change
    from hermes.settings.config import Settings


# The first two log addresses, and those of Telegram contain the token; the third logs a line for every request.
_QUIET = ("httpx", "httpcore", "mcp")
_ONCE_IN = 60.0  # seconds between two lines about the same problem
_MOST_COMPLAINTS = 200  # different ones that are remembered


def log_with_times() -> None:
    """Sets up logging for servers: lines with time, level and source, and repeated complaints once a minute."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeated())


class Repeated(logging.Filter):
    """A log filter that passes the same complaint once a minute, and says how many it left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Passes everything below a warning, and of repeated complaints one a minute."""
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
# Python's 700 new objects are made several times in each turn. A closed conversation lives until a full collection, so
# every fourth collection is one; with Python's 100, a server that opens many conversations grows by half.
_COLLECT_AFTER = (10_000, 2, 2)

_LAST_PORT = 65535


def start(context: ui.Context, *, host: str = "", port: int | None = None, only_mcp: bool = False) -> None:
    """Serves HTTP until SIGINT or SIGTERM, then lets running requests finish."""
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
    # Turns release the interpreter lock at every file and database call; under load, each took 5 ms to get it back.
    sys.setswitchinterval(_SWITCH_SECONDS)
    if not only_mcp:
        _say_what_is_served(settings, host, server.port)
    gc.freeze()  # everything that exists now stays: the collector passes over it
    gc.set_threshold(*_COLLECT_AFTER)
    server.run()


def _listen(host: str, port: int) -> socket.socket:
    """Opens the port, before any address is printed: it may be taken."""
    from hermes.http_server import listen

    if not 0 <= port <= _LAST_PORT:
        raise SettingsError(f"--port is {port}; expected a number from 0 (any free one) to {_LAST_PORT}")
    try:
        return listen(host, port)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # our message names the address already
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
    """Serves the HTTP APIs, MCP and the web page until it is stopped."""
    start(context, host=given.host or "", port=given.port)


_WEB_DRAIN_SECONDS = 1  # the page answers every request quickly


def run_ui(given: ui.Given, context: ui.Context) -> None:
    """Serves the web page of this home on loopback until it is stopped."""
    with ui.needing("server"):
        from hermes.http_server import HttpServer
        from hermes.server.app import build_web_page
    page = build_web_page(context.home)
    server = HttpServer(page.app, _listen("127.0.0.1", given.port or 0), drain_seconds=_WEB_DRAIN_SECONDS)
    address = f"http://127.0.0.1:{server.port}{page.link()}"
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it complains about open pages when it is stopped
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
    """Runs the gateway until SIGTERM or SIGINT, then lets answers in progress finish.

    With PostgreSQL, ends with code 1 if another gateway took over; a service manager then restarts it to wait.
    """
    import signal
    import threading

    with ui.needing("server"):
        from hermes.gateway.service import Gateway
        from hermes.http_server import raise_descriptor_limit

        raise_descriptor_limit()
    log_with_times()
    gateway = Gateway(context.home, port=given.port)  # waits while another gateway is active
    sys.setswitchinterval(_SWITCH_SECONDS)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    gateway.start()
    while not over.wait(1):
        if gateway.turn.lost.is_set():
            break
    logging.getLogger("hermes.gateway").info("stopping when the answers in progress are finished")
    if not gateway.stop():
        logging.getLogger("hermes.gateway").warning("some answers took too long; the next start continues with them")
        logging.shutdown()
        os._exit(ui.OK)  # messages are stored; threads that wait for a model have nothing to save
    return ui.REFUSED if gateway.turn.lost.is_set() else ui.OK


def gateway_status(given: ui.Given, context: ui.Context) -> int:
    """Prints whether a gateway runs, its platforms and its messages; exits with 1 if none runs."""
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
    """Makes a code that connects a chat account to a person; it is valid once, for an hour."""
    from hermes.gateway.ledger import PAIR

    with _directory(context) as directory:
        directory.people.home_of(given.name)
        code = directory.make_code(PAIR, given.name)
    document = {"person": given.name, "code": code, "good_for_seconds": 3600}
    ui.show(given, document, f"{given.name} sends this to the bot within an hour; it works once:\n\n    /pair {code}")


def gateway_unpair(given: ui.Given, context: ui.Context) -> None:
    """Disconnects a chat account from its person."""
    with _directory(context) as directory:
        directory.unlink(given.platform, given.account)
    line = f"{given.platform} account {given.account} no longer belongs to anybody"
    ui.show(given, {"platform": given.platform, "account": given.account}, line)


def gateway_people(given: ui.Given, context: ui.Context) -> None:
    """Lists the chat accounts that belong to people."""
    with _directory(context) as directory:
        accounts = directory.accounts()
    lines = [f"{each['person']:<20}  {each['platform']:<10} {each['account']}  (by {each['by']})" for each in accounts]
    nobody = "nobody yet; `hermes gateway pair NAME` makes a code that somebody sends to the bot"
    ui.show(given, accounts, *(lines or [nobody]))


@contextmanager
def _directory(context: ui.Context) -> Iterator[Directory]:
    """Opens the gateway's ledger and its list of accounts for one command."""
    from hermes.gateway.ledger import Directory, Ledger

    people = People(context.home)
    ledger = Ledger.open(context.home)
    try:
        yield Directory(people, context.settings, ledger, time.time)
    finally:
        ledger.database.close()


def mcp_serve(given: ui.Given, context: ui.Context) -> None:
    """Serves MCP over standard input and output, or with `--http` over HTTP."""
    if given.http:
        start(context, host=given.host or "", port=given.port, only_mcp=True)
        return
    gc.disable()  # importing the SDK makes 100,000 objects that stay; the collector would scan them repeatedly
    with ui.needing("server"):
        from hermes.server.mcp import build_server, serve_stdio
    gc.freeze()  # from now on the collector passes over everything that exists already
    gc.enable()
    import anyio

    from hermes.server.workspace import Workspace

    workspace = Workspace(context.home, source=given.source, project=given.project, cwd=os.getcwd())
    try:
        anyio.run(serve_stdio, build_server(lambda _context: workspace, recorded=given.recorded, asks=True))
    finally:
        workspace.close()


_LARGEST = 16 << 20  # bytes of what a hook sends


def mcp_install(given: ui.Given, context: ui.Context) -> int:
    """Adds Hermes to the configuration of an MCP host, once the command it writes there has answered."""
    changes = plan(given.host, this_copy(context.home), os.path.expanduser("~"))
    written = configured(given.host, os.path.expanduser("~"), changes)
    command = written.command if written else []
    try:
        tools = list_tools(command)
    except NotFound as error:
        title = HOSTS[given.host].title
        raise NotFound(f"nothing was changed, because {title} could not start Hermes: {error}") from error
    return _write(given, changes, tools, HOSTS[given.host].records if RECORDED in command else BY_MODEL)


def mcp_uninstall(given: ui.Given, context: ui.Context) -> int:
    """Removes Hermes from the configuration of an MCP host."""
    del context
    return _write(given, plan(given.host, None, os.path.expanduser("~")), [], "")


def _write(given: ui.Given, changes: list[Change], tools: list[str], records: str) -> int:
    """Shows the changes to a host's files, writes them if the person agrees, and says what the test found."""
    title = HOSTS[given.host].title
    agreed = bool(changes) and not given.dry_run and given.yes
    if changes and not given.dry_run and not given.yes and not given.json:
        for diff in _diffs(changes):
            ui.line(diff)
        agreed = ui.confirmed("Write this?")
    backups = carry_out(changes) if agreed else []
    lines = [f"tested as {title} will start it: it answers, with {len(tools)} tools"] if tools else []
    if not changes:
        lines.append(f"{title}: nothing to change")
    elif agreed:
        lines += [f"the previous file: {backup}" for backup in backups]
        lines.append(f"{title}: {f'done. Restart it. Conversations: {records}.' if tools else 'removed. Restart it.'}")
    else:
        lines += _diffs(changes) if given.dry_run else []
        lines.append("nothing was changed" + ("" if given.dry_run else "; --yes does it without asking"))
    document = {
        "host": given.host,
        "done": agreed or not changes,
        "files": [ui.pick(change, "path", "reason") for change in changes],
        "backups": backups,
        "tools": tools,
        "records": records,
    }
    ui.show(given, document, *lines)
    return ui.OK if agreed or not changes or given.dry_run else ui.REFUSED


def mcp_status(given: ui.Given, context: ui.Context) -> int:
    """Prints whether each MCP host is configured and its command answers; exits with 1 if there is a problem."""
    del context
    rows = [_state(host) for host in HOSTS]
    ui.show(given, rows, *(_told(row) for row in rows))
    return ui.REFUSED if any(row["problem"] for row in rows) else ui.OK


def _state(host: str) -> dict[str, Any]:
    """Whether a host is configured for Hermes, and whether its command still answers."""
    row: dict[str, Any] = {"host": host, "configured": False, "answers": None, "tools": [], "problem": None}
    try:
        found = configured(host, os.path.expanduser("~"))
        if found is None:
            return row
        row |= {"path": found.path, "command": found.command, "hooks": found.hooks}
        if not found.ours:
            row["problem"] = f"its server called hermes is another program: {shlex.join(found.command)}"
            return row
        row |= {"configured": True, "answers": False}
        row |= {"tools": list_tools(found.command), "answers": True}
        if RECORDED in found.command and not found.hooks:
            row["problem"] = f"no hook records its conversations; `hermes mcp install {host}` puts it there"
    except (NotFound, SettingsError, StorageError) as error:
        again = f". `hermes mcp install {host}` writes one that does" if row["configured"] else ""
        row["problem"] = f"{error}{again}"
    return row


def _told(row: dict[str, Any]) -> str:
    command = shlex.join(row.get("command", ()))
    if row["answers"]:
        said = f"answers, {len(row['tools'])} tools: {command}"
        return f"{row['host']:<16}{said}" + (f"\n{'':<16}{row['problem']}" if row["problem"] else "")
    return f"{row['host']:<16}{row['problem'] or 'not configured'}"


def _diffs(changes: list[Change]) -> Iterator[str]:
    """Yields the change of each file as a unified diff."""
    for change in changes:
        before = (change.before or b"").decode("utf-8", "replace").splitlines()
        after = change.after.decode("utf-8", "replace").splitlines()
        name = f"{change.path} ({change.reason})"
        lines = difflib.unified_diff(before, after, change.path if change.before else "nothing", name, lineterm="", n=1)
        yield "\n".join(lines) + "\n"


def mcp_record(given: ui.Given, context: ui.Context) -> int:
    """Records what a host's hook reports. Exits with 0 or 1 only: on 2, hosts block the prompt or continue the turn."""
    try:
        result = record(context.home, given.host, _payload(given))
    except HermesError as error:
        ui.failure(error, ui.REFUSED, as_json=given.json)
        return ui.REFUSED
    if given.json:
        ui.print_json(result)
    return ui.OK


def _payload(given: ui.Given) -> dict[str, Any]:
    """Reads the JSON object that a hook passes, from an option or from standard input."""
    text = given.payload if given.payload is not None else sys.stdin.buffer.read(_LARGEST)
    try:
        payload: Any = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"a hook sends a JSON object, and this is not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise SettingsError("a hook sends a JSON object, and this is something else")
    return payload
