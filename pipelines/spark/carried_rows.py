"""Rows that a box has left, from step to step: most of them in a file, those since in memory.

The latest row of each key counts. From time to time the file is rewritten with these alone, and
without what no later record needs, so that it grows with the keys and not with the steps. DuckDB
does this within a bounded memory. A file belongs to the driver alone: it is in the scratch
folder of the session, and is removed when no step can be given it any more.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.spark.compiled_fragment import CarriedShape, carried_views
from pipelines.spark.prepared import Given
from pipelines.spark.results import rows_left
from pipelines.storage.arrow_schema import STIME, record_schema

SINCE_MIN, SINCE_MAX = 10_000, 250_000
"""How many rows are in memory at least and at most before the file is written anew; between, a
quarter of those in the file."""

MERGE_MEMORY = "256MB"
"""What writing the file anew may use of memory; the rest of it goes to disk."""


class RowFile:
    """A Parquet file that is removed with the last reference to it, at the latest at the end."""

    def __init__(self, path: Path, rows: int, last_us: int) -> None:
        self.path, self.rows, self.last_us = path, rows, last_us
        weakref.finalize(self, path.unlink, missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRows:
    """The rows that one box has left: those of a file, and those since."""

    shape: CarriedShape
    file: RowFile | None
    since: pa.Table

    @classmethod
    def none(cls, shape: CarriedShape) -> CarriedRows:
        """No rows, as before the first step."""
        return cls(shape=shape, file=None, since=record_schema(shape.columns).empty_table())

    @property
    def rows(self) -> int:
        """How many rows there are."""
        of_file = self.file.rows if self.file else 0
        return int(self.since.num_rows) + of_file

    @property
    def size_bytes(self) -> int:
        """How many bytes they take: of the file, and in memory."""
        of_file = self.file.path.stat().st_size if self.file else 0
        return int(self.since.nbytes) + of_file

    @property
    def given(self) -> Mapping[str, Given]:
        """The rows by the view under which a job takes them."""
        of_file, since = carried_views(self.shape.box)
        return {of_file: self.file.path if self.file else self.since.slice(0, 0), since: self.since}

    def with_those_of(self, tagged: pa.Table, end_us: int, folder: Path) -> CarriedRows:
        """These, and those that a step has left, as far as records at `end_us` or later need them.

        Raises OSError or duckdb.Error if a file can not be written.
        """
        return self._with(rows_left(self.shape, tagged), end_us, folder)

    def with_file(self, written: Path, end_us: int, folder: Path) -> CarriedRows:
        """These, and those that the tasks of a step have written to the files of a folder.

        Raises OSError or duckdb.Error if a file can not be written.
        """
        first_us = self.shape.first_us(end_us)
        made = written / "*.parquet"
        file = _merged(self.shape, self.file, self.since, first_us, folder, made)
        return CarriedRows(shape=self.shape, file=file, since=self.since.slice(0, 0))

    def _with(self, made: pa.Table, end_us: int, folder: Path) -> CarriedRows:
        shape, first_us = self.shape, self.shape.first_us(end_us)
        since = pa.concat_tables([self.since, made])
        since = since.filter(pc.greater_equal(since[STIME], first_us))
        file = self.file if self.file and self.file.last_us >= first_us else None
        most = min(max(SINCE_MIN, (file.rows if file else 0) // 4), SINCE_MAX)
        if since.num_rows > most:
            file, since = _merged(shape, file, since, first_us, folder), since.slice(0, 0)
        return CarriedRows(shape=shape, file=file, since=since.combine_chunks())


def _merged(
    shape: CarriedShape, file: RowFile | None, since: pa.Table, first_us: int, folder: Path,
    made: Path | None = None,
) -> RowFile:  # fmt: skip
    """The latest row of each key, in a new file; `made` are files of rows since.

    The rows of the file are earlier than all others. So they are read once, in a stream, and only
    the others are sorted and held: what that costs does not grow with the file.
    """
    path = folder / f"carried-{uuid4().hex}.parquet"
    others = "SELECT * FROM since"
    if made is not None:
        others += f" UNION ALL SELECT * FROM read_parquet('{_quoted(made)}')"
    # Keys that are equal are the same here: a double that is a key is never -0.0.
    keys = ", ".join(f'"{key}"' for key in shape.keys) or "1"
    rows = (
        f"SELECT * FROM ({others}) WHERE {STIME} >= {first_us} "
        f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {STIME} DESC) = 1"
    )
    if file is not None:
        same = " AND ".join(f'f."{k}" IS NOT DISTINCT FROM n."{k}"' for k in shape.keys) or "TRUE"
        rows = (
            f"WITH newest AS MATERIALIZED ({rows}) SELECT * FROM newest UNION ALL "
            f"SELECT f.* FROM read_parquet('{_quoted(file.path)}') AS f "
            f"ANTI JOIN newest AS n ON {same} WHERE f.{STIME} >= {first_us}"
        )
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MERGE_MEMORY, "temp_directory": str(folder / f"{path.stem}-temporary"),
        "threads": 1,
    }  # fmt: skip
    with duckdb.connect(config=settings) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("since", since)
        connection.execute(
            f"COPY ({rows}) TO '{_quoted(path)}' (FORMAT parquet, COMPRESSION snappy)"
        )
        counted = connection.execute(
            f"SELECT count(*), max({STIME}) FROM read_parquet('{_quoted(path)}')"
        ).fetchone()
    assert counted is not None
    return RowFile(path, counted[0], counted[1] if counted[0] else first_us - 1)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
