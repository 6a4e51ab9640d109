"""Functions of one record in DuckDB: those that are known to give the same in both engines.

Left to Spark on purpose: upper and lower (`ß`), patterns, formats, text to numbers and times,
rounded doubles, logarithms and powers (last digits), hashes, arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from pipelines.quality.expression_types import TRIED
from pipelines.quality.spark_types import DATE, DOUBLE, STRING, SparkType
from pipelines.quality.transpile import Transpiler, in_common
from pipelines.quality.transpile_casts import (
    as_type,
    cast_to,
    integer_of_double,
    timestamp_of_count,
)
from pipelines.quality.transpiled import (
    BEYOND_YEARS,
    DAY_US,
    FIRST_DAY,
    LAST_DAY,
    OVERFLOW,
    NotTranspiled,
    Transpiled,
    any_of,
    because,
    duckdb_type,
    floor_div,
    floor_mod,
    provided,
    strict,
)

_PLAIN = {
    "length": "length({0})",
    "char_length": "length({0})",
    "character_length": "length({0})",
    "len": "length({0})",
    "octet_length": "octet_length(encode({0}))",
    "trim": "trim({0})",
    "btrim": "trim({0})",
    "ltrim": "ltrim({0})",
    "rtrim": "rtrim({0})",
    "contains": "contains({0}, {1})",
    "startswith": "starts_with({0}, {1})",
    "endswith": "ends_with({0}, {1})",
    "md5": "md5({0})",
    "unix_micros": "{0}",
    "unix_date": "{0}",
}
"""Functions that take their arguments as they are."""
_OF_DAY = {
    "year": "year({0})",
    "quarter": "quarter({0})",
    "month": "month({0})",
    "day": "day({0})",
    "dayofmonth": "day({0})",
    "dayofyear": "dayofyear({0})",
    "dayofweek": "dayofweek({0}) + 1",
    "weekday": "isodow({0}) - 1",
    "weekofyear": "week({0})",
}
_SECONDS = {"second": (1_000_000, 60), "minute": (60_000_000, 60), "hour": (3_600_000_000, 24)}
_TRUNCATED_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": DAY_US,
    "dd": DAY_US,
}
_COUNTED_US = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}
_BIGINT_BOUND = "9223372036854775808.0::DOUBLE"


class ScalarTranspiler(Transpiler):
    """Transpiles expressions over one record."""

    def call(self, name: str, node: exp.Anonymous) -> Transpiled:
        arguments, type_ = list(node.expressions), self.types.of(node)
        operators: Mapping[str, Callable[..., exp.Expr]] = {
            "isnull": lambda x: exp.Is(this=x, expression=exp.Null()),
            "isnotnull": lambda x: exp.Not(this=exp.Is(this=x, expression=exp.Null())),
            "equal_null": lambda x, y: exp.NullSafeEQ(this=x, expression=y),
            "negative": lambda x: exp.Neg(this=exp.Paren(this=x)),
            "mod": lambda x, y: exp.Mod(this=x, expression=y),
            "like": lambda x, y: exp.Like(this=x, expression=y),
            "if": lambda x, y, z: exp.If(this=x, true=y, false=z),
            "nvl2": lambda x, y, z: exp.If(
                this=exp.Not(this=exp.Is(this=x, expression=exp.Null())), true=y, false=z
            ),
        }
        if name in operators:
            return self.transpile(operators[name](*arguments))
        if name in TRIED:
            left, right = arguments
            return self.arithmetic(TRIED[name], left, right, type_, tried=True)
        parts = tuple(self.transpile(argument) for argument in arguments)
        lazy: Mapping[str, Callable[[tuple[Transpiled, ...], SparkType], Transpiled]] = {
            "coalesce": coalesce, "nvl": coalesce, "ifnull": coalesce, "nanvl": nanvl,
        }  # fmt: skip
        if name in lazy:
            return lazy[name](parts, type_)
        if name in _PLAIN:
            sql = _PLAIN[name].format(*(part.sql for part in parts))
            return strict(f"CAST({sql} AS {duckdb_type(type_)})", type_, parts)
        if name in _OF_DAY:
            day = f"(DATE '1970-01-01' + {cast_to(parts[0], DATE).sql})"
            return strict(f"CAST({_OF_DAY[name].format(day)} AS INTEGER)", type_, parts)
        if name in _SECONDS:
            unit_us, of = _SECONDS[name]
            sql = floor_mod(floor_div(parts[0].sql, unit_us), of)
            return strict(f"CAST({sql} AS INTEGER)", type_, parts)
        if name in _COUNTED_US:
            return timestamp_of_count(parts[0], _COUNTED_US[name])
        return by_rule(name, parts, type_)


def by_rule(name: str, parts: tuple[Transpiled, ...], type_: SparkType) -> Transpiled:
    """Functions with a rule of their own, some of them for some of their arguments only."""
    match name, parts:
        case "concat", _:
            texts = (cast_to(part, STRING).sql for part in parts)
            return strict(f"({' || '.join(texts)})", type_, parts)
        case "greatest" | "least", _:
            listed = ", ".join(as_type(part, type_).sql for part in parts)
            fails = any_of(*(part.fails for part in parts))
            return Transpiled(sql=f"{name}({listed})", type=type_, fails=fails)
        case "nullif", (left, right):
            a, b = in_common(left, right)
            sql = f"(CASE WHEN {a.sql} = {b.sql} THEN NULL ELSE {left.sql} END)"
            return strict(sql, type_, parts)
        case "isnan", (x,):
            sql = f"coalesce(isnan({as_type(x, DOUBLE).sql}), false)"
            return Transpiled(sql=sql, type=type_, fails=x.fails)
        case "abs", (x,) if type_.is_integral:
            sql = f"TRY_CAST(abs({x.sql}::HUGEINT) AS {duckdb_type(type_)})"
            return strict(sql, type_, parts, fails=because((f"{sql} IS NULL", OVERFLOW)))
        case "abs", (x,):
            return strict(f"abs({x.sql})", type_, parts)
        case "floor" | "ceil" | "ceiling", (x,):
            return whole("floor" if name == "floor" else "ceil", x, type_)
        case "sqrt", (x,):
            return strict(f"sqrt({as_type(x, DOUBLE).sql})", type_, parts)
        case "unix_seconds", (at,):
            return strict(floor_div(at.sql, 1_000_000), type_, parts)
        case "unix_millis", (at,):
            return strict(floor_div(at.sql, 1_000), type_, parts)
        case "date_trunc", (unit, at) if str(unit.constant).lower() in _TRUNCATED_US:
            us = _TRUNCATED_US[str(unit.constant).lower()]
            return strict(f"({at.sql} - {floor_mod(at.sql, us)})", type_, parts)
        case "date_add" | "dateadd" | "date_sub", (day, days):
            sign = "-" if name == "date_sub" else "+"
            return date_of_count(f"({cast_to(day, DATE).sql}::BIGINT {sign} {days.sql})", parts)
        case "date_from_unix_date", (days,):
            return date_of_count(f"{days.sql}::BIGINT", parts)
        case "datediff" | "date_diff", (end, start):
            return strict(f"({cast_to(end, DATE).sql} - {cast_to(start, DATE).sql})", type_, parts)
        case "substring_index", (text, mark, number) if _is_ascii_character(mark):
            return substring_index(text, mark, number)
        case "replace", (_, searched, _) if searched.is_constant and searched.constant:
            return strict(f"replace({_listed(parts)})", type_, parts)
        case "instr", (_, searched) if searched.is_constant and searched.constant:
            return strict(f"CAST(instr({_listed(parts)}) AS INTEGER)", type_, parts)
        case "substring" | "substr", (_, *where) if all(_is_positive(w) for w in where):
            return strict(f"substring({_listed(parts)})", type_, parts)
        case "left" | "right", (_, length) if _is_positive(length):
            return strict(f"{name}({_listed(parts)})", type_, parts)
        case "split_part", (_, mark, place) if _is_ascii_character(mark) and _is_positive(place):
            return strict(f"split_part({_listed(parts)})", type_, parts)
        case "pmod", (left, right) if _is_positive(right) and type_.is_integral:
            remainder = floor_mod(f"{left.sql}::HUGEINT", int(str(right.constant)))
            return strict(f"CAST({remainder} AS {duckdb_type(type_)})", type_, parts)
    raise NotTranspiled(name)


def coalesce(parts: tuple[Transpiled, ...], type_: SparkType) -> Transpiled:
    """The first part that is not NULL; the parts behind it are not evaluated."""
    fails = None
    for part in reversed(parts):
        fails = any_of(part.fails, provided(f"({part.sql}) IS NULL", fails))
    listed = ", ".join(as_type(part, type_).sql for part in parts)
    return Transpiled(sql=f"coalesce({listed})", type=type_, fails=fails)


def nanvl(parts: tuple[Transpiled, ...], type_: SparkType) -> Transpiled:
    """The second part where the first is NaN; it is evaluated only there."""
    first, second = (as_type(part, DOUBLE) for part in parts)
    is_nan = f"isnan({first.sql})"
    sql = f"(CASE WHEN {is_nan} THEN {second.sql} ELSE {first.sql} END)"
    later = provided(f"({is_nan}) IS TRUE", second.fails)
    return Transpiled(sql=sql, type=type_, fails=any_of(first.fails, later))


def whole(name: str, part: Transpiled, type_: SparkType) -> Transpiled:
    """floor and ceil of an integer or a double."""
    if part.type.is_integral:
        return as_type(part, type_)
    if part.type != DOUBLE:
        raise NotTranspiled(f"{name} of {part.type}")
    # The integer part of NaN is 0, as in Java.
    x = f"(CASE WHEN isnan({part.sql}) THEN 0.0::DOUBLE ELSE {part.sql} END)"
    near = Transpiled(sql=f"{name}({x})", type=DOUBLE)
    inside = f"({x} >= -{_BIGINT_BOUND} AND {x} < {_BIGINT_BOUND})"
    sql = f"(CASE WHEN {inside} THEN {integer_of_double(near, type_).sql} END)"
    return strict(sql, type_, (part,), fails=because((f"NOT {inside}", OVERFLOW)))


def date_of_count(days: str, parts: tuple[Transpiled, ...]) -> Transpiled:
    """A date from a number of days since 1970; it fails outside the years 1 to 9999."""
    inside = f"({days} BETWEEN {FIRST_DAY} AND {LAST_DAY})"
    sql = f"CAST(CASE WHEN {inside} THEN {days} END AS INTEGER)"
    return strict(sql, DATE, parts, fails=because((f"NOT {inside}", BEYOND_YEARS)))


def substring_index(text: Transpiled, mark: Transpiled, number: Transpiled) -> Transpiled:
    """The text before the n-th mark, or behind it counted from the end."""
    if type(number.constant) is not int:
        raise NotTranspiled("substring_index with a number that is not written out")
    count = number.constant
    parts = (text, mark, number)
    pieces = f"string_split({text.sql}, {mark.sql})"
    if count == 0:
        return strict(f"(CASE WHEN {text.sql} IS NULL THEN NULL ELSE '' END)", STRING, parts)
    first = f"greatest(len({pieces}) + {count + 1}, 1)"
    chosen = f"{pieces}[1:{count}]" if count > 0 else f"{pieces}[{first}:]"
    return strict(f"array_to_string({chosen}, {mark.sql})", STRING, parts)


def _listed(parts: tuple[Transpiled, ...]) -> str:
    return ", ".join(part.sql for part in parts)


def _is_positive(part: Transpiled) -> bool:
    """Whether it is a positive integer that is written out."""
    return type(part.constant) is int and part.constant > 0


def _is_ascii_character(part: Transpiled) -> bool:
    """Whether it is one ASCII character that is written out, so that matches cannot overlap."""
    text = part.constant
    return isinstance(text, str) and len(text) == 1 and text.isascii()
