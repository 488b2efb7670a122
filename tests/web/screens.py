"""Takes pictures of every page at both widths and in both themes, for people to look at: `bin/web-screens FOLDER`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from compacted import configure, talk
from web_home import MORE, fill
from web_page import browser, own_page

from hermes.base.events import Usage
from hermes.conversations.database import SessionDB
from hermes.server.web import SECTIONS
from hermes.session.models import REVIEW, Background
from hermes.session.receipts import Receipts
from hermes.session.session import MemorySession
from hermes.settings.config import load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from web_page import Browser

    from hermes.settings.home import Home

WIDTHS = (390, 1280)
PRESSED = {"health-help": "Does memory help me?"}  # pages that are shown after a button
_DAY = 86_400.0
_ASKED_LATER = (
    ("The wifi network is called heron.", "Noted."),
    ("What is our wifi network called?", "It is called heron."),
)


def main(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        full, empty = find_home(Path(place, "full")), find_home(Path(place, "empty"))
        fill(full)
        pages = {each: f"/ui/{each}" for each in [*(section.name for section in SECTIONS), "sign-in"]}
        pages |= {path.removeprefix("/ui/").replace("/", "-"): path for path in MORE}
        with browser() as page:
            for home, shown in ((full, pages | _history(full)), (empty, pages)):
                with own_page(Path(home.path)) as (url, link):
                    seen = page.at(url)
                    seen.enter(link())
                    for name, path in shown.items():
                        for width in WIDTHS:
                            for theme in ("light", "dark"):
                                seen.size(width)
                                seen.theme(theme)
                                seen.open(path)
                                if name in PRESSED:
                                    _press(seen, PRESSED[name])
                                kind = os.path.basename(home.path)
                                Path(folder, f"{name}-{kind}-{width}-{theme}.png").write_bytes(seen.picture())


def _press(seen: Browser, button: str) -> None:
    seen.button(button).click()
    seen.wait(lambda: seen.find("#help").is_displayed())


def _history(home: Home) -> dict[str, str]:
    """Two weeks of conversations, one that was compacted, and the pages about single ones."""
    configure(Path(home.path))
    now = time.time()
    with SessionDB.open(home.join("state.db")) as db:
        for day in range(14, 0, -1):
            at, cached = now - day * _DAY, 400 + 37 * (day % 7) - 300 * (day == 9)
            stored = db.create_session(source="cli", title=f"Day {15 - day} of the move", started_at=at)
            cache = {"share": cached / 1000, **({"broken_by": "the tools changed"} if day == 9 else {})}
            said = {"role": "user", "content": "Which boxes are left for the movers?", "timestamp": at}
            answer = {"role": "assistant", "content": "Two, in the cellar.", "timestamp": at, "cache": cache}
            db.append_many(stored, [said, answer])
            spent = {"input_tokens": 1000 + 90 * day, "output_tokens": 50 * day, "cache_read_tokens": cached}
            db.update_session(stored, **spent, estimated_cost_usd=0.01 * day)
            work = Background(db, load_settings(home), now=partial(float, at))
            work.count(REVIEW, Usage(input_tokens=300 + 20 * day, output_tokens=10), "model")
        for day, (told, replied) in enumerate(_ASKED_LATER):
            at = now - (2 - day) * _DAY
            stored = db.create_session(source="cli", started_at=at)
            turns = [{"role": "user", "content": told}, {"role": "assistant", "content": replied}]
            db.append_many(stored, [{**each, "timestamp": at} for each in turns])
    with MemorySession.open(home, source="cli", title="A long repair") as session:
        talk(session, 14)
        session.compact()
        talk(session, 2, start=14)
    with SessionDB.open(home.join("state.db")) as db:
        receipt = Receipts(home, db).of(session.id)[-1].id
    page = f"/ui/conversations/{session.id}"
    return {
        "conversation": page,
        "context": f"{page}/context",
        "receipt": f"/ui/receipts/{receipt}",
        "search": "/ui/conversations?q=which+boxes+are+left%3F",
        "forget-preview": "/ui/forget?kind=words&what=boxes",
        "health-help": "/ui/health",
    }


if __name__ == "__main__":
    main(sys.argv[1])
