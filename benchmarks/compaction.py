"""What compaction keeps and costs: planted facts after it, and its own CPU beside json.dumps of the same messages.

A fact counts as kept when its words stand in the compacted context, and as reachable when one `context_expand` call
with a line of the block brings it back. No model is asked: the summarisers are absent or bad on purpose.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from benchmarks.measure import best_cpu, median
from hermes.base.tokens import estimate, estimate_message
from hermes.compaction.compressor import ContextCompressor
from hermes.compaction.messages import characters, format_ranges, is_block, parse_block, text_of
from hermes.conversations.context import Contexts, NewContext
from hermes.conversations.database import SessionDB
from hermes.llm.scripted import Scripted
from hermes.session.session import MemorySession
from hermes.tools.memory import ContextExpand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.compaction.compressor import Compaction

    Message = dict[str, Any]

FACTS = 200
TRANSCRIPTS = 4
TURNS = 250  # of one transcript; four messages each
WINDOW = 64_000
LENGTHS = (1_000, 100_000)
MANY = 10_000  # messages
PEER_WINDOW, PEER_THRESHOLD = 200_000, 0.75  # hermes-agent's threshold for such a window; its tail is a fifth of that
ARCHIVED = 2_000  # rows
WAITED_TURNS = 80
ANSWER_SECONDS, SUMMARY_SECONDS = 0.02, 0.3  # of the model that turns wait for
FIRST_ID = 4_096
_FILLER = (
    "module", "cache", "index", "request", "worker", "queue", "table", "record", "handler", "session", "buffer",
    "column", "metric", "socket", "filter", "parser", "reads", "writes", "checks", "returns", "again", "slowly", "then",
    "the", "a", "of", "in", "for", "with", "after", "before", "each",
)  # fmt: skip
_SENT = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
_TOOLS = ("terminal", "read_file", "search_files", "write_file")


def run(seed: int = 0, peer_python: str | None = None) -> dict[str, object]:
    # First, while nothing else is in memory: hermes-agent is measured in a process of its own too.
    cost = {name: _cost(messages) for name, messages in _histories(seed)}
    figures: dict[str, object] = {
        "facts": FACTS,
        "window": WINDOW,
        "summarisers": {name: _retention(name, seed) for name in _SUMMARISERS},
        "cost": cost,
        "largest_prompt": _largest_prompt(seed),
        "archive": _archive(),
        "waiting": {"in_the_background": _waiting(0.8), "in_the_turn": _waiting(0)},
    }
    if peer_python:
        from benchmarks.compaction_peer import measure

        histories = [messages for _, messages in _histories(seed)]
        peer = measure(peer_python, histories, [_tail(messages) for messages in histories])
        figures["hermes_agent"] = peer
        if "cost" in peer:
            figures["over_hermes_agent"] = _ratios(cost, peer)
    return figures


# --- planted facts -------------------------------------------------------------------------------------------------


def _retention(name: str, seed: int) -> dict[str, float]:
    kept = reachable = lost = before = after = 0
    for number in range(TRANSCRIPTS):
        messages, facts = _transcript(random.Random(f"{seed}-{number}"), FACTS // TRANSCRIPTS)  # noqa: S311 - made up
        stored = dict(enumerate(messages, start=FIRST_ID))
        done = ContextCompressor(WINDOW, **_SUMMARISERS[name]()).compact(messages, ids=list(stored))
        context = "\n".join(json.dumps(message, ensure_ascii=False) for message in done.messages)
        brought_back = _expansions(done, stored)
        kept += sum(fact in context for fact in facts)
        reachable += sum(fact in context or any(fact in text for text in brought_back) for fact in facts)
        lost += len(stored) - len(_reachable_ids(done, stored))
        before, after = before + done.tokens_before, after + done.tokens_after
    return {
        "in_context": kept / FACTS,
        "in_context_or_one_expand": reachable / FACTS,
        "messages_unreachable": lost,
        "tokens_kept": after / before,
    }


def _transcript(chance: random.Random, facts: int) -> tuple[list[Message], list[str]]:
    messages = made_up_session(chance, TURNS)
    planted: list[str] = []
    # Not in the first and last turns: those stay word for word, and would prove nothing.
    for turn in chance.sample(range(4, TURNS - 12), facts):
        kind = len(planted) % 4
        code = f"{chance.choice('ABCDEFGH')}{chance.randrange(10**5):05}-{chance.randrange(16**4):04x}"
        fact, place, text = _fact(kind, code, chance)
        message = messages[4 * turn + 1 + place]
        content = message["content"]
        half = len(content) // 2 if place == 2 else len(content)  # noqa: PLR2004 - in the middle of a tool's output
        message["content"] = f"{content[:half]} {text} {content[half:]}".strip()
        planted.append(fact)
    return messages, planted


def _fact(kind: int, code: str, chance: random.Random) -> tuple[str, int, str]:
    """What must be found again, which message of the turn holds it, and the sentence that does."""
    match kind:
        case 0:
            return code, 0, f"The ticket for this is {code}."
        case 1:
            rule = f"Never restart host-{code.lower()} before {chance.randrange(1, 24)}:00."
            return rule, 0, rule
        case 2:
            decision = f"We decided to store it as schema {code} because of the audit."
            return decision, 3, decision
        case _:
            return code, 2, f"warning: lock {code} held by another process"


def made_up_session(chance: random.Random, turns: int) -> list[Message]:
    messages: list[Message] = [{"role": "system", "content": "You are Hermes."}]
    for number in range(turns):
        name = chance.choice(_TOOLS)
        arguments = json.dumps({"path": f"src/{chance.choice(_FILLER)}_{number}.py", "note": _words(chance, 8)})
        call = {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        messages += [
            {"role": "user", "content": f"Please look at {_words(chance, 25)}."},
            {"role": "assistant", "content": _words(chance, 12), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": _words(chance, chance.choice((30, 90, 300)))},
            {"role": "assistant", "content": f"Found that {_words(chance, 30)}."},
        ]
    return messages


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(_FILLER, k=count))


def _expansions(done: Compaction, stored: dict[int, Message]) -> list[str]:
    """What each line of the block brings back with one call."""
    tool = ContextExpand(lambda ids, _session: ((each, stored[each]) for each in ids if each in stored))
    answers = []
    for chapter in _chapters(done):
        answer = tool.call({"ids": format_ranges(chapter)})
        answers.append("\n".join(each["content"] for each in answer.get("messages", ())))
    return answers


def _reachable_ids(done: Compaction, stored: dict[int, Message]) -> set[int]:
    named = {each for chapter in _chapters(done) for first, last in chapter for each in range(first, last + 1)}
    whole = {FIRST_ID} if done.messages and done.messages[0]["role"] == "system" else set()
    return (named | whole | {each for each in done.ids if each is not None}) & stored.keys()


def _chapters(done: Compaction) -> list[tuple[tuple[int, int], ...]]:
    return [chapter.ids for message in done.messages if is_block(message) for chapter in parse_block(message).chapters]


# --- summarisers ---------------------------------------------------------------------------------------------------


def _failing(_prompt: str, _max_tokens: int) -> str:
    raise RuntimeError("503 service unavailable")


def _slow(_prompt: str, _max_tokens: int) -> str:
    raise TimeoutError("no answer within the time the caller allows")


def _lying(_prompt: str, _max_tokens: int) -> str:
    return (
        "## Goal\nThe person plans a birthday party.\n\n## Constraints & Preferences\n- Everything may be deleted.\n\n"
        "## Key Decisions\n- The cake is chocolate.\n\n## Next Steps\n- Order the balloons."
    )


def _vague(_prompt: str, _max_tokens: int) -> str:
    return "## Goal\nLook at many modules.\n\n## Progress\n### Done\n- Many modules were looked at and discussed."


_SUMMARISERS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "failing": lambda: {"summarise": _failing, "main_summarise": _failing},
    "empty": lambda: {"summarise": lambda *_: "", "main_summarise": lambda *_: " "},
    "slow": lambda: {"summarise": _slow},
    "lying": lambda: {"summarise": _lying},
    "vague": lambda: {"summarise": _vague},
    "too_small": lambda: {"summarise": _vague, "summary_context_length": 2_000},
}


# --- cost ----------------------------------------------------------------------------------------------------------


def _histories(seed: int) -> Iterator[tuple[str, list[Message]]]:
    """One whose texts repeat themselves, as those of an agent do that works on one thing, and one that never does."""
    for length in LENGTHS:
        yield f"{length:,} messages", made_up_session(random.Random(seed), length // 4)  # noqa: S311 - made-up texts
        yield f"{length:,} varied messages", _varied(length, seed)


def _varied(length: int, seed: int) -> list[Message]:
    """The history of `hermes bench search`: 60,000 words, growing identifiers, code, logs and Chinese."""
    from benchmarks.corpus import Corpus

    said = (message for planned in Corpus(seed).sessions(2 * length) for message in planned.messages)
    sent = ({key: value for key, value in message.items() if key in _SENT} for message in said)
    return [{"role": "system", "content": "You are a careful engineer."}, *islice(sent, length)]


def _cost(messages: list[Message]) -> dict[str, float]:
    """CPU milliseconds of ours, models not counted: all that a compaction does, for nothing is prepared before it.

    Token counts stand beside the messages, as a session keeps them. It counts each message once, when it comes, to know
    how full the window is; what that costs in all is `counting_ms`.
    """
    ids = list(range(FIRST_ID, FIRST_ID + len(messages)))
    counts = [characters(message) // 4 for message in messages]
    times = 15 if len(messages) < MANY else 2  # short runs need more of them
    done = ContextCompressor(**_settings(messages)).compact(messages, ids=ids, counts=counts, force=True)

    def measured(known: list[int] | None = counts, **given: Any) -> float:
        def compaction() -> None:
            compressor = ContextCompressor(**_settings(messages) | given)
            compressor.compact(messages, ids=ids, counts=known, force=True)

        return best_cpu(compaction, times) * 1e3

    return {
        "messages": len(messages),
        "messages_after": len(done.messages),
        "characters": sum(len(text_of(message)) for message in messages),
        "ahead_ms": 0.0,
        "compaction_ms": measured(),
        "with_main_model_ms": measured(main_summarise=_vague),
        "with_helper_ms": measured(summarise=_vague),
        "without_counts_ms": measured(None),
        "with_helper_without_counts_ms": measured(None, summarise=_vague),
        "peer_tail_ms": measured(threshold=PEER_THRESHOLD),
        "peer_tail_with_helper_ms": measured(threshold=PEER_THRESHOLD, summarise=_vague),
        "counting_ms": best_cpu(lambda: [estimate_message(message) for message in messages], min(times, 3)) * 1e3,
        "json_dumps_ms": best_cpu(lambda: json.dumps(messages), times) * 1e3,
    }


def _settings(messages: list[Message]) -> dict[str, Any]:
    """A short history needs a lower threshold to be compacted at all."""
    return {"context_length": PEER_WINDOW, "threshold": 0.1 if len(messages) < MANY else 0.5}


def _tail(messages: list[Message]) -> int:
    return ContextCompressor(**_settings(messages)).tail_token_budget


def _ratios(cost: dict[str, dict[str, float]], peer: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Our milliseconds over hermes-agent's: where each cuts by its own settings, and where both keep the same tail.

    It has one way only, with a helper model and with masking; ours is shown with none, with the main model, which has
    seen everything already, and with a helper, for which it is masked.
    """
    return {
        name: {
            "own_tails": ours["compaction_ms"] / theirs["compaction_ms"],
            "own_tails_with_helper": ours["with_helper_ms"] / theirs["compaction_ms"],
            "our_tail": ours["compaction_ms"] / theirs["our_tail_ms"],
            "our_tail_with_main_model": ours["with_main_model_ms"] / theirs["our_tail_ms"],
            "our_tail_with_helper": ours["with_helper_ms"] / theirs["our_tail_ms"],
            "its_tail": ours["peer_tail_ms"] / theirs["compaction_ms"],
            "its_tail_with_helper": ours["peer_tail_with_helper_ms"] / theirs["compaction_ms"],
        }
        for (name, ours), theirs in zip(cost.items(), peer["cost"], strict=True)
    }


def _archive() -> dict[str, float]:
    """Milliseconds to replace the rows of a real file by a block in one transaction, in place and by splitting."""
    figures = {}
    with tempfile.TemporaryDirectory() as place:
        for how in ("replace", "split"):
            with SessionDB.open(os.path.join(place, f"{how}.db")) as db:
                session = db.create_session()
                ids = db.append_many(session, made_up_session(random.Random(0), ARCHIVED // 4))  # noqa: S311 - made up
                db.index()
                block = {"role": "user", "content": "what happened before"}
                new = NewContext(messages=[block, {}], ids=[None, ids[-1]], archive=ids[:-1], last_id=ids[-1])
                start = time.perf_counter()
                getattr(Contexts(db), how)(session, new)
                figures[f"{how}_ms"] = (time.perf_counter() - start) * 1e3
    return {"rows": ARCHIVED, **figures}


def _waiting(prepare_at: float) -> dict[str, float]:
    """Milliseconds that turns spend before their request can be sent, with a model that takes time for a summary."""

    def step(messages: Sequence[Mapping[str, Any]]) -> str:
        if "<session>" not in str(messages[-1]["content"]):
            raise AssertionError("only summaries are asked for here")
        time.sleep(SUMMARY_SECONDS)
        return _vague("", 0)

    waits = []
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "config.yaml"), "w", encoding="utf-8") as file:
            file.write(f"compression: {{prepare_at: {prepare_at}, protect_last_n: 4}}\n")
        with MemorySession.open(place, context_length=WINDOW // 2) as session:
            session.use_model(Scripted([step] * WAITED_TURNS, context_length=WINDOW // 2))
            for number in range(WAITED_TURNS):
                start = time.perf_counter()
                session.fit(session.prepare_turn(f"Look at src/module_{number}.py. {'more words ' * 150}"))
                waits.append((time.perf_counter() - start) * 1e3 if number else 0.0)  # the first one loads modules
                time.sleep(ANSWER_SECONDS)
                session.finish_turn(f"Repaired module_{number}. {'it works now ' * 150}")
            compactions = session.compactions
    return {
        "turns": WAITED_TURNS,
        "compactions": compactions,
        "summary_ms": SUMMARY_SECONDS * 1e3,
        "usual_ms": median(waits),
        "longest_ms": max(waits),
    }


def _largest_prompt(seed: int) -> dict[str, int]:
    """The most that a helper with a window of 32,000 tokens is sent for the longest history, and how often."""
    sizes: list[int] = []

    def summariser(prompt: str, max_tokens: int) -> str:
        sizes.append(estimate(prompt) + max_tokens)
        return _vague(prompt, max_tokens)

    messages = made_up_session(random.Random(seed), max(LENGTHS) // 4)  # noqa: S311 - made-up texts
    compressor = ContextCompressor(200_000, summarise=summariser, summary_context_length=32_000)
    compressor.compact(messages, counts=[estimate_message(messages[1])] * len(messages), force=True)
    return {"window": 32_000, "tokens": max(sizes), "calls": len(sizes)}
