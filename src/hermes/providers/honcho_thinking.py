"""Honcho's reasoning for a turn: how hard it should think, and the questions it is asked in a row."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from hermes.providers.honcho_api import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONG, _VERY_LONG = 120, 400
_TEXTS = os.path.join(os.path.dirname(__file__), "text")
# Words that say nothing one could think about.
_TRIVIAL = re.compile(
    r"(?:ok(?:ay)?|yes|yep|yeah|no|nope|sure|thanks?|thank you|great|good|nice|fine|cool|right|go(?: on| ahead)?|"
    r"continue|hi|hello|hey|ja|nein|danke|oui|non|merci|sí|gracias|好的?|是的?|谢谢|はい|ありがとう)?[\s\W]*",
    re.IGNORECASE,
)


def is_trivial(message: str) -> bool:
    return bool(_TRIVIAL.fullmatch(message.strip()))


def level_for(config: Mapping[str, Any], message: str) -> str:
    """The configured level, higher for longer messages, never above the cap."""
    base = _position(config["dialecticReasoningLevel"], "low")
    if not config["reasoningHeuristic"]:
        return LEVELS[base]
    more = (len(message) >= _LONG) + (len(message) >= _VERY_LONG)
    return LEVELS[max(base, min(base + more, _position(config["reasoningLevelCap"], "high")))]


def think(config: Mapping[str, Any], message: str, ask: Callable[[str, str], str]) -> str:
    """Asks once, and again about the answer where more depth is wanted; `ask` takes a question and a level."""
    longest = int(config["dialecticMaxInputChars"])
    depth = min(max(int(config["dialecticDepth"]), 1), 3)
    levels = [str(each) for each in config["dialecticDepthLevels"] or ()]
    answer = ""
    for step in range(depth):
        level = levels[step] if step < len(levels) and levels[step] in LEVELS else level_for(config, message)
        question = f"{_text('honcho_question')}\n{message}"
        if step:
            question = f"{_text('honcho_deeper')}\n\n{question}\n\n{answer}"
        improved = ask(question[:longest], level)
        if not improved:
            break
        answer = improved
    return cut(answer, int(config["dialecticMaxChars"]))


def cut(text: str, longest: int) -> str:
    """Whole words, and a sign that there was more."""
    if len(text) <= longest:
        return text
    return f"{text[: longest + 1].rsplit(None, 1)[0]} …"


def pieces(text: str, longest: int) -> list[str]:
    """A long message in parts that Honcho takes, cut between lines or words where that is possible."""
    parts, rest = [], text
    while len(rest) > longest:
        head = rest[:longest]
        at = max(head.rfind("\n", longest // 2), head.rfind(" ", longest // 2)) + 1 or longest
        parts.append(rest[:at])
        rest = rest[at:]
    return [*parts, rest]


def _position(level: Any, otherwise: str) -> int:
    return LEVELS.index(str(level) if str(level) in LEVELS else otherwise)


def _text(name: str) -> str:
    with open(os.path.join(_TEXTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()
