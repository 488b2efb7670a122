"""Finding and keeping past conversations (L2): the session_search tool and `hermes sessions`."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "search.schema": ("one schema; the way to call is told from the arguments", "003 Search Modes"),
    "search.budget": ("results fit into a token budget, with several hits of a conversation", "product"),
    "search.weak": ("what holds little of a question is labelled as weak", "product"),
    "search.variants": ("other forms of a word, and what was taken for it, are searched and shown", "002 L2"),
    "search.browse": (
        "without arguments: recent conversations with title, source, times, message count and preview",
        "003 Search Modes",
    ),
    "search.discover": (
        "a query gives session, title, when, source, model, matched role, message id, snippet, bookends, window",
        "003 Search Modes",
    ),
    "search.scroll": (
        "session and message give a window of 1 to 20 around it; another part of the conversation is found by itself",
        "003 Search Modes",
    ),
    "search.read": ("a session alone is read; of a long one the beginning and the end", "product"),
    "search.lineage": ("one conversation is one result and one row, however many sessions it spans", "002 L2"),
    "search.title": ("a conversation with exactly this title comes first", "product"),
    "search.sources": (
        "tool and subagent sessions are hidden, cron comes last, unless named",
        "003 Session Search",
    ),
    "search.current": (
        "what is still in the context is not returned; what was compacted out of it is",
        "product",
    ),
    "search.order": ("sort gives newest or oldest first", "003 Search Modes"),
    "search.narrowing": ("time range, source, project, role and limit narrow the results", "product"),
    "search.moments": ("bounds of a time range are ISO dates or the words people use; others are refused", "product"),
    "search.never-silent": (
        "an empty result, a syntax that does not parse and a filter that hides every match are all said",
        "product",
    ),
    "search.unavailable": ("without a database: empty; with a broken one: a formatted error", "003 Failure Modes"),
    "search.any-arguments": ("any JSON arguments give a result, never an exception", "product"),
    "search.owners": ("one owner's sessions never appear in another's results, by any route", "product"),
    "search.outside": ("what the tool returns counts as text from outside of the turn", "003 Security and Safety"),
    "search.secrets": ("secrets in snippets, titles and messages are masked", "product"),
    "search.profile": ("another profile of the home can be searched; a missing one is never made up", "product"),
    "search.long-messages": ("a long message is cut around what was found, and says how much is missing", "product"),
    "search.digest": (
        "a helper model may add a digest per session: 3 at once, 5 at most, 90 s; without it the messages stand",
        "002 L2",
    ),
    "search.truncation": (
        "text is cut around the phrase, else words near each other, else any word; a quarter before the match",
        "002 L2",
    ),
    "search.cli-list": ("one row per conversation, by source, project and number; for scripts as JSON", "product"),
    "search.cli-search": (
        "readable hits with title, time, marked words and message id; each can be explained",
        "product",
    ),
    "search.cli-show": ("a conversation by id or title, or the part around a message", "product"),
    "search.cli-terminal": ("stored text cannot act on the terminal that shows it", "product"),
    "search.cli-export": (
        "JSONL, Markdown and a page of HTML that loads nothing; private, complete or not there",
        "product",
    ),
    "search.cli-round-trip": ("what JSONL exports comes back the same by import, unknown keys included", "product"),
    "search.cli-import": ("our JSONL and the OpenAI format; bad lines are named and do not stop the rest", "product"),
    "search.cli-import-once": (
        "an import can be repeated or completed; a session that differs is left alone",
        "product",
    ),
    "search.cli-rename": ("titles are unique with #N", "product"),
    "search.cli-delete": ("deleting asks first, says what it removed, and removes it from search", "product"),
    "search.cli-prune": ("only ended conversations that were not used for long; a dry run lists them", "product"),
    "search.cli-wrong-clock": ("a clock that is or was wrong makes no fresh conversation old", "product"),
    "search.cli-stats": ("counts, sizes, sources and growth", "product"),
    "search.cli-optimize": ("the index is merged in small steps and finds the same afterwards", "product"),
    "search.cli-progress": ("long work shows how far it is on a terminal and is silent elsewhere", "product"),
    "search.expansion": ("a question can be expanded into several queries whose results are merged", "002 L2"),
}
