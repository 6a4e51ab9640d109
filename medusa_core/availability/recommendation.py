"""Which method of availability to choose: the cheapest of those that meet a promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.availability.measured_figures import Figure, FragmentFigures
from medusa_core.availability.methods import (
    STRENGTH,
    AvailabilityOption,
    MethodCost,
    options_of,
)
from medusa_core.market.terms import Recovery

GIB = 1 << 30
HOUR_S = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePrices:
    """What an hour of one core costs, a GiB that is sent, and a GiB that is kept for an hour."""

    core_hour: Figure
    gib_sent: Figure
    gib_hour: Figure

    def per_hour(self, cost: MethodCost) -> float:
        """What a method costs in an hour."""
        return (
            cost.cpu * self.core_hour.value
            + cost.link_bytes * HOUR_S / GIB * self.gib_sent.value
            + cost.kept_bytes / GIB * self.gib_hour.value
        )


@dataclass(frozen=True, slots=True)
class AvailabilityPromise:
    """What is promised of a fragment, and where that is written; no time is promised without
    `bound_ms`."""

    recovery: Recovery
    bound_ms: float | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What there is to choose from, each with its cost in an hour, and what to choose.

    `chosen` is None if no option meets the promise.
    """

    figures: FragmentFigures
    promise: AvailabilityPromise
    options: tuple[tuple[AvailabilityOption, float], ...]
    chosen: AvailabilityOption | None


def advice_for(
    figures: FragmentFigures, promise: AvailabilityPromise, prices: ResourcePrices
) -> Advice:
    """What to choose for a fragment.

    Among the cheapest that meet the promise it is the strongest recovery, then the shortest.
    """
    options = tuple((option, prices.per_hour(option.cost)) for option in options_of(figures))
    return Advice(
        figures=figures,
        promise=promise,
        options=options,
        chosen=_cheapest(options, promise),
    )


def _cheapest(
    options: Sequence[tuple[AvailabilityOption, float]], promise: AvailabilityPromise
) -> AvailabilityOption | None:
    meeting = [
        (cost, -STRENGTH[option.recovery], option.recovery_ms or 0.0, at, option)
        for at, (option, cost) in enumerate(options)
        if option.meets(promise.recovery, promise.bound_ms)
    ]
    return min(meeting)[4] if meeting else None
