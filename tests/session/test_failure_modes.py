"""Document 003, table "Failure Modes": which test shows each row, and the rows that no other file shows."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING, Any

import pytest

from hermes.gateway.service import LOCK
from hermes.memory.store import MemoryStore
from hermes.storage.files import Folder
from hermes.storage.locks import FileLock
from project.test_requirements import all_tests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

ROWS = {
    "Built-in memory disabled": ("test_a_switched_off_target_is_refused_and_both_off_make_the_tool_unavailable",),
    "Memory file missing": (
        "test_an_empty_home_has_no_entries_no_snapshot_and_is_not_written_to",
        "test_add_appends_an_entry_and_shows_the_live_state",
    ),
    "Duplicate add": ("test_an_exact_duplicate_is_a_success_without_a_second_entry",),
    "Over capacity": ("test_a_write_over_the_limit_is_refused_with_entries_and_usage",),
    "Multiple substring matches": (
        "test_several_different_matches_are_refused_with_previews",
        "test_identical_matches_count_as_one_and_the_first_is_taken",
    ),
    "Injection/exfil pattern": ("test_a_threat_is_refused_with_its_class_and_nothing_is_stored",),
    "External drift": ("test_a_file_in_another_form_is_backed_up_once_and_every_write_refused",),
    "File lock unavailable": ("test_where_files_cannot_be_locked_work_goes_on_without",),
    "Atomic write fails": (
        "test_a_write_that_fails_is_an_error_result_and_leaves_the_file_as_it_was",
        "test_a_failing_system_call_never_loses_anything",
    ),
    "External provider not configured": ("test_without_a_provider_nothing_is_started",),
    "Provider is_available() false": ("test_a_provider_that_is_not_available_is_not_activated",),
    "Provider init fails": (
        "test_a_provider_that_does_not_start_leaves_the_session_running_and_gets_everything_later",
    ),
    "Provider prefetch fails": ("test_recall_that_fails_leaves_the_turn_as_it_is_and_is_told_once",),
    "Provider sync fails": ("test_an_outage_in_the_middle_of_a_conversation_loses_nothing",),
    "Provider tool throws": ("test_whatever_a_tool_does_the_model_gets_json",),
    "Second external provider": ("test_a_second_provider_needs_a_list",),
    "Provider mode is tools": ("test_the_three_modes_hold_for_every_provider",),
    "Provider mode is context": ("test_the_three_modes_hold_for_every_provider",),
    "Provider budget too small": (
        "test_whatever_recall_returns_or_raises_the_turn_goes_on",
        "test_several_providers_share_the_budget_and_repeat_nothing",
    ),
    "First external-memory turn": ("test_recall_warmed_in_the_background_comes_one_turn_later",),
    "Session switch during prefetch": (
        "test_one_sessions_recall_never_shows_in_another_in_a_thousand_interleavings",
        "test_a_session_that_follows_another_takes_over_its_providers",
    ),
    "Interrupted turn": ("test_an_interrupted_or_empty_turn_leaves_no_trace",),
    "Session DB unavailable": (
        "test_a_broken_database_gives_a_formatted_error",
        "test_a_session_opens_over_a_damaged_database_and_is_stored_after_the_repair",
        "test_where_a_lock_keeps_readers_out_the_model_is_told_at_once",
    ),
    "WAL incompatible filesystem": (
        "test_without_shared_memory_the_store_works_in_another_journal_mode",
        "test_a_file_system_that_fails_at_shared_memory_gets_a_rollback_journal_and_one_warning",
    ),
    "FTS query fails": (
        "test_syntax_that_does_not_parse_is_searched_as_words_and_the_result_says_so",
        "test_a_broken_database_gives_a_formatted_error",
    ),
    "CJK short query": ("test_any_script_is_found_inside_words",),
    "Background review setup issue": ("test_a_failing_review_is_shown_by_status_and_leaves_the_conversation_alone",),
    "Streaming memory fence unterminated": ("test_an_open_end_is_discarded_and_the_scrubber_is_ready_again",),
    "OpenClaw source missing": ("test_without_a_source_the_places_are_named_and_nothing_is_written",),
    # "OpenClaw migration script missing" cannot happen: the migration is part of the program.
    "OpenClaw/Hermes gateway still running": (
        "test_a_running_openclaw_and_gateway_are_named",
        "test_a_gateway_that_runs_is_named_before_a_migration",
    ),
    "Migration conflicts": ("test_what_differs_is_a_conflict_until_overwriting_is_asked_for",),
    "Secret migration expected from --preset full": (
        "test_secrets_come_over_only_when_asked_and_only_those_on_the_list",
    ),
}


@pytest.mark.internal("the list above")
def test_every_row_is_shown_by_tests_that_exist() -> None:
    there = {name.partition("::")[2] for name, _, _ in all_tests()}
    assert {name for names in ROWS.values() for name in names} - there == set()


@pytest.mark.proves("failure.no-locks")
def test_where_files_cannot_be_locked_work_goes_on_without(
    home: Path, remember: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert remember(action="add", content="Uses pytest.")["success"]
    assert remember(action="replace", old_text="pytest", content="Uses tox.")["success"]
    assert MemoryStore.open(home).entries("memory") == ("Uses tox.",)


@pytest.mark.proves("failure.write")
def test_a_write_that_fails_is_an_error_result_and_leaves_the_file_as_it_was(
    home: Path, remember: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    remember(action="add", content="Uses pytest.")
    before = sorted(os.listdir(home / "memories"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", disk_full)
        patched.setattr(os, "fdatasync", disk_full)
        refused = remember(action="add", content="Uses tox.")
    assert (refused["success"], "No space left" in refused["error"]) == (False, True)
    assert (home / "memories" / "MEMORY.md").read_text(encoding="utf-8") == "Uses pytest."
    assert sorted(os.listdir(home / "memories")) == before
    assert remember(action="add", content="Uses tox.")["entries"] == ["Uses pytest.", "Uses tox."]


@pytest.mark.proves("failure.no-source")
def test_without_a_source_the_places_are_named_and_nothing_is_written(
    home: Path, hermes: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = hermes("claw", "migrate", "--yes")
    assert (ran.code, home.exists()) == (1, False)
    assert all(name in ran.err for name in (".openclaw", ".clawdbot", ".moltbot", "--source"))


@pytest.mark.proves("failure.gateway")
def test_a_gateway_that_runs_is_named_before_a_migration(
    home: Path, hermes: Callable[..., Ran], tmp_path: Path
) -> None:
    source = tmp_path / "claw" / "workspace"
    source.mkdir(parents=True)
    (source / "MEMORY.md").write_text("- found it\n", encoding="utf-8")
    preview = ("claw", "migrate", "--dry-run", "--json", "--source", str(source.parent))
    assert not any("gateway" in each for each in hermes(*preview).json["warnings"])
    (home / "gateway").mkdir(parents=True)
    folder = Folder.open(str(home / "gateway"))
    assert folder is not None
    with folder, FileLock(folder, LOCK, timeout=0):
        assert any("gateway" in each for each in hermes(*preview).json["warnings"])
