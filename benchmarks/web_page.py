"""Server time of every view of the web page in a large home, beside the same view in a nearly empty one.

Every round of a search asks for another word, because what was searched before is faster. Each word is in a tenth of
all messages; the number is in a hundred-thousandth.

`python -m benchmarks.web_page` fills 100,000 conversations with 1,000,000 messages in a temporary folder. Times are CPU
milliseconds of the server process per request, the median of several, because other programs share the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from web_page import Visitor, own_page

from hermes import MemorySession
from hermes.conversations.database import SessionDB
from hermes.memory.store import MemoryStore

_WORDS = ("garden", "invoice", "server", "holiday", "recipe", "contract", "battery", "museum", "library", "harbour")
_BATCH = 2_000


def fill(home: Path, conversations: int, messages_each: int) -> None:
    """Conversations with questions and answers; the last one is written by a session, with a prompt and a receipt."""
    MemoryStore.open(home).add("user", "Likes short answers.")
    with SessionDB.open(home / "state.db") as db:
        for first in range(0, conversations, _BATCH):
            with db.bulk():
                for number in range(first, min(first + _BATCH, conversations)):
                    session = db.create_session(source="cli", title=f"Conversation {number}", session_id=f"c{number}")
                    words = [_WORDS[(number + step) % len(_WORDS)] for step in range(messages_each)]
                    roles = ("user", "assistant")
                    db.append_many(
                        session,
                        [
                            {"role": roles[step % 2], "content": f"About the {word} {number}: step {step} is done."}
                            for step, word in enumerate(words)
                        ],
                    )
        db.index()
    with MemorySession.open(home, source="cli", title="The newest") as newest:
        newest.prepare_turn("What about the garden?")
        newest.finish_turn("It is green.")


def views(home: Path) -> dict[str, str]:
    """Every view by name, with the conversation that both homes have."""
    with SessionDB.open(home / "state.db") as db:
        newest = db.list_sessions(limit=1)[0].id
    return {
        "now": "/ui/now",
        "memory": "/ui/memory",
        "history": "/ui/memory/history",
        "contradictions": "/ui/memory/conflicts",
        "rules": "/ui/rules",
        "approvals": "/ui/approvals",
        "conversations": "/ui/conversations",
        "page 2": "/ui/conversations?page=2",
        "search": "/ui/conversations?q=what+about+the+{word}",
        "search a word": "/ui/conversations?q={word}",
        "search a number": "/ui/conversations?q=what+about+the+{word}+{number}",
        "conversation": f"/ui/conversations/{newest}",
        "context": f"/ui/conversations/{newest}/context",
        "receipts": f"/ui/receipts?conversation={newest}",
        "health": "/ui/health",
        "forget": "/ui/forget",
        "people": "/ui/people",
    }


def measure(home: Path, rounds: int) -> dict[str, float]:
    """CPU milliseconds of each view; the server runs in this process, so the client's share is in both homes alike."""
    found = {}
    with own_page(home) as (url, link):
        visitor = Visitor(url)
        path = link()
        visitor.get(path)
        visitor.post("/ui/enter", token=path.rpartition("token=")[2])
        for name, path in views(home).items():
            answer = visitor.http.get(path.format(word="harbour", number=7))
            if answer.status_code != httpx.codes.OK:
                raise SystemExit(f"{path} answered {answer.status_code}: is the visitor signed in?")
            times = []
            for number in range(rounds):
                asked = path.format(word=_WORDS[number % len(_WORDS)], number=911 * number)
                begun = time.process_time()
                visitor.http.get(asked)
                times.append(time.process_time() - begun)
            found[name] = statistics.median(times) * 1000
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--messages-each", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        for home, many in ((small, 1), (large, given.conversations)):
            home.mkdir()
            fill(home, many, given.messages_each)
        before, after = measure(small, given.rounds), measure(large, given.rounds)
    print(f"{given.conversations:,} conversations, {given.conversations * given.messages_each:,} messages")
    print(f"{'view':<16}{'nearly empty':>14}{'full':>10}{'ratio':>8}")
    for name, least in before.items():
        print(f"{name:<16}{least:>11.1f} ms{after[name]:>7.1f} ms{after[name] / least:>8.2f}")


if __name__ == "__main__":
    main()
