"""Documentation that cannot lie."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "docs.examples": ("every example in the docs and the README runs", "product"),
    "docs.reference": ("the reference is generated, and stale pages fail the suite", "product"),
    "docs.complete": ("every command, option, setting, tool and hook is documented", "product"),
    "docs.site": ("the documentation site builds offline without a warning", "product"),
    "docs.screens": ("screenshots are taken from the running program, not drawn", "product"),
    "docs.claims": ("commands, options, settings and imports on the pages exist", "product"),
    "docs.prose": ("pages are spelled correctly and avoid the phrases readers stumbled over", "product"),
    "docs.diagrams": ("diagrams are drawn from text sources", "product"),
    "docs.links": ("every link between pages leads somewhere", "product"),
}
