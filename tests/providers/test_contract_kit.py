"""The contract kit: a decent provider passes it, and each way of breaking the contract fails it."""

# ruff: noqa: ARG002 - hooks are called with more than a test looks at

from __future__ import annotations

import os
import runpy
import socket
import threading
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from provider_plugins import REGISTERS, Notebook, install

from hermes.providers.discovery import available_providers, load_provider
from hermes.testing import PluginContract, ProviderContract, Reply, Scripted, temporary_home

if TYPE_CHECKING:
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.proves("providers.kit", "providers.contract")
class TestNotebook(ProviderContract):
    def make(self) -> Notebook:
        return Notebook()


@pytest.mark.proves("providers.kit", "providers.foreign")
class TestLedger(PluginContract):
    """Written for hermes-agent, put through the contract unchanged."""

    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.place = tmp_path_factory.mktemp("plugins")
        self.folder = str(install(self.place, "ledger", REGISTERS))

    def make(self) -> Any:
        return load_provider("ledger", str(self.place))


@pytest.mark.proves("providers.kit")
class TestTheExampleOfTheGuide(ProviderContract):
    def make(self) -> Any:
        example = os.path.join(ROOT, "docs", "examples", "own_provider.py")
        return runpy.run_path(example)["Diary"]()


@pytest.mark.proves("providers.discovery")
def test_every_bundled_provider_is_a_stranger_to_the_others() -> None:
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    listed = next(each["modules"] for each in contracts if each["name"] == "providers are independent")
    with temporary_home() as home:
        bundled = {f"hermes.providers.services.{each.name}" for each in available_providers(home)}
    assert bundled <= set(listed)


class _Impatient(Notebook):
    def is_available(self) -> bool:
        with socket.create_connection(("127.0.0.1", 9), timeout=1):
            return True


class _Talkative(Notebook):
    def prefetch(self, query: str, *, session_id: str = "") -> Any:
        return ["a", "list"]


class _Threaded(Notebook):
    def sync_turn(self, *given: Any, **more: Any) -> None:
        threading.Thread(target=threading.Event().wait, args=(0.2,), name="sneaky").start()


class _Greedy(Notebook):
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [{"name": "memory"}]


class _Fragile(Notebook):
    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        if action == "remove":
            raise NotImplementedError("cannot forget")


class _Careless(Notebook):
    def get_config_schema(self) -> list[dict[str, Any]]:
        return [{"key": "token", "secret": True}]


@pytest.mark.proves("providers.kit")
@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (_Impatient, "test_looking_whether_it_is_available_is_quick_and_needs_no_network"),
        (_Talkative, "test_it_recalls_text_and_nothing_but_text"),
        (_Threaded, "test_it_starts_no_thread_of_its_own"),
        (_Greedy, "test_its_tools_can_be_offered_to_a_model"),
        (_Fragile, "test_it_takes_turns_writes_ends_switches_and_delegated_work"),
        (_Careless, "test_its_set_up_fields_can_be_asked_and_are_really_saved"),
    ],
)
def test_each_breach_is_found(tmp_path: Path, kind: type[Notebook], test: str) -> None:
    class Contract(ProviderContract):
        seconds = 1.0

        def make(self) -> Notebook:
            return kind()

    with pytest.raises((AssertionError, TypeError, OSError)):
        getattr(Contract(), test)(tmp_path)


@pytest.mark.proves("providers.kit", "providers.process")
def test_a_plug_in_that_does_not_bear_a_process_of_its_own_is_found(tmp_path: Path) -> None:
    odd = REGISTERS.replace("self._lines.append(f", "import os; os._exit(1)  # ", 1)
    place = str(install(tmp_path / "theirs", "ledger", odd))

    class Contract(PluginContract):
        seconds = 30.0
        folder = place

    with pytest.raises(AssertionError, match="its process ended with status 1"):
        Contract().test_a_session_works_with_it_in_a_process_of_its_own(tmp_path)


@pytest.mark.proves("providers.kit")
def test_the_kit_has_a_home_and_a_model() -> None:
    with temporary_home() as home:
        assert [each.name for each in available_providers(home) if not each.bundled] == []
    assert Scripted([Reply(text="hi")]).name == "scripted"
