"""What every provider of a service must do, whatever it speaks."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "services.contract": ("every provider passes the contract kit", "product"),
    "services.protocol": ("every request fits the recorded wire of the service", "003 Bundled Providers"),
    "services.turn": ("a turn is stored and recalled", "003 Data Flow"),
    "services.recall_loop": ("what was recalled is never stored again", "003 Context Scrubbing"),
    "services.profile": ("the profile tool shows what is known", "003 Bundled Providers"),
    "services.forget": ("what is forgotten is gone from the service", "product"),
    "services.switch": ("turns go to the session they were said in", "003 Session Lifecycle and Compression"),
    "services.mirror": ("add, replace and remove of curated memory are mirrored", "003 Memory Manager"),
    "services.outage": ("an outage is told once, and what was to be stored is delivered once", "product"),
    "services.key": ("a wrong key says what to do and is never shown", "product"),
    "services.limited": ("a rate limit is respected, and nothing is lost by it", "product"),
    "services.malformed": ("an answer in another form is an error, never a memory", "product"),
    "services.slow": ("a slow answer does not hold up a turn", "003 Failure Modes"),
    "services.setup": ("set-up fields, a real check of the connection, and secrets that stay hidden", "003"),
    "services.nobody_talks": ("work that nobody talks to stores nothing", "003 External Provider Architecture"),
    "services.people": ("two people do not see each other's memory", "product"),
    "services.forgotten": ("a person who is forgotten leaves nothing at the service; others keep theirs", "product"),
    "services.live": ("a running service can be tried as a whole with one command", "product"),
    "services.threads": ("a provider starts no thread", "product"),
}
