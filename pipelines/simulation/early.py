"""An answer in time although an input is missing: the simulator's stand-in for the bound X.

`decide` does not yet compute tentative buckets by itself. So that corrections, superseding and
tentative news are driven all the same, a driver that has nothing to do and has waited long enough
for some of a fragment's inputs computes its next bucket from what is there, as tentative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from medusa_core import owed
from medusa_core.commits import Cause, Commit, LeaseKey
from medusa_core.decide import Because, ComputeStep, reads_of
from medusa_core.fragments import origin_of
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.knowledge import FragmentKnowledge, Knowledge
from medusa_core.names import StreamName
from medusa_core.segments import Stability
from pipelines.catalog.interface import Catalog
from pipelines.driver import Applied, commit_until_known
from pipelines.failpoints import reached
from pipelines.leases import LeaseKeeper
from pipelines.simulation.clients import CatalogClient, short
from pipelines.simulation.engine import SimulatedEngine
from pipelines.simulation.homes import SimulatedHome
from pipelines.simulation.processes import Process
from pipelines.spark.step import commit_of

if TYPE_CHECKING:
    from pipelines.simulation.participants import Teller
    from pipelines.simulation.world import World

PATIENCE_MS = 1_500


@dataclass(frozen=True, slots=True)
class Guess:
    """A tentative step, and what it misses."""

    step: ComputeStep
    missing: tuple[StreamName, ...]


class EarlyDriver:
    """Ticks behind the product's driver, and does something only where that one did nothing."""

    def __init__(
        self,
        world: World,
        process: Process,
        client: CatalogClient,
        engine: SimulatedEngine,
        leases: LeaseKeeper,
        said: Teller,
    ) -> None:
        self._world = world
        self._home = world.homes[process.participant]
        self._client = client
        self._engine = engine
        self._leases = leases
        self._said = said
        self._applications = 0
        self._waits: dict[str, tuple[int, int]] = {}

    def tick(self) -> list[Applied]:
        """Compute one tentative bucket, if it is time."""
        was, self._applications = self._applications, self._said.applications
        if was != self._applications:
            return []
        knowledge = self._client.knowledge
        guess = self._answer(knowledge) if knowledge else None
        if guess is None:
            return []
        reached("step.decided")
        known = guess.step.fragment
        result = self._engine.compute(guess.step)
        reached("step.synced")
        lease = self._leases.lease(
            LeaseKey(fragment=known.fragment.id, producer=known.producer, partition=known.partition)
        )
        commit = self._tentative(commit_of(guess.step, result, lease), guess.missing)
        committed = commit_until_known(cast("Catalog", self._client), commit)
        reached("step.committed")
        return [Applied(decision=guess.step, commit=commit, committed=committed)]

    @staticmethod
    def _tentative(commit: Commit, missing: tuple[StreamName, ...]) -> Commit:
        return replace(commit, segments=tuple(replace(s, missing=missing) for s in commit.segments))

    def _answer(self, knowledge: Knowledge) -> Guess | None:
        """The first fragment's next bucket that has waited for PATIENCE_MS, if any."""
        for known in knowledge.fragments:
            fragment, part = known.fragment.id, next_bucket(known)
            if part is None or not lagging(known, part):
                self._waits.pop(fragment, None)
                continue
            waits_for, since_ms = self._waits.get(fragment, (None, 0))
            if waits_for != part.from_us:
                self._waits[fragment] = (part.from_us, self._world.now_ms)
            elif self._world.now_ms - since_ms >= PATIENCE_MS:
                guess = short(self._world, partial(guess_of, self._world, self._home, fragment))
                self._client.seen = self._home.lines()
                return guess
        return None


def next_bucket(known: FragmentKnowledge) -> Range | None:
    """The next output bucket, if it has begun; None beyond what any input has reached."""
    if any(o.has_ended for o in known.outputs.values()):
        return None
    origins = {name: i.origin_us for name, i in known.inputs.items()}
    if BEGINNING_US in origins.values():
        return None
    width_us = max(o.width_us for o in known.outputs.values())
    from_us = max(min(o.boundary_us for o in known.outputs.values()), origin_of(origins, width_us))
    reached_us = max(
        i.end_us if i.end_us is not None and i.boundary_us == FOREVER_US else i.boundary_us
        for i in known.inputs.values()
    )
    part = Range(from_us, from_us + width_us)
    return part if part.to_us <= reached_us else None


def lagging(known: FragmentKnowledge, part: Range) -> tuple[StreamName, ...]:
    """The inputs whose boundary has not passed a range, if others' has."""
    behind = [name for name, i in known.inputs.items() if owed.ready_through_us(i) < part.to_us]
    return tuple(behind) if len(behind) < len(known.inputs) else ()


def guess_of(world: World, home: SimulatedHome, fragment: str) -> Guess | None:
    """The tentative step over the next bucket, read in one snapshot; None if it is not due."""
    session = home.session()
    session.begin(snapshot=True)
    knowledge = session.catalog.read_knowledge(world.scenario.fragments, world.scenario.limits)
    known = next(f for f in knowledge.fragments if f.fragment.id == fragment)
    part = next_bucket(known)
    missing = lagging(known, part) if part else ()
    if part is None or not missing:
        session.end(keep=True)
        return None
    need = known.fragment.needed_by_all(part)
    inputs = {
        name: replace(i, segments=session.catalog.segments(name, need[name].widened(i.width_us)))
        for name, i in known.inputs.items()
    }
    session.end(keep=True)
    known = replace(known, inputs=inputs)
    outputs = tuple(known.outputs)
    step = ComputeStep(
        fragment=known,
        range=part,
        outputs=outputs,
        reads=tuple(reads_of(known, outputs, part)),
        stability=Stability.TENTATIVE,
        cause=Cause.TENTATIVE,
        ends=False,
        because=Because("waited long enough for an input", {"missing": len(missing)}),
    )
    world.emit(home.participant, "early", f"{fragment} {part}", f"misses {', '.join(missing)}")
    return Guess(step=step, missing=missing)
