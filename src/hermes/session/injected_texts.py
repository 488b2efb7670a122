"""The texts behind the recorded sizes: what was added on the way to the model, cut out of what is stored.

A text that is not stored is None. Nothing is built again from its sources: they may have changed since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.storage.compaction import REPLACED_PROMPT
from hermes.storage.originals import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.storage.transcripts import StoredMessage

_BETWEEN = "\n\n"


def prompts(stored: Sequence[StoredMessage], newest: str | None) -> list[str | None]:
    """The prompts of a session, in order: the one it began with, then one for each compaction that rebuilt it."""
    rebuilt = (each.message for each in stored if WRITTEN in each.message and "prompt_sections" in each.message)
    return [*(message.get(REPLACED_PROMPT) for message in rebuilt), newest]


def section_texts(sections: Sequence[dict[str, Any]], prompt: str | None) -> list[str | None]:
    """The text of each section, when the prompt is the one that was measured."""
    ends, at = [], 0
    for each in sections:
        ends.append(at + each["characters"])
        at = ends[-1] + len(_BETWEEN)
    if prompt is None or not ends or ends[-1] != len(prompt):
        return [None] * len(sections)
    return [prompt[end - each["characters"] : end] for each, end in zip(sections, ends, strict=True)]


def addition_texts(stored: StoredMessage) -> list[str | None]:
    """What was added to a message, in the order of its record. Recall is as the model saw it, within its fence."""
    additions, sent = stored.message.get("additions", ()), stored.message.get("api_content")
    if sent is None:  # notes that came with a folder are the end of the result
        return [stored.text[-each["characters"] :] for each in additions]
    rest = sent[len(stored.text) + len(_BETWEEN) :]
    texts: list[str | None] = []
    for each in reversed(additions):
        text = rest if each["source"] == "recalled" else rest[-each["characters"] :]
        rest = rest[: -len(text) - len(_BETWEEN)]
        texts.insert(0, text)
    return texts


def summary_texts(context: Sequence[StoredMessage]) -> dict[int, str]:
    """What each compaction wrote that still stands in the context, by the id of the message that carries its record."""
    texts: dict[int, list[str]] = {}
    for each in sorted((each for each in context if WRITTEN in each.message), key=lambda each: each.place):
        if "additions" in each.message or not texts:
            texts[each.id] = []
        texts[next(reversed(texts))].append(each.text)
    return {number: _BETWEEN.join(written) for number, written in texts.items()}
