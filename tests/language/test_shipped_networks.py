"""The shipped networks over the recorded data, all at once: the expected answers, row for row.

A small interpreter of its own runs the checked boxes as one query, without buckets, files or a
catalog: if a replay is wrong and this is right, the engine is at fault and not the query.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from medusa_core.network import Aggregate, Port, inputs_of
from pipelines.base.settings import Settings
from pipelines.language.check import (
    CheckedAggregate,
    CheckedFilter,
    CheckedMap,
    CheckedNetwork,
    check_network,
)
from pipelines.language.load import load_network
from tests.sweeps import long_but

DATA = Settings.from_environment(os.environ).test_data
NETMON = {
    "busy_sources": "connections_gt_100",
    "scanning_sources": "ports_gt_10",
    "scanning_prefixes": "prefix24_ports_gt_10",
}
CASES = [
    (
        "trade_bars",
        "ticks-taq",
        {"trades": "trades", "quotes": "quotes", "multi_trades": "multi_trades"},
        {"bars": "bars_60s", "quote_counts": "quotes_60s", "multi_bars": "multi_bars_60s"},
    ),
    (
        "road_sensors",
        "sensors-aarhus-traffic",
        {"readings": "readings"},
        {"busy_segments": "busy_15min", "slow_segments": "slow_segments_15min"},
    ),
    ("netmon", "netmon-wrccdc2018", {"connections": "connections"}, NETMON),
    ("netmon", "netmon-zeek-server", {"connections": "connections"}, NETMON),
    ("netmon", "netmon-honeypot-p0f", {"connections": "connections"}, NETMON),
]
"""Netmon is left to `make test-long`: tests/end_to_end replays it."""


def run(checked: CheckedNetwork, sources: dict[str, DataFrame]) -> dict[Port, DataFrame]:
    """Every port of the network over whole sources, whose event time is `ts_us`."""
    network = checked.network
    frames = {
        Port(name): frame.select(
            *(f.col(c.name) for c in checked.columns[Port(name)]), f.col("ts_us").alias("_stime")
        )
        for name, frame in sources.items()
    }
    for name in network.order:
        box = checked.boxes[name]
        frame = frames[network.port(inputs_of(box.box)[0], name)]
        match box:
            case CheckedFilter():
                ((port, predicate),) = box.cases
                frames[Port(name, port)] = frame.where(predicate.sql)
            case CheckedMap():
                kept = [f.expr(c.sql).alias(column) for column, c in box.columns]
                frames[Port(name)] = frame.select(*kept, "_stime")
            case CheckedAggregate():
                frames[Port(name)] = aggregate(box.box, box, frame)
            case _:
                raise AssertionError(f"no shipped network has {box}")
    return frames


def aggregate(box: Aggregate, checked: CheckedAggregate, frame: DataFrame) -> DataFrame:
    """Tumbling windows only, as in the shipped networks."""
    start_us = f.expr(f"_stime - pmod(_stime, {box.size_us}L)")
    columns = [f.expr(c.sql).alias(column) for column, c in checked.columns]
    return (
        frame.groupBy(start_us.alias("_start"), *box.group_by)
        .agg(*columns)
        .select(
            f.timestamp_micros("_start").alias("window_start"),
            *box.group_by,
            *box.columns,
            (f.col("_start") + (box.size_us - 1)).alias("_stime"),
        )
    )


def as_written(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def rows_of_csv(path: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return header, sorted(tuple(row) for row in rows)


@pytest.mark.parametrize(("name", "folder", "inputs", "outputs"), long_but(1, CASES))
def test_a_shipped_network_gives_the_expected_answers_row_for_row(
    spark: SparkSession,
    name: str,
    folder: str,
    inputs: dict[str, str],
    outputs: dict[str, str],
) -> None:
    if not (DATA / folder).is_dir():
        pytest.skip(f"no test data {folder}: set MEDUSA_TEST_DATA")
    checked = check_network(load_network(name))
    sources = {
        source: spark.read.parquet(str(DATA / folder / f"{file}.parquet"))
        for source, file in inputs.items()
    }
    for source, frame in sources.items():
        declared = {c.name: c.type for c in checked.columns[Port(source)]}
        recorded = {field.name: field.dataType.simpleString() for field in frame.schema}
        assert declared.items() <= recorded.items()
    frames = run(checked, sources)
    for output, file in outputs.items():
        port = checked.network.port(checked.network.output(output).input, output)
        answer = frames[port].drop("_stime").toArrow()
        header, expected = rows_of_csv(DATA / folder / "expected" / f"{file}.csv")
        assert answer.column_names == header
        found = sorted(tuple(map(as_written, row.values())) for row in answer.to_pylist())
        assert found == expected, output
