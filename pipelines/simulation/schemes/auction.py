"""An auction for every task: a participant over its threshold asks all partners for bids.

Each partner bids its marginal cost of a unit; the lowest bid wins if it is below what the seller
saves, and is paid the second lowest, or what the seller saves where there is no other bid (a
price found for each fragment separately, as computational economies do). Bids reveal costs, and
every fragment costs a message to and from every partner. No range bounds the price, so load
travels over full partners.
"""

from __future__ import annotations

from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.limits import DEAD_BAND
from pipelines.simulation.schemes.worlds import Outcome, World


class AuctionPerTask:
    """See the module."""

    name = "auction"

    def run(self, world: World, rounds_max: int) -> Outcome:
        """See `Scheme.run`. At rest once no auction of a round found a winner.

        Each seller auctions in a round what is above its threshold; bids count what was won before.
        """
        course = Course(world, scheme=self.name)
        partners: list[list[int]] = [[] for _ in range(world.participants)]
        for contract in world.contracts:
            partners[contract.payer].append(contract.provider)
        while course.round < rounds_max:
            course.begin_round()
            over = [
                (one, course.units[one] - world.thresholds[one])
                for one in range(world.participants)
                if course.units[one] > world.thresholds[one] and partners[one]
            ]
            sold = offers = 0
            for seller, count in over:
                for _ in range(count):
                    offers += len(partners[seller])
                    if not _auction(course, seller, partners[seller]):
                        break
                    sold += 1
            course.end_round(offers, offers)
            if not sold and course.round >= world.changes_until:
                return course.outcome(is_at_rest=True)
        return course.outcome(is_at_rest=False)


def _auction(course: Course, seller: int, partners: list[int]) -> bool:
    """Sell the fragment taken last; whether somebody won it."""
    bids = sorted((course.tables[one].adding(course.units[one]), one) for one in partners)
    bid, winner = bids[0]
    saving = course.tables[seller].removing(course.units[seller])
    if bid >= saving * (1 - DEAD_BAND):
        return False
    price = min(bids[1][0], saving) if len(bids) > 1 else saving
    course.move(course.carried[seller][-1], seller, winner, price)
    return True
