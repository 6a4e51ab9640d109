"""Every query is named, explained in a sentence, and used; none stands in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipelines
from pipelines.catalog.postgres import queries

PACKAGE = Path(pipelines.__file__).parent
ABOUT_A_HOME = re.compile(r"\b(SELECT|FROM|JOIN|INTO|UPDATE|TABLE)\s+medusa(_api|_market)?\.[a-z_]")


@pytest.mark.parametrize("name", queries.query_names())
def test_a_query_begins_with_a_sentence_that_explains_it(name: str) -> None:
    first = queries.query(name).text.splitlines()[0]
    assert first.startswith("-- ")
    assert len(first) > len("-- ") + 20


def test_every_query_is_used() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    unused = [name for name in queries.query_names() if f'"{name}"' not in source]
    assert unused == []


def strings_of(source: str) -> Iterator[tuple[int, str]]:
    """The strings of a module but for its docstrings, by line."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in documentation:
            continue
        if isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_sql_statement_about_a_home_is_in_python() -> None:
    suspects = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path, source in suspects.items()
        if ABOUT_A_HOME.search(source)
        for line, string in strings_of(source)
        if ABOUT_A_HOME.search(string)
    ]
    assert found == []
