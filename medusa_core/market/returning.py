"""The end of moves that do not pay any more: what is taken back, and what is given back.

A payer takes a fragment back that costs less at home than its price, the dearest first, as long as
that causes no overload. A provider gives a fragment back that costs more than its price, or that it
cannot carry, the cheapest first. There is a band on either side of the price, and above the
threshold, between these rules and those by which load is handed over, and nothing returns before
the residence is over: so nothing moves to and fro under a load that stays.

Source: NSDI 2004, marginal cost by difference; CIDR 2003, 5 (movement contracts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from medusa_core.decisions import DecisionReason
from medusa_core.market.costs import CostFunction
from medusa_core.market.decisions import EndMove
from medusa_core.market.headroom import pays_to_take
from medusa_core.market.knowledge import MarketKnowledge, MarketLimits, MovedLoad

GIVEN_BACK_BAND = 0.1
"""By which part a threshold or a price is exceeded before a provider gives a fragment back. It was
accepted by the load that its payer stated, and that load is metered here with some noise: without
a band it would be given back, offered and accepted again and again."""


def decide_returns(knowledge: MarketKnowledge) -> list[EndMove]:
    """The moves to end now: those of others' load first, and then none of one's own."""
    return given_back(knowledge) or taken_back(knowledge)


def given_back(knowledge: MarketKnowledge) -> list[EndMove]:
    """What a provider gives back, the cheapest first."""
    return list(_given_back(knowledge))


def taken_back(knowledge: MarketKnowledge) -> list[EndMove]:
    """What a payer takes back, the dearest first."""
    given = (moved for moved in knowledge.moved if moved.is_given)
    load, ends = knowledge.load, []
    for moved in worth_taking_back(
        knowledge.cost, load, knowledge.threshold, knowledge.limits, given, knowledge.clock_ms
    ):
        ends.append(_end(moved, "it costs less here than its price", knowledge, load))
        load += moved.item.load
    return ends


def worth_taking_back(
    cost: CostFunction,
    load: float,
    threshold: float,
    limits: MarketLimits,
    given: Iterable[MovedLoad],
    at_ms: int,
) -> Iterator[MovedLoad]:
    """Of the load that is given, what costs less here than its price, one after the other."""
    for moved in sorted(given, key=lambda one: (-one.price, one.item.fragment, one.item.partition)):
        own = moved.item.load
        if own <= 0.0 or at_ms - moved.since_ms < limits.residence_ms:
            continue
        if pays_to_take(cost, load, threshold, moved.price * (1.0 - limits.dead_band), own):
            load += own
            yield moved


def _given_back(knowledge: MarketKnowledge) -> Iterator[EndMove]:
    limits, load = knowledge.limits, knowledge.load
    taken = [moved for moved in knowledge.moved if not moved.is_given]
    for moved in sorted(
        taken, key=lambda one: (one.price, -one.item.load, one.item.fragment, one.item.partition)
    ):
        is_new = knowledge.clock_ms - moved.since_ms < limits.residence_ms
        if is_new or moved.item.load <= 0.0:
            continue
        after = max(load - moved.item.load, 0.0)
        saved = knowledge.cost.cost(load) - knowledge.cost.cost(after)
        if load > knowledge.threshold * (1.0 + GIVEN_BACK_BAND):
            reason = "this participant is overloaded"
        elif saved > moved.price * (1.0 + GIVEN_BACK_BAND) * moved.item.load:
            reason = "it costs more here than its price"
        else:
            continue
        yield _end(moved, reason, knowledge, load)
        load = after


def _end(moved: MovedLoad, reason: str, knowledge: MarketKnowledge, load: float) -> EndMove:
    own = moved.item.load
    without, with_it = (load, load + own) if moved.is_given else (max(load - own, 0.0), load)
    cost = knowledge.cost.cost(with_it) - knowledge.cost.cost(without)
    numbers = {
        "load": load,
        "threshold": knowledge.threshold,
        "of_it": own,
        "cost": cost,
        "price": moved.price * own,
    }
    return EndMove(moved=moved, because=DecisionReason(reason, numbers))
