"""Digests of found conversations, written by a helper model for one question. Off unless a model is given.

Whatever goes wrong, the messages themselves are still in the result: a summary that does not come in time is left out.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import TYPE_CHECKING

from hermes.recall.truncation import truncate_around

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONCURRENT, MOST, SECONDS, WIDTH = 3, 5, 90.0, 100_000


def summaries(
    transcripts: Mapping[str, str],
    query: str,
    summarise: Callable[[str], str],
    *,
    seconds: float = SECONDS,
    concurrent: int = CONCURRENT,
    most: int = MOST,
    width: int = WIDTH,
) -> dict[str, str]:
    """A summary with respect to the query for each session id, for those that were written in time."""
    waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    chosen = list(transcripts.items())[:most]
    for session_id, text in chosen:
        waiting.put((session_id, prompt(text, query, width=width)))
    finished: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    deadline = time.monotonic() + seconds
    for _ in range(min(concurrent, len(chosen))):
        # A daemon: a model that never answers must not keep the program from ending.
        threading.Thread(target=_work, args=(waiting, finished, summarise, deadline), daemon=True).start()
    return _collected(finished, len(chosen), deadline)


def prompt(transcript: str, query: str, *, width: int = WIDTH) -> str:
    with open(os.path.join(os.path.dirname(__file__), "text", "digest.md"), encoding="utf-8") as file:
        wording = file.read()
    around = truncate_around(transcript, query, width)
    return wording.replace("{query}", query).replace("{transcript}", around)


def _work(
    waiting: queue.SimpleQueue[tuple[str, str]],
    finished: queue.SimpleQueue[tuple[str, str]],
    summarise: Callable[[str], str],
    deadline: float,
) -> None:
    while time.monotonic() < deadline:
        try:
            session_id, text = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            made = str(summarise(text) or "").strip()
        except Exception:  # noqa: BLE001 - a model client of any kind runs here; without a summary the messages stand
            made = ""
        finished.put((session_id, made))


def _collected(finished: queue.SimpleQueue[tuple[str, str]], expected: int, deadline: float) -> dict[str, str]:
    made: dict[str, str] = {}
    for _ in range(expected):
        try:
            session_id, text = finished.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if text:
            made[session_id] = text
    return made
