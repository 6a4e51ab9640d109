"""A driver that waits for its leases gets ready meanwhile: Spark runs, plans are made and tried.

Of a takeover, opening Spark and planning a fragment for the first time take longest, and neither
needs the lease: nothing is read or written but made-up records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipelines.participant.assigned_plans import AssignedPlan

if TYPE_CHECKING:
    from pipelines.spark.step import StepEngine


def warm_up(
    assigned_plans: tuple[AssignedPlan, ...],
    engine_of: Callable[[AssignedPlan], Callable[[], StepEngine]],
) -> int:
    """Make the plans of everything that is computed here and run them over made-up records.

    Returns how many fragments are ready; where nothing is computed, Spark is not opened.
    """
    ready = 0
    for assigned_plan in assigned_plans:
        for fragment in assigned_plan.fragments:
            engine_of(assigned_plan)().warm_up(fragment)
            ready += 1
    return ready
