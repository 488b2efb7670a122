"""Texts that would run in a careless page, and a check that a page holds nothing that runs."""

from __future__ import annotations

from html.parser import HTMLParser

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</textarea><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1)) ![x](x onerror=alert(1))",
    "{{ 7 * 7 }}{% raw %}",
    '<div hx-get="/ui/memory" hx-trigger="load">x</div>',
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>body{display:none}</style><base href=//evil.example>",
    "<!--<script>--><meta http-equiv=refresh content='0;url=//evil.example'>",
)


def harmless(page: str) -> bool:
    """Whether the page has only elements and attributes of our own templates."""
    found = Elements()
    found.feed(page)
    return not found.wrong


class Elements(HTMLParser):
    """Collects what would run or load: event attributes, scripts and styles that are not our files, foreign links."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        links = [
            str(given.get(name) or "/ui/") for name in ("href", "src", "action", "formaction", "hx-get", "hx-post")
        ]
        is_ours = all(link.startswith(("/ui", "#")) and not link.startswith("/ui//") for link in links)
        forbidden = tag in ("style", "iframe", "base", "object", "embed", "img") or "style" in given
        if (
            forbidden
            or not is_ours
            or any(name.startswith("on") for name in given)
            or (tag == "script" and "src" not in given)
        ):
            self.wrong.append(f"{tag} {attrs}")
