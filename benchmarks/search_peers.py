"""Other engines on the same messages and queries, in the same run, when they are installed; never assumed.

hermes-agent runs in a Python of its own (both programs are called `hermes`), tantivy in ours.
"""

from __future__ import annotations

import json
import os
import subprocess
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# Runs inside the Python that hermes-agent is installed in: fills its database through its own calls, asks its own
# tool, and prints CPU figures as JSON.
_HERMES_AGENT = """
import json, sys, time
from pathlib import Path
from hermes_state import SessionDB
from tools.session_search_tool import session_search
place, limit = sys.argv[1], float(sys.argv[2])
db = SessionDB(Path(place) / "state.db")
written, started, known = 0, time.process_time(), set()
for line in open(Path(place) / "messages.jsonl", encoding="utf-8"):
    session, message = json.loads(line)
    if session not in known:
        known.add(session)
        db.create_session(session, "cli")
    db.append_message(session, message["role"], content=message.get("content"), tool_calls=message.get("tool_calls"))
    written += 1
    if time.process_time() - started > limit:
        break
figures = {"messages": written, "messages_per_cpu_second": round(written / (time.process_time() - started))}
for name, queries in json.load(open(Path(place) / "queries.json", encoding="utf-8")).items():
    taken, begun = [], time.process_time()
    for query in queries:
        before = time.process_time()
        session_search(query=query, db=db)
        taken.append((time.process_time() - before) * 1000)
        if time.process_time() - begun > limit / 10:
            break
    taken.sort()
    at = {share: min(len(taken) - 1, len(taken) * share // 100) for share in (50, 95, 99)}
    figures[name] = {f"p{share}": round(taken[place], 3) for share, place in at.items()}
print(json.dumps(figures))
"""


def hermes_agent(
    python: str, place: str, messages: Iterable[tuple[str, Mapping[str, Any]]], queries: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Figures of hermes-agent, of as many messages as it writes in ten minutes of CPU."""
    os.mkdir(place, 0o700)
    with open(os.path.join(place, "messages.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(pair) + "\n" for pair in messages)
    with open(os.path.join(place, "queries.json"), "w", encoding="utf-8") as file:
        json.dump(queries, file)
    environment = {**os.environ, "HERMES_HOME": place}
    command = [python, "-c", _HERMES_AGENT, place, "600"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=place)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def tantivy(place: str, texts: Iterable[str]) -> Callable[[str], Any] | None:
    """A search for the 20 best in tantivy's index of the texts; None where it is not installed."""
    if find_spec("tantivy") is None:
        return None
    from importlib import import_module

    engine: Any = import_module("tantivy")
    os.mkdir(place, 0o700)
    schema = engine.SchemaBuilder().add_text_field("words", stored=False).build()
    index = engine.Index(schema, path=place)
    writer = index.writer(heap_size=100_000_000, num_threads=1)
    for text in texts:
        writer.add_document(engine.Document(words=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(query: str) -> Any:
        quoted = query if " OR " in query or query.startswith('"') or query.endswith("*") else query.strip("?")
        parsed, _ = index.parse_query_lenient(quoted, ["words"])
        return searcher.search(parsed, 20).hits

    return ask
