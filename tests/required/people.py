"""Many people in one home, kept apart; projects above the personal layer."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "people.home": ("a person has a complete home of their own; settings and identity come from above", "product"),
    "people.apart": ("nothing of one person reaches another, over tool, command, MCP or HTTP", "product"),
    "people.keys": ("keys are shown once, kept as hashes, made and revoked per person", "product"),
    "people.same-answer": ("absent and not yours are the same answer", "product"),
    "people.names": ("no name leads out of the folder of people or crashes", "product"),
    "people.private": ("folders are 0700 and files 0600 whatever the umask; no link is followed out", "product"),
    "people.forget": ("forgetting removes everything with its lineage after a dry run, and proves it", "product"),
    "people.projects": ("memory and search are scoped to a project, with the personal layer beneath", "product"),
    "people.shared": ("shared knowledge is explicit and read-only", "product"),
}
