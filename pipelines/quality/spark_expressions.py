"""Expressions as Spark evaluates them under ANSI rules, and whether it raises an error.

The expression itself is given to Spark, so that its meaning is Spark's own. It is changed where a
stream is stricter than Spark: a date or timestamp outside the years 1 to 9999, a text that is not
UTF-8, and a time of day without a date are errors where they are made; and where the result of an
aggregate function depends on the order of the records, which is event time, then all columns as
declared.

Spark says whether an expression raises an error on a record by `try_to_binary`, which is NULL if
its argument raises one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from sqlglot import exp

from medusa_core.columns import Column
from pipelines.quality.aggregate_calls import AggregateCall, aggregate_call
from pipelines.quality.emitted_groups import value_over_nothing
from pipelines.quality.expression_types import ExpressionTypes, suffix_of
from pipelines.quality.spark_types import BINARY, DATE, DOUBLE, STRING, TIMESTAMP
from pipelines.quality.stored_rows import STIME

_Change: TypeAlias = Callable[[exp.Expr], str]

_YEARS = {
    DATE: "v BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    TIMESTAMP: "v BETWEEN TIMESTAMP '0001-01-01 00:00:00' "
    "AND TIMESTAMP '9999-12-31 23:59:59.999999'",
}
_SECONDS_BOUND = "1E12D"
"""Far beyond the year 9999, and far below where a decimal wraps around as a timestamp."""
_TIME_OF_DAY = r"'^[^0-9A-Za-z]*([Tt]|[0-9]{1,2}:)'"

_ERROR = "raise_error('no column holds this value')"

AS_WRITTEN = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in (
            "BooleanSimplification",
            "ConstantFolding",
            "NullPropagation",
            "PushFoldableIntoBranches",
            "ReorderAssociativeOperator",
            "SimplifyConditionals",
            "UnwrapCastInBinaryComparison",
        )
    ),
}
"""Settings under which Spark evaluates expressions as they are written: errors are not optimised
away, and nothing is evaluated outside of the branch that it is in."""


def quoted(name: str) -> str:
    """The name of a column as Spark reads it."""
    return f"`{name}`"


def raises(texts: Iterable[str]) -> str:
    """A condition, never NULL, that is true iff evaluating the texts in order raises an error."""
    return f"(try_to_binary(CAST(xxhash64({', '.join(texts)}) AS STRING), 'utf-8') IS NULL)"


class SparkExpressions:
    """Writes parsed expressions over columns as text for Spark.

    `window` names a window of SQL, if aggregate functions are those over the window of each row.
    """

    def __init__(self, columns: Mapping[str, Column], window: str | None = None) -> None:
        self._columns = columns
        self._window = window
        self._types = ExpressionTypes(columns)

    def text(self, node: exp.Expr) -> str:
        """The expression with its checks; aggregate functions in the order of the records."""
        root = exp.Paren(this=node.copy())
        parts = [part for part in root.walk() if part is not root]
        # All before the first is replaced: what it is replaced by has no type.
        changes = {id(part): self._change(part) for part in parts}
        for part in reversed(parts):
            change = changes[id(part)]
            if change is not None:
                part.replace(exp.Var(this=change(part)))
        return root.sql(dialect="spark")

    def arguments(self, node: exp.Expr) -> list[str]:
        """What the aggregate functions of an expression evaluate for each record."""
        found = []
        for part in node.walk():
            call = None if _is_inside_call(part) else aggregate_call(part)
            if call is not None and call.arguments:
                listed = [self.text(argument) for argument in call.arguments]
                if call.only is not None:
                    only = self.text(call.only)
                    listed = [only, f"IF({only}, xxhash64({', '.join(listed)}), NULL)"]
                found += listed
            elif call is not None and call.only is not None:
                found.append(self.text(call.only))
        return found

    def _change(self, node: exp.Expr) -> _Change | None:
        """How the text of a node differs from what its author wrote; None if it does not."""
        if isinstance(node, exp.Column):
            return lambda column: quoted(column.name.lower())
        if isinstance(node, exp.TryCast):
            suffix = suffix_of(node)
            if suffix:
                return lambda number: f"{number.this.this}{suffix}"
            return self._change_of_cast(node)
        if aggregate_call(node) is not None:
            return None if _is_inside_call(node) else self._change_of_aggregate(node)
        if isinstance(node, exp.Anonymous):
            return self._change_of_function(node)
        return None

    def _change_of_cast(self, node: exp.TryCast) -> _Change | None:
        source, target = self._types.of(node.this), self._types.of(node)
        is_tried = bool(node.args.get("safe"))
        if (source, target) == (BINARY, STRING):
            return lambda cast: _checked(_sql(cast), "is_valid_utf8(v)", "STRING", is_tried)
        if target not in _YEARS or source in (target, DATE, TIMESTAMP):
            return None
        condition = "true"
        if (source, target) == (STRING, TIMESTAMP):
            condition = f"NOT v RLIKE {_TIME_OF_DAY}"
        elif source.is_decimal:
            condition = f"abs(CAST(v AS DOUBLE)) < {_SECONDS_BOUND}"
        word = "TRY_CAST" if is_tried else "CAST"

        def change(cast: exp.Expr) -> str:
            value = f"{word}(v AS {target})"
            made = _checked(_sql(cast.this), condition, str(target), is_tried, value)
            return _checked(made, _YEARS[target], str(target), is_tried)

        return change

    def _change_of_function(self, node: exp.Anonymous) -> _Change | None:
        name, type_ = str(node.this).lower(), self._types.of(node)
        if type_ in _YEARS:
            is_tried = name.startswith("try_")
            return lambda call: _checked(_sql(call), _YEARS[type_], str(type_), is_tried)
        return None

    def _change_of_aggregate(self, node: exp.Expr) -> _Change | None:
        call = aggregate_call(node)
        assert call is not None
        as_it_is = None if self._window is None else self._as_it_is
        if not call.arguments:
            return as_it_is
        of = self._types.of(call.arguments[0])
        if call.name in ("sum", "avg"):
            return self._sum if of.is_integral else as_it_is
        zero = " + 0.0D" if of == DOUBLE else ""
        return lambda changed: self._in_order(changed, zero)

    def _in_order(self, node: exp.Expr, zero: str) -> str:
        """An aggregate function whose result does not depend on the order of the records.

        `zero` is added to doubles: 0.0 and -0.0 compare as equal, and either may come first.
        """
        call = aggregate_call(node)
        assert call is not None
        x = _sql(call.arguments[0])
        x = f"({x}{zero})" if zero else x
        order = [quoted(STIME), *(quoted(name) for name in self._columns)]
        match call.name:
            case "first" | "last":
                function = "min_by" if call.name == "first" else "max_by"
                also = f"{x} IS NOT NULL" if call.skips_nulls else ""
                return self._over(call, function, [x, f"struct({', '.join(order)})"], also)
            case "min_by" | "max_by":
                by = _sql(call.arguments[1])
                ordered = f"struct({', '.join((by, *order))})"
                return self._over(call, call.name, [x, ordered], f"{by} IS NOT NULL")
            case "collect_list":
                fields = (f"'f{at}', {text}" for at, text in enumerate(order))
                row = f"named_struct({', '.join(fields)}, 'value', {x})"
                listed = self._over(call, call.name, [row], f"{x} IS NOT NULL")
                return f"transform(array_sort({listed}), r -> r.value)"
            case "collect_set":
                return f"sort_array({self._over(call, call.name, [x])})"
            case "min" | "max":
                return f"({self._over(call, call.name, [x])})"
        return _sql(node) if self._window is None else self._as_it_is(node)

    def _as_it_is(self, node: exp.Expr) -> str:
        """An aggregate function whose text changes by the window alone."""
        call = aggregate_call(node)
        assert call is not None
        return self._over(call, call.name, [_sql(argument) for argument in call.arguments] or ["1"])

    def _sum(self, node: exp.Expr) -> str:
        """A sum or average of integers: a sum overflows only if the total does."""
        call = aggregate_call(node)
        assert call is not None
        x = _sql(call.arguments[0])
        total = self._over(call, "sum", [f"CAST({x} AS DECIMAL(38,0))"])
        if call.name == "sum":
            return f"CAST({total} AS BIGINT)"
        count = self._over(call, "count", [x])
        return f"(CAST({total} AS DOUBLE) / nullif(CAST({count} AS DOUBLE), 0D))"

    def _over(
        self, call: AggregateCall, function: str, arguments: list[str], also: str = ""
    ) -> str:
        """A call over the records of the FILTER that meet another condition too.

        Spark has no FILTER in a window: the arguments are NULL for the other records.
        """
        only = "" if call.only is None else _sql(call.only)
        conditions = " AND ".join(f"({c})" for c in (only, also) if c)
        if self._window is not None:
            if conditions:
                arguments = [f"IF({conditions}, {text}, NULL)" for text in arguments]
            return f"{function}({', '.join(arguments)}) OVER {self._window}"
        distinct = "DISTINCT " if call.is_distinct and function in ("sum", "count") else ""
        sql = f"{function}({distinct}{', '.join(arguments)})"
        return f"{sql} FILTER (WHERE {conditions})" if conditions else sql


class OverNothing(SparkExpressions):
    """Writes expressions over a group without records."""

    def _change(self, node: exp.Expr) -> _Change | None:
        if aggregate_call(node) is None:
            return super()._change(node)
        value = value_over_nothing(node, str(self._types.of(node)))
        return None if _is_inside_call(node) else lambda _: str(value)


def _is_inside_call(node: exp.Expr) -> bool:
    """Whether a node is an aggregate function to which its parent belongs too."""
    return isinstance(node.parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls)


def _sql(node: exp.Expr) -> str:
    return node.sql(dialect="spark")


def _checked(text: str, condition: str, type_: str, is_tried: bool, value: str = "v") -> str:
    """`value` of v, which is the text's; an error (`is_tried`: NULL) if the condition is false."""
    otherwise = f"CAST({'NULL' if is_tried else _ERROR} AS {type_})"
    body = f"IF(({condition}) IS FALSE, {otherwise}, {value})"
    return f"get(transform(array({text}), v -> {body}), 0)"
