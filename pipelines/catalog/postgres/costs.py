"""What steps have cost lately, read from their metering."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from medusa_core.bounds import STEPS_PER_COST, Cost, cost_of
from pipelines.catalog.postgres.queries import query


def step_costs_of(connection: Connection, participant: str) -> Mapping[str, Cost]:
    """See `Catalog.step_costs`."""
    steps: dict[str, list[tuple[float, int]]] = {}
    values = {"participant": participant, "steps_max": STEPS_PER_COST}
    for row in connection.execute(query("step_costs"), values).mappings():
        steps.setdefault(row["fragment"], []).append((row["ms"], row["records_in"]))
    return {fragment: cost_of(mine) for fragment, mine in steps.items()}
