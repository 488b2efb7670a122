"""`bin/live NAME --url URL` tells its whole story: here with services on loopback that check every request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from honcho_service import HonchoService
from mem0_service import Mem0Service
from openviking_service import OpenVikingService
from retaindb_service import RetainDBService
from wire_server import KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from wire_server import WireService

TESTS = Path(__file__).parents[1]
SERVICES: dict[str, Callable[[], WireService]] = {
    "honcho": lambda: HonchoService(derives=True),
    "mem0": lambda: Mem0Service(hosted=True),
    "openviking": OpenVikingService,
    "retaindb": RetainDBService,
}


@pytest.mark.proves("services.live")
@pytest.mark.parametrize("name", SERVICES)
def test_a_running_service_is_tried_from_the_first_turn_to_the_last_person(name: str) -> None:
    with SERVICES[name]() as service:
        ran = tried(name, service.url)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[-1] == f"{name}: all of it works"
    assert sum(line.startswith("ok  ") for line in lines) == 16
    assert KEY not in ran.stdout + ran.stderr


@pytest.mark.proves("services.live")
def test_a_trial_that_fails_says_which_steps_and_ends_with_1() -> None:
    with HonchoService() as service:
        service.trouble = "down"
        ran = tried("honcho", service.url, "--patience", "0.3")
    assert ran.returncode == 1
    assert "FAIL the connection" in ran.stdout
    assert "honcho: FAILED: the connection, a turn is stored" in ran.stdout


def tried(name: str, url: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "live.main", name, "--url", url, "--key", KEY, "--pause", "0", *more]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False, timeout=100)
