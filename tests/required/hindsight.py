"""hindsight, beyond what every service does."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "hindsight.tools": ("retain, recall and reflect with the documents' results, and forget", "003 Bundled Providers"),
    "hindsight.fresh": ("recall includes fresh facts before they are consolidated", "product"),
    "hindsight.delta": ("each turn is sent once; a switch of the session sends nothing again", "product"),
    "hindsight.mission": ("the missions of the bank are really sent, once", "product"),
    "hindsight.tags": ("tags and budgets reach the service", "003 Provider Modes and Budgets"),
    "hindsight.together": ("several turns are stored together where that is set, and none is lost", "product"),
    "hindsight.reflect": ("a reflection is prepared after a turn for the next one of the same session", "product"),
    "hindsight.setup": ("cloud and self-hosted, hermes-agent's file, banks by template", "003"),
}
