"""A full store never blocks a save: what leaves, why, and how it comes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.errors import WriteRefused
from hermes.memory import entries as text
from hermes.memory.entries import PIN, Cause
from hermes.memory.store import MemoryStore
from hermes.safety.scanner import scan
from hermes.session.parts import find_archived
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Hermes = Callable[..., Ran]

DEPLOY = "The deploy host is atlas-7 and runs Debian 12."
LONG = "x" * 900


def filled(home: Path, *entries: str, limit: int = 1000, cause: Cause | None = None) -> MemoryStore:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(f"memory:\n  memory_char_limit: {limit}\n")
    store = MemoryStore.open(home)
    for entry in entries:
        store.add("memory", entry, cause=cause)
    return store


def archived(store: MemoryStore) -> list[str]:
    return [each.entry for each in store.archived("memory")]


@pytest.mark.proves("archive.full")
@pytest.mark.usefixtures("both_engines")
def test_a_full_store_takes_the_new_entry_and_says_what_left_and_why(
    home: Path, hermes: Hermes, remember: Callable[..., dict[str, Any]]
) -> None:
    filled(home, DEPLOY, LONG)
    saved = remember(action="add", content="The tests run with xdist.\n" + "y" * 40)
    assert saved["success"]
    assert [each["entry"] for each in saved["archived"]] == [DEPLOY]
    assert "least valuable" in saved["archived"][0]["reason"]
    assert "not pinned" in saved["message"]
    assert "archived 'The deploy host is atlas-7" in hermes("memory", "log").out
    assert hermes("memory", "log", "--json").json[0]["archived"][0]["entry"] == DEPLOY


@pytest.mark.proves("archive.budget", "archive.full")
@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(categories=["L", "N", "Zs"]), min_size=1, max_size=80), max_size=12))
def test_whatever_is_saved_the_limit_holds_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, contents: list[str]
) -> None:
    store = filled(tmp_path_factory.mktemp("full") / "home", limit=200)
    # Strings of our sources are among the examples, and some of them are attacks, which no store saves.
    saved = [entry for content in contents if (entry := text.trim(content)) and scan(entry).level == "clean"]
    for entry in saved:
        store.add("memory", entry)
    live = store.entries("memory")
    assert text.size(live) <= 200
    assert {*live, *archived(store)} == set(saved)


@pytest.mark.proves("archive.full")
def test_an_entry_that_could_never_fit_is_refused(home: Path) -> None:
    store = filled(home, DEPLOY, limit=100)
    with pytest.raises(WriteRefused, match="has 101 characters; the limit for memory is 100") as refused:
        store.add("memory", "z" * 101)
    assert refused.value.kind == "too_long"
    with pytest.raises(WriteRefused, match="no entry may have more than 100,000") as refused:
        store.add("memory", "z" * 100_001)
    assert refused.value.kind == "too_long"
    batch = [{"action": "remove", "old_text": "atlas"}, {"action": "add", "content": "y" * 102}]
    with pytest.raises(WriteRefused, match="has 102 characters"):
        store.apply("memory", batch)
    assert store.entries("memory") == (DEPLOY,)


@pytest.mark.proves("archive.worth")
@pytest.mark.usefixtures("both_engines")
def test_a_pinned_entry_never_leaves_not_even_when_it_was_reworded(home: Path, hermes: Hermes) -> None:
    store = filled(home, DEPLOY, LONG)
    assert hermes("memory", "pin", "atlas").code == 0
    store.replace("memory", "atlas", DEPLOY.replace("12", "13"), cause=Cause(origin="agent"))
    store.add("memory", "y" * 80)
    assert archived(store) == [LONG]
    assert "   1 *The deploy host is atlas-7 and runs Debian 13." in hermes("memory", "list").out
    hermes("memory", "unpin", "atlas")
    store.add("memory", LONG[:890])
    assert DEPLOY.replace("12", "13") in archived(store)


@pytest.mark.proves("archive.worth")
def test_when_everything_else_is_pinned_the_write_is_refused_with_the_reason(home: Path, hermes: Hermes) -> None:
    store = filled(home, DEPLOY, LONG)
    hermes("memory", "pin", "atlas")
    hermes("memory", "pin", "xxx")
    with pytest.raises(WriteRefused, match="pinned"):
        store.add("memory", "y" * 80)


@pytest.mark.proves("archive.worth")
def test_what_came_from_outside_leaves_before_what_a_person_said(home: Path) -> None:
    store = filled(home, "Prefers tabs.", cause=Cause(origin="user"))
    store.add("memory", "A page says so.", cause=Cause(origin="web", approved=True))
    store.add("memory", LONG)
    store.add("memory", "y" * 70)
    assert archived(store) == ["A page says so."]


@pytest.mark.proves("archive.worth")
def test_what_was_of_use_stays_longer(home: Path) -> None:
    store = filled(home, "Uses the old cluster.", "Uses the new cluster.", LONG)
    store.marks_file("memory").add("use", ["Uses the old cluster."])
    store.add("memory", "y" * 50)
    assert archived(store) == ["Uses the new cluster."]


@pytest.mark.proves("archive.found")
@pytest.mark.usefixtures("both_engines")
def test_archived_entries_are_listed_and_restored(home: Path, hermes: Hermes) -> None:
    store = filled(home, DEPLOY, LONG)
    store.add("memory", "y" * 60)
    assert hermes("memory", "list", "--archived", "--json").json["memory"][0]["entry"] == DEPLOY
    assert DEPLOY in hermes("memory", "list", "--archived").out
    assert hermes("memory", "restore", "nothing like it").code == 1
    assert hermes("memory", "restore", "atlas-7").code == 0
    assert DEPLOY in store.entries("memory")
    assert DEPLOY not in archived(store)
    assert text.size(store.entries("memory")) <= 1000


@pytest.mark.proves("archive.found")
@pytest.mark.usefixtures("both_engines")
def test_a_search_finds_archived_memory_and_the_second_one_brings_it_back(home: Path) -> None:
    filled(home, DEPLOY, LONG).add("memory", "y" * 60)
    with MemorySession.open(home) as session:
        session.prepare_turn("which host do we deploy to?")
        first = json.loads(session.call_tool("session_search", {"query": "which deploy host?"}))
        assert [each["entry"] for each in first["archived_memory"]] == [DEPLOY]
        second = json.loads(session.call_tool("session_search", {"query": "deploy host Debian"}))
        assert second["archived_memory"][0]["restored"]
        third = json.loads(session.call_tool("session_search", {"query": "deploy host Debian"}))
        assert DEPLOY not in [each["entry"] for each in third.get("archived_memory", [])]
        session.finish_turn("atlas-7")
    assert DEPLOY in MemoryStore.open(home).entries("memory")


@pytest.mark.proves("archive.origin")
def test_text_from_outside_does_not_come_back_clean(home: Path) -> None:
    poison = "The admin page wants this."
    store = filled(home, poison, LONG, cause=Cause(origin="web", approved=True))
    store.add("memory", "y" * 90, cause=Cause(origin="agent"))
    assert archived(store) == [poison]
    store.restore("memory", "admin page", cause=Cause(origin="agent"))
    assert store.provenance("memory")[poison].origin == "web"
    store.remove("memory", "admin page", cause=Cause(origin="agent"))
    store.add("memory", poison, cause=Cause(origin="agent"))
    assert store.provenance("memory")[poison].origin == "web"
    assert store.provenance("memory")["y" * 90].origin == "agent"


@pytest.mark.proves("archive.one-change")
def test_undo_takes_the_write_and_the_archiving_back_together_and_again(home: Path) -> None:
    store = filled(home, DEPLOY, LONG)
    before = (home / "memories" / "MEMORY.md").read_bytes()
    change = store.add("memory", "y" * 60).change
    assert change is not None
    undone = store.undo(change.id).change
    assert (home / "memories" / "MEMORY.md").read_bytes() == before
    assert archived(store) == []
    assert undone is not None
    store.undo(undone.id)
    assert archived(store) == [DEPLOY]
    restored = store.restore("memory", DEPLOY).change
    assert restored is not None
    store.undo(restored.id)
    assert DEPLOY in archived(store)


@pytest.mark.proves("archive.budget")
def test_a_file_that_was_overfilled_by_hand_enters_the_prompt_only_as_far_as_it_fits(home: Path) -> None:
    filled(home, limit=200)
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text("\n§\n".join(f"Note {number} " + "n" * 60 for number in range(9)))
    shown = MemoryStore.open(home).snapshot("memory").split("═\n")[-1]
    assert "7 more of MEMORY.md do not fit and are not shown" in shown
    assert len(shown.rpartition("\n§\n")[0]) <= 200


@pytest.mark.proves("archive.found")
def test_what_is_not_in_the_archive_is_said_with_the_command_that_lists_it(hermes: Hermes) -> None:
    refused = hermes("memory", "restore", "never said")
    assert refused.code == 1
    assert "hermes memory list --archived" in refused.err


@pytest.mark.proves("archive.found")
def test_words_that_several_archived_entries_have_restore_none_of_them(home: Path, hermes: Hermes) -> None:
    store = filled(home, "The red kite nests here.", "The red barn is full.", LONG)
    store.add("memory", "z" * 990)
    assert len(archived(store)) == 3
    refused = hermes("memory", "restore", "The red")
    assert refused.code != 0
    assert "2 archived entries contain 'The red'" in refused.err
    assert len(archived(store)) == 3
    (home / "config.yaml").write_text("memory:\n  memory_char_limit: 2000\n")
    assert hermes("memory", "restore", "The red kite").code == 0


@pytest.mark.proves("archive.found")
def test_a_question_without_words_finds_nothing_in_the_archive(home: Path) -> None:
    store = filled(home, DEPLOY, LONG)
    store.add("memory", "y" * 90)
    assert find_archived(store, "?! …", "s") == []
    assert [each["entry"] for each in find_archived(store, "which deploy host", "s")] == [DEPLOY]


@pytest.mark.proves("archive.full")
def test_no_more_leaves_than_must(home: Path) -> None:
    store = filled(home, "The small one.", LONG[:600], limit=700)
    store.add("memory", "w" * 500)
    assert archived(store) == [LONG[:600]]
    assert store.entries("memory") == ("The small one.", "w" * 500)


@pytest.mark.proves("archive.budget")
def test_pinned_entries_that_do_not_fit_together_enter_the_prompt_from_the_first_on(home: Path) -> None:
    store = filled(home, *(f"Note {number} " + "n" * 60 for number in range(9)))
    store.marks_file("memory").add(PIN, list(store.entries("memory")))
    shown = filled(home, limit=200).snapshot("memory")
    assert [f"Note {number} " in shown for number in range(4)] == [True, True, False, False]
    assert "7 more of MEMORY.md do not fit and are not shown" in shown
