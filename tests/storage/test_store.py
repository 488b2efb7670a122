"""The store: what goes in comes out, in order, once, and nobody else sees it."""

from __future__ import annotations

import contextlib
import os
import random
import stat
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from engines import database_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.errors import NotFound, StorageError, UnsafePath
from hermes.conversations.database import SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.storage.local.index import segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB.open(tmp_path / "home" / "state.db", durability="turn") as opened:
        yield opened


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_any_text = st.text(st.characters(), max_size=40) | st.just("\x00json:1") | st.just("lone \ud800 half")
_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
    optional={
        "content": _any_text
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": _any_text}))
        | st.none(),
        "name": _any_text | st.none(),
        "tool_calls": st.lists(_json, max_size=2) | _json,
        "tool_call_id": _any_text,
        "reasoning": _json,
        "timestamp": st.floats(0, 4e9) | st.integers(0, 4_000_000_000) | st.text(),
        "token_count": st.integers() | st.booleans(),
        "of_the_future": _json,
    },
)


@pytest.mark.proves("sessions.round_trip")
@given(message=_messages)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_message_comes_back_as_it_was_appended(db: SessionDB, message: dict[str, Any]) -> None:
    session = db.create_session()
    db.append(session, message)
    read = db.messages(session)[0]
    assert read.message == message
    assert not read.damaged


@pytest.mark.proves("sessions.round_trip")
def test_what_is_no_message_is_refused_and_nothing_is_stored(db: SessionDB) -> None:
    session = db.create_session()
    with pytest.raises(ValueError, match="role"):
        db.append(session, {"content": "no role"})
    assert db.messages(session) == []


@pytest.mark.proves("sessions.one_transaction")
def test_append_many_stores_all_or_nothing_and_keeps_the_order_over_many_blocks(db: SessionDB) -> None:
    session = db.create_session()
    other = db.create_session()
    texts = [f"message {number}" for number in range(100)]
    for start in range(0, 100, 7):
        db.append_many(session, [{"role": "user", "content": text} for text in texts[start : start + 7]])
        db.append(other, {"role": "user", "content": "between"})
    with pytest.raises(ValueError, match="role"):
        db.append_many(session, [{"role": "user", "content": "first"}, {"content": "second"}])
    read = db.messages(session)
    assert [message.text for message in read] == texts
    assert [message.place for message in read] == list(range(100))
    assert db.get_session(session).message_count == 100


@pytest.mark.proves("sessions.one_transaction")
def test_an_import_in_bulk_is_stored_and_searchable_as_a_whole_or_not_at_all(db: SessionDB) -> None:
    before = db.create_session()
    db.append(before, {"role": "user", "content": "something earlier about gardens"})
    with db.bulk():
        db.append(before, {"role": "user", "content": "and later about gardens"})
        kept, gone = db.create_session(), db.create_session()
        db.append_many(kept, [{"role": "user", "content": f"gardens {number}"} for number in range(40)])
        with db.bulk():
            taken_back = db.append_many(kept, [{"role": "user", "content": f"taken back {n}"} for n in range(2)])
        db.append(gone, {"role": "user", "content": "a deleted secret"})
        db.rewind(kept, taken_back[0] - 1)
        db.delete(gone)
        assert db.search("gardens 39")[0].session_id == kept
    with pytest.raises(ZeroDivisionError), db.bulk():
        _fail_after(db.append(kept, {"role": "user", "content": "never acknowledged"}))
    db.append(kept, {"role": "user", "content": "the end"})
    found = {hit.message_id for hit in db.search("gardens", limit=100)}
    assert len(found) == 42
    for text in ("secret", "acknowledged", "taken back"):
        assert db.search(text) == []
    assert [message.text for message in db.messages(kept)[-2:]] == ["gardens 39", "the end"]


def _fail_after(_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.internal("a handle may be closed by its owner and again by the block around it")
def test_closing_twice_is_harmless_and_a_closed_store_says_so(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as opened:
        session = opened.create_session()
        opened.close()
        other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)  # takes the number of a closed descriptor
    os.close(other)
    for call in (lambda: opened.append(session, {"role": "user", "content": "late"}), opened.sync):
        with pytest.raises(StorageError, match="was closed"):
            call()


@pytest.mark.proves("sessions.private")
@pytest.mark.parametrize("umask", [0, 0o777])
def test_files_are_private_from_the_start_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with SessionDB.open(tmp_path / "home" / "state.db") as db:
            db.append(db.create_session(), {"role": "user", "content": "hello"})
            modes = {
                name: stat.S_IMODE(os.stat(tmp_path / "home" / name).st_mode) for name in os.listdir(tmp_path / "home")
            }
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert {"state.db", "state.db-wal", "state.db-shm"} <= set(modes)
    assert stat.S_IMODE(os.stat(tmp_path / "home").st_mode) == 0o700


@pytest.mark.proves("sessions.private")
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    os.symlink(tmp_path / "elsewhere", tmp_path / "state.db")
    with pytest.raises(UnsafePath):
        SessionDB.open(tmp_path / "state.db")


@pytest.mark.proves("sessions.migrations")
def test_opening_again_changes_nothing_and_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SessionDB.open(path).close()
    raw = apsw.Connection(str(path))
    first = raw.execute("SELECT name, applied_at FROM migrations").fetchall()
    SessionDB.open(path).close()
    assert raw.execute("SELECT name, applied_at FROM migrations").fetchall() == first
    raw.execute("INSERT INTO migrations (name) VALUES ('m999_from_the_future')")
    raw.close()
    with pytest.raises(StorageError, match="newer Hermes"):
        SessionDB.open(path)


@pytest.mark.proves("sessions.wal_fallback")
def test_without_shared_memory_the_store_works_in_another_journal_mode(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "state.db-shm")  # WAL is accepted, and its first use fails
    with SessionDB.open(tmp_path / "state.db") as db:
        assert db.journal_mode == "delete"
        session = db.create_session()
        wanted = db.append(session, {"role": "user", "content": "still here"})
        assert [hit.message_id for hit in db.search("here")] == [wanted]
    with SessionDB.open(tmp_path / "state.db") as db:
        assert db.messages(session)[0].text == "still here"


@pytest.mark.proves("sessions.foreign")
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_database_of_another_program_is_recognised_and_left_untouched(tmp_path: Path, journal: str) -> None:
    raw = apsw.Connection(str(tmp_path / "state.db"))
    raw.pragma("journal_mode", journal)
    raw.execute("CREATE TABLE sessions (id TEXT); CREATE TABLE messages (id INTEGER); CREATE TABLE schema_version (v)")
    raw.close()
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(StorageError, match="hermes import hermes-agent"):
        SessionDB.open(tmp_path / "state.db")
    assert (tmp_path / "state.db").read_bytes() == before


@pytest.mark.proves("sessions.lineage")
def test_a_compressed_conversation_is_one_row_with_a_right_tip_at_any_length(db: SessionDB) -> None:
    root = tip = db.create_session(title="Long talk")
    for number in range(150):
        tip = db.create_session(parent_session_id=tip)
        db.append(tip, {"role": "user", "content": f"part {number}"})
    branch = db.create_session(parent_session_id=tip, kind="branch")
    delegate = db.create_session(parent_session_id=tip, source="subagent")
    assert [session.id for session in db.list_sessions()] == [branch, tip]
    assert (db.tip(root).id, db.root(tip).id, db.root(branch).id, db.root(delegate).id) == (tip, root, branch, root)
    assert len(db.lineage(tip)) == 152


@pytest.mark.proves("sessions.titles")
def test_titles_are_unique_and_each_resolves_to_its_own(db: SessionDB) -> None:
    first = db.create_session(title="Tax\x00 \u200b review")
    second = db.create_session(title="Tax review")
    third = db.create_session(title="Tax review")
    titles = [db.get_session(session).title for session in (first, second, third)]
    assert titles == ["Tax review", "Tax review #2", "Tax review #3"]
    resolved = db.resolve("Tax review")
    assert resolved is not None
    assert resolved.id == first
    goes_on = db.create_session(title="Tax review", parent_session_id=first)
    assert db.resolve("Tax review") == db.get_session(goes_on)
    assert db.rename(third, "Other") == "Other"
    assert db.rename(first, "Other") == "Other #2"
    assert db.resolve("Tax") is None
    assert db.resolve(second) == db.get_session(second)
    db.rename(first, "Law")
    assert db.resolve("Law") == db.get_session(first)
    assert [each.id for each in db.resembling("tax")] == [goes_on, second]
    assert [each.id for each in db.resembling(second[:-1])] == [second]


@pytest.mark.proves("sessions.listing")
def test_the_list_shows_the_last_used_first_with_its_figures(db: SessionDB) -> None:
    early, late = db.create_session(project="a"), db.create_session(source="telegram")
    call = {"function": {"name": "f", "arguments": "{}"}}
    db.append(late, {"role": "assistant", "content": None, "tool_calls": [call]})
    db.append(early, {"role": "user", "content": "word " * 40})
    listed = db.list_sessions()
    assert [session.id for session in listed] == [early, late]
    assert listed[0].preview == ("word " * 12).strip() + "..."
    assert (listed[0].message_count, listed[1].tool_call_count) == (1, 1)
    assert [session.id for session in db.list_sessions(source="telegram")] == [late]
    assert [session.id for session in db.list_sessions(project="a")] == [early]
    db.update_session(early, archived=1)
    assert [session.id for session in db.list_sessions()] == [late]
    assert [session.id for session in db.list_sessions(archived=True)] == [early]


@pytest.mark.proves("sessions.scroll")
def test_windows_and_bookends_are_read_in_order(db: SessionDB) -> None:
    session = db.create_session()
    noise = db.create_session()
    ids = []
    for number in range(80):
        ids.append(db.append(session, {"role": "user" if number % 2 else "tool", "content": str(number)}))
        db.append(noise, {"role": "user", "content": "noise"})
    window = db.messages(session, around=ids[40], window=20)
    assert [message.text for message in window] == [str(number) for number in range(20, 61)]
    first, last = db.bookends(session, 2)
    assert [message.text for message in first + last] == ["1", "3", "77", "79"]
    assert [message.text for message in db.messages(session, limit=2, newest=True)] == ["78", "79"]
    with pytest.raises(NotFound):
        db.messages(noise, around=ids[0])


@pytest.mark.proves("sessions.metadata")
def test_counters_add_up_and_details_are_kept(db: SessionDB) -> None:
    session = db.create_session(model="m", system_prompt="Be brief.", cwd="/w", chat_id="42")
    db.update_session(session, input_tokens=5, estimated_cost_usd=0.5)
    db.update_session(session, input_tokens=7, estimated_cost_usd=0.25, model="n")
    db.end_session(session, "compression")
    db.end_session(session, "later")
    read = db.get_session(session)
    assert (read.input_tokens, read.estimated_cost_usd, read.model, read.cwd) == (12, 0.75, "n", "/w")
    assert read.end_reason == "compression"
    assert db.session_details(session) == {"system_prompt": "Be brief.", "chat_id": "42"}
    db.set_meta("last_prune", 3)
    assert db.get_meta("last_prune") == 3
    with pytest.raises(ValueError, match="no field owner"):
        db.update_session(session, owner=2)


@pytest.mark.proves("sessions.delete")
def test_a_deleted_session_is_gone_from_store_and_search(db: SessionDB) -> None:
    parent = db.create_session(title="doomed title")
    child = db.create_session(parent_session_id=parent, kind="delegate")
    tip = db.create_session(parent_session_id=parent, kind="compression")
    for session in (parent, child, tip):
        db.append_many(session, [{"role": "user", "content": f"secret {session}"}] * 40)
    assert len(db.search("secret", limit=200)) == 120
    db.delete(parent)
    assert {hit.session_id for hit in db.search("secret", limit=200)} == {tip}
    assert db.search("doomed title") == []
    assert db.root(tip).id == tip
    with pytest.raises(NotFound):
        db.get_session(child)


@pytest.mark.proves("sessions.rewind")
def test_rewound_messages_are_hidden_and_compacted_ones_are_not(db: SessionDB) -> None:
    session = db.create_session()
    ids = [db.append(session, {"role": "user", "content": f"alpha {number}"}) for number in range(4)]
    db.search("alpha")
    db.set_compacted(session, ids[:2])
    assert db.rewind(session, ids[2]) == 1
    assert {hit.message_id for hit in db.search("alpha")} == set(ids[:3])
    assert [message.id for message in db.messages(session)] == ids[:3]
    assert db.messages(session)[0].compacted
    assert [message.rewound for message in db.messages(session, rewound=True)] == [False, False, False, True]


@pytest.mark.proves("sessions.owners")
def test_no_call_reaches_another_owners_session(tmp_path: Path) -> None:
    picker = random.Random(5)
    names = ["local", "ann", "bob"]
    stores = {name: SessionDB.open(tmp_path / "state.db", owner=name, durability="turn") for name in names}
    words = [f"word{number}" for number in range(12)]
    ids: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    for _ in range(60):
        name = picker.choice(names)
        session = stores[name].create_session(title=picker.choice(words), session_id=f"s{picker.randrange(10**9)}")
        text = f"{name} says {' '.join(picker.choices(words, k=4))}"
        ids[name].append((session, stores[name].append(session, {"role": "user", "content": text})))
    for _ in range(300):
        name, victim = picker.sample(names, 2)
        session, message = picker.choice(ids[victim])
        mine = {owned for owned, _ in ids[name]}
        query = picker.choice(
            [f"{victim} {picker.choice(words)}", f"{picker.choice(words)} OR {victim}", session, "says"]
        )
        sort = picker.choice(["relevance", "newest", "oldest"])
        assert {hit.session_id for hit in stores[name].search(query, limit=50, sort=sort)} <= mine
        assert {listed.id for listed in stores[name].list_sessions(limit=100)} <= mine
        assert stores[name].find_session(session) is None
        assert stores[name].session_of(message) is None
        for attempt in (stores[name].get_session, stores[name].messages, stores[name].delete, stores[name].lineage):
            with pytest.raises(NotFound):
                attempt(session)
        with pytest.raises(NotFound):
            stores[name].append(session, {"role": "user", "content": "intruder"})
    for store in stores.values():
        store.close()


@pytest.mark.proves("sessions.clock")
def test_order_neighbours_and_list_follow_arrival_whatever_the_clock_says(db: SessionDB) -> None:
    session, other = db.create_session(started_at=4e9), db.create_session(started_at=1.0)
    times = [3e9, 1.0, 2e9, 1.0, 4e9]
    ids = [
        db.append(session, {"role": "user", "content": f"tick {number}", "timestamp": moment})
        for number, moment in enumerate(times)
    ]
    last = db.append(other, {"role": "user", "content": "tick other", "timestamp": 0.0})
    assert [message.id for message in db.messages(session)] == ids
    assert [message.id for message in db.messages(session, around=ids[2], window=1)] == ids[1:4]
    assert [listed.id for listed in db.list_sessions()] == [other, session]
    assert [hit.message_id for hit in db.search("tick", sort="newest")] == [last, *ids[::-1]]


@pytest.mark.internal("how often the index is merged is a matter of speed")
def test_an_import_leaves_merging_to_its_end_and_everybody_else_merges_as_before(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db", durability="turn") as db:
        session = db.create_session()
        for part in range(12):
            with db.bulk():
                texts = [f"part {part} number {number} of the import" for number in range(600)]
                db.append_many(session, [{"role": "user", "content": text} for text in texts])
            db.index()
        connection = database_of(db).connection
        assert segments(connection, "messages_fts") == 12
        assert dict(connection.execute("SELECT k, v FROM messages_fts_config"))["automerge"] == 8
        assert db.search("number 17 part 3", limit=1)[0].snippet.replace(">>>", "").replace("<<<", "")
        upkeep = Maintenance.of_db(db)
        assert not upkeep.is_in_pieces()
        for _ in upkeep.settle():
            pass
        assert segments(connection, "messages_fts") == 1
        assert len(db.search("import", limit=8000, sort="newest")) == 7200


@pytest.mark.proves("sessions.clock")
def test_order_of_use_is_the_same_inside_and_outside_of_a_bulk(tmp_path: Path) -> None:
    def orders(path: Path, *, bulk: bool) -> list[str]:
        with SessionDB.open(path) as db, db.bulk() if bulk else contextlib.nullcontext():
            names = [db.create_session(session_id=f"s{number}") for number in range(6)]
            for at in (2, 2, 0, 5, 0):
                db.append(names[at], {"role": "user", "content": "x"})
            db.update_session("s5", archived=1)
            db.append(names[3], {"role": "user", "content": "x"})
            return [session.id for session in db.list_sessions()]

    assert (
        orders(tmp_path / "one.db", bulk=True)
        == orders(tmp_path / "two.db", bulk=False)
        == ["s3", "s0", "s2", "s4", "s1"]
    )
