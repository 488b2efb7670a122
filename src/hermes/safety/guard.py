"""A second opinion on what the scanner asks about: a small ONNX model, the extra `guard`. Off unless asked for.

Its weights come in the package `stackone-defender`. It was trained on prompts in English and a few
related languages, so it is asked about Latin script only. It knows attacks on chats, not on memory, so it can only make
a verdict stricter: what it is sure about is refused, everything else stays a question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.errors import ExtraMissing, command
from hermes.safety.verdict import ASK, REFUSE, Verdict, advice

if TYPE_CHECKING:
    from typing import Any

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
