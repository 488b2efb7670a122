"""The contract kit, which authors of providers run too, on a provider of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from service_scenarios import configure

from hermes.providers.discovery import available_providers, load_provider
from hermes.testing import ProviderContract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service_scenarios import ServiceScenarios


class ServiceContract(ProviderContract):
    """The contract kit on a provider of a service; `scenarios` says how it is configured."""

    scenarios: ClassVar[type[ServiceScenarios]]

    @pytest.fixture(autouse=True)
    def _served(self) -> Iterator[None]:
        with self.scenarios().make() as self.service:
            yield

    def make(self) -> Any:
        return load_provider(self.scenarios.name, "")

    def prepare(self, home: str) -> None:
        configure(self.scenarios(), self.service, home)

    @pytest.mark.proves("services.contract")
    def test_it_comes_with_hermes_and_is_available_once_configured(self, home: Path) -> None:
        self.prepare(str(home))
        assert self.scenarios.name in [each.name for each in available_providers(str(home))]
        assert self.make().is_available()
