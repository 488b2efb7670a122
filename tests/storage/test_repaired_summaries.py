"""A repair carries the graph of summaries that the `lcm` engine keeps, as far as it can be believed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw
import pytest
from engines import database_of

from hermes.conversations.context import SummaryGraph
from hermes.conversations.database import SessionDB
from hermes.storage.local.database import PAGE, one_row
from hermes.storage.local.repair.check import repair
from hermes.storage.local.repair.salvage import Graph
from soak.sessions_damage import Specimen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


def state(db: SessionDB, session: str) -> list[tuple[object, list[object]]]:
    graph = SummaryGraph(db, session)
    return [(node, [child.number for child in graph.children(node.number)]) for node in graph.all()]


@pytest.fixture
def summarised(home: Path) -> tuple[Specimen, str]:
    """A database in which the first session has ten leaves under two condensed summaries."""
    home.mkdir(mode=0o700)
    specimen = Specimen(os.fspath(home), messages=120, sessions=4)
    name = specimen.names[0]
    with SessionDB.open(specimen.path) as db:
        graph = SummaryGraph(db, name)
        ids = sorted(message.id for message in db.messages(name))
        leaves = [
            graph.add(depth=0, ids=str(number), messages=1, text=f"leaf {number} " * 40, made_by="extract")
            for number in ids[:10]
        ]
        for half in (leaves[:5], leaves[5:]):
            covered = ", ".join(leaf.ids for leaf in half)
            graph.add(depth=1, ids=covered, messages=5, text="condensed", made_by="helper", children=half)
        db.sync()
    with open(specimen.path, "rb") as file:
        specimen.bytes = file.read()
    return specimen, name


def destroy(specimen: Specimen, table: str) -> None:
    connection = apsw.Connection(specimen.path)
    root = one_row(connection, "SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))[0] if table else 1
    connection.close()
    start = (root - 1) * PAGE
    specimen.put(specimen.bytes[:start] + os.urandom(PAGE) + specimen.bytes[start + PAGE :])


@pytest.mark.proves("repair.summaries")
@pytest.mark.parametrize("table", ["messages", "blocks", "state_meta", ""])
def test_the_graph_is_there_again_whichever_table_or_header_broke(
    summarised: tuple[Specimen, str], table: str, hermes: Callable[..., Ran]
) -> None:
    specimen, name = summarised
    with SessionDB.open(specimen.path) as db:
        before = state(db, name)
    assert [children for _, children in before[-2:]] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    destroy(specimen, table)
    assert "kept 12 summaries of the lossless engine" in hermes("sessions", "repair").out
    with SessionDB.open(specimen.path) as db:
        assert state(db, name) == before
        added = SummaryGraph(db, name).add(depth=0, ids="1", messages=1, text="next", made_by="extract")
        assert added.number == 13


@pytest.mark.proves("repair.summaries")
@pytest.mark.parametrize("table", ["summaries", "summary_children"])
def test_what_is_left_of_the_graph_itself_is_kept(summarised: tuple[Specimen, str], table: str) -> None:
    specimen, name = summarised
    with SessionDB.open(specimen.path) as db:
        before = state(db, name)
    destroy(specimen, table)
    told = repair(specimen.path)
    assert told.problems
    with SessionDB.open(specimen.path) as db:
        after = state(db, name)
        assert all(node in [each for each, _ in before] for node, _ in after)
        assert len(db.messages(name)) > 10
    if table == "summary_children":
        assert [node for node, _ in after] == [node for node, _ in before]


@pytest.mark.proves("repair.summaries")
def test_a_database_without_a_graph_gets_none(home: Path) -> None:
    home.mkdir(mode=0o700)
    specimen = Specimen(os.fspath(home), messages=40, sessions=2)
    destroy(specimen, "blocks")
    told = repair(specimen.path)
    assert told.as_json()["summaries_kept"] == 0
    connection = apsw.Connection(specimen.path)
    assert connection.execute("SELECT name FROM sqlite_schema WHERE name = 'summaries'").fetchall() == []
    connection.close()


@pytest.mark.proves("repair.summaries")
def test_rows_that_only_look_alike_are_left_out(tmp_path: Path) -> None:
    graph = Graph()
    leaf = (1, 7, 0, "4096-4099", 4, "a leaf", "extract", 5)  # a whole number of seconds is stored without a fraction
    above = (2, 7, 1, "4096-4200", 90, "condensed", "helper", 6.5)
    elsewhere = (3, 7, 0, "9000-9001", 2, "another stretch", "extract", 7.5)
    lost = (4, 99, 0, "4096", 1, "of a session that is gone", "extract", 8.5)
    for row in (
        leaf,
        above,
        elsewhere,
        lost,
        (5, 7, 0, "no ids", 1, "text", "x", 1.0),
        (6, 7, None, "1", 1, "t", "x", 1.0),
    ):
        graph.take_node(row)
    graph.take_pairs([(2, 1), (1, 2), (2, 3), (2, 4), (7, 1), ("1:meta", b"value")])
    assert set(graph.nodes) == {1, 2, 3, 4}
    with SessionDB.open(tmp_path / "state.db") as db:
        for _ in range(7):
            db.create_session()
        assert graph.write(database_of(db), {7}) == 3
        session = next(each.id for each in db.list_sessions(limit=10) if each.key == 7)
        assert [child.number for child in SummaryGraph(db, session).children(2)] == [1]
