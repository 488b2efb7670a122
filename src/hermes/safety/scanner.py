"""The threat scanner: judges one text, or a list of entries read together, and returns a verdict.

Three stages: `reveal` undoes encodings and disguises, `structure` finds what no honest note contains,
`wording` scores how much a passage resembles an attack. The worst finding counts. The scanner works in linear time,
keeps the text untouched, and raises `ScannerUnavailable` rather than call anything clean if its weights cannot be
loaded. The classes are listed in `hermes.safety.verdict`.
"""

from __future__ import annotations

from hermes.base.errors import ExtraMissing, command
from hermes.base.values import lazy_pattern, value
from hermes.safety.reveal import decode, disguises, fold
from hermes.safety.structure import forgeries, hidden_texts, line_of, on_the_floor
from hermes.safety.verdict import (
    ASK,
    CLEAN,
    LONGEST_EXCERPT,
    REFUSE,
    SEVERITY,
    Finding,
    Verdict,
    advice,
    conclude,
    shorten,
)
from hermes.safety.wording import heaviest, weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hermes.base.values import Scan
    from hermes.base.values import Verdict as Judged

SCOPES = ("memory", "context", "recall")
_READ_IN_FULL = 8_192  # characters; of a longer text that is refused, one reason is enough
_MARGIN = 24  # characters of an excerpt on each side
_NEAR = 2  # lines around one that was encoded


def scan(text: str, scope: str = "memory", *, guard: bool = False) -> Verdict:
    """The verdict on one text; `scope` is where it would go: "memory", "context" or "recall".

    With `guard`, the model of the extra `guard` is asked about what would be a question.
    """
    if scope not in SCOPES:
        raise ValueError(f"unknown scope {scope!r}; expected one of {', '.join(SCOPES)}")
    verdict = conclude(_findings(text, scope))
    return second_opinion(text, verdict) if guard else verdict


def _findings(text: str, scope: str) -> list[Finding]:
    findings: list[Finding] = []
    for found in _every_finding(text, scope):
        findings.append(found)
        if found.level == REFUSE and len(text) > _READ_IN_FULL:
            break
    return findings


def _every_finding(text: str, scope: str) -> Iterator[Finding]:
    yield from _read(text, "plain", scope)
    for hidden in hidden_texts(text):
        excerpt = shorten(hidden.payload) or "(invisible characters)"
        yield Finding(threat="hidden_text", level=hidden.level, excerpt=excerpt, how=hidden.how)
        yield from _read(hidden.payload, hidden.how, scope)


def _read(text: str, how: str, scope: str) -> Iterator[Finding]:
    """The findings for a text as written, as decoded, and with its disguises undone."""
    folded = fold(text)
    yield from _judge(folded, text, how, scope)
    decoded = decode(text)
    if decoded.used:
        undone = ", ".join(([] if how == "plain" else [how]) + list(decoded.used))
        plain, folded = folded, fold(decoded.text)
        yield from _judge(_changed_lines(plain, folded), decoded.text, undone, scope)
        payload = "\n".join(decoded.payload)
        for found in _judge(fold(payload), payload, undone, scope) if payload else ():
            yield Finding(threat=found.threat, level=REFUSE, excerpt=found.excerpt, how=undone)
        how = undone
    for name, reading in disguises(folded):
        yield from _judge_words(reading, name if how == "plain" else f"{how}, {name}", scope)


def _changed_lines(before: str, after: str) -> str:
    """The lines of `after` that are not in `before`, with some context; the other lines have been judged."""
    known = set(before.split("\n"))
    lines = after.split("\n")
    wanted = sorted(
        {
            near
            for at, line in enumerate(lines)
            if line not in known
            for near in range(max(0, at - _NEAR), min(len(lines), at + _NEAR + 1))
        }
    )
    return "\n".join(lines[at] for at in wanted)


def _judge(folded: str, raw: str, how: str, scope: str) -> Iterator[Finding]:
    for level, start, end in forgeries(folded, raw, scope):
        excerpt = shorten(folded[max(0, start - _MARGIN) : end + _MARGIN]) if end else shorten(raw)
        yield Finding(threat="forged_markup", level=level, excerpt=excerpt, how=how)
    yield from _judge_words(folded, how, scope)


def _judge_words(folded: str, how: str, scope: str) -> Iterator[Finding]:
    """The findings in the words of a folded text: fixed patterns, then the passage with the highest score."""
    known = weights()
    for threat, start, end in on_the_floor(folded):
        # If a pattern of the documents and the wording of the line agree, refuse instead of asking.
        agreed = heaviest(line_of(folded, start, end)).score >= known.ask_quiet
        excerpt = shorten(folded[max(0, start - _MARGIN) : end + _MARGIN])
        yield Finding(threat=threat, level=REFUSE if agreed else ASK, excerpt=excerpt, how=how)
    passage = heaviest(folded)
    if passage.score < (known.ask if scope == "memory" else known.ask_quiet):
        return
    part = folded[passage.start : passage.end]
    yield Finding(
        threat=known.class_of(passage.words),
        level=REFUSE if passage.score >= known.refuse else ASK,
        excerpt=shorten(part if len(part) <= LONGEST_EXCERPT else " ".join(passage.words)),
        how=how,
    )


# Entries are read one by one, and with the ends of their neighbours: a phrase may be split over several.

_EDGE = 240  # characters of each neighbour that take part
_WIDEST = 4  # neighbours read together; short fragments need more than two to make a phrase


def scan_entries(entries: Sequence[str], scope: str = "memory") -> tuple[Verdict, ...]:
    """One verdict per entry; an attack that is split over neighbours marks every entry involved."""
    found = [_findings(entry, scope) for entry in entries]
    alone = [max((SEVERITY[each.level] for each in findings), default=0) for findings in found]
    flagged: list[tuple[int, int]] = []
    for width in range(2, _WIDEST + 1):
        for first in range(len(entries) - width + 1):
            last = first + width - 1
            between = entries[first + 1 : last]
            narrower = any(first <= left and right <= last for left, right in flagged)
            if narrower or any(len(entry) > _EDGE for entry in between):
                continue  # a whole long entry between two others separates them
            joined = " ".join([entries[first][-_EDGE:], *between, entries[last][:_EDGE]])
            window = entries[first : last + 1]
            worst = max(alone[first : last + 1])
            split = [
                each
                for each in _split(joined, scope)
                if SEVERITY[each.level] > worst or (each.level == ASK and not any(_has_floor(text) for text in window))
            ]
            if split:
                flagged.append((first, last))
                for index in range(first, last + 1):
                    found[index] += split
    return tuple(conclude(findings) for findings in found)


def _has_floor(text: str) -> bool:
    """Whether the text alone matches a pattern of the design documents."""
    return any(True for _ in on_the_floor(fold(text)))


def _split(joined: str, scope: str) -> Iterator[Finding]:
    """The findings that only the joined text has; unrelated neighbours must not add up by chance."""
    folded = fold(joined)
    for level, start, end in forgeries(folded, "", scope):
        yield Finding(threat="forged_markup", level=level, excerpt=shorten(folded[start:end]), how="split over entries")
    for threat, start, end in on_the_floor(folded):
        yield Finding(threat=threat, level=ASK, excerpt=shorten(folded[start:end]), how="split over entries")
    passage = heaviest(folded)
    if passage.score >= weights().refuse:
        excerpt = shorten(folded[passage.start : passage.end])
        threat = weights().class_of(passage.words)
        yield Finding(threat=threat, level=REFUSE, excerpt=excerpt, how="split over entries")


# Takes the paragraphs out of a longer text that look like an attack, so that they do not cost the rest of it.
#
# A project's notes or a skill have hundreds of paragraphs, and among so many a scanner is wrong about one now and
# then. Hidden text and forged marks around a text are no accident: such a text is left out as a whole, and so is one
# that still looks like an attack without those paragraphs, or of which they are a large part.

_BETWEEN = lazy_pattern(r"\n[^\S\n]*\n\s*")
_NO_ACCIDENT = frozenset({"hidden_text", "forged_markup"})
_SMALL_PART = 4  # what is left out is at most one in so many characters
_MOST = 2_000  # paragraphs: each is judged by itself, and so many may take most of a second


@value
class Passages:
    """The text that may be shown, with a note in place of each omission, its verdict, and why parts are omitted."""

    text: str
    verdict: Judged
    left_out: tuple[str, ...]


def without_attacks(text: str, name: str, scan: Scan, *, doubtful: bool = False) -> Passages | None:
    """What may be shown of a text that `scan` refuses; None if nothing should be.

    With `doubtful`, paragraphs that a person should look at are left out as well.
    """
    paragraphs = _BETWEEN.split(text, maxsplit=_MOST)
    if len(paragraphs) > _MOST:
        return None
    verdicts = [scan(paragraph) for paragraph in paragraphs]
    refused = [verdict for verdict in verdicts if verdict.level == REFUSE]
    if any(_NO_ACCIDENT.intersection(verdict.classes) for verdict in refused):
        return None
    levels = _with_neighbours([verdict.level for verdict in verdicts])
    rest = _joined(paragraphs, [level != REFUSE for level in levels])
    verdict = scan(rest)
    if verdict.level == REFUSE or (len(text) - len(rest)) * _SMALL_PART > len(text):
        return None
    shown = [level == CLEAN or (level == ASK and not doubtful) for level in levels]
    if doubtful:
        verdict = scan(_joined(paragraphs, shown))
        if verdict.level != CLEAN:
            return None  # what is left makes sense only together
    classes = tuple(
        sorted({threat for each, kept in zip(verdicts, shown, strict=True) if not kept for threat in each.classes})
    )
    if not classes:
        return Passages(text=text, verdict=verdict, left_out=())
    why = (
        "because it looks like an attempt to take control of the agent"
        if refused
        else "until a person has looked at it"
    )
    note = (
        f"[BLOCKED: a part of {name} was left out here, {why} ({', '.join(classes)})."
        " Tell the person if it matters for the task.]"
    )
    return Passages(text=_joined(paragraphs, shown, note), verdict=verdict, left_out=classes)


def _with_neighbours(levels: list[str]) -> list[str]:
    """Extends an attack to neighbouring paragraphs that would only be asked about."""
    around = zip([CLEAN, *levels[:-1]], levels, [*levels[1:], CLEAN], strict=True)
    return [REFUSE if level == ASK and REFUSE in (before, after) else level for before, level, after in around]


def _joined(paragraphs: list[str], shown: list[bool], note: str = "") -> str:
    """Joins the paragraphs that are shown, with one note for each run of omitted ones."""
    parts: list[str] = []
    for paragraph, kept in zip(paragraphs, shown, strict=True):
        if kept:
            parts.append(paragraph)
        elif note and (not parts or parts[-1] is not note):
            parts.append(note)
    return "\n\n".join(parts)


# A second opinion on what the scanner asks about: a small ONNX model, the extra `guard`. Off unless asked for.
#
# Its weights come in the package `stackone-defender`. It was trained on prompts in English and a few related languages,
# so it is asked about Latin script only. It knows attacks on chats, not on memory, so it can only make a verdict
# stricter: what it is sure about is refused, everything else stays a question.

CERTAIN = 0.88  # of its scale from 0 to 1: the package's own threshold for few false alarms
_LATIN_ENDS = "\u0250"  # the first character after Latin Extended-B
_model: list[Any] = []  # loaded once, at the first question


def second_opinion(text: str, verdict: Verdict) -> Verdict:
    """Returns the verdict, or a refusal if the verdict was "ask" and the model is nearly certain."""
    if verdict.level != ASK or not _is_latin(text) or _loaded().classify(text) < CERTAIN:
        return verdict
    return Verdict(
        level=REFUSE,
        findings=verdict.findings,
        classes=verdict.classes,
        excerpt=verdict.excerpt,
        advice=advice(REFUSE),
    )


def _is_latin(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    return sum(letter < _LATIN_ENDS for letter in letters) * 10 >= len(letters) * 9


def _loaded() -> Any:
    if not _model:
        try:
            from stackone_defender.classifiers.onnx_classifier import OnnxClassifier
        except ImportError as error:
            raise ExtraMissing(
                f"a second opinion needs the extra guard ({error}): {command('guard')} installs it"
            ) from error
        model = OnnxClassifier()
        model.load_model()
        _model.append(model)
    return _model[0]
