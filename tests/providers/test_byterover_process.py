"""The pipe to `brv mcp`, with a program that answers in every wrong way."""

from __future__ import annotations

import json
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.errors import ProviderError
from hermes.providers.services.byterover import Brv, data_folder, remove_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Made = Callable[..., Brv]

KEY = "brv-secret-0123456789"
# Answers each request with the next list of lines, in which ID stands for the number of the request.
PROGRAM = """#!{python} -IS
import json, sys
answers = {answers!r}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    for answer in (answers.pop(0) if answers else []):
        print(answer.replace("ID", str(asked["id"])), flush=True)
"""
READY = ['{"id": ID, "result": {"capabilities": {}}}']


def text(said: str, **more: Any) -> str:
    return '{"id": ID, "result": ' + json.dumps({"content": [{"type": "text", "text": said}], **more}) + "}"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    running: list[Brv] = []

    def make(*answers: list[str]) -> Brv:
        program = tmp_path / "brv"
        program.write_text(PROGRAM.format(python=sys.executable, answers=[READY, *answers]), encoding="utf-8")
        program.chmod(stat.S_IRWXU)
        running.append(Brv(str(program), str(tmp_path), {}, KEY))
        return running[-1]

    yield make
    for each in running:
        each.close()


def call(brv: Brv, seconds: float = 20.0) -> str:
    return brv.call("brv-query", {"query": "parrots?"}, seconds)


@pytest.mark.proves("byterover.process")
def test_notifications_and_late_answers_are_passed_over(made: Made) -> None:
    brv = made(['{"method": "notifications/progress"}', '{"id": 99, "result": {}}', text("green ones")])
    brv.start()
    brv.start()  # it runs already
    assert call(brv) == "green ones"


@pytest.mark.proves("byterover.process")
@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ('{"id": ID, "error": {"message": "tool crashed"}}', "busy", "brv: tool crashed"),
        ('{"id": ID, "error": {}}', "busy", "no reason given"),
        ('{"id": ID}', "malformed", "an answer without a result"),
        ('{"id": ID, "result": {"content": "parrots"}}', "malformed", "an answer without content"),
        ('["parrots"]', "malformed", "something that is not a message"),
        ("Welcome to brv!", "malformed", "something that is not JSON"),
        (text(f"401 for {KEY}", isError=True), "key", "hermes memory setup byterover"),
        (text("rate limit exceeded", isError=True), "limited", "does not say how long to wait"),
        (text("429: retry after 7 seconds", isError=True), "limited", "wait 7 s"),
    ],
)
def test_an_answer_that_is_none_says_what_came(made: Made, answer: str, kind: str, said: str) -> None:
    brv = made([answer])
    with pytest.raises(ProviderError, match=said) as caught:
        call(brv)
    assert caught.value.kind == kind
    assert KEY not in str(caught.value)


@pytest.mark.proves("byterover.process")
def test_an_answer_that_never_ends_is_given_up(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.providers.services.byterover._LARGEST_ANSWER", 1_000)
    with pytest.raises(ProviderError, match="more than 1,000 bytes"):
        call(made([text("x" * 5_000)]))


@pytest.mark.proves("byterover.process")
def test_a_call_waits_no_longer_than_it_may(made: Made) -> None:
    brv = made()
    brv.start()
    with pytest.raises(ProviderError, match="did not answer in time") as caught:
        call(brv, 0.05)
    assert caught.value.kind == "slow"
    with brv._lock, pytest.raises(ProviderError, match="busy with something else"):  # another call has the pipe
        call(brv, 0.05)


@pytest.mark.proves("byterover.process")
def test_a_program_that_is_none_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="does not start") as caught:
        call(Brv(str(tmp_path), str(tmp_path), {}))
    assert caught.value.kind == "absent"


@pytest.mark.proves("services.forgotten")
@pytest.mark.parametrize(
    ("system", "variable", "place"),
    [
        ("linux", "BRV_DATA_DIR", ""),
        ("linux", "XDG_DATA_HOME", "brv"),
        ("linux", "", ".local/share/brv"),
        ("darwin", "", "Library/Application Support/brv"),
        ("win32", "", "AppData/Local/brv"),
        ("win32", "LOCALAPPDATA", "brv"),
    ],
)
def test_the_history_is_looked_for_where_brv_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, variable: str, place: str
) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("BRV_DATA_DIR", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
    assert data_folder() == str(tmp_path / place)
    assert remove_history(str(tmp_path)) == ""
