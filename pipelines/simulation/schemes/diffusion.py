"""Diffusion: partners exchange their loads, and the fuller one hands over a share.

First order, in whole units: over each pair flows the difference divided by one more than the
greater number of partners (the most for which it cannot oscillate), the thresholds being equal; a
difference of two units at least moves one, else it would never shrink. Load is evened out whether
or not there is an overload, and every participant shows its load.
"""

from __future__ import annotations

from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.worlds import Outcome, World


class Diffusion:
    """See the module."""

    name = "diffusion"

    def run(self, world: World, rounds_max: int) -> Outcome:
        """See `Scheme.run`. At rest once no pair has anything to hand over. Each round every
        participant tells each partner its load: that counts as an offer, and nobody answers."""
        course = Course(world, scheme=self.name)
        partners: list[set[int]] = [set() for _ in range(world.participants)]
        for contract in world.contracts:
            partners[contract.payer].add(contract.provider)
        messages = sum(map(len, partners))
        neighbours = [sorted(others) for others in partners]
        degrees = [len(others) for others in partners]
        while course.round < rounds_max:
            course.begin_round()
            before = tuple(course.units)
            moves = 0
            for giver in range(world.participants):
                for taker, count in _flows(giver, neighbours[giver], degrees, before, world):
                    for fragment in course.carried[giver][-1 : -count - 1 : -1]:
                        course.move(fragment, giver, taker, None)
                        moves += 1
            course.end_round(messages, 0)
            if not moves and course.round >= world.changes_until:
                return course.outcome(is_at_rest=True)
        return course.outcome(is_at_rest=False)


def _flows(
    giver: int, partners: list[int], degrees: list[int], units: tuple[int, ...], world: World
) -> list[tuple[int, int]]:
    """What goes to each partner by what all carried before the round, to the emptiest first."""
    most = world.thresholds
    left = units[giver]
    flows = []
    for taker in sorted(partners, key=lambda one: units[one] / most[one]):
        # In whole numbers: half the difference, in units, would make both equally full.
        difference = units[giver] * most[taker] - units[taker] * most[giver]
        together = most[giver] + most[taker]
        if difference < together or left <= 0:
            break
        shared = 2 * difference // (together * (1 + max(degrees[giver], degrees[taker])))
        count = min(shared, left)
        if not count and left * most[taker] > (units[taker] + 1) * most[giver]:
            count = 1
        if count:
            flows.append((taker, count))
            left -= count
    return flows
