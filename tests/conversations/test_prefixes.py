"""`begin*` finds every word that begins so, whatever the index made of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from hermes.conversations.database import SessionDB
from hermes.conversations.search import postings as beginnings

if TYPE_CHECKING:
    from collections.abc import Iterator

# Words whose stems are changed, cut, or would be cut again when looked up.
WORDS = re.findall(
    r"\S+",
    """
    decision decisions decide deciding analysis analyses analyst expense expensive propose proposal proposed happy
    happily happiness study studying studies relation relative relating city cities citizen generous generals running
    runner bus buses business process processes access agreed agreement ponies pony knives news series
    kubernetes auth_refactor_v2 Überraschung überall naïve café 北京大学 東京都 мосты мостовая decisiveness universities
    universal operational operator hopping hopeful hoping caress caresses sky skies organization organizer troubled
    """,
)


@pytest.fixture
def db(engine: dict[str, Any]) -> Iterator[SessionDB]:
    with SessionDB.open(**engine) as db:
        session = db.create_session()
        db.append_many(session, [{"role": "user", "content": f"we spoke about {word} at noon"} for word in WORDS])
        yield db


def found(db: SessionDB, query: str) -> str:
    return "\n".join(
        db.messages(hit.session_id, around=hit.message_id, window=0)[0].text for hit in db.search(query, limit=100)
    )


@pytest.mark.proves("search.syntax")
@pytest.mark.parametrize("most", [1000, 3], ids=["listed", "too many to list"])
def test_every_word_is_found_by_each_of_its_beginnings(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(beginnings, "MOST_WORDS", most)
    missed = [
        (word, word[:size])
        for word in WORDS
        for size in range(3, len(word) + 1)
        if f"about {word} at" not in found(db, f"{word[:size]}*")
    ]
    assert missed == []


@pytest.mark.proves("search.syntax")
def test_a_beginning_that_nobody_wrote_or_that_is_no_word_breaks_nothing(db: SessionDB) -> None:
    assert "about decision at" in found(db, "decis* OR zzzzz*")
    assert found(db, "decis* AND zzzzz*").count("decis") == found(db, "decis* zzzzz*").count("decis")
    assert "about auth_refactor_v2 at" in found(db, '"auth_refac"*')
    assert "about cities at" in found(db, "cit* NOT citizen")
