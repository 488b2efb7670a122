"""What every storage engine must do for the conversations of a person; each test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pictures import as_openai, png, text

from hermes.base.errors import LockTimeout, NotFound, StorageError
from hermes.conversations.context import Contexts, NewContext, SummaryGraph
from hermes.conversations.database import Opened, Pages, SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.search.semantic import Embedding

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proves("storage.contract")

ODD: list[dict[str, Any]] = [
    {"role": "user", "content": "plain"},
    {"role": "user", "content": "with a NUL \x00 inside", "name": "Ann\x00a"},
    {"role": "user", "content": "\x00json:not what it seems"},
    {"role": "user", "content": "half a character \ud800"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}]},
    {"role": "tool", "content": "README.md", "tool_call_id": "1", "timestamp": 12.5},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "in parts"}],
        "token_count": 1 << 70,
        "extra": {"k": []},
    },
    {"role": "assistant", "content": "日本語の文章 und Ärger", "token_count": 7},
]


@pytest.fixture
def db(engine: dict[str, Any]) -> Iterator[SessionDB]:
    with SessionDB.open(**engine, durability="turn") as opened:
        yield opened


def said(db: SessionDB, *texts: str, **session: Any) -> str:
    made = db.create_session(**session)
    db.append_many(made, [{"role": "user", "content": text} for text in texts])
    return made


def test_messages_come_back_as_they_were_appended(db: SessionDB) -> None:
    session = db.create_session()
    ids = db.append_many(session, ODD) + [db.append(session, message) for message in ODD]
    stored = db.messages(session)
    assert [each.message for each in stored] == ODD + ODD
    assert [each.id for each in stored] == ids
    assert [each.place for each in stored] == list(range(2 * len(ODD)))
    assert not any(each.damaged for each in stored)


def test_sessions_take_turns_without_mixing_their_messages(db: SessionDB) -> None:
    first, second = db.create_session(), db.create_session()
    for number in range(70):
        db.append(first, {"role": "user", "content": f"first {number}"})
        db.append_many(second, [{"role": "user", "content": f"second {number}.{n}"} for n in range(3)])
    assert [each.text for each in db.messages(first)] == [f"first {number}" for number in range(70)]
    assert [each.place for each in db.messages(second)] == list(range(210))
    window = db.messages(first, around=db.messages(first)[40].id, window=2)
    assert [each.text for each in window] == [f"first {number}" for number in range(38, 43)]
    assert [each.text for each in db.messages(second, limit=2, newest=True)] == ["second 69.1", "second 69.2"]
    start, end = db.bookends(first, 1)
    assert (start[0].text, end[0].text) == ("first 0", "first 69")


def test_a_session_counts_what_was_said_in_it(db: SessionDB) -> None:
    session = said(db, "hello there", model="m", project="web", cwd="/src", system_prompt="be kind", mood="good")
    db.append(session, ODD[4])
    db.update_session(session, input_tokens=5, estimated_cost_usd=0.5, model="n")
    db.update_session(session, input_tokens=7, archived=True)
    row = db.get_session(session)
    assert (row.message_count, row.tool_call_count, row.preview) == (2, 1, "hello there")
    assert (row.model, row.project, row.cwd, row.input_tokens, row.archived) == ("n", "web", "/src", 12, 1)
    assert db.session_details(session) == {"system_prompt": "be kind", "mood": "good"}
    with pytest.raises(StorageError, match="already a session"):
        db.create_session(session_id=session)
    with pytest.raises(NotFound, match="no session"):
        db.append("nobody", {"role": "user", "content": "hello"})


def test_titles_are_numbered_found_and_searched(db: SessionDB) -> None:
    first = said(db, "one", title="Kitchen plans")
    second = said(db, "two", title="Kitchen plans")
    assert db.get_session(second).title == "Kitchen plans #2"
    assert db.rename(second, "Kitchen plans") == "Kitchen plans #2"
    assert db.resolve("Kitchen plans") == db.get_session(first)
    assert [each.id for each in db.resembling("kitchen")] == [second, first]
    assert {hit.session_id for hit in db.search("kitchen")} == {first, second}
    assert db.rename(first, "  Garden\u200b work ") == "Garden work"
    assert db.resolve("Garden work") == db.get_session(first)
    assert db.rename(first, None) is None


def test_a_conversation_goes_on_branches_and_delegates(db: SessionDB) -> None:
    root = said(db, "one")
    child = db.create_session(parent_session_id=root)
    task = db.create_session("subagent", parent_session_id=child)
    branch = db.create_session(parent_session_id=child, kind="branch")
    assert [each.id for each in db.lineage(task)] == [root, child, task]
    assert (db.tip(root).id, db.root(task).id, db.root(branch).id) == (child, root, branch)
    assert [each.id for each in db.list_sessions()] == [branch, child]
    assert [each.id for each in db.list_sessions(begun=True)] == []
    assert Pages.of_db(db).parent_id(db.get_session(branch)) == child
    db.delete(child)
    assert [each.id for each in Pages.of_db(db).sessions()] == [root, branch]
    assert db.get_session(branch).parent is None


def test_the_most_recently_used_conversation_is_listed_first(db: SessionDB) -> None:
    names = [said(db, f"talk {number}", source="cli" if number % 2 else "api") for number in range(4)]
    db.append(names[0], {"role": "user", "content": "again"})
    db.append(names[0], {"role": "user", "content": "and again"})
    assert [each.id for each in db.list_sessions()] == [names[0], names[3], names[2], names[1]]
    assert [each.id for each in db.list_sessions(source="cli", limit=1, offset=1)] == [names[1]]


def test_a_deleted_session_leaves_no_word_behind(db: SessionDB) -> None:
    gone = said(db, "the zanzibar trip", "another zanzibar day", title="Zanzibar")
    said(db, "a trip to the hills")
    assert db.search("zanz*")
    db.delete(gone)
    db.index()
    assert db.search("zanzibar") == []
    assert [hit.snippet for hit in db.search("trip")] == ["a >>>trip<<< to the hills"]
    assert db.counts() == {"sessions": 1, "messages": 1}


def test_what_was_taken_back_is_neither_shown_nor_found(db: SessionDB) -> None:
    session = said(db, "keep this apple", "drop that pear", "and this pear")
    first = db.messages(session)[0].id
    assert db.rewind(session, first) == 2
    assert [each.text for each in db.messages(session)] == ["keep this apple"]
    assert [each.rewound for each in db.messages(session, rewound=True)] == [False, True, True]
    assert db.search("pear") == []
    assert db.get_session(session).message_count == 1
    db.append(session, {"role": "user", "content": "a plum"})
    found = db.messages(session)
    assert Pages.of_db(db).around_any(db.get_session(session), found[0], found[0]) == (0, 1)


def test_a_context_is_replaced_at_once_or_not_at_all(db: SessionDB) -> None:
    session = said(db, *(f"turn {number}" for number in range(10)), system_prompt="old")
    contexts = Contexts(db)
    ids = [each.id for each in db.messages(session)]
    block = {"role": "user", "content": "a summary"}
    new = NewContext(
        messages=[block, *({} for _ in ids[6:])],
        ids=[None, *ids[6:]],
        archive=ids[:6],
        last_id=ids[-1],
        system_prompt="new",
        meta={"breaker": "1"},
    )
    replaced = contexts.replace(session, new)
    assert [each.text for each in contexts.live(session)] == ["a summary", "turn 6", "turn 7", "turn 8", "turn 9"]
    assert [each.id for each in contexts.live(session)] == replaced
    assert [each.text for each in contexts.originals(session)] == [f"turn {number}" for number in range(10)]
    assert contexts.was_compacted(session)
    assert (db.session_details(session)["system_prompt"], db.get_meta(f"breaker:{session}")) == ("new", "1")
    assert Pages.of_db(db).holds_pointers(db.get_session(session))
    assert [number for number, _ in contexts.read(session, ids[2:4])] == ids[2:4]
    with pytest.raises(StorageError, match="continued elsewhere"):
        contexts.replace(session, new)
    assert len(db.messages(session)) == 11


def test_a_context_goes_on_in_a_child(db: SessionDB) -> None:
    session = said(db, *(f"turn {number}" for number in range(6)), title="Long talk", system_prompt="p")
    ids = [each.id for each in db.messages(session)]
    new = NewContext(
        messages=[{"role": "user", "content": "a summary"}, {}], ids=[None, ids[5]], archive=ids[:5], last_id=ids[5]
    )
    contexts = Contexts(db)
    child, _ = contexts.split(session, new)
    assert [each.text for each in contexts.live(child)] == ["a summary", "turn 5"]
    assert db.get_session(session).end_reason == "compression"
    assert [each.text for each in contexts.originals(child)] == [f"turn {number}" for number in range(6)]
    restored, count = contexts.restore(child)
    assert (count, db.get_session(restored).kind) == (6, "branch")
    contexts.take_back(child, contexts.live(child)[1:])
    assert [each.text for each in contexts.live(child)] == ["a summary"]


def test_one_process_compacts_at_a_time(db: SessionDB, engine: dict[str, Any]) -> None:
    session = said(db, "hello")
    with SessionDB.open(**engine) as other:
        assert Contexts(db).lease(session, "mine")
        assert not Contexts(other).lease(session, "theirs")
        Contexts(db).release(session, "mine")
        assert Contexts(other).lease(session, "theirs")


def test_summaries_are_those_of_a_conversation_and_of_what_it_branched_from(db: SessionDB) -> None:
    session, other = said(db, "one"), said(db, "two")
    graph = SummaryGraph(db, session)
    leaves = [graph.add(depth=0, ids=f"{n}", messages=1, text=f"leaf {n}", made_by="m") for n in range(3)]
    top = graph.add(depth=1, ids="0-2", messages=3, text="all", made_by="m", children=leaves)
    branch = SummaryGraph(db, db.create_session(parent_session_id=session, kind="branch"))
    assert branch.all() == [*leaves, top]
    assert branch.children(top.number) == leaves
    assert (graph.find(0, "1"), graph.get(top.number)) == (leaves[1], top)
    assert SummaryGraph(db, other).all() == []
    db.delete(session)
    assert branch.all() == []


def test_small_values_keep_their_kind(db: SessionDB) -> None:
    kept: dict[str, Any] = {"a": "text", "b": 3, "c": 0.1, "d": b"\x00\xff", "open:x": "1", "open:y": "2"}
    for key, value in kept.items():
        db.set_meta(key, value)
    assert {key: db.get_meta(key) for key in kept} == kept
    assert db.store.meta_from("open:") == [("x", "1"), ("y", "2")]
    db.set_meta("a", None)
    assert db.get_meta("a") is None


def test_a_session_that_a_dead_process_left_open_is_ended(db: SessionDB) -> None:
    import os

    session = said(db, "hello")
    db.set_meta(f"open:{session}", f'{{"host": "{os.uname().nodename}", "pid": 999999999}}')
    assert Opened(db).end_abandoned() == [session]
    assert db.get_session(session).end_reason == "process_ended"
    assert Opened(db).end_abandoned() == []


def test_images_are_kept_once_and_go_with_the_last_message(db: SessionDB) -> None:
    picture = png()
    sessions = [db.create_session() for _ in range(2)]
    for session in sessions:
        db.append(session, {"role": "user", "content": [text("see"), as_openai(picture)]})
    entry = db.messages(sessions[0])[0].message["images"][0]
    assert db.images.read(entry) == picture
    db.delete(sessions[0])
    assert db.images.read(entry) == picture
    db.delete(sessions[1])
    assert db.images.read(entry) is None


def test_nearness_in_meaning_is_found(engine: dict[str, Any]) -> None:
    def embed(texts: list[str]) -> Any:
        return [[1.0, 0.0] if "puppy" in text or "dog" in text else [0.0, 1.0] for text in texts]

    toy = Embedding(name="toy", dimensions=2, embed=embed, related=0.5)
    with SessionDB.open(**engine, semantic=lambda: toy) as db:
        session = said(db, *(f"line {number}" for number in range(40)), "a puppy of today " + "and so on " * 20)
        assert db.embed() == 41
        near = db.search("dog")[0]
        assert near.message_id == db.messages(session)[-1].id
        assert db.embed() == 0
        db.append(session, {"role": "user", "content": "one more puppy"})
        assert db.embed() > 0
        db.delete(session)
        assert db.search("dog") == []


def test_only_one_import_runs_at_a_time(db: SessionDB, engine: dict[str, Any]) -> None:
    with SessionDB.open(**engine) as other:
        with db.importing(0.1), pytest.raises(LockTimeout), other.importing(0.1):
            pass
        with other.importing(0.1), other.bulk():  # the first one has given its place back
            said(other, "and one more")
    assert db.counts()["messages"] == 1


def test_figures_tell_what_is_stored(db: SessionDB) -> None:
    first = said(db, "one", "two", source="cli", started_at=1_700_000_000.0)
    said(db, "three", source="api", started_at=1_760_000_000.0)
    db.end_session(first, "done")
    figures = Maintenance.of_db(db)
    totals = figures.totals()
    assert (totals["sessions"], totals["conversations"], totals["messages"], totals["open"]) == (2, 2, 3, 1)
    assert [(each["source"], each["messages"]) for each in figures.by_source()] == [("cli", 2), ("api", 1)]
    assert [(each["month"], each["messages"]) for each in figures.by_month()] == [("2025-10", 1), ("2023-11", 2)]
    assert figures.sizes()["file_bytes"] > 0
    assert [each.id for each in figures.unused(-1)] == [first]
    assert list(figures.settle()) in ([], [1], [1, 2], [1, 2, 3])


def test_a_failed_transaction_leaves_nothing(db: SessionDB) -> None:
    session = said(db, "before")
    with pytest.raises(NotFound), db.bulk():  # noqa: PT012 - the last of them fails
        db.append(session, {"role": "user", "content": "never mind"})
        db.set_meta("key", "value")
        db.append("nobody", {"role": "user", "content": "fails"})
    assert [each.text for each in db.messages(session)] == ["before"]
    assert (db.get_meta("key"), db.search("mind")) == (None, [])
    with pytest.raises(ValueError, match="needs a role"):
        db.append_many(session, [{"role": "user", "content": "good"}, {"content": "without a role"}])
    assert db.get_session(session).message_count == 1


@pytest.mark.proves("storage.one-writer")
def test_many_writers_of_one_person_lose_and_mix_nothing(db: SessionDB, engine: dict[str, Any]) -> None:
    session = db.create_session()

    def write(name: int) -> None:
        with SessionDB.open(**engine, durability="turn", wait=60) as mine:
            for number in range(25):
                mine.append_many(session, [{"role": "user", "content": f"{name} {number} {n}"} for n in range(2)])

    writers = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    texts = [each.text for each in db.messages(session)]
    assert sorted(texts) == sorted(
        f"{name} {number} {n}" for name in range(4) for number in range(25) for n in range(2)
    )
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    assert all(first.rpartition(" ")[0] == second.rpartition(" ")[0] for first, second in pairs)
    assert db.get_session(session).message_count == 200


@pytest.mark.proves("storage.one-writer")
def test_a_writer_that_must_wait_too_long_is_told(db: SessionDB, engine: dict[str, Any]) -> None:
    session = said(db, "hello")
    with SessionDB.open(**engine) as other, other.bulk():
        other.append(session, {"role": "user", "content": "still at it"})
        with db.store.waiting_at_most(0.05), pytest.raises(LockTimeout, match=r"more than 0\.05 s"):
            db.append(session, {"role": "user", "content": "me too"})
        assert [each.text for each in db.messages(session)] == ["hello"]
    assert db.append(session, {"role": "user", "content": "now"})
