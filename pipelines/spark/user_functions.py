"""Aggregate functions of users in Spark: a function of the values that a group has collected.

Spark calls it once for each group, with a list of structs, after its own aggregation; so it runs in
any plan, and next to Spark's functions. While a step is checked, each group is computed in several
orders and parts (`medusa_core.user_aggregates.trial`), and a difference fails the step.

Limit: the values of a group lie in the memory of one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from medusa_core.network import UserAggregate
from medusa_core.user_aggregates import from_stored_records, to_stored, trial, value_of
from pipelines.language.user_calls import sql_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIED = "medusa.aggregates.tried"
_STORED = {"date": "int", "timestamp": "bigint"}


def register(session: SparkSession, aggregates: Sequence[UserAggregate]) -> None:
    """Make aggregate functions known to a session, under their names in compiled SQL."""
    from pyspark.sql.functions import udf

    for aggregate in aggregates:
        type_ = _STORED.get(aggregate.gives, aggregate.gives)
        function = udf(_over_group(aggregate), type_, useArrow=False)
        session.udf.register(sql_name(aggregate), function)


@contextmanager
def tried(session: SparkSession, is_check: bool) -> Iterator[None]:
    """In a check, the groups of this thread's jobs are computed in several orders and parts."""
    context = session.sparkContext
    context.setLocalProperty(_TRIED, "true" if is_check else "")
    try:
        yield
    finally:
        context.setLocalProperty(_TRIED, "")


def _over_group(aggregate: UserAggregate) -> Callable[[Any], Any]:
    """The function of a list of structs, one for each record that counts."""

    def of_group(rows: Any) -> Any:
        from pyspark import TaskContext

        records = from_stored_records(aggregate, rows or ())
        task = TaskContext.get()
        is_check = task is not None and task.getLocalProperty(_TRIED) == "true"
        value = (trial if is_check else value_of)(aggregate, records)
        return to_stored(aggregate.gives, value)

    return of_group
