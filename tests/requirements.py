"""Every behaviour the product must have, with the place that asks for it.

`REQUIREMENTS` maps an id to what must happen and its source: a document (000 to 004) and section, or "product" for
what goes beyond the documents. Tests name the ids they show with `@pytest.mark.proves("…")`; `test_requirements.py`
fails when an id has no test, or a test has neither an id nor an `internal` marker with a reason. Each file of
`tests/required/` holds the list of one area.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

import required

REQUIREMENTS: dict[str, tuple[str, str]] = {}
for _area in pkgutil.iter_modules(required.__path__):
    REQUIREMENTS |= import_module(f"required.{_area.name}").REQUIREMENTS
