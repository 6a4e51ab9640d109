"""Law K1: what a kernel can compute, it computes as Spark SQL does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.answering import WIDTH_US, Answering
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.network import Aggregate, Lookup, Map, Network, Output, Source
from pipelines.language.check import check_network, fragments_for
from pipelines.spark import step as step_module
from pipelines.spark.compiled_fragment import TAG, CompiledFragment, input_view
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.execution_mode import KERNEL_RECORDS_MIN, RESULT_ROWS_IN_DRIVER_MAX
from pipelines.spark.job import KERNEL_FAILURES_MAX, FragmentJobs, ordinary_table
from pipelines.spark.kernel_expressions import NotInKernel
from pipelines.spark.kernel_sql import kernel_sql
from pipelines.spark.kernel_task import tagged_rows, task_of
from pipelines.spark.prepared_form import reasons_against_kernels
from pipelines.spark.results import StepResult
from pipelines.storage.arrow_schema import arrow_type
from tests.spark.conftest import counted_runs
from tests.spark.drawn.records import pieces
from tests.spark.drawn.spec import drawn, medusa_network
from tests.spark.drawn.trials import (
    by_answers_and_corrections,
    by_prepared_jobs,
    by_verified_kernels,
    run,
)
from tests.sweeps import IS_LONG, examples, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
VERIFIES = True
"""Kernels are compared with ordinary plans here."""
WITH_KERNELS = 122
"""A drawn network that has kernels alone."""


def has_kernels_alone(seed: int) -> bool:
    """Whether all fragments of a drawn network have kernels."""
    checked = check_network(medusa_network(drawn(seed)))
    fragments = fragments_for(checked)
    return not any(reasons_against_kernels(fragments, checked).values())


def seeds_with_kernels() -> Iterator[int]:
    """Drawn networks that have kernels alone; finding one takes a second of CPU."""
    yield WITH_KERNELS
    if IS_LONG:
        others = (seed for seed in count() if seed != WITH_KERNELS and has_kernels_alone(seed))
        yield from islice(others, 29)


def kernels_of(seed: int) -> list[tuple[CompiledFragment, Mapping[str, Any]]]:
    """The fragments of a drawn network that read sources alone and have a kernel."""
    checked = check_network(medusa_network(drawn(seed)))
    sources = {source.name for source in checked.network.sources}
    found = []
    for fragment in fragments_for(checked):
        columns = {stream: checked.columns[port] for port, stream in fragment.inputs.items()}
        if set(columns) <= sources:
            compiled = compile_fragment(fragment, checked)
            try:
                kernel_sql(compiled, columns)
            except NotInKernel:
                continue
            found.append((compiled, columns))
    return found


def rows_of(table: pa.Table) -> Counter[str]:
    """The rows of outputs, in any order; of failed records how many there are."""
    rows: Counter[str] = Counter()
    for row in table.to_pylist():
        values = {n: abs(v) if isinstance(v, float) and v == 0 else v for n, v in row.items()}
        rows[repr(values) if row[TAG] >= 0 else "failed"] += 1
    return rows


def by_kernel(
    compiled: CompiledFragment,
    columns: Mapping[str, Any],
    given: Mapping[str, pa.Table],
    folder: Path,
) -> pa.Table:
    query = kernel_sql(compiled, columns)
    inputs, names = {}, {}
    for stream, table in given.items():
        path = folder / f"{stream}.parquet"
        pq.write_table(table, path)
        inputs[input_view(stream)] = [(str(path), None, None)]
        names[input_view(stream)] = table.column_names
    task = task_of(query.sql, inputs, threads=2, folder=str(folder))
    schema = pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in query.columns])
    return tagged_rows(task, names, tuple(names)).cast(schema)


@pytest.mark.sweep
def test_kernels_give_the_rows_of_ordinary_plans(spark: SparkSession, tmp_path: Path) -> None:
    compared = rows = 0
    for seed in range(examples(15, 600)):
        for compiled, columns in kernels_of(seed):
            tables: dict[str, list[pa.Table]] = {stream: [] for stream in columns}
            for piece in pieces(seed, tuple(columns)):
                for stream, table in piece.records.items():
                    tables[stream].append(table)
            given = {stream: pa.concat_tables(its) for stream, its in tables.items()}
            found = by_kernel(compiled, columns, given, tmp_path)
            expected = rows_of(ordinary_table(spark, compiled, given).cast(found.schema))
            assert rows_of(found) == expected, seed
            compared, rows = compared + 1, rows + expected.total()
    assert compared >= 5
    assert rows >= 100


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("seed", long_but(0, seeds_with_kernels()))
def test_steps_of_kernels_give_the_rows_that_duckdb_gives(spark: SparkSession, seed: int) -> None:
    assert has_kernels_alone(seed)
    with counted_runs() as runs:
        run(spark, seed, 1, by_prepared_jobs, by_verified_kernels, by_answers_and_corrections)
    assert runs


def shares() -> Network:
    return Network(
        name="shares",
        sources=(Source(name="s", columns={"at_us": "bigint", "n": "int"}, time="at_us"),),
        boxes=(Map(name="share", input="s", columns={"n": "n", "part": "100 div n"}),),
        outputs=(Output(name="out", input="share"),),
    )


def results_of(world: Answering, steps: Sequence[Sequence[int]]) -> list[StepResult]:
    """The steps of `shares` over these numbers, ten seconds each."""
    results = []
    for at, numbers in enumerate(steps):
        part = Range(at * WIDTH_US, (at + 1) * WIDTH_US)
        times = [part.from_us + number for number in range(len(numbers))]
        world.comes("s", pa.table({"at_us": times, "n": pa.array(numbers, pa.int32())}), part)
        results.append(world.engine.compute(world.step(part, Cause.NORMAL)))
    return results


@pytest.mark.usefixtures("with_kernels")
def test_a_kernel_that_fails_on_a_record_has_compared_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps = ((4, 0), (1, 2), (5, 10), (0, 20))
    with counted_runs() as runs:
        results = results_of(Answering(spark, tmp_path, shares()), steps)
    assert [one.metrics.records_out for one in results] == [1, 2, 2, 1]
    assert [len(one.quarantine) for one in results] == [1, 0, 0, 1]
    verified = [one.verified for one in results]
    assert [one is not None for one in verified] == [False, True, False, False]
    assert verified[1] is not None
    assert verified[1].job == "the prepared job in a kernel"
    assert len(runs) == 2 + 2 + 1 + 1, "over a few records, too, until a comparison has succeeded"


@pytest.mark.long
@pytest.mark.usefixtures("with_kernels")
def test_a_fragment_whose_kernel_fails_again_and_again_is_computed_by_a_prepared_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps = (*((4, 0),) * KERNEL_FAILURES_MAX, (1, 0), (5, 10))
    with counted_runs() as runs:
        results = results_of(Answering(spark, tmp_path, shares()), steps)
    assert len(runs) == 2 * KERNEL_FAILURES_MAX, "each over a few records, too"
    verified = [one.verified.job for one in results if one.verified is not None]
    assert verified == ["the prepared job over records"]
    assert [one.metrics.records_out for one in results] == [1, 1, 1, 1, 2]


def test_long_steps_alone_are_computed_by_kernels(spark: SparkSession, tmp_path: Path) -> None:
    long = range(1, KERNEL_RECORDS_MIN + 2)
    assert len(long) > RESULT_ROWS_IN_DRIVER_MAX, (
        "a plan made for one step would be written in tasks"
    )
    with counted_runs() as runs:
        short_, long_ = results_of(Answering(spark, tmp_path, shares()), ((1, 2), long))
    assert runs
    assert [one.metrics.records_out for one in (short_, long_)] == [2, len(long)]
    assert [one.verified.job for one in (short_, long_) if one.verified is not None] == [
        "the prepared job over records", "the prepared job in a kernel",
    ]  # fmt: skip


def test_a_long_step_whose_kernel_fails_is_written_by_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    numbers = range(RESULT_ROWS_IN_DRIVER_MAX + 2)
    with counted_runs() as runs, mock.patch.object(FragmentJobs, "without_kernel") as in_driver:
        (result,) = results_of(Answering(spark, tmp_path, shares()), (numbers,))
    assert runs
    assert not in_driver.called
    assert (result.metrics.records_out, len(result.quarantine)) == (len(numbers) - 1, 1)


@pytest.mark.long
def test_wide_rows_are_written_by_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_module, "KERNEL_BYTES_MAX", 1_000)
    numbers = range(1, RESULT_ROWS_IN_DRIVER_MAX + 2)
    with counted_runs() as runs:
        (result,) = results_of(Answering(spark, tmp_path, shares()), (numbers,))
    assert not runs
    assert result.metrics.records_out == len(numbers)


@pytest.mark.parametrize("columns", [{"a": "input.n", "b": "input.n", "c": "table.n"}, None])
def test_columns_of_a_lookup_may_come_twice_or_have_any_name(
    columns: Mapping[str, str] | None,
) -> None:
    of = {"at_us": "bigint", "n": "int", "k0": "int"}
    box = Lookup(
        name="found", input="s", table="t", on=("n",), max_age="10s",
        columns=columns or {"n": "input.n", "k0": "input.k0", "other": "table.k0"},
    )  # fmt: skip
    sources = (Source(name=name, columns=of, time="at_us") for name in ("s", "t"))
    outputs = (Output(name="out", input="found"),)
    network = Network(name="n", sources=tuple(sources), boxes=(box,), outputs=outputs)
    checked = check_network(network)
    assert set(reasons_against_kernels(fragments_for(checked), checked).values()) == {None}


def test_what_differs_between_the_engines_has_no_kernel() -> None:
    for expression, reason in (
        ("round(sum(d), 2)", "ROUND"),
        ("max(upper(k))", "UPPER"),
        ("size(collect_list(k))", "COLLECT_LIST"),
    ):
        network = Network(
            name="n",
            sources=(
                Source(
                    name="s",
                    columns={"at_us": "bigint", "k": "string", "d": "double"},
                    time="at_us",
                ),
            ),
            boxes=(Aggregate(name="a", input="s", size="10s", columns={"m": expression}),),
            outputs=(Output(name="out", input="a"),),
        )
        checked = check_network(network)
        (fragment,) = fragments_for(checked)
        columns = {stream: checked.columns[port] for port, stream in fragment.inputs.items()}
        with pytest.raises(NotInKernel, match=reason):
            kernel_sql(compile_fragment(fragment, checked), columns)
