"""A home in memory in which decisions can be made and carried out, for what is told of them."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.commits import Cause, Commit, QuarantinedRecord, StepMetrics
from medusa_core.decide import CloseBuckets, ComputeStep, Decision, decide
from medusa_core.knowledge import Limits
from medusa_core.segments import Stability
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.participant.driver import Applied
from tests.catalog import building as a

HOUR_MS = 3_600_000
COST = StepMetrics(records_in=6, records_out=2, spark_jobs=1, phases_ms={"run": 40.0, "sync": 10.0})


class World:
    """The example network: two buckets of `src` have landed, and are promised unless said."""

    def __init__(self, clock_ms: int = 100_000, promised: int = 2) -> None:
        self.clock = ManualClock(clock_ms)
        self.catalog = MemoryCatalog(a.ALPHA, self.clock)
        self.catalog.deploy(a.a_deployment())
        for fragment in (a.LANDING, a.MAIN, a.TAIL):
            self.catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", HOUR_MS)
        landing = a.a_lease(a.LANDING)
        self.catalog.land(landing, a.a_batch(0, {0: 3, 1: 3}))
        self.catalog.promise(
            landing, a.SRC, origin_us=0, boundary_us=promised * a.WIDTH_US, end_us=None
        )

    def decisions(self) -> list[Decision]:
        """What would be done now."""
        knowledge = self.catalog.read_knowledge(a.some_fragments(), Limits())
        return decide(knowledge, knowledge.clock_ms)

    def close(self) -> Applied:
        """Close what the source's boundary has passed."""
        (decision,) = [d for d in self.decisions() if isinstance(d, CloseBuckets)]
        segment = a.a_segment(0, 2, stream=a.SRC, rows={0: 3, 1: 3})
        commit = replace(a.a_commit(segment, lease=a.a_lease(a.LANDING)), cause=Cause.LANDING)
        return self._applied(decision, commit)

    def compute(
        self,
        stability: Stability = Stability.STABLE,
        quarantine: tuple[QuarantinedRecord, ...] = (),
    ) -> Applied:
        """Compute the sums of both buckets."""
        (decision,) = [d for d in self.decisions() if isinstance(d, ComputeStep)]
        segment = a.a_segment(0, 2, stability, rows={0: 1, 1: 1})
        commit = replace(a.a_commit(segment, quarantine=quarantine), metrics=COST)
        return self._applied(replace(decision, stability=stability), commit)

    def _applied(self, decision: CloseBuckets | ComputeStep, commit: Commit) -> Applied:
        return Applied(
            decision=decision, commit=commit, committed=self.catalog.commit(commit),
            commit_key=commit.key,
        )  # fmt: skip
