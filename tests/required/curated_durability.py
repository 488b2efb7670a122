"""What curated memory promises when things go wrong: kills, power cuts, I/O errors, other writers, odd bytes."""

REQUIREMENTS = {
    "durable.kill": (
        "a write that was acknowledged survives SIGKILL at any moment; nothing is torn or left behind",
        "product",
    ),
    "durable.fault": (
        "a failing system call gives a typed error with the old state intact, and never an empty memory",
        "product",
    ),
    "durable.recovery": ("a kill or an error during recovery loses nothing either", "product"),
    "durable.power": ("after a power cut the history lists every acknowledged change again", "product"),
    "durable.writers": ("many processes write at once and none loses an entry or reads half a file", "003 Concurrency"),
    "durable.strangers": (
        "what a shell or an editor saves without our lock is merged or backed up, never lost",
        "003 Failure Modes",
    ),
    "durable.lock": ("waiting for a lock ends after the configured time and names the holder", "product"),
    "durable.descriptors": (
        "a store keeps no descriptor open between writes, and copies of it write on their own",
        "product",
    ),
    "durable.shared": ("two homes that link to one file share one lock", "product"),
    "durable.obstacles": (
        "links, pipes, folders and devices in place of store files are never followed out and never waited for",
        "product",
    ),
    "durable.private": ("files are 0600 and folders 0700 under any umask", "product"),
    "durable.bytes": ("any bytes in MEMORY.md are read or refused with a reason, and are never lost", "product"),
    "durable.round_trip": ("what may be an entry is read back as it was written", "product"),
    "durable.arguments": ("any arguments lead to a JSON result; a refusal names the wrong field", "product"),
    "durable.history": (
        "the history lists every change that was acknowledged, also one that others took back",
        "product",
    ),
}
