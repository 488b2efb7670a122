"""What a provider's process has and has not: no terminal, none of our files, a limit, and no life of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hosted import configure, eventually, group_of, is_there, process_of, recalls
from provider_faults import order
from provider_plugins import install, told

from hermes.base.errors import ProviderEnded, ProviderError
from hermes.providers.hosting import Bounds, HostedProvider
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CURIOUS = """
import json, os, sys
from provider_faults import Misbehaving
from hermes.base.errors import ProviderError

class Curious(Misbehaving):
    name = "curious"

    def get_tool_schemas(self):
        look = {"type": "object", "properties": {"look": {"type": "string"}}}
        return [{"name": "curious_look", "description": "Look around.", "parameters": look}]

    def handle_tool_call(self, tool_name, args, **kwargs):
        return getattr(self, "_" + args["look"])()

    def _surroundings(self):
        with open(os.path.join(self._home, "written"), "w"):
            pass
        os.mkdir(os.path.join(self._home, "made"))
        held = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{each}")]
        inherited = [each for each in map(int, os.listdir("/proc/self/fd")) if each > 2
                     and os.path.exists(f"/proc/self/fd/{each}") and os.get_inheritable(each)]
        return {"held": held, "inherited": inherited, "tty": sys.stdin.isatty(), "session": os.getsid(0) == os.getpid(),
                "home": os.environ["HERMES_HOME"], "json": json.__file__, "cwd": os.getcwd()}

    def _farewell(self):
        print("the licence of key sk-ant-REPLACED has run out", flush=True)
        os._exit(5)

    def _helper(self):
        import subprocess
        subprocess.Popen(["sleep", "3600"])
        return "{}"

    def _limited(self):
        raise ProviderError("slow down", kind="limited", seconds=7.5, status=429)

    def _refused(self):
        raise ConnectionRefusedError("nobody there")

    def get_config_schema(self):
        return [{"key": "k", "default": object()}] if os.path.exists(os.path.join(self._home, "odd")) else []

    def backup_paths(self):
        return ["/somewhere/else"]


def register(ctx):
    ctx.register_memory_provider(Curious())
"""
CURIOUS = CURIOUS.replace("sk-ant-REPLACED", "sk-ant-api03-" + "a1B2" * 20)


@contextmanager
def started(home: Path) -> Iterator[HostedProvider]:
    install(home, "curious", CURIOUS)
    provider = HostedProvider("curious", str(home), str(home), Bounds(calls=30, deliveries=30))
    try:
        provider.wait_until_loaded()
        provider.initialize("s1", hermes_home=str(home), odd=object())
        yield provider
    finally:
        provider.end_process()


@pytest.fixture
def curious(home: Path) -> Iterator[HostedProvider]:
    with started(home) as provider:
        yield provider


def look(provider: HostedProvider, what: str) -> Any:
    return json.loads(provider.handle_tool_call("curious_look", {"look": what}))


@pytest.mark.proves("providers.process.private")
def test_it_has_no_terminal_and_none_of_our_files(home: Path) -> None:
    home.mkdir()
    with open(home / "ours", "w", encoding="ascii") as ours:
        os.set_inheritable(ours.fileno(), True)
        with started(home) as provider:
            found = look(provider, "surroundings")
    assert [each for each in found["held"] if each.split(":")[0] not in ("pipe", "socket", "/dev/null")] == []
    assert found["inherited"] == []
    assert (found["tty"], found["session"], found["home"]) == (False, True, str(home))
    assert (home / "written").stat().st_mode & 0o777 == 0o600
    assert (home / "made").stat().st_mode & 0o777 == 0o700


@pytest.mark.proves("providers.process.private")
def test_modules_in_the_folder_a_person_is_in_are_not_loaded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "hermes.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    with started(home) as provider:
        assert look(provider, "surroundings")["cwd"] == str(tmp_path)


@pytest.mark.proves("providers.process", "providers.process.restart")
def test_errors_keep_their_kind_and_its_last_words_are_told_without_secrets(
    home: Path, curious: HostedProvider
) -> None:
    with pytest.raises(ProviderError, match="slow down") as limited:
        look(curious, "limited")
    assert (limited.value.kind, limited.value.seconds, limited.value.status) == ("limited", 7.5, 429)
    with pytest.raises(OSError, match="nobody there") as refused:
        look(curious, "refused")
    assert type(refused.value).__name__ == "ConnectionRefusedError"
    with pytest.raises(ProviderEnded, match=r"status 5 \(the licence of key .* has run out\)"):
        look(curious, "farewell")
    with pytest.raises(ProviderEnded, match="status 5") as gone:
        look(curious, "limited")
    assert gone.value.passing
    curious.initialize("s2", hermes_home=str(home))
    with pytest.raises(ProviderError, match="slow down"):
        look(curious, "limited")
    configure(home, "curious", CURIOUS)
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.call_tool("curious_look", {"look": "farewell"})
        session.finish_turn("hi")
        (said,) = told(session)
    assert "licence" in said
    assert "a1B2a1B2" not in said


@pytest.mark.proves("providers.process")
def test_what_cannot_leave_the_process_is_told_with_the_way_out(home: Path, curious: HostedProvider) -> None:
    assert curious.get_config_schema() == []
    assert curious.backup_paths() == ["/somewhere/else"]
    (home / "odd").touch()
    with pytest.raises(ProviderError, match=r"cannot leave its process.*set memory\.provider_process to none"):
        curious.get_config_schema()


@pytest.mark.proves("providers.process.private")
@pytest.mark.parametrize("misdeed", ["", "keeps the interpreter"])
def test_it_goes_when_the_program_is_killed_whatever_it_is_doing(home: Path, misdeed: str) -> None:
    configure(home, recall_timeout=2)
    if misdeed:
        order(home, prefetch=misdeed)
    code = (
        "import sys, time\nfrom hermes.session.session import MemorySession\n"
        "session = MemorySession.open(sys.argv[1])\n"
        "session.prepare_turn('tea?')\nprint(session.external.status()[0]['process'], flush=True)\ntime.sleep(1000)\n"
    )
    program = subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    assert is_there(pid)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    eventually(lambda: not group_of(pid))


@pytest.mark.proves("providers.process.private", "providers.process.restart")
def test_one_that_died_while_nobody_asked_leaves_nothing_behind_and_comes_back(
    home: Path, curious: HostedProvider
) -> None:
    first = curious._process.pid
    look(curious, "helper")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: group_of(first) and not is_there(first))
    with pytest.raises(ProviderEnded, match="was ended by SIGKILL"):
        look(curious, "surroundings")
    eventually(lambda: not group_of(first))
    curious.initialize("s1", hermes_home=str(home))
    assert look(curious, "surroundings")["home"] == str(home)


@pytest.mark.proves("providers.process")
def test_one_that_hangs_while_it_is_loaded_is_given_up_and_ended(home: Path) -> None:
    install(home, "sleepy", "import time\ntime.sleep(1000)  # MemoryProvider")
    provider = HostedProvider("sleepy", str(home), str(home), Bounds(load=1))
    with pytest.raises(ProviderError, match="its process did not answer in time and was ended"):
        provider.wait_until_loaded()
    assert not group_of(provider._process.pid)


@pytest.mark.proves("providers.process")
def test_it_starts_from_a_folder_that_is_gone(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    (tmp_path / "gone").rmdir()
    with started(home) as provider, pytest.raises(ProviderError, match="slow down"):
        look(provider, "limited")
    monkeypatch.chdir(tmp_path)


@pytest.mark.proves("providers.process", "providers.shutdown")
def test_it_goes_with_its_session_also_when_it_will_not(home: Path) -> None:
    configure(home, provider_drain_timeout=0.2, provider_tool_timeout=2)
    with MemorySession.open(home) as session:
        assert recalls(session)
        decent = process_of(session)
    eventually(lambda: not is_there(decent))
    with MemorySession.open(home) as session:
        assert recalls(session)
        stubborn = process_of(session)
        order(home, sync_turn="waits for ever")
        session.prepare_turn("hello")
        session.finish_turn("hi")
    eventually(lambda: not is_there(stubborn))


@pytest.mark.proves("providers.none")
def test_without_a_plug_in_nothing_of_processes_is_loaded(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("memory:\n  provider: holographic\n")
    code = (
        "import sys\nfrom hermes.session.session import MemorySession\n"
        "with MemorySession.open(sys.argv[1]) as session: session.prepare_turn('tea?')\n"
        "print([name for name in sys.modules if 'hosting' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code, os.fspath(home)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
