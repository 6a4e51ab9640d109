"""Functions of one record carried over: those of which both engines are known to make the same.

Left to Spark on purpose: upper and lower (`ß`), patterns, formats, text to numbers and times,
rounded doubles, logarithms and powers (last digits), hashes, arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from pipelines.language import coercion
from pipelines.quality.transpile import Carrying
from pipelines.quality.transpiled import (
    DAY_US,
    FIRST_DAY,
    LAST_DAY,
    Carried,
    NotCarried,
    any_of,
    duckdb_type,
    floor_div,
    floor_mod,
    provided,
    strictly,
)
from pipelines.quality.transpiled_types import (
    as_type,
    cast_to,
    common_type,
    counted_time,
    in_common,
    whole_of_double,
)

_TRIED = {
    "try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/", "try_mod": "%",
}  # fmt: skip
_PLAIN: Mapping[str, tuple[str, str]] = {
    "length": ("length({0})", "int"),
    "char_length": ("length({0})", "int"),
    "character_length": ("length({0})", "int"),
    "len": ("length({0})", "int"),
    "octet_length": ("octet_length(encode({0}))", "int"),
    "trim": ("trim({0})", "string"),
    "btrim": ("trim({0})", "string"),
    "ltrim": ("ltrim({0})", "string"),
    "rtrim": ("rtrim({0})", "string"),
    "contains": ("contains({0}, {1})", "boolean"),
    "startswith": ("starts_with({0}, {1})", "boolean"),
    "endswith": ("ends_with({0}, {1})", "boolean"),
    "md5": ("md5({0})", "string"),
    "unix_micros": ("{0}", "bigint"),
    "unix_date": ("{0}", "int"),
}
"""DuckDB's form over arguments that Spark takes as they are, and the type of the value."""
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
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000, "day": DAY_US, "dd": DAY_US,
}  # fmt: skip
_COUNTED = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}


class CarryingScalars(Carrying):
    """Carries expressions over one record."""

    def call(self, name: str, arguments: list[exp.Expr]) -> Carried:
        special: Mapping[str, Callable[[list[exp.Expr]], Carried]] = {
            "coalesce": self.coalesce, "nvl": self.coalesce, "ifnull": self.coalesce,
            "nvl2": self.nvl2, "nullif": self.nullif, "if": self.if_call, "nanvl": self.nanvl,
            "isnan": self.is_nan, "abs": self.absolute, "concat": self.concat,
            "greatest": lambda a: self.extreme("greatest", a),
            "least": lambda a: self.extreme("least", a),
            "isnull": lambda a: self.carry(exp.Is(this=a[0], expression=exp.Null())),
            "isnotnull": lambda a: self.carry(
                exp.Not(this=exp.Is(this=a[0], expression=exp.Null()))
            ),
            "equal_null": lambda a: self.carry(exp.NullSafeEQ(this=a[0], expression=a[1])),
            "negative": lambda a: self.negative(exp.Paren(this=a[0])),
            "mod": lambda a: self.carry(exp.Mod(this=a[0], expression=a[1])),
            "like": lambda a: self.carry(exp.Like(this=a[0], expression=a[1])),
            "floor": lambda a: self.whole("floor", a), "ceil": lambda a: self.whole("ceil", a),
            "ceiling": lambda a: self.whole("ceil", a),
        }  # fmt: skip
        if name in special:
            return special[name](arguments)
        parts = tuple(self.carry(node) for node in arguments)
        if name in _TRIED:
            return self.arithmetic(_TRIED[name], *parts, tried=True)
        if name in _PLAIN:
            form, type_ = _PLAIN[name]
            sql = form.format(*(part.sql for part in parts))
            return strictly(f"CAST({sql} AS {duckdb_type(type_)})", type_, parts)
        if name in _OF_DAY:
            form = _OF_DAY[name].format(f"(DATE '1970-01-01' + {cast_to(parts[0], 'date').sql})")
            return strictly(f"CAST({form} AS INTEGER)", "int", parts)
        if name in _SECONDS:
            unit_us, of = _SECONDS[name]
            sql = floor_mod(floor_div(parts[0].sql, unit_us), of)
            return strictly(f"CAST({sql} AS INTEGER)", "int", parts)
        if name in _COUNTED:
            return counted_time(parts[0], _COUNTED[name])
        return self.by_rule(name, parts)

    def by_rule(self, name: str, parts: tuple[Carried, ...]) -> Carried:
        """Functions that are carried for some of their arguments only."""
        match name, parts:
            case "unix_seconds", (at,):
                return strictly(floor_div(at.sql, 1_000_000), "bigint", parts)
            case "unix_millis", (at,):
                return strictly(floor_div(at.sql, 1_000), "bigint", parts)
            case "date_trunc", (unit, at) if str(unit.constant).lower() in _TRUNCATED_US:
                us = _TRUNCATED_US[str(unit.constant).lower()]
                return strictly(f"({at.sql} - {floor_mod(at.sql, us)})", "timestamp", parts)
            case "date_add" | "dateadd" | "date_sub", (day, days):
                sign = "-" if name == "date_sub" else "+"
                on = cast_to(day, "date").sql
                return a_day(f"({on}::BIGINT {sign} {days.sql})", parts)
            case "date_from_unix_date", (days,):
                return a_day(f"{days.sql}::BIGINT", parts)
            case "datediff" | "date_diff", (end, start):
                a, b = (cast_to(day, "date").sql for day in (end, start))
                return strictly(f"({a} - {b})", "int", parts)
            case "substring_index", (text, mark, number) if _is_a_mark(mark):
                return substring_index(text, mark, number)
            case "replace", (_, wanted, _) if wanted.is_written_out and wanted.constant:
                return strictly(f"replace({_listed(parts)})", "string", parts)
            case "instr", (_, wanted) if wanted.is_written_out and wanted.constant:
                return strictly(f"CAST(instr({_listed(parts)}) AS INTEGER)", "int", parts)
            case "substring" | "substr", (_, *where) if all(_is_count(w) for w in where):
                return strictly(f"substring({_listed(parts)})", "string", parts)
            case "left" | "right", (_, length) if _is_count(length):
                return strictly(f"{name}({_listed(parts)})", "string", parts)
            case "split_part", (_, mark, place) if _is_a_mark(mark) and _is_count(place):
                return strictly(f"split_part({_listed(parts)})", "string", parts)
            case "pmod", (left, right) if _is_count(right) and left.type in coercion.INTEGRAL:
                type_ = str(coercion.common_type(left.type, right.type))
                value = floor_mod(f"{left.sql}::HUGEINT", int(str(right.constant)))
                return strictly(f"CAST({value} AS {duckdb_type(type_)})", type_, parts)
            case "sqrt", (x,):
                return strictly(f"sqrt({as_type(x, 'double').sql})", "double", parts)
        raise NotCarried(name)

    # what looks at some of its arguments only

    def if_call(self, arguments: list[exp.Expr]) -> Carried:
        test, then, otherwise = (self.carry(node) for node in arguments)
        return self.choice([(test, then)], otherwise)

    def nvl2(self, arguments: list[exp.Expr]) -> Carried:
        subject, then, otherwise = (self.carry(node) for node in arguments)
        test = Carried(sql=f"({subject.sql} IS NOT NULL)", type="boolean", fails=subject.fails)
        return self.choice([(test, then)], otherwise)

    def coalesce(self, arguments: list[exp.Expr]) -> Carried:
        parts = [self.carry(node) for node in arguments]
        type_ = common_type(parts)
        fails = None
        for part in reversed(parts):
            fails = any_of(part.fails, provided(f"({part.sql}) IS NULL", fails))
        listed = ", ".join(as_type(part, type_).sql for part in parts)
        return Carried(sql=f"coalesce({listed})", type=type_, fails=fails)

    def nullif(self, arguments: list[exp.Expr]) -> Carried:
        left, right = (self.carry(node) for node in arguments)
        a, b = in_common(left, right)
        sql = f"(CASE WHEN {a.sql} = {b.sql} THEN NULL ELSE {left.sql} END)"
        return strictly(sql, left.type, (left, right))

    def nanvl(self, arguments: list[exp.Expr]) -> Carried:
        first, second = (as_type(self.carry(node), "double") for node in arguments)
        is_nan = f"isnan({first.sql})"
        sql = f"(CASE WHEN {is_nan} THEN {second.sql} ELSE {first.sql} END)"
        later = provided(f"({is_nan}) IS TRUE", second.fails)
        return Carried(sql=sql, type="double", fails=any_of(first.fails, later))

    def is_nan(self, arguments: list[exp.Expr]) -> Carried:
        part = self.carry(arguments[0])
        sql = f"coalesce(isnan({as_type(part, 'double').sql}), false)"
        return Carried(sql=sql, type="boolean", fails=part.fails)

    def absolute(self, arguments: list[exp.Expr]) -> Carried:
        part = self.carry(arguments[0])
        if part.type in coercion.INTEGRAL:
            sql = f"TRY_CAST(abs({part.sql}::HUGEINT) AS {duckdb_type(part.type)})"
            return strictly(sql, part.type, (part,), fails=f"{sql} IS NULL")
        return strictly(f"abs({part.sql})", part.type, (part,))

    def concat(self, arguments: list[exp.Expr]) -> Carried:
        parts = tuple(self.carry(node) for node in arguments)
        texts = (cast_to(part, "string").sql for part in parts)
        return strictly(f"({' || '.join(texts)})", "string", parts)

    def extreme(self, name: str, arguments: list[exp.Expr]) -> Carried:
        parts = [self.carry(node) for node in arguments]
        type_ = common_type(parts)
        listed = ", ".join(as_type(part, type_).sql for part in parts)
        fails = any_of(*(part.fails for part in parts))
        return Carried(sql=f"{name}({listed})", type=type_, fails=fails)

    def whole(self, name: str, arguments: list[exp.Expr]) -> Carried:
        part = self.carry(arguments[0])
        if part.type in coercion.INTEGRAL:
            return as_type(part, "bigint")
        if part.type != "double":
            raise NotCarried(f"{name} of {part.type}")
        # What is no number has 0 as its whole part, as in Java.
        x = f"(CASE WHEN isnan({part.sql}) THEN 0.0::DOUBLE ELSE {part.sql} END)"
        near = Carried(sql=f"{name}({x})", type="double")
        inside = f"({x} >= -9223372036854775808.0::DOUBLE AND {x} < 9223372036854775808.0::DOUBLE)"
        sql = f"(CASE WHEN {inside} THEN {whole_of_double(near, 'bigint').sql} END)"
        return strictly(sql, "bigint", (part,), fails=f"NOT {inside}")


def a_day(days: str, parts: tuple[Carried, ...]) -> Carried:
    """A date from its number of days, in the years 1 to 9999."""
    inside = f"({days} BETWEEN {FIRST_DAY} AND {LAST_DAY})"
    sql = f"CAST(CASE WHEN {inside} THEN {days} END AS INTEGER)"
    return strictly(sql, "date", parts, fails=f"NOT {inside}")


def substring_index(text: Carried, mark: Carried, number: Carried) -> Carried:
    """The text before the n-th mark, or behind it counted from the end."""
    if type(number.constant) is not int:
        raise NotCarried("substring_index with a number that is not written out")
    count = number.constant
    parts = (text, mark, number)
    pieces = f"string_split({text.sql}, {mark.sql})"
    if count == 0:
        return strictly(f"(CASE WHEN {text.sql} IS NULL THEN NULL ELSE '' END)", "string", parts)
    first = f"greatest(len({pieces}) + {count + 1}, 1)"
    kept = f"{pieces}[1:{count}]" if count > 0 else f"{pieces}[{first}:]"
    return strictly(f"array_to_string({kept}, {mark.sql})", "string", parts)


def _listed(parts: tuple[Carried, ...]) -> str:
    return ", ".join(part.sql for part in parts)


def _is_count(part: Carried) -> bool:
    """Whether it is a whole number above zero that is written out."""
    return type(part.constant) is int and part.constant > 0


def _is_a_mark(part: Carried) -> bool:
    """Whether it is one ASCII character that is written out, so that marks cannot overlap."""
    text = part.constant
    return isinstance(text, str) and len(text) == 1 and text.isascii()
