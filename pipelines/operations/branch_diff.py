"""The difference of a branch to the original: how many rows each has alone, and the first one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.grid import Range
from pipelines.base.time_text import iso
from pipelines.participant.kept_history import KeptHistory
from pipelines.quality.duck_tables import make_table
from pipelines.quality.stored_rows import row_schema
from pipelines.quality.transpiled import quoted_name
from pipelines.storage.arrow_schema import STIME

ROWS_READ = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDiff:
    """One output of a branch against a stream of the home, in the event times that both have.

    `rows` and `branch_rows` are those of each in `range`; `only_original` and `only_branch` count
    the rows, each as often as it is there, that one side has and the other has not. `first` is the
    first of them in event time.
    """

    output: str
    stream: str
    version: int
    range: Range
    rows: int
    branch_rows: int
    only_original: int
    only_branch: int
    first: str | None


def diff(output: str, original: KeptHistory, branch: KeptHistory, part: Range) -> StreamDiff:
    """Compare the rows of the event times in `part` that are final in the original.

    Raises Refused if there are none, or if the columns differ. The rows must fit into memory.
    """
    columns = original.columns
    if branch.columns != columns:
        shown, its = (
            ", ".join(f"{c.name} {c.type}" for c in each) for each in (branch.columns, columns)
        )
        raise Refused(
            f"{output} has columns ({shown}) in the branch and ({its}) in the home: rows of "
            "different columns are not compared"
        )
    common = part.intersection(original.range)
    if common is None:
        raise Refused(
            f"{output} is final in the home from {iso(original.range.from_us)} to "
            f"{iso(original.range.to_us)}, where the branch has no whole windows: make one of "
            "more of its input"
        )
    part = common
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        counts = []
        for name, history in (("original", original), ("branch", branch)):
            within = history.within(part)
            rows = _rows(within.tables(ROWS_READ) if within else (), columns)
            counts.append(rows.num_rows)
            make_table(connection, name, rows, columns)
        only: list[int] = []
        first: list[tuple[int, str]] = []
        listed = ", ".join(quoted_name(c.name) for c in columns)
        for name, one, other in (
            ("original", "original", "branch"), ("branch", "branch", "original")
        ):  # fmt: skip
            table = f"only_{name}"
            connection.execute(
                f"CREATE TEMP TABLE {table} AS SELECT {STIME}, {listed} FROM {one} "
                f"EXCEPT ALL SELECT {STIME}, {listed} FROM {other}"
            )
            ((count,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
            only.append(count)
            found = connection.execute(f"SELECT * FROM {table} ORDER BY ALL LIMIT 1").fetchall()
            first += [(row[0], f"only in the {name}: {_text(row, columns)}") for row in found]
    return StreamDiff(
        output=output,
        stream=original.stream,
        version=original.version,
        range=part,
        rows=counts[0],
        branch_rows=counts[1],
        only_original=only[0],
        only_branch=only[1],
        first=min(first)[1] if first else None,
    )


def _rows(tables: Iterable[pa.Table], columns: tuple[Column, ...]) -> pa.Table:
    schema = row_schema(columns)
    return pa.concat_tables(
        [schema.empty_table(), *(table.select(schema.names).cast(schema) for table in tables)]
    )


def _text(row: tuple[object, ...], columns: tuple[Column, ...]) -> str:
    values = ", ".join(
        f"{column.name}={_value(value, column)[:100]}"
        for column, value in zip(columns, row[1:], strict=True)
    )
    return f"{iso(int(str(row[0])))} {values}"


def _value(value: object, column: Column) -> str:
    """As a person reads it; DuckDB has a timestamp in microseconds."""
    return iso(value) if column.type == "timestamp" and isinstance(value, int) else str(value)
