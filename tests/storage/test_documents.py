"""What every storage engine must do for the documents of a person; each test runs on files and on PostgreSQL."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import DamagedFile, LockTimeout, StorageError
from hermes.storage.documents import ChangedMeanwhile, LocalDocuments
from hermes.storage.files import NOTHING_READ
from hermes.storage.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hermes.storage.files import Fingerprint, Seen
    from hermes.storage.ports import DocumentFolder, Documents

    Open = Callable[[str], Documents]

pytestmark = pytest.mark.proves("storage.documents")
BYTES = b"a NUL \x00, no UTF-8 \xff\xfe and a line\r\n"
LARGE = 1 << 20


@pytest.fixture(params=["files", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the documents of a person as another process would: with connections of its own."""
    if request.param == "files":
        return lambda person: LocalDocuments(str(tmp_path / person))
    address = request.getfixturevalue("postgres")
    from hermes.storage.postgres.documents import PostgresDocuments

    def of_another_process(person: str) -> Documents:
        PostgresDocuments.renew()
        return PostgresDocuments(address, f"{request.node.nodeid} {person}")

    return of_another_process


@pytest.fixture
def folder(opened: Open) -> DocumentFolder:
    return opened("ann").below("notes").create()


def test_documents_come_back_as_they_were_written(folder: DocumentFolder, opened: Open) -> None:
    folder.replace("a.md", b"first")
    before = folder.stamp("a.md")
    folder.replace("a.md", BYTES)
    folder.write_new("b.md", b"")
    assert folder.read("a.md", at_most=LARGE) == BYTES
    assert (folder.read("b.md", at_most=LARGE), folder.read("c.md", at_most=LARGE)) == (b"", None)
    assert (folder.size("a.md"), folder.size("b.md"), folder.size("c.md")) == (len(BYTES), 0, None)
    assert folder.stamp("a.md") != before
    assert folder.stamp("c.md") == ()
    with pytest.raises(StorageError):
        folder.write_new("a.md", b"again")
    with pytest.raises(DamagedFile):
        folder.read("a.md", at_most=3)
    again = opened("ann").below("notes").create()
    assert again.names() == ["a.md", "b.md"]
    assert again.read("a.md", at_most=LARGE) == BYTES


def test_a_folder_lists_only_what_is_directly_in_it(opened: Open) -> None:
    home = opened("ann")
    for place, name in (
        ((), "top.json"),
        (("notes",), "one.md"),
        (("notes", "deep"), "two.md"),
        (("notesX",), "no.md"),
    ):
        home.below(*place).create().replace(name, b"x")
    notes = home.below("notes").create()
    assert [name for name in notes.names() if name != "deep"] == ["one.md"]  # a folder of files lists folders, too
    assert home.below("notes", "deep").create().names() == ["two.md"]


def test_a_document_is_renamed_over_another_and_removed(folder: DocumentFolder) -> None:
    folder.replace("1.json", b"one")
    folder.replace("2.json", b"two")
    folder.rename("1.json", "2.json")
    assert (folder.names(), folder.read("2.json", at_most=LARGE)) == (["2.json"], b"one")
    with pytest.raises(StorageError):
        folder.rename("1.json", "3.json")
    assert folder.remove("2.json") is True
    assert folder.remove("2.json") is False
    assert folder.names() == []


def test_a_log_grows_and_its_newest_records_can_be_taken_back(folder: DocumentFolder) -> None:
    log = folder.journal("x.history.jsonl")
    assert (log.last(), log.read()) == (None, ([], 0))
    log.append([{"id": "a", "n": 1}, {"id": "b", "text": "é \ud800 \x00"}], sync=True)
    first = log.identity()
    log.append([{"id": "c"}], sync=False)
    assert log.identity() != first
    assert [record["id"] for record in log.read()[0]] == ["a", "b", "c"]
    assert log.read()[0][1]["text"] == "é \ud800 \x00"
    log.withdraw("c", "a")  # only the newest ones: b stands between
    assert [record["id"] for record in log.read()[0]] == ["a", "b"]
    assert (log.last() or {})["id"] == "b"
    assert (log.mentions("a"), log.mentions("c")) == (True, False)
    assert folder.names() == ["x.history.jsonl"]


def test_a_log_is_read_on_from_where_it_was_left(folder: DocumentFolder) -> None:
    log = folder.journal("x.jsonl")
    log.append([{"id": "a"}, {"id": "b"}], sync=True)
    seen = log.read_on(NOTHING_READ)
    assert (len(seen.records), seen.goes_on) == (2, False)
    assert log.read_on(seen).records == []
    log.append([{"id": "c"}], sync=True)
    more = log.read_on(seen)
    assert ([record["id"] for record in more.records], more.goes_on) == (["c"], True)
    log.withdraw("c")
    log.append([{"id": "d"}], sync=True)
    anew = log.read_on(more)
    assert ([record["id"] for record in anew.records], anew.goes_on) == (["a", "b", "d"], False)


def test_a_damaged_line_of_a_log_is_counted_and_the_others_are_read(folder: DocumentFolder) -> None:
    folder.journal("x.jsonl").append([{"id": "a"}, {"id": "b"}], sync=True)
    lines = (folder.read("x.jsonl", at_most=LARGE) or b"").replace(b'"a"', b'"z"')
    folder.replace("x.jsonl", lines + b'{"id":"c"}\n')
    log = folder.journal("x.jsonl")
    assert ([record["id"] for record in log.read()[0]], log.read()[1]) == (["b"], 2)
    assert (log.last() or {})["id"] == "b"
    folder.rename("x.jsonl", "older-x.jsonl")
    assert len(folder.journal("older-x.jsonl").read()[0]) == 1
    assert folder.journal("x.jsonl").read() == ([], 0)


def test_only_the_first_of_two_who_read_the_same_version_replaces_it(folder: DocumentFolder) -> None:
    folder.write_new("a.md", b"")
    shared, log = folder.shared("a.md", at_most=LARGE), folder.journal("a.md.history.jsonl")

    def commit(version: Fingerprint) -> None:
        log.append([{"id": str(version.size)}], sync=True)

    def replace(seen: Seen, text: bytes) -> None:
        shared.replace(seen, text, "", commit, log.sync)

    with folder.lock("a.md.lock", timeout=5), shared.see() as one, shared.see() as other:
        replace(one, b"first")
        with pytest.raises(ChangedMeanwhile):
            replace(other, b"second one")
    with shared.see() as seen:
        assert (seen.data, seen.exists) == (b"first", True)
        assert shared.holds(seen.fingerprint)
    assert not folder.shared("b.md", at_most=LARGE).see().exists


def test_a_lock_lets_one_writer_in_at_a_time(opened: Open) -> None:
    opened("ann").below("notes").create().replace("count", b"0")

    def count(place: Documents) -> None:
        for _ in range(10):
            with place.create() as folder, folder.lock("count.lock", timeout=20):
                folder.replace("count", b"%d" % (int(folder.read("count", at_most=9) or b"0") + 1))

    places = [opened("ann").below("notes") for _ in range(4)]
    threads = [threading.Thread(target=count, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert places[0].create().read("count", at_most=9) == b"40"


def test_whoever_waits_too_long_for_a_lock_is_told(opened: Open) -> None:
    mine, theirs = opened("ann").create(), opened("ann").create()
    with mine.lock("x.lock", timeout=5):
        mine.replace("x", b"mine")
        assert theirs.lock("x.lock", timeout=0).try_to_take() is False
        with pytest.raises(LockTimeout), theirs.lock("x.lock", timeout=0.01):
            theirs.replace("x", b"theirs")
    assert theirs.read("x", at_most=LARGE) == b"mine"
    taken = theirs.lock("x.lock", timeout=0)
    assert taken.try_to_take() is True
    taken.__exit__()


def test_a_lease_belongs_to_one_until_it_is_given_back(opened: Open) -> None:
    mine, theirs = (opened("ann").create().lease("run.lock", seconds=60) for _ in range(2))
    assert mine.take()
    assert mine.take()  # still needed
    assert not theirs.take()
    theirs.give_back()
    assert not theirs.take()
    mine.give_back()
    assert theirs.take()


def test_what_is_read_together_again_and_again_is_as_it_is_now(opened: Open) -> None:
    mine = opened("ann")
    with mine.below("notes").create() as folder:
        for number in range(4):
            with mine.reading():
                seen = [folder.read(name, at_most=LARGE) for name in ("a.md", "b.md")]
                assert folder.shared("a.md", at_most=LARGE).see().data == (seen[0] or b"")
            assert seen == ([None, None] if not number else [f"{number - 1}".encode(), None])
            with opened("ann").below("notes").create() as elsewhere:
                elsewhere.replace("a.md", f"{number}".encode())
            assert folder.read("a.md", at_most=LARGE) == f"{number}".encode()


def test_nobody_sees_the_documents_of_another_person(opened: Open) -> None:
    for person in ("ann", "bob"):
        with opened(person).create() as folder, folder.lock("x.lock", timeout=5):
            folder.replace("x.md", person.encode())
            folder.journal("x.jsonl").append([{"id": person}], sync=True)
    for person in ("ann", "bob"):
        folder = opened(person).create()
        assert folder.read("x.md", at_most=LARGE) == person.encode()
        assert (folder.journal("x.jsonl").last() or {})["id"] == person


# The jobs of a person, in a folder of their documents.


def put_and_names(jobs: Jobs, *works: str) -> list[str]:
    for work in works:
        jobs.put({"do": work})
    return jobs.waiting()


@pytest.mark.proves("storage.jobs")
def test_jobs_are_done_in_order_and_once(opened: Open) -> None:
    jobs = Jobs(opened("ann").below("outbox", "x"))
    done = []
    names = put_and_names(jobs, "one", "two", "three")
    with jobs.working() as work:
        assert work is not None
        for name in names:
            job = work.take(name)
            assert job is not None
            done.append((job.work["do"], job.attempts, len(job.key)))
            work.finish(job)
            assert work.take(name) is None
    assert done == [("one", 0, 32), ("two", 0, 32), ("three", 0, 32)]
    assert jobs.waiting() == []


@pytest.mark.proves("storage.jobs")
def test_one_worker_at_a_time_does_the_jobs_of_a_person(opened: Open) -> None:
    mine, theirs = (Jobs(opened("ann").below("outbox", "x")) for _ in range(2))
    others = Jobs(opened("bob").below("outbox", "x"))
    put_and_names(mine, "one")
    with mine.working() as work, theirs.working() as none, others.working() as bobs:
        assert work is not None
        assert none is None
        assert bobs is not None
    with theirs.working() as work:
        assert work is not None
    assert (len(theirs.waiting()), others.waiting()) == (1, [])


@pytest.mark.proves("storage.jobs")
def test_a_job_that_fails_is_tried_again_set_aside_and_taken_back(opened: Open) -> None:
    jobs = Jobs(opened("ann").below("outbox", "x"))
    first, second = put_and_names(jobs, "fails", "waits")
    keys = []
    for attempt in range(3):
        with jobs.working() as work:
            assert work is not None
            job = work.take(first)
            assert job is not None
            assert job.attempts == attempt
            keys.append(job.key)
            assert work.failed(job, most=3) is (attempt == 2)
            later = work.take(second)
            assert later is not None
            work.put_off(later)
    assert len(set(keys)) == 1  # whoever gets it twice can tell
    assert (jobs.waiting(), jobs.refused()) == ([second], 1)
    assert jobs.take_back() == 1
    assert (jobs.waiting(), jobs.refused()) == ([first, second], 0)


@pytest.mark.proves("storage.jobs")
def test_what_is_no_job_is_set_aside(opened: Open) -> None:
    documents = opened("ann").below("outbox", "x")
    documents.create().replace("1.json", b"no json")
    jobs = Jobs(documents)
    with jobs.working() as work:
        assert work is not None
        assert work.take("1.json") is None
    assert (jobs.waiting(), jobs.refused()) == ([], 1)
