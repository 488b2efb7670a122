"""Short runs of what `bin/soak curated` does for hours."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from soak import arguments, faults, kills, obstacles, power, powercut, rawbytes, writers
from soak.common import Options

if TYPE_CHECKING:
    from pathlib import Path

    from soak.common import Outcome

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the fault shim is compiled with cc")

needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse") or not shutil.which("mkfs.ext4") or not power.may_mount(),
    reason="only root may mount a disk",
)


@pytest.mark.proves("durable.kill")
def test_every_acknowledged_write_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    assert_held(kills.run(100, options(tmp_path)), acknowledged=25)


@needs_compiler
@pytest.mark.proves("durable.fault")
def test_a_failing_system_call_never_loses_anything(tmp_path: Path) -> None:
    (outcome,) = faults.run(options(tmp_path), part="faults", errors="EIO", stride=37)
    assert_held(outcome, cases=150)


@needs_compiler
@pytest.mark.proves("durable.kill")
def test_a_kill_at_any_system_call_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    (outcome,) = faults.run(options(tmp_path), part="kills", stride=43)
    assert_held(outcome, cases=60)


@needs_compiler
@pytest.mark.proves("durable.recovery")
def test_trouble_during_recovery_loses_nothing(tmp_path: Path) -> None:
    (outcome,) = faults.run(options(tmp_path), part="recovery", operations="add", stride=29)
    assert_held(outcome, cases=20)


@pytest.mark.proves("durable.power")
def test_the_history_is_whole_again_after_a_power_cut(tmp_path: Path) -> None:
    assert_held(powercut.run(40, options(tmp_path)), **{"records cut off": 20})


@needs_mounts
@pytest.mark.proves("durable.power", "sessions.durable")
def test_what_was_acknowledged_is_there_after_a_power_cut_on_a_real_file_system(tmp_path: Path) -> None:
    outcome = power.cuts("ext4", 8, options(tmp_path))
    assert_held(outcome, **{"acknowledged messages": 20, "acknowledged changes": 20, "sectors lost": 1})


@pytest.mark.proves("durable.writers", "durable.strangers")
def test_many_writers_with_shells_and_editors_beside_them_lose_nothing(tmp_path: Path) -> None:
    assert_held(writers.run(1, options(tmp_path), crowd=8, writes=20), entries=200, **{"strangers' lines": 3})


@pytest.mark.proves("durable.obstacles", "durable.private")
def test_what_stands_in_place_of_a_file_is_never_followed_out(tmp_path: Path) -> None:
    assert_held(obstacles.run(options(tmp_path)), cases=90)


@pytest.mark.proves("durable.bytes", "durable.round_trip")
def test_any_bytes_are_read_or_refused_and_never_lost(tmp_path: Path) -> None:
    assert_held(rawbytes.run(400, options(tmp_path)), files=40)


@pytest.mark.proves("durable.arguments")
def test_any_arguments_lead_to_a_result(tmp_path: Path) -> None:
    assert_held(arguments.run(3_000, options(tmp_path)), accepted=100, refused=1_000)


def options(folder: Path) -> Options:
    """Memory where there is some: what is shown here does not depend on the speed of a disk, the time it takes does."""
    return Options(folder="/dev/shm" if os.access("/dev/shm", os.W_OK) else str(folder), quiet=True)


def assert_held(outcome: Outcome, **at_least: int) -> None:
    """Nothing failed, and enough was tried for that to mean something."""
    assert outcome.failures == []
    for figure, expected in at_least.items():
        assert outcome.figures[figure] >= expected, outcome.figures
