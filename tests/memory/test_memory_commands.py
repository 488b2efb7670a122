"""`hermes memory …` as a person uses it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from hermes.memory.entries import USE
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]
    Remember = Callable[..., dict[str, Any]]


@pytest.mark.proves("curated.add", "curated.json")
def test_what_was_added_is_listed_for_people_and_for_scripts(home: Path, hermes: Command) -> None:
    assert hermes("memory", "add", "Uses zsh").out == "Entry added. (memory: 0% — 8/2,200 chars, change m1)\n"
    hermes("memory", "add", "--target", "user", "Two\nlines")
    assert hermes("memory", "list").out == (
        "memory  0% — 8/2,200 chars\n   1  Uses zsh\nuser  0% — 9/1,375 chars\n   1  Two\n      lines\n"
    )
    assert hermes("memory", "list", "--target", "user", "--json").json == {
        "user": {
            "entries": ["Two\nlines"],
            "usage": "0% — 9/1,375 chars",
            "limit": 1375,
            "file": str(home / "memories" / "USER.md"),
            "problem": None,
            "origins": {"Two\nlines": "user"},
            "pinned": [],
            "categories": {},
            "archived": 0,
        }
    }


@pytest.mark.proves("curated.replace", "curated.remove", "curated.no-match")
def test_entries_are_replaced_and_removed_and_a_miss_is_exit_code_1(hermes: Command) -> None:
    hermes("memory", "add", "Uses zsh")
    assert hermes("memory", "replace", "zsh", "Uses fish").code == 0
    missed = hermes("memory", "remove", "zsh")
    assert (missed.code, missed.out) == (1, "")
    assert missed.err.startswith("hermes: no entry contains 'zsh'")
    hermes("memory", "add", "--target", "user", "Likes zsh.")
    assert "--target names another" in hermes("memory", "remove", "zsh").err
    assert "--target names another" in hermes("memory", "replace", "zsh", "Likes fish.").err
    assert hermes("memory", "remove", "--target", "user", "zsh").code == 0
    assert hermes("memory", "remove", "fish", "--json").json["entries"] == []


@pytest.mark.proves("curated.add", "curated.remove")
def test_several_words_are_one_text(hermes: Command) -> None:
    assert hermes("memory", "add", "I", "use", "vim", "--target", "user").code == 0
    assert hermes("memory", "list", "--target", "user", "--json").json["user"]["entries"] == ["I use vim"]
    assert hermes("memory", "remove", "use", "vim", "--target", "user", "--json").json["entries"] == []
    unclear = hermes("memory", "replace", "vim", "I", "use", "emacs")  # where would the old text end?
    assert (unclear.code, "in quotes" in unclear.err) == (2, True)


@pytest.mark.proves("curated.numbers")
def test_entries_are_shown_replaced_and_removed_by_their_number_in_the_list(hermes: Command) -> None:
    for entry in ("Uses zsh", "Uses zsh at work", "Port 8080"):
        hermes("memory", "add", entry)
    assert hermes("memory", "show", "2", "--json").json["entry"] == "Uses zsh at work"
    # a number counts whole entries, so that one which is part of another is found as well
    assert hermes("memory", "remove", "1").out.startswith("Entry removed. It was 'Uses zsh'. (memory: ")
    replaced = hermes("memory", "replace", "1", "Uses fish at work", "--json").json
    assert replaced["entries"] == ["Uses fish at work", "Port 8080"]
    assert hermes("memory", "pin", "2").out == "pinned: Port 8080 (memory)\n"
    hermes("memory", "undo")
    hermes("memory", "undo")
    assert hermes("memory", "list", "--json").json["memory"]["entries"] == ["Uses zsh", "Uses zsh at work", "Port 8080"]


@pytest.mark.proves("curated.numbers")
def test_a_number_that_is_no_position_or_is_given_as_text_is_looked_for_in_the_entries(hermes: Command) -> None:
    hermes("memory", "add", "Two of 2")
    hermes("memory", "add", "Port 8080")
    assert hermes("memory", "show", "8080", "--json").json["number"] == 2
    assert hermes("memory", "show", "2", "--text", "--json").json["entry"] == "Two of 2"
    assert hermes("memory", "remove", "--text", "2", "--json").json["entries"] == ["Port 8080"]
    missed = hermes("memory", "remove", "7")
    assert missed.code == 1
    assert "no entry contains '7' in memory; `hermes memory list`" in missed.err
    for entry in ("one", "two"):
        hermes("memory", "add", "--target", "user", entry)
    for words in (("show", "2"), ("remove", "2"), ("replace", "2", "three")):
        assert "no entry contains '2' in memory; " in hermes("memory", *words).err
    assert "It was 'Port 8080'" in hermes("memory", "remove", "8080").out


@pytest.mark.proves("curated.show")
def test_one_entry_is_shown_whole_with_origin_date_and_last_use(
    home: Path, hermes: Command, remember: Remember
) -> None:
    remember(action="add", content="Deploys on Fridays.\nNever on Mondays.")
    shown = hermes("memory", "show", "Fridays").out
    assert shown.startswith("Deploys on Fridays.\nNever on Mondays.\n\nentry     1 of 1 in memory, 37 characters\n")
    assert "\norigin    agent\nadded     20" in shown
    assert ", change m1\nlast use  not since it was added\n" in shown
    MemoryStore.open(home).marks_file("memory").add(USE, ["Deploys on Fridays.\nNever on Mondays."])
    hermes("memory", "pin", "1")
    known = hermes("memory", "show", "1", "--json").json
    assert (known["origin"], known["change"], known["uses"], known["pinned"]) == ("agent", "m1", 1, True)
    assert known["last_used"] >= known["at"]
    later = hermes("memory", "show", "1").out
    assert ("(uses: 1)" in later, later.endswith("marks     pinned\n")) == (True, True)
    unclear = hermes("memory", "show", "Tuesdays")
    assert (unclear.code, "no entry contains 'Tuesdays'" in unclear.err) == (1, True)


@pytest.mark.proves("curated.too-long")
def test_an_entry_longer_than_the_limit_is_told_its_own_length(hermes: Command, remember: Remember) -> None:
    hermes("memory", "add", "--target", "user", "Lives in Oslo.")
    refused = hermes("memory", "add", "--target", "user", "word " * 329)
    assert refused.code == 1
    assert "has 1,644 characters; the limit for user memory is 1,375. Shorten it" in refused.err
    assert "full" not in refused.err
    told = remember(action="add", content="The deploy runs on Friday at noon. " * 70)
    assert "has 2,449 characters; the limit for memory is 2,200" in told["error"]


@pytest.mark.proves("curated.history", "curated.json")
def test_the_log_tells_who_when_before_and_after(hermes: Command, remember: Remember) -> None:
    remember(action="add", content="Uses zsh")
    hermes("memory", "replace", "zsh", "Uses fish")
    newest, oldest = hermes("memory", "log").out.split("m1  ")
    assert newest.startswith("m2  ")
    assert "memory  replace by user (from the command line)\n    - Uses zsh\n    + Uses fish\n" in newest
    assert oldest.endswith("memory  add by agent\n    + Uses zsh\n")
    only = hermes("memory", "log", "--grep", "fish", "--json").json
    assert [(each["id"], each["origin"], each["removed"], each["added"]) for each in only] == [
        ("m2", "user", ["Uses zsh"], ["Uses fish"])
    ]
    assert only[0]["at"] == pytest.approx(time.time(), abs=3600)
    assert [each["id"] for each in hermes("memory", "log", "--json").json] == ["m2", "m1"]
    assert [each["id"] for each in hermes("memory", "log", "--limit", "1", "--json").json] == ["m2"]


@pytest.mark.proves("curated.undo")
def test_undo_goes_back_step_by_step(hermes: Command) -> None:
    hermes("memory", "add", "one")
    hermes("memory", "add", "--target", "user", "two")
    hermes("memory", "replace", "one", "three")
    assert "Change m2 (replace) undone." in hermes("memory", "undo").out
    assert "Change u1 (add) undone." in hermes("memory", "undo").out
    assert "Change m1 (add) undone." in hermes("memory", "undo").out
    nothing = hermes("memory", "undo")
    told = "hermes: there is nothing left to undo; `hermes memory undo m4` takes the last undo back\n"
    assert (nothing.code, nothing.err) == (1, told)
    assert hermes("memory", "undo", "m4").out.startswith("Change m4 (undo) undone.")
    assert hermes("memory", "list", "--target", "memory", "--json").json["memory"]["entries"] == ["one"]


@pytest.mark.proves("curated.undo", "curated.history")
def test_undo_and_log_go_by_order_when_the_clock_jumps_back(hermes: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    with monkeypatch.context() as clock:
        clock.setattr("time.time", lambda: now + 4 * 365 * 86_400)
        hermes("memory", "add", "--target", "user", "written in the far future")
    hermes("memory", "add", "written last")
    assert [each["id"] for each in hermes("memory", "log", "--json").json] == ["m1", "u1"]
    assert "Change m1 (add) undone." in hermes("memory", "undo").out


@pytest.mark.proves("curated.undo")
def test_an_unknown_change_is_not_found(hermes: Command) -> None:
    assert hermes("memory", "undo", "m99").err == "hermes: nothing has changed yet\n"
    assert hermes("memory", "log").out == "nothing has changed yet\n"
    hermes("memory", "add", "one")
    assert hermes("memory", "log", "--grep", "two").out == "no change matches; `hermes memory log` shows all\n"
    assert "there is no change m99" in hermes("memory", "undo", "m99").err


@pytest.mark.proves("curated.diff", "curated.json")
def test_diff_shows_one_change_or_everything_since(hermes: Command) -> None:
    for entry in ("one", "two"):
        hermes("memory", "add", entry)
    hermes("memory", "replace", "one", "ONE")
    assert hermes("memory", "diff").out.endswith("\n    - one\n    + ONE\n")
    assert hermes("memory", "diff", "m2", "--json").json["added"] == ["two"]
    assert hermes("memory", "diff", "--since", "m2", "--json").json == {
        "change": "m2",
        "target": "memory",
        "removed": ["one"],
        "added": ["ONE", "two"],
    }
    assert "since m2" in hermes("memory", "diff", "--since", "m2").out


@pytest.mark.proves("curated.reset", "curated.undo")
def test_forgetting_everything_asks_first_and_can_be_undone(hermes: Command) -> None:
    for entry in ("one", "two"):
        hermes("memory", "add", entry)
    refused = hermes("memory", "reset")
    assert (refused.code, "use --yes" in refused.err) == (1, True)
    assert hermes("memory", "reset", "--yes", "--target", "memory", "--json").json[0]["entries"] == []
    hermes("memory", "undo")
    assert hermes("memory", "list", "--json").json["memory"]["entries"] == ["one", "two"]


@pytest.mark.proves("curated.approval", "curated.json")
def test_a_staged_write_waits_for_a_person_and_keeps_its_origin(
    home: Path, hermes: Command, remember: Remember
) -> None:
    hermes("config", "set", "memory.write_approval", "on")
    staged = remember(action="add", content="Uses zsh")
    assert (staged["success"], staged["staged"]) == (True, True)
    assert hermes("memory", "list", "--json").json["memory"]["entries"] == []
    (waiting,) = hermes("memory", "pending", "--json").json
    assert (waiting["id"], waiting["origin"], waiting["operations"]) == (
        staged["pending_id"],
        "agent",
        [{"action": "add", "content": "Uses zsh"}],
    )
    assert "add 'Uses zsh'" in hermes("memory", "pending").out
    assert hermes("memory", "approve", staged["pending_id"]).code == 0
    assert hermes("memory", "list", "--json").json["memory"]["entries"] == ["Uses zsh"]
    assert hermes("memory", "log", "--json").json[0]["note"] == "approved by the user"
    assert hermes("memory", "log", "--json").json[0]["origin"] == "agent"
    assert hermes("memory", "pending").out == "nothing is pending\n"
    assert hermes("memory", "approve", staged["pending_id"]).code == 1


@pytest.mark.proves("curated.approval")
def test_a_rejected_write_is_gone(hermes: Command, remember: Remember) -> None:
    hermes("config", "set", "memory.write_approval", "on")
    remember(operations=[{"action": "add", "content": "a"}, {"action": "add", "content": "b"}])
    assert len(hermes("memory", "pending", "--json").json[0]["operations"]) == 2
    assert len(hermes("memory", "reject", "--all", "--json").json) == 1
    assert hermes("memory", "pending", "--json").json == []
    assert hermes("memory", "approve").code == 2


@pytest.mark.proves("curated.approval")
def test_what_waits_already_waits_once(hermes: Command, remember: Remember) -> None:
    hermes("config", "set", "memory.write_approval", "on")
    first = remember(action="add", content="Uses zsh")
    assert remember(action="add", content="Uses zsh")["pending_id"] == first["pending_id"]
    assert remember(action="add", content="Uses fish")["pending_id"] != first["pending_id"]
    assert len(hermes("memory", "approve", "--all", "--json").json) == 2
    assert hermes("memory", "approve", "--all").out == "nothing is pending\n"
    assert hermes("memory", "approve", "--all", "--json").json == []


@pytest.mark.proves("curated.approval")
def test_the_staged_record_has_the_fields_that_hermes_agent_writes(
    home: Path, hermes: Command, remember: Remember
) -> None:
    hermes("config", "set", "memory.write_approval", "on")
    staged = remember(action="add", content="Uses zsh")
    record = json.loads((home / "pending" / "memory" / f"{staged['pending_id']}.json").read_text())
    assert {"id", "subsystem", "action", "summary", "origin", "created_at", "payload"} <= set(record)
    assert record["payload"] == {"action": "add", "content": "Uses zsh", "target": "memory"}


@pytest.mark.proves("curated.approval-closed")
def test_a_write_that_would_be_refused_is_not_staged(hermes: Command, remember: Remember) -> None:
    hermes("config", "set", "memory.write_approval", "on")
    assert "no entry contains" in remember(action="remove", old_text="nowhere")["error"]
    assert "a line with only §" in remember(action="add", content="a\n§\nb")["error"]
    assert hermes("memory", "pending", "--json").json == []


@pytest.mark.proves("curated.approval-closed")
def test_unreadable_settings_stop_the_tool_instead_of_opening_the_gate(home: Path, hermes: Command) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("memory:\n  write_approval: maybe\n")
    ran = hermes("tool", "memory", '{"action": "add", "target": "memory", "content": "x"}')
    assert (ran.code, "write_approval" in ran.err) == (2, True)
    assert not (home / "memories").exists()


@pytest.mark.proves("curated.approval")
def test_an_unreadable_staged_write_is_reported_and_does_not_hide_the_others(
    home: Path, hermes: Command, remember: Remember
) -> None:
    hermes("config", "set", "memory.write_approval", "on")
    remember(action="add", content="Uses zsh")
    (home / "pending" / "memory" / "00000000.json").write_text("{}")
    ran = hermes("memory", "pending")
    assert ("Uses zsh" in ran.out, "00000000.json" in ran.err) == (True, True)
    assert hermes("memory", "status", "--json").json["unreadable_pending"] != []


@pytest.mark.proves("curated.status", "curated.json")
def test_status_tells_files_usage_pending_writes_and_problems(home: Path, hermes: Command) -> None:
    hermes("memory", "add", "Uses zsh")
    (home / "memories" / "USER.md").write_bytes(b"caf\xe9")
    status = hermes("memory", "status", "--json").json
    assert status["files"]["memory"]["usage"] == "0% — 8/2,200 chars"
    assert "not UTF-8" in status["files"]["user"]["problem"]
    printed = hermes("memory", "status").out
    assert "1 entry, 1 change in the log" in printed
    assert "write approval is off; 0 writes pending" in printed
    hermes("config", "set", "memory.user_profile_enabled", "off")
    assert "user    switched off" in hermes("memory", "status").out


@pytest.mark.proves("curated.history")
def test_a_damaged_record_is_left_out_and_said_so(home: Path, hermes: Command) -> None:
    for entry in ("one", "two"):
        hermes("memory", "add", entry)
    journal = home / "memories" / "MEMORY.md.history.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"one", b"eno", 1))
    ran = hermes("memory", "log", "--json")
    assert [each["id"] for each in ran.json] == ["m2"]
    assert "1 records of the memory history are damaged" in ran.err


@pytest.mark.proves("curated.approval")
def test_every_kind_of_pending_change_says_what_it_would_do(hermes: Callable[..., Ran]) -> None:
    hermes("memory", "add", "Uses zsh.")
    hermes("config", "set", "memory.write_approval", "on")
    for change in (
        '{"action": "replace", "target": "memory", "old_text": "zsh", "content": "Uses fish."}',
        '{"action": "remove", "target": "memory", "old_text": "zsh"}',
    ):
        hermes("tool", "memory", change)
    shown = hermes("memory", "pending").out
    assert "replace 'zsh' by 'Uses fish.'" in shown
    assert "remove 'zsh'" in shown
    (first, second) = [each["id"] for each in hermes("memory", "pending", "--json").json]
    assert f"{second} rejected: " in hermes("memory", "reject", second).out
    assert hermes("memory", "approve", first).code == 0
    assert "Uses fish." in hermes("memory", "list").out


@pytest.mark.proves("bench.all")
def test_a_short_measurement_of_writes_and_starts_shows_ratios_and_targets(hermes: Callable[..., Ran]) -> None:
    shown = hermes("bench", "curated", "--adds", "2", "--starts", "1")
    assert shown.code == 0, shown.err
    assert "add, wall, over write+fsync+rename+fsync" in shown.out
    assert "not measured" in shown.out
