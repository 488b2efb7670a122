"""What `hermes status` says about work in the background: the last review and the last run of the curator."""

from __future__ import annotations

from hermes.cli.render import counted, print_text, when
from hermes.session.curation_log import CurationLog
from hermes.session.review import last_review
from hermes.vocabulary.errors import HermesError

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
