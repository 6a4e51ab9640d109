"""Imports run one way: dags -> pipelines -> medusa_core, and between rooms strictly downward."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.layout.rooms import (
    LEVEL,
    LEVELS,
    PLACES,
    ROOT,
    Import,
    imports,
    imports_of,
    modules,
    nodes_of,
    part_of,
    room_of,
    sentence_of,
    with_part,
)

IMPURE = {
    "asyncio", "datetime.datetime.now", "http", "io", "logging", "multiprocessing", "os",
    "pathlib", "random", "secrets", "shutil", "signal", "socket", "sqlite3", "subprocess",
    "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip

ALLOWED: Mapping[tuple[str, str], str] = {}
"""Imports that are not downward yet, with the reason. Entries are removed, never added."""

PROGRAMS: Mapping[tuple[str, str], str] = {
    ("pipelines.platform.jobs.launch", "pipelines.cli.job_process"): "the program of a job",
    ("pipelines.operations.exchange_process", "pipelines.cli.main"): "medusa serve",
}
"""Programs of a higher room that a module starts as a process: named, not imported."""

TWINS = {"decide", "decisions", "knowledge"}
"""Modules of `medusa_core.market` that are to the market what the core's are to streams."""


def core_modules() -> list[Path]:
    return sorted((ROOT / "medusa_core").rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield node.module or ""


def is_downward(one: Import) -> bool:
    here, there = one.rooms
    return here == there or (there in LEVEL and LEVEL[there] < LEVEL[here])


@pytest.mark.parametrize("path", core_modules(), ids=lambda p: p.name)
def test_the_core_imports_the_standard_library_and_itself_and_nothing_that_acts(
    path: Path,
) -> None:
    for name in imported(path):
        top = name.partition(".")[0]
        assert top == "medusa_core" or top in sys.stdlib_module_names, f"{path.name}: {name}"
        assert top not in IMPURE, f"{path.name} imports {name}: time and chance are arguments"


@pytest.mark.parametrize("path", core_modules(), ids=lambda p: p.name)
def test_the_core_asks_no_clock(path: Path) -> None:
    calls = {ast.unparse(node.func) for node in nodes_of(path) if isinstance(node, ast.Call)}
    assert not [c for c in calls if c.endswith((".now", ".utcnow", ".today")) or c == "open"]


def test_pipelines_import_no_dags_and_only_their_airflow_room_imports_airflow() -> None:
    for name, path in modules().items():
        tops = {one.partition(".")[0] for one in imported(path)}
        assert "dags" not in tops, path
        if room_of(name) != "airflow":
            assert "airflow" not in tops, path


def test_every_file_of_pipelines_belongs_to_a_room() -> None:
    loose = [path.name for path in (ROOT / "pipelines").glob("*.py")]
    assert loose == ["__init__.py"]
    folders = {path.parent.name for path in (ROOT / "pipelines").glob("*/__init__.py")}
    assert folders == set(LEVEL)
    assert {room_of(name) for name in modules()} - {""} == set(LEVEL)
    assert len(LEVEL) == sum(len(rooms) for rooms in LEVELS)


def test_every_folder_says_what_it_holds_in_a_sentence() -> None:
    for path in (ROOT / "medusa_core", *sorted((ROOT / "pipelines").glob("*/"))):
        if (path / "__init__.py").exists():
            sentence = sentence_of(path)
            assert sentence.endswith("."), f"{path.name}: {sentence!r}"
            assert 20 < len(sentence) <= 72, f"{path.name}: {len(sentence)}"


@pytest.mark.parametrize("room", LEVEL)
def test_a_room_imports_from_lower_levels_only(room: str) -> None:
    upward = [
        f"{one.module} (line {one.line}) imports {one.target} of level {LEVEL.get(one.rooms[1])}"
        for one in imports()
        if one.rooms[0] == room and not is_downward(one) and (one.module, one.target) not in ALLOWED
    ]
    assert upward == [], f"level {LEVEL[room]}"


def test_an_exception_that_is_not_needed_any_more_is_removed() -> None:
    upward = {(one.module, one.target) for one in imports() if not is_downward(one)}
    assert set(ALLOWED) == upward


def test_every_module_that_is_named_in_a_text_exists_and_lies_lower_or_is_a_program() -> None:
    named = set()
    for name, path in modules().items():
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if re.fullmatch(r"pipelines(\.\w+)+", text):
                    target = text if text in modules() else text.rpartition(".")[0]
                    assert target in modules(), f"{name} names {text}"
                    if not is_downward(Import(name, target, node.lineno)):
                        named.add((name, target))
    assert named == set(PROGRAMS)


SOURCE = """
from typing import TYPE_CHECKING
from pipelines.base.settings import Settings
from pipelines import cli
from pipelines.spark import step, absent
import pipelines.report.page as page

if TYPE_CHECKING:
    from pipelines.watching.watcher import Watcher

def late(name):
    from pipelines.market.rounds import round_tick
    importlib.import_module(f"pipelines.language.shipped.{name}")
    import_module("pipelines.quality.suites")
"""


def test_eager_late_typing_and_named_imports_are_all_seen() -> None:
    found = {one.target for one in imports_of("pipelines.spark.step", ast.walk(ast.parse(SOURCE)))}
    assert found == {
        "pipelines.base.settings",
        "pipelines.cli",
        "pipelines.spark.step",
        "pipelines.spark",
        "pipelines.report.page",
        "pipelines.watching.watcher",
        "pipelines.market.rounds.round_tick",
        "pipelines.language.shipped",
        "pipelines.quality.suites",
    }


@pytest.mark.parametrize(
    ("module", "target", "expected"),
    [
        ("pipelines.spark.step", "pipelines.storage.segment_files", True),
        ("pipelines.spark.step", "pipelines.spark.job", True),
        ("pipelines.spark.step", "pipelines.sources.landing", False),  # one level
        ("pipelines.spark.step", "pipelines.cli.main", False),
        ("pipelines.spark.step", "pipelines", False),
        ("pipelines.spark.step", "pipelines.nowhere", False),
    ],
)
def test_an_import_is_downward_from_a_higher_to_a_lower_level(
    module: str, target: str, expected: bool
) -> None:
    assert is_downward(Import(module, target, 1)) is expected


def test_module_names_are_unique_outside_the_command_line_and_the_two_catalogs() -> None:
    found: dict[str, list[str]] = {}
    core = (".".join(p.relative_to(ROOT).with_suffix("").parts) for p in core_modules())
    for module in [*core, *modules()]:
        name = module.rpartition(".")[2]
        is_package = module in modules() and modules()[module].name == "__init__.py"
        is_command = module.startswith("pipelines.cli.")
        # Both catalogs keep the values of the core, module by module, under the core's names.
        is_catalog = module.startswith(("pipelines.catalog.memory.", "pipelines.catalog.postgres."))
        is_twin = module.startswith("medusa_core.market.") and name in TWINS
        if not (is_package or is_command or is_catalog or is_twin or name == "__init__"):
            found.setdefault(name, []).append(module)
    assert [where for where in found.values() if len(where) > 1] == []


@pytest.mark.parametrize("file", PLACES)
def test_the_rooms_on_a_page_are_generated_from_the_table(file: str) -> None:
    assert part_of((ROOT / file).read_text()) == PLACES[file](), (
        f"{file} is not up to date: run python -m tests.layout.rooms --write"
    )


def test_a_page_keeps_all_but_its_part_about_the_rooms() -> None:
    page = "x\n<!-- rooms -->\n\nx\n\n<!-- /rooms -->\nx\n"
    assert with_part(page, "a\\1b") == page.replace("\nx\n\n", "\na\\1b\n\n")
