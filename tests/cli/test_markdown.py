"""Markdown in the chat: rendered while it streams, plain where that is wanted; and typing while it does."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth
from terminal_program import CTRL_C, ENTER, Terminal, script

from hermes import MemorySession
from hermes.cli.chat.editor import edited
from hermes.cli.chat.markdown import MarkdownStream
from snapshots import assert_same_as_stored

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = """# The plan

Some **bold words** and `code`, then [a link](https://example.org) in a sentence that is longer than the line.
A second line.

1. First
   - below it
2. Second

| Name | Price |
|---|---:|
| 日本語 | 1,000 |
| tea | 2 |

```python
def double(x: int) -> int:
    return 2 * x  # a comment that goes beyond the edge of a narrow terminal
```

> Said <b>somebody</b>.

Done.
"""
BLOCKS = st.sampled_from(
    [
        "# Heading",
        "Some *words* that are **many** enough to be broken, `code` and snake_case_words too.",
        "日本語の文章は空白なしで続くので、どこでも折り返される。",
        "- one\n- two\n  - three\n\n- four",
        "7. seven\n8. eight\n\n   and more\n9. nine",
        "| a | b |\n|---|--:|\n| 1 | 2 |\n| 日本 | **x** |",
        "```python\ndef f():\n\n    return '**'\n```",
        "```\n| no | table |\n```",
        "> quoted\n> text",
        "---",
        "one line\nand another <div> & [1]: http://example.org ![x](http://example.org/y.png)",
    ]
)
UNCLOSED = st.just("an unclosed **mark and `code")  # its first lines change when it turns out that it is not closed


def streamed(text: str, width: int, most: int, *cuts: int) -> list[str]:
    stream, printed = MarkdownStream(), []
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(places):
        stream.feed(text[start:end])
        printed += stream.finished(width)
        live = stream.unfinished(width, most)
        assert len(live) <= most
        assert all(get_cwidth(unstyled(line)) <= width for line in live)
    return printed + stream.rest(width)


def unstyled(line: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", line)


@pytest.mark.proves("terminal.markdown")
@given(st.lists(BLOCKS | UNCLOSED, max_size=6), st.integers(12, 90), st.lists(st.integers(0, 900), max_size=12))
def test_what_is_shown_does_not_depend_on_the_pieces(blocks: list[str], width: int, cuts: list[int]) -> None:
    text = "\n\n".join(blocks)
    assert streamed(text, width, 100, *cuts) == streamed(text, width, 100)


@pytest.mark.proves("terminal.markdown")
@given(
    st.lists(BLOCKS | UNCLOSED, max_size=4),
    st.integers(12, 90),
    st.integers(2, 6),
    st.lists(st.integers(0, 900), max_size=12),
)
def test_on_a_low_screen_everything_is_printed_once(blocks: list[str], width: int, most: int, cuts: list[int]) -> None:
    text = "\n\n".join(blocks)
    assert streamed(text, width, most, *cuts) == streamed(text, width, 99)


@pytest.mark.proves("terminal.markdown")
@pytest.mark.parametrize("columns", [60, 24])
def test_an_answer_in_markdown_looks_like_this(home: Path, columns: int) -> None:
    script(home, ANSWER)
    with Terminal(home, columns=columns, lines=60) as terminal:
        terminal.say("the plan, please")
        terminal.wait_for("Done.")
        screen = terminal.wait_for_prompt()
        assert_same_as_stored(
            f"terminal/markdown-{columns}.txt", screen[screen.index("The plan") : screen.index("Done.")]
        )
    assert b"\x1b[1mbold words" in terminal.raw


@pytest.mark.proves("terminal.markdown", "terminal.interrupt")
def test_an_answer_that_is_stopped_in_a_table_keeps_what_was_shown(home: Path) -> None:
    rows = "".join(f"| row {number} | {number} |\n" for number in range(200))
    script(home, {"text": f"Look:\n\n| name | number |\n|---|---|\n{rows}", "pause": 0.02})
    with Terminal(home, lines=20) as terminal:
        terminal.say("a table, please")
        terminal.wait_for("row 12 ")
        terminal.send(CTRL_C)
        terminal.wait_for("(stopped; the conversation continues from here)")
        terminal.wait_for_prompt()
    assert terminal.raw.count(b"\x1b[1mname") >= 1


@pytest.mark.proves("terminal.plain")
@pytest.mark.parametrize(
    ("words", "no_color", "kind"), [(["--plain"], "", "xterm"), ([], "1", "xterm"), ([], "", "dumb")]
)
def test_plain_shows_what_the_model_wrote(home: Path, words: list[str], no_color: str, kind: str) -> None:
    script(home, "# Heading\n\n**bold** and | pipes |")
    with Terminal(home, *words, NO_COLOR=no_color, TERM=kind) as terminal:
        terminal.say("hello")
        terminal.wait_for("# Heading\n\n**bold** and | pipes |")
    assert b"\x1b[1m" not in terminal.raw


@pytest.mark.proves("terminal.plain", "terminal.piped")
def test_a_pipe_gets_the_bytes_of_the_answer(home: Path) -> None:
    script(home, ANSWER)
    environment = {**os.environ, "HERMES_HOME": os.fspath(home), "TERM": "xterm-256color"}
    ran = subprocess.run([sys.executable, "-m", "hermes", "-q", "go"], capture_output=True, env=environment, check=True)
    assert ran.stdout.decode() == ANSWER


@pytest.mark.proves("terminal.typeahead")
def test_what_is_typed_during_an_answer_waits_in_the_input_line(home: Path) -> None:
    script(
        home,
        {"when": "story", "text": "Once upon a time. " * 40 + "The end.", "pause": 0.03},
        {"when": "typed", "text": "I see."},
    )
    with Terminal(home) as terminal:
        terminal.say("a story")
        terminal.wait_for("Once upon")
        terminal.send("typed too soo\x7fon" + ENTER)
        terminal.wait_for("> typed too soon")  # below the answer, while it goes on
        terminal.wait_for("The end.\n\n> typed too soon")
        terminal.wait_for("0% cached")  # the status line of the next prompt: from here on Enter sends
        answer = terminal.screen[terminal.screen.index("Once") : terminal.screen.index("The end.")]
        assert set(answer.split()) == {"Once", "upon", "a", "time."}
        terminal.send(", was it?" + ENTER)
        terminal.wait_for("I see.")
        assert "> typed too soon, was it?" in terminal.screen


@pytest.mark.proves("terminal.typeahead", "terminal.consent")
def test_what_is_typed_before_a_question_does_not_answer_it(home: Path) -> None:
    call = {"name": "terminal", "arguments": {"command": "touch made.txt"}}
    script(
        home,
        {"when": "do it", "text": "Let me see. " * 30, "calls": [call], "pause": 0.03},
        {"when": "said no", "text": "As you like."},
    )
    with Terminal(home, lines=40) as terminal:
        terminal.say("do it")
        terminal.wait_for("Let me see.")
        terminal.send("yes" + ENTER)
        terminal.wait_for("[y]es, [n]o, [a]lways for this:")
        terminal.send("n" + ENTER)
        terminal.wait_for("As you like.\n\n> yes")
    assert not (home.parent / "made.txt").exists()


@pytest.mark.proves("terminal.typeahead")
def test_the_keys_of_an_editor_work_before_it_is_there() -> None:
    assert edited("ab", "c\x7fd\x1b[D\x1b[A e") == "abd e"
    assert edited("one two", "\x17three") == "one three"
    assert edited("one\ntwo", "\x15x") == "one\nx"
    assert edited("", "a\x1b\rb\r日\x01") == "a\nb\n日"


@pytest.mark.proves("terminal.plain")
def test_search_marks_found_words_without_styles_when_there_shall_be_none(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("which tea do I like?")
        session.finish_turn("Green tea.")
    with Terminal(home, "sessions", "search", "green tea", NO_COLOR="1") as terminal:
        terminal.wait_for_end()
    assert b"\x1b[1m" not in terminal.raw
    assert b">>>" in terminal.raw
