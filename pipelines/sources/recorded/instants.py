"""Text of instants and lengths as numbers or timestamps of the declared unit, exact.

An instant is a number of some unit or ISO-8601 text; a length is a number. In between both are
whole microseconds: finer digits of an instant are cut downwards, as everywhere (`event_times`),
and a length is the nearest microsecond, because a difference of two doubles is not exact.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.network import Source
from pipelines.sources.recorded.bound_columns import Bound, Kind
from pipelines.sources.recorded.event_times import (
    NO_TIME,
    PER_SECOND,
    Int64s,
    declared_unit,
    event_times,
    recognise_size,
    recognise_unit,
)
from pipelines.sources.recorded.recorded_text import (
    ISO_TIME,
    NUMBER,
    Failures,
    convert_text,
    null_if_empty,
)
from pipelines.storage.arrow_schema import arrow_type

_PLAIN = r"^(?P<whole>-?[0-9]{1,12})(?:\.(?P<part>[0-9]{1,6}))?$"
_EXACT = Context(prec=80)
_INT64 = np.iinfo(np.int64)


def settle_unit(source: Source, file: Path, bound: Bound, sample: Any) -> tuple[Bound, str]:
    """Event time's column with its unit settled, and the unit of the numbers that it gives.

    `sample` holds the first values as the file has them. Raises Refused, asking for `time_unit`,
    if they do not tell.
    """
    if bound.conversion is None:
        is_declared = bound.kind not in (None, Kind.INSTANT) and declared_unit(source) is None
        return bound, "s" if is_declared else recognise_unit(source, file, sample)
    conversion = bound.conversion
    if conversion.from_unit is None:
        conversion = replace(conversion, from_unit=recognise_size(source, file, sample))
    return replace(bound, conversion=conversion), conversion.to_unit


def convert_instants(texts: Any, bound: Bound) -> tuple[Any, Failures]:
    """A string array as values of the declared type, NULL where a text will not go, and why."""
    type_, conversion, zone = bound.column.type, bound.conversion, bound.zone
    assert conversion is not None
    texts = pc.utf8_trim(null_if_empty(texts), " \t")
    from_unit = conversion.from_unit
    assert from_unit is not None, "its unit is settled before values are converted"
    is_whole = type_ in ("timestamp", "int", "bigint")
    if is_whole or from_unit != conversion.to_unit:
        times, failures = _microseconds(texts, from_unit, zone, conversion.is_length)
        return _declared(times, texts, failures, type_, conversion.to_unit)
    is_iso = pc.fill_null(pc.match_substring_regex(texts, ISO_TIME), False)
    values, failures = convert_text(pc.if_else(is_iso, None, texts), type_, zone)
    if conversion.is_length or not pc.any(is_iso).as_py():
        return (values, failures) if not conversion.is_length else convert_text(texts, type_, zone)
    written = pc.if_else(is_iso, texts, None)
    times, absurd = _microseconds(written, from_unit, zone, False)
    instants, more = _declared(times, written, absurd, type_, conversion.to_unit)
    return pc.coalesce(values, instants), failures | more


def convert_times(values: Any, bound: Bound) -> tuple[Any, Failures]:
    """As `convert_instants`, from an array of numbers, timestamps or dates."""
    conversion = bound.conversion
    assert conversion is not None
    assert conversion.from_unit is not None
    times, failures = event_times(values, conversion.from_unit, bound.zone)
    failures = {row: why for row, why in failures.items() if why != NO_TIME}
    return _declared(times, values, failures, bound.column.type, conversion.to_unit)


def _microseconds(
    texts: Any, unit: str, zone: str | None, is_length: bool
) -> tuple[Int64s, Failures]:
    times = np.zeros(len(texts), np.int64)
    failures: Failures = {}
    rest = np.flatnonzero(pc.is_valid(texts).to_numpy(zero_copy_only=False))
    if unit == "s":
        parts = pc.extract_regex(texts, _PLAIN)
        whole, part = pc.struct_field(parts, "whole"), pc.struct_field(parts, "part")
        digits = pc.binary_join_element_wise(whole, pc.utf8_rpad(part, 6, "0"), "")
        is_plain = pc.is_valid(digits).to_numpy(zero_copy_only=False)
        times = pc.fill_null(pc.cast(digits, pa.int64()), 0).to_numpy(zero_copy_only=False).copy()
        rest = rest[~is_plain[rest]]
    if len(rest):
        some = texts.take(pa.array(rest))
        found, why = _lengths(some, unit) if is_length else event_times(some, unit, zone)
        times[rest] = found
        failures = {int(rest[row]): reason for row, reason in why.items()}
    return times, failures


def _lengths(texts: Any, unit: str) -> tuple[Int64s, Failures]:
    times = np.zeros(len(texts), np.int64)
    failures: Failures = {}
    scale = Decimal(10**6) / PER_SECOND[unit]
    is_number = pc.match_substring_regex(texts, NUMBER).to_pylist()
    for row, text in enumerate(texts.to_pylist()):
        if not is_number[row]:
            failures[row] = "is no number"
            continue
        try:
            length = _EXACT.multiply(Decimal(text), scale).to_integral_value(ROUND_HALF_EVEN)
            fits = _INT64.min <= length <= _INT64.max
        except DecimalException:
            fits = False
        if fits:
            times[row] = int(length)
        else:
            failures[row] = "is out of range of bigint"
    return times, failures


def _declared(
    times: Int64s, given: Any, failures: Failures, type_: str, unit: str
) -> tuple[Any, Failures]:
    """Microseconds as the declared type and unit, NULL where nothing was given or has failed."""
    is_lost = pc.is_null(given).to_numpy(zero_copy_only=False).copy()
    is_lost[list(failures)] = True
    if type_ == "timestamp":
        return pc.cast(pa.array(times, mask=is_lost), arrow_type(type_)), failures
    times, per_second = np.where(is_lost, 0, times), PER_SECOND[unit]
    if type_ == "double":
        scaled = times * (per_second / 10**6) if unit == "ns" else times / (10**6 // per_second)
        return pa.array(scaled, mask=is_lost), failures
    if type_ in ("int", "bigint"):
        factor, parts = max(per_second // 10**6, 1), max(10**6 // per_second, 1)
        limit = (2**31 if type_ == "int" else 2**63) * parts // factor
        is_over = (times >= limit) | (times < -limit) if limit < 2**63 else is_lost & ~is_lost
        over = {int(row): f"is out of range of {type_}" for row in np.flatnonzero(is_over)}
        values = np.where(is_over, 0, times) * factor // parts
        whole = pa.array(values, mask=is_lost | is_over)
        return pc.cast(whole, arrow_type(type_)), failures | over
    places = {"s": -6, "ms": -3, "us": 0, "ns": 3}[unit]
    texts = [
        None if lost else f"{Decimal(int(time)).scaleb(places, _EXACT):f}"
        for time, lost in zip(times.tolist(), is_lost.tolist(), strict=True)
    ]
    exact, misfits = convert_text(pa.array(texts, pa.string()), type_)
    return exact, failures | misfits
