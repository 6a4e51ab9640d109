"""Values of Arrow types as those of declared columns: NULL where one will not go, and why.

Text is read by the grammar of CSV fields; a number that is not exact in the declared type does not
fit it; times are cut downwards to the microsecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.sources.recorded.bound_columns import Bound
from pipelines.sources.recorded.csv_fields import convert_bound
from pipelines.sources.recorded.csv_records import RECORD_BYTES_MAX, TOO_LONG
from pipelines.sources.recorded.instants import convert_times
from pipelines.sources.recorded.recorded_text import (
    Failures,
    decode_text,
    keep_years,
    null_if_empty,
)
from pipelines.sources.recorded.time_zones import settle_zone
from pipelines.storage.arrow_schema import arrow_type

_FLOATS = (pa.float32(), pa.float64())


def has_instant(given: pa.DataType) -> bool:
    """Whether values of a file's type can be instants."""
    return can_hold(given, "double") or can_hold(given, "timestamp")


def can_hold(given: pa.DataType, declared: str) -> bool:
    """Whether values of a file's type can be values of the declared type at all."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_null(given) or pa.types.is_string(given) or pa.types.is_large_string(given):
        return True
    is_integer: bool = pa.types.is_integer(given)
    is_number = is_integer or pa.types.is_decimal(given) or given in _FLOATS
    is_bytes = pa.types.is_binary(given) or pa.types.is_large_binary(given)
    if declared in ("int", "bigint"):
        return is_integer or given in _FLOATS
    if declared == "double" or declared.startswith("decimal"):
        return bool(is_number)
    holders: dict[str, bool] = {
        "boolean": pa.types.is_boolean(given),
        "date": pa.types.is_date(given),
        "timestamp": pa.types.is_timestamp(given) or pa.types.is_date(given),
        "string": is_bytes,
        "binary": is_bytes or pa.types.is_fixed_size_binary(given),
    }
    return holders[declared]


def convert_values(values: Any, bound: Bound) -> tuple[Any, Failures]:
    """A file's column as the declared type, NULL where a value will not go, and why."""
    values, column = decoded(values), bound.column
    given, expected = values.type, arrow_type(column.type)
    if is_text(given) or (column.type == "string" and not pa.types.is_null(given)):
        return _convert_text(values, bound)
    if bound.conversion is not None and not pa.types.is_null(given):
        return _convert_times(values, bound)
    if column.type == "binary":
        return null_if_empty(pc.cast(values, expected)), {}
    if given == expected and column.type not in ("date", "timestamp"):
        return values, {}
    if pa.types.is_decimal(expected) or (pa.types.is_decimal(given) and column.type == "double"):
        # Through text, as a CSV of it would hold: of a double the shortest that is it and no
        # other. Arrow's own casts look at types where we ask about values, and round.
        return _convert_text(pc.cast(values, pa.string()), bound)
    if given in _FLOATS and pa.types.is_integer(expected):
        return _whole_numbers(values, expected, column.type)
    converted = _cast(values, expected)
    failures: Failures = {}
    if column.type == "timestamp" and getattr(given, "tz", None) is None:
        converted, failures = settle_zone(converted, bound.zone)
    if converted.null_count == values.null_count:
        return converted, {}
    lost = pc.and_(pc.is_valid(values), pc.is_null(converted)).to_numpy(zero_copy_only=False)
    is_day = column.type in ("date", "timestamp")
    why = "is out of the years 1 to 9999" if is_day else f"is out of range of {column.type}"
    return converted, {int(row): why for row in np.flatnonzero(lost)} | failures


def decoded(values: Any) -> Any:
    """The values themselves where they came as a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def is_text(given: pa.DataType) -> bool:
    """Whether it is one of Arrow's types of text."""
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given))


def _convert_times(values: Any, bound: Bound) -> tuple[Any, Failures]:
    """Numbers, timestamps or dates of event time as numbers of the declared unit."""
    assert bound.conversion is not None
    given = values.type
    if pa.types.is_unsigned_integer(given) or pa.types.is_decimal(given):
        return _convert_text(pc.cast(values, pa.string()), bound)
    if pa.types.is_date(given):
        values = _cast(values, pa.date32())
    return convert_times(values, bound)


def _convert_text(values: Any, bound: Bound) -> tuple[Any, Failures]:
    raw = pc.cast(values, pa.binary(), safe=False)
    too_long: Failures = {}
    lengths = pc.binary_length(raw)
    if (pc.max(lengths).as_py() or 0) > RECORD_BYTES_MAX:
        is_long = pc.greater(lengths, RECORD_BYTES_MAX)
        rows = np.flatnonzero(pc.fill_null(is_long, False).to_numpy(zero_copy_only=False))
        too_long = {int(row): TOO_LONG for row in rows}
        raw = pc.if_else(is_long, None, raw)
    texts, undecoded = decode_text(raw)
    converted, failures = convert_bound(texts, bound)
    return converted, failures | undecoded | too_long


def _whole_numbers(values: Any, kind: pa.DataType, type_: str) -> tuple[Any, Failures]:
    """Floats as whole numbers, as pandas writes those of a column with empty fields."""
    try:
        return pc.cast(values, kind), {}
    except pa.ArrowInvalid:
        pass
    limit = 1 << (kind.bit_width - 1)
    listed: list[int | None] = []
    failures: Failures = {}
    for row, value in enumerate(values.to_pylist()):
        is_whole = value is not None and value.is_integer()
        fits = is_whole and -limit <= value < limit
        listed.append(int(value) if fits else None)
        if value is not None and not fits:
            failures[row] = f"is out of range of {type_}" if is_whole else "is no whole number"
    return pa.array(listed, kind), failures


def _cast(values: Any, kind: pa.DataType) -> Any:
    """The values as another type, NULL where one is beyond it."""
    given = values.type
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(given):
        return _cast_timestamp(values, given.unit)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        days = pc.cast(pc.cast(values, pa.date32()), pa.timestamp("s"))
        stamps = _cast_timestamp(days, "s")
        return pc.cast(stamps, pa.date32()) if pa.types.is_date(kind) else stamps
    if pa.types.is_floating(kind):
        return pc.cast(values, kind, safe=False)  # whole numbers beyond 2^53 as text reads them
    try:
        return pc.cast(values, kind)
    except pa.ArrowInvalid:
        limit = 1 << (kind.bit_width - 1)
        listed = [v if v is not None and -limit <= v < limit else None for v in values.to_pylist()]
        return pa.array(listed, kind)


def _cast_timestamp(values: Any, unit: str) -> Any:
    """Microseconds, finer ones cut downwards; NULL outside the years 1 to 9999."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    raw = pc.cast(pc.cast(values, pa.timestamp(unit)), pa.int64())
    if per_second <= 10**6:
        factor = 10**6 // per_second
        bound = (2**63 - 1) // factor
        is_kept = pc.and_(pc.greater_equal(raw, -bound), pc.less_equal(raw, bound))
        raw = pc.multiply(pc.if_else(is_kept, raw, None), factor)
    else:
        floored = np.floor_divide(pc.fill_null(raw, 0).to_numpy(), per_second // 10**6)
        raw = pa.array(floored, mask=raw.is_null().to_numpy(zero_copy_only=False))
    return keep_years(pc.cast(raw, arrow_type("timestamp")))
