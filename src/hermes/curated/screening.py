"""The one place where text is judged before it may become memory, and again before it enters a prompt.

The gate fails closed: when the scanner cannot be loaded, nothing is written and nothing is shown unjudged.
"""

from __future__ import annotations

import sys

from hermes.vocabulary.errors import WriteRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from hermes.curated.history import Cause

    # Raises WriteRefused when the text must not be stored, with kind "ask" when a person may decide.
    Screen = Callable[[str, Cause], None]

ASK = "ask"


def screen_write(content: str, cause: Cause) -> None:
    """Refuses threats and secrets; what could be either is for a person to decide, who may also write it themselves."""
    may_hold_secrets = _load("plain").look(content)
    if may_hold_secrets is False:
        return
    if found := _load("secrets").find_secrets(content):
        kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
        raise WriteRefused(
            f"content holds a secret ({kinds}), which must not stand in a prompt; keep it in .env and save where it is",
            kind="secret",
        )
    if may_hold_secrets is not None:
        return
    verdict = _load("threats").scan(content, "memory")
    if verdict.level == "clean" or (verdict.level == ASK and (cause.origin == "user" or cause.approved)):
        return
    raise WriteRefused(
        f"content looks like {', '.join(verdict.classes)}: {verdict.excerpt!r}. {verdict.advice}",
        kind=ASK if verdict.level == ASK else "threat",
        details={"classes": list(verdict.classes), "excerpt": verdict.excerpt},
    )


def blocked_in_prompt(entries: Sequence[str], file: str) -> tuple[str, ...]:
    """The entries as they may enter a prompt: one that must not is replaced by a line that says so."""
    if not entries or _load("plain").harmless_prose("\n".join(entries), weighed=False):
        return tuple(entries)
    verdicts = _load("threats").scan_entries(entries, "memory")
    shown = []
    for number, (entry, verdict) in enumerate(zip(entries, verdicts, strict=True), start=1):
        if verdict.level == "refuse":
            why = ", ".join(verdict.classes)
            shown.append(
                f"[BLOCKED: entry {number} of {file} looks like {why}. It stays in the file and is not shown.]"
            )
        else:
            shown.append(entry)
    return tuple(shown)


def _load(module: str) -> Any:
    """A module of `hermes.safety`, loaded only when a text has to be judged by it."""
    name = f"hermes.safety.{module}"
    try:
        __import__(name)  # importlib would cost a cold write more than the module
    except ImportError as error:
        raise WriteRefused(
            f"the safety scanner could not be loaded ({error}); nothing is saved without it, reinstall Hermes",
            kind="closed",
        ) from error
    return sys.modules[name]
