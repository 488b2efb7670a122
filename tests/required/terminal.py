"""The chat program at a terminal, in a pipe, and on its first day."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "terminal.stream": ("an answer streams to the screen, broken at words, and is stored", "product"),
    "terminal.markdown": ("Markdown is rendered while it streams; what is finished is printed once", "product"),
    "terminal.plain": ("NO_COLOR, --plain and a pipe get the text as the model wrote it", "product"),
    "terminal.typeahead": (
        "what is typed during an answer waits in the next input line and answers nothing",
        "issue 22",
    ),
    "terminal.retry": ("a model server that is down is one line with a counter", "product"),
    "terminal.tools": (
        "a tool call is one line with its outcome, a failed one gives its whole reason; the whole is shown on request",
        "product",
    ),
    "terminal.interrupt": (
        "Ctrl-C ends the turn, what was said is kept and marked, the conversation goes on",
        "product",
    ),
    "terminal.leave": ("Ctrl-C twice at an empty prompt, Ctrl-D and /quit end the chat", "product"),
    "terminal.commands": ("slash commands start, resume, branch, undo, name and look at conversations", "product"),
    "terminal.nearest": ("an unknown slash command is answered with the nearest one", "product"),
    "terminal.completion": ("slash commands are completed", "product"),
    "terminal.lines": ("several lines: Alt-Enter, a backslash at the end, pasted text", "product"),
    "terminal.history": ("what was typed can be called back in the next chat; the file is private", "product"),
    "terminal.status": ("a status line shows model, use of the window, share cached, cost and memory use", "product"),
    "terminal.narrow": ("narrow terminals and NO_COLOR are respected", "product"),
    "terminal.safe": ("what a model writes cannot act on the terminal", "product"),
    "terminal.safe-commands": ("no command and no question prints what acts on the terminal or hides text", "product"),
    "terminal.piped": ("piped input and output carry no escapes; only the answer is on standard output", "product"),
    "terminal.once": (
        "-q asks one question, --json tells usage and tool calls, exit codes tell the outcome",
        "product",
    ),
    "terminal.resume": ("--continue and --resume go on with an earlier conversation and show its end", "product"),
    "terminal.error": ("a model that fails leaves the chat open, with what to do next", "product"),
    "terminal.setup": (
        "a first run leads through choosing a model: key hidden, tried, written to the settings",
        "product",
    ),
    "terminal.no-model": ("a script without a model gets exit code 2 and is told what to do", "product"),
    "terminal.demo": ("the demo shows the life cycle offline, says what is scripted, leaves nothing", "product"),
    "terminal.light": ("other commands do not load the chat", "product"),
    "terminal.consent": ("a tool that needs consent asks in the chat: yes, no, or always", "product"),
    "terminal.compress": ("/compress makes room now and says what it did", "product"),
    "terminal.notices": ("what the person should know is one quiet line", "product"),
}
