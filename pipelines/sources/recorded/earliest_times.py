"""The least event time of a recorded file, from its statistics, before its records are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.errors import Refused, Unavailable
from medusa_core.grid import FOREVER_US
from medusa_core.network import Source
from pipelines.sources.recorded.bound_columns import bind_columns
from pipelines.sources.recorded.event_times import declared_unit, event_times
from pipelines.sources.recorded.recorded_files import open_recorded
from pipelines.sources.recorded.recorded_formats import Format, format_of
from pipelines.sources.recorded.recorded_rows import Target
from pipelines.storage.parquet_bounds import check_footer, open_footer


def earliest_time(source: Source, file: Path) -> int | None:
    """Microseconds UTC, or FOREVER_US for a file without records; None if it is not known.

    It is known of Parquet whose times are integers of a declared unit or timestamps with a zone, if
    each row group has statistics. What is wrong with a file is reported when it is read.
    """
    if not file.is_file():
        return None  # what is read of a pipe is gone
    try:
        target = Target.of(source, file)
        with open_recorded(file) as (stream, first):
            if format_of(first) is not Format.PARQUET:
                return None
            check_footer(file, stream)
            reader = open_footer(file, stream)
            schema, metadata = reader.schema_arrow, reader.metadata
            bound = bind_columns(target, schema.names)[target.time_position]
            if bound.conversion is not None or bound.kind is not None:
                return None
            type_ = _exact_type(source, bound.column, schema.field(bound.name).type)
            at = [metadata.schema.column(i).path for i in range(metadata.num_columns)].index(
                bound.name
            )
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            found = [group.column(at).statistics for group in groups if group.num_rows]
            if type_ is None or any(one is None or not one.has_min_max for one in found):
                return None
            least = pa.array([one.min for one in found], type_)
    except (Refused, Unavailable, pa.ArrowException, OSError, ValueError, OverflowError):
        return None
    times, failures = event_times(least, declared_unit(source) or "us")
    return None if failures else min(times.tolist(), default=FOREVER_US)


def _exact_type(source: Source, column: Column, given: pa.DataType) -> pa.DataType | None:
    """The type of the statistics, if event times follow from it alone."""
    if column.type in ("int", "bigint") and pa.types.is_signed_integer(given):
        return None if declared_unit(source) is None else pa.int64()
    is_instant = pa.types.is_timestamp(given) and given.tz is not None and given.unit != "ns"
    return pa.timestamp("us", "UTC") if column.type == "timestamp" and is_instant else None
