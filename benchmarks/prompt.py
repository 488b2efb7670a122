"""What the prompt costs: the first request of a chat, assembly with 200 skills, cache marking, the token estimate.

CPU time, best of several runs. Each figure stands beside the plain thing it competes with, measured in the same run.
"""

from __future__ import annotations

import copy
import datetime as dt
import os
import random
import tempfile

from benchmarks.measure import best_cpu
from hermes.agent import Agent
from hermes.base.tokens import estimate, estimate_message
from hermes.llm.anthropic import cache_points
from hermes.llm.client import encode
from hermes.llm.scripted import Scripted
from hermes.prompt.assembly import PromptInputs, ScanCache, assemble
from hermes.skills.files import SkillIndex

SKILLS = 200
HISTORIES = (1_000, 10_000, 100_000)
TEXT_BYTES = 2_000_000
FIRST_REQUEST_LIMIT = 3_000  # estimated tokens of "hello" in an empty home
WORDS = ("the", "a", "to", "of", "session", "prompt", "cache", "memory", "file", "search", "result", "answer", "index")


def run(seed: int = 0) -> dict[str, object]:
    chance = random.Random(seed)  # noqa: S311 - made-up texts, not secrets
    return {
        "first_request": first_request(),
        "skills": SKILLS,
        **_assembly(chance),
        "cache_marking": [_marking(length) for length in HISTORIES],
        "token_estimate": [_estimating(kind, chance) for kind in ("english", "chinese")],
    }


def first_request(model: str = "scripted") -> dict[str, int]:
    """The estimated tokens of "hello" in a new chat of an empty home; some families of models get more guidance."""
    answer = Scripted(["Hello."], name=model)
    with tempfile.TemporaryDirectory() as home, Agent.open(home, model=answer, cwd=home) as agent:
        list(agent.turn("hello"))
    sent = answer.requests[0]
    tools, system = estimate(encode(list(sent.tools)).decode()), estimate(sent.system)
    said = sum(map(estimate_message, sent.messages))
    return {
        "tools": len(sent.tools),
        "tool_tokens": tools,
        "system_tokens": system,
        "tokens": tools + system + said,
        "limit": FIRST_REQUEST_LIMIT,
    }


def _assembly(chance: random.Random) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        for number in range(SKILLS):
            _write_skill(home, number, chance)
        with open(os.path.join(home, "AGENTS.md"), "w", encoding="utf-8") as file:
            file.write(_sentence(chance, 1_500))
        never = best_cpu(lambda: _assemble_as_new(home), 3)
        first = ScanCache(home)
        index = _index(home, first)
        _assemble(home, index, first)
        first.save()
        return {
            "assembly_first_ever_ms": never * 1e3,
            "assembly_new_process_ms": best_cpu(lambda: _assemble_as_new(home), 9) * 1e3,
            "assembly_again_ms": best_cpu(lambda: _assemble(home, index, first), 9) * 1e3,
        }


def _assemble_as_new(home: str) -> str:
    """As the first prompt of a process does."""
    judged = ScanCache(home)
    return _assemble(home, _index(home, judged), judged)


def _index(home: str, judged: ScanCache) -> SkillIndex:
    return SkillIndex(os.path.join(home, "skills"), judged.scan)


def _assemble(home: str, index: SkillIndex, judged: ScanCache) -> str:
    tools = frozenset({"memory", "session_search", "skills_list", "skill_view", "skill_manage"})
    inputs = PromptInputs(
        scan=judged.scan,
        started=dt.date(2026, 1, 1),
        home=home,
        cwd=home,
        tools=tools,
        model="gpt-5",
        memory_block="MEMORY\n" + "note\n§\n" * 40,
        user_block="USER PROFILE\n" + "fact\n§\n" * 30,
        skills_index=index.render(),
        platform="cli",
    )
    return assemble(inputs).text


def _write_skill(home: str, number: int, chance: random.Random) -> None:
    directory = os.path.join(home, "skills", f"category-{number % 12}", f"skill-{number}")
    os.makedirs(directory, mode=0o700)
    text = f"---\nname: skill-{number}\ndescription: {_sentence(chance, 12)}\n---\n\n{_sentence(chance, 400)}\n"
    with open(os.path.join(directory, "SKILL.md"), "w", encoding="utf-8") as file:
        file.write(text)


def _marking(length: int) -> dict[str, float]:
    history: list[dict[str, object]] = [{"role": "system", "content": "You are Hermes."}]
    history += [{"role": ("user", "assistant")[n % 2], "content": f"message {n}"} for n in range(length)]
    return {
        "messages": length,
        "points_ms": best_cpu(lambda: cache_points(history), 9) * 1e3,
        "deepcopy_ms": best_cpu(lambda: copy.deepcopy(history), 2) * 1e3,
    }


def _estimating(kind: str, chance: random.Random) -> dict[str, object]:
    if kind == "english":
        text = _sentence(chance, 20_000)
    else:
        text = "".join(chance.choice("的一是在不了有和人这中大为上个国我以要他时来用们") for _ in range(40_000))
    size = len(text.encode())
    text *= TEXT_BYTES // size
    size *= TEXT_BYTES // size
    characters = len(text)
    return {
        "text": kind,
        "estimate_mb_per_s": size / best_cpu(lambda: estimate(text), 5) / 1e6,
        "four_characters_per_token": characters // 4,
        "estimate": estimate(text),
        "len_ns": best_cpu(lambda: [len(text) for _ in range(1_000)], 5) * 1e6,
    }


def _sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words)).capitalize() + "."
