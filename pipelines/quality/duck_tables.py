"""Rows on their way into DuckDB and out again: dates and times as whole numbers in between."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from medusa_core.columns import Column
from pipelines.quality.transpiled import duckdb_type, name_of
from pipelines.storage.arrow_schema import STIME, arrow_type, record_schema


def make_table(
    connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table, columns: tuple[Column, ...]
) -> None:
    """A table of DuckDB with declared columns and `_stime`, dates and times as whole numbers."""
    plain = as_numbers(rows, columns)
    connection.register("given", plain)
    typed = [
        f"CAST({name_of(c.name)} AS {duckdb_type(c.type)}) AS {name_of(c.name)}" for c in columns
    ]
    listed = ", ".join((*typed, f"CAST({name_of(STIME)} AS BIGINT) AS {name_of(STIME)}"))
    connection.execute(f"CREATE TEMP TABLE {table} AS SELECT {listed} FROM given")
    connection.unregister("given")


def as_numbers(rows: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """Rows with dates as days and times as microseconds since 1970."""
    whole = {"date": pa.int32(), "timestamp": pa.int64()}
    names = [*(c.name for c in columns), STIME]
    rows = rows.select(names)
    for at, column in enumerate(columns):
        if column.type in whole:
            values = rows.column(column.name).cast(arrow_type(column.type))
            rows = rows.set_column(at, column.name, values.cast(whole[column.type]))
    return rows


def arrow_of(found: Any, columns: tuple[Column, ...]) -> pa.Table:
    """What DuckDB answers as the Arrow table that a stream's records are."""
    table = found.to_arrow_table()
    schema = record_schema(columns)
    cells = [
        pa.chunked_array([chunk.cast(schema.field(n).type) for chunk in table.column(n).chunks],
                         type=schema.field(n).type)
        for n in schema.names
    ]  # fmt: skip
    return pa.table(cells, schema=schema)
