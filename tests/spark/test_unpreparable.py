"""A plan that stores what it has read is planned again for each step, and never run again.

Spark's own plan for `count(distinct)` of two columns shuffles, and a shuffle's files outlive a run:
run again over other records, such a job gave the rows of its first step. The compiler's plan for it
does not shuffle (`pipelines.spark.distinct`), so that one is switched off here.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Filter, Network, Output, Source
from pipelines.language.check import check_network, fragments_for
from pipelines.spark import compiler
from pipelines.spark.step import StepEngine
from pipelines.storage.segment_rows import read_segments
from tests.replaying import Replayer, parquet_files
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
VERIFIES = True
"""Prepared jobs are verified here."""

SECOND_US = 1_000_000


def a_network(*, is_read_twice: bool) -> Network:
    boxes: list[Box] = [
        Aggregate(
            name="talk",
            input="s",
            size="10s",
            group_by=("k",),
            columns={"n": "count(*)", "da": "count(distinct a)", "db": "count(distinct b)"},
        )
    ]
    outputs = [Output(name="talkers", input="talk")]
    if is_read_twice:
        boxes.append(Filter(name="sus", input="talk", cases={"yes": "n > 1"}))
        outputs.append(Output(name="suspects", input="sus"))
    columns = {"ts_us": "bigint", "k": "string", "a": "int", "b": "string"}
    return Network(
        name="two",
        sources=(Source(name="s", columns=columns, time="ts_us"),),
        boxes=tuple(boxes),
        outputs=tuple(outputs),
        bucket="10s",
    )


def records() -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "ts_us": pa.array(np.sort(random.integers(0, 80 * SECOND_US, 800))),
            "k": pa.array([f"k{n}" for n in random.integers(0, 20, 800)]),
            "a": pa.array(random.integers(0, 9, 800), pa.int32()),
            "b": pa.array([f"b{n}" for n in random.integers(0, 5, 800)]),
        }
    )


def expected(table: pa.Table) -> set[tuple[int, str, int, int, int]]:
    groups = defaultdict(list)
    for row in table.to_pylist():
        groups[row["ts_us"] // (10 * SECOND_US), row["k"]].append(row)
    return {
        (at, key, len(rows), len({r["a"] for r in rows}), len({r["b"] for r in rows}))
        for (at, key), rows in groups.items()
    }


@pytest.fixture(autouse=True)
def as_spark_plans_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "in_shares", lambda *_: None)


def test_the_job_is_not_prepared(spark: SparkSession, tmp_path: Path) -> None:
    for is_read_twice in (False, True):
        checked = check_network(a_network(is_read_twice=is_read_twice))
        (fragment,) = fragments_for(checked)
        jobs = StepEngine(spark, tmp_path, checked)._jobs_of(fragment)
        columns = {s: checked.columns[port] for port, s in fragment.inputs.items()}
        assert not jobs.prepare(columns)


@pytest.mark.long
@pytest.mark.parametrize("is_read_twice", long_but(1, [True, False]))
def test_two_distinct_counts_give_their_rows_in_every_step(
    replayer: Replayer, is_read_twice: bool
) -> None:
    network, table = a_network(is_read_twice=is_read_twice), records()
    files = parquet_files(replayer.folder / "in", table)
    with replayer.home() as home:
        result = replayer.run(home, network, {"s": files}, limits=Limits(records_per_step_max=100))
        assert result.steps >= 6
        found = {}
        for output in network.outputs:
            segments = home.catalog.segments(StreamName(output.name))
            columns = check_network(network).columns_of_output(output.name)
            tables = read_segments(home.storage, segments, columns)
            rows = pa.concat_tables(tables).to_pylist()
            found[output.name] = {
                (int(r["window_start"].timestamp()) // 10, r["k"], r["n"], r["da"], r["db"])
                for r in rows
            }
            assert len(found[output.name]) == len(rows)
    whole = expected(table)
    assert found["talkers"] == whole
    if is_read_twice:
        assert found["suspects"] == {row for row in whole if row[2] > 1}
