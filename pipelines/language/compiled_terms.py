"""A compiled piece of an expression: its SQL that never raises, and when it would have raised.

Every record is computed with `try_` forms, so that one bad value cannot end a job. Each value has
a condition that is true iff plain ANSI evaluation would have raised, or would have made a value
that no column holds: a time outside the years 1 to 9999, a text that is not UTF-8. It is built
as Spark evaluates: a strict operation stops at its first NULL; AND and OR, CASE and COALESCE
evaluate only what they need. That is the expression as written: where Spark's optimizer would
avoid an error (`x + 1 + -1`, a constant NULL), the record counts as failed all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SQL_LENGTH_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A checked expression as Spark SQL.

    `sql` never raises. `error` is a condition, never NULL, that is true iff the expression as
    written would raise or make what no column holds; None if it cannot. A `tolerance_only` value
    may differ in its last digits from one run to the next.
    """

    sql: str
    type: str
    error: str | None = None
    tolerance_only: bool = False


class NotConstant:
    """The value of a term that is not written out."""


NOT_CONSTANT = NotConstant()


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A compiled piece, with what the pieces around it need to know."""

    sql: str
    type: str
    error: str | None = None
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


def either(*conditions: str | None) -> str | None:
    """OR of conditions, of which None is false."""
    given = [c for c in conditions if c is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else f"({' OR '.join(given)})"


def only_if(condition: str | None, error: str | None) -> str | None:
    """An error that counts only if a condition holds (None: always); no error stays none."""
    return None if error is None else both(condition, error)


def errors_in_order(terms: Iterable[Term]) -> str | None:
    """The error of evaluating terms one after the other, stopping at the first NULL."""
    found: list[str | None] = []
    there: list[str | None] = []
    for term in terms:
        found.append(only_if(both(*there) or None, term.error))
        there.append(term.is_there)
    return either(*found)


def strict(
    sql: str,
    type_: str,
    terms: tuple[Term, ...],
    *,
    fails: str | None = None,
    eager: bool = False,
    last_first: bool = False,
    nullable: bool | None = None,
) -> Term:
    """A term over others: their errors, and its own, `fails`, where none of them is NULL.

    `eager`: all of them are looked at; `last_first`: the last before the first, as Spark divides.
    """
    if eager:
        inner = either(*(t.error for t in terms))
    else:
        inner = errors_in_order(reversed(terms) if last_first else terms)
    own = None if fails is None else both(*(t.is_there for t in terms), fails)
    return Term(
        sql=sql,
        type=type_,
        error=either(inner, own),
        nullable=True if nullable is None else nullable,
        tolerance_only=any(t.tolerance_only for t in terms),
    )
