"""What load costs, as its owner declared it in Postgres."""

from __future__ import annotations

from sqlalchemy import RowMapping

from medusa_core.market.costs import PiecewiseLinear, Queue
from medusa_core.market.declared import DeclaredCost


def declared_of(row: RowMapping) -> DeclaredCost:
    """The cost function in force."""
    cost: Queue | PiecewiseLinear
    if row["kind"] == "queue":
        cost = Queue(capacity=row["capacity"], scale=row["scale"])
    else:
        cost = PiecewiseLinear(tuple((load, cost) for load, cost in row["points"]))
    return DeclaredCost(
        cost=cost, threshold=row["threshold"], currency=row["currency"], number=row["number"]
    )
