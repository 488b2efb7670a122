"""One browser for all tests of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from web_page import CHROMEDRIVER, CHROMIUM, NO_BROWSER, browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from web_page import Browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not (CHROMIUM and CHROMEDRIVER):
        pytest.skip(NO_BROWSER)
    with browser() as opened:
        yield opened
