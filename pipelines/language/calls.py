"""Functions of one row: from the rows of the allow-list, or by a special rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from medusa_core.suggest import counted
from pipelines.language import coercion
from pipelines.language.compiled_terms import Term, strict
from pipelines.language.constants import complaint, groups_of, not_a_replacement
from pipelines.language.failure_causes import Failure, FailureCause, first_of, only_if
from pipelines.language.functions import (
    AGGREGATES,
    CONSTANT_KINDS,
    REFUSED,
    SCALARS,
    SPECIAL,
    Scalar,
    suggestion,
)
from pipelines.language.leaves import fits
from pipelines.language.scope import article
from pipelines.language.sql_operators import Operators

_TRIED = {
    "try_add": "+",
    "try_subtract": "-",
    "try_multiply": "*",
    "try_divide": "/",
    "try_mod": "%",
}
_BEYOND = "9.223372036854775808E18D"
_LEAST = {"int": "-2147483648", "bigint": "-9223372036854775808L"}


class Scalars(Operators):
    """Compiles expressions over one row."""

    def call(self, name: str, arguments: list[exp.Expr]) -> Term:
        if name in SCALARS:
            return self.listed(SCALARS[name], arguments)
        if name in SPECIAL:
            return self.special(name, arguments)
        if name in REFUSED:
            raise self.scope.refused(f"uses {name}, which is refused: it {REFUSED[name]}")
        if name in AGGREGATES:
            raise self.scope.refused(
                f"uses {name}, which needs many rows: compute it in an aggregate before"
            )
        near = suggestion(name, self.known_functions())
        raise self.scope.refused(f"uses {name}, not on the list of functions{near}")

    def known_functions(self) -> frozenset[str]:
        """What may be suggested for a name that is not known."""
        return frozenset(SCALARS) | SPECIAL

    def listed(self, function: Scalar, arguments: list[exp.Expr]) -> Term:
        """A function by its row in the list."""
        kinds = self.kinds(function, len(arguments))
        terms = tuple(
            self.argument(function.name, number, kind, node)
            for number, (kind, node) in enumerate(zip(kinds, arguments, strict=True), start=1)
        )
        self.check_groups(function.name, kinds, terms)
        listed = ", ".join(t.sql for t in terms)
        plain = f"{function.name}({listed})"
        type_ = self.type_of(function, kinds, terms)
        if function.form is None:
            term = strict(plain, type_, terms, eager=function.eager)
        else:
            written = [t.sql for t in terms]
            sql = function.form.format(*written, all=listed)
            fails = function.fails and function.fails.formatted(*written, all=listed)
            term = strict(sql, type_, terms, fails=fails, eager=function.eager)
        return replace(term, tolerance_only=term.tolerance_only or function.tolerance_only)

    def kinds(self, function: Scalar, given: int) -> list[str]:
        """The kind of each argument; refuses too few and too many."""
        kinds = [kind.rstrip("?*") for kind in function.takes]
        least = sum(not kind.endswith(("?", "*")) for kind in function.takes)
        repeats = bool(function.takes) and function.takes[-1].endswith("*")
        if given > len(kinds) and repeats:
            kinds += [kinds[-1]] * (given - len(kinds))
        if not least <= given <= len(kinds):
            most = "or more" if repeats else f"to {len(kinds)}" if len(kinds) > least else ""
            expected = " ".join(part for part in (str(least), most) if part)
            raise self.scope.refused(
                f"gives {function.name} {counted(given, 'argument')}, but it takes {expected}"
            )
        return kinds[:given]

    def argument(self, name: str, number: int, kind: str, node: exp.Expr) -> Term:
        """One argument, of its kind; refuses another, and a bad constant."""
        term = self.term(node)
        if kind in CONSTANT_KINDS:
            if not term.is_constant:
                raise self.scope.refused(
                    f"gives {name} an argument {number} that is not written out"
                )
            reason = complaint(kind, term.constant)
            if reason:
                raise self.scope.refused(f"gives {name} {term.sql}, which {reason}")
        elif not fits(term.type, kind):
            takes = "a number" if kind in ("number", "double") else kind
            raise self.scope.refused(
                f"gives {name} {article(term.type)} as argument {number}, but it takes {takes}"
            )
        return term

    def check_groups(self, name: str, kinds: list[str], terms: tuple[Term, ...]) -> None:
        """Refuse a group of a pattern that is not there."""
        if "pattern" not in kinds or name not in ("regexp_extract", "regexp_replace"):
            return
        groups = groups_of(str(terms[1].constant))
        if name == "regexp_replace":
            reason = not_a_replacement(str(terms[2].constant), groups)
            if reason:
                raise self.scope.refused(f"gives regexp_replace {terms[2].sql}, which {reason}")
        elif (group := terms[2].constant if len(terms) > 2 else 1) not in range(groups + 1):
            raise self.scope.refused(
                f"takes group {group} of a pattern that has {groups}: write 0 for all"
            )

    def type_of(self, function: Scalar, kinds: list[str], terms: tuple[Term, ...]) -> str:
        """The type of a listed function's value."""
        match function.gives:
            case "first":
                return terms[0].type
            case "element":
                return coercion.element_of(terms[0].type)
            case "common" | "array":
                type_ = self.common(list(terms), function.name)
                return f"array<{type_}>" if function.gives == "array" else type_
        if function.name in ("array_contains", "array_position"):
            element = coercion.element_of(terms[0].type)
            if terms[1].type != element:
                raise self.scope.refused(
                    f"looks for {article(terms[1].type)} among {element}: cast one of them"
                )
        return function.gives

    def special(self, name: str, arguments: list[exp.Expr]) -> Term:
        """A function with a rule of its own."""
        rules: dict[str, tuple[int, int, Callable[[list[exp.Expr]], Term]]] = {
            "if": (3, 3, self.if_call),
            "coalesce": (1, 99, self.coalesce),
            "nvl": (2, 2, self.coalesce),
            "ifnull": (2, 2, self.coalesce),
            "nvl2": (3, 3, self.nvl2),
            "nullif": (2, 2, self.nullif),
            "nanvl": (2, 2, self.nanvl),
            "isnull": (1, 1, lambda a: self.term(exp.Is(this=a[0], expression=exp.Null()))),
            "isnotnull": (
                1, 1, lambda a: self.term(exp.Not(this=exp.Is(this=a[0], expression=exp.Null()))),
            ),
            "equal_null": (
                2, 2, lambda a: self.term(exp.NullSafeEQ(this=a[0], expression=a[1])),
            ),
            "negative": (1, 1, lambda a: self.term(exp.Neg(this=exp.Paren(this=a[0])))),
            "mod": (2, 2, lambda a: self.term(exp.Mod(this=a[0], expression=a[1]))),
            "like": (2, 2, lambda a: self.term(exp.Like(this=a[0], expression=a[1]))),
            "rlike": (2, 2, lambda a: self.call("regexp_like", a)),
            "regexp": (2, 2, lambda a: self.call("regexp_like", a)),
            "abs": (1, 1, self.absolute),
            "round": (1, 2, lambda a: self.rounded("round", a)),
            "bround": (1, 2, lambda a: self.rounded("bround", a)),
            "floor": (1, 1, lambda a: self.whole("floor", a)),
            "ceil": (1, 1, lambda a: self.whole("ceil", a)),
            "ceiling": (1, 1, lambda a: self.whole("ceil", a)),
            "pmod": (2, 2, self.positive_modulo),
            "concat_ws": (2, 99, self.concat_with_separator),
        }  # fmt: skip
        if name in _TRIED:
            if len(arguments) != 2:
                given = counted(len(arguments), "argument")
                raise self.scope.refused(f"gives {name} {given}, but it takes 2")
            left, right = (self.term(node) for node in arguments)
            return self.arithmetic((_TRIED[name], name), left, right, tried=True)
        least, most, rule = rules[name]
        if not least <= len(arguments) <= most:
            takes = str(least) if least == most else f"{least} to {most}"
            raise self.scope.refused(
                f"gives {name} {counted(len(arguments), 'argument')}, but it takes {takes}"
            )
        return rule(arguments)

    def if_call(self, arguments: list[exp.Expr]) -> Term:
        test, then, otherwise = arguments
        return self.choice([(self.condition(test, "IF"), self.term(then))], self.term(otherwise))

    def nvl2(self, arguments: list[exp.Expr]) -> Term:
        subject = self.term(arguments[0])
        test = Term(
            sql=f"({subject.sql} IS NOT NULL)", type="boolean", failure=subject.failure,
            nullable=False,
        )  # fmt: skip
        return self.choice([(test, self.term(arguments[1]))], self.term(arguments[2]))

    def coalesce(self, arguments: list[exp.Expr]) -> Term:
        """The first that is not NULL; later ones are looked at only if the earlier are NULL."""
        terms = [self.term(node) for node in arguments]
        failure = None
        for term in reversed(terms):
            failure = first_of(term.failure, only_if(term.is_null, failure))
        return Term(
            sql=f"coalesce({', '.join(t.sql for t in terms)})",
            type=self.common(terms, "coalesce"),
            failure=failure,
            nullable=all(t.nullable for t in terms),
            tolerance_only=any(t.tolerance_only for t in terms),
        )

    def nullif(self, arguments: list[exp.Expr]) -> Term:
        left, right = (self.term(node) for node in arguments)
        self.comparable(left, right, "nullif")
        return strict(f"IF({left.sql} = {right.sql}, NULL, {left.sql})", left.type, (left, right))

    def nanvl(self, arguments: list[exp.Expr]) -> Term:
        """The second where the first is NaN; looked at only then."""
        first, second = (self.of_kind(node, "double", "nanvl") for node in arguments)
        return Term(
            sql=f"nanvl({first.sql}, {second.sql})",
            type="double",
            failure=first_of(first.failure, only_if(f"isnan({first.sql})", second.failure)),
            tolerance_only=first.tolerance_only or second.tolerance_only,
        )

    def absolute(self, arguments: list[exp.Expr]) -> Term:
        term = self.of_kind(arguments[0], "number", "abs")
        self.signed(term, "abs")
        if term.type not in _LEAST:
            return strict(f"abs({term.sql})", term.type, (term,), nullable=term.nullable)
        least = f"{term.sql} = {_LEAST[term.type]}"
        sql = f"IF({least}, NULL, abs({term.sql}))"
        return strict(sql, term.type, (term,), fails=Failure(least, FailureCause.OVERFLOW))

    def rounded(self, name: str, arguments: list[exp.Expr]) -> Term:
        """round and bround, to a constant number of digits; what they give counts as exact."""
        term = self.of_kind(arguments[0], "number", name)
        digits = 0
        if len(arguments) > 1:
            digits = self.argument(name, 2, "digits", arguments[1]).constant  # type: ignore[assignment]
        type_ = coercion.rounded_type(term.type, digits)
        sql = f"{name}({term.sql}, {digits})"
        whole = strict(sql, type_, (term,), nullable=term.nullable)
        return replace(whole, tolerance_only=False)

    def whole(self, name: str, arguments: list[exp.Expr]) -> Term:
        """floor and ceil: a bigint, of a decimal a decimal; a double may be too large for it."""
        term = self.of_kind(arguments[0], "number", name)
        plain = f"{name}({term.sql})"
        type_ = coercion.rounded_type(term.type, 0, up_or_down=True)
        if term.type != "double":
            return strict(plain, type_, (term,), nullable=term.nullable)
        # NaN is greater than every number in Spark, and its floor is 0.
        there = f"{term.sql} >= -{_BEYOND} AND {term.sql} < {_BEYOND}"
        inside = f"({there} OR isnan({term.sql}))"
        fails = Failure(f"NOT {inside}", FailureCause.OVERFLOW)
        return strict(f"IF({inside}, {plain}, NULL)", type_, (term,), fails=fails)

    def positive_modulo(self, arguments: list[exp.Expr]) -> Term:
        left, right = (self.of_kind(node, "number", "pmod") for node in arguments)
        if coercion.is_decimal(left.type) or coercion.is_decimal(right.type):
            raise self.scope.refused("gives pmod a decimal: it takes whole numbers and doubles")
        type_ = coercion.common_type(left.type, right.type)
        assert type_ is not None
        fails = Failure(f"{right.sql} = 0", FailureCause.DIVISION_BY_ZERO)
        sql = f"IF({fails.condition}, NULL, pmod({left.sql}, {right.sql}))"
        return strict(sql, type_, (left, right), fails=fails, last_first=True)

    def concat_with_separator(self, arguments: list[exp.Expr]) -> Term:
        """Joins what is not NULL."""
        separator = self.argument("concat_ws", 1, "constant", arguments[0])
        terms = tuple(
            self.argument("concat_ws", number, "text", node)
            for number, node in enumerate(arguments[1:], start=2)
        )
        sql = f"concat_ws({', '.join(t.sql for t in (separator, *terms))})"
        return strict(sql, "string", terms, eager=True, nullable=False)
