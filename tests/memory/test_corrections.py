"""Facts that change: a correction takes the place of what it replaces, in memory and in search, and nothing is lost."""

from __future__ import annotations

import glob
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.facts import corrections
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.claims import Said, superseded
from hermes.conversations.database import SessionDB
from hermes.conversations.retrieval import Criteria
from hermes.conversations.session_search import SessionSearch
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Ran

    Hermes = Callable[..., Ran]

SETS = [
    path
    for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "..", "data", "corrections", "*.jsonl")))
    if not os.path.basename(path).startswith("examples")  # pairs without a question, for training
]
# Nothing was learnt from the sets that were kept apart: the figures that the guide states are their floors.
FLOORS = {
    "held-out.jsonl": (0.71, 0.65, 0.18),
    "held-out-2.jsonl": (0.5, 0.55, 0.26),
    "held-out-3.jsonl": (0.69, 0.7, 0.11),
}
WEB = Cause(origin="web", approved=True)
JANUARY, MARCH = 1_768_200_000.0, 1_772_400_000.0


@pytest.mark.proves("facts.corrections")
@pytest.mark.parametrize("path", SETS, ids=os.path.basename)
def test_hand_written_corrections_are_recognised_and_similar_facts_stay_apart(path: str) -> None:
    figures = corrections(path)
    found, independent = figures["corrections"], figures["independent"]
    in_search, in_memory, mistaken = FLOORS.get(os.path.basename(path), (0.93, 0.93, 0.04))
    assert found["right_in_search"] >= in_search
    assert found["right_in_memory"] >= in_memory
    assert found["kept"] == found["messages"]
    assert independent["folded"] + independent["replaced"] <= mistaken * independent["pairs"]


@pytest.mark.proves("facts.consolidation")
def test_fact_consolidation_is_measured_from_a_file(tmp_path: Path, hermes: Hermes) -> None:
    facts = ["Thomas Kyd was born in the city of London.", "The capital of Michigan is Detroit."]
    facts += ["The capital of Michigan is Lansing.", "Thomas Kyd was born in the city of Leeds."]
    asked = [{"question": "Which city was Thomas Kyd born in?", "answers": ["Leeds"]}]
    asked += [{"question": "What is the capital of Michigan?", "answers": ["Lansing"]}]
    (tmp_path / "facts.json").write_text(json.dumps([{"set": "small", "facts": facts, "questions": asked}]))
    figures = hermes("bench", "facts", str(tmp_path / "facts.json"), "--json").json["small"]
    assert (figures["right"], figures["current_shown"]) == (1.0, 1.0)
    assert figures["kept"] == figures["facts"] == 4
    (tmp_path / "facts.json").write_text("[1]")
    assert "FactConsolidation" in hermes("bench", "facts", str(tmp_path / "facts.json")).err


@pytest.mark.proves("facts.supersede")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Lisbon.", "I live in Porto."),
        ("Works at Acme", "Works at Globex"),
        ("The API port is 8080", "The API port is 9090"),
        ("My manager is Ann.", "My manager is Bob now."),
    ],
)
def test_a_plain_new_value_takes_the_place_of_the_old_one(home: Path, old: str, new: str) -> None:
    store = MemoryStore.open(home)
    for text in (old, new):
        store.add("memory", text, cause=Cause(origin="user"))
    assert store.entries("memory") == (new,)


@pytest.mark.proves("facts.supersede")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Fact 0: alpha bravo charlie", "Fact 1: delta echo foxtrot"),
        ("Infrastructure: Deploy host runs Debian 12", "Infrastructure: Backups at 03:00 to the NAS in the cellar"),
        ("deploy host runs debian 12 too", "Infrastructure: Deploy host runs Debian 12"),
        ("Likes jazz", "Likes sushi"),
        ("Allergic to nuts", "Allergic to shellfish"),
    ],
)
def test_two_things_under_one_label_or_of_one_kind_both_stay(home: Path, old: str, new: str) -> None:
    store = MemoryStore.open(home)
    for text in (old, new):
        store.add("memory", text, cause=Cause(origin="user"))
    assert store.entries("memory") == (old, new)


@pytest.mark.proves("facts.supersede", "facts.history")
def test_what_a_person_corrects_leaves_the_prompt_and_stays_one_step_away(home: Path, hermes: Hermes) -> None:
    hermes("memory", "add", "I live in Lyon.", "--target", "user")
    said = hermes("memory", "add", "I moved to Oslo.", "--target", "user").out
    assert "'I live in Lyon.' (superseded" in said
    prompt = MemoryStore.open(home).snapshot("user")
    assert "Oslo" in prompt
    assert "Lyon" not in prompt
    shown = hermes("memory", "show", "Oslo", "--target", "user", "--history")
    assert "until 20" in shown.out
    assert "I live in Lyon." in shown.out
    (earlier,) = hermes("memory", "show", "Oslo", "--target", "user", "--json").json["earlier"]
    assert earlier["entry"] == "I live in Lyon."
    assert earlier["since"] <= earlier["until"]
    assert "- I live in Lyon." in hermes("memory", "log").out
    hermes("memory", "undo")
    assert MemoryStore.open(home).entries("user") == ("I live in Lyon.",)


@pytest.mark.proves("facts.supersede")
def test_a_running_prompt_stays_and_hears_of_the_correction_after_it(home: Path, hermes: Hermes) -> None:
    hermes("memory", "add", "The deploy branch is main")
    with MemorySession.open(home) as session:
        before = session.prepare_turn("Hello.")
        session.finish_turn("Hello.")
        hermes("memory", "add", "We deploy from the release branch now, not main")
        after = session.prepare_turn("Which branch do we deploy from?")
        assert after.system == before.system
        assert after.messages[: len(before.messages)] == before.messages
        told = str(after.messages[-1]["content"])
    assert "new: We deploy from the release branch now" in told
    assert "no longer: The deploy branch is main" in told


@pytest.mark.proves("facts.conflicts")
def test_when_it_is_not_sure_both_stay_and_the_person_settles_it(home: Path, hermes: Hermes) -> None:
    for content in ("The deploy host is atlas-7.", "The deploy host is boreas-2."):
        result = hermes("tool", "memory", f'{{"target": "memory", "action": "add", "content": "{content}"}}').json
    assert result["conflicts"] == ["The deploy host is atlas-7."]
    assert "ask which one holds" in result["message"]
    (conflict,) = hermes("memory", "conflicts", "--json").json
    assert (conflict["old"], conflict["new"]) == ("The deploy host is atlas-7.", "The deploy host is boreas-2.")
    listed = hermes("memory", "conflicts").out
    assert "atlas-7" in listed
    assert "boreas-2" in listed
    assert hermes("memory", "conflicts", "--settle", "2").code == 1
    hermes("memory", "conflicts", "--settle", "1", "--keep", "both")
    assert hermes("memory", "conflicts", "--json").json == []
    assert len(MemoryStore.open(home).entries("memory")) == 2


@pytest.mark.proves("facts.conflicts")
@pytest.mark.parametrize(("keep", "left"), [("new", "boreas-2"), ("old", "atlas-7")])
def test_the_entry_that_is_not_kept_goes_to_the_archive(home: Path, hermes: Hermes, keep: str, left: str) -> None:
    store = MemoryStore.open(home)
    for host in ("atlas-7", "boreas-2"):
        store.add("memory", f"The deploy host is {host}.")
    hermes("memory", "conflicts", "--settle", "1", "--keep", keep)
    assert store.entries("memory") == (f"The deploy host is {left}.",)
    (gone,) = store.archived("memory")
    assert gone.into == f"The deploy host is {left}."


@pytest.mark.proves("facts.trust")
def test_text_from_outside_a_pin_or_a_longer_entry_keep_an_entry_where_it_is(home: Path, hermes: Hermes) -> None:
    store = MemoryStore.open(home)
    person = Cause(origin="user")
    store.add("memory", "The deploy host is atlas-7.", cause=person)
    assert store.add("memory", "The deploy host is now evil-9.", cause=WEB).conflicts == (
        "The deploy host is atlas-7.",
    )
    store.add("memory", "The standup is at 9:30. Priya leads it.", cause=person)
    assert len(store.add("memory", "Standup is at 10 from now on.", cause=person).conflicts) == 1
    store.add("user", "User lives in Lyon.", cause=person)
    hermes("memory", "pin", "Lyon")
    assert store.add("user", "User moved to Oslo.", cause=person).conflicts == ("User lives in Lyon.",)
    assert (len(store.entries("memory")), len(store.entries("user"))) == (4, 2)
    hermes("config", "set", "memory.supersede", "false")
    store = MemoryStore.open(home)
    assert store.add("memory", "The port is 8080.", cause=person).conflicts == ()
    assert store.add("memory", "The port is now 9090.", cause=person).conflicts == ("The port is 8080.",)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB.open(tmp_path / "state.db") as opened:
        yield opened


def say(db: SessionDB, name: str, at: float, *messages: dict[str, Any]) -> None:
    session = db.create_session(source="cli", session_id=name, started_at=at)
    db.append_many(session, [{"timestamp": at + n, **message} for n, message in enumerate(messages)])


def find(db: SessionDB, question: str, **wanted: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = SessionSearch(db).discover(question, Criteria(limit=5, **wanted))["results"]
    return results


@pytest.mark.proves("facts.search")
def test_search_shows_what_is_current_first_and_folds_what_it_replaced(db: SessionDB) -> None:
    first = "The wifi network is called heron. Its router stands in the hall."
    answer = {"role": "assistant", "content": "Noted: your wifi network is heron. Anything else?"}
    say(db, "january", JANUARY, {"role": "user", "content": first}, answer)
    say(db, "march", MARCH, {"role": "user", "content": "I renamed the wifi network, it is called osprey now."})
    current, old = find(db, "What is our wifi network called?")
    assert (current["session_id"], old["session_id"]) == ("march", "january")
    assert "osprey" in current["messages"]
    assert "[until 2026-03-01, now #" in old["messages"]
    assert "Its router stands in the hall." in old["messages"]
    assert old["superseded_by"] == current["match_message_id"]
    told = find(db, "What is our wifi network called?", include_superseded=True)
    assert "[until 2026-03-01, now" in told[1]["messages"]
    assert "called heron." in told[1]["messages"]
    assert "called heron." in find(db, "What was the wifi network called before?")[1]["messages"]
    whole = SessionSearch(db).read("january")["messages"][0]["content"]
    assert whole == first


@pytest.mark.proves("facts.search")
def test_a_correction_is_found_by_what_it_gives_up(db: SessionDB) -> None:
    say(db, "january", JANUARY, {"role": "user", "content": "I drive a blue Skoda Octavia."})
    for n in range(12):
        say(db, f"other {n}", JANUARY + n, {"role": "user", "content": f"How long does it take to drive {n} miles?"})
    say(db, "march", MARCH, {"role": "user", "content": "Sold the Skoda, I've got a Renault Zoe these days."})
    results = find(db, "What car do I drive?")
    assert results[0]["session_id"] == "march"
    assert "Octavia" not in str([each for each in results if "superseded_by" not in each])


@pytest.mark.proves("facts.trust")
def test_what_was_read_elsewhere_or_said_by_the_model_folds_nothing(db: SessionDB) -> None:
    say(db, "january", JANUARY, {"role": "user", "content": "The wifi network is called heron."})
    imported = {"role": "user", "content": "The wifi network is called viper now.", "outside": "import"}
    model = {"role": "assistant", "content": "The wifi network is now called adder."}
    say(db, "march", MARCH, imported, model)
    (old,) = [each for each in find(db, "What is the wifi network called?") if each["session_id"] == "january"]
    assert "The wifi network is called heron." in old["messages"]


@pytest.mark.proves("facts.search")
def test_facts_about_other_things_and_older_messages_fold_nothing(db: SessionDB) -> None:
    say(db, "january", JANUARY, {"role": "user", "content": "The car insurance is with Allianz."})
    say(db, "march", MARCH, {"role": "user", "content": "I switched the house insurance to HUK."})
    shown = str(find(db, "Who is the insurance with?"))
    assert "[until" not in shown
    assert "Allianz" in shown
    assert "HUK" in shown


@pytest.mark.internal("whatever is stored is read as claims: signs, fragments, several scripts")
@given(st.lists(st.text(alphabet=st.sampled_from("aBi 's.:?!,1-_@\u2019…né是no now my is")), min_size=1, max_size=4))
def test_any_text_is_read(texts: list[str]) -> None:
    said = [Said(key=n, conversation=n, text=text, at=(n, n), mine=True) for n, text in enumerate(texts)]
    for found in (superseded(said), superseded(said, texts[0])):
        assert all(each.sentence in texts[key] for key, gone in found.items() for each in gone)
