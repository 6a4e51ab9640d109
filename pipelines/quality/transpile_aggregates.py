"""Aggregates in DuckDB, over the records of a window and group, exactly as Spark defines them.

Sums of doubles and their derivatives are left to Spark, and so are lists and approximations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from medusa_core.columns import Column
from pipelines.quality.aggregate_calls import AggregateCall, aggregate_call
from pipelines.quality.spark_types import BIGINT, DIGITS_MAX, DOUBLE, INT, SparkType
from pipelines.quality.stored_rows import STIME
from pipelines.quality.transpile_functions import ScalarTranspiler
from pipelines.quality.transpiled import (
    OVERFLOW,
    NotTranspiled,
    Transpiled,
    any_of,
    because,
    duckdb_type,
    provided,
    quoted_name,
)

_HALF = 2**32


class AggregateTranspiler(ScalarTranspiler):
    """Transpiles expressions over aggregates and the columns of the group.

    `record_fails` collects the failures of records, which cannot be aggregated. `window` names a
    window of SQL, if the values are those over the window of each row.
    """

    def __init__(self, columns: Mapping[str, Column], window: str | None = None) -> None:
        super().__init__(columns)
        self.window = window
        self.records = ScalarTranspiler(columns)
        self.record_fails: list[str] = []

    def transpile(self, node: exp.Expr) -> Transpiled:
        call = aggregate_call(node)
        return super().transpile(node) if call is None else self.aggregate(call, node)

    def aggregate(self, call: AggregateCall, node: exp.Expr) -> Transpiled:
        """One aggregate function over the records of a group."""
        parts = tuple(self.records.transpile(argument) for argument in call.arguments)
        only = None if call.only is None else self.records.transpile(call.only)
        # Every argument is evaluated, also behind one that is NULL.
        fails = any_of(*(part.fails for part in parts))
        if only is not None:
            fails = any_of(only.fails, provided(f"({only.sql}) IS TRUE", fails))
        if fails is not None:
            self.record_fails.append(fails)
        passes = None if only is None else only.sql
        group = _Group(call, parts, passes, self.types.of(node), self.window)
        return group.value(self.columns)


@dataclass(frozen=True, slots=True)
class _Group:
    """A call over the records of a group that its FILTER lets pass."""

    call: AggregateCall
    parts: tuple[Transpiled, ...]
    only: str | None
    type: SparkType
    window: str | None

    def over(self, call: str, *also: str) -> str:
        """A call over the records of the FILTER that meet other conditions too."""
        conditions = [f"({c})" for c in (self.only, *also) if c]
        only = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        over = f" OVER {self.window}" if self.window else ""
        return f"({call}{only}{over})" if only or over else call

    def plain(self, function: str) -> str:
        """A function of the one argument."""
        distinct = "DISTINCT " if self.call.is_distinct else ""
        return self.over(f"{function}({distinct}{self.parts[0].sql})")

    def value(self, columns: Mapping[str, Column]) -> Transpiled:
        """The value of the group."""
        match self.call.name:
            case "count":
                return self.cast(self.count())
            case "count_if":
                return self.cast(self.over("count(*)", self.parts[0].sql))
            case "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor" | "min" | "max":
                return self.cast(self.plain(self.call.name))
            case "sum":
                return self.sum()
            case "avg":
                return self.average()
            case "first" | "last":
                condition = f"{self.parts[0].sql} IS NOT NULL" if self.call.skips_nulls else ""
                return self.in_order(columns, (), self.call.name == "last", condition)
            case "min_by" | "max_by":
                order = self.parts[1].sql
                is_last = self.call.name == "max_by"
                return self.in_order(columns, (order,), is_last, f"{order} IS NOT NULL")
        raise NotTranspiled(self.call.name)

    def cast(self, sql: str) -> Transpiled:
        """A value in the type that Spark gives it; 0.0 for -0.0."""
        zero = " + 0.0::DOUBLE" if self.type == DOUBLE else ""
        return Transpiled(sql=f"(CAST({sql} AS {duckdb_type(self.type)}){zero})", type=self.type)

    def count(self) -> str:
        not_null = [f"{part.sql} IS NOT NULL" for part in self.parts]
        if not self.call.is_distinct:
            return self.over("count(*)", *not_null)
        if len(self.parts) == 1:
            return self.plain("count")
        listed = ", ".join(part.sql for part in self.parts)
        return self.over(f"count(DISTINCT ({listed}))", *not_null)

    def sum(self) -> Transpiled:
        x, total = self.parts[0].type, self.plain("sum")
        if x.is_decimal and x.precision + 10 <= DIGITS_MAX:
            return self.cast(total)
        if not x.is_integral:
            raise NotTranspiled(f"a sum of {x}")
        sql = f"TRY_CAST({total} AS BIGINT)"
        if x == INT and not self.call.is_distinct:
            return Transpiled(sql=sql, type=BIGINT)
        fails = because((f"{total} IS NOT NULL AND {sql} IS NULL", OVERFLOW))
        return Transpiled(sql=sql, type=BIGINT, fails=fails)

    def average(self) -> Transpiled:
        """The exact sum, rounded once to a double, divided by the count."""
        if not self.parts[0].type.is_integral or self.call.is_distinct:
            raise NotTranspiled(f"avg of {self.parts[0].type}")
        total, count = self.plain("sum"), self.plain("count")
        low = f"((({total} % {_HALF}) + {_HALF}) % {_HALF})"
        high = f"(({total} - {low}) // {_HALF})"
        rounded = f"(CAST({high} AS DOUBLE) * {_HALF}.0::DOUBLE + CAST({low} AS DOUBLE))"
        return self.cast(f"({rounded} / nullif(CAST({count} AS DOUBLE), 0.0::DOUBLE))")

    def in_order(
        self,
        columns: Mapping[str, Column],
        first_by: tuple[str, ...],
        is_last: bool,
        condition: str,
    ) -> Transpiled:
        """The value in the first or last record: by event time, then all columns as declared."""
        value = self.parts[0]
        if self.window is not None:
            return self.in_order_of_frame(columns, first_by, is_last, condition)
        direction = "DESC NULLS LAST" if is_last else "ASC NULLS FIRST"
        keys = (*first_by, quoted_name(STIME), *(quoted_name(c) for c in columns), value.sql)
        order = ", ".join(f"{key} {direction}" for key in keys)
        return self.cast(self.over(f"first({value.sql} ORDER BY {order})", condition))

    def in_order_of_frame(
        self,
        columns: Mapping[str, Column],
        first_by: tuple[str, ...],
        is_last: bool,
        condition: str,
    ) -> Transpiled:
        """The like over a window, whose records are in canonical order.

        DuckDB 2.0 has no FILTER for first_value. A value is a struct, which is not NULL if the
        value is; keys are pairs, so that NULL comes before the others.
        """
        also = " AND ".join(f"({c})" for c in (self.only, condition) if c) or "true"
        value = f"CASE WHEN {also} THEN struct_pack(v := {self.parts[0].sql}) END"
        if not first_by:
            call = f"{'last_value' if is_last else 'first_value'}({value} IGNORE NULLS)"
            return self.cast(f"(({call} OVER {self.window}).v)")
        keys = (*first_by, quoted_name(STIME), *(quoted_name(c) for c in columns))
        pairs = (f"n{at} := {key} IS NOT NULL, k{at} := {key}" for at, key in enumerate(keys))
        call = f"{'arg_max' if is_last else 'arg_min'}({value}, struct_pack({', '.join(pairs)}))"
        return self.cast(f"(({call} OVER {self.window}).v)")
