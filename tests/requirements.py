"""Every behaviour the product must have, with the place that asks for it.

`REQUIREMENTS` maps an id to what must happen and its source: a document (000 to 004) and section, or "product" for
what goes beyond the documents. Tests name the ids they show with `@pytest.mark.proves("…")`; `test_requirements.py`
fails when an id has no test, or a test has neither an id nor an `internal` marker with a reason. One file per area
keeps the lists readable.
"""

from __future__ import annotations

from required import curated, ground, sessions, sessions_repair

REQUIREMENTS: dict[str, tuple[str, str]] = {
    **ground.REQUIREMENTS,
    **curated.REQUIREMENTS,
    **sessions.REQUIREMENTS,
    **sessions_repair.REQUIREMENTS,
}
