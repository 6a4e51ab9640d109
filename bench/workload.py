"""The workload: query, records, number of steps: the same for every contender.

A step closes one window of 60 s. Its records are made up with the shapes of real traffic
(pipelines/sources/generated_files.py: few busy sources, a long tail, guessing and scanning
campaigns) and are stored in one Parquet file, the segment that Medusa committed for the window;
all contenders read that file. The query asks, per source address: how many connections, to how
many distinct ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench import noisy
from medusa_core.network import Network
from pipelines.language.shipped import netmon
from pipelines.sources.generator import START_US, generate_connections
from pipelines.storage.arrow_schema import STIME

WINDOW_US = 60_000_000
CLOSING_WINDOWS = 2
"""Windows behind the measured ones: Structured Streaming closes a window two batches later."""

PER_SOURCE = f"""
    SELECT {{time}} // {WINDOW_US} * 60 AS window_start, orig_h,
        count(*) AS connections, count(DISTINCT resp_p) AS distinct_ports
    FROM {{records}} GROUP BY ALL
"""
"""The counts per source in DuckDB's SQL, for the judge; `time` is a column in microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A network, and each of its outputs as plain SQL over `per_source` (for the judge)."""

    name: str
    network: Network
    outputs: Mapping[str, str]


THREE = Query(
    name="three",
    network=netmon.network,
    outputs={
        "busy_sources": "SELECT * FROM per_source WHERE connections > 100",
        "scanning_sources": "SELECT * FROM per_source WHERE distinct_ports > 10",
        "scanning_prefixes": """
            SELECT window_start, array_to_string(split(orig_h, '.')[:3], '.') || '.0/24'
                AS prefix24, count(*) AS ips
            FROM per_source WHERE distinct_ports > 10 AND NOT contains(orig_h, ':') GROUP BY ALL
        """,
    },
)
ONE = Query(
    name="one",
    network=noisy.network,
    outputs={
        "noisy_sources": "SELECT * FROM per_source WHERE connections > 100 OR distinct_ports > 10"
    },
)
QUERIES = {query.name: query for query in (THREE, ONE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A query over windows of `records` each; the first `warm_up` steps are not counted."""

    query: str
    records: int
    steps: int
    warm_up: int
    sources: int = 2_000

    @property
    def windows(self) -> int:
        """How many windows are made."""
        return self.warm_up + self.steps + CLOSING_WINDOWS

    @property
    def network(self) -> Network:
        """The network whose outputs are asked for."""
        return QUERIES[self.query].network


def start_us(window: int) -> int:
    """Where a window begins."""
    return START_US + window * WINDOW_US


def window_records(workload: Workload, window: int) -> pa.Table:
    """The records of a window: declared columns and event time, in order of event time."""
    tables = generate_connections(
        seed=window,
        records=workload.records,
        start_us=start_us(window),
        sources=workload.sources,
        rate_per_s=-(-workload.records // 56),
        disorder_us=0,
    )
    table = pa.concat_tables(tables).select(["ts_us", "orig_h", "resp_p"]).sort_by("ts_us")
    table = table.append_column(pa.field(STIME, pa.int64(), nullable=False), table["ts_us"])
    last_us = table[STIME][-1].as_py()
    assert last_us < start_us(window + 1), "the generator ran out of the window"
    return table


Rows = list[tuple[Any, ...]]


def rows_of(query: Query, files: Mapping[str, Iterable[Path]]) -> dict[str, Rows]:
    """The result rows in a contender's files by output, sorted by value."""
    rows: dict[str, Rows] = {}
    for name in query.outputs:
        tables = [pq.read_table(file, partitioning=None) for file in files.get(name, ())]
        found = [row for table in tables for row in _values(table)]
        rows[name] = sorted(found)
    return rows


def _values(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    names = [name for name in table.column_names if not name.startswith("_")]
    columns = (table[name].to_pylist() for name in names)
    return zip(*columns, strict=True)


def judged_rows(query: Query, files: Iterable[Path]) -> dict[str, Rows]:
    """What every contender must have found in these input files, computed by another engine."""
    with duckdb.connect() as connection:
        per_source = PER_SOURCE.format(time=STIME, records="read_parquet($files)")
        connection.execute(
            f"CREATE TABLE per_source AS {per_source}", {"files": [str(f) for f in files]}
        )
        return {
            name: sorted(connection.execute(sql).fetchall()) for name, sql in query.outputs.items()
        }
