"""L1: the longest time, once all faults are over, until nothing is owed and nothing tentative.

    N = depth + ceil(owed / chunk) / share + 10 ticks

`depth` is the longest chain of fragments, `owed` how many buckets were not final when the faults
were over (an upper bound), `chunk` how many a step takes at most, `share` the guaranteed share of
corrections in the time. A tick is the time after which a loop runs without a notification. The
rest of a dead driver's lease is added: it belongs to the fault; and so is, where fragments move,
how long a move may wait for its partner and for what that computes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from medusa_core.market.moves import ADOPTION_TIMEOUT_MS
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.outcome import Excused, Homes, buckets_owed, unsettled
from pipelines.simulation.faults.revision_laws import RevisionLaws
from pipelines.simulation.faults.scenario import Scenario
from pipelines.simulation.faults.simulated_participants import LEASE_MS, POLL_MS
from pipelines.simulation.faults.world import World

SHARE_PERCENT = 10
MORE_TICKS = 10
LOOK_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The bound and what it is made of."""

    depth: int
    owed: int
    chunk: int
    moves: int = 0

    @property
    def ticks(self) -> int:
        """N."""
        chunks = -(-self.owed // self.chunk)
        return self.depth + chunks * 100 // SHARE_PERCENT + MORE_TICKS + self.moves

    def __str__(self) -> str:
        return (
            f"{self.depth} + ceil({self.owed} / {self.chunk}) / {SHARE_PERCENT} % + {MORE_TICKS} "
            f"{f'+ {self.moves} ' if self.moves else ''}= {self.ticks} ticks"
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """How many ticks it took until all was final, and how many it might have taken."""

    ticks: int = 0
    ticks_max: int = 0


def bound_of(scenario: Scenario, homes: Homes, revisions: RevisionLaws | None = None) -> Bound:
    """The bound for what is owed now."""
    return Bound(
        depth=scenario.depth(),
        owed=buckets_owed(scenario, homes, revisions),
        chunk=scenario.limits.buckets_per_step_max,
    )


def ticks_of_moves(world: World) -> int:
    """How long moves may take in addition: one waits for its partner, and for what it computes."""
    moves = world.scenario.moves
    if not moves.occur:
        return 0
    return -(-(moves.move_ms + ADOPTION_TIMEOUT_MS) // POLL_MS) + MORE_TICKS


def excused_in(world: World) -> Excused:
    """What the end of a schedule is not held to."""
    wrong = world.diverging
    return Excused(
        frozenset(world.gone_for_good),
        world.choices.spoilt_us,
        None if wrong is None else wrong.stream,
    )


def settle(world: World, healed_ms: int) -> Settled:
    """Heal, then let everything become final; raises Violation if it is not within N ticks (L1)."""
    scenario = world.scenario
    world.run(until=lambda: world.now_ms >= healed_ms and not (world.commands or world.moving))
    world.is_operated_late = False
    bound = bound_of(scenario, world.homes, world.revisions)
    bound = replace(bound, moves=ticks_of_moves(world))
    world.emit("laws", "healed", f"{bound.ticks} ticks to settle", str(bound))
    from_ms, ticks_max = world.now_ms, LEASE_MS // POLL_MS + bound.ticks
    last_ms = from_ms + ticks_max * POLL_MS
    look_ms = 0
    open_: list[str] = []

    def is_settled() -> bool:
        nonlocal look_ms, open_
        if world.now_ms < look_ms:
            return False
        look_ms = min(world.now_ms + LOOK_MS, max(last_ms, world.now_ms + 1))
        open_ = unsettled(scenario, world.homes, excused_in(world), world.revisions)
        open_ += world.laws.moves.unsettled(world.gone_for_good)
        return not open_ or world.now_ms >= last_ms

    world.run(until=is_settled)
    if open_:
        raise Violation("L1", f"not settled within {bound}: {', '.join(open_)}")
    return Settled(-((from_ms - world.now_ms) // POLL_MS), ticks_max)


def let_compare(world: World) -> None:
    """Let every home compare what came to it last, one tick for each chunk of a line at most.

    A copy may be final in the moment in which all is settled: its reader has not ticked since.
    Nobody trims meanwhile, which would take away what an overlooked divergence is seen by.
    """
    world.is_trimmed = False
    scenario = world.scenario
    ticks = -(-scenario.buckets // scenario.limits.buckets_per_step_max) + MORE_TICKS
    last_ms, look_ms = world.now_ms + ticks * POLL_MS, 0

    def is_compared() -> bool:
        nonlocal look_ms
        if world.now_ms < look_ms:
            return False
        look_ms = world.now_ms + LOOK_MS
        return world.now_ms >= last_ms or not world.choices.unnoted(world.gone_for_good)

    world.run(until=is_compared)
