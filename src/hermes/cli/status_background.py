"""What `hermes status` says about conversations, compaction and work in the background."""

from __future__ import annotations

from hermes.cli.render import print_text, when
from hermes.cli.sessions_report import bytes_in_words
from hermes.compression.discovery import BUILT_IN
from hermes.session.curation_log import CurationLog
from hermes.session.review import last_review
from hermes.vocabulary.errors import HermesError
from hermes.vocabulary.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hermes.session.wiring import Parts


def background(parts: Parts) -> dict[str, Any]:
    """The last review, when the conversations are open, and the last curation; None for what never happened."""
    try:
        review = last_review(parts.database) if parts.has_database else None
    except HermesError as error:
        review = {"status": "unknown", "error": str(error)}
    return {"review": review, "curation": CurationLog(parts.home).last()}


def print_sessions(state: dict[str, Any]) -> None:
    if "problem" in state:
        print_text(f"sessions  ! {state['problem']}")
        _print_unsaved(state["unsaved"])
        return
    print_text(
        f"sessions  {counted(state['conversations'], 'conversation')}, {counted(state['messages'], 'message')}"
        + (f", {bytes_in_words(state['file_bytes'])} on disk" if "file_bytes" in state else "")
    )
    grown = (f"{counted(each['messages'], 'message')} in {each['month']}" for each in state["by_month"])
    print_text(f"growth    {', '.join(grown) or 'nothing yet'}")
    for words in state.get("unfinished", ()):
        print_text(f"          ! {words}")
    _print_unsaved(state["unsaved"])


def _print_unsaved(files: list[dict[str, Any]]) -> None:
    for each in files:
        now = "open now" if each["open"] else "the next session adds it"
        print_text(f"          ! 1 conversation is not in state.db: {each['file']} ({each.get('problem') or now})")


def print_engine(state: dict[str, Any]) -> None:
    used = state.get("in_use", state["name"])
    when_ = f"at {state['threshold']:.0%} of the window" if state["enabled"] else "off (compression.enabled)"
    if used != BUILT_IN:
        when_ = "when it decides"  # compression.threshold is the built-in one's
    compacted = counted(state["recent_sessions_compacted"], "recent session")
    name = used if used == state["name"] else f"{used} instead of {state['name']}"
    print_text(f"context   {name}, {when_}; {compacted} compacted; breaker {state['breaker']}")
    if problem := state.get("problem"):
        print_text(f"          ! {problem}")
    for each in state["held_back"]:
        print_text(f"          ! {each['session_id']}: {each['why']}")


def print_background(state: dict[str, Any]) -> None:
    review, curation = state["review"], state["curation"]
    print_text(f"review    {_review(review) if review else 'none yet'}")
    print_text(f"curation  {_curation(curation) if curation else 'none yet'}")


def _review(review: dict[str, Any]) -> str:
    at = f"{when(review['at'])}: " if "at" in review else ""
    saved = f", {counted(len(review.get('saved', ())), 'save')}" if review.get("saved") else ""
    error = f" (! {review['error']})" if review.get("error") else ""
    cost = f", {review['tokens']:,} tokens" if review.get("tokens") else ""
    return f"{at}{review['status']}{saved}{cost}{error}"


def _curation(run: dict[str, Any]) -> str:
    disputed = f", {counted(len(run['contradictions']), 'contradiction')} (`hermes curator status`)"
    return (
        f"{run['id']} {when(run['at'])}: {counted(len(run['operations']), 'operation')}"
        f"{disputed if run['contradictions'] else ''}{', taken back' if run['undone_by'] else ''}"
    )
