"""What a killed migration noted is put back, whatever else has happened to the things it speaks of."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from hermes.base.errors import DamagedFile, NotFound, StorageError
from hermes.memory.history import Cause
from hermes.memory.store import MemoryStore
from hermes.portability.plan import UndoLog
from hermes.storage import rollback as putting_back
from hermes.storage.rollback import RecordedDB, make_whole, note, unfinished_imports
from hermes.storage.sessions import SessionDB
from hermes.storage.unfinished import settle

USER, IMPORT = Cause(origin="user"), Cause(origin="import")


class Killed(BaseException):
    """Stands for a kill: what comes after it is done by somebody else."""


def notes(home: Path) -> str:
    place = home / ".migrating"
    place.mkdir(parents=True, exist_ok=True)
    return str(place)


@pytest.mark.proves("migration.kills")
def test_what_was_moved_back_before_stays(home: Path) -> None:
    (home / "skills").mkdir(parents=True)
    (home / "skills" / "a.md").write_text("back already", encoding="utf-8")
    note(notes(home), {"path": "skills", "copy": "000000"})
    assert settle(str(home))
    assert (home / "skills" / "a.md").read_text(encoding="utf-8") == "back already"
    assert not settle(str(home))


@pytest.mark.proves("migration.kills")
def test_links_come_back_as_links(home: Path) -> None:
    (home / "skills").mkdir(parents=True)
    os.symlink("a.md", home / "skills" / "b.md")
    os.symlink("skills", home / "linked")
    with contextlib.suppress(Killed), UndoLog.around(str(home), "test") as log:
        log.clear("skills")
        log.clear("linked")
        raise Killed
    assert os.readlink(home / "skills" / "b.md") == "a.md"
    assert os.readlink(home / "linked") == "skills"


@pytest.mark.proves("migration.kills")
def test_a_part_of_the_home_on_another_disk_is_put_back_too(home: Path) -> None:
    other = Path("/dev/shm")
    home.mkdir(parents=True)
    if not other.is_dir() or other.stat().st_dev == home.stat().st_dev:
        pytest.skip("there is no second file system here")
    place = other / f"hermes-test-{os.getpid()}"
    place.mkdir()
    (place / "000000").write_text("kept", encoding="utf-8")
    (home / "SOUL.md").write_text("new", encoding="utf-8")
    note(str(place), {"path": "SOUL.md", "copy": "000000"})
    assert putting_back.put_back(str(home), str(place)) == []
    assert (home / "SOUL.md").read_text(encoding="utf-8") == "kept"
    assert not place.exists()


@pytest.mark.proves("migration.kills")
def test_what_cannot_be_put_back_is_named_and_tried_again(home: Path) -> None:
    place = notes(home)
    Path(place, "000000").write_text("kept", encoding="utf-8")
    note(place, {"path": "gone/SOUL.md", "copy": "000000"})
    with pytest.raises(StorageError, match=r"put back gone/SOUL\.md"):
        MemoryStore.open(home)
    (home / "gone").mkdir()
    MemoryStore.open(home)
    assert (home / "gone" / "SOUL.md").read_text(encoding="utf-8") == "kept"


@pytest.mark.proves("migration.kills")
def test_an_empty_mark_and_a_list_that_is_a_folder(home: Path) -> None:
    notes(home)
    assert settle(str(home))
    Path(notes(home), "changes.jsonl").mkdir()
    with pytest.raises(DamagedFile, match=r"changes\.jsonl cannot be read"):
        settle(str(home))


@pytest.mark.proves("migration.kills")
def test_somebody_else_may_have_been_faster(home: Path) -> None:
    home.mkdir(parents=True)
    assert not make_whole(str(home))


@pytest.mark.proves("migration.others-stay")
def test_a_workspace_that_is_gone_or_was_never_written_is_left_alone(home: Path, tmp_path: Path) -> None:
    place = notes(home)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("as it was", encoding="utf-8")
    Path(place, "000000").write_text("as it was", encoding="utf-8")
    for path in (tmp_path / "gone" / "AGENTS.md", tmp_path / "work" / "AGENTS.md"):
        note(place, {"outside": str(path), "copy": "000000", "digest": "", "mode": 0o600})
    assert settle(str(home))
    assert (tmp_path / "work" / "AGENTS.md").read_text(encoding="utf-8") == "as it was"
    assert not (tmp_path / "gone").exists()


@pytest.mark.proves("migration.kills")
def test_two_merges_into_one_file_are_put_back_even_when_that_is_done_twice(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "Mine.", cause=USER)
    before = Path(store.path("memory")).read_bytes()
    log = UndoLog(str(home), notes(home))
    for entry in ("First.", "Second."):
        log.protect_memory(store.path("memory"))
        store.add("memory", entry, cause=IMPORT)
    listed = Path(notes(home), "changes.jsonl").read_bytes()
    kept = {name: Path(notes(home), name).read_bytes() for name in os.listdir(notes(home))}
    assert MemoryStore.open(home).entries("memory") == ("Mine.",)
    for name, data in kept.items():
        Path(notes(home), name).write_bytes(data)
    Path(notes(home), "changes.jsonl").write_bytes(listed)
    assert MemoryStore.open(home).entries("memory") == ("Mine.",)
    assert Path(store.path("memory")).read_bytes() == before
    assert len(MemoryStore.open(home).history("memory")[0]) == 1


@pytest.mark.proves("migration.others-stay")
@pytest.mark.parametrize("line", ["not json\n", '{"origin": "user"}\n', "[]\n", None])
def test_a_history_that_tells_of_others_keeps_the_file(line: str | None, home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "Mine.", cause=USER)
    log = UndoLog(str(home), notes(home))
    log.protect_memory(store.path("memory"))
    store.add("memory", "Imported.", cause=IMPORT)
    history = Path(store.path("memory") + ".history.jsonl")
    text = history.read_text(encoding="utf-8")
    history.write_text("rewritten\n" * 9 if line is None else text + line, encoding="utf-8")
    assert settle(str(home))
    assert Path(store.path("memory")).read_text(encoding="utf-8").endswith("Imported.")


@pytest.mark.proves("migration.others-stay")
def test_a_line_that_somebody_added_to_the_replaced_version_is_not_lost(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "Mine.", cause=USER)
    log = UndoLog(str(home), notes(home))
    log.protect_memory(store.path("memory"))
    with open(store.path("memory"), "a", encoding="utf-8") as shell:
        store.add("memory", "Imported.", cause=IMPORT)
        shell.write("\n§\nSaid by a shell that had it open.")
    entries = MemoryStore.open(home).entries("memory")
    assert entries == ("Mine.", "Said by a shell that had it open.")


@pytest.mark.proves("migration.kills", "adopt.whole")
@pytest.mark.parametrize("step", ["noted", "linked", "log gone", "replaced"])
def test_a_database_that_gave_way_comes_back_with_its_log(step: str, home: Path) -> None:
    home.mkdir(parents=True)
    database, kept = home / "state.db", home / "state.db.hermes-agent-x"
    database.write_bytes(b"original")
    Path(f"{database}-wal").write_bytes(b"its log")
    UndoLog(str(home), notes(home)).giving_way(str(database), str(kept), ["", "-wal"])
    for suffix in ("", "-wal") if step != "noted" else ():
        os.link(f"{database}{suffix}", f"{kept}{suffix}")
    if step in ("log gone", "replaced"):
        os.unlink(f"{database}-wal")
    if step == "replaced":
        (home / "ours").write_bytes(b"ours")
        os.replace(home / "ours", database)
        Path(f"{database}-shm").write_bytes(b"of ours")
        os.unlink(f"{kept}-wal")
        Path(f"{database}-wal").write_bytes(b"its log")  # somebody who put it back was killed right then
    assert settle(str(home))
    assert (database.read_bytes(), Path(f"{database}-wal").read_bytes()) == (b"original", b"its log")
    assert sorted(name for name in os.listdir(home) if name.startswith("state.db")) == ["state.db", "state.db-wal"]
    assert settle(str(home)) is False


@pytest.mark.proves("migration.kills")
def test_a_database_that_is_gone_needs_no_taking_back(home: Path) -> None:
    UndoLog(str(home), notes(home)).importing(str(home / "state.db"))
    assert settle(str(home))
    assert not (home / "state.db").exists()


@pytest.mark.proves("migration.kills")
def test_a_migration_whose_work_was_done_is_only_tidied(home: Path) -> None:
    with SessionDB.open(home / "state.db") as db:
        db.create_session(title="Mine")
    log = UndoLog(str(home), notes(home))
    name = log.importing(str(home / "state.db"))
    log.importing(str(home / "never.db"))
    with RecordedDB.open(home / "state.db", name=name) as db:
        db.append_many(db.create_session(title="Imported"), [])
    with SessionDB.open(home / "state.db") as there:
        assert unfinished_imports(there) == []  # a step of a migration is nobody's to resume
    putting_back.commit(notes(home))
    assert settle(str(home))
    with SessionDB.open(home / "state.db") as there:
        assert {session.title for session in there.list_sessions()} == {"Mine", "Imported"}
        assert there._database.rows("SELECT key FROM state_meta WHERE key LIKE '%unfinished%'") == []


@pytest.mark.proves("migration.discarded")
def test_a_session_that_somebody_deleted_is_no_obstacle(home: Path) -> None:
    with RecordedDB.open(home / "state.db", name="it") as db:
        for title in ("One", "Two"):
            db.append(db.create_session(title=title), {"role": "user", "content": title})
    with SessionDB.open(home / "state.db") as db:
        known = db.create_session(title="Known")
        gone = db.resolve("One")
        assert gone is not None
        db.delete(gone.id)
    with RecordedDB.open(home / "state.db", name="it") as db:
        db.rename(known, "Renamed")
        with pytest.raises(NotFound):
            db.append_many("nobody", [{"role": "user", "content": "x"}])
    with SessionDB.open(home / "state.db") as db:
        db.delete(known)
    with RecordedDB.open(home / "state.db", name="it") as db:
        assert db.take_back(everything=True) == 0
        assert db.counts() == {"sessions": 0, "messages": 0}


@pytest.mark.proves("migration.discarded")
def test_vectors_of_a_block_that_was_cut_go_with_it(home: Path) -> None:
    with SessionDB.open(home / "state.db") as db:
        session = db.create_session(title="Mine")
        db.append(session, {"role": "user", "content": "mine"})
        from hermes.storage.schema import add_vectors

        add_vectors(db._database)
    with RecordedDB.open(home / "state.db", name="it") as db:
        db.append(session, {"role": "user", "content": "imported"})
        db._database.connection.execute("INSERT INTO vectors SELECT block, 1, 0, x'00' FROM blocks")
        db.take_back()
        assert db._database.rows("SELECT * FROM vectors") == []
        assert [message.text for message in db.messages(session)] == ["mine"]


@pytest.mark.proves("migration.kills")
def test_the_notes_are_lines_of_json_that_a_person_can_read(home: Path) -> None:
    with contextlib.suppress(Killed), UndoLog.around(str(home), "test") as log:
        log.write(b"x", "SOUL.md")
        lines = Path(log.folder, "changes.jsonl").read_text(encoding="utf-8").splitlines()
        raise Killed
    assert [sorted(json.loads(line)) for line in lines] == [["at", "process", "program"], ["copy", "path"]]
    assert not (home / "SOUL.md").exists()
