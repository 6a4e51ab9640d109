"""Declared columns as Arrow types: the form of a record in every file and message of Medusa.

Besides its declared columns every record carries `_stime`, its event time in microseconds UTC,
and, in files, `_bucket`, the start of its bucket. No declared column can have a name like these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from medusa_core.columns import Column, decimal_shape, declare_columns

STIME = "_stime"
BUCKET = "_bucket"

_ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of a declared column type."""
    if type_ in _ARROW_TYPES:
        return _ARROW_TYPES[type_]
    return pa.decimal128(*decimal_shape(type_))


def record_schema(columns: Iterable[Column]) -> pa.Schema:
    """Declared columns in their order, then `_stime`."""
    fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
    return pa.schema([*fields, pa.field(STIME, pa.int64(), nullable=False)])


def file_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of a segment's file: the record's columns, then `_bucket`."""
    return record_schema(columns).append(pa.field(BUCKET, pa.int64(), nullable=False))


def columns_of(owner: str, columns: Mapping[str, str]) -> tuple[Column, ...]:
    """Checked columns of a declaration (see medusa_core.columns)."""
    return declare_columns(owner, columns)
