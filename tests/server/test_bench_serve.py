"""`hermes bench serve`: the figures are there, from real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Ran


@pytest.mark.internal("figures are published from it, so it has to run")
def test_the_load_runs_against_both_servers_without_an_error(hermes: Callable[..., Ran]) -> None:
    words = ("--people", "3", "--seconds", "1", "--latency", "0.05", "--think", "0.1", "--json")
    figures = hermes("bench", "serve", *words).json
    assert (figures["serve_errors"], figures["echo_errors"]) == (0, 0)
    assert figures["serve_turns"] >= 3
    assert figures["p95_over_echo"] > 0
