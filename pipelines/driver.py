"""The driver of one participant: read knowledge, decide, apply; again and again.

Applying does what a decision says and decides nothing. The order of a step is numbered in
docs/architecture.md; every number is a place at which the driver may die.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from medusa_core.commits import Commit, Committed, LeaseKey
from medusa_core.decide import CloseBuckets, ComputeStep, Decision, Wait, decide
from medusa_core.errors import OutcomeUnknown, Unavailable
from medusa_core.fragments import Fragment
from medusa_core.knowledge import Knowledge, Limits
from medusa_core.names import PlanId
from medusa_core.network import Port
from medusa_core.plans import Plan
from pipelines.catalog.interface import Catalog
from pipelines.failpoints import reached
from pipelines.leases import LeaseKeeper
from pipelines.networks.check import CheckedNetwork
from pipelines.streams.landing import close_buckets, landing_fragment

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.spark.step import StepEngine

COMMIT_TRIES = 5
_POINTS = {CloseBuckets: "close", ComputeStep: "step"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A decision that was carried out, and what the catalog answered."""

    decision: CloseBuckets | ComputeStep
    commit: Commit
    committed: Committed


class Said(Protocol):
    """Who is told what a driver does, as it does it."""

    def decided(self, decision: Decision) -> None: ...
    def applied(self, applied: Applied) -> None: ...


class Driver:
    """Runs the fragments of one plan in one home.

    `stands_for`: older plans that no engine here can run any more and that say the same but for
    their engine; their buckets are computed, and labelled, under this one.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        root: Path,
        plan: Plan,
        checked: CheckedNetwork,
        fragments: Sequence[Fragment],
        leases: LeaseKeeper,
        engine: Callable[[], StepEngine],
        limits: Limits,
        said: Said | None = None,
        stands_for: Collection[PlanId] = (),
    ) -> None:
        self._catalog = catalog
        self._root = root
        self._plan_id: PlanId = plan.id
        self._stands_for = frozenset({plan.id, *stands_for})
        self._checked = checked
        self._fragments: Mapping[str, Fragment] = {f.id: f for f in fragments}
        self._leases = leases
        self._engine = engine
        self._limits = limits
        self._said = said

    def read(self) -> Knowledge:
        """What this participant knows now (1)."""
        knowledge = self._catalog.read_knowledge(self._fragments, self._limits)
        mine, plan = self._stands_for, self._plan_id
        return replace(
            knowledge,
            landings=tuple(replace(k, plan=plan) for k in knowledge.landings if k.plan in mine),
            fragments=tuple(replace(k, plan=plan) for k in knowledge.fragments if k.plan in mine),
        )

    def decide(self) -> list[Decision]:
        """What it would do now (1, 2)."""
        knowledge = self.read()
        return decide(knowledge, knowledge.clock_ms)

    def tick(self) -> list[Applied]:
        """One round: decide, then apply in order. Empty when there is nothing to do."""
        applied = []
        away: Unavailable | None = None
        for decision in self.decide():
            if self._said:
                self._said.decided(decision)
            if isinstance(decision, Wait):
                continue
            try:
                commit = self._commit_of(decision)
            except Unavailable as error:
                # A file or the disk: what another fragment needs may be there.
                away = away or error
                continue
            committed = commit_until_known(self._catalog, commit)
            reached(f"{_POINTS[type(decision)]}.committed")
            done = Applied(decision=decision, commit=commit, committed=committed)
            if self._said:
                self._said.applied(done)
            applied.append(done)
        if away is not None:
            raise away
        return applied

    def _commit_of(self, decision: CloseBuckets | ComputeStep) -> Commit:
        match decision:
            case CloseBuckets():
                return self._close(decision)
            case ComputeStep():
                return self._compute(decision)
            case _:
                assert_never(decision)

    def _close(self, decision: CloseBuckets) -> Commit:
        reached("close.decided")
        landing = decision.landing
        lease = self._leases.lease(
            LeaseKey(fragment=landing_fragment(landing.stream), producer=landing.producer)
        )
        columns = self._checked.columns[Port(landing.stream)]
        commit = close_buckets(decision, self._catalog, self._root, columns, lease, self._plan_id)
        reached("close.written")
        return commit

    def _compute(self, step: ComputeStep) -> Commit:
        from pipelines.spark.step import commit_of

        reached("step.decided")
        engine = self._engine()
        result = engine.compute(step)
        engine.swear_in(step, result)
        reached("step.synced")
        known = step.fragment
        lease = self._leases.lease(
            LeaseKey(fragment=known.fragment.id, producer=known.producer, partition=known.partition)
        )
        return commit_of(step, result, lease)


def commit_until_known(catalog: Catalog, commit: Commit) -> Committed:
    """Commit (5); after a lost reply the same commit again, which finds the first if it was made.

    Raises OutcomeUnknown if the catalog stays away, Conflict if the lease was lost.
    """
    for _ in range(COMMIT_TRIES - 1):
        try:
            return catalog.commit(commit)
        except OutcomeUnknown:
            continue
    return catalog.commit(commit)
