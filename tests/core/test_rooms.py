"""Imports run one way, dags -> pipelines -> medusa_core, and the core touches nothing outside."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMPURE = {
    "asyncio", "datetime.datetime.now", "http", "io", "logging", "multiprocessing", "os",
    "pathlib", "random", "secrets", "shutil", "signal", "socket", "sqlite3", "subprocess",
    "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield node.module or ""


@pytest.mark.parametrize("path", modules("medusa_core"), ids=lambda p: p.name)
def test_the_core_imports_the_standard_library_and_itself_and_nothing_that_acts(
    path: Path,
) -> None:
    for name in imports(path):
        top = name.partition(".")[0]
        assert top == "medusa_core" or top in sys.stdlib_module_names, f"{path.name}: {name}"
        assert top not in IMPURE, f"{path.name} imports {name}: time and chance are arguments"


@pytest.mark.parametrize("path", modules("medusa_core"), ids=lambda p: p.name)
def test_the_core_asks_no_clock(path: Path) -> None:
    calls = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    }
    assert not [c for c in calls if c.endswith((".now", ".utcnow", ".today")) or c == "open"]


def test_pipelines_import_no_dags_and_only_their_airflow_room_imports_airflow() -> None:
    for path in modules("pipelines"):
        tops = {name.partition(".")[0] for name in imports(path)}
        assert "dags" not in tops, path
        if "pipelines/airflow" not in path.as_posix():
            assert "airflow" not in tops, path
