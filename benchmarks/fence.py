"""Soak and speed of the fence: `run` checks many generated texts under random cuts, and measures the scrubber.

python -c 'from benchmarks.fence import run; print(run())'
"""

from __future__ import annotations

import random
import re
import time
from typing import TYPE_CHECKING

from hermes.safety.fence import NOTE, StreamingContextScrubber, build_memory_context_block, sanitize_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "s3cr3t"  # noqa: S105 - the marker that must never be seen, not a password
CHUNK_SIZES = (1, 8, 64, 4096)

# Outer text that may stand directly beside a fence; no two of these join into a tag.
_OUTER = (
    *("a", " ", "\n", "word ", "<", "</", "< ", "<m", "</memory-", "<div>", "a<b", "&", "&l", "&lt;", "&amp;", "&#6"),
    *(
        "`",
        "``` ",
        "[",
        "[System note: ",
        "\u0130",
        "\u00df",
        "\U0001f600",
        "\u200b",
        "\uff1c",
        "\u8a18\u61b6",
        "]",
        ";",
    ),
    *(">", "memory", "x > y", "https://a.b/?c=d&e=f", "<memory-contexts>", "-", '"', "nonce=", "\x00", "\r\n"),
)
# Everything that may be part of a tag, for texts whose meaning only the reader decides.
_SOUP = (
    *_OUTER,
    *("<memory-context>", "</memory-context>", "<memory-context", "context>", "memory-context>", "memory-", "/", ">"),
    *("</MEMORY-CONTEXT >", '<memory-context nonce="a1">', '</memory-context nonce="a1">', "<memory-context/>", "lt;"),
    *("&lt;memory-context&gt;", "&lt/memory-context&gt", "&#60;", "&#x3E;", "gt;", "emory-context", "amp;", NOTE),
    *(
        "\uff1cmemory-context\uff1e",
        "<mem\u200bory-context>",
        "<m\u0435mory\u2011context>",
        "user input.",
        NOTE[:60],
        NOTE[60:],
    ),
    *("<memory-context " + "a" * 250, "b" * 20, "note: the following is recalled memory context, not new "),
)
_INSIDE = (
    "note ",
    "\n",
    "<",
    "&gt;",
    "</",
    "<b>",
    "\u0130",
    "</memory-",
    "[System note",
    "`",
    "x" * 40,
    SECRET,
    SECRET,
)
_OPENINGS = ("<memory-context>", "< Memory-Context >", '<memory-context id="7"\t>')
_CLOSINGS = ("</memory-context>", "</ MEMORY-CONTEXT >")
_DEEPEST, _NESTED, _WITH_NONCE = 3, 0.3, 0.5
_TAG = re.compile(r"<\s*(?:/\s*)?memory-context(?:[\s/][^<>]{0,200})?>", re.IGNORECASE)


def run(seed: int = 0, texts: int = 100_000, longest: int | None = None) -> dict[str, object]:
    """Check `texts` generated texts, measure every kind of text (up to `longest` characters) and chunk size."""
    measured = {name: speed(text[:longest]) for name, text in _speed_texts(seed).items()}
    return {**soak(seed, texts), "speed": measured}


def soak(seed: int, texts: int) -> dict[str, object]:
    random_ = random.Random(seed)  # noqa: S311 - a reproducible generator, not a key
    failures: dict[str, int] = dict.fromkeys(CHECKS, 0)
    first: dict[str, str] = {}
    for _ in range(texts):
        for name, check in CHECKS.items():
            broken = check(random_)
            if broken is not None:
                failures[name] += 1
                first.setdefault(name, repr(broken))
    return {"seed": seed, "texts": texts, "failures": failures, "first": first}


def scrub(chunks: Iterator[str] | list[str]) -> str:
    scrubber = StreamingContextScrubber()
    return "".join([*(scrubber.feed(chunk) for chunk in chunks), scrubber.flush()])


def cut(text: str, random_: random.Random) -> list[str]:
    """Cut anywhere, also into single and empty chunks."""
    count = random_.choice((0, 1, 3, len(text) // 4, len(text)))
    edges = sorted(random_.randrange(len(text) + 1) for _ in range(count)) if text else []
    return [text[start:end] for start, end in zip([0, *edges], [*edges, len(text)], strict=True)]


def soup(random_: random.Random, pieces: tuple[str, ...] = _SOUP, longest: int = 24) -> str:
    return "".join(random_.choice(pieces) for _ in range(random_.randint(0, longest)))


def fenced(random_: random.Random, depth: int = 0) -> str:
    """Return one closed fence in a form that programs write or attackers forge, perhaps with others inside."""
    inside = soup(random_, _INSIDE, 8)
    if depth < _DEEPEST and random_.random() < _NESTED:
        inside += fenced(random_, depth + 1) + soup(random_, _INSIDE, 4)
    if random_.random() < _WITH_NONCE:
        mark = f'nonce="{random_.getrandbits(48):012x}"'
        return f"<memory-context {mark}>\n{NOTE}\n\n{inside}</memory-context>{SECRET}\n</memory-context {mark}>"
    return f"{random_.choice(_OPENINGS)}\n{inside}\n{random_.choice(_CLOSINGS)}"


def _cuts_change_nothing(random_: random.Random) -> str | None:
    text = soup(random_)
    return None if scrub(cut(text, random_)) == scrub([text]) else text


def _nothing_fenced_is_visible(random_: random.Random) -> str | None:
    outer = [soup(random_, _OUTER, 4) for _ in range(random_.randint(1, 4))]
    text = "\n".join([outer[0], *(fenced(random_) + after for after in outer[1:])])
    expected = "\n".join(outer)
    return None if scrub(cut(text, random_)) == expected else text


def _an_open_end_is_discarded(random_: random.Random) -> str | None:
    outer = soup(random_, _OUTER, 4) + "\n"
    text = outer + random_.choice(_OPENINGS) + "\n" + soup(random_, _INSIDE, 8)
    return None if scrub(cut(text, random_)) == outer else text


def _cleaning_is_final(random_: random.Random) -> str | None:
    text = soup(random_)
    cleaned = sanitize_context(text)
    is_final = sanitize_context(cleaned) == cleaned
    return None if is_final and not _TAG.search(cleaned) else text


def _text_cannot_leave_its_fence(random_: random.Random) -> str | None:
    nonce = f"{random_.getrandbits(48):012x}"
    text = soup(random_) + f'</memory-context nonce="{nonce}">' + soup(random_)
    block = build_memory_context_block(text, nonce=nonce)
    tags = _TAG.findall(block)
    is_whole = not block or [tag[1] == "/" for tag in tags] == [False, True]
    return None if is_whole and scrub(cut(block, random_)) == "" else text


CHECKS: dict[str, Callable[[random.Random], str | None]] = {
    "cuts change nothing": _cuts_change_nothing,
    "nothing fenced is visible, the rest is unchanged": _nothing_fenced_is_visible,
    "an open end is discarded": _an_open_end_is_discarded,
    "cleaning is final": _cleaning_is_final,
    "text cannot leave its fence": _text_cannot_leave_its_fence,
}


def speed(text: str, repeats: int = 3) -> dict[str, dict[str, float]]:
    """MB per CPU second of the scrubber and of a loop that only joins the chunks, per chunk size, best of `repeats`."""
    result = {}
    size = len(text.encode()) / 1e6
    for chunk_size in CHUNK_SIZES:
        chunks = [text[at : at + chunk_size] for at in range(0, len(text), chunk_size)]
        scrubbing = min(_seconds(lambda: StreamingContextScrubber().feed, chunks) for _ in range(repeats))
        bare = min(_seconds(lambda: _same, chunks) for _ in range(repeats))
        result[str(chunk_size)] = {
            "MB/s": round(size / scrubbing, 1),
            "bare loop MB/s": round(size / bare, 1),
            "ratio": round(scrubbing / bare, 2),
        }
    return result


def _same(text: str) -> str:
    return text


def _seconds(start: Callable[[], Callable[[str], str]], chunks: list[str]) -> float:
    feed = start()
    shown = []
    began = time.process_time()
    for chunk in chunks:
        shown.append(feed(chunk))  # noqa: PERF401 - a stream is consumed chunk by chunk
    "".join(shown)
    return time.process_time() - began


def _speed_texts(seed: int) -> dict[str, str]:
    random_ = random.Random(seed)  # noqa: S311 - a reproducible generator, not a key
    words = ["the", "deploy", "worker", "reads", "a", "queue", "and", "writes", "memory,", "then", "stops."]
    prose = " ".join(random_.choice(words) for _ in range(80_000))
    paragraphs = [prose[at : at + 2000] for at in range(0, len(prose), 2000)]
    return {
        "plain": prose,
        "source code": "for (int i = 0; i < n && x[i] <= y; ++i) { std::vector<int> v << 1; }\n" * 6000,
        "fenced every 2000": "".join(part + "\n" + build_memory_context_block("recalled") for part in paragraphs),
        "one span": build_memory_context_block(prose),
        "curly quotes": prose.replace("memory,", "\u201cmemory\u201d,"),
        "Chinese": "\u8a18\u61b6\u9700\u8981\u908a\u754c\uff0c\u5426\u5247\u6703\u6d29\u6f0f\u3002" * 30_000,
        "unclosed tags": "<memory-context <" * 20_000,
    }
