"""Which kind of knowledge an entry is: who the person is, their environment, a project, or a lesson."""

from __future__ import annotations

import re

CATEGORIES = ("identity", "environment", "project", "lesson")
_CUES = {
    "lesson": re.compile(
        r"\b(?:lesson|learn(?:ed|t)|beware|pitfall|gotcha|workaround|turned out|fails? (?:when|if|unless)|works? only|"
        r"avoid|do not|don't|never|must not|remember to|instead of|otherwise)\b",
        re.IGNORECASE,
    ),
    "identity": re.compile(
        r"\b(?:prefers?|likes?|dislikes?|wants?|name is|called|lives in|works (?:as|at|for)|timezone|time zone|speaks|"
        r"birthday|pronouns?|hobb(?:y|ies)|the user|user's|user is|they (?:are|like|want))\b",
        re.IGNORECASE,
    ),
    "environment": re.compile(
        r"\b(?:hosts?|servers?|ports?|runs? on|installed|versions?|os|linux|macos|windows|debian|ubuntu|docker|"
        r"python \d|node \d|path|shell|editor|cluster|machine|laptop|database|ip|dns|proxy|gpu|ssh)\b|(?:^|\s)/\w",
        re.IGNORECASE,
    ),
    "project": re.compile(
        r"\b(?:project|repo(?:sitory)?|branch|release|deadline|milestone|tests?|build|ci|deploys?|feature|module|api|"
        r"team|roadmap|sprint|customer|ticket|pull requests?)\b",
        re.IGNORECASE,
    ),
}


def category_of(entry: str, target: str) -> str:
    """The category by the words of the entry; what nothing speaks for goes by the file it stands in."""
    if target == "user":
        return "identity"
    found = {category: len(cue.findall(entry)) for category, cue in _CUES.items()}
    best = max(found.values())
    return next((category for category in _CUES if found[category] == best), "project") if best else "project"
