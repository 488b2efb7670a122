"""Takes one value out of a YAML text, line by line: the parser would throw away the comments that follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ruamel.yaml.comments import CommentedMap


def without(text: str, tree: CommentedMap, words: list[str]) -> str | None:
    """The text without the value, and without headings that hold nothing else; None where lines cannot tell."""
    lines = text.splitlines(keepends=True)
    holders = [tree]
    for word in words[:-1]:
        holders.append(holders[-1][word])
    depth = len(words) - 1
    begin, end = _lines_of(lines, holders[depth], words[depth])
    while depth and begin >= 0 and len(holders[depth]) == 1:
        higher = _lines_of(lines, holders[depth - 1], words[depth - 1])
        if any(line.lstrip().startswith("#") for line in lines[higher[0] : higher[1]]):
            break  # what somebody wrote below the heading stays, and then so does the heading
        depth -= 1
        begin, end = higher
    return None if begin < 0 else "".join(lines[:begin] + lines[end:])


def _lines_of(lines: list[str], holder: CommentedMap, word: str) -> tuple[int, int]:
    """Where the key and its value stand, without the comments that follow; (-1, -1) when others share the line."""
    begin, column = holder.lc.key(word)
    if lines[begin][:column].strip():
        return -1, -1
    end = begin + 1
    while end < len(lines) and _belongs(lines[end], column):
        end += 1
    while end > begin + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return begin, end


def _belongs(line: str, column: int) -> bool:
    """Whether a line is part of the value of a key in this column, or may be; a list may begin below its key."""
    content = line.lstrip()
    indented = len(line) - len(content)
    return not content or content.startswith("#") or indented > column or (indented == column and content[:2] == "- ")
