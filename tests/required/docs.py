"""Documentation that cannot lie."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "docs.examples": ("every example in the docs and the README runs", "product"),
    "docs.links": ("every link between pages leads somewhere", "product"),
}
