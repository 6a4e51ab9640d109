"""Operators: arithmetic, comparison, logic and branches, compiled so that none can raise."""

from __future__ import annotations

from abc import abstractmethod

from sqlglot import exp

from pipelines.language import coercion
from pipelines.language.compiled_terms import Term, strict
from pipelines.language.constants import not_a_like_pattern, quote
from pipelines.language.failure_causes import Failure, FailureCause, first_of, only_if
from pipelines.language.leaves import Leaves, number_suffix
from pipelines.language.scope import article

_ARITHMETIC: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("+", "try_add"),
    exp.Sub: ("-", "try_subtract"),
    exp.Mul: ("*", "try_multiply"),
    exp.Div: ("/", "try_divide"),
    exp.Mod: ("%", "try_mod"),
}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "<=>", exp.NullSafeNEQ: "<=>",
}  # fmt: skip
_BITWISE: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "shiftleft", exp.BitwiseRightShift: "shiftright",
}  # fmt: skip
_SYNTAX_REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Window, "uses a window function (OVER): put an aggregate box before this one"),
    (exp.Query, "has a subquery: a box sees one record at a time"),
    (exp.Subquery, "has a subquery: a box sees one record at a time"),
    (exp.Exists, "has a subquery: a box sees one record at a time"),
    (exp.Lambda, "has a lambda function: use a function box"),
    (
        exp.JSONExtractScalar,
        "uses `->>`: for a field of a JSON text use get_json_object(x, '$.name')",
    ),
    (
        exp.Order,
        "has ORDER BY inside of a function: write array_join(sort_array(collect_list(x)), ',')",
    ),
    (exp.SimilarTo, "uses SIMILAR TO: write RLIKE with a pattern"),
    (exp.Placeholder, "has a parameter: write the value itself"),
    (exp.JSONExtract, "uses `->`: for a field of a JSON text use get_json_object(x, '$.name')"),
    (exp.Star, "has a `*`: name the columns"),
    (exp.Interval, "has an interval: reckon in days with date_add, else in unix_micros"),
    (exp.CurrentTimestamp, "uses current_timestamp, which reads the clock: use event time"),
    (exp.CurrentDate, "uses current_date, which reads the clock: use event time"),
    (exp.CurrentUser, "uses current_user, which says who, not what"),
    (exp.SessionUser, "uses session_user, which says who, not what"),
    (exp.Alias, "has an alias: the name is the key beside the expression"),
    (exp.Distinct, "has DISTINCT outside count, sum, avg, min and max"),
    (exp.Filter, "has FILTER behind what is no aggregate"),
    (exp.Collate, "has a collation: texts are compared byte by byte"),
    (exp.AtTimeZone, "has a time zone: times are UTC"),
    (exp.Tuple, "has several values in parentheses: write one"),
    (exp.HexString, "has a hexadecimal number: write it in decimal"),
    (exp.WithinGroup, "has WITHIN GROUP: write percentile(x, 0.5)"),
)


class Operators(Leaves):
    """Compiles one tree over the columns of a scope; `Scalars` adds functions by name."""

    def term(self, node: exp.Expr) -> Term:
        """The compiled node; refuses what is not known here."""
        kind = type(node)
        if kind in _ARITHMETIC:
            left, right = self.pair(node)
            return self.arithmetic(_ARITHMETIC[kind], left, right)
        if kind in _COMPARISONS:
            return self.comparison(node, _COMPARISONS[kind])
        if kind in _BITWISE:
            return self.bitwise(node, _BITWISE[kind])
        match node:
            case exp.Paren():
                return self.term(node.this)
            case exp.Column():
                return self.column(node)
            case exp.Literal() | exp.Boolean() | exp.Null() | exp.RawString():
                return self.constant(node)
            case exp.Neg():
                return self.negative(node)
            case exp.IntDiv():
                return self.whole_division(*self.pair(node))
            case exp.BitwiseNot():
                inner = self.of_kind(node.this, "integral", "~")
                return strict(f"(~ {inner.sql})", inner.type, (inner,), nullable=inner.nullable)
            case exp.And() | exp.Or():
                return self.logic(node)
            case exp.Not():
                inner = self.condition(node.this, "NOT")
                return strict(f"(NOT {inner.sql})", "boolean", (inner,), nullable=inner.nullable)
            case exp.Is():
                return self.is_test(node)
            case exp.Case() | exp.If():
                return self.case(node)
            case exp.In():
                return self.membership(node)
            case exp.Between():
                return self.between(node)
            case exp.Escape() | exp.Like() | exp.ILike():
                return self.like(node)
            case exp.RegexpLike():
                return self.call("regexp_like", [node.this, node.expression])
            case exp.DPipe():
                return self.call("concat", list(node.flatten()))
            case exp.Cast():
                return self.cast(node)
            case exp.Bracket():
                return self.item(node)
            case exp.Anonymous():
                return self.call(str(node.this).lower(), node.expressions)
        for refused, reason in _SYNTAX_REFUSED:
            if isinstance(node, refused):
                raise self.scope.refused(reason)
        raise self.scope.refused(
            f"uses {node.key.upper()}, which is not on the list of what boxes may do"
        )

    @abstractmethod
    def call(self, name: str, arguments: list[exp.Expr]) -> Term:
        """The function of that name over arguments not yet compiled."""

    def pair(self, node: exp.Expr) -> tuple[Term, Term]:
        """Both sides of an operator."""
        return self.term(node.this), self.term(node.expression)

    def negative(self, node: exp.Neg) -> Term:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            return self.number(f"-{inner.this}")
        suffix = number_suffix(inner)
        if suffix:
            return self.number(f"-{inner.this.this}", suffix)
        term = self.of_kind(inner, "number", "-")
        self.signed(term, "-")
        if term.type not in coercion.INTEGRAL:
            return strict(f"(- {term.sql})", term.type, (term,), nullable=term.nullable)
        zero = Term(sql="0" if term.type == "int" else "0L", type=term.type, nullable=False)
        return self.arithmetic(("-", "try_subtract"), zero, term)

    def signed(self, term: Term, taker: str) -> None:
        """Refuse decimals whose sign Spark changes with 34 digits only."""
        if coercion.is_decimal(term.type) and coercion.as_decimal(term.type)[0] > 34:
            raise self.scope.refused(
                f"gives {taker} {article(term.type)}: cast it to at most 34 digits"
            )

    def arithmetic(
        self, operator: tuple[str, str], left: Term, right: Term, *, tried: bool = False
    ) -> Term:
        """`left operator right`, as it stands where it cannot fail, else in its try_ form."""
        sign, try_form = operator
        result = coercion.arithmetic_type(
            sign, _for_decimals(left, right), _for_decimals(right, left)
        )
        if result is None:
            raise self.scope.refused(
                f"reckons with {left.type} {sign} {right.type}: both sides must be numbers"
            )
        type_, fits_always = result
        divides = sign in "/%" and not (right.is_constant and right.constant != 0)
        if fits_always and not divides:
            sql = f"({left.sql} {sign} {right.sql})"
            nullable = left.nullable or right.nullable
            return strict(sql, type_, (left, right), last_first=sign in "/%", nullable=nullable)
        sql = f"{try_form}({left.sql}, {right.sql})"
        failed, zero = f"{sql} IS NULL", f"{right.sql} = 0"
        if not divides:
            fails = Failure(failed, FailureCause.OVERFLOW)
        elif fits_always:
            fails = Failure(failed, FailureCause.DIVISION_BY_ZERO)
        else:
            fails = Failure.of_either(
                failed, zero, FailureCause.DIVISION_BY_ZERO, FailureCause.OVERFLOW
            )
        return strict(
            sql, type_, (left, right), fails=None if tried else fails, last_first=sign in "/%"
        )

    def whole_division(self, left: Term, right: Term) -> Term:
        """`left div right`: whole numbers only, a bigint."""
        for side in (left, right):
            if side.type not in coercion.INTEGRAL:
                raise self.scope.refused(
                    f"has div with {article(side.type)}: it takes whole numbers"
                )
        plain = f"({left.sql} div {right.sql})"
        if right.is_constant and right.constant not in (0, -1):
            return strict(plain, "bigint", (left, right), nullable=left.nullable)
        fails = Failure(f"{right.sql} = 0", FailureCause.DIVISION_BY_ZERO)
        if "bigint" in (left.type, right.type):
            least = f"({left.sql} = -9223372036854775808L AND {right.sql} = -1)"
            fails = first_of(fails, Failure(least, FailureCause.OVERFLOW)) or fails
        sql = f"IF({fails.condition}, NULL, {plain})"
        return strict(sql, "bigint", (left, right), fails=fails, last_first=True)

    def bitwise(self, node: exp.Expr, sign: str) -> Term:
        left = self.of_kind(node.this, "integral", sign)
        if sign.startswith("shift"):
            right = self.of_kind(node.expression, "int", sign)
            sql, type_ = f"{sign}({left.sql}, {right.sql})", left.type
        else:
            right = self.of_kind(node.expression, "integral", sign)
            sql = f"({left.sql} {sign} {right.sql})"
            type_ = "int" if left.type == right.type == "int" else "bigint"
        return strict(sql, type_, (left, right), nullable=left.nullable or right.nullable)

    def comparison(self, node: exp.Expr, sign: str) -> Term:
        left, right = self.pair(node)
        self.comparable(left, right, sign)
        sql = f"({left.sql} {sign} {right.sql})"
        if isinstance(node, exp.NullSafeNEQ):
            sql = f"(NOT {sql})"
        if sign == "<=>":
            return strict(sql, "boolean", (left, right), eager=True, nullable=False)
        return strict(sql, "boolean", (left, right), nullable=left.nullable or right.nullable)

    def logic(self, node: exp.Expr) -> Term:
        word, stops = ("AND", "FALSE") if isinstance(node, exp.And) else ("OR", "TRUE")
        left = self.condition(node.this, word)
        right = self.condition(node.expression, word)
        goes_on = f"{left.sql} IS NOT {stops}"
        return Term(
            sql=f"({left.sql} {word} {right.sql})",
            type="boolean",
            failure=first_of(left.failure, only_if(goes_on, right.failure)),
            nullable=left.nullable or right.nullable,
            tolerance_only=left.tolerance_only or right.tolerance_only,
        )

    def is_test(self, node: exp.Is) -> Term:
        """`x IS NULL`, `x IS TRUE`, `x IS FALSE`."""
        if isinstance(node.expression, exp.Null):
            inner = self.term(node.this)
            sql = f"({inner.sql} IS NULL)"
        elif isinstance(node.expression, exp.Boolean):
            inner = self.condition(node.this, "IS")
            sql = f"({inner.sql} IS {'TRUE' if node.expression.this else 'FALSE'})"
        else:
            raise self.scope.refused("has IS before something other than NULL, TRUE and FALSE")
        # Whether a value is there does not depend on its last digits.
        exact = isinstance(node.expression, exp.Null)
        return Term(
            sql=sql,
            type="boolean",
            failure=inner.failure,
            nullable=False,
            tolerance_only=inner.tolerance_only and not exact,
        )

    def case(self, node: exp.Expr) -> Term:
        """CASE in both forms, and IF: branches from the last to the first."""
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        subject = self.term(node.this) if isinstance(node, exp.Case) and node.this else None
        pairs = []
        for branch in branches:
            if subject is None:
                test = self.condition(branch.this, "WHEN" if len(branches) > 1 else "IF")
            else:
                value = self.term(branch.this)
                self.comparable(subject, value, "WHEN")
                nullable = subject.nullable or value.nullable
                sql = f"({subject.sql} = {value.sql})"
                test = strict(sql, "boolean", (subject, value), nullable=nullable)
            pairs.append((test, self.term(branch.args["true"])))
        otherwise = node.args.get("default") if isinstance(node, exp.Case) else (
            node.args.get("false")
        )  # fmt: skip
        return self.choice(pairs, None if otherwise is None else self.term(otherwise))

    def choice(self, pairs: list[tuple[Term, Term]], otherwise: Term | None) -> Term:
        """The value of the first test that is true, else `otherwise` (None: NULL)."""
        results = [value for _, value in pairs] + ([otherwise] if otherwise else [])
        failure = otherwise.failure if otherwise else None
        for test, value in reversed(pairs):
            failure = first_of(
                test.failure,
                only_if(f"{test.sql} IS TRUE", value.failure),
                only_if(f"{test.sql} IS NOT TRUE", failure),
            )
        whens = " ".join(f"WHEN {test.sql} THEN {value.sql}" for test, value in pairs)
        last = f" ELSE {otherwise.sql}" if otherwise else ""
        parts = [*results, *(test for test, _ in pairs)]
        return Term(
            sql=f"CASE {whens}{last} END",
            type=self.common(results, "the branches of CASE or IF"),
            failure=failure,
            nullable=otherwise is None or any(r.nullable for r in results),
            tolerance_only=any(p.tolerance_only for p in parts),
        )

    def membership(self, node: exp.In) -> Term:
        subject = self.term(node.this)
        if node.args.get("query") or node.args.get("field") or not node.expressions:
            raise self.scope.refused("has IN without a list: write the values, as in x IN (1, 2)")
        values = [self.term(value) for value in node.expressions]
        for value in values:
            self.comparable(subject, value, "IN")
            if not value.is_constant:
                raise self.scope.refused("has IN with something other than constants: use = and OR")
        listed = ", ".join(value.sql for value in values)
        sql = f"({subject.sql} IN ({listed}))"
        return strict(sql, "boolean", (subject,), nullable=subject.nullable)

    def between(self, node: exp.Between) -> Term:
        if node.args.get("symmetric"):
            raise self.scope.refused("has BETWEEN SYMMETRIC: put the lower value first")
        subject, low, high = (self.term(node.args[part]) for part in ("this", "low", "high"))
        self.comparable(subject, low, "BETWEEN")
        self.comparable(subject, high, "BETWEEN")
        above, below = f"{subject.sql} >= {low.sql}", f"{subject.sql} <= {high.sql}"
        first = strict(above, "boolean", (subject, low))
        second = strict(below, "boolean", (subject, high))
        return Term(
            sql=f"({above} AND {below})",
            type="boolean",
            failure=first_of(first.failure, only_if(f"({above}) IS NOT FALSE", second.failure)),
            nullable=any(t.nullable for t in (subject, low, high)),
            tolerance_only=any(t.tolerance_only for t in (subject, low, high)),
        )

    def like(self, node: exp.Expr) -> Term:
        escape = "\\"
        if isinstance(node, exp.Escape):
            escape = str(node.expression.this)
            node = node.this
        if len(escape) != 1 or not isinstance(node, exp.Like | exp.ILike):
            raise self.scope.refused("has an ESCAPE that is not one character")
        word = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
        subject = self.of_kind(node.this, "string", word)
        if isinstance(node.expression, exp.Any | exp.Tuple | exp.Paren):
            raise self.scope.refused(f"has {word} with several patterns: join conditions by OR")
        pattern = self.term(node.expression)
        if not isinstance(pattern.constant, str):
            raise self.scope.refused(f"has {word} with a pattern that is not written out")
        reason = not_a_like_pattern(pattern.constant, escape)
        if reason:
            raise self.scope.refused(f"has the pattern {pattern.constant!r}, which {reason}")
        suffix = "" if escape == "\\" else f" ESCAPE {quote(escape)}"
        sql = f"({subject.sql} {word} {pattern.sql}{suffix})"
        if node.args.get("negate"):
            sql = f"(NOT {sql})"
        return strict(sql, "boolean", (subject,), nullable=subject.nullable)

    def item(self, node: exp.Bracket) -> Term:
        """`array[i]`, counted from 0; raises beyond its ends."""
        array = self.of_kind(node.this, "array", "[ ]")
        if len(node.expressions) != 1:
            raise self.scope.refused("has [ ] with more than one position")
        index = self.of_kind(node.expressions[0], "int", "[ ]")
        return strict(
            f"get({array.sql}, {index.sql})",
            coercion.element_of(array.type),
            (array, index),
            fails=Failure(
                f"({index.sql} < 0 OR {index.sql} >= size({array.sql}))",
                FailureCause.NO_SUCH_ELEMENT,
            ),
        )


def _for_decimals(term: Term, other: Term) -> str:
    """The type of a term; a whole number written out has its own digits next to a decimal."""
    if coercion.is_decimal(other.type) and type(term.constant) is int:
        return coercion.decimal(len(str(abs(term.constant))), 0)
    return term.type
