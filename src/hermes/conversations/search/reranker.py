"""Reorders the first hits of a question by the scores of a reranking service."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hermes.base.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.conversations.search.results import Hit, SearchResults

    FindReranker = Callable[[], "Reranker | None"]

RERANKED = 30  # hits that are sent; lower ones are seldom shown
_LONGEST = 2_000  # characters of each text
# A person waits for the search, so a service that fails is left alone for a minute.
_SECONDS, _ASKED_AGAIN_AFTER = 10.0, 60.0
# The first hit by words gives way only to a text that the service scores higher by this share of the scores' range.
_EVIDENCE = 0.5


@dataclass(frozen=True, slots=True)
class Reranker:
    """An API that scores texts for a question: `URL/rerank`, as Cohere, Jina, vLLM and llama.cpp serve it."""

    url: str
    model: str
    key: str = ""

    def scores(self, question: str, texts: list[str]) -> list[float]:
        """How well each text answers the question; higher is better, on any scale."""
        import httpx  # loaded only if a service is configured

        from hermes.llm.transport import shared_client

        where = f"{self.url.rstrip('/')}/rerank"
        asked = {"model": self.model, "query": question, "documents": texts, "top_n": len(texts)}
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            answer = shared_client().post(where, json=asked, headers=headers, timeout=_SECONDS)
            answer.raise_for_status()
            found = {int(row["index"]): float(row["relevance_score"]) for row in answer.json()["results"]}
            return [found[at] for at in range(len(texts))]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{where} gave no scores ({error!r}); see search.reranker in the settings") from error


class Reranking:
    """Asks the reranker that the settings name, if any; after a failure, it is not asked for a minute."""

    def __init__(self, find: FindReranker | None) -> None:
        self._find = find
        self._reranker: Reranker | None = None
        self._asked_again = 0.0

    def is_on(self) -> bool:
        """Whether a reranker is configured and has not failed within the last minute."""
        if self._find is not None:
            self._reranker, self._find = self._find(), None
        return self._reranker is not None and time.monotonic() >= self._asked_again

    def reorder(self, question: str, results: SearchResults) -> None:
        """Adds the service's scores to those by words, each as a share of the best; on a failure, keeps the order."""
        hits = results[:RERANKED]
        if self._reranker is None or len(hits) < 2:  # noqa: PLR2004 - one cannot be ordered
            return
        try:
            scores = self._reranker.scores(question, [hit.excerpt.text()[:_LONGEST] for hit in hits])
        except StorageError as error:
            self._asked_again = time.monotonic() + _ASKED_AGAIN_AFTER
            results.note = "; ".join(filter(None, (results.note, f"not reranked: {error}")))
            return
        low, span = min(scores), (max(scores) - min(scores)) or 1.0
        shares = [(score - low) / span for score in scores]
        best = max(hit.score for hit in hits)
        ordered = sorted(
            (_with(hit, best * share) for hit, share in zip(hits, shares, strict=True)), key=lambda hit: -hit.score
        )
        first = next(hit for hit in ordered if hit.message_id == hits[0].message_id)
        if first is not ordered[0] and max(shares) - shares[0] < _EVIDENCE:
            ordered.remove(first)
            ordered.insert(0, replace(first, score=ordered[0].score))
        results[:RERANKED] = ordered


def _with(hit: Hit, added: float) -> Hit:
    explanation = hit.explanation | {"reranker": added} if hit.explanation else hit.explanation
    return replace(hit, score=hit.score + added, explanation=explanation)
