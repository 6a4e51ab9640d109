"""Effects have one place each: terminal, environment, and the machine's processes."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from tests.layout.rooms import ROOT, modules, nodes_of, room_of

OF_THE_TERMINAL = {"argparse", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
OF_THE_ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv"}

READS_THE_ENVIRONMENT = "pipelines.base.settings"
"""The module that uses `os.environ`."""

READ_PROC: Mapping[str, str] = {
    "pipelines.base.process_table": "the boot's name, which psutil does not tell",
    "pipelines.spark.java": "the control groups of this process, which psutil does not tell",
}

REPLACE_NODES: Mapping[str, str] = {
    "pipelines.language.panes": "nodes of sqlglot",
    "pipelines.quality.spark_expressions": "nodes of sqlglot",
    "pipelines.spark.distinct": "nodes of sqlglot",
}
"""Call methods that are named as those of pathlib which rename files; and of what they are."""

TERMINAL_FUNCTIONS = {"print", "input"}
A_RENAME = "a method with one argument that is named as those of pathlib"


def uses_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Each use of a name above, imported whole or in part, and of a path below /proc."""
    names = OF_THE_TERMINAL | OF_THE_ENVIRONMENT
    for node in nodes:
        match node:
            case ast.Import():
                yield from (one.name for one in node.names if one.name in names)
            case ast.ImportFrom():
                found = [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
                yield from (name for name in found if name in names)
            case ast.Attribute(value=ast.Name(id=module), attr=attribute):
                name = f"{module}.{attribute}"
                if name in names:
                    yield name
            case ast.Name(id=name) if name in TERMINAL_FUNCTIONS:
                yield name
            case ast.Call(func=ast.Attribute(attr="replace" | "rename"), args=[_], keywords=[]):
                yield A_RENAME
            case ast.Constant(value=str(text)) if text.startswith(("/proc", "proc/")):
                yield "/proc"


@cache
def uses() -> frozenset[tuple[str, str]]:
    """Module and use, over all modules of `pipelines`."""
    return frozenset(
        (name, use) for name, path in modules().items() for use in uses_of(nodes_of(path))
    )


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("import os\nx = os.environ.get('A')", True),
        ("from os import environ", True),
        ("from os import path", False),
        ("import os\nos.getenv('A')", True),
        ("environ = {}\nenviron['A'] = ''", False),
        ("import argparse", True),
        ("from argparse import Namespace", True),
        ("import sys\nsys.stderr.write('')", True),
        ("from sys import stdout", True),
        ("print(1)", True),
        ("show = print", True),
        ("open(f'/proc/{1}/stat')", True),
        ("part.replace(path)", True),
        ("part.with_name('a').rename(path)", True),
        ("text.replace('a', 'b')", False),
        ("moment.replace(tzinfo=UTC)", False),
        ("replace(record)", False),
    ],
)
def test_a_use_is_seen_however_it_is_imported(source: str, is_found: bool) -> None:
    assert bool([*uses_of(ast.walk(ast.parse(source)))]) is is_found


def test_settings_alone_read_the_environment() -> None:
    assert {name for name, use in uses() if use in OF_THE_ENVIRONMENT} == {READS_THE_ENVIRONMENT}


def test_the_command_line_alone_parses_arguments_and_writes_to_the_terminal() -> None:
    kept = OF_THE_TERMINAL | TERMINAL_FUNCTIONS
    assert {one for one in uses() if one[1] in kept and room_of(one[0]) != "cli"} == set()


def test_no_module_renames_files_by_methods_of_paths() -> None:
    assert {name for name, use in uses() if use == A_RENAME} == set(REPLACE_NODES)


def test_psutil_reads_proc_and_what_it_cannot_read_has_a_reason() -> None:
    assert {name for name, use in uses() if use == "/proc"} == set(READ_PROC)


def test_the_bans_of_the_command_line_are_those_of_all_rooms_but_for_the_terminal() -> None:
    def banned(file: str) -> dict[str, Any]:
        lint = tomllib.loads((ROOT / file).read_text())["lint"]
        return dict(lint["flake8-tidy-imports"]["banned-api"])

    everywhere, here = banned("pipelines/ruff.toml"), banned("pipelines/cli/ruff.toml")
    assert set(everywhere) >= OF_THE_TERMINAL | OF_THE_ENVIRONMENT
    expected = set(everywhere) - OF_THE_TERMINAL
    assert set(here) <= expected
    assert expected - set(here) <= OF_THE_ENVIRONMENT
    assert here == {name: everywhere[name] for name in here}
