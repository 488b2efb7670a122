"""Every figure comes from one command, as text, JSON, page and chart."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from benchmarks.chart import draw
from benchmarks.protocols import PROTOCOLS

from hermes.cli.catalogue import GROUPS
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

SVG = "{http://www.w3.org/2000/svg}"


def shown(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def bars(svg: str) -> list[float]:
    return [float(bar.attrib["width"]) for bar in list(ET.fromstring(svg).iter(f"{SVG}rect"))[1:]]


@pytest.mark.proves("bench.all")
def test_all_figures_stand_beside_the_command_that_gives_them(
    hermes: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = hermes("bench", "all", "--quick", "--only", "prompt,recall", "--page", "figures.md", "--json")
    prompt, recall = ran.json["benchmarks"]
    assert prompt["command"] == "hermes bench prompt"
    assert prompt["figures"]["assembly_again_ms"] > 0
    assert "there are no conversations yet" in recall["skipped"]
    assert {"day", "system", "cores", "python", "load_average"} <= ran.json.keys()
    page = (tmp_path / "figures.md").read_text(encoding="utf-8")
    assert "`hermes bench recall --limit 50`" in page
    assert "| assembly_again_ms |" in page
    assert "Not measured: there are no conversations" in page


@pytest.mark.proves("bench.all")
def test_figures_are_lines_for_a_person(home: Path, hermes: Callable[..., Ran]) -> None:
    nothing = hermes("bench", "all", "--quick", "--only", "recall").out
    assert "\n  not measured: there are no conversations yet" in nothing
    words = ["walrus harbour morning", "orchid balcony window", "deploy atlas server", "violin concert evening"]
    with SessionDB.open(home / "state.db") as db:
        for each in words:
            db.append(db.create_session(), {"role": "user", "content": f"We spoke about {each} at length."})
    told = hermes("bench", "all", "--quick", "--only", "recall").out
    assert told.startswith("hermes bench recall --limit 50\n  whether questions made from your own conversations")
    assert "\n  own_history · session · hit@1 " in told


@pytest.mark.proves("bench.all")
def test_every_benchmark_has_a_protocol() -> None:
    assert set(PROTOCOLS) == set(GROUPS["bench"][1]) - {"all"}
    assert all(each.measures and each.beside for each in PROTOCOLS.values())


@pytest.mark.proves("bench.all")
def test_a_benchmark_that_is_not_there_is_named_with_those_that_are(hermes: Callable[..., Ran]) -> None:
    ran = hermes("bench", "all", "--only", "prompts")
    assert ran.code == 2
    assert "there is no benchmark 'prompts'; there are curated" in ran.err


@pytest.mark.proves("bench.chart")
def test_figures_are_drawn_on_request(hermes: Callable[..., Ran], tmp_path: Path) -> None:
    chart = tmp_path / "prompt.svg"
    assert hermes("bench", "prompt", "--chart", str(chart)).code == 0
    texts = shown(chart.read_text(encoding="utf-8"))
    assert texts[0] == "hermes bench prompt"
    assert "deepcopy_ms" in texts
    refused = hermes("bench", "prompt", "--chart", str(tmp_path / "missing" / "chart.svg"))
    assert (refused.code, "cannot be written" in refused.err) == (1, True)


@pytest.mark.proves("bench.chart")
def test_bars_of_one_unit_share_a_scale_and_counts_have_none() -> None:
    svg = draw(
        {"messages": 7, "ours_ms": 10.0, "theirs_ms": 40, "hit@5": 95, "over_floor": 1.5, "idle_ms": 0.0}, "a <b>"
    )
    assert shown(svg)[0] == "a <b>"
    assert "messages" not in shown(svg)
    ours, theirs, idle, *rest = bars(svg)
    assert theirs == pytest.approx(4 * ours, rel=0.01)
    assert idle == 1
    assert len(rest) == 2


@pytest.mark.proves("bench.chart")
def test_figures_far_apart_are_drawn_on_a_scale_that_says_so() -> None:
    svg = draw({"time ms": {"small": 0.001, "large": 900.0, "none": 0.0}, "rows": [{"kind": "x", "p95": 3.0}]}, "t")
    assert any("ms, logarithmic" in text for text in shown(svg))
    small, large, none, p95 = bars(svg)
    assert none < small < large / 5
    assert p95 > 1


@pytest.mark.proves("bench.peer")
def test_a_peer_is_measured_only_where_it_is(hermes: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_AGENT_PYTHON", raising=False)
    unknown = hermes("bench", "search", "--peer", "letta")
    assert (unknown.code, "'letta' cannot be measured" in unknown.err) == (2, True)
    nowhere = hermes("bench", "compaction", "--peer", "hermes-agent")
    assert (nowhere.code, "$HERMES_AGENT_PYTHON" in nowhere.err) == (2, True)
