"""Operators, casts and branches carried over from Spark SQL to DuckDB, type by type.

Both sides of an operator are brought to the type that Spark computes in, whole numbers are reckoned
in a wider type and brought back, and whatever Spark raises on becomes a condition beside the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from medusa_core.columns import Column
from pipelines.language import coercion
from pipelines.language.leaves import number_suffix
from pipelines.quality.transpiled import (
    Carried,
    NotCarried,
    any_of,
    duckdb_type,
    name_of,
    provided,
    strictly,
    text_of,
)
from pipelines.quality.transpiled_types import (
    LEAST,
    as_type,
    cast_target,
    cast_to,
    common_type,
    constant,
    digits_of,
    in_common,
    in_full_width,
    instant,
    number,
    result_type,
)

_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_BITWISE: dict[type[exp.Expr], str] = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|"}


class Carrying(ABC):
    """Carries one parsed expression over, over columns that are known by name."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns

    @abstractmethod
    def call(self, name: str, arguments: list[exp.Expr]) -> Carried:
        """A function by name, over arguments that are not carried yet."""

    def carry(self, node: exp.Expr) -> Carried:
        """The node in DuckDB; raises NotCarried with the reason."""
        kind = type(node)
        if kind in _ARITHMETIC:
            return self.arithmetic(_ARITHMETIC[kind], *self.both(node))
        if kind in _COMPARISONS:
            return self.comparison(_COMPARISONS[kind], *self.both(node))
        if kind in _BITWISE:
            return self.bitwise(f"{{0}} {_BITWISE[kind]} {{1}}", *self.both(node))
        match node:
            case exp.Paren():
                return self.carry(node.this)
            case exp.Column():
                column = self.columns[node.name.lower()]
                return Carried(sql=name_of(column.name), type=column.type)
            case exp.Literal() | exp.Boolean() | exp.Null() | exp.RawString():
                return constant(node)
            case exp.Neg():
                return self.negative(node.this)
            case exp.IntDiv():
                return self.whole_division(*self.both(node))
            case exp.BitwiseXor():
                return self.bitwise("xor({0}, {1})", *self.both(node))
            case exp.BitwiseNot():
                inner = self.carry(node.this)
                return strictly(f"(~{inner.sql})", inner.type, (inner,))
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.null_safe(*self.both(node), same=isinstance(node, exp.NullSafeEQ))
            case exp.And() | exp.Or():
                return self.logic(node)
            case exp.Not():
                inner = self.carry(node.this)
                return strictly(f"(NOT {inner.sql})", "boolean", (inner,))
            case exp.Is():
                inner = self.carry(node.this)
                what = node.expression.sql().upper()
                sql = f"({inner.sql} IS {what})"
                return Carried(sql=sql, type="boolean", fails=inner.fails)
            case exp.Case() | exp.If():
                return self.case(node)
            case exp.In():
                return self.membership(node)
            case exp.Between():
                return self.between(node)
            case exp.Escape() | exp.Like():
                return self.like(node)
            case exp.DPipe():
                return self.call("concat", list(node.flatten()))
            case exp.Cast():
                return self.cast(node)
            case exp.Anonymous():
                return self.call(str(node.this).lower(), list(node.expressions))
        raise NotCarried(node.key.upper())

    def both(self, node: exp.Expr) -> tuple[Carried, Carried]:
        """Both sides of an operator."""
        return self.carry(node.this), self.carry(node.expression)

    # arithmetic

    def arithmetic(
        self, sign: str, left: Carried, right: Carried, *, tried: bool = False
    ) -> Carried:
        """`left sign right` in the type that Spark gives it."""
        type_ = result_type(sign, left, right)
        if coercion.is_decimal(type_):
            return self.decimal_arithmetic(sign, left, right, type_)
        if type_ == "double":
            a, b = (as_type(side, "double").sql for side in (left, right))
            if sign in "/%":
                sql = f"({a} {sign} nullif({b}, 0.0::DOUBLE))"
                return strictly(sql, type_, (left, right), last_first=True,
                                fails=None if tried else f"{b} = 0")  # fmt: skip
            return strictly(f"({a} {sign} {b})", type_, (left, right))
        a, b = (f"{side.sql}::HUGEINT" for side in (left, right))
        if sign == "%":
            # What -1 leaves is 0; the least number by -1 would be too great on the way.
            sql = f"CAST({a} % nullif({b}, 0) AS {duckdb_type(type_)})"
            fails = f"{right.sql} = 0"
        else:
            sql = f"TRY_CAST({a} {sign} {b} AS {duckdb_type(type_)})"
            fails = f"{sql} IS NULL"
        return strictly(sql, type_, (left, right), fails=None if tried else fails,
                        last_first=sign == "%")  # fmt: skip

    def decimal_arithmetic(self, sign: str, left: Carried, right: Carried, type_: str) -> Carried:
        fits = coercion.arithmetic_type(sign, digits_of(left, right), digits_of(right, left))
        if sign not in "+-*" or fits is None or not fits[1]:
            raise NotCarried(f"{sign} of decimals that is rounded or may overflow")
        wide = duckdb_type(type_)
        if sign == "*":
            a, b = (in_full_width(side) for side in (left, right))
            return strictly(f"CAST({a} * {b} AS {wide})", type_, (left, right))
        a, b = (f"CAST({side.sql} AS {wide})" for side in (left, right))
        return strictly(f"CAST({a} {sign} {b} AS {wide})", type_, (left, right))

    def whole_division(self, left: Carried, right: Carried) -> Carried:
        quotient = f"{left.sql}::HUGEINT // nullif({right.sql}, 0)::HUGEINT"
        sql = f"TRY_CAST({quotient} AS BIGINT)"
        return strictly(sql, "bigint", (left, right), fails=f"{sql} IS NULL", last_first=True)

    def negative(self, node: exp.Expr) -> Carried:
        if isinstance(node, exp.Literal) and not node.args.get("is_string"):
            return number(f"-{node.this}")
        suffix = number_suffix(node)
        if suffix:
            return number(f"-{node.this.this}", suffix)
        inner = self.carry(node)
        if inner.type in LEAST:
            return self.arithmetic("-", number("0", "L" if inner.type == "bigint" else ""), inner)
        return strictly(f"(-{inner.sql})", inner.type, (inner,))

    def bitwise(self, form: str, left: Carried, right: Carried) -> Carried:
        type_ = "int" if left.type == right.type == "int" else "bigint"
        a, b = (as_type(side, type_).sql for side in (left, right))
        return strictly(f"({form.format(a, b)})", type_, (left, right))

    # comparison and logic

    def comparison(self, sign: str, left: Carried, right: Carried) -> Carried:
        a, b = in_common(left, right)
        return strictly(f"({a.sql} {sign} {b.sql})", "boolean", (left, right))

    def null_safe(self, left: Carried, right: Carried, *, same: bool) -> Carried:
        a, b = in_common(left, right)
        sql = f"({a.sql} IS {'NOT ' if same else ''}DISTINCT FROM {b.sql})"
        return Carried(sql=sql, type="boolean", fails=any_of(left.fails, right.fails))

    def logic(self, node: exp.Expr) -> Carried:
        left, right = self.both(node)
        word, stops = ("AND", "FALSE") if isinstance(node, exp.And) else ("OR", "TRUE")
        later = provided(f"({left.sql}) IS NOT {stops}", right.fails)
        return Carried(
            sql=f"({left.sql} {word} {right.sql})", type="boolean", fails=any_of(left.fails, later)
        )

    def between(self, node: exp.Between) -> Carried:
        subject, low, high = (self.carry(node.args[part]) for part in ("this", "low", "high"))
        above, below = self.comparison(">=", subject, low), self.comparison("<=", subject, high)
        later = provided(f"{above.sql} IS NOT FALSE", below.fails)
        sql = f"({above.sql} AND {below.sql})"
        return Carried(sql=sql, type="boolean", fails=any_of(above.fails, later))

    def membership(self, node: exp.In) -> Carried:
        subject = self.carry(node.this)
        values = [self.carry(value) for value in node.expressions]
        types = {subject.type, *(v.type for v in values)}
        if len(types) > 1 and not types <= {"int", "bigint"}:
            raise NotCarried("IN over several types")
        listed = ", ".join(v.sql for v in values)
        return strictly(f"({subject.sql} IN ({listed}))", "boolean", (subject,))

    def like(self, node: exp.Expr) -> Carried:
        escape = "\\"
        if isinstance(node, exp.Escape):
            escape, node = str(node.expression.this), node.this
        if not isinstance(node, exp.Like):
            raise NotCarried("ILIKE")
        subject, pattern = self.both(node)
        if not escape.isascii():
            raise NotCarried("an ESCAPE beyond ASCII")
        sql = f"({subject.sql} LIKE {pattern.sql} ESCAPE {text_of(escape)})"
        if node.args.get("negate"):
            sql = f"(NOT {sql})"
        return strictly(sql, "boolean", (subject,))

    def case(self, node: exp.Expr) -> Carried:
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        subject = node.this if isinstance(node, exp.Case) else None
        pairs = []
        for branch in branches:
            test = branch.this if subject is None else exp.EQ(this=subject, expression=branch.this)
            pairs.append((self.carry(test), self.carry(branch.args["true"])))
        last = node.args.get("default" if isinstance(node, exp.Case) else "false")
        return self.choice(pairs, None if last is None else self.carry(last))

    def choice(self, pairs: list[tuple[Carried, Carried]], last: Carried | None) -> Carried:
        """The value of the first test that is true; only what is looked at can fail."""
        values = [value for _, value in pairs] + ([last] if last else [])
        type_ = common_type(values)
        fails = last.fails if last else None
        for test, value in reversed(pairs):
            fails = any_of(
                test.fails,
                provided(f"({test.sql}) IS TRUE", value.fails),
                provided(f"({test.sql}) IS NOT TRUE", fails),
            )
        whens = " ".join(f"WHEN {t.sql} THEN {as_type(v, type_).sql}" for t, v in pairs)
        otherwise = as_type(last, type_).sql if last else "NULL"
        return Carried(sql=f"(CASE {whens} ELSE {otherwise} END)", type=type_, fails=fails)

    # casts

    def cast(self, node: exp.Cast) -> Carried:
        suffix = number_suffix(node)
        if suffix:
            return number(str(node.this.this), suffix)
        target = cast_target(node)
        if not isinstance(node, exp.TryCast):
            return instant(str(node.this.this), target)
        done = cast_to(self.carry(node.this), target)
        if node.args.get("safe"):
            return replace(done, fails=self.carry(node.this).fails)
        return done
