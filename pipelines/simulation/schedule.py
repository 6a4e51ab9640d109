"""One schedule: a scenario, its faults while it runs, and convergence after them.

First safety (anything may fail, nothing wrong may be committed), then liveness: once the faults are
over, nothing may be owed after N ticks (L1), and what is there must be the oracle's (L2).
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass

from medusa_core.errors import MedusaError
from pipelines.failpoints import visited_by
from pipelines.simulation.events import Violation
from pipelines.simulation.faults import Faults
from pipelines.simulation.outcome import buckets_owed, check_outcome, unsettled
from pipelines.simulation.participants import LEASE_MS, POLL_MS
from pipelines.simulation.scenario import Scenario, draw_scenario
from pipelines.simulation.shapes import WHOLE, Shape
from pipelines.simulation.world import Tell, World

CORRECTION_SHARE = 0.1
SETTLING_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFigures:
    """What a schedule was and what happened in it; `violation` is None if all laws held.

    `interleavings`: in how many homes a reader read before and after both a trim and a kill.
    """

    seed: int
    participants: int
    fragments: int
    depth: int
    buckets: int
    faults: Counter[str]
    gaps: Counter[tuple[str, str]]
    events: Counter[str]
    reads: Counter[str]
    interleavings: int
    commits: Counter[str]
    rows: int
    virtual_ms: int
    violation: str | None


def run_schedule(seed: int, tell: Tell | None = None, shape: Shape = WHOLE) -> ScheduleFigures:
    """Run the schedule of a seed to its end or to the first violation."""
    scenario = draw_scenario(seed, shape)
    world = World(scenario, tell)
    faults = Faults(world)
    rows, violation = 0, None
    with closing(world), visited_by(world.pass_point):
        try:
            world.run(until=lambda: world.now_ms >= faults.last_ms and faults.is_over)
            settle(world, faults)
            rows = check_outcome(scenario, world.homes)
        except (Violation, AssertionError, MedusaError) as broken:
            # A broken invariant or a refusal of the product is a finding like a broken law.
            kind = "" if isinstance(broken, Violation) else f"{type(broken).__name__}: "
            violation = f"{kind}{broken}"
            world.emit("laws", "VIOLATION", violation)
    return ScheduleFigures(
        seed=seed,
        participants=len(scenario.participants),
        fragments=len(scenario.fragments),
        depth=scenario.depth(),
        buckets=scenario.buckets,
        faults=faults.happened,
        gaps=faults.gaps,
        events=world.kinds,
        reads=world.reads,
        interleavings=sum(home.is_interleaved for home in world.homes.values()),
        commits=commits_by_cause(world),
        rows=rows,
        virtual_ms=world.now_ms,
        violation=violation,
    )


def settle(world: World, faults: Faults) -> None:
    """Let the faults end; then everything must be final within N ticks (L1)."""
    scenario = world.scenario
    world.run(until=lambda: world.now_ms >= faults.healed_ms)
    ticks = settling_ticks(scenario, buckets_owed(scenario, world.homes))
    last_ms = world.now_ms + LEASE_MS + ticks * POLL_MS
    world.emit("laws", "healed", f"{ticks} ticks to settle")
    checked_ms = 0

    def is_settled() -> bool:
        nonlocal checked_ms
        if world.now_ms >= last_ms:
            return True
        if world.now_ms < checked_ms:
            return False
        checked_ms = world.now_ms + SETTLING_MS
        return not unsettled(scenario, world.homes)

    world.run(until=is_settled)


def settling_ticks(scenario: Scenario, owed: int) -> int:
    """L1: depth + ceil(owed / chunk) / share + 10."""
    chunks = -(-owed // scenario.limits.buckets_per_step_max)
    return scenario.depth() + int(chunks / CORRECTION_SHARE) + 10


def commits_by_cause(world: World) -> Counter[str]:
    """The commits of all homes."""
    found: Counter[str] = Counter()
    for home in world.homes.values():
        for cause, n in home.catalog.step_counts().items():
            found[cause.value] += n
    return found
