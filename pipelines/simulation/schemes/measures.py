"""The figures of a run, and their computation from its outcome.

- *Avoidable* is the excess (units over the thresholds, summed) that a perfect scheduler could
  have placed with all participants connected: the initial excess, less what the total is above
  the sum of thresholds. *Residual* is the part of it, in percent, that is left at the end.
- *Rounds to 95 %* is the first round after which 95 % of the scheme's own final improvement is
  done, *rounds* the last one in which anything moved. Offers and answers are counted up to that
  round, each once per partner and round however many fragments it names.
- *Moves per unit* of removed excess: 1 is the minimum.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from pipelines.simulation.schemes.acceptable import (
    acceptance_of,
    is_uniform,
    lemma_violations,
    moves_bound,
)
from pipelines.simulation.schemes.worlds import Outcome, World

SHARE_OF_IMPROVEMENT = 0.95
BOUNDED_BY_PRICES = ("bounded price", "plain")
"""The schemes that the theorems of papers 3.7 speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one run; means and shares are as the module says. `offers` and `answers` per participant,
    costs per hour. `violations` holds the laws that did not hold, the theorems' among them."""

    scheme: str
    is_at_rest: bool
    excess_before: int
    excess_after: int
    avoidable: int
    residual_percent: float
    rounds_to_95: int
    rounds: int
    offers: float
    answers: float
    moves: int
    moves_per_unit: float | None
    cost_before: float
    cost_after: float
    acceptance: str
    cpu_s: float
    violations: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """As JSON values."""
        return {**asdict(self), "violations": list(self.violations)}


def figures_of(world: World, outcome: Outcome, levels: int) -> Figures:
    """The figures of a run under constant load."""
    before, after = outcome.rounds[0], outcome.rounds[-1]
    total = sum(outcome.units)
    avoidable = before.excess - max(total - sum(world.thresholds), 0)
    left = after.excess - (before.excess - avoidable)
    last = max((at for at, one in enumerate(outcome.rounds) if one.moves), default=0)
    until_rest = outcome.rounds[: last + 1]
    moves = sum(one.moves for one in until_rest)
    removed = before.excess - after.excess
    return Figures(
        scheme=outcome.scheme,
        is_at_rest=outcome.is_at_rest,
        excess_before=before.excess,
        excess_after=after.excess,
        avoidable=avoidable,
        residual_percent=100.0 * left / avoidable if avoidable else 0.0,
        rounds_to_95=rounds_to(outcome, SHARE_OF_IMPROVEMENT),
        rounds=last,
        offers=sum(one.offers for one in until_rest) / world.participants,
        answers=sum(one.answers for one in until_rest) / world.participants,
        moves=moves,
        moves_per_unit=moves / removed if removed > 0 else None,
        cost_before=before.cost,
        cost_after=after.cost,
        acceptance=acceptance_of(world, outcome.units, levels),
        cpu_s=outcome.cpu_s,
        violations=(*outcome.violations, *_theorems(world, outcome, levels, moves)),
    )


def rounds_to(outcome: Outcome, share: float) -> int:
    """The first round after which so much of the final improvement in excess is done."""
    before, after = outcome.rounds[0].excess, outcome.rounds[-1].excess
    # Whole units: half of three is two.
    target = before - math.ceil(share * (before - after) - 1e-9)
    return next(at for at, one in enumerate(outcome.rounds) if one.excess <= target)


def _theorems(world: World, outcome: Outcome, levels: int, moves: int) -> list[str]:
    if outcome.scheme not in BOUNDED_BY_PRICES or not is_uniform(world, levels):
        return []
    found = []
    most = moves_bound(outcome.rounds[0].excess, world.participants, levels)
    if moves > most:
        found.append(f"3.7.3: {moves} moves, {most} at most are allowed")
    if outcome.is_at_rest:
        found += lemma_violations(world, outcome.units, levels)[:3]
    return found
