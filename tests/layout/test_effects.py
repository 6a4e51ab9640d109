"""Effects have one place each: terminal, environment, and the machine's processes."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.layout.rooms import ROOT, modules, room_of, tree_of

OF_THE_TERMINAL = {"argparse", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
OF_THE_ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv"}

READ_THE_ENVIRONMENT = {
    "pipelines.base.settings",
    "pipelines.airflow.forms",
    "pipelines.airflow.hooks",
    "pipelines.airflow.pages",
    "pipelines.cli.deliver",
    "pipelines.cli.demo_federation",
    "pipelines.cli.job_process",
    "pipelines.cli.main",
    "pipelines.cli.supervise",
    "pipelines.cli.up",
}
"""Modules that use `os.environ`. Entries but the first are removed, never added."""

READ_PROC: Mapping[str, str] = {
    "pipelines.base.process_table": "the boot's name, which psutil does not tell",
    "pipelines.spark.java": "the control groups of this process, which psutil does not tell",
    "pipelines.cli.demo": "children of the demonstration, until it calls psutil",
}


def uses_of(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """Each use of one of these dotted names, imported whole or in part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in names)
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
            yield from (name for name in found if name in names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in names:
                yield name


def prints_of(tree: ast.Module) -> Iterator[str]:
    """Each mention of a function that writes to the terminal or reads from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("print", "input"):
            yield node.id


def strings_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("import os\nx = os.environ.get('A')", True),
        ("from os import environ", True),
        ("from os import path", False),
        ("import os\nos.getenv('A')", True),
        ("environ = {}\nenviron['A'] = ''", False),
    ],
)
def test_a_use_is_seen_however_it_is_imported(source: str, is_found: bool) -> None:
    assert bool([*uses_of(ast.parse(source), OF_THE_ENVIRONMENT)]) is is_found


def test_settings_alone_read_the_environment() -> None:
    found = {
        name for name, path in modules().items() if [*uses_of(tree_of(path), OF_THE_ENVIRONMENT)]
    }
    assert found <= READ_THE_ENVIRONMENT


def test_the_command_line_alone_parses_arguments_and_writes_to_the_terminal() -> None:
    found = {
        (name, use)
        for name, path in modules().items()
        for use in (*uses_of(tree_of(path), OF_THE_TERMINAL), *prints_of(tree_of(path)))
        if room_of(name) != "cli"
    }
    assert found == set()


def test_psutil_reads_proc_and_what_it_cannot_read_has_a_reason() -> None:
    found = {
        name
        for name, path in modules().items()
        for text in strings_of(tree_of(path))
        if text.startswith(("/proc", "proc/"))
    }
    assert found <= set(READ_PROC)


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
