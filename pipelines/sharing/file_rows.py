"""The rows of a shared file, its schema and its statistics in the terms of Delta Sharing.

A table has the event time as `stime`, the declared columns, and nothing of how a stream is
stored. The table of all rows has two columns more: `_stability`, and `_missing` with the names of
the inputs that were missing, separated by commas. Its changes have `_change_type` as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.changes import ChangeType, multiset_difference, paired_by_key
from medusa_core.columns import Column
from medusa_core.segments import Segment
from pipelines.changes.changed_rows import BucketRows
from pipelines.sharing.table_changes import ChangedBucket
from pipelines.sharing.table_parts import Part
from pipelines.storage.arrow_digests import row_hashes
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import read_rows
from pipelines.storage.stable_rows import EVENT_TIME

FORMAT = 1
"""Of the files: another one gives them other names."""

STABILITY, MISSING, CHANGE_TYPE = "_stability", "_missing", "_change_type"
TEXT_LENGTH_MAX = 64
"""Characters of a text up to which it is a minimum or maximum in statistics."""

_TIME = pa.timestamp("us", tz="UTC")
_TYPES = {"boolean": "boolean", "int": "integer", "bigint": "long"}


def schema_string(columns: Sequence[Column], *, has_marks: bool) -> str:
    """The schema of a table as Spark writes it in JSON."""
    named = [(EVENT_TIME, "timestamp"), *((c.name, _TYPES.get(c.type, c.type)) for c in columns)]
    named += [(STABILITY, "string"), (MISSING, "string")] if has_marks else []
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in named
    ]
    return json.dumps({"type": "struct", "fields": fields})


class FileRows(Protocol):
    """The rows of a shared file, which can be read again and again."""

    @property
    def key(self) -> str:
        """A name for these rows in this form: the same for the same ones."""

    def read(self, root: Path) -> pa.Table:
        """The rows; Unavailable if a stored file is missing or damaged."""


@dataclass(frozen=True, slots=True)
class PieceRows:
    """The rows of a piece of a table."""

    columns: tuple[Column, ...]
    parts: tuple[Part, ...]
    has_marks: bool

    @property
    def key(self) -> str:
        """See `FileRows`."""
        words = [[_files(part), part.range.from_us, part.range.to_us] for part in self.parts]
        if self.has_marks:
            words += [[part.stability.value, *part.missing] for part in self.parts]
        return _key("rows", self.columns, words)

    def read(self, root: Path) -> pa.Table:
        """See `FileRows`."""
        schema, read = file_schema(self.columns), []
        for part in self.parts:
            for file in part.files:
                table = read_rows(root, file, schema)
                inside = pc.and_(
                    pc.greater_equal(table[BUCKET], part.range.from_us),
                    pc.less(table[BUCKET], part.range.to_us),
                )
                rows = _shared(table.filter(inside), self.columns)
                if self.has_marks:
                    rows = _marked(rows, part.stability.value, part.missing)
                read.append(rows)
        return pa.concat_tables(read)


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """The changes of buckets at a version."""

    columns: tuple[Column, ...]
    key_columns: tuple[str, ...]
    buckets: tuple[ChangedBucket, ...]

    @property
    def key(self) -> str:
        """See `FileRows`."""
        words: list[Any] = [*self.key_columns]
        words += [[b.at_us, _side(b.before), _side(b.after)] for b in self.buckets]
        return _key("changes", self.columns, words)

    def read(self, root: Path) -> pa.Table:
        """See `FileRows`."""
        rows = BucketRows(root, self.columns)
        return pa.concat_tables(
            table for bucket in self.buckets for table in self._changed(rows, bucket)
        )

    def _changed(self, rows: BucketRows, bucket: ChangedBucket) -> Sequence[pa.Table]:
        before, after = (rows.of(side, bucket.at_us) for side in (bucket.before, bucket.after))
        gone, come = list(range(before.num_rows)), list(range(after.num_rows))
        if _marks(bucket.before) == _marks(bucket.after):
            gone, come = multiset_difference(
                _words(before, self.columns), _words(after, self.columns)
            )
        olds, news = before.take(pa.array(gone, pa.int64())), after.take(pa.array(come, pa.int64()))
        updates: Mapping[int, int] = {}
        if self.key_columns:
            named = [c for c in self.columns if c.name in self.key_columns]
            updates = paired_by_key(
                _words(olds, named, timed=False), _words(news, named, timed=False)
            )
        updated = set(updates.values())
        kinds = (
            [ChangeType.UPDATE_PREIMAGE if i in updates else ChangeType.DELETE
             for i in range(len(gone))],
            [ChangeType.UPDATE_POSTIMAGE if i in updated else ChangeType.INSERT
             for i in range(len(come))],
        )  # fmt: skip
        sides = zip((olds, news), (bucket.before, bucket.after), kinds, strict=True)
        return [
            _marked(_shared(table, self.columns), *_marks(segment)).append_column(
                CHANGE_TYPE, pa.array([kind.value for kind in its], pa.string())
            )
            for table, segment, its in sides
        ]


def parquet_of(table: pa.Table) -> pa.Buffer:
    """A table as a Parquet file that any reader understands."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy", store_schema=False)
    return sink.getvalue()


def statistics_of(table: pa.Table) -> str:
    """Rows, least and greatest values and NULLs of each column, as a JSON text.

    Left out is what JSON cannot say or what would be long. Times are in milliseconds, the least one
    rounded down and the greatest one up.
    """
    least, greatest, nulls = {}, {}, {}
    for name in table.column_names:
        column = table[name]
        nulls[name] = column.null_count
        if table.num_rows == column.null_count or not _has_order(column.type):
            continue
        found = pc.min_max(column).as_py()
        low, high = _json_value(found["min"], up=False), _json_value(found["max"], up=True)
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    document = {
        "numRecords": table.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }
    return json.dumps(document)


def _has_order(type_: pa.DataType) -> bool:
    return not (pa.types.is_boolean(type_) or pa.types.is_binary(type_))


def _json_value(value: Any, *, up: bool) -> Any:
    if isinstance(value, datetime):
        millisecond = timedelta(milliseconds=1)
        whole = value - timedelta(microseconds=value.microsecond % 1_000)
        try:
            whole += millisecond if up and whole != value else timedelta()
        except OverflowError:
            return None
        return whole.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
            f"{whole.microsecond // 1_000:03}Z"
        )
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        # As a number of JSON it would lose digits.
        return int(value) if value == value.to_integral_value() and abs(value) < 1 << 53 else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str) and len(value) > TEXT_LENGTH_MAX:
        return None
    return value


def _shared(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The rows of a stored file as they are shared."""
    names = [c.name for c in columns]
    times = table[STIME].cast(_TIME)
    return pa.table([times, *(table[n] for n in names)], names=[EVENT_TIME, *names])


def _marked(table: pa.Table, stability: str, missing: Sequence[str]) -> pa.Table:
    for name, value in ((STABILITY, stability), (MISSING, ",".join(missing))):
        table = table.append_column(name, pa.repeat(pa.scalar(value, pa.string()), table.num_rows))
    return table


def _marks(segment: Segment | None) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if segment is None else (segment.stability.value, tuple(segment.missing))


def _words(table: pa.Table, columns: Sequence[Column], *, timed: bool = True) -> list[Any]:
    first, second = row_hashes(table, columns)
    if timed:
        return list(zip(first.tolist(), second.tolist(), table[STIME].to_pylist(), strict=True))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _side(segment: Segment | None) -> list[Any]:
    return [] if segment is None else [[f.sha256 for f in segment.files], *_marks(segment)]


def _files(part: Part) -> list[str]:
    return [file.sha256 for file in part.files]


def _key(kind: str, columns: Sequence[Column], words: Sequence[Any]) -> str:
    named = [[c.name, c.type] for c in columns]
    return sha256(json.dumps([FORMAT, kind, named, words]).encode()).hexdigest()
