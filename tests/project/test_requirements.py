"""Ties tests and requirements together in both directions."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

import pytest

from requirements import REQUIREMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = os.path.dirname(os.path.dirname(__file__))
pytestmark = pytest.mark.internal("the manifest itself")


def test_every_requirement_has_a_test() -> None:
    shown = {key for _, keys, _ in all_tests() for key in keys}
    assert sorted(set(REQUIREMENTS) - shown) == []


def test_every_test_names_an_existing_requirement_or_says_why_not() -> None:
    without = [name for name, keys, internal in all_tests() if not keys and not internal]
    unknown = sorted({key for _, keys, _ in all_tests() for key in keys} - set(REQUIREMENTS))
    assert (without, unknown) == ([], [])


def all_tests() -> Iterator[tuple[str, set[str], bool]]:
    for folder, _, files in os.walk(HERE):
        for file in sorted(files):
            # Scenarios are collected through the classes that inherit them.
            if (file.startswith("test_") and file.endswith(".py")) or file.endswith("_scenarios.py"):
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    yield from _tests_of(ast.parse(source.read()), file)


def _tests_of(module: ast.Module, file: str) -> Iterator[tuple[str, set[str], bool]]:
    on_module = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets)
    ]
    classes = [(node.body, node.decorator_list) for node in module.body if isinstance(node, ast.ClassDef)]
    for body, around in [(module.body, []), *classes]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                keys, internal = _marks([*on_module, *around, *node.decorator_list])
                yield f"{file}::{node.name}", keys, internal


def _marks(expressions: list[ast.expr]) -> tuple[set[str], bool]:
    keys: set[str] = set()
    internal = False
    for call in (node for expression in expressions for node in ast.walk(expression)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.proves":
            keys |= {argument.value for argument in call.args if isinstance(argument, ast.Constant)}  # type: ignore[misc]
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.internal":
            internal = True
    return keys, internal
