"""Aggregates, rewritten so that a group's value depends on its rows and not on their order.

Exact as they are: counts, minima and maxima, logic and bits, sums of int and decimal. Exact by
rewrite: the first or last row is that of the canonical order (event time, then all columns as
declared); a sum of bigint is added up in two halves, so that it overflows only if the total does,
not on the way; an average is an exact sum divided once. Sums of doubles and their derivatives are
equal within a tolerance, and are marked.

Running values are the same functions OVER a window of SQL that holds the rows up to a record, in
canonical order. Spark has no FILTER there, so that the arguments are NULL in its place. Left out
are functions with DISTINCT, which Spark does not have there either; lists, which would grow with
the square of the records; and what is known only within a tolerance, but for sums and averages.

Limit: a window's rows are counted in 31 bits; beyond two thousand million rows per group a sum
may fail. A list of a group's values lives in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from medusa_core.columns import Column, decimal_shape
from medusa_core.suggest import counted
from pipelines.language import coercion
from pipelines.language.calls import Scalars
from pipelines.language.compiled_terms import Term, both, first_in_order
from pipelines.language.failure_causes import Failure, FailureCause, first_of, only_if
from pipelines.language.functions import AGGREGATES, TOLERANCE_ONLY
from pipelines.language.inexact_values import inexact_values
from pipelines.language.leaves import fits
from pipelines.language.parsing import parse
from pipelines.language.scope import Scope, article, finished

EVENT_TIME = "`_stime`"
DECIMAL_DIGITS_MAX = 28
_LOW_HALF = "4294967295L"
_ONE_NAME = {
    "mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or",
    "first_value": "first", "last_value": "last", "array_agg": "collect_list",
    "std": "stddev", "approx_percentile": "percentile_approx",
}  # fmt: skip
_TWO_COLUMNS = ("corr", "covar_pop", "covar_samp")


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """An aggregate function in compiled SQL: `sql` is its text there, with its FILTER.

    `only` is the condition of the FILTER, None without one.
    """

    sql: str
    function: str
    arguments: tuple[str, ...]
    is_distinct: bool
    only: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledAggregate:
    """A checked aggregate expression as Spark SQL over the rows of a group.

    `sql` never raises, once the rows on which there is a `record_failure` are removed: a failure
    over one input record, None if no record can fail. `failure` is one over the group, in
    aggregate functions like `sql` itself, where the value of the group is lost.
    """

    sql: str
    type: str
    failure: Failure | None = None
    record_failure: Failure | None = None
    tolerance_only: bool = False
    calls: tuple[AggregateCall, ...] = ()

    @property
    def error(self) -> str | None:
        """The condition under which a group fails; None if none can."""
        return None if self.failure is None else self.failure.condition

    @property
    def record_error(self) -> str | None:
        """The condition under which a record fails; None if none can."""
        return None if self.record_failure is None else self.record_failure.condition


def compile_aggregate(
    text: str,
    columns: Mapping[str, Column],
    *,
    where: str,
    group_by: tuple[str, ...] = (),
    tolerance_only: frozenset[str] = frozenset(),
    running_over: str | None = None,
) -> CompiledAggregate:
    """Check an aggregate expression over `columns` (in declared order) and compile it.

    Raises Refused, naming `where`. Outside aggregate functions only columns of `group_by` may be
    named. `running_over` names a window of SQL: the value of each row is that over its window.
    """
    scope = Scope(where=where, text=text, columns=columns, tolerance_only=tolerance_only)
    tree = parse(text, where)
    compiler = Aggregates(scope, group_by, running_over)
    try:
        compiled = finished(scope, compiler.term(tree))
    except RecursionError:
        raise scope.refused("is nested too deeply: split it over two boxes") from None
    return CompiledAggregate(
        sql=compiled.sql,
        type=compiled.type,
        failure=compiled.failure,
        record_failure=first_of(*dict.fromkeys(compiler.record_failures)),
        tolerance_only=compiled.tolerance_only,
        calls=tuple(dict.fromkeys(compiler.calls)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One aggregate function with its compiled arguments and FILTER."""

    name: str
    arguments: tuple[Term, ...]
    only: str | None = None
    distinct: str = ""
    running_over: str | None = None
    calls: list[AggregateCall]

    @property
    def first(self) -> Term:
        return self.arguments[0]

    def over(self, function: str, *arguments: str, also: str | None = None) -> str:
        """`function(arguments) FILTER (…)`, in parentheses where it has a filter."""
        condition = both(self.only, also)
        if self.running_over is not None:
            return self.running(function, arguments, condition)
        sql = f"{function}({self.distinct}{', '.join(arguments)})"
        sql = f"({sql} FILTER (WHERE {condition}))" if condition else sql
        call = AggregateCall(sql=sql, function=function, arguments=arguments,
                             is_distinct=bool(self.distinct), only=condition or None)  # fmt: skip
        self.calls.append(call)
        return sql

    def running(self, function: str, arguments: tuple[str, ...], condition: str | None) -> str:
        """`function(arguments)` over a window of SQL, of the rows that meet the condition."""
        if condition:
            given = ("1" if sql == "*" else sql for sql in arguments)
            arguments = tuple(f"IF({condition}, {sql}, NULL)" for sql in given)
        return f"({function}({', '.join(arguments)}) OVER {self.running_over})"


class Aggregates(Scalars):
    """Compiles expressions over aggregate functions and the columns of the group."""

    def __init__(
        self, scope: Scope, group_by: tuple[str, ...], running_over: str | None = None
    ) -> None:
        super().__init__(scope)
        self.group_by = group_by
        self.running_over = running_over
        self.rows = Scalars(scope)
        self.record_failures: list[Failure] = []
        self.calls: list[AggregateCall] = []

    def term(self, node: exp.Expr) -> Term:
        match node:
            case exp.Filter():
                return self.aggregate(node.this, only=node.expression.this)
            case exp.IgnoreNulls() | exp.RespectNulls():
                return self.aggregate(node)
        return super().term(node)

    def column(self, node: exp.Column) -> Term:
        term = super().column(node)
        if node.name.lower() not in self.group_by:
            raise self.scope.refused(
                f"names column {node.name!r} outside an aggregate function: write, for instance, "
                f"max({node.name})"
            )
        return term

    def call(self, name: str, arguments: list[exp.Expr]) -> Term:
        if name in AGGREGATES:
            return self.aggregate(exp.Anonymous(this=name, expressions=arguments))
        return super().call(name, arguments)

    def known_functions(self) -> frozenset[str]:
        """What may be suggested for a name that is not known."""
        return super().known_functions() | AGGREGATES

    def aggregate(self, node: exp.Expr, only: exp.Expr | None = None) -> Term:
        """One aggregate function, with IGNORE NULLS or DISTINCT inside and FILTER behind."""
        ignores_nulls = isinstance(node, exp.IgnoreNulls)
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            node = node.this
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
        if name not in AGGREGATES:
            raise self.scope.refused("has FILTER or NULLS behind what is no aggregate")
        name = _ONE_NAME.get(name, name)
        arguments = list(node.expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
            ignores_nulls, arguments = True, [arguments[0].this]
        distinct = ""
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            distinct, arguments = "DISTINCT ", list(arguments[0].expressions)
        if name in ("first", "last") and len(arguments) == 2:
            ignores_nulls |= self.rows.term(arguments.pop()).constant is True
        if ignores_nulls and name not in ("first", "last"):
            raise self.scope.refused(f"has IGNORE NULLS at {name}, which ignores them anyway")
        if distinct and name not in ("count", "sum", "avg", "min", "max"):
            raise self.scope.refused(f"has DISTINCT in {name}: count, sum, avg, min, max take it")
        if self.running_over is not None:
            self.check_running(name, distinct)
        return self.compiled(name, arguments, only, distinct, ignores_nulls)

    def check_running(self, name: str, distinct: str) -> None:
        """Refuse an aggregate function that has no running value."""
        if distinct and name in ("min", "max"):
            raise self.scope.refused(f"has DISTINCT in {name}, which changes nothing: leave it out")
        if distinct:
            raise self.scope.refused(
                f"has DISTINCT in {name}, which a running does not compute: put a deduplicate with "
                "the key and these columns in `by` before it, and leave DISTINCT out"
            )
        if name in ("collect_list", "collect_set"):
            raise self.scope.refused(
                f"uses {name}, whose lists would grow with each record: write {name} in an "
                "aggregate or an every"
            )
        if name in TOLERANCE_ONLY:
            raise self.scope.refused(
                f"uses {name}, which a running does not compute: write {name} in an aggregate or "
                "an every"
            )

    def compiled(
        self,
        name: str,
        nodes: list[exp.Expr],
        only: exp.Expr | None,
        distinct: str,
        ignores_nulls: bool,
    ) -> Term:
        """The value of an aggregate function; what its records may raise is noted apart."""
        condition = self.rows.condition(only, "FILTER") if only is not None else None
        if name == "count" and len(nodes) == 1 and isinstance(nodes[0], exp.Star) and not distinct:
            terms: tuple[Term, ...] = (Term(sql="*", type="any", nullable=False),)
        else:
            terms = tuple(self.rows.term(node) for node in nodes)
        self.check_number(name, terms)
        failure = first_in_order(replace(term, nullable=False) for term in terms)
        if condition is not None:
            passed = f"{condition.sql} IS TRUE"
            failure = first_of(condition.failure, only_if(passed, failure))
        if failure is not None:
            self.record_failures.append(failure)
        call = _Call(name=name, arguments=terms, only=None if condition is None else condition.sql,
                     distinct=distinct, running_over=self.running_over,
                     calls=self.calls)  # fmt: skip
        value = self.value(call, ignores_nulls)
        inexact = any(term.tolerance_only for term in (*terms, *([condition] if condition else [])))
        return replace(value, tolerance_only=value.tolerance_only or inexact)

    def check_number(self, name: str, terms: tuple[Term, ...]) -> None:
        """Refuse too few or too many arguments."""
        least, most = 1, 1
        if name == "count":
            most = 99
        elif name in ("min_by", "max_by", "percentile", *_TWO_COLUMNS):
            least = most = 2
        elif name == "percentile_approx":
            least, most = 2, 3
        if not least <= len(terms) <= most:
            takes = str(least) if least == most else f"{least} to {most}"
            given = counted(len(terms), "argument")
            hint = "; write count(*) for the number of records" if name == "count" else ""
            raise self.scope.refused(f"gives {name} {given}, but it takes {takes}{hint}")

    def value(self, call: _Call, ignores_nulls: bool) -> Term:
        """The SQL of one aggregate function."""
        x = call.first
        match call.name:
            case "count":
                sql = call.over("count", *(term.sql for term in call.arguments))
                return Term(sql=sql, type="bigint", nullable=False)
            case "count_if":
                self.takes(call, "boolean")
                return Term(sql=call.over("count_if", x.sql), type="bigint", nullable=False)
            case "bool_and" | "bool_or":
                self.takes(call, "boolean")
                return Term(sql=call.over(call.name, x.sql), type="boolean")
            case "bit_and" | "bit_or" | "bit_xor":
                self.takes(call, "integral")
                return Term(sql=call.over(call.name, x.sql), type=x.type)
            case "min" | "max":
                self.takes(call, "any")
                return Term(sql=one_zero(call.over(call.name, x.sql), x.type), type=x.type)
            case "sum":
                self.takes(call, "number")
                return self.sum(call)
            case "avg":
                self.takes(call, "number")
                return self.average(call)
            case "first" | "last":
                smallest = "min" if call.name == "first" else "max"
                return self.by_order(call, smallest, x.is_there if ignores_nulls else None)
            case "min_by" | "max_by":
                order = call.arguments[1]
                return self.by_order(call, call.name[:3], order.is_there, order)
            case "collect_list":
                self.check_ties(call)
                rows = call.over("collect_list", self.row(x), also=x.is_there)
                sql = f"transform(array_sort({rows}), r -> r.v)"
                return Term(sql=sql, type=f"array<{x.type}>", nullable=False)
            case "collect_set":
                rows = call.over("collect_set", one_zero(x.sql, x.type))
                return Term(sql=f"sort_array({rows})", type=f"array<{x.type}>", nullable=False)
        assert call.name in TOLERANCE_ONLY, call.name
        return self.within_tolerance(call)

    def takes(self, call: _Call, kind: str) -> None:
        """Refuse an argument of another kind."""
        type_ = call.first.type
        if not fits(type_, kind) or coercion.is_array(type_):
            takes = "one value" if kind == "any" else kind
            raise self.scope.refused(f"gives {call.name} {article(type_)}, but it takes {takes}")

    def check_ties(self, call: _Call) -> None:
        """Refuse rows with a column that is known only within a tolerance; it may decide a tie."""
        inexact = self.scope.tolerance_only
        if inexact:
            named, advice = inexact_values(
                self.scope.columns.values(), inexact, "in a map before the aggregate"
            )
            raise self.scope.refused(
                f"uses {call.name}, in which ties are decided by every column of the input, and it "
                f"has {named}: {advice}"
            )

    def row(self, value: Term, order: Term | None = None) -> str:
        """A row as a struct that compares in canonical order, with a value at its end."""
        parts = [f"'o', {one_zero(order.sql, order.type)}"] if order else []
        parts += canonical_order(self.scope.columns.values())
        parts.append(f"'v', {one_zero(value.sql, value.type)}")
        return f"named_struct({', '.join(parts)})"

    def by_order(
        self, call: _Call, smallest: str, also: str | None, order: Term | None = None
    ) -> Term:
        """The value in the first or last row of the canonical order, or by another column first."""
        self.check_ties(call)
        for term in call.arguments:
            if coercion.is_array(term.type) or term.type == coercion.VOID:
                raise self.scope.refused(f"gives {call.name} {article(term.type)}")
        sql = call.over(smallest, self.row(call.first, order), also=also)
        return Term(sql=f"{sql}.v", type=call.first.type)

    def sum(self, call: _Call) -> Term:
        """int and decimal as they are, bigint in two halves, double within a tolerance."""
        x = call.first
        if x.type == "double":
            return Term(sql=call.over("sum", x.sql), type="double", tolerance_only=True)
        if x.type == "int":
            return Term(sql=call.over("sum", x.sql), type="bigint")
        if coercion.is_decimal(x.type):
            precision, scale = self.summable(call)
            return Term(sql=call.over("sum", x.sql), type=coercion.decimal(precision + 10, scale))
        if call.distinct:
            total = call.over("sum", f"CAST({x.sql} AS DECIMAL(20,0))")
            sql = f"try_cast({total} AS BIGINT)"
            lost = f"({total} IS NOT NULL AND {sql} IS NULL)"
            return Term(sql=sql, type="bigint", failure=Failure(lost, FailureCause.OVERFLOW))
        high, low = self.halves(call)
        inside = f"({high} >= -2147483648L AND {high} <= 2147483647L)"
        sql = f"IF({inside}, (shiftleft({high}, 32) | {low}), NULL)"
        lost = f"({high} IS NOT NULL AND NOT {inside})"
        return Term(sql=sql, type="bigint", failure=Failure(lost, FailureCause.OVERFLOW))

    def summable(self, call: _Call) -> tuple[int, int]:
        """Precision and scale of decimals whose sum cannot overflow; refuses wider ones."""
        precision, scale = decimal_shape(call.first.type)
        if precision > DECIMAL_DIGITS_MAX:
            raise self.scope.refused(
                f"gives {call.name} {article(call.first.type)}, whose sum may overflow on the way: "
                f"cast it to at most {DECIMAL_DIGITS_MAX} digits"
            )
        return precision, scale

    def halves(self, call: _Call) -> tuple[str, str]:
        """A sum of bigint as its upper part and its lower 32 bits; neither can overflow."""
        x = call.first.sql
        low = call.over("sum", f"({x} & {_LOW_HALF})")
        high = f"({call.over('sum', f'shiftright({x}, 32)')} + shiftright({low}, 32))"
        return high, f"({low} & {_LOW_HALF})"

    def average(self, call: _Call) -> Term:
        """An exact sum divided by the count; Spark's own average of whole numbers adds doubles."""
        x = call.first
        count = call.over("count", x.sql)
        if x.type == "double":
            return Term(sql=call.over("avg", x.sql), type="double", tolerance_only=True)
        if coercion.is_decimal(x.type):
            precision, scale = self.summable(call)
            type_ = coercion.decimal(precision + 4, scale + 4)
            quotient = f"try_divide({call.over('sum', x.sql)}, CAST({count} AS DECIMAL(20,0)))"
            return Term(sql=f"try_cast({quotient} AS {type_})", type=type_)
        if x.type == "int":
            total = f"CAST({call.over('sum', x.sql)} AS DOUBLE)"
        elif call.distinct:
            total = f"CAST({call.over('sum', f'CAST({x.sql} AS DECIMAL(20,0))')} AS DOUBLE)"
        else:
            high, low = self.halves(call)
            total = f"(CAST({high} AS DOUBLE) * 4294967296.0D + CAST({low} AS DOUBLE))"
        return Term(sql=f"try_divide({total}, CAST({count} AS DOUBLE))", type="double")

    def within_tolerance(self, call: _Call) -> Term:
        """What Spark computes in doubles, in the order that the rows come in."""
        if call.name == "approx_count_distinct":
            self.takes(call, "any")
            sql = call.over(call.name, call.first.sql)
            return Term(sql=sql, type="bigint", nullable=False, tolerance_only=True)
        self.takes(call, "number")
        if call.name in _TWO_COLUMNS and not fits(call.arguments[1].type, "number"):
            raise self.scope.refused(f"gives {call.name} {article(call.arguments[1].type)}")
        if call.name.startswith("percentile"):
            share = call.arguments[1].constant
            if not all(term.is_constant for term in call.arguments[1:]) or not (
                isinstance(share, int | float) or hasattr(share, "as_tuple")
            ) or not 0 <= share <= 1:  # type: ignore[operator]  # fmt: skip
                raise self.scope.refused(f"gives {call.name} a share that is not from 0 to 1")
        type_ = call.first.type if call.name == "percentile_approx" else "double"
        sql = call.over(call.name, *(term.sql for term in call.arguments))
        return Term(sql=sql, type=type_, tolerance_only=True)


def canonical_order(columns: Iterable[Column]) -> list[str]:
    """The fields of a struct that compares rows in canonical order: `t`, then `c0`, `c1`, …"""
    values = (one_zero(f"`{column.name}`", column.type) for column in columns)
    return [f"'t', {EVENT_TIME}", *(f"'c{number}', {sql}" for number, sql in enumerate(values))]


def one_zero(sql: str, type_: str) -> str:
    """A double with 0.0 for -0.0: the two compare as equal, and either may come first."""
    return f"({sql} + 0.0D)" if type_ == "double" else sql
