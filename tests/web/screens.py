"""Takes pictures of every page at both widths and in both themes, for people to look at: `bin/web-screens FOLDER`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from web_home import MORE, fill
from web_page import browser, own_page

from hermes.server.web import SECTIONS
from hermes.settings.home import find_home

WIDTHS = (390, 1280)


def main(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        full, empty = Path(place, "full"), Path(place, "empty")
        fill(find_home(full))
        find_home(empty)
        with browser() as page:
            for home in (full, empty):
                with own_page(home) as (url, link):
                    seen = page.at(url)
                    seen.enter(link())
                    for path in [*(f"/ui/{section.name}" for section in SECTIONS), *MORE, "/ui/sign-in"]:
                        for width in WIDTHS:
                            for theme in ("light", "dark"):
                                seen.size(width)
                                seen.theme(theme)
                                seen.open(path)
                                name = path.removeprefix("/ui/").replace("/", "-")
                                picture = Path(folder, f"{name}-{home.name}-{width}-{theme}.png")
                                picture.write_bytes(seen.picture())


if __name__ == "__main__":
    main(sys.argv[1])
