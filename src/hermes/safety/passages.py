"""Takes the paragraphs out of a longer text that look like an attack, so that they do not cost the rest of it.

A project's notes or a skill have hundreds of paragraphs, and among so many a scanner is wrong about one now and then.
Who hides something, or forges the marks around a text, is not wrong by chance: such a text is left out as a whole, and
so is one that still looks like an attack without those paragraphs, or of which they are a large part.
"""

from __future__ import annotations

import re

from hermes.safety.verdict import ASK, CLEAN, REFUSE
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.vocabulary.verdicts import Scan, Verdict

_BETWEEN = re.compile(r"\n[^\S\n]*\n\s*")
_NO_ACCIDENT = frozenset({"hidden_text", "forged_markup"})
_SMALL_PART = 4  # what is left out is at most one in so many characters
_MOST = 2_000  # paragraphs: each is judged by itself, and so many may take most of a second


@value
class Passages:
    """What may be shown, with a note in place of what may not, the verdict on it, and why the rest is left out."""

    text: str
    verdict: Verdict
    left_out: tuple[str, ...]


def without_attacks(text: str, name: str, scan: Scan) -> Passages | None:
    """The rest of a text that `scan` refuses; None when all of it is better left out."""
    paragraphs = _BETWEEN.split(text, maxsplit=_MOST)
    if len(paragraphs) > _MOST:
        return None
    verdicts = [scan(paragraph) for paragraph in paragraphs]
    refused = [verdict for verdict in verdicts if verdict.level == REFUSE]
    if any(_NO_ACCIDENT.intersection(verdict.classes) for verdict in refused):
        return None
    levels = _with_neighbours([verdict.level for verdict in verdicts])
    shown = [paragraph for paragraph, level in zip(paragraphs, levels, strict=True) if level != REFUSE]
    rest = "\n\n".join(shown)
    verdict = scan(rest)
    if verdict.level == REFUSE or (len(text) - len(rest)) * _SMALL_PART > len(text):
        return None
    classes = tuple(sorted({threat for each in refused for threat in each.classes}))
    note = (
        f"[BLOCKED: a part of {name} was left out here, because it looks like an attempt to take control of the agent"
        f" ({', '.join(classes)}). Tell the person if it matters for the task.]"
    )
    return Passages(text="\n\n".join(_noted(paragraphs, levels, note)), verdict=verdict, left_out=classes)


def _with_neighbours(levels: list[str]) -> list[str]:
    """What is only worth a question beside an attack belongs to it."""
    around = zip([CLEAN, *levels[:-1]], levels, [*levels[1:], CLEAN], strict=True)
    return [REFUSE if level == ASK and REFUSE in (before, after) else level for before, level, after in around]


def _noted(paragraphs: list[str], levels: list[str], note: str) -> list[str]:
    """The paragraphs, with one note for each run of those that are left out."""
    shown: list[str] = []
    for paragraph, level in zip(paragraphs, levels, strict=True):
        if level != REFUSE:
            shown.append(paragraph)
        elif not shown or shown[-1] is not note:
            shown.append(note)
    return shown
