"""Rows in DuckDB: dates and times are whole numbers there."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from medusa_core.columns import Column
from pipelines.quality.spark_types import column_type
from pipelines.quality.stored_rows import STIME, row_schema
from pipelines.quality.transpiled import duckdb_type, quoted_name

_WHOLE = {"date": pa.int32(), "timestamp": pa.int64()}


def make_table(
    connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table, columns: tuple[Column, ...]
) -> None:
    """A table of DuckDB with declared columns and `_stime`."""
    plain = rows.select(row_schema(columns).names)
    for at, column in enumerate(columns):
        if column.type in _WHOLE:
            plain = plain.set_column(at, column.name, plain.column(at).cast(_WHOLE[column.type]))
    listed = ", ".join(
        f"CAST({quoted_name(name)} AS {type_}) AS {quoted_name(name)}"
        for name, type_ in (
            *((c.name, duckdb_type(column_type(c))) for c in columns),
            (STIME, "BIGINT"),
        )
    )
    connection.register("given", plain)
    connection.execute(f"CREATE TEMP TABLE {table} AS SELECT {listed} FROM given")
    connection.unregister("given")


def arrow_of(found: Any, columns: tuple[Column, ...]) -> pa.Table:
    """Rows of DuckDB in the form of stored rows."""
    table, schema = found.to_arrow_table(), row_schema(columns)
    cells = [
        pa.chunked_array([chunk.cast(field.type) for chunk in table.column(field.name).chunks],
                         type=field.type)
        for field in schema
    ]  # fmt: skip
    return pa.table(cells, schema=schema)
