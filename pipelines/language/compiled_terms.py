"""A compiled piece of an expression: its SQL that never raises, and when it would have raised.

Every record is computed with `try_` forms, so that one bad value cannot end a job. Each value has
a condition that is true iff plain ANSI evaluation would have raised, or would have made a value
that no column holds: a time outside the years 1 to 9999, a text that is not UTF-8; and the cause
of the error that would have been raised first. Both are built as Spark evaluates: a strict
operation stops at its first NULL; AND and OR, CASE and COALESCE evaluate only what they need. That
is the expression as written: where Spark's optimizer would avoid an error (`x + 1 + -1`, a constant
NULL), the record counts as failed all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.language.failure_causes import Failure, first_of, only_if

SQL_LENGTH_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A checked expression as Spark SQL.

    `sql` never raises. `failure` says when the expression as written would raise or make what no
    column holds, and why; None if it cannot. A `tolerance_only` value may differ in its last digits
    from one run to the next.
    """

    sql: str
    type: str
    failure: Failure | None = None
    tolerance_only: bool = False

    @property
    def error(self) -> str | None:
        """The condition, never NULL, under which it fails; None if it cannot."""
        return None if self.failure is None else self.failure.condition


class NotConstant:
    """The value of a term that is not written out."""


NOT_CONSTANT = NotConstant()


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A compiled piece, with what the pieces around it need to know."""

    sql: str
    type: str
    failure: Failure | None = None
    nullable: bool = True
    constant: object = NOT_CONSTANT
    tolerance_only: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the value is written out."""
        return not isinstance(self.constant, NotConstant)

    @property
    def is_null(self) -> str:
        """The condition that it is NULL."""
        return f"{self.sql} IS NULL"

    @property
    def is_there(self) -> str | None:
        """The condition that it is not NULL; None if it never is."""
        return f"{self.sql} IS NOT NULL" if self.nullable else None


def both(*conditions: str | None) -> str | None:
    """AND of conditions, of which None is true."""
    given = [c for c in conditions if c is not None]
    return " AND ".join(given) if len(given) < 2 else f"({' AND '.join(given)})"


def first_in_order(terms: Iterable[Term]) -> Failure | None:
    """The failure of evaluating terms one after the other, stopping at the first NULL."""
    found: list[Failure | None] = []
    there: list[str | None] = []
    for term in terms:
        found.append(only_if(both(*there) or None, term.failure))
        there.append(term.is_there)
    return first_of(*found)


def strict(
    sql: str,
    type_: str,
    terms: tuple[Term, ...],
    *,
    fails: Failure | None = None,
    eager: bool = False,
    last_first: bool = False,
    nullable: bool | None = None,
) -> Term:
    """A term over others: their failures, and its own, `fails`, where none of them is NULL.

    `eager`: all of them are looked at; `last_first`: the last before the first, as Spark divides.
    """
    if eager:
        inner = first_of(*(t.failure for t in terms))
    else:
        inner = first_in_order(reversed(terms) if last_first else terms)
    own = only_if(both(*(t.is_there for t in terms)) or None, fails)
    return Term(
        sql=sql,
        type=type_,
        failure=first_of(inner, own),
        nullable=True if nullable is None else nullable,
        tolerance_only=any(t.tolerance_only for t in terms),
    )
