"""One schedule of a market: rounds while things fail (S4, S5, ONCE), and rest after all (L3)."""

from __future__ import annotations

from collections import Counter

from medusa_core.errors import MedusaError
from pipelines.base.failpoints import visited_by
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.liveness import Settled
from pipelines.simulation.faults.schedule import ScheduleFigures
from pipelines.simulation.faults.world import Observe
from pipelines.simulation.rounds.market_faults import MarketFaults
from pipelines.simulation.rounds.market_scenario import draw_market
from pipelines.simulation.rounds.market_world import MarketWorld
from pipelines.simulation.rounds.rest import Rested, settle

MARKET = "market "
"""What the forms of markets begin with."""

TO_REST, TO_REST_MAX = "rounds to rest", "rounds allowed"
COUNTED = ("round", "offer", "answer", "room", "move", "refused", "conflict", "revision", "load")


def run_market_schedule(seed: int, observe: Observe | None = None) -> ScheduleFigures:
    """Run the market of a seed to its rest or to the first violation."""
    market = draw_market(seed)
    world = MarketWorld(market, observe)
    faults = MarketFaults(world)
    rested, violation = Rested(), None
    with visited_by(world.reached):
        try:
            world.run(market.safety_ms)
            rested = settle(world, faults.healed_ms)
        except (Violation, AssertionError, MedusaError) as broken:
            kind = "" if isinstance(broken, Violation) else f"{type(broken).__name__}: "
            violation = f"{kind}{broken}"
            world.emit("laws", "VIOLATION", violation)
    counted = Counter({name: world.events[name] for name in COUNTED})
    counted[TO_REST] = rested.rounds
    counted[TO_REST_MAX] = rested.rounds_max
    return ScheduleFigures(
        seed=seed,
        form=f"{MARKET}{market.roles.value}",
        participants=len(market.traders),
        fragments=len(market.loads),
        depth=0,
        buckets=0,
        faults=faults.happened,
        gaps=faults.gaps,
        events=world.events,
        reads=Counter(),
        interleavings=0,
        commits=Counter(),
        rows=0,
        settled=Settled(),
        virtual_ms=world.now_ms,
        violation=violation,
        market=counted,
    )
