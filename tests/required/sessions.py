"""Past conversations (L2): state.db, appending, search."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "sessions.round_trip": (
        "a message comes back as the dict that was appended, unknown keys and parts included",
        "product",
    ),
    "sessions.durable": ("an acknowledged message is there after the process was killed", "003 Session Search"),
    "sessions.only-read": (
        "on a full or read-only disk conversations are read, and a write says what to do",
        "product",
    ),
    "sessions.written": ("an append writes the page of its message and the page of its session, not more", "product"),
    "sessions.one_transaction": ("append_many stores all of its messages or none", "product"),
    "sessions.private": (
        "the database and its side files are readable by their owner only, in a private folder",
        "product",
    ),
    "sessions.migrations": ("named migrations run once; a file of a newer Hermes is refused", "003 Session Search"),
    "sessions.wal_fallback": (
        "where WAL fails, at the pragma or at the first write, the store works without it",
        "003 Session Search",
    ),
    "sessions.foreign": (
        "a state.db of another program is left untouched and the adopting command is named",
        "product",
    ),
    "sessions.lineage": (
        "compressed, branched and delegated sessions are told apart; a conversation is one row",
        "003 Session Search",
    ),
    "sessions.titles": ("titles are unique with #N; a session is found by id or title", "003 Session Search"),
    "sessions.listing": ("the list is ordered by use and shows preview, counts and times", "003 Session Search"),
    "sessions.scroll": (
        "a window around a message and the bookends of a session are read in order",
        "003 Session Search",
    ),
    "sessions.metadata": ("counters, fields, details and key-value metadata are kept", "003 Session Search"),
    "sessions.delete": ("deleting a session removes its messages from the store and from search", "003 Session Search"),
    "sessions.rewind": (
        "rewound messages are in no search and no transcript; compacted ones stay searchable",
        "003 Session Search",
    ),
    "sessions.replaced_file": (
        "a database replaced under an open handle is noticed before the next acknowledgement",
        "product",
    ),
    "sessions.damage": (
        "altered text is never served as genuine, and a damaged file refuses writes with the repair",
        "product",
    ),
    "sessions.writers": ("many processes write at once without an error or a lost message", "product"),
    "sessions.lock_wait": (
        "waiting for another writer ends after a bounded time with an error that says so",
        "product",
    ),
    "sessions.owners": ("one owner's sessions are not reachable from another's handle by any call", "product"),
    "sessions.failing-disk": (
        "while system calls fail, every public operation ends well or with a typed error",
        "product",
    ),
    "sessions.clock": ("order, neighbours and listing do not depend on the clock", "product"),
    "search.any_query": ("any text can be searched without an error, and a stored word is found", "003 Session Search"),
    "search.coverage": ("lists, order and summaries get messages from the whole time of a topic", "product"),
    "search.who_said_it": (
        "asking what the assistant said finds its turn, a wish for help the rules I gave",
        "issue 27",
    ),
    "search.question": ("a question as a person types it finds its turn and its session", "003 Session Search"),
    "search.scripts": ("text without spaces between words is found, down to one character", "product"),
    "search.identifiers": ("part of an identifier or of a word is found, and so is a slip of the pen", "product"),
    "search.tools": ("tool names, arguments and output are found, in any script", "003 Session Search"),
    "search.reranker": ("a /rerank service may order hits; the first gives way to clear evidence only", "product"),
    "search.syntax": ("phrases, AND, OR, NOT, brackets and prefixes are followed", "003 Session Search"),
    "search.says_so": (
        "syntax that does not parse or match is searched as plain words, and the result says so",
        "product",
    ),
    "search.filters": (
        "role, source, project, time and session filters and the sort are followed",
        "003 Session Search",
    ),
    "search.dates": ("times named in a question are understood, relative to a given now", "product"),
    "search.neighbours": ("the answer that stands beside the asked words is found", "product"),
    "search.sees_everything": (
        "a search sees every acknowledged message, of this process or another",
        "003 Session Search",
    ),
    "search.during_lock": (
        "a search answers with what is indexed while another program keeps the file locked",
        "003 Failure Modes",
    ),
    "search.explains": ("each hit can explain its score, and shows where it matched", "product"),
    "sessions.killed": ("a session whose process was killed is ended by the next, as of its last use", "product"),
    "bench.recall": ("the recall benchmark reads its three formats and reports figures per set", "product"),
    "bench.own-history": ("questions made from the user's own transcripts measure recall without a model", "product"),
    "bench.search": ("the search benchmark builds a deterministic store and reports every class of query", "product"),
    "bench.live-appends": (
        "live appends at the end of a store are measured: rate, longest append, bytes written, many writers",
        "product",
    ),
}
