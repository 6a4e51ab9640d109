"""Recent costs of steps, read from their metering."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from medusa_core.step_costs import STEPS_PER_COST, Cost, MeasuredStep, cost_of
from pipelines.catalog.postgres.queries import query


def step_costs_of(connection: Connection, participant: str) -> Mapping[str, Cost]:
    """See `Deployments.step_costs`."""
    steps: dict[str, list[MeasuredStep]] = {}
    values = {"participant": participant, "steps_max": STEPS_PER_COST}
    for row in connection.execute(query("step_costs"), values).mappings():
        step = MeasuredStep(row["ms"], row["records_in"], row["is_tentative"])
        steps.setdefault(row["fragment"], []).append(step)
    return {fragment: cost_of(mine) for fragment, mine in steps.items()}
