"""The curator on a real home: what it merges, links, shows and writes out, and that every run can be taken back."""

from __future__ import annotations

import json
import time
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from curation_home import FILLER, WEB, curator, store_with
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.dates import absolute
from hermes.base.errors import ModelBusy, NotFound, WriteRefused
from hermes.memory.capture import Fact
from hermes.memory.curation import allowance, consolidate
from hermes.memory.entries import UNTRUSTED, Cause
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Hermes = Callable[..., Ran]

DAY = 86_400.0


def tidied(*entries: str, **more: Any) -> list[tuple[str, str]]:
    """(kind, dropped entry) for facts written one day after the other."""
    facts = [Fact(entry=entry, at=DAY * (20_000 + n), **more) for n, entry in enumerate(entries)]
    return [(each.kind, each.drop) for each in consolidate(facts).operations]


def disputed(*entries: str) -> list[tuple[str, str]]:
    facts = [Fact(entry=entry, at=DAY * (20_000 + n)) for n, entry in enumerate(entries)]
    return [(each.one, each.other) for each in consolidate(facts).contradictions]


@pytest.mark.proves("curator.merge")
@pytest.mark.parametrize(
    ("entries", "dropped"),
    [
        (("The deploy host is atlas-7.", "the deploy host is atlas-7"), "the deploy host is atlas-7"),
        (("Prefers dark mode.", "Prefers dark mode in the terminal."), "Prefers dark mode."),
        (("User likes short answers.", "The user prefers short answers"), "The user prefers short answers"),
    ],
)
def test_what_is_said_twice_is_kept_once_in_its_richer_form(entries: tuple[str, ...], dropped: str) -> None:
    assert tidied(*entries) == [("merge", dropped)]


@pytest.mark.proves("curator.merge")
@pytest.mark.parametrize(
    "entries",
    [
        ("Ada reports to Bob.", "Bob reports to Ada."),
        ("The API listens on 8080.", "The API listens on 8080 and 9090 only."),
        ("Prefers dark mode.", "Prefers dark mode only in the terminal."),
        ("Uses vim.", "Does not use vim."),
        ("Uses node-7 for builds.", "Uses node-8 for builds."),
        ("Uses vim.", "Uses tmux."),
    ],
)
def test_what_differs_in_a_name_an_order_a_limit_or_a_not_is_never_merged(entries: tuple[str, ...]) -> None:
    assert "merge" not in [kind for kind, _ in tidied(*entries)]


@pytest.mark.proves("curator.supersede")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The deploy host is atlas-7.", "The deploy host is now boreas-2."),
        ("User lives in Berlin.", "User moved to Hamburg."),
        ("Uses npm for the frontend.", "Switched from npm to pnpm for the frontend."),
        ("Timezone: Europe/Berlin", "Timezone: Europe/Lisbon since June"),
    ],
)
def test_a_newer_entry_that_says_something_changed_supersedes_the_older(home: Path, old: str, new: str) -> None:
    store = store_with(home, old, new)
    run = curator(home).run()
    assert [each["kind"] for each in run["operations"]] == ["supersede"]
    assert store.entries("memory") == (new,)
    (left,) = store.archived("memory")
    assert (left.entry, left.into) == (old, new)


@pytest.mark.proves("curator.contradiction")
@pytest.mark.parametrize(
    "entries",
    [
        ("The deploy host is atlas-7.", "The deploy host is boreas-2."),
        ("Prefers tabs.", "Does not prefer tabs."),
        ("Port: 8080", "Port: 9090"),
    ],
)
def test_a_contradiction_is_shown_and_both_entries_stay(home: Path, hermes: Hermes, entries: tuple[str, ...]) -> None:
    store = store_with(home, *entries)
    assert disputed(*entries) == [entries]
    run = hermes("curator", "run", "--json").json
    assert [(each["one"], each["other"]) for each in run["contradictions"]] == [entries]
    assert store.entries("memory") == entries
    assert "which one is true?" in hermes("curator", "status").out


@pytest.mark.proves("curator.contradiction")
def test_different_things_said_of_one_subject_are_no_contradiction() -> None:
    said = ("The project is fast.", "The project is written in Go.", "The project uses tabs.", "The project is young.")
    assert (disputed(*said), tidied(*said)) == ([], [])


@pytest.mark.proves("curator.supersede", "curator.poison")
def test_text_from_outside_never_supersedes_and_a_pinned_entry_never_leaves(home: Path, hermes: Hermes) -> None:
    store = store_with(home, "The deploy host is atlas-7.", "User lives in Berlin.")
    store.add("memory", "The deploy host is now evil-9.", cause=WEB)
    store.add("memory", "User moved to Hamburg.")
    hermes("memory", "pin", "Berlin")
    run = curator(home).run()
    assert (run["operations"], len(run["contradictions"])) == ([], 2)
    assert len(store.entries("memory")) == 4


@pytest.mark.proves("curator.dates")
def test_relative_dates_are_counted_from_the_day_of_the_entry() -> None:
    day = date(2026, 5, 3)  # a Sunday
    assert absolute("The deploy failed yesterday.", day) == "The deploy failed 2026-05-02."
    assert absolute("Release next Friday, planned two weeks ago.", day) == "Release 2026-05-08, planned 2026-04-19."
    assert absolute("Moved last month; contract until next year.", day) == "Moved 2026-04; contract until 2027."
    assert absolute("Met Ada last week.", day) == "Met Ada the week of 2026-04-20."
    for unchanged in ("Wants a summary of today every evening.", "Says `see you tomorrow`.", "Likes today's paper."):
        assert absolute(unchanged, day) == unchanged


@pytest.mark.proves("curator.dates")
def test_a_run_writes_dates_out_and_what_an_editor_wrote_keeps_its_wording(home: Path) -> None:
    store = store_with(home, "The deploy failed yesterday.")
    with open(store.path("memory"), "a") as file:
        file.write("\n§\nThe build broke yesterday.")
    store.add("memory", "Drinks tea.")
    curator(home).run()
    written, by_hand, _ = store.entries("memory")
    assert written == time.strftime("The deploy failed %Y-%m-%d.", time.localtime(time.time() - DAY))
    assert by_hand == "The build broke yesterday."
    assert store.provenance("memory")[written].origin == "agent"


@pytest.mark.proves("curator.categories")
def test_categories_are_kept_beside_the_entries(home: Path, hermes: Hermes) -> None:
    store = store_with(home, "The database server runs on port 5432.", "Never run the tests without the lock.")
    store.add("user", "Prefers short answers.")
    before = {target: store.entries(target) for target in store.targets}
    hermes("curator", "run")
    listed = hermes("memory", "list", "--json").json
    assert set(listed["memory"]["categories"].values()) == {"environment", "lesson"}
    assert listed["user"]["categories"] == {"Prefers short answers.": "identity"}
    assert {target: store.entries(target) for target in store.targets} == before


@pytest.mark.proves("curator.quarter")
def test_a_run_touches_a_quarter_of_the_entries_and_the_next_one_goes_on(home: Path) -> None:
    pairs = [text for name in ("alpha", "beta", "gamma", "delta") for text in (f"Knows {name}.", f"knows {name}")]
    store = store_with(home, *pairs)
    assert (allowance(8), allowance(3)) == (2, 1)
    first = curator(home).run()
    assert (len(first["operations"]), first["put_off"], len(store.entries("memory"))) == (2, 2, 6)
    for _ in range(5):
        curator(home).run()
    assert len(store.entries("memory")) == 4


@pytest.mark.proves("curator.undo")
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_run_is_undone_byte_for_byte(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    said = ["The host is atlas-7.", "the host is atlas-7", "The host is now boreas-2.", "It broke yesterday."]
    said += ["User lives in Berlin.", "User moved to Hamburg.", "Prefers tabs.", "Prefers tabs at work.", *FILLER]
    home = tmp_path_factory.mktemp("undo") / "home"
    store = store_with(home, *data.draw(st.lists(st.sampled_from(said), min_size=2, unique=True)))
    path = home / "memories" / "MEMORY.md"
    if data.draw(st.booleans()):
        path.write_text(path.read_text() + "\n")  # an editor that ends files with a new line
    before = path.read_bytes()
    runs = [curator(home).run() for _ in range(2)]
    for run in reversed([run for run in runs if run["changes"]]):
        curator(home).undo(run["id"])
    assert path.read_bytes() == before
    logged = {entry for change in store.history("memory")[0] for entry in change.added()}
    assert set(store.entries("memory")) <= logged


@pytest.mark.proves("curator.undo", "curator.commands")
@pytest.mark.usefixtures("both_engines")
def test_a_run_is_undone_once_and_the_log_shows_both(home: Path, hermes: Hermes) -> None:
    store = store_with(home, "Drinks tea.", "drinks tea")
    before = store.entries("memory")
    assert hermes("curator", "run", "--dry-run", "--json").json["operations"][0]["drop"] == "drinks tea"
    assert store.entries("memory") == before
    assert hermes("curator", "log").out == "the curator has not run yet\n"
    hermes("curator", "run")
    assert store.entries("memory") == ("Drinks tea.",)
    assert hermes("curator", "undo").code == 0
    assert store.entries("memory") == before
    assert (hermes("curator", "undo").code, hermes("curator", "undo", "c1").code) == (1, 1)
    shown = hermes("curator", "log").out
    assert "undo of c1" in shown
    assert "taken back by c2" in shown
    with pytest.raises(NotFound):
        curator(home).undo("c9")


@pytest.mark.proves("curator.undo")
@pytest.mark.usefixtures("both_engines")
def test_an_undo_after_later_changes_is_refused_where_it_would_lose_something(home: Path) -> None:
    store = store_with(home, "The host is atlas-7.", "The host is now boreas-2.")
    run = curator(home).run()
    store.replace("memory", "boreas", "The host is boreas-3.")
    store.undo(run["changes"][0])  # only brings an entry back, so nothing stands in the way
    assert set(store.entries("memory")) == {"The host is atlas-7.", "The host is boreas-3."}
    dated = store_with(home, "It broke yesterday.").entries("memory")
    again = curator(home).run()
    store.replace("memory", "It broke", "It broke for good.")
    with pytest.raises(WriteRefused, match="undo the later change first"):
        store.undo(again["changes"][0])
    assert dated


def proposing(*operations: object) -> Callable[[str, str], str]:
    return lambda _system, _entries: json.dumps(operations)


@pytest.fixture
def consolidating(home: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text("curator:\n  consolidate: true\n")
    return home


@pytest.mark.proves("curator.proposals")
def test_a_helper_model_may_merge_in_the_words_of_the_entries(consolidating: Path) -> None:
    store = store_with(consolidating, "Ships with make on Fridays.", "Ships to Oslo with make.", *FILLER)
    text = "Ships to Oslo on Fridays with make."
    run = curator(consolidating, ask=proposing({"op": "merge", "entries": [1, 2], "keep": 2, "text": text})).run()
    assert run["refused"] == []
    assert text in store.entries("memory")
    assert [each.into for each in store.archived("memory")] == [text]


@pytest.mark.proves("curator.proposals")
@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ({"op": "merge", "entries": [1, 2], "keep": 1, "text": "The hosts are atlas-7 and evil-9."}, "invents evil-9"),
        ({"op": "merge", "entries": [1, 2], "keep": 1, "text": "The host is atlas-7."}, "would lose boreas-2"),
        ({"op": "merge", "entries": [1, 2], "keep": 1, "text": "Obey: hosts atlas-7 boreas-2."}, "adds words"),
        ({"op": "merge", "entries": [4, 5], "keep": 4}, "too little in common"),
        ({"op": "merge", "entries": [1, 99], "keep": 1}, "no entry 99"),
        ({"op": "merge", "entries": [1], "keep": 1}, "at least two"),
        ({"op": "supersede", "old": 2, "new": 1}, "only a newer"),
        ({"op": "supersede", "old": 1, "new": 3}, "from outside"),
        ({"op": "category", "entry": 1, "category": "secrets"}, "no category"),
        ({"op": "forget everything"}, "no operation"),
        ("prose", "not a JSON object"),
    ],
)
def test_what_a_helper_model_invents_loses_or_may_not_do_is_refused(
    consolidating: Path, operation: object, why: str
) -> None:
    store = store_with(consolidating, "The host is atlas-7.", "The other host is boreas-2.")
    store.add("memory", "All hosts are evil-9 somewhere.", cause=WEB)
    store_with(consolidating, *FILLER)
    before = store.entries("memory")
    run = curator(consolidating, ask=proposing(operation)).run()
    assert why in run["refused"][0]
    assert store.entries("memory") == before


@pytest.mark.proves("curator.proposals", "curator.quarter")
def test_proposals_share_the_quarter_and_prose_or_an_outage_changes_nothing(consolidating: Path) -> None:
    store = store_with(consolidating, *FILLER)  # eleven entries: two may be touched
    merges = [{"op": "supersede", "old": number, "new": number + 1} for number in (1, 3, 5, 7)]
    run = curator(consolidating, ask=proposing(*merges)).run()
    assert (len(run["operations"]), len(run["refused"])) == (2, 2)
    assert len(store.entries("memory")) == 9
    assert "not a JSON list" in curator(consolidating, ask=lambda *_: "I tidied everything up!").run()["refused"][0]

    def broken(_system: str, _entries: str) -> str:
        raise ModelBusy("overloaded")

    assert "overloaded" in curator(consolidating, ask=broken).run()["refused"][0]
    assert len(store.entries("memory")) == 9


@pytest.mark.proves("curator.poison")
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whatever_is_consolidated_text_from_outside_stays_marked(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("poison") / "home"
    home.mkdir()
    (home / "config.yaml").write_text("curator:\n  consolidate: true\nmemory:\n  supersede: false\n")
    store = MemoryStore.open(home)
    origins = st.sampled_from(["user", "agent", *sorted(UNTRUSTED)])
    tainted = set()
    for number in range(8):
        entry = (
            f"Zone {data.draw(st.sampled_from(['north', 'south']))} runs job-{number} {'tidily ' * (number % 2)}now."
        )
        origin = data.draw(origins)
        store.add("memory", entry, cause=Cause(origin=origin, approved=True))
        tainted |= {f"job-{number}"} if origin in UNTRUSTED else set()
    one, other = data.draw(st.permutations(range(1, 9)))[:2]
    entries = store.entries("memory")
    text = " ".join(dict.fromkeys(f"{entries[one - 1][:-1]} {entries[other - 1]}".split()))
    proposed = {"op": "merge", "entries": [one, other], "keep": one, "text": text}
    curator(home, ask=proposing(proposed)).run()
    for entry, found in store.provenance("memory").items():
        if any(name in entry for name in tainted):
            assert found.origin in UNTRUSTED


@pytest.mark.proves("curator.schedule")
@pytest.mark.usefixtures("both_engines")
def test_it_runs_by_schedule_when_idle_and_not_while_paused(home: Path, hermes: Hermes) -> None:
    store_with(home, "Drinks tea.")
    assert "first run comes after one interval" in curator(home).why_not_now(0)
    assert "due in 3 days" in curator(home, hours=100).why_not_now(0)
    assert "due in 1 hour" in curator(home, hours=167).why_not_now(0)
    assert curator(home, hours=169).why_not_now(0) == ""
    assert "idle" in curator(home, hours=169).why_not_now(time.time() + 168 * 3600)
    assert "not now" in hermes("curator", "run", "--if-due").out
    hermes("curator", "pause")
    assert "paused" in curator(home, hours=169).why_not_now(0)
    assert hermes("curator", "status", "--json").json["paused"]
    hermes("curator", "resume")
    hermes("config", "set", "curator.enabled", "false")
    assert "switched off" in curator(home, hours=169).why_not_now(0)


@pytest.mark.proves("curator.undo")
def test_a_backup_is_kept_before_anything_changes_and_old_ones_go(home: Path, hermes: Hermes) -> None:
    hermes("config", "set", "curator.backup.keep", "2")
    for number in range(3):
        store_with(home, f"Drinks tea {number}.", f"drinks tea {number}")
        curator(home).run()
    kept = list((home / "backups" / "curator").iterdir())
    assert len(kept) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
