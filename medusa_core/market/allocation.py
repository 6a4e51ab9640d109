"""Acceptable allocations of load: nobody carries too much while another one has room.

Acceptable is: where the load fits, no participant is over its threshold; where it does not, none is
under it. Otherwise it is within the most room that one has while another one is over.

Source: NSDI 2004, 3.2, acceptable and nearly acceptable allocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.market.headroom import SAME_LOAD

MISSTATED = 0.25
"""By which part a metered load differs from the stated one before it is reported."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Whether an allocation is acceptable; if not, within which load of room it nearly is."""

    is_acceptable: bool
    within: float


def allocation_of(loads: Sequence[float], thresholds: Sequence[float]) -> Allocation:
    """Judge what participants carry, each with its own threshold."""
    bounds = [threshold * (1.0 + SAME_LOAD) for threshold in thresholds]
    over = any(load > most for load, most in zip(loads, bounds, strict=True))
    fits = sum(loads) <= sum(bounds)
    room = max((most - load for load, most in zip(loads, thresholds, strict=True)), default=0.0)
    is_acceptable = (not over) if fits else room <= 0.0
    return Allocation(is_acceptable, 0.0 if is_acceptable or not over else max(room, 0.0))


def is_misstated(stated: float, metered: float) -> bool:
    """Whether a load that a payer has stated is not what its provider meters."""
    return abs(metered - stated) > MISSTATED * stated
