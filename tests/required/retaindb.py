"""retaindb, beyond what every service does."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "retaindb.tools": ("search, context, profile, remember and forget, with the documents' results", "003"),
    "retaindb.vectors": ("embeddings are taken out of every result", "product"),
    "retaindb.paths": ("a server that knows only the older paths works", "product"),
    "retaindb.setup": ("address and project are really saved, and each home has a project of its own", "product"),
}
