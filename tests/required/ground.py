"""The ground everything stands on: start-up, settings, private files."""

REQUIREMENTS = {
    "ground.version": ("`hermes --version` prints the version without importing anything else", "product"),
}
