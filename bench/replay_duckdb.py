"""Contender of a replay: DuckDB, one process that reads a file at a time and carries its state.

The state is the counts per window, source and port of windows that may still receive records. A
file is added to it; the windows that the watermark has passed are written as Parquet, and leave
the state. Nothing is promised: nothing is synced, and a killed process starts again at the first
file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from bench.workload import THREE, WINDOW_US

FILE_COLUMNS = {
    "seq": "BIGINT", "ts_us": "BIGINT", "orig_h": "VARCHAR", "orig_p": "INTEGER",
    "resp_h": "VARCHAR", "resp_p": "INTEGER", "proto": "VARCHAR", "state": "VARCHAR",
    "duration_us": "BIGINT", "orig_bytes": "BIGINT", "resp_bytes": "BIGINT",
}  # fmt: skip
"""The columns of generated connections."""

_ADD = """
    CREATE OR REPLACE TABLE state AS
    SELECT minute, orig_h, resp_p, sum(n)::BIGINT AS n, max(last_us) AS last_us FROM (
        SELECT ts_us // {window_us} AS minute, orig_h, resp_p, count(*) AS n, max(ts_us) AS last_us
        FROM {records} GROUP BY ALL
        UNION ALL FROM state
    ) GROUP BY ALL
"""
_CLOSED = """
    CREATE OR REPLACE TABLE per_source AS
    SELECT minute * 60 AS window_start, orig_h, sum(n)::BIGINT AS connections,
        count(resp_p) AS distinct_ports
    FROM state WHERE minute < {before} GROUP BY ALL
"""


def records_of(file: Path) -> str:
    """The records of a recorded file, for a FROM."""
    if file.suffix == ".parquet":
        return f"read_parquet('{file}')"
    return f"read_csv('{file}', header = true, auto_detect = false, columns = {FILE_COLUMNS})"


def replay_in_duckdb(files: Sequence[Path], folder: Path, disorder_us: int) -> None:
    """Compute the outputs of netmon, into a folder each."""
    for output in THREE.outputs:
        (folder / output).mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE state (minute BIGINT, orig_h VARCHAR, resp_p INTEGER, n BIGINT, "
            "last_us BIGINT)"
        )
        for number, file in enumerate(files):
            connection.execute(_ADD.format(window_us=WINDOW_US, records=records_of(file)))
            (last_us,) = connection.execute("SELECT max(last_us) FROM state").fetchone() or (0,)
            is_last = number == len(files) - 1
            before = 2**62 if is_last else (last_us - disorder_us) // WINDOW_US
            _write_closed(connection, folder, number, before)


def _write_closed(
    connection: duckdb.DuckDBPyConnection, folder: Path, number: int, before: int
) -> None:
    """Write the windows before the watermark, and forget them."""
    connection.execute(_CLOSED.format(before=before))
    for output, rows in THREE.outputs.items():
        path = folder / output / f"{number:04}.parquet"
        connection.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    connection.execute(f"DELETE FROM state WHERE minute < {before}")
