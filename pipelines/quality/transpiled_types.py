"""Constants, types and casts carried over: what Spark gives a number, and how it widens.

A cast is carried only where both engines make the same of every value; text to numbers and times,
and doubles to text, are not.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from medusa_core.columns import check_type, decimal_shape
from medusa_core.errors import Refused
from pipelines.language import coercion
from pipelines.language.constants import literal_type
from pipelines.quality.transpiled import (
    DAY_US,
    FIRST_US,
    LAST_US,
    Carried,
    NotCarried,
    duckdb_type,
    floor_div,
    strictly,
    text_of,
)

_DIGITS_EXACT_IN_DOUBLE = 15
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAST = {"int": -(2**31), "bigint": -(2**63)}


def constant(node: exp.Expr) -> Carried:
    """A value that is written out."""
    if isinstance(node, exp.Null):
        return Carried(sql="NULL", type=coercion.VOID, constant=None)
    if isinstance(node, exp.Boolean):
        return Carried(sql=str(bool(node.this)).lower(), type="boolean", constant=bool(node.this))
    if isinstance(node, exp.RawString) or node.args.get("is_string"):
        return Carried(sql=text_of(str(node.this)), type="string", constant=str(node.this))
    return number(str(node.this))


def number(text: str, suffix: str = "") -> Carried:
    """A number as written, of the type that Spark gives it."""
    if suffix == "L":
        return Carried(sql=f"({text}::BIGINT)", type="bigint", constant=int(text))
    if suffix == "D" or "e" in text.lower():
        value = float(text)
        return Carried(sql=f"('{value!r}'::DOUBLE)", type="double", constant=value)
    exact = Decimal(text) if "." in text else int(text)
    type_ = literal_type(exact)
    written = f"{exact:f}" if isinstance(exact, Decimal) else str(exact)
    return Carried(sql=f"('{written}'::{duckdb_type(type_)})", type=type_, constant=exact)


def instant(text: str, type_: str) -> Carried:
    """A date or timestamp that is written out, as days or microseconds."""
    if type_ == "date":
        days = (date.fromisoformat(text) - date(1970, 1, 1)).days
        return Carried(sql=f"({days}::INTEGER)", type=type_, constant=text)
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    us = (moment - _EPOCH) // timedelta(microseconds=1)
    return Carried(sql=f"({us}::BIGINT)", type=type_, constant=text)


# ------------------------------------------------------------ types


def result_type(sign: str, left: Carried, right: Carried) -> str:
    """The type of `left sign right`."""
    found = coercion.arithmetic_type(sign, digits_of(left, right), digits_of(right, left))
    if found is None:
        raise NotCarried(f"{left.type} {sign} {right.type}")
    return found[0]


def digits_of(side: Carried, other: Carried) -> str:
    """A side's type; a whole number that is written out has its own digits beside a decimal."""
    if coercion.is_decimal(other.type) and type(side.constant) is int:
        return coercion.decimal(len(str(abs(side.constant))), 0)
    return side.type


def in_full_width(side: Carried) -> str:
    """A number as a decimal of 38 digits, so that DuckDB does not multiply in a narrower one."""
    _, scale = coercion.as_decimal(side.type)
    return f"CAST({side.sql} AS DECIMAL(38,{scale}))"


def common_type(values: list[Carried]) -> str:
    """The one type of several values."""
    type_ = coercion.VOID
    for value in values:
        wider = coercion.common_type(type_, value.type)
        if wider is None:
            raise NotCarried(f"{type_} beside {value.type}")
        type_ = wider
    return type_


def in_common(left: Carried, right: Carried) -> tuple[Carried, Carried]:
    """Both in the type in which Spark compares them."""
    type_ = common_type([left, right])
    return as_type(left, type_), as_type(right, type_)


def as_type(value: Carried, type_: str) -> Carried:
    """A value in a type that holds all of its own type's values."""
    if value.type == type_:
        return value
    if value.type == coercion.VOID:
        return replace(value, sql=f"CAST(NULL AS {duckdb_type(type_)})", type=type_)
    if (value.type, type_) == ("date", "timestamp"):
        return replace(value, sql=f"({value.sql}::BIGINT * {DAY_US})", type=type_)
    if coercion.is_decimal(value.type) and type_ == "double":
        if decimal_shape(value.type)[0] > _DIGITS_EXACT_IN_DOUBLE:
            raise NotCarried(f"{value.type} as double")
    elif not (coercion.is_number(value.type) and coercion.is_number(type_)):
        raise NotCarried(f"{value.type} as {type_}")
    return replace(value, sql=f"CAST({value.sql} AS {duckdb_type(type_)})", type=type_)


def cast_target(node: exp.Cast) -> str:
    """The type that a cast gives."""
    written = node.args["to"].sql(dialect="spark").lower()
    try:
        return check_type("a cast", "decimal(10,0)" if written == "decimal" else written)
    except Refused:
        raise NotCarried(f"a cast to {written}") from None


def cast_to(value: Carried, target: str) -> Carried:
    """A cast of which both engines make the same; every other is not carried."""
    source, x = value.type, value.sql
    if source == target:
        return value
    if source == coercion.VOID:
        return as_type(value, target)
    numbers = {"int", "bigint"}
    match source, target:
        case ("int" | "bigint", "int" | "bigint"):
            sql = f"TRY_CAST({x} AS {duckdb_type(target)})"
            return strictly(sql, target, (value,), fails=f"{sql} IS NULL")
        case ("int" | "bigint" | "boolean", "string"):
            return strictly(f"CAST({x} AS VARCHAR)", target, (value,))
        case ("boolean", "int" | "bigint" | "double"):
            return strictly(f"CAST({x} AS {duckdb_type(target)})", target, (value,))
        case ("int" | "bigint", "boolean"):
            return strictly(f"({x} <> 0)", target, (value,))
        case ("timestamp", "date"):
            return strictly(f"CAST({floor_div(x, DAY_US)} AS INTEGER)", target, (value,))
        case ("timestamp", "bigint"):
            return strictly(floor_div(x, 1_000_000), target, (value,))
        case ("int" | "bigint", "timestamp"):
            return counted_time(value, 1_000_000)
        case ("double", "int" | "bigint"):
            return whole_of_double(value, target)
    if source in numbers and coercion.is_decimal(target):
        sql = f"TRY_CAST({x} AS {duckdb_type(target)})"
        return strictly(sql, target, (value,), fails=f"{sql} IS NULL")
    if source in numbers or (source, target) == ("date", "timestamp"):
        return as_type(value, target)
    if coercion.is_decimal(source) and target == "double":
        return as_type(value, target)
    if coercion.is_decimal(source) and coercion.is_decimal(target):
        (_, had), (_, keeps) = decimal_shape(source), decimal_shape(target)
        if keeps >= had:
            sql = f"TRY_CAST({x} AS {duckdb_type(target)})"
            return strictly(sql, target, (value,), fails=f"{sql} IS NULL")
    raise NotCarried(f"a cast of {source} to {target}")


def counted_time(value: Carried, us: int) -> Carried:
    """A timestamp from a count of so many microseconds since 1970, in the years 1 to 9999."""
    product = f"({value.sql}::HUGEINT * {us})"
    inside = f"({product} BETWEEN {FIRST_US} AND {LAST_US})"
    sql = f"CAST(CASE WHEN {inside} THEN {product} END AS BIGINT)"
    return strictly(sql, "timestamp", (value,), fails=f"NOT {inside}")


def whole_of_double(value: Carried, target: str) -> Carried:
    """A double without what is behind its point, if that is a number of the type."""
    x, beyond = f"{value.sql}", -LEAST[target]
    if target == "int":
        inside = f"({x} > -{beyond + 1}.0::DOUBLE AND {x} < {beyond}.0::DOUBLE)"
        whole = f"CAST(trunc(CASE WHEN {inside} THEN {x} END) AS INTEGER)"
    else:
        # 2^63 as a double counts as inside, and becomes the greatest bigint.
        inside = f"({x} >= -{beyond}.0::DOUBLE AND {x} <= {beyond}.0::DOUBLE)"
        below = f"CASE WHEN {inside} AND {x} < {beyond}.0::DOUBLE THEN {x} END"
        most = f"CASE WHEN {x} = {beyond}.0::DOUBLE THEN {beyond - 1}::BIGINT END"
        whole = f"coalesce(CAST(trunc({below}) AS BIGINT), {most})"
    return strictly(whole, target, (value,), fails=f"NOT {inside}")
