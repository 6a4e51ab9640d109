"""The recomputation of certificates shares nothing with what it checks but the parser.

What is shared besides: the catalog's rows, the form of stored files, and the network as its plan
says it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY

PARSER = "pipelines.language.parsing"
FILES = "pipelines.storage.segment_files"
STORE = "pipelines.storage.store"
"""Where files are kept: it gives bytes, whose hash the oracle checks."""
ROOM = REPOSITORY / "pipelines" / "quality"
ALSO = {
    # A Function box is code in a file: the network of a plan is opened as the drivers open it.
    "recompute_jobs": {"pipelines.homes.network_files"},
    # A session to run boxes in, and its errors in words.
    "check_run": {"pipelines.spark.session"},
    "spark_boxes": {"pipelines.spark.failures"},
    # The columns that the catalog declares, and the errors of a file: no row is read there.
    # Which boxes a moved fragment has, and the digests of the rows that the oracle computes: those
    # that the provider has stated are compared with nothing else.
    "moved_samples": {
        "pipelines.language.check",
        "pipelines.language.fragment_networks",
        "pipelines.market.moves.move_order",
        "pipelines.storage.arrow_digests",
    },
    "sample_check": {"pipelines.storage.segment_rows"},
    "stored_rows": {FILES, STORE},
}
"""What a module may use of the rooms that compute streams, besides the parser."""
FREE = {"quality", "catalog", "report", "home", "homes", "settings", "base"}
"""Rooms that compute no stream: their modules may be used."""


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.stem)
def test_a_module_of_certificates_uses_nothing_that_computes_streams(path: Path) -> None:
    used = {
        module
        for module in imported(path)
        if module.startswith("pipelines.") and module.split(".")[1] not in FREE
    }
    assert used <= {PARSER, *ALSO.get(path.stem, ())}, path


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, at once, late, or for its types."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports from {node.module} without its whole name"
            yield node.module or ""
            # A module can be imported by `from package import module`.
            yield from (
                name
                for name in (f"{node.module}.{alias.name}" for alias in node.names)
                if (REPOSITORY / f"{name.replace('.', '/')}.py").is_file()
            )


def test_a_recomputation_loads_the_parser_alone_of_what_computes_streams() -> None:
    listed = "import sys, pipelines.quality.recompute, pipelines.quality.differences; "
    listed += "print(*(name for name in sys.modules if name.startswith('pipelines.')))"
    done = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    loaded = {name for name in done.stdout.split() if name.count(".") > 1}
    assert "pipelines.quality.recompute" in loaded
    assert {name for name in loaded if name.split(".")[1] not in FREE} == {
        PARSER, FILES, STORE, "pipelines.storage.object_settings",
    }  # fmt: skip
