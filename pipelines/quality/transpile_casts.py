"""Constants and casts in DuckDB.

A cast is transpiled only if both engines give the same result for every value. Casts of text to
numbers or times, of doubles to text, and of doubles to decimals are not.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from pipelines.quality.spark_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    VOID,
    SparkType,
)
from pipelines.quality.transpiled import (
    BEYOND_YEARS,
    DAY_US,
    FIRST_US,
    LAST_US,
    OVERFLOW,
    NotTranspiled,
    Transpiled,
    because,
    duckdb_type,
    floor_div,
    quoted_text,
    strict,
)

_DIGITS_EXACT_IN_DOUBLE = 15
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAST = {INT: -(2**31), BIGINT: -(2**63)}
"""The least value of an integer type."""


def constant(value: object, type_: SparkType) -> Transpiled:
    """A value that is written out."""
    match value:
        case None:
            sql = "NULL"
        case bool():
            sql = str(value).lower()
        case str():
            sql = quoted_text(value)
        case Decimal():
            sql = f"('{value:f}'::{duckdb_type(type_)})"
        case _:
            sql = f"('{value!r}'::{duckdb_type(type_)})"
    return Transpiled(sql=sql, type=type_, constant=value)


def instant(text: str, type_: SparkType) -> Transpiled:
    """A date or timestamp that is written out, as days or microseconds."""
    if type_ == DATE:
        days = (date.fromisoformat(text) - date(1970, 1, 1)).days
        return Transpiled(sql=f"({days}::INTEGER)", type=type_)
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    us = (moment - _EPOCH) // timedelta(microseconds=1)
    return Transpiled(sql=f"({us}::BIGINT)", type=type_)


def as_type(value: Transpiled, type_: SparkType) -> Transpiled:
    """A value in a type that holds every value of its own type."""
    source = value.type
    if source == type_:
        return value
    if (source, type_) == (DATE, TIMESTAMP):
        return replace(value, sql=f"({value.sql}::BIGINT * {DAY_US})", type=type_)
    if source.is_decimal and type_ == DOUBLE:
        if source.precision > _DIGITS_EXACT_IN_DOUBLE:
            raise NotTranspiled(f"{source} as double")
    elif source != VOID and not (source.is_number and type_.is_number):
        raise NotTranspiled(f"{source} as {type_}")
    return replace(value, sql=f"CAST({value.sql} AS {duckdb_type(type_)})", type=type_)


def cast_to(value: Transpiled, target: SparkType) -> Transpiled:
    """A cast with the same result in both engines; NotTranspiled for any other."""
    source, x = value.type, value.sql
    if source in (target, VOID):
        return as_type(value, target)
    if source.is_integral:
        if target.is_integral or target.is_decimal:
            return _tried_cast(value, target)
        if target == BOOLEAN:
            return strict(f"({x} <> 0)", target, (value,))
        if target == TIMESTAMP:
            return timestamp_of_count(value, 1_000_000)
        if target == DOUBLE:
            return as_type(value, target)
    if target == STRING and (source.is_integral or source == BOOLEAN):
        return strict(f"CAST({x} AS VARCHAR)", target, (value,))
    if source == BOOLEAN and (target.is_integral or target == DOUBLE):
        return strict(f"CAST({x} AS {duckdb_type(target)})", target, (value,))
    if source == DOUBLE and target.is_integral:
        return integer_of_double(value, target)
    if source.is_decimal and target.is_decimal and target.scale >= source.scale:
        return _tried_cast(value, target)
    if (source.is_decimal and target == DOUBLE) or (source, target) == (DATE, TIMESTAMP):
        return as_type(value, target)
    if (source, target) == (TIMESTAMP, DATE):
        return strict(f"CAST({floor_div(x, DAY_US)} AS INTEGER)", target, (value,))
    if (source, target) == (TIMESTAMP, BIGINT):
        return strict(floor_div(x, 1_000_000), target, (value,))
    raise NotTranspiled(f"a cast of {source} to {target}")


def _tried_cast(value: Transpiled, target: SparkType) -> Transpiled:
    """A cast that fails where the value does not fit."""
    sql = f"TRY_CAST({value.sql} AS {duckdb_type(target)})"
    return strict(sql, target, (value,), fails=because((f"{sql} IS NULL", OVERFLOW)))


def timestamp_of_count(value: Transpiled, unit_us: int) -> Transpiled:
    """A timestamp from a number of units since 1970; it fails outside the years 1 to 9999."""
    product = f"({value.sql}::HUGEINT * {unit_us})"
    inside = f"({product} BETWEEN {FIRST_US} AND {LAST_US})"
    sql = f"CAST(CASE WHEN {inside} THEN {product} END AS BIGINT)"
    return strict(sql, TIMESTAMP, (value,), fails=because((f"NOT {inside}", BEYOND_YEARS)))


def integer_of_double(value: Transpiled, target: SparkType) -> Transpiled:
    """A double without its fraction; it fails if the integer type does not hold it."""
    x, beyond = f"{value.sql}", -LEAST[target]
    if target == INT:
        inside = f"({x} > -{beyond + 1}.0::DOUBLE AND {x} < {beyond}.0::DOUBLE)"
        whole = f"CAST(trunc(CASE WHEN {inside} THEN {x} END) AS INTEGER)"
    else:
        # 2^63 as a double counts as inside, and becomes the greatest bigint.
        inside = f"({x} >= -{beyond}.0::DOUBLE AND {x} <= {beyond}.0::DOUBLE)"
        below = f"CASE WHEN {inside} AND {x} < {beyond}.0::DOUBLE THEN {x} END"
        most = f"CASE WHEN {x} = {beyond}.0::DOUBLE THEN {beyond - 1}::BIGINT END"
        whole = f"coalesce(CAST(trunc({below}) AS BIGINT), {most})"
    return strict(whole, target, (value,), fails=because((f"NOT {inside}", OVERFLOW)))
