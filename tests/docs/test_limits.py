"""Each limit in the README names a test that fails when the limit is lifted.

The tests here show the limits that no other test shows.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from medusa_core.columns import declare_columns
from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.network import Box, Filter, Network, Output, Source
from medusa_core.segments import Segment
from pipelines.base.settings import REPOSITORY, Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.contracts.federation import read_federation
from pipelines.language.check import check_network
from pipelines.storage.arrow_schema import file_schema
from pipelines.storage.csv_export import export_csv
from tests.contracts.writing import ALPHA, FILES, write_contracts

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BETA = Participant("beta")
COLUMNS = {"ts_us": "bigint", "k": "string", "n": "int"}
DATABASE = "medusa_limits"


def limits() -> list[str]:
    """The rows of the table of limits in the README."""
    section = README.partition("\n## Limits\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| (?!limit |-)(.*) \|$", section, re.MULTILINE)


def names_of_tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_limit_names_tests_that_exist() -> None:
    assert len(limits()) >= 8
    for limit in limits():
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", limit)
        assert named, f"this limit names no test: {limit}"
        for path, test in named:
            assert test in names_of_tests(REPOSITORY / path), f"{path} has no {test}"


def test_every_test_of_a_limit_here_is_named_by_the_readme() -> None:
    here = names_of_tests(Path(__file__)) - {
        "test_every_limit_names_tests_that_exist",
        "test_every_test_of_a_limit_here_is_named_by_the_readme",
    }
    here = {name for name in here if name.startswith("test_")}
    assert here <= set(re.findall(r"tests/docs/test_limits\.py::(test_\w+)", README))


# The exchange


@pytest.fixture
def settings(postgres_server: EmbeddedServer, tmp_path: Path) -> Settings:
    return Settings(
        catalog_url=postgres_server.superuser_url(),
        directory=tmp_path / "one",
        test_data=tmp_path,
    )


# The language


def test_a_network_has_these_kinds_of_boxes_and_no_subquery() -> None:
    names = {box.__name__ for box in get_args(Box)}
    assert names == {
        "Filter",
        "Map",
        "Union",
        "Aggregate",
        "Session",
        "Join",
        "Lookup",
        "Resample",
        "Rank",
        "Deduplicate",
        "Running",
        "Every",
        "Function",
    }
    for expression in ("k IN (SELECT k FROM s)", "EXISTS (SELECT 1 FROM s)"):
        with pytest.raises(Refused, match=r"subquery|IN without a list"):
            check_network(_network(Filter(name="b", input="s", cases={"yes": expression})))


@pytest.mark.parametrize(
    "expression",
    [
        "lag(n) OVER (PARTITION BY k ORDER BY n) > 1",
        "session_window(ts_us, '5 minutes') IS NULL",
    ],
)
def test_an_expression_that_needs_other_records_is_refused(expression: str) -> None:
    with pytest.raises(Refused, match=r"window function|which is refused"):
        check_network(_network(Filter(name="b", input="s", cases={"yes": expression})))


def _network(box: Filter) -> Network:
    return Network(
        name="limited",
        sources=(Source(name="s", columns=COLUMNS, time="ts_us"),),
        boxes=(box,),
        outputs=(Output(name="o", input="b"),),
    )


def test_a_fragment_is_not_split_by_key(tmp_path: Path) -> None:
    files = {**FILES, "participants/alpha.yaml": ALPHA + "    partitions: 4\n"}
    with pytest.raises(Refused, match=r"runs\[0\]\.partitions is not known here"):
        read_federation(write_contracts(tmp_path / "contracts", files), tmp_path)


# What a promise covers


def test_rows_have_no_stability_of_their_own() -> None:
    assert "stability" in Segment.__dataclass_fields__
    stored = set(file_schema(declare_columns("stream s", COLUMNS)).names)
    assert stored == {*COLUMNS, "_stime", "_bucket"}


# Resources and platforms


def test_an_export_holds_all_rows_before_it_writes_the_first(tmp_path: Path) -> None:
    columns = declare_columns("stream s", {"n": "int"})
    written_before_the_last: list[list[Path]] = []

    def tables() -> Iterator[pa.Table]:
        for number in (2, 1):
            yield pa.table({"n": pa.array([number], pa.int32())})
        written_before_the_last.append(list(tmp_path.iterdir()))

    assert export_csv(tmp_path / "out.csv", columns, tables()) == 2
    assert written_before_the_last == [[]]
    assert (tmp_path / "out.csv").read_text() == "n\n1\n2\n"


def test_the_tests_run_on_linux() -> None:
    assert sys.platform == "linux"
