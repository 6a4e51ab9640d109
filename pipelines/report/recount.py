"""The demo's answer, counted again by an engine that shares no code with the first: DuckDB.

Plain SQL over the same input files, compared row for row (as multisets) with the exported
outputs. DuckDB is for development only; if it is not installed nothing is checked, and that is
reported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WINDOW_US = 60_000_000

_PER_SOURCE = f"""
    CREATE TEMP TABLE per_source AS
    SELECT ts_us // {WINDOW_US} * {WINDOW_US // 1_000_000} AS window_start, orig_h,
           count(*) AS connections, count(DISTINCT resp_p) AS distinct_ports
    FROM read_csv(?, types = {{'ts_us': 'BIGINT', 'orig_h': 'VARCHAR', 'resp_p': 'INTEGER'}})
    GROUP BY ALL
"""
_EXPECTED = {
    "busy_sources": "SELECT * FROM per_source WHERE connections > 100",
    "scanning_sources": "SELECT * FROM per_source WHERE distinct_ports > 10",
    "scanning_prefixes": """
        SELECT window_start, regexp_extract(orig_h, '^(\\d+\\.\\d+\\.\\d+)\\.', 1) || '.0/24'
               AS prefix24, count(*) AS ips
        FROM per_source WHERE distinct_ports > 10 AND orig_h NOT LIKE '%:%' GROUP BY ALL
    """,
}
_TYPES = {
    "window_start": "BIGINT",
    "orig_h": "VARCHAR",
    "prefix24": "VARCHAR",
    "connections": "BIGINT",
    "distinct_ports": "BIGINT",
    "ips": "BIGINT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """An output and its recount: rows of each, and how many are in one of them only."""

    output: str
    rows: int
    rows_recounted: int
    differing: int


def can_recount() -> bool:
    """Whether DuckDB is installed."""
    return importlib.util.find_spec("duckdb") is not None


def recount(inputs: Sequence[Path], exported: Mapping[str, Path]) -> list[Compared]:
    """Compare the exported outputs of netmon with a recount over the input files (CSV)."""
    import duckdb

    found = []
    with duckdb.connect() as connection:
        connection.execute(_PER_SOURCE, [[str(path) for path in inputs]])
        for name, expected in _EXPECTED.items():
            columns = connection.execute(f"DESCRIBE {expected}").fetchall()
            types = {column: _TYPES[column] for column, *_ in columns}
            connection.execute(f"CREATE TEMP TABLE {name}_expected AS {expected}")
            connection.execute(
                f"CREATE TEMP TABLE {name} AS SELECT * FROM read_csv(?, header = true, "
                f"columns = {types!r})",
                [str(exported[name])],
            )
            found.append(
                Compared(
                    output=name,
                    rows=_count(connection, name),
                    rows_recounted=_count(connection, f"{name}_expected"),
                    differing=_count(
                        connection,
                        f"((FROM {name} EXCEPT ALL FROM {name}_expected) UNION ALL "
                        f"(FROM {name}_expected EXCEPT ALL FROM {name}))",
                    ),
                )
            )
    return found


def _count(connection: object, relation: str) -> int:
    execute = connection.execute  # type: ignore[attr-defined]
    return int(execute(f"SELECT count(*) FROM {relation}").fetchone()[0])
