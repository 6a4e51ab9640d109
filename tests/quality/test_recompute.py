"""The oracle itself: against answers computed elsewhere, and against Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from medusa_core.columns import Column, declare_columns
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Map,
    Network,
    Output,
    Port,
    Source,
    inputs_of,
    ports_of,
)
from pipelines.base.settings import Settings
from pipelines.language.load import load_network
from pipelines.quality.differences import differences
from pipelines.quality.port_columns import port_columns
from pipelines.quality.ranges import needed
from pipelines.quality.recompute import DUCKDB, Recomputation, recompute
from pipelines.quality.spark_boxes import spark_batch
from pipelines.quality.spark_types import column_type
from pipelines.quality.stored_rows import STIME, arrow_type, row_schema, within
from pipelines.storage.csv_export import export_csv
from tests.language.conftest import COLUMNS
from tests.language.conftest import records as records
from tests.language.test_shipped_networks import CASES
from tests.sweeps import long_but

DATA = Settings.from_environment(os.environ).test_data
ALL = Range(BEGINNING_US, FOREVER_US)


def no_spark(*given: object) -> NoReturn:
    raise AssertionError("nothing here is left to Spark")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"test data is not in {DATA}")
@pytest.mark.parametrize(
    ("network", "folder", "inputs", "answers"),
    long_but(1, CASES),
    ids=[f"{c[0]}-{c[1]}" for c in CASES],
)
def test_duckdb_gives_the_expected_rows_of_every_shipped_network(
    network: str, folder: str, inputs: dict[str, str], answers: dict[str, str], tmp_path: Path
) -> None:
    loaded = load_network(network)
    sources = {
        name: as_records(DATA / folder / f"{file}.parquet", loaded.source(name))
        for name, file in inputs.items()
    }
    with Recomputation(loaded, sources, no_spark) as run:
        for output, answer in answers.items():
            port = loaded.port(loaded.output(output).input, "output")
            export_csv(tmp_path / f"{output}.csv", run.columns[port], [run.rows(port, [ALL])])
            expected = DATA / folder / "expected" / f"{answer}.csv"
            assert (tmp_path / f"{output}.csv").read_bytes() == expected.read_bytes()
    assert set(run.engines.values()) == {DUCKDB}


def as_records(path: Path, source: Source) -> pa.Table:
    """Recorded rows with `_stime`, which is their column ts_us."""
    columns = declare_columns(source.name, source.columns)
    table = pq.read_table(path)
    cells = [table.column(c.name).cast(arrow_type(column_type(c))) for c in columns]
    stime = table.column("ts_us").cast(pa.int64())
    return pa.table([*cells, stime], schema=row_schema(columns))


PREDICATES = (
    "small > other", "flag or 100 / other > 20", "text like '%a%'", "real >= ratio",
    "money between 0 and wide", "day < time", "small in (1, 7) and not flag", "text is null",
)  # fmt: skip
VALUES = {
    "a": ("small + other", "big + large", "small * 2", "cast(big as int)", "pmod(small, 7)"),
    "b": ("real * ratio", "real / ratio", "-real", "small / other", "nanvl(real, ratio)"),
    "c": ("coalesce(text, word)", "text || word", "substring_index(text, ',', 1)", "trim(text)"),
    "d": ("money + 1", "money * money", "cast(small as decimal(12,2))", "abs(money)"),
    "e": ("time", "timestamp_seconds(large)", "date_trunc('hour', time)", "cast(day as timestamp)"),
    "f": ("day", "date_add(day, other)", "cast(time as date)"),
    "g": ("flag", "small > 1", "flag is not true"),
}
AGGREGATES = (
    "count(*)", "count(distinct {x})", "min({x})", "max({x})", "first({x})", "last({x})",
    "min_by({x}, b)", "max_by(a, {x})", "sum(a)", "avg(a)", "sum(d)", "count(*) filter (where g)",
)  # fmt: skip
SIZES = (("7s", None), ("10s", "4s"), ("60s", "60s"), ("1s", "250ms"), ("3s", "1s"))


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """A filter, a map and windows over the records of every type."""
    name = st.sampled_from(sorted(VALUES))
    predicates = draw(st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=2, unique=True))
    cases = {f"case_{at}": text for at, text in enumerate(predicates)}
    size, advance = draw(st.sampled_from(SIZES))
    expected = draw(st.lists(st.sampled_from(AGGREGATES), min_size=2, max_size=4, unique=True))
    boxes: list[Box] = [
        Filter(name="split", input="records", cases=cases, otherwise="rest"),
        Map(
            name="made",
            input="split.rest",
            columns={n: draw(st.sampled_from(texts)) for n, texts in VALUES.items()},
        ),
        Aggregate(
            name="windows",
            input="made",
            size=size,
            advance=advance,
            group_by=tuple(draw(st.lists(name, max_size=2, unique=True))),
            columns={f"v{at}": text.format(x=draw(name)) for at, text in enumerate(expected)},
        ),
        Map(name="first_case", input="split.case_0", columns={"small": "small", "real": "real"}),
    ]
    return Network(
        name="generated",
        sources=(
            Source(name="records", columns={c.name: c.type for c in COLUMNS.values()}, time="big"),
        ),
        boxes=tuple(boxes),
        outputs=(Output(name="all_windows", input="windows"), Output(name="mapped", input="made"),
                 Output(name="firsts", input="first_case")),
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(network=networks())
def test_duckdb_gives_what_spark_gives_for_generated_networks(
    records: SparkSession, network: Network
) -> None:
    # Before the epoch and behind it, several records at one time, one on a window's edge.
    given = records.sql(
        f"SELECT *, CAST((monotonically_increasing_id() - 48) DIV 2 * 333000 AS bigint) AS {STIME} "
        "FROM records"
    ).toArrow().cast(row_schema(tuple(COLUMNS.values())))  # fmt: skip
    expected = by_spark(records, network, given)
    with Recomputation(network, {"records": given}, no_spark) as run:
        for output in network.outputs:
            port = network.port(output.input, "output")
            made, columns = run.rows(port, [ALL]), run.columns[port]
            found = differences(expected[port], made, columns, 1_000_000)
            assert found.shown.empty, f"{network}\n{found.shown['row'].to_list()[:4]}"
    assert set(run.engines.values()) == {DUCKDB}


def by_spark(records: SparkSession, network: Network, given: pa.Table) -> dict[Port, pa.Table]:
    """The rows of every port, each box computed by Spark."""
    columns, batch = port_columns(network), spark_batch(lambda: records)
    tables = {Port("records"): given}
    for name in network.order:
        box = network.box(name)
        behind = network.port(inputs_of(box)[0], name)
        made = columns[Port(name, ports_of(box)[0])]
        tables |= batch(box, columns[behind], made, tables[behind], None).ports
    return tables


@pytest.mark.parametrize(
    ("part", "need"),
    [
        (Range(0, 10), Range(-20, 10)),
        (Range(-10, 0), Range(-30, 0)),
        (Range(29, 30), Range(0, 30)),
        (Range(1, 11), Range(-20, 10)),
    ],
)
def test_no_more_records_are_needed_than_the_windows_hold(part: Range, need: Range) -> None:
    network = Network(
        name="small",
        sources=(Source(name="s", columns={"x": "bigint"}, time="x"),),
        boxes=(
            Aggregate(name="w", input="s", size="30us", advance="10us", columns={"n": "count(*)"}),
        ),
        outputs=(Output(name="o", input="w"),),
    )
    assert needed(network, Port("w"), part) == {"s": need}


def test_only_the_records_that_the_named_ranges_need_are_read() -> None:
    network = Network(
        name="small",
        sources=(Source(name="s", columns={"x": "bigint"}, time="x"),),
        boxes=(
            Aggregate(name="w", input="s", size="30us", advance="10us", columns={"n": "count(*)"}),
        ),
        outputs=(Output(name="o", input="w"),),
    )
    whole = pa.table([range(1_000), range(1_000)], schema=row_schema((Column("x", "bigint"),)))
    read: list[Range] = []

    def records(name: str, columns: object, parts: Sequence[Range]) -> pa.Table:
        read.extend(parts)
        return within(whole, parts)

    ranges = [Range(100, 110), Range(110, 120), Range(500, 520)]
    with Recomputation(network, {"s": whole}, no_spark) as run:
        expected = run.rows(Port("w"), ranges)
    with recompute(network, {Port("w"): ranges}, records, no_spark, {}) as run:
        assert run.rows(Port("w"), ranges).sort_by(STIME) == expected.sort_by(STIME)
    assert read == [Range(80, 120), Range(480, 520)]
    assert expected["n"].to_pylist() == [30] * 4
