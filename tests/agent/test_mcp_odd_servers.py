"""MCP servers that answer oddly, slowly or not at all, each a program that speaks the protocol by hand."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from agents import call_tools, configure, first_json

from hermes import Agent
from hermes.base.errors import NotFound
from hermes.base.events import Notice, ToolReturned
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.proves("agent.mcp")

# Offers the tools t0, t1, … one to a page, as long as there are results in the file that the second argument names.
_ODD = """
import json, pathlib, sys
log, results = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
log.open("a").write("started\\n")
for line in sys.stdin:
    asked = json.loads(line)
    method, given = asked.get("method"), asked.get("params") or {}
    told = {}
    if method == "initialize":
        told = {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"}}
    elif method == "tools/list":
        page = int(given.get("cursor") or 0)
        told = {"tools": [{"name": f"t{page}", "inputSchema": {"type": "object"}}]}
        if results is None or page + 1 < len(results):
            told["nextCursor"] = str(page + 1)
    elif method == "tools/call":
        told = results[int(given["name"][1:])]
        if told == "die":
            sys.exit("out of water")
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


def serve(home: Path, log: Path, results: list[Any] | None, name: str = "odd", **more: Any) -> None:
    """Settings with a server whose tools return these results; with None it has tools without end."""
    program, told = log.with_name("odd.py"), log.with_name("results.json")
    program.write_text(_ODD)
    told.write_text(json.dumps(results))
    block = {"command": sys.executable, "args": [str(program), str(log), str(told)], **more}
    configure(home, json.dumps({"mcp_servers": {name: block}}))


def opened(home: Path) -> list[str]:
    """The names of the tools of servers that an agent which is opened and closed offers."""
    with Agent.open(home, model=Scripted([])) as agent:
        names = [tool["function"]["name"] for tool in agent.session.request().tools]
    return [name for name in names if name.startswith("mcp_")]


def test_a_result_that_is_not_text_is_named_and_one_that_is_data_is_shown(home: Path, log: Path) -> None:
    blocks = [
        {"type": "text", "text": "one"},
        {"type": "resource", "resource": {"uri": "a:b", "text": "two"}},
        {"type": "resource_link", "name": "three", "uri": "c:d"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]
    serve(home, log, [{"content": blocks}, {"content": [], "structuredContent": {"leaf": "grün"}}])
    mixed, data = call_tools(home, log.parent / "work", ("mcp_odd_t0", {}), ("mcp_odd_t1", {}))
    assert mixed["content"] == "one\ntwo\n[three](c:d)\n[image that is not text]"
    assert data["content"] == '{"leaf": "grün"}'


def test_a_list_in_pages_is_read_to_its_end_and_one_without_end_is_not(home: Path, log: Path) -> None:
    serve(home, log, [{}] * 3)
    assert opened(home) == ["mcp_odd_t0", "mcp_odd_t1", "mcp_odd_t2"]
    serve(home, log, None, timeout=60)  # other settings, so the list is asked for again
    assert len(opened(home)) == 50


def test_a_long_name_is_shortened_and_stays_its_own(home: Path, log: Path) -> None:
    serve(home, log, [{"content": []}, {"content": []}], name="x" * 70)
    first, second = opened(home)
    assert (len(first), len(second), first != second) == (64, 64, True)


def test_a_server_that_died_is_started_again_by_the_next_call(home: Path, log: Path) -> None:
    serve(home, log, [{"content": [{"type": "text", "text": "here"}]}, "die"])
    names = ("mcp_odd_t0", "mcp_odd_t1", "mcp_odd_t0")
    before, died, after = call_tools(home, log.parent / "work", *((name, {}) for name in names))
    assert (before["content"], died["success"], after.get("content")) == ("here", False, "here")
    assert "Connection closed (it wrote: out of water)" in died["error"]
    assert log.read_text() == "started\n" * 2


def test_the_kept_list_is_a_copy_only(home: Path, log: Path) -> None:
    serve(home, log, [{}])
    names = opened(home)
    assert opened(home) == names
    assert log.read_text() == "started\n"  # the second time from the copy
    (home / "cache/mcp_tools.json").write_text('["not what was written here"]')
    assert opened(home) == names
    assert log.read_text() == "started\n" * 2
    (home / "cache/mcp_tools.json").unlink()
    (home / "cache").rename(home / "before")
    (home / "cache").write_text("no folder, so nothing can be kept")
    assert opened(home) == names


def test_a_server_that_says_nothing_is_given_up(home: Path) -> None:
    block = {"command": "sh", "args": ["-c", "echo brewing >&2; exec sleep 60"], "connect_timeout": 1}
    configure(home, json.dumps({"mcp_servers": {"slow": block}}))
    with Agent.open(home, model=Scripted(["hi"])) as agent:
        told = [each.text for each in agent.turn("hi") if isinstance(each, Notice)]
    assert told == ["the MCP server slow did not start: no answer within 1 s (it wrote: brewing)"]


def test_a_person_who_stops_the_start_of_a_server_can_have_it_later(home: Path, log: Path) -> None:
    serve(home, log, [{"content": [{"type": "text", "text": "here"}]}])
    opened(home)  # from now on the list is known, and the server starts with its first call
    ready, gate = log.with_name("ready"), log.with_name("gate")
    wait = f"import pathlib, time\npathlib.Path({str(ready)!r}).touch()\n"
    wait += f"while not pathlib.Path({str(gate)!r}).exists():\n    time.sleep(0.01)\n"
    log.with_name("odd.py").write_text(wait + _ODD)
    call = Reply(calls=[("mcp_odd_t0", {})])
    with Agent.open(home, model=Scripted([call, call, "ok"])) as agent:

        def stop_when_started() -> None:
            while not ready.exists():
                time.sleep(0.01)
            agent.interrupt()

        watcher = threading.Thread(target=stop_when_started)
        watcher.start()
        (stopped,) = [first_json(each.result) for each in agent.turn("go") if isinstance(each, ToolReturned)]
        watcher.join()
        gate.touch()
        (later,) = [first_json(each.result) for each in agent.turn("again") if isinstance(each, ToolReturned)]
    assert "the user stopped the call" in stopped["error"]
    assert later == {"success": True, "content": "here"}


def test_a_server_that_fails_is_told_again_without_another_try(home: Path, log: Path) -> None:
    serve(home, log, [{"content": []}])
    opened(home)
    log.with_name("odd.py").write_text(f"open({str(log)!r}, 'a').write('failed\\n')\nraise SystemExit('no leaves')")
    first, second = call_tools(home, log.parent / "work", ("mcp_odd_t0", {}), ("mcp_odd_t0", {}))
    assert "no leaves" in first["error"]
    assert second == first
    assert log.read_text() == "started\nfailed\n"


def test_without_its_package_the_servers_are_a_notice(home: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, log, [{}])
    monkeypatch.setitem(sys.modules, "mcp", None)
    with Agent.open(home, model=Scripted(["hi"])) as agent:
        (told,) = [each.text for each in agent.turn("hi") if isinstance(each, Notice)]
    assert "install jinja2 mcp starlette uvicorn" in told


def test_a_server_that_was_asked_for_its_tools_ends_with_a_session_that_does_not_begin(home: Path, log: Path) -> None:
    serve(home, log, [{}])
    log.with_name("odd.py").write_text(f"{_ODD}log.open('a').write('ended\\n')\n")
    with pytest.raises(NotFound):
        Agent.open(home, model=Scripted([]), resume="nothing")
    assert log.read_text() == "started\nended\n"
