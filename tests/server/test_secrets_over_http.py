"""What goes out over HTTP shows no key that somebody once typed into a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_service import running

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "ghp_" + "aB3dE6gH9j" * 3 + "aB3dEf"


@pytest.mark.proves("search.secrets", "http.api")
def test_titles_previews_and_snippets_are_masked_as_messages_are(home: Path) -> None:
    said = [{"role": "user", "content": f"The zeppelin needs {TOKEN} to land."}]
    with running(home) as up, up.client() as http:
        body = {"conversation": "c", "title": f"Landing with {TOKEN}", "messages": said}
        name = http.post("/api/v1/sessions", json=body).json()["session_id"]
        one = f"/api/v1/sessions/{name}"
        for path in ("/api/v1/sessions", one, f"{one}/messages", "/api/v1/search?q=zeppelin"):
            shown = http.get(path).text
            assert "github token" in shown
            assert TOKEN not in shown
