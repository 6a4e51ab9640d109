"""Aggregates carried over: over the records of a window and group, exactly as Spark defines them.

Sums of doubles and what is built on them are left to Spark, and so are lists and approximations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from medusa_core.columns import Column, decimal_shape
from pipelines.language import coercion
from pipelines.language.functions import AGGREGATES
from pipelines.quality.transpile_functions import CarryingScalars
from pipelines.quality.transpiled import (
    Carried,
    NotCarried,
    any_of,
    duckdb_type,
    name_of,
    provided,
)
from pipelines.storage.arrow_schema import STIME

_SAME_NAME = {
    "every": "bool_and", "some": "bool_or", "any": "bool_or", "first_value": "first",
    "last_value": "last", "mean": "avg",
}  # fmt: skip
_HALF = 2**32


@dataclass
class CarryingAggregates(CarryingScalars):
    """Carries expressions over aggregates; outside of these there are the group's columns alone.

    `record_fails` collects when a record cannot be used, a condition over the record.
    """

    columns: Mapping[str, Column]
    record_fails: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = CarryingScalars(self.columns)

    def carry(self, node: exp.Expr) -> Carried:
        match node:
            case exp.Filter():
                return self.aggregate(node.this, node.expression.this)
            case exp.IgnoreNulls() | exp.RespectNulls():
                return self.aggregate(node, None)
        return super().carry(node)

    def call(self, name: str, arguments: list[exp.Expr]) -> Carried:
        if name in AGGREGATES:
            return self.aggregate(exp.Anonymous(this=name, expressions=arguments), None)
        return super().call(name, arguments)

    def aggregate(self, node: exp.Expr, only: exp.Expr | None) -> Carried:
        """One aggregate function with its DISTINCT, NULLS and FILTER."""
        skips_nulls = isinstance(node, exp.IgnoreNulls)
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            node = node.this
        name = str(node.this).lower()
        name = _SAME_NAME.get(name, name)
        arguments = list(node.expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
            skips_nulls, arguments = True, [arguments[0].this]
        is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        if is_distinct:
            arguments = list(arguments[0].expressions)
        if name in ("first", "last") and len(arguments) == 2:
            skips_nulls |= self.rows.carry(arguments.pop()).constant is True
        condition = None if only is None else self.rows.carry(only)
        is_star = len(arguments) == 1 and isinstance(arguments[0], exp.Star)
        parts = () if is_star else tuple(self.rows.carry(a) for a in arguments)
        self.note_failures(parts, condition)
        call = _Call(name, parts, is_distinct, None if condition is None else condition.sql)
        return call.carried(self.columns, skips_nulls)

    def note_failures(self, parts: tuple[Carried, ...], condition: Carried | None) -> None:
        """When a record fails on its way into an aggregate."""
        # Every argument is looked at, whatever the one before it is.
        fails = any_of(*(part.fails for part in parts))
        if condition is not None:
            later = provided(f"({condition.sql}) IS TRUE", fails)
            fails = any_of(condition.fails, later)
        if fails is not None:
            self.record_fails.append(fails)


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    parts: tuple[Carried, ...]
    is_distinct: bool
    only: str | None

    def over(self, call: str, *also: str) -> str:
        """An aggregate call over the records that its FILTER lets in."""
        wanted = [f"({c})" for c in (self.only, *also) if c]
        return f"({call} FILTER (WHERE {' AND '.join(wanted)}))" if wanted else call

    def plain(self, function: str) -> str:
        """The function over its one argument."""
        distinct = "DISTINCT " if self.is_distinct else ""
        return self.over(f"{function}({distinct}{self.parts[0].sql})")

    def carried(self, columns: Mapping[str, Column], skips_nulls: bool) -> Carried:
        """The value of the call over a group."""
        match self.name:
            case "count":
                return Carried(sql=f"CAST({self.count()} AS BIGINT)", type="bigint")
            case "count_if":
                sql = self.over("count(*)", self.parts[0].sql)
                return Carried(sql=f"CAST({sql} AS BIGINT)", type="bigint")
            case "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor" | "min" | "max":
                type_ = self.parts[0].type
                sql = f"CAST({self.plain(self.name)} AS {duckdb_type(type_)})"
                return Carried(sql=sql, type=type_)
            case "sum":
                return self.sum()
            case "avg":
                return self.average()
            case "first" | "last":
                there = f"{self.parts[0].sql} IS NOT NULL" if skips_nulls else ""
                return self.in_order(columns, (), self.name == "last", there)
            case "min_by" | "max_by":
                order = self.parts[1].sql
                there = f"{order} IS NOT NULL"
                return self.in_order(columns, (order,), self.name == "max_by", there)
        raise NotCarried(self.name)

    def count(self) -> str:
        there = [f"{part.sql} IS NOT NULL" for part in self.parts]
        if not self.is_distinct:
            return self.over("count(*)", *there)
        if len(self.parts) == 1:
            return self.plain("count")
        listed = ", ".join(part.sql for part in self.parts)
        return self.over(f"count(DISTINCT ({listed}))", *there)

    def sum(self) -> Carried:
        x = self.parts[0]
        if coercion.is_decimal(x.type):
            precision, scale = decimal_shape(x.type)
            type_ = coercion.decimal(precision + 10, scale)
            return Carried(sql=f"CAST({self.plain('sum')} AS {duckdb_type(type_)})", type=type_)
        if x.type not in coercion.INTEGRAL:
            raise NotCarried("a sum of doubles")
        total = self.plain("sum")
        sql = f"TRY_CAST({total} AS BIGINT)"
        if x.type == "int" and not self.is_distinct:
            return Carried(sql=sql, type="bigint")
        return Carried(sql=sql, type="bigint", fails=f"({total} IS NOT NULL AND {sql} IS NULL)")

    def average(self) -> Carried:
        """The exact sum, rounded once to a double, by the count."""
        if self.parts[0].type not in coercion.INTEGRAL or self.is_distinct:
            raise NotCarried(f"avg of {self.parts[0].type}")
        total, count = self.plain("sum"), self.plain("count")
        low = f"((({total} % {_HALF}) + {_HALF}) % {_HALF})"
        high = f"(({total} - {low}) // {_HALF})"
        rounded = f"(CAST({high} AS DOUBLE) * {_HALF}.0::DOUBLE + CAST({low} AS DOUBLE))"
        sql = f"({rounded} / nullif(CAST({count} AS DOUBLE), 0.0::DOUBLE))"
        return Carried(sql=sql, type="double")

    def in_order(
        self, columns: Mapping[str, Column], first_by: tuple[str, ...], is_last: bool, also: str
    ) -> Carried:
        """The value in the first or last record: event time, then all columns as declared."""
        value = self.parts[0]
        way = "DESC NULLS LAST" if is_last else "ASC NULLS FIRST"
        keys = (*first_by, name_of(STIME), *(name_of(c) for c in columns), value.sql)
        order = ", ".join(f"{key} {way}" for key in keys)
        return Carried(sql=self.over(f"first({value.sql} ORDER BY {order})", also), type=value.type)
