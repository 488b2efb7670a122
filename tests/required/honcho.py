"""honcho, beyond what every service does."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "honcho.tools": ("five tools with the documents' results", "003 Bundled Providers"),
    "honcho.peers": ("who is who: names, aliases, prefixes, pinned; what peers observe", "product"),
    "honcho.strategies": ("sessions per directory, session, repository or one for all", "product"),
    "honcho.split": ("messages longer than the service takes are split and nothing of them is lost", "product"),
    "honcho.once": ("a turn whose answer was lost is not stored twice, also after a restart", "product"),
    "honcho.cadence": ("base context and reasoning come by their cadence", "003 Provider Modes and Budgets"),
    "honcho.waits": ("the first turn waits for the reasoning no longer than it may", "003 Prefetch Freshness"),
    "honcho.depth": ("depth, levels and lengths of the reasoning", "003 Provider Modes and Budgets"),
    "honcho.switch": ("a switch drops what was prepared, and turns go to the new session", "product"),
    "honcho.upload": ("local memory is uploaded once and cannot be uploaded again", "product"),
    "honcho.frequency": ("turns are stored each, by number or at the end of the session", "product"),
    "honcho.setup": ("its own file with a block per host; a cloud that needs a key", "product"),
    "honcho.person": ("where everybody is one peer, that nobody can be forgotten is said in words", "product"),
}
