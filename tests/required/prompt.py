"""System prompt assembly (L0), context files and cache points."""

REQUIREMENTS = {
    "prompt.judged-before": (
        "what was judged is not judged again for the same bytes and scanner, and always otherwise",
        "product",
    ),
    "prompt.order": (
        "Ten layers in the documents' order, joined by blank lines; absent ones leave no trace",
        "004 Cached system prompt layers",
    ),
    "prompt.identity": (
        "SOUL.md of the home is the identity, else our own default; never shown twice",
        "004 How SOUL.md appears in the prompt",
    ),
    "prompt.guidance.tools": ("Guidance is shown only for tools that are present", "004 Concrete example"),
    "prompt.guidance.family": (
        "Tool-use enforcement is shown for the model families that need it",
        "004 Concrete example",
    ),
    "prompt.guidance.prose": (
        "Guidance says what to save and what not (progress, identifiers, facts stale within a week), facts not orders",
        "003 System Prompt Injection",
    ),
    "prompt.pure": (
        "The same inputs give the same bytes; the date is a date, without a time of day",
        "004 Why prompt assembly is split this way",
    ),
    "prompt.settings": ("The time zone and words about a platform can be set", "product"),
    "prompt.sizes": ("Each section has a name, its characters and a token estimate", "product"),
    "prompt.skip": (
        "skip_context_files and skip_memory leave files, identity file and memory out",
        "004 Cached system prompt layers",
    ),
    "prompt.snapshots": ("Complete prompts are held as text files", "product"),
    "prompt.packaged": ("The prompt's prose is part of the built wheel", "product"),
    "prompt.context.priority": (
        "One context file type is used, by priority; .hermes.md up to the git root",
        "004 Context file discovery details",
    ),
    "prompt.context.frontmatter": (
        "YAML frontmatter is stripped; a broken one is shown with a note",
        "004 Context file discovery details",
    ),
    "prompt.context.truncated": (
        "Over 20,000 characters: 70 % head, marker, 20 % tail",
        "004 Context file discovery details",
    ),
    "prompt.context.blocked": (
        "A file that looks like an attack says so in its place; none of it is shown",
        "004 Context file discovery details",
    ),
    "prompt.context.untrusted": (
        "In a folder that nobody trusts, doubtful passages of context files are hidden, and it says so in their place",
        "product",
    ),
    "prompt.context.parts": (
        "Of long notes with a passage that looks like one, only that is left out, and it says so in its place",
        "product",
    ),
    "prompt.context.told": (
        "The person is told once in a session which file, or a part of which, was left out, why, and how to see more",
        "product",
    ),
    "prompt.context.unusable": (
        "Unreadable, binary, huge, UTF-16, looping, piped or escaping files leave a note, never a crash",
        "product",
    ),
    "prompt.hints": (
        "Notes in directories a tool touches are appended to its result, once per directory",
        "004 Context files",
    ),
    "prompt.cache.where": ("Cache points on the system prompt and the last three messages", "001 Prompt caching"),
    "prompt.cache.content": (
        "String, list, empty and tool content carry the point where the API takes it",
        "001 Prompt caching",
    ),
    "prompt.cache.ttl": ("5m or 1h; anything else is a settings error", "001 Prompt caching"),
    "prompt.first-request": (
        'A first "hello" in an empty home costs at most 3,000 tokens, for every family of models',
        "product",
    ),
    "prompt.bench": ("Assembly, cache marking and the token estimate are measured by one call", "product"),
    "prompt.cache.cost": ("Marking copies at most four messages, whatever the history's length", "product"),
}
