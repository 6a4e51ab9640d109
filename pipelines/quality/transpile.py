"""Operators, casts and branches of Spark SQL in DuckDB.

Both sides of an operator are cast to the type in which Spark computes, integers are computed in a
wider type and cast back, and an error in Spark becomes a condition next to the value. The types
come from `expression_types`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from medusa_core.columns import Column
from pipelines.quality.expression_types import (
    ARITHMETIC,
    NOT_WRITTEN,
    ExpressionTypes,
    branches_of,
    constant_of,
)
from pipelines.quality.spark_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    VOID,
    SparkType,
    exact_arithmetic,
    least_common,
)
from pipelines.quality.transpile_casts import as_type, cast_to, constant, instant
from pipelines.quality.transpiled import (
    BY_ZERO,
    OVERFLOW,
    NotTranspiled,
    Transpiled,
    any_of,
    because,
    duckdb_type,
    provided,
    quoted_name,
    quoted_text,
    strict,
)

_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_BITWISE: Mapping[type[exp.Expr], str] = {
    exp.BitwiseAnd: "({0} & {1})",
    exp.BitwiseOr: "({0} | {1})",
    exp.BitwiseXor: "xor({0}, {1})",
}


class Transpiler(ABC):
    """Transpiles parsed expressions over columns, which are known by name."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns
        self.types = ExpressionTypes(columns)

    @abstractmethod
    def call(self, name: str, node: exp.Anonymous) -> Transpiled:
        """A function by its name."""

    def transpile(self, node: exp.Expr) -> Transpiled:
        """The node in DuckDB; raises NotTranspiled with the reason."""
        type_, value = self.types.of(node), constant_of(node)
        if value is not NOT_WRITTEN:
            return constant(value, type_)
        kind = type(node)
        if kind in ARITHMETIC:
            return self.arithmetic(ARITHMETIC[kind], node.this, node.expression, type_)
        if kind in _COMPARISONS:
            return self.comparison(_COMPARISONS[kind], *self.both(node))
        if kind in _BITWISE:
            left, right = self.both(node)
            sql = _BITWISE[kind].format(as_type(left, type_).sql, as_type(right, type_).sql)
            return strict(sql, type_, (left, right))
        match node:
            case exp.Paren():
                return self.transpile(node.this)
            case exp.Column():
                column = self.columns[node.name.lower()]
                return Transpiled(sql=quoted_name(column.name), type=type_)
            case exp.Neg():
                return self.negative(node.this)
            case exp.IntDiv():
                return self.integer_division(*self.both(node))
            case exp.BitwiseNot():
                inner = self.transpile(node.this)
                return strict(f"(~{inner.sql})", type_, (inner,))
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.null_safe(*self.both(node), is_equal=isinstance(node, exp.NullSafeEQ))
            case exp.And() | exp.Or():
                return self.logic(node)
            case exp.Not():
                inner = self.transpile(node.this)
                return strict(f"(NOT {inner.sql})", type_, (inner,))
            case exp.Is():
                inner = self.transpile(node.this)
                sql = f"({inner.sql} IS {node.expression.sql().upper()})"
                return Transpiled(sql=sql, type=type_, fails=inner.fails)
            case exp.Case() | exp.If():
                return self.case(node, type_)
            case exp.In():
                return self.membership(node)
            case exp.Between():
                return self.between(node)
            case exp.Escape() | exp.Like():
                return self.like(node)
            case exp.DPipe():
                return self.transpile(exp.Anonymous(this="concat", expressions=[*node.flatten()]))
            case exp.TryCast():
                inner = self.transpile(node.this)
                done = cast_to(inner, type_)
                return replace(done, fails=inner.fails) if node.args.get("safe") else done
            case exp.Cast():
                return instant(str(node.this.this), type_)
            case exp.Anonymous():
                return self.call(str(node.this).lower(), node)
        raise NotTranspiled(node.key.upper())

    def both(self, node: exp.Expr) -> tuple[Transpiled, Transpiled]:
        """Both sides of an operator."""
        return self.transpile(node.this), self.transpile(node.expression)

    # arithmetic

    def arithmetic(
        self, sign: str, a: exp.Expr, b: exp.Expr, type_: SparkType, *, tried: bool = False
    ) -> Transpiled:
        """`a sign b`; `tried`: NULL where the operator itself fails."""
        left, right = self.transpile(a), self.transpile(b)
        if type_.is_decimal:
            _, is_exact = exact_arithmetic(sign, self.types.operand(a), self.types.operand(b))
            if sign in "/%" or not is_exact:
                raise NotTranspiled(f"{sign} of decimals that is rounded or may overflow")
            return self.decimal_arithmetic(sign, left, right, type_)
        if type_ == DOUBLE:
            x, y = as_type(left, DOUBLE).sql, as_type(right, DOUBLE).sql
            if sign not in "/%":
                return strict(f"({x} {sign} {y})", type_, (left, right))
            sql, fails = f"({x} {sign} nullif({y}, 0.0::DOUBLE))", because((f"{y} = 0", BY_ZERO))
        elif sign == "%":
            # What -1 leaves is 0; the least number by -1 would be too great before.
            sql = f"CAST({left.sql}::HUGEINT % nullif({right.sql}::HUGEINT, 0) AS "
            sql = f"{sql}{duckdb_type(type_)})"
            fails = because((f"{right.sql} = 0", BY_ZERO))
        else:
            sql = f"TRY_CAST({left.sql}::HUGEINT {sign} {right.sql}::HUGEINT AS "
            sql = f"{sql}{duckdb_type(type_)})"
            fails = because((f"{sql} IS NULL", OVERFLOW))
        return strict(sql, type_, (left, right), fails=None if tried else fails,
                      last_first=sign in "/%")  # fmt: skip

    def decimal_arithmetic(
        self, sign: str, left: Transpiled, right: Transpiled, type_: SparkType
    ) -> Transpiled:
        """+ - * of decimals whose result holds every digit."""
        in_result = duckdb_type(type_)
        sides = []
        for side in (left, right):
            # DuckDB would multiply in a narrower type.
            scale = side.type.in_decimal.scale
            wide = f"DECIMAL(38,{scale})" if sign == "*" else in_result
            sides.append(f"CAST({side.sql} AS {wide})")
        sql = f"CAST({sides[0]} {sign} {sides[1]} AS {in_result})"
        return strict(sql, type_, (left, right))

    def integer_division(self, left: Transpiled, right: Transpiled) -> Transpiled:
        quotient = f"{left.sql}::HUGEINT // nullif({right.sql}, 0)::HUGEINT"
        sql = f"TRY_CAST({quotient} AS BIGINT)"
        fails = because((f"{right.sql} = 0", BY_ZERO), (f"{sql} IS NULL", OVERFLOW))
        return strict(sql, BIGINT, (left, right), fails=fails, last_first=True)

    def negative(self, node: exp.Expr) -> Transpiled:
        inner = self.transpile(node)
        if not inner.type.is_integral:
            return strict(f"(-{inner.sql})", inner.type, (inner,))
        sql = f"TRY_CAST(-({inner.sql}::HUGEINT) AS {duckdb_type(inner.type)})"
        fails = because((f"{sql} IS NULL", OVERFLOW))
        return strict(sql, inner.type, (inner,), fails=fails)

    # comparison and logic

    def comparison(self, sign: str, left: Transpiled, right: Transpiled) -> Transpiled:
        a, b = in_common(left, right)
        return strict(f"({a.sql} {sign} {b.sql})", BOOLEAN, (left, right))

    def null_safe(self, left: Transpiled, right: Transpiled, *, is_equal: bool) -> Transpiled:
        a, b = in_common(left, right)
        sql = f"({a.sql} IS {'NOT ' if is_equal else ''}DISTINCT FROM {b.sql})"
        return Transpiled(sql=sql, type=BOOLEAN, fails=any_of(left.fails, right.fails))

    def logic(self, node: exp.Expr) -> Transpiled:
        left, right = self.both(node)
        word, stops = ("AND", "FALSE") if isinstance(node, exp.And) else ("OR", "TRUE")
        later = provided(f"({left.sql}) IS NOT {stops}", right.fails)
        sql = f"({left.sql} {word} {right.sql})"
        return Transpiled(sql=sql, type=BOOLEAN, fails=any_of(left.fails, later))

    def between(self, node: exp.Between) -> Transpiled:
        subject, low, high = (self.transpile(node.args[part]) for part in ("this", "low", "high"))
        above, below = self.comparison(">=", subject, low), self.comparison("<=", subject, high)
        later = provided(f"{above.sql} IS NOT FALSE", below.fails)
        sql = f"({above.sql} AND {below.sql})"
        return Transpiled(sql=sql, type=BOOLEAN, fails=any_of(above.fails, later))

    def membership(self, node: exp.In) -> Transpiled:
        subject = self.transpile(node.this)
        values = [self.transpile(value) for value in node.expressions]
        types = {subject.type, *(v.type for v in values)}
        if len(types) > 1 and not types <= {INT, BIGINT}:
            raise NotTranspiled("IN over several types")
        listed = ", ".join(v.sql for v in values)
        return strict(f"({subject.sql} IN ({listed}))", BOOLEAN, (subject,))

    def like(self, node: exp.Expr) -> Transpiled:
        escape = "\\"
        if isinstance(node, exp.Escape):
            escape, node = str(node.expression.this), node.this
        if not isinstance(node, exp.Like):
            raise NotTranspiled("ILIKE")
        if not escape.isascii():
            raise NotTranspiled("an ESCAPE beyond ASCII")
        subject, pattern = self.both(node)
        sql = f"({subject.sql} LIKE {pattern.sql} ESCAPE {quoted_text(escape)})"
        if node.args.get("negate"):
            sql = f"(NOT {sql})"
        return strict(sql, BOOLEAN, (subject,))

    def case(self, node: exp.Expr, type_: SparkType) -> Transpiled:
        """CASE in both forms, and IF: only a test and a value that are evaluated can fail."""
        whens = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        subject = node.this if isinstance(node, exp.Case) else None
        tests = [
            self.transpile(w.this if subject is None else exp.EQ(this=subject, expression=w.this))
            for w in whens
        ]
        values = [self.transpile(branch) for branch in branches_of(node)]
        last = values[len(tests)] if len(values) > len(tests) else None
        pairs = list(zip(tests, values, strict=False))
        fails = last.fails if last else None
        for test, value in reversed(pairs):
            fails = any_of(
                test.fails,
                provided(f"({test.sql}) IS TRUE", value.fails),
                provided(f"({test.sql}) IS NOT TRUE", fails),
            )
        listed = " ".join(f"WHEN {t.sql} THEN {as_type(v, type_).sql}" for t, v in pairs)
        otherwise = as_type(last, type_).sql if last else "NULL"
        sql = f"(CASE {listed} ELSE {otherwise} END)"
        return Transpiled(sql=sql, type=type_, fails=fails)


def in_common(left: Transpiled, right: Transpiled) -> tuple[Transpiled, Transpiled]:
    """Both in the type in which Spark compares them."""
    type_ = common_type((left, right))
    return as_type(left, type_), as_type(right, type_)


def common_type(values: Iterable[Transpiled]) -> SparkType:
    """The least common type of several values."""
    return reduce(least_common, (value.type for value in values), VOID)
