"""Event times of recorded records: every form of time in a file becomes int64 microseconds UTC.

A time is exact to the microsecond; finer digits are cut downwards, so that no record moves into a
later bucket. A double means the microsecond whose nearest double it is: `1713484795.943239` is
that microsecond, though its double differs a little, both from text and from Parquet. Any other
double is cut downwards as well: `1713484799.9999998` stays in its minute. From the year 2242 on
doubles of seconds no longer distinguish microseconds, and a time is within a step of doubles from
its own. Declare it `decimal(p,s)` or `string` to keep the text exact beyond that.

The unit of a number is, in this order: what the source declares; the suffix of the column's name
(`_us`, `_ms`, `_ns`, `_s`); the size of the file's first 1,000 times, if nine in ten of them
agree: below 10^11 seconds, below 10^14 milliseconds, below 10^17 microseconds, above that
nanoseconds. That reads every time from 1973 to 5138 rightly. Smaller numbers than 10^8 can be
anything, and are refused until the source declares `time_unit`. Times with a unit of their own
(timestamp, date, ISO-8601 text) need none; if they have no zone, they are read in the zone that the
source declares, and do not fit if it declares none (`time_zones`).
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal, DecimalException
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from medusa_core.errors import Refused
from medusa_core.grid import TIME_US_MAX, TIME_US_MIN
from medusa_core.network import Source
from pipelines.sources.recorded.recorded_text import NUMBER, Failures, convert_text
from pipelines.sources.recorded.time_zones import settle_zone

SAMPLE_RECORDS = 1_000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SIZES = (("s", 1e8, 1e11), ("ms", 1e11, 1e14), ("us", 1e14, 1e17), ("ns", 1e17, 1e19))

NO_TIME = "has no time"
ABSURD_TIME = "time is outside the years 1 to 9999"

_EXACT = Context(prec=80)

Int64s = NDArray[np.int64]


def declared_unit(source: Source) -> str | None:
    """The unit that the source or its time column's name tells, else None."""
    return source.time_unit or named_unit(source.time)


def named_unit(name: str) -> str | None:
    """The unit at the end of a column's name (`_us`, `_ms`, `_ns`, `_s`), else None."""
    suffix = name.rpartition("_")[2]
    return suffix if "_" in name and suffix in PER_SECOND else None


def recognise_unit(source: Source, file: Path, sample: pa.Array) -> str:
    """The unit of a file's times; `sample` holds the time values of its first records.

    Raises Refused, asking for `time_unit`, if the sample does not tell.
    """
    return declared_unit(source) or recognise_size(source, file, sample)


def recognise_size(source: Source, file: Path, sample: pa.Array) -> str:
    """The unit of times by their type and size alone, whatever is declared.

    Raises Refused, asking for `time_unit`, if the sample does not tell.
    """
    if pa.types.is_temporal(sample.type):
        return "us"
    if pa.types.is_string(sample.type):
        is_number = pc.match_substring_regex(sample, NUMBER)
        if not pc.any(is_number).as_py():
            return "us"  # ISO-8601 has no need of one
        sample = pc.cast(pc.filter(sample, is_number), pa.float64())
    sizes = np.abs(pc.cast(pc.drop_null(sample), pa.float64(), safe=False).to_numpy())
    sizes = sizes[np.isfinite(sizes)][:SAMPLE_RECORDS]
    for unit, from_size, to_size in _SIZES:
        agreeing = np.count_nonzero((sizes >= from_size) & (sizes < to_size))
        if agreeing and agreeing >= 0.9 * len(sizes):
            return unit
    seen = f"such as {sizes[0]:.15g}" if len(sizes) else "which are all missing there"
    raise Refused(
        f"{file}: the first times in column {source.time!r}, {seen}, do not tell their unit; "
        f"declare time_unit (s, ms, us or ns) for source {source.name!r}"
    )


def event_times(values: Any, unit: str, zone: str | None = None) -> tuple[Int64s, Failures]:
    """Microseconds UTC of a time column, and the rows that have none with the reason.

    `zone` is that of times without one.

    `values` is an Arrow array or chunked array of any declared type but boolean and binary. The
    time of a row without one is 0 and means nothing.
    """
    type_ = values.type
    if pa.types.is_string(type_):
        times, failures = _text_times(values, unit, zone)
    elif pa.types.is_decimal(type_):
        times, failures = _listed_times(values.to_pylist(), unit)
    elif pa.types.is_floating(type_):
        times, failures = _float_times(values, unit)
    elif pa.types.is_date32(type_):
        times, failures = _scaled_times(_int64s(pc.cast(values, pa.int32())), 86_400 * 10**6, 1)
    else:
        per_second = PER_SECOND[type_.unit if pa.types.is_timestamp(type_) else unit]
        raw = _int64s(pc.cast(values, pa.int64()))
        times, failures = _scaled_times(
            raw, max(10**6 // per_second, 1), max(per_second // 10**6, 1)
        )
    if pa.types.is_date32(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        times, failures = _in_zone(times, failures, values, zone)
    if values.null_count:
        failures.update(dict.fromkeys(np.flatnonzero(_bools(pc.is_null(values))).tolist(), NO_TIME))
    return times, failures


def _in_zone(
    times: Int64s, failures: Failures, values: Any, zone: str | None
) -> tuple[Int64s, Failures]:
    """Times of a clock without a zone as those of a zone."""
    is_lost = ~_bools(pc.is_valid(values))
    is_lost[list(failures)] = True
    stamps, more = settle_zone(pa.array(times, pa.timestamp("us", "UTC"), mask=is_lost), zone)
    return _int64s(pc.cast(stamps, pa.int64())), failures | more


def _scaled_times(raw: Int64s, times: int, parts: int) -> tuple[Int64s, Failures]:
    """raw * times // parts, checked before it is multiplied: int64 would wrap around in silence."""
    int64 = np.iinfo(np.int64)
    low = max(-(-TIME_US_MIN * parts // times), int64.min)
    high = min(((TIME_US_MAX + 1) * parts - 1) // times, int64.max)
    absurd: Failures = {}
    if len(raw) and (raw.min() < low or raw.max() > high):
        outside = (raw < low) | (raw > high)
        absurd = dict.fromkeys(np.flatnonzero(outside).tolist(), ABSURD_TIME)
        raw = np.where(outside, 0, raw)
    result = raw if times == 1 else raw * times
    return result if parts == 1 else result // parts, absurd


def _float_times(values: Any, unit: str) -> tuple[Int64s, Failures]:
    """The microsecond whose double it is; what lies between two of them is cut downwards."""
    numbers = pc.fill_null(values, 0.0).to_numpy().astype(np.float64)
    per_unit = 10**6 / PER_SECOND[unit]
    is_time = (numbers >= TIME_US_MIN / per_unit) & (numbers < (TIME_US_MAX + 1) / per_unit)
    absurd: Failures = {}
    if not is_time.all():
        absurd = dict.fromkeys(np.flatnonzero(~is_time).tolist(), ABSURD_TIME)
        numbers = np.where(is_time, numbers, 0.0)
    if unit == "ns":
        times = np.rint(numbers / 1_000).astype(np.int64)
        doubles = times * 1_000.0
    else:
        whole = np.floor(numbers)
        # Whole and broken part apart: the product of their sum would be rounded.
        part = np.rint((numbers - whole) * per_unit)
        times = whole.astype(np.int64) * int(per_unit) + part.astype(np.int64)
        doubles = times / per_unit
    # Up to 2^53 both sides are exact to the last bit; beyond, doubles lie further apart than times.
    is_later = (doubles > numbers) & (np.abs(times) < 2**53)
    return times - is_later, absurd


def _text_times(values: Any, unit: str, zone: str | None) -> tuple[Int64s, Failures]:
    """Numbers in text by their unit, all other text as ISO-8601."""
    texts = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    texts = pc.utf8_trim(texts, " \t")
    is_number = pc.match_substring_regex(texts, NUMBER)
    if not pc.any(is_number).as_py():
        stamps, failures = convert_text(texts, "timestamp", zone)
        times, _ = event_times(stamps, "us")
        return times, failures
    if pc.all(is_number).as_py():
        return _listed_times(texts.to_pylist(), unit)
    times, failures = _text_times(pc.if_else(is_number, None, texts), unit, zone)
    failures = {row: why for row, why in failures.items() if why != NO_TIME}
    numbers, absurd = _listed_times(pc.if_else(is_number, texts, None).to_pylist(), unit)
    return np.where(_bools(pc.fill_null(is_number, False)), numbers, times), failures | absurd


def _listed_times(values: list[Decimal | str | None], unit: str) -> tuple[Int64s, Failures]:
    """Exact, one by one: for decimals and numbers in text."""
    times = np.zeros(len(values), np.int64)
    absurd: Failures = {}
    scale = Decimal(10**6) / PER_SECOND[unit]
    for row, value in enumerate(values):
        if value is None:
            continue
        try:
            time_us = _EXACT.multiply(Decimal(value), scale).to_integral_value(ROUND_FLOOR)
            is_time = TIME_US_MIN <= time_us <= TIME_US_MAX
        except DecimalException:
            is_time = False
        if is_time:
            times[row] = int(time_us)
        else:
            absurd[row] = ABSURD_TIME
    return times, absurd


def _int64s(values: Any) -> Int64s:
    filled: Int64s = pc.cast(pc.fill_null(values, 0), pa.int64()).to_numpy()
    return filled


def _bools(values: Any) -> NDArray[np.bool_]:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)
