"""Providers are found without running them, and those written for hermes-agent load unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from provider_plugins import REGISTERS, SUBCLASS, install

from hermes.base.errors import NotFound, ProviderError
from hermes.providers.base import MemoryProvider
from hermes.providers.discovery import available_providers, load_commands, load_provider
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = """\
name: ledger
version: 1.2.0
description: "Keeps a ledger"
pip_dependencies: [ledger-client]
external_dependencies:
  - name: ledgerd
    install: "curl ledger.example | sh"
    check: "ledgerd --version"
hooks: [sync_turn]
"""


@pytest.mark.internal("tests must not depend on whose machine they run on")
def test_no_test_sees_the_home_of_whoever_runs_it(nobodys_home: Path) -> None:
    assert os.path.expanduser("~") == str(nobodys_home)
    assert not any(name.startswith(("HONCHO_", "HINDSIGHT_")) for name in os.environ)


@pytest.mark.proves("providers.discovery")
def test_what_is_there_is_listed_with_its_manifest_and_without_running_it(home: Path) -> None:
    install(home, "ledger", "raise SystemExit  # MemoryProvider", plugin_yaml=MANIFEST)
    install(home, "something-else", "print('no memory here')")
    install(home, "holographic", "# MemoryProvider: tries to take a bundled name")
    install(home, "torn", "# MemoryProvider", plugin_yaml="name: [")
    found = {each.name: each for each in available_providers(str(home))}
    assert "something-else" not in found
    ledger = found["ledger"]
    assert (ledger.version, ledger.description, ledger.bundled) == ("1.2.0", "Keeps a ledger", False)
    assert ledger.pip_dependencies == ("ledger-client",)
    assert ledger.external_dependencies[0]["name"] == "ledgerd"
    assert "not valid YAML" in found["torn"].problem
    assert all(each.bundled for each in found.values() if each.name == "holographic")


@pytest.mark.proves("providers.foreign")
def test_a_plug_in_that_registers_itself_loads_unchanged_and_works_in_a_session(home: Path) -> None:
    install(home, "ledger", REGISTERS)
    (home / "config.yaml").write_text("memory:\n  provider: ledger\n")
    with MemorySession.open(home) as session:
        session.prepare_turn("I bought tea")
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Buys tea."})
        session.finish_turn("noted")
        session.external.manager.flush()  # type: ignore[union-attr]
        assert "user said: I bought tea" in session.prepare_turn("what?").messages[-1]["content"]
        assert json.loads(session.call_tool("ledger_read", {"line": 0}))["line"] == "add user: Buys tea."
        assert json.loads(session.call_tool("ledger_read", {"line": 99}))["error"] == "no such line"
        session.finish_turn("tea")
    assert "user said: what?" in (home / "ledger.txt").read_text()


@pytest.mark.proves("providers.foreign")
def test_a_plug_in_that_only_has_a_subclass_loads_with_its_own_files(home: Path) -> None:
    install(home, "greeter", SUBCLASS, words_py="def greeting():\n    return 'Say hello.'\n")
    provider = load_provider("greeter", str(home))
    assert isinstance(provider, MemoryProvider)
    (home / "config.yaml").write_text("memory:\n  provider: greeter\n")
    with MemorySession.open(home) as session:
        assert "Say hello." in session.prepare_turn("hi").messages[-1]["content"]
        assert not [name for name in (tool["function"]["name"] for tool in session.request().tools) if "greet" in name]


@pytest.mark.proves("providers.foreign")
def test_borrowed_names_never_stand_before_real_ones(home: Path, tmp_path: Path) -> None:
    """A program with packages of its own called `agent` and `tools` keeps them."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("own = True")
    (tmp_path / "agent.py").write_text("own = True")
    code = (
        "from hermes.providers.discovery import offer_names; offer_names(); import agent, tools; "
        "from tools.registry import tool_error; print(agent.own, tools.own, tool_error('x'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == 'True True {"error": "x"}\n'


@pytest.mark.proves("providers.foreign")
def test_a_provider_without_our_base_class_is_taken_when_it_has_the_members(home: Path) -> None:
    code = (
        "class P:\n    name = 'duck'\n    def is_available(self): return True\n    def initialize(self, s, **k): pass\n"
    )
    code += "    def get_tool_schemas(self): return []\n    def prefetch(self, q): return 'Quack.'\n"
    code += "def register(ctx): ctx.register_memory_provider(P())\n"
    install(home, "duck", code)
    (home / "config.yaml").write_text("memory:\n  provider: duck\n")
    with MemorySession.open(home) as session:
        assert "Quack." in session.prepare_turn("hi").messages[-1]["content"]
        session.finish_turn("quack")


@pytest.mark.proves("providers.discovery")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nowhere  # MemoryProvider", "ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 'MemoryProvider'", "registers no memory provider"),
        ("def register(ctx): ctx.register_memory_provider(object())", "is not a memory provider: it lacks name"),
        ("def register(ctx): ctx.register_memory_provider; raise SystemExit(2)", "SystemExit"),
    ],
)
def test_what_does_not_load_says_why(home: Path, code: str, why: str) -> None:
    install(home, "broken", code)
    with pytest.raises(ProviderError, match=why):
        load_provider("broken", str(home))


@pytest.mark.proves("providers.discovery")
@pytest.mark.parametrize("name", ["../evil", "nobody", "plugins/x", ""])
def test_a_name_never_leads_out_of_the_folder(home: Path, name: str) -> None:
    install(home, "ledger", REGISTERS)
    with pytest.raises(NotFound, match="there is no memory provider"):
        load_provider(name, str(home))


@pytest.mark.proves("providers.discovery")
def test_two_homes_may_have_plug_ins_of_one_name(tmp_path: Path) -> None:
    for number in ("1", "2"):
        install(tmp_path / number, "greeter", SUBCLASS, words_py=f"def greeting():\n    return 'Home {number}.'\n")
    first, second = (load_provider("greeter", str(tmp_path / number)) for number in ("1", "2"))
    assert (first.prefetch(""), second.prefetch("")) == ("Home 1.", "Home 2.")
    assert load_commands("greeter", str(tmp_path / "1")) is None
