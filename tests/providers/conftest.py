"""What tests of providers share: a notebook that remembers one thing."""

from __future__ import annotations

import pytest
from provider_plugins import Notebook


@pytest.fixture
def notebook() -> Notebook:
    book = Notebook()
    book.facts.append("Ada likes green tea.")
    return book
