"""Leaves of an expression: columns, constants, casts; and whether types go together.

Where Spark would guess (text against numbers, NULL in a comparison) the expression is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from medusa_core.columns import check_type
from medusa_core.errors import Refused
from pipelines.language import coercion
from pipelines.language.compiled_terms import Term, strict
from pipelines.language.constants import literal_type, quote
from pipelines.language.failure_causes import Failure, FailureCause
from pipelines.language.functions import REFUSED, suggestion, within_years
from pipelines.language.scope import Scope, article

DIGITS_MAX = 38
WITHOUT_BRACKETS = frozenset(
    ("current_timestamp", "current_date", "current_time", "localtimestamp", "localtime",
     "current_user", "session_user", "user", "current_catalog", "current_schema")
)  # fmt: skip
"""The refused functions that SQL calls without brackets, as if they were columns."""
DOUBLE_MAX = "1.7976931348623157E308D"


class Leaves(ABC):
    """Compiles what has no operator in it, over the columns of a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    @abstractmethod
    def term(self, node: exp.Expr) -> Term:
        """The compiled node; refuses what is not known."""

    def of_kind(self, node: exp.Expr, kind: str, taker: str) -> Term:
        """A term of a type or kind (see functions.py); refuses another, naming who takes it."""
        term = self.term(node)
        if not fits(term.type, kind):
            raise self.scope.refused(f"gives {taker} {article(term.type)}, but it takes {kind}")
        return term

    def condition(self, node: exp.Expr, taker: str) -> Term:
        """A boolean term."""
        return self.of_kind(node, "boolean", taker)

    def column(self, node: exp.Column) -> Term:
        """A column by its name; refuses one that is not there."""
        name = node.name.lower()
        if node.args.get("table"):
            raise self.scope.refused(f"has a dot in {node.sql()!r}: name the column alone")
        column = self.scope.columns.get(name)
        if column is None:
            known = frozenset(self.scope.columns)
            near = suggestion(name, known)
            if not near and name in WITHOUT_BRACKETS:
                near = f": it {REFUSED[name]}"
            near = near or f"; there are {', '.join(self.scope.columns)}"
            if name in ("_stime", "stime", "_bucket", "rowtime", "window_time"):
                near = "; event time is not a column: aggregates give `window_start`"
            raise self.scope.refused(f"names column {node.name!r}, which is not there{near}")
        return Term(
            sql=f"`{column.name}`",
            type=column.type,
            tolerance_only=column.name in self.scope.tolerance_only,
        )

    def constant(self, node: exp.Expr) -> Term:
        """NULL, a truth value, a text or a number."""
        if isinstance(node, exp.Null):
            return Term(sql="NULL", type=coercion.VOID, constant=None)
        if isinstance(node, exp.Boolean):
            text = "true" if node.this else "false"
            return Term(sql=text, type="boolean", nullable=False, constant=bool(node.this))
        if isinstance(node, exp.RawString) or node.args.get("is_string"):
            value = str(node.this)
            return Term(sql=quote(value), type="string", nullable=False, constant=value)
        return self.number(str(node.this))

    def number(self, text: str, suffix: str = "") -> Term:
        """A number as written; `suffix` is L or D, as in Spark's grammar."""
        if suffix == "L":
            value = int(text)
            if not -(2**63) <= value < 2**63:
                raise self.scope.refused(f"has the number {text}L, which is no bigint")
            return Term(sql=f"{value}L", type="bigint", nullable=False, constant=value)
        if suffix == "D" or "e" in text.lower():
            double = float(text)
            if double in (float("inf"), float("-inf")):
                raise self.scope.refused(f"has the number {text}, too large for a double")
            return Term(sql=f"{double!r}D", type="double", nullable=False, constant=double)
        if len(text.replace(".", "").lstrip("-0")) > DIGITS_MAX:
            raise self.scope.refused(f"has the number {text}, which has more than 38 digits")
        exact = Decimal(text) if "." in text else int(text)
        return Term(
            sql=f"{exact:f}" if isinstance(exact, Decimal) else str(exact),
            type=literal_type(exact),
            nullable=False,
            constant=exact,
        )

    def comparable(self, left: Term, right: Term, sign: str) -> str:
        """The type two terms are compared in; refuses text against numbers, arrays and NULL."""
        if coercion.VOID in (left.type, right.type):
            raise self.scope.refused(f"compares with NULL by {sign}, never true: write IS NULL")
        type_ = coercion.common_type(left.type, right.type)
        if type_ is None or coercion.is_array(type_):
            raise self.scope.refused(
                f"compares {article(left.type)} with {article(right.type)}: cast one of them"
                + _temporal_hint(left, right)
            )
        return type_

    def common(self, terms: list[Term], what: str) -> str:
        """The one type of several terms; refuses them if there is none."""
        type_ = coercion.VOID
        for term in terms:
            wider = coercion.common_type(type_, term.type)
            if wider is None:
                raise self.scope.refused(f"has {type_} and {term.type} in {what}: cast one of them")
            type_ = wider
        return type_

    def cast(self, node: exp.Cast) -> Term:
        """A cast, as try_cast where it can fail; and a typed text such as `date'2024-01-31'`."""
        suffix = number_suffix(node)
        if suffix:
            return self.number(str(node.this.this), suffix)
        target = self.target_type(node.args["to"])
        if not isinstance(node, exp.TryCast):
            return self.instant(str(node.this.this), target)
        inner = self.term(node.this)
        can_fail = coercion.cast_can_fail(inner.type, target)
        if can_fail is None:
            raise self.scope.refused(f"casts {article(inner.type)} to {target}: Spark cannot")
        if can_fail:
            sql, fails = _tried_cast(inner, target)
            tried = bool(node.args.get("safe"))
            term = strict(sql, target, (inner,), fails=None if tried else fails)
        else:
            sql = f"CAST({inner.sql} AS {target})"
            term = strict(sql, target, (inner,), nullable=inner.nullable)
        rounds = target.startswith(("decimal", "int", "bigint"))
        return replace(term, tolerance_only=term.tolerance_only and not rounds)

    def instant(self, text: str, type_: str) -> Term:
        """A date or timestamp written out."""
        try:
            if type_ == "date":
                day = date.fromisoformat(text)
                return Term(sql=f"DATE '{day}'", type=type_, nullable=False, constant=day)
            if type_ == "timestamp":
                time = datetime.fromisoformat(text)
                if time.tzinfo is not None:
                    raise self.scope.refused(f"has a zone in {text!r}: times are UTC")
                sql = f"TIMESTAMP '{time.isoformat(' ')}'"
                return Term(sql=sql, type=type_, nullable=False, constant=time)
        except ValueError:
            raise self.scope.refused(f"has {text!r}, which is not a valid {type_}") from None
        raise self.scope.refused(f"writes {type_} before a text: use CAST('…' AS {type_})")

    def target_type(self, node: exp.DataType) -> str:
        """The type a cast gives; refuses those no column can have."""
        written = node.sql(dialect="spark").lower()
        try:
            if written == "float":
                raise Refused("half the digits of a double")
            return check_type("a cast", "decimal(10,0)" if written == "decimal" else written)
        except Refused:
            raise self.scope.refused(
                f"casts to {written}, which is not one of boolean, int, bigint, double, string, "
                "binary, date, timestamp, decimal(p,s)"
            ) from None


def fits(type_: str, kind: str) -> bool:
    """Whether a term of a type is of a kind of argument (see functions.py)."""
    match kind:
        case "any" | "common":
            return type_ != coercion.VOID
        case "number":
            return coercion.is_number(type_)
        case "integral":
            return type_ in coercion.INTEGRAL
        case "text":
            return type_ != coercion.VOID and type_ != "binary" and not coercion.is_array(type_)
        case "day":
            return type_ in ("date", "timestamp")
        case "array":
            return coercion.is_array(type_)
    return type_ == kind


def number_suffix(node: exp.Expr) -> str:
    """L or D if the tree is a number with that suffix (which sqlglot reads as a cast)."""
    if not isinstance(node, exp.TryCast) or node.args.get("safe"):
        return ""
    if not isinstance(node.this, exp.Literal) or node.this.args.get("is_string"):
        return ""
    if node.args["to"].this == exp.DType.BIGINT:
        return "L" if str(node.this.this).isdigit() else ""
    return "D" if node.args["to"].this == exp.DType.DOUBLE else ""


TIME_ALONE = "^[^0-9A-Za-z]*([Tt]|[0-9]{1,2}:)"


def _tried_cast(inner: Term, target: str) -> tuple[str, Failure]:
    """A cast that is NULL where it fails; and the failure, over what is there, that it does."""
    sql = f"try_cast({inner.sql} AS {target})"
    if inner.type == "binary":
        sql = f"try_validate_utf8(CAST({inner.sql} AS {target}))"
        return sql, Failure(f"{sql} IS NULL", FailureCause.INVALID_UTF8)
    if inner.type == "string" and target not in ("date", "timestamp"):
        return sql, Failure(f"{sql} IS NULL", FailureCause.INVALID_TEXT)
    if target in ("date", "timestamp"):
        if coercion.is_decimal(inner.type):
            # Spark wraps around in silence: 1E30 seconds may be any time at all.
            sql = f"IF(abs(CAST({inner.sql} AS DOUBLE)) < 1E12D, {sql}, NULL)"
        elif inner.type == "string" and target == "timestamp":
            # Text with a time alone would take its date from the clock.
            sql = f"IF({inner.sql} RLIKE '{TIME_ALONE}', NULL, {sql})"
        return within_years(sql, target, is_text=inner.type == "string")
    fails = f"{sql} IS NULL"
    if inner.type == "double" and coercion.is_decimal(target):
        # Spark's cast of NaN and infinity to a decimal is NULL, not an error.
        fails = f"({fails} AND abs({inner.sql}) <= {DOUBLE_MAX})"
    return sql, Failure(fails, FailureCause.OVERFLOW)


def _temporal_hint(left: Term, right: Term) -> str:
    types = {left.type, right.type}
    if "string" in types and types & {"date", "timestamp"}:
        other = (types - {"string"}).pop()
        return f", or write {other}'2024-01-31{' 12:00:00' if other == 'timestamp' else ''}'"
    return ""
