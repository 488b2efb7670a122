"""Leaving with everything, and coming back: export, import and backup."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "export.round-trip": ("export, import into an empty home, export again: identical archives", "product"),
    "export.complete": ("every file and every row of a home that any part of Hermes keeps comes back", "product"),
    "export.readable": ("an export is plain text with a manifest and checksums", "product"),
    "export.selection": ("an export can be limited to a person, a project or a time", "product"),
    "export.secrets": ("secrets stay out of an export unless they are asked for", "product"),
    "export.masked": (
        "an export masks secrets in conversations, titles and files unless they are asked for",
        "issue 25",
    ),
    "export.disabled": ("an import, migration or restore enables nothing until the person agrees", "issue 25"),
    "export.limits": ("archives have limits on size, compression ratio and number of files", "issue 25"),
    "export.search": ("what was imported is found by search", "product"),
    "export.not-empty": ("a home with content is replaced only on request, and then kept", "product"),
    "export.twice": ("importing the same export again changes nothing", "product"),
    "export.merge": ("an export can be added to a home that has content; a second run changes nothing", "product"),
    "export.hostile": (
        "path escapes, links, bombs and forged sizes are refused; nothing is written",
        "product",
    ),
    "export.damaged": ("one flipped byte anywhere in an archive is noticed, and the home stays as it was", "product"),
    "export.killed": ("an import that is killed leaves the home as it was", "product"),
    "export.rescue": (
        "export, backup and repair work from a full or read-only disk to another place",
        "issue 30",
    ),
    "backup.live": ("a backup of a home in use is consistent and verified after writing", "product"),
    "backup.restore": (
        "a backup restores the home byte for byte, keeps the old one, and twice changes nothing",
        "product",
    ),
    "backup.providers": ("what a provider keeps outside the home is part of the backup", "product"),
    "backup.encrypted": (
        "backups and exports can be encrypted; nothing of them is in plain text on the disk when they come back",
        "issue 30",
    ),
    "backup.left-out": ("caches, locks and weights are left out", "product"),
    "backup.list": ("backups are listed, verified and pruned", "product"),
}
