"""Law K1: what a kernel can compute, it computes as Spark SQL does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.network import (
    Aggregate,
    Deduplicate,
    Every,
    Lookup,
    Map,
    Network,
    Output,
    Running,
    Source,
)
from pipelines.base.settings import Engine
from pipelines.language.check import check_network, fragments_for
from pipelines.spark.compiled_fragment import TAG, CompiledFragment, input_view
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.job import FragmentJobs, ordinary_table
from pipelines.spark.kernel import Kernel
from pipelines.spark.kernel_expressions import NotInKernel
from pipelines.spark.kernel_sql import kernel_sql
from pipelines.spark.kernel_task import tagged_rows, task_of
from pipelines.storage.arrow_schema import STIME, arrow_type, record_schema
from tests.spark.drawn.records import pieces
from tests.spark.drawn.spec import drawn, medusa_network
from tests.spark.drawn.trials import by_prepared_jobs, by_verified_jobs, run
from tests.sweeps import IS_LONG, examples, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
VERIFIES = True
"""Kernels are compared with ordinary plans here."""
WITH_KERNELS = 122
"""A drawn network that has kernels alone, which `make test` runs."""


def has_kernels_alone(seed: int) -> bool:
    """Whether all fragments of a drawn network have kernels, and leave nothing to the next step."""
    checked = check_network(medusa_network(drawn(seed)))
    fragments = fragments_for(checked)
    leaves = (
        isinstance(box, Deduplicate | Every | Lookup | Running)
        or (isinstance(box, Aggregate) and box.advance not in (None, box.size))
        for box in checked.network.boxes
    )
    return len(kernels_of(seed)) == len(fragments) and not any(leaves)


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
    for seed in range(examples(13, 600)):
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


@pytest.fixture
def with_kernels(spark: SparkSession) -> Iterator[None]:
    """Steps are computed by kernels where there are some."""
    before = spark.conf.get("spark.medusa.engine")
    spark.conf.set("spark.medusa.engine", Engine.AUTO)
    yield
    spark.conf.set("spark.medusa.engine", str(before))


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("seed", long_but(1, seeds_with_kernels()))
def test_steps_of_kernels_give_the_rows_that_duckdb_gives(spark: SparkSession, seed: int) -> None:
    assert has_kernels_alone(seed)
    with counted_runs() as runs:
        run(spark, seed, 1, by_prepared_jobs, by_verified_jobs)
    assert runs


@pytest.mark.usefixtures("with_kernels")
def test_a_step_with_a_record_on_which_a_box_fails_is_computed_by_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    network = Network(
        name="shares",
        sources=(Source(name="s", columns={"at_us": "bigint", "n": "int"}, time="at_us"),),
        boxes=(Map(name="share", input="s", columns={"n": "n", "part": "100 div n"}),),
        outputs=(Output(name="out", input="share"),),
    )
    checked = check_network(network)
    (fragment,) = fragments_for(checked)
    columns = {stream: checked.columns[port] for port, stream in fragment.inputs.items()}
    jobs = FragmentJobs(spark, tmp_path, checked, fragment)
    assert jobs.prepare(columns)
    (stream,) = columns
    for numbers, tags in (((1, 2), [0, 0]), ((4, 0), [-1, 0]), ((5, 10), [0, 0])):
        given = pa.table({"at_us": [1, 2], "n": pa.array(numbers, pa.int32()), STIME: [1, 2]}).cast(
            record_schema(columns[stream])
        )
        with counted_runs() as runs:
            table = jobs.prepared_over({stream: given})
        assert sorted(table[TAG].to_pylist()) == tags
        assert len(runs) == 1, "a fragment keeps its kernel after one failure"


@contextmanager
def counted_runs() -> Iterator[list[None]]:
    """An entry for each run of a kernel meanwhile."""
    runs: list[None] = []

    def noted(kernel: Kernel, given: Any) -> pa.Table:
        runs.append(None)
        return _RUN(kernel, given)

    with mock.patch.object(Kernel, "run", noted):
        yield runs


_RUN = Kernel.run


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
