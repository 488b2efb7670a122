"""Reads and edits config.yaml as text: parses it with line numbers, and keeps comments and order when it writes."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.util import load_yaml_guess_indent

from hermes.base.errors import SettingsError
from hermes.settings.schema import all_keys, from_words, known, problem_with
from hermes.storage.files import Folder
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes.settings.home import Home


def without(text: str, tree: CommentedMap, words: list[str]) -> str | None:
    """Removes a value by cutting its lines, with headings it leaves empty; None if it shares its line with others."""
    lines = text.splitlines(keepends=True)
    holders = [tree]
    for word in words[:-1]:
        holders.append(holders[-1][word])
    depth = len(words) - 1
    begin, end = _lines_of(lines, holders[depth], words[depth])
    while depth and begin >= 0 and len(holders[depth]) == 1:
        higher = _lines_of(lines, holders[depth - 1], words[depth - 1])
        if any(line.lstrip().startswith("#") for line in lines[higher[0] : higher[1]]):
            break  # a comment that somebody wrote below the heading stays, and so the heading must stay
        depth -= 1
        begin, end = higher
    return None if begin < 0 else "".join(lines[:begin] + lines[end:])


def _lines_of(lines: list[str], holder: CommentedMap, word: str) -> tuple[int, int]:
    """The lines of a key and its value, without the comments that follow; (-1, -1) when others share the line."""
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
    """Whether a line may belong to the value of a key in this column; YAML lets a list start in its key's column."""
    content = line.lstrip()
    indented = len(line) - len(content)
    return not content or content.startswith("#") or indented > column or (indented == column and content[:2] == "- ")


_LARGEST = 1 << 20  # bytes
_LOCK_TIMEOUT = 5  # seconds
# How to write values of these kinds on the command line, for error messages.
_SHAPES = {"mapping": "{key: value}", "texts": '["one", "two"] or one, two'}


def parse(path: str, data: bytes) -> CommentedMap:
    """Parses config.yaml into a tree that knows lines and comments; an error names file and line, never the content."""
    try:
        tree = _yaml().load(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: byte {error.start:,} is not UTF-8 text; save the file as UTF-8") from error
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{path}:{line}: not valid YAML: {error.problem or error}; correct that line") from error
    except (YAMLError, ValueError) as error:
        raise SettingsError(f"{path}: not valid YAML: {error}; correct the file") from error
    if tree is None:
        return CommentedMap()
    if not isinstance(tree, CommentedMap):
        found = "a list" if isinstance(tree, list) else "a single text"  # not shown: the file may be a link
        raise SettingsError(f"{path}:1: expected `name: value` lines, found {found}; correct the file")
    return tree


def line_of(tree: CommentedMap, word: str) -> int:
    """Gives the line of a key, counted from 1."""
    try:
        return int(tree.lc.key(word)[0]) + 1
    except (KeyError, AttributeError, TypeError):  # came in through a YAML merge, which keeps no position
        return 1


def plain(node: Any) -> Any:
    """Converts a node of ruamel's types, which carry format and position, to ordinary Python values."""
    if isinstance(node, dict):
        return {str(word): plain(below) for word, below in node.items()}
    if isinstance(node, list):
        return [plain(item) for item in node]
    for kind in (bool, int, float, str):  # bool first: in Python it is an int as well
        if isinstance(node, kind):
            return kind(node)
    return node


def set_value(home: Home, file: str, name: str, words: str) -> tuple[Any, str]:
    """Sets one setting and leaves the rest of the file as it is; returns the value and the real path of the file."""
    key = known(name)
    given = _read(words, _yaml()) if key.kind == "mapping" else from_words(key, words)
    if key.kind == "texts" and isinstance(given, str):  # with or without brackets; every item is a text, not a number
        given = _read(words if words.strip().startswith("[") else f"[{words}]", YAML(typ="base", pure=True))
        given = words if isinstance(given, str) else given
    if problem := problem_with(key, given):
        shape = _SHAPES.get(key.kind, "")
        raise SettingsError(f"{name}: {problem}{f'; write it as {shape}, or edit {home.join(file)}' if shape else ''}")
    _check_operator(home, name)
    real = _edit(home, file, lambda tree: _place(tree, name.split("."), given))
    return given, real


def unset_value(home: Home, file: str, name: str) -> tuple[str, bool]:
    """Removes one setting and leaves the rest of the file as it is; returns the real path and whether it was set."""
    known(name)
    _check_operator(home, name)
    found: list[bool] = []

    def take_out(tree: CommentedMap, text: str) -> str:
        words = name.split(".")
        found.append(_holds(tree, words))
        if not found[0]:
            return text
        holder = tree
        for word in words:
            if word not in (holder.lc.data or ()):
                raise SettingsError(f"{name} comes from another part of the file, by `<<`; edit the file")
            last, holder = holder, holder[word]
        # Cut lines keep the formatting of all others. If the result says something else, the tree is written instead.
        shorter = without(text, tree, words)
        del last[words[-1]]
        return shorter if shorter is not None and _says(shorter, tree) else _dumped(tree, text)

    return _rewrite(home, file, take_out), found[0]


def _check_operator(home: Home, name: str) -> None:
    """Refuses to change settings for one person: they belong to the operator."""
    if home.above:
        raise SettingsError(f"settings are the operator's, not one person's; leave --user out to change {name} for all")


def place_value(home: Home, file: str, name: str, given: Any) -> None:
    """Sets a value that the caller has checked, and leaves the rest of the file as it is."""
    _edit(home, file, lambda tree: _place(tree, name.split("."), given))


def keep_known(home: Home, file: str) -> list[str]:
    """Removes unknown settings and invalid values, as a migration needs; returns the names it removed."""
    dropped: list[str] = []
    _edit(home, file, lambda tree: dropped.extend(_without_unknown(tree, "", all_keys())))
    return dropped


def _without_unknown(tree: CommentedMap, prefix: str, keys: Mapping[str, Any]) -> list[str]:
    """Removes unknown and invalid settings from a part of the tree, and headings that become empty."""
    dropped: list[str] = []
    for word in list(tree):
        name, below = f"{prefix}{word}", tree[word]
        if name in keys:
            if not problem_with(keys[name], plain(below)):
                continue
            dropped.append(name)
        elif isinstance(below, CommentedMap) and any(key.startswith(f"{name}.") for key in keys):
            dropped += _without_unknown(below, f"{name}.", keys)
            if below:
                continue
        else:
            dropped.append(name)
        del tree[word]
    return dropped


def set_plugin(home: Home, plugin: str, values: Mapping[str, Any], file: str = "config.yaml") -> None:
    """Writes settings of one plug-in under `plugins`, and leaves the rest of the file as it is."""

    def change(tree: CommentedMap) -> None:
        for key, given in values.items():
            _place(tree, ["plugins", plugin, key], given)

    _edit(home, file, change)


def _edit(home: Home, file: str, change: Callable[[CommentedMap], None]) -> str:
    def changed(tree: CommentedMap, text: str) -> str:
        change(tree)
        return _dumped(tree, text)

    return _rewrite(home, file, changed)


def _rewrite(home: Home, file: str, changed: Callable[[CommentedMap, str], str]) -> str:
    """Changes the file under its lock; writes to where a link leads, so that a linked config.yaml stays a link."""
    real = os.path.realpath(home.join(file))
    with Folder.create(os.path.dirname(real)) as folder:
        base = os.path.basename(real)
        with FileLock(folder, f"{base}.lock", timeout=_LOCK_TIMEOUT):
            data = folder.read(base, at_most=_LARGEST) or b""
            tree = parse(real, data)
            folder.replace(base, changed(tree, data.decode("utf-8-sig")).encode())
    return real


def _dumped(tree: CommentedMap, text: str) -> str:
    out = io.StringIO()
    _yaml_indented_like(text).dump(tree, out)
    return out.getvalue()


def _read(words: str, yaml: YAML) -> Any:
    """Reads words as the file would, where JSON is valid too; words that are not valid YAML come back unchanged."""
    try:
        return plain(yaml.load(words))
    except (YAMLError, ValueError, RecursionError):
        return words


def _says(text: str, tree: CommentedMap) -> bool:
    """Whether a text parses to the same settings as the tree; empty headings do not count."""
    try:
        return bool(_filled(plain(parse("", text.encode()))) == _filled(plain(tree)))
    except SettingsError:
        return False


def _filled(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    below = {word: _filled(each) for word, each in node.items()}
    return {word: each for word, each in below.items() if each not in ({}, None)}


def _holds(tree: Any, words: list[str]) -> bool:
    for word in words:
        if not isinstance(tree, CommentedMap) or word not in tree:
            return False
        tree = tree[word]
    return True


def _place(tree: CommentedMap, words: list[str], given: Any) -> None:
    """Sets a value in the tree, and makes the headings above it."""
    for word in words[:-1]:
        if not isinstance(tree.get(word), dict):
            tree[word] = CommentedMap()
        tree = tree[word]
    tree[words[-1]] = given


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096  # by default ruamel wraps long values, which would change lines that nobody edited
    return yaml


def _yaml_indented_like(text: str) -> YAML:
    """Writes with the indentation the file already has."""
    _, step, offset = load_yaml_guess_indent(text)
    yaml = _yaml()
    # ruamel counts the indentation of a list up to the text after the dash, so two more than up to the dash.
    yaml.indent(mapping=step or 2, sequence=(offset or 0) + 2 if step else 4, offset=offset if step else 2)
    return yaml
