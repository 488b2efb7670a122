"""The fields on top of a Markdown file, by our own reader and by ruamel where it is not that simple."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from hermes.base.frontmatter import split_frontmatter

pytestmark = pytest.mark.proves("prompt.context.frontmatter")


def test_fields_and_body_are_taken_apart() -> None:
    parts = split_frontmatter("---\nname: x\ntags: [a, 'b c']\nflag: true\nlist:\n  - one\n  - \"two\"\n---\nBody\n")
    assert parts.fields == {"name": "x", "tags": ["a", "b c"], "flag": True, "list": ["one", "two"]}
    assert (parts.body, parts.problem) == ("Body\n", "")


@pytest.mark.parametrize("text", ["", "Body", "--- \nno end", "-- -\nx: y\n---\n", "\n---\na: b\n---\n"])
def test_a_text_without_a_block_is_all_body(text: str) -> None:
    assert split_frontmatter(text).fields == {}
    assert split_frontmatter(text).body == text


def test_richer_yaml_is_read_in_full() -> None:
    block = "description: >-\n  folded\n  text\nmetadata:\n  author: ada\n  n: [1, [2]]\n"
    parts = split_frontmatter(f"---\n{block}---\nBody")
    assert parts.fields == {"description": "folded text", "metadata": {"author": "ada", "n": [1, [2]]}}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("a: [b\n", "not valid YAML"),
        ("a: b\na: c\n", "not valid YAML"),
        ("- a\n- b\n", "not a list of fields"),
        ("a: " + "[" * 100 + "\n", "not valid YAML"),
        ("a: " + "[" * 5_000 + "\n", "too deeply nested"),
        ("a: &x [*x, *y]\n", "not valid YAML"),
    ],
)
def test_a_broken_block_stays_in_the_body_and_is_named(block: str, problem: str) -> None:
    text = f"---\n{block}---\nBody"
    parts = split_frontmatter(text)
    assert parts.body == text
    assert problem in parts.problem


def test_a_block_without_an_end_is_named() -> None:
    assert "never closed" in split_frontmatter("---\na: b\n" + "x\n" * 40_000).problem


def test_the_pattern_lists_of_cursor_rules_are_no_yaml_aliases() -> None:
    parts = split_frontmatter("---\ndescription: TypeScript\nglobs: *.ts,**/*.tsx\nalwaysApply: false\n---\nUse it.")
    assert parts.fields == {"description": "TypeScript", "globs": "*.ts,**/*.tsx", "alwaysApply": False}


@pytest.mark.parametrize(
    "block",
    [
        "metadata:\n  author: ada\n  hermes:\n    tags: [a, b]\n    related:\n    - x\n    - y\nname: z\n",
        "empty:\nname: z\n",
        "list:\n- a\n- b\nname: z\n",
        "a:\n  b: c\n d: e\n",
        "a: b\n  c\n",
        "a:\n  - b\n    c\n",
        "a:\n  - b: c\n    d: e\n",
        "a:\n    b: c\n  d: e\n",
        "a: 'it''s'\nb: \"x # y\"\nc: [\"p, q\", r]\n",
        "a: x # comment\nb: http://x/y#z\n",
        "a:\n\tb: c\n",
    ],
)
def test_nested_fields_mean_what_yaml_says(block: str) -> None:
    ours = split_frontmatter(f"---\n{block}---\nBody")
    try:
        theirs = YAML(typ="safe", pure=True).load(block)
    except YAMLError:
        assert ours.problem
    else:
        assert ours.fields == theirs


LINES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["a:", "b:", "c: x", "d: [p, q]", "- i", "- j", "e: 'q'", "- k: v"])),
    max_size=7,
)


@given(LINES)
def test_any_indentation_means_what_yaml_says(lines: list[tuple[int, str]]) -> None:
    block = "".join(f"{' ' * indent}{line}\n" for indent, line in lines)
    ours = split_frontmatter(f"---\n{block}---\nBody")
    try:
        theirs = YAML(typ="safe", pure=True).load(block)
    except YAMLError:
        assert ours.problem
        return
    if isinstance(theirs, dict):
        assert ours.fields == theirs
    else:
        assert ours.problem or theirs is None


SCALARS = st.text(alphabet="ab: -#'\"[]{},*!|>%@`?~\\.1é", max_size=8)


@given(st.lists(st.tuples(st.sampled_from("abcd"), SCALARS), max_size=4))
def test_what_we_read_ourselves_is_what_yaml_means(fields: list[tuple[str, str]]) -> None:
    block = "".join(f"{key}: {scalar}\n" for key, scalar in fields)
    ours = split_frontmatter(f"---\n{block}---\nBody")
    if ours.problem or "*" in block:
        return
    theirs = YAML(typ="safe", pure=True).load(block) or {}
    assert {key: _text(field) for key, field in ours.fields.items()} == {k: _text(v) for k, v in theirs.items()}


def _text(field: object) -> object:
    # Numbers stay text in ours: a skill named 007 is not seven.
    if isinstance(field, list):
        return [_text(item) for item in field]
    if isinstance(field, bool | dict) or field is None:
        return field
    try:
        return float(str(field))  # "1." is the number 1.0
    except ValueError:
        return str(field)


@given(st.text())
def test_any_text_can_be_split(text: str) -> None:
    parts = split_frontmatter("---\n" + text)
    assert parts.body
    assert parts.problem or parts.fields is not None


def test_simple_fields_are_read_without_loading_a_yaml_parser() -> None:
    code = (
        "import sys; from hermes.base.frontmatter import split_frontmatter;"
        "assert split_frontmatter('---\\nname: x\\ntags: [a, \"b\"]\\nmetadata:\\n  x: y\\n---\\n').fields;"
        "print(sum('ruamel' in name for name in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "0\n"
