"""The ground everything stands on: start-up, settings, private files."""

REQUIREMENTS = {
    "ground.version": ("`hermes --version` prints the version without importing anything else", "product"),
    "ground.import": ("`import hermes` loads no third-party module", "product"),
    "ground.cold-write": ("a memory write from a fresh process loads none of the slow standard modules", "product"),
    "ground.help": (
        "every command has help, and a mistyped one is answered with the nearest name, exit code 2",
        "product",
    ),
    "ground.guesses": ("a command that people guess is answered with the one that does it", "product"),
    "ground.usage": ("a wrong name or path is told in a line that says what there is, before any work", "product"),
    "ground.confirm": ("what cannot be taken back is asked first; without a yes nothing happens", "product"),
    "ground.words": ("every command tells a person in plain words what it tells scripts in JSON", "product"),
    "ground.errors-json": (
        "with --json a failure is one JSON object on standard error: words, kind, exit code",
        "product",
    ),
    "ground.completion": ("shells complete commands and options, from what the commands themselves say", "product"),
    "ground.public-names": ("the public names of the package are exactly the documented ones", "product"),
    "settings.home": (
        "`--home`, else $HERMES_HOME, else ~/.hermes; the option may stand anywhere",
        "003 Built-In Memory Files",
    ),
    "settings.defaults": ("the documents' keys exist with the documents' defaults", "003 Configuration Map"),
    "settings.origin": ("each value tells where it came from", "product"),
    "settings.comments": ("a person's comments and order survive an edit", "product"),
    "settings.lists": (
        "a list setting is taken as JSON, YAML or words with commas; quotes stored inside a value are found",
        "product",
    ),
    "settings.errors": (
        "a wrong key, type or range names file, line, key, what was expected and the nearest spelling, exit code 2",
        "product",
    ),
    "settings.cache": ("the parsed settings are kept for fast starts and never outlive an edit of the file", "product"),
    "settings.profiles": (
        "profiles are complete homes; one can be chosen for good; a missing one is never made up",
        "003 Core Concepts",
    ),
    "settings.secrets": (
        ".env holds secrets, is private, and a mistake in it never shows its text",
        "003 Configuration Map",
    ),
    "settings.odd-files": ("a settings file that is no regular text file is refused with a clear message", "product"),
}
