"""One schedule: a scenario, its faults while it runs, and convergence after them.

First the safety phase: anything may fail, nothing wrong may be committed. Then all heals, and the
liveness phase begins: nothing fails any more, nothing may be owed or tentative after N ticks
(L1), and all rows must equal the oracle's (L2).
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

from medusa_core.errors import MedusaError
from pipelines.base.failpoints import visited_by
from pipelines.simulation.faults.drawn_faults import Faults
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.liveness import Settled, excused_in, let_compare, settle
from pipelines.simulation.faults.outcome import check_outcome
from pipelines.simulation.faults.scenario import draw_scenario
from pipelines.simulation.faults.schedule_shapes import WHOLE, Shape
from pipelines.simulation.faults.world import Observe, World


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFigures:
    """What a schedule was and what happened in it; `violation` is None if all laws held.

    `form`: of its network. `interleavings`: in how many homes a reader read before and after both a
    trim and a kill. `market`: messages and moves in one. `revisions`: of sources, of computed
    streams, of copies (`followed`), and how many buckets were compared meanwhile, or were mixtures.
    `moves`: states of moves in homes that give and take, changes of owners, steps adopted.
    """

    seed: int
    form: str
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
    settled: Settled
    virtual_ms: int
    violation: str | None
    market: Counter[str] = field(default_factory=Counter)
    revisions: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)


def run_schedule(
    seed: int, observe: Observe | None = None, shape: Shape = WHOLE
) -> ScheduleFigures:
    """Run the schedule of a seed to its end or to the first violation."""
    scenario = draw_scenario(seed, shape)
    world = World(scenario, observe)
    faults = Faults(world)
    rows, settled, violation = 0, Settled(), None
    with closing(world), visited_by(world.pass_point):
        try:
            world.run(until=lambda: world.now_ms > faults.last_ms and faults.is_over)
            settled = settle(world, faults.healed_ms)
            let_compare(world)
            world.choices.check_noted(world.gone_for_good)
            rows = check_outcome(scenario, world.homes, excused_in(world), world.revisions)
        except (Violation, AssertionError, MedusaError) as broken:
            # A broken invariant or a refusal of the product is a finding like a broken law.
            kind = "" if isinstance(broken, Violation) else f"{type(broken).__name__}: "
            violation = f"{kind}{broken}"
            world.emit("laws", "VIOLATION", violation)
    return ScheduleFigures(
        seed=seed,
        form=scenario.rules.form.value,
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
        settled=settled,
        virtual_ms=world.now_ms,
        violation=violation,
        revisions=world.laws.revisions.counts,
        moves=world.laws.moves.counts,
    )


def commits_by_cause(world: World) -> Counter[str]:
    """The commits of all homes."""
    found: Counter[str] = Counter()
    for home in world.homes.values():
        for cause, n in home.catalog.step_counts().items():
            found[cause.value] += n
    return found
