"""What a person said about themselves or decided, taken from a finished session sentence by sentence.

Only sentences that state it plainly in a language listed here; everything else is left to the tools. A question, a
quotation or somebody else's words state nothing.
"""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.safety.fence import sanitize_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST = 400
_SHORTEST = 6
_MOST = 50
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_PREFERENCE, _DECISION = "user_pref", "project"
_FENCED_CODE = re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL)
_QUOTED = re.compile(r"^\s*(?:>|\||#|[-*]\s*\[)")

# Each pattern stands at the start of a sentence.
_RULES: tuple[tuple[str, str], ...] = (
    # English
    (_PREFERENCE, (r"(?:please |and |but |by the way,? |note that |remember(?: that|:)? )*"
        r"(?:i (?:really |also |always |usually |never |strongly |only |much )*"
        r"(?:prefer|like|love|enjoy|dislike|hate|avoid|use|want|need|live|work|speak|am)\b"
        r"|i do(?: not|n't) (?:like|want|use|eat|drink)\b|(?:always|never) use\b|call me\b"
        r"|i'm (?:a|an|allergic|vegetarian|vegan|based|from|called)\b|my [\w' -]{2,40}? (?:is|are)\b)")),
    (_DECISION, (r"(?:ok(?:ay)?,? |so,? |then )*"
        r"(?:we(?:'ve| have)? (?:decided|agreed|chose|chosen|settled|switched|moved|will use|use|are using)\b"
        r"|let's (?:use|go with|settle on)\b|the (?:project|team|repo|service|build) (?:uses|needs|requires|runs)\b"
        r"|our [\w' -]{2,40}? (?:is|are)\b)")),
    # Chinese
    (_PREFERENCE, (r"(?:请?记住[，,：:]?)?(?:我(?:更|最|很|非常|一直|总是|从不|不|平时|经常)?"
        r"(?:喜欢|偏好|偏爱|讨厌|爱|习惯|使用|用|住在|叫|来自|在.{1,12}工作|是)|我的.{1,20}?是|叫我)")),
    (_DECISION, (r"(?:好[的，,]*)?(?:我们(?:已经)?(?:决定|同意|选择|改用|采用|使用|将使用)"
        r"|项目(?:使用|采用|需要)|我们的.{1,20}?是)")),
    # Japanese
    (_PREFERENCE, r"(?:私|僕|俺)(?:は|の).{1,80}(?:好き|嫌い|苦手|使って|使います|住んで|です|好む)"),
    (_DECISION, r".{0,40}(?:ことに決め|に決めました|を採用|ことにしました)"),
    # German
    (_PREFERENCE, (r"(?:bitte |übrigens,? )*(?:mein(?:e|en)? [\w' -]{2,40}? (?:ist|sind)\b"
        r"|ich (?:bevorzuge|mag|liebe|hasse|nutze|verwende|benutze|wohne|arbeite|heiße|bin|esse)\b)")),
    (_DECISION, r"wir (?:haben (?:uns )?.{0,60}(?:entschieden|beschlossen)|nutzen|verwenden|benutzen)\b"),
    # French
    (_PREFERENCE, (r"(?:je (?:préfère|déteste|travaille|suis|m'appelle|n'aime pas)\b|j'(?:aime|utilise|habite)\b"
        r"|(?:mon|ma|mes) [\w' -]{2,40}? (?:est|sont)\b)")),
    (_DECISION, r"(?:nous avons (?:décidé|choisi)|nous utilisons)\b"),
    # Spanish
    (_PREFERENCE, (r"(?:(?:yo )?(?:prefiero|me (?:gusta|gustan|encanta|llamo)|no me gustan?|odio"
        r"|(?:siempre |nunca )?uso|vivo|trabajo|soy)\b|mis? [\w' -]{2,40}? (?:es|son)\b)")),
    (_DECISION, r"(?:hemos (?:decidido|elegido)|decidimos|usamos)\b"),
)  # fmt: skip
_COMPILED = tuple((category, re.compile(rule, re.IGNORECASE)) for category, rule in _RULES)


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    category: str


def statements_in(messages: Iterable[dict[str, Any]]) -> list[Statement]:
    """What the person stated in these messages, each sentence once."""
    found: dict[str, Statement] = {}
    for message in messages:
        if message.get("role") == "user":
            for sentence in _sentences(_text(message.get("content"))):
                if (category := _category(sentence)) is not None:
                    found.setdefault(sentence.casefold(), Statement(sentence, category))
    return list(found.values())[:_MOST]


def _sentences(text: str) -> Iterator[str]:
    plain = _FENCED_CODE.sub("\n", sanitize_context(text))
    for line in plain.splitlines():
        if not _QUOTED.match(line):
            for piece in _SENTENCE.split(line):
                sentence = piece.strip(" \t-*•")
                if len(sentence) * (1 if sentence.isascii() else 2) >= _SHORTEST and len(sentence) <= LONGEST:
                    yield sentence


def _category(sentence: str) -> str | None:
    if sentence.endswith(("?", "？", "吗", "呢")):
        return None
    return next((category for category, rule in _COMPILED if rule.match(sentence)), None)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
