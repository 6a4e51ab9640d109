"""Why an expression fails on a record: the causes, as numbers in SQL and as phrases for people.

A record may have several causes. The one that is reported is the first in the order in which the
expression is evaluated, as Spark would raise it: the operands of an operator before the operator
itself, of a division the divisor first, and no branch that is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class FailureCause(IntEnum):
    """A cause; its value stands for it in SQL. `phrase` is how quarantine names it."""

    DIVISION_BY_ZERO = 0
    OVERFLOW = 1
    INVALID_TEXT = 2
    TIME_OUT_OF_RANGE = 3
    NO_SUCH_ELEMENT = 4
    INVALID_UTF8 = 5

    @property
    def phrase(self) -> str:
        """The cause as quarantine names it."""
        return _PHRASES[self]


_PHRASES = {
    FailureCause.DIVISION_BY_ZERO: "division by zero",
    FailureCause.OVERFLOW: "overflow",
    FailureCause.INVALID_TEXT: "text that cannot be cast",
    FailureCause.TIME_OUT_OF_RANGE: "time outside the years 1 to 9999",
    FailureCause.NO_SUCH_ELEMENT: "position outside the array",
    FailureCause.INVALID_UTF8: "bytes that are not UTF-8",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """When an expression fails and why.

    `condition` is SQL, never NULL. `cause` is the cause if there is only one, else SQL that gives
    its number; NULL where the condition is false.
    """

    condition: str
    cause: FailureCause | str

    @classmethod
    def of_either(
        cls, condition: str, first_if: str, first: FailureCause, other: FailureCause
    ) -> Failure:
        """A failure with the cause `first` if `first_if` is true, else `other`."""
        number = f"IF({condition}, IF({first_if}, {first:d}, {other:d}), NULL)"
        return cls(condition, number)

    def formatted(self, *values: str, **named: str) -> Failure:
        """The failure of a template, with these values for its places."""
        cause = self.cause
        if not isinstance(cause, FailureCause):
            cause = cause.format(*values, **named)
        return Failure(self.condition.format(*values, **named), cause)

    @property
    def number(self) -> str:
        """The number of the cause in SQL; NULL where the condition is false."""
        if isinstance(self.cause, FailureCause):
            return f"IF({self.condition}, {self.cause:d}, NULL)"
        return self.cause

    @property
    def number_if_true(self) -> str:
        """The number of the cause in SQL, for where the condition is known to be true."""
        return f"{self.cause:d}" if isinstance(self.cause, FailureCause) else self.cause


def first_of(*failures: Failure | None) -> Failure | None:
    """The first of these failures, in the order of evaluation; None if none can be."""
    given = [f for f in failures if f is not None]
    if len(given) < 2:
        return given[0] if given else None
    condition = f"({' OR '.join(f.condition for f in given)})"
    causes = {f.cause for f in given}
    if len(causes) == 1 and isinstance(given[0].cause, FailureCause):
        return Failure(condition, given[0].cause)
    return Failure(condition, f"coalesce({', '.join(f.number for f in given)})")


def only_if(condition: str | None, failure: Failure | None) -> Failure | None:
    """A failure that counts only if a condition holds (None: always)."""
    if failure is None or condition is None:
        return failure
    both = f"({condition} AND {failure.condition})"
    if isinstance(failure.cause, FailureCause):
        return Failure(both, failure.cause)
    return Failure(both, f"IF({condition}, {failure.cause}, NULL)")
