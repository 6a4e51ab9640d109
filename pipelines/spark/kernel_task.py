"""What a task does for a kernel: DuckDB reads the files and gives the tagged relation.

It runs in a Python worker of Spark, which lives longer than one step. What a task computes is text,
which Spark carries with the job.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from pipelines.storage.arrow_schema import BUCKET

PROPERTY = "medusa.kernel"
"""The local property of Spark under which a job carries its task."""

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "1GiB",
    "preserve_insertion_order": False,
    # Nothing is fetched, found or installed.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # See `tagged_rows`.
    "disabled_optimizers": "cte_filter_pusher,statistics_propagation",
}


def task_of(
    sql: str,
    inputs: Mapping[str, Sequence[tuple[str, int | None, int | None]]],
    *,
    threads: int,
    folder: str,
) -> str:
    """A query and, for each relation, files and the buckets that are read of each, or all.

    What does not fit into memory is written to the folder.
    """
    return json.dumps({"sql": sql, "inputs": inputs, "threads": threads, "folder": folder})


def tagged_rows(
    task: str, names: Mapping[str, Sequence[str]], with_doubles: Collection[str]
) -> pa.Table:
    """The tagged relation; `names` are the columns that each relation has.

    A relation with doubles is read before it is filtered: the statistics of a Parquet file leave
    out NaN, which is the largest number.
    """
    given = json.loads(task)
    connection = _connected(given["threads"], given["folder"])
    with_ = [
        f"{_quoted(view)} AS {'MATERIALIZED ' * (view in with_doubles)}"
        f"({_rows(files, names[view])})"
        for view, files in given["inputs"].items()
    ]
    sql = f"WITH {', '.join(with_)} SELECT * FROM ({given['sql']})"
    return connection.sql(sql).to_arrow_table()


def _rows(files: Sequence[Sequence[Any]], names: Sequence[str]) -> str:
    columns = ", ".join(map(_quoted, names))
    whole = [path for path, from_us, _ in files if from_us is None]
    parts = [_scan(whole, columns)] if whole else []
    for path, from_us, to_us in files:
        if from_us is not None:
            parts.append(
                f"{_scan([path], columns)} WHERE {BUCKET} >= {from_us} AND {BUCKET} < {to_us}"
            )
    return " UNION ALL ".join(parts)


def _scan(paths: Sequence[str], columns: str) -> str:
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"SELECT {columns} FROM read_parquet([{listed}])"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_connection: duckdb.DuckDBPyConnection | None = None


def _connected(threads: int, folder: str) -> duckdb.DuckDBPyConnection:
    """The connection of this process, which keeps nothing between queries."""
    global _connection
    if _connection is None:
        _connection = duckdb.connect(":memory:", config=_SETTINGS)
        _connection.execute("SET TimeZone = 'UTC'")
    _connection.execute(f"SET threads = {threads}")
    _connection.execute("SET temp_directory = ?", [folder])
    return _connection


def rows_of_task(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    names: Mapping[str, Sequence[str]],
    with_doubles: Collection[str],
) -> Iterator[pa.RecordBatch]:
    """What the task of a job gives; the number that it is given says nothing."""
    from pyspark import TaskContext

    for _ in batches:
        pass
    context = TaskContext.get()
    task = context.getLocalProperty(PROPERTY) if context is not None else None
    assert task is not None, "a kernel's job carries its task"
    table = tagged_rows(task, names, with_doubles).cast(schema)
    yield from table.to_batches()
