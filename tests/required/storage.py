"""Storage engines: the same behaviour on SQLite and PostgreSQL, and a wall between people."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "storage.contract": ("conversations behave the same on every storage engine", "product"),
    "storage.documents": ("documents behave the same on every storage engine", "product"),
    "storage.jobs": (
        "background work is kept until it is done, by one worker at a time, on every engine",
        "product",
    ),
    "storage.servers": ("servers without a common folder serve the same people from one database", "product"),
    "storage.export": ("exports and backups hold what is in the database", "product"),
    "storage.deploy": ("a stack of PostgreSQL, two servers and a proxy can be started with one command", "product"),
    "storage.isolation": ("no statement shows or changes another person's rows, whatever the setting", "product"),
    "storage.restart": ("a restart of the database loses nothing acknowledged; the next call works", "product"),
    "storage.replica": (
        "a search runs on a standby that has everything that was acknowledged, and otherwise on the primary",
        "product",
    ),
    "storage.one-writer": (
        "writers of one person never mix; one that must wait too long is told",
        "product",
    ),
    "storage.move": ("conversations move between engines without a difference, and a broken move goes on", "product"),
    "storage.home": ("with storage.url a home's conversations are on a server, for every command", "product"),
    "storage.prepare": ("the tables are made and brought up to date by one command, however often", "product"),
}
