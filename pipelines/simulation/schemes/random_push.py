"""Random push: a participant over its threshold hands the excess to a partner drawn at random.

There are no questions and no payments: a baseline without contracts' prices. A participant that
receives too much pushes it on in the next round, so with little room left it continues for long.
"""

from __future__ import annotations

from random import Random

from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.worlds import Outcome, World

ROUNDS_MAX = 500
"""Where load does not fit it would go on for ever."""


class RandomPush:
    """See the module."""

    name = "push"

    def run(self, world: World, rounds_max: int) -> Outcome:
        """See `Scheme.run`. At rest once nobody who has a partner is over its threshold."""
        course, random = Course(world, scheme=self.name), Random(f"push {world.seed}")
        partners: list[list[int]] = [[] for _ in range(world.participants)]
        for contract in world.contracts:
            partners[contract.payer].append(contract.provider)
        over = _over(course, set(range(world.participants)), partners)
        rounds_max = min(rounds_max, world.changes_until + ROUNDS_MAX)
        while course.round < rounds_max and (over or course.round < world.changes_until):
            touched = set(over) | set(course.begin_round())
            over = _over(course, touched, partners)
            pushed = [
                (one, random.choice(partners[one]), course.carried[one][world.thresholds[one] :])
                for one in sorted(over)
            ]
            for giver, taker, fragments in pushed:
                touched.add(taker)
                for fragment in fragments:
                    course.move(fragment, giver, taker, None)
            course.end_round(len(pushed), 0)
            over = _over(course, touched, partners)
        return course.outcome(is_at_rest=not over)


def _over(course: Course, among: set[int], partners: list[list[int]]) -> set[int]:
    thresholds = course.world.thresholds
    return {one for one in among if course.units[one] > thresholds[one] and partners[one]}
