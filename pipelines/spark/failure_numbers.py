"""Which expression of a box failed and why, as a number in SQL, read by `FallibleBox.failure`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipelines.language.aggregates import CompiledAggregate
from pipelines.language.failure_causes import Failure, FailureCause

ERROR = "_error"


def error_whens(errors: Sequence[str | None]) -> str:
    """WHEN branches that give the number of the first expression that failed; "" if none can."""
    return " ".join(f"WHEN {error} THEN {at}" for at, error in enumerate(errors) if error)


def numbered_failures(
    aggregates: Sequence[tuple[str, CompiledAggregate]],
) -> Iterator[tuple[str, str]]:
    """For each value that can fail: the condition, and the number of the failure."""
    for at, (_, aggregate) in enumerate(aggregates):
        if aggregate.failure is not None:
            yield aggregate.failure.condition, failure_number(at, aggregate.failure)


def error_column(numbered: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The column with the number of the first failure; none if no value can fail."""
    whens = " ".join(f"WHEN {condition} THEN {number}" for condition, number in numbered)
    return (f"CASE {whens} END AS {ERROR}",) if whens else ()


def failure_number(at: int, failure: Failure) -> str:
    """The number of a failure of the expression `at`, in SQL, for where it failed."""
    first = at * len(FailureCause)
    if isinstance(failure.cause, FailureCause):
        return str(first + failure.cause)
    return f"({first} + {failure.cause})"


def failure_number_case(at: str, failures: Sequence[Failure | None]) -> str:
    """The number of the failure in SQL, for rows on which the expression `at` failed."""
    numbers = {n: failure_number(n, failure) for n, failure in enumerate(failures) if failure}
    whens = " ".join(f"WHEN {n} THEN {number}" for n, number in numbers.items())
    return f"CASE {at} {whens} END"
