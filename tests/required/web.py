"""The web page of `hermes ui` and `hermes serve`: see, correct and approve what is remembered."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "web.enter": ("`hermes ui` opens the page of your own home with a link that works once", "product"),
    "web.sign_in": ("a key signs in at `hermes serve`; the session ends with the key or by signing out", "product"),
    "web.session": ("no page without a session, and nobody else's objects with one", "product"),
    "web.forged": ("CSRF, foreign origins, frames, planted sessions and open redirects are refused", "product"),
    "web.escaped": ("nothing that anybody wrote runs in the browser", "product"),
    "web.memory": ("entries are added, edited, pinned, archived, moved, removed and undone in the browser", "product"),
    "web.facts": ("entries that contradict each other are settled side by side; old values stay in reach", "product"),
    "web.approvals": (
        "what waits is shown with its passage, and accepted, changed or rejected, one or several at once",
        "product",
    ),
    "web.now": (
        "what is read, written, compacted and approved appears while it happens, by project and agent",
        "product",
    ),
    "web.people": ("the owner sees keys, rights, limits and when people were last seen; nobody's content", "product"),
    "web.conversations": (
        "conversations are listed, searched, read, renamed, branched, exported and deleted",
        "product",
    ),
    "web.context": ("for any turn the page shows what the model saw, with tokens and the cached share", "product"),
    "web.receipts": ("an answer's receipt shows what it was made from, and its items can be acted on", "product"),
    "web.rules": (
        "rules are listed, tested, added and switched off; reminders are added, shown when due, and ended",
        "product",
    ),
    "web.health": ("cache, tokens, cost, misses, store and doctor results are charted and listed", "product"),
    "web.forget": ("what a forget would remove is shown first, and a receipt says what was removed", "product"),
    "web.accessible": ("the pages have no violation that axe-core finds, at both widths and in both themes", "product"),
}
