"""The driver of one participant: read knowledge, decide, apply; again and again.

Applying does what a decision says and decides nothing. The order of a step is numbered in
docs/architecture.md; every number is a place at which the driver may die.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, assert_never

from medusa_core.columns import Column
from medusa_core.commits import Commit, Committed, Lease, LeaseKey
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

    from pipelines.spark.results import StepResult

COMMIT_TRIES = 5

ONE_BY_ONE_MAX = 16
"""How many decisions are carried out one after the other; more are done many at a time."""

AT_ONCE_MAX = 256
_THREADS = ThreadPoolExecutor(4, "medusa-driver")

Doable: TypeAlias = CloseBuckets | ComputeStep
Computed: TypeAlias = "tuple[ComputeStep, StepResult]"
_POINTS = {CloseBuckets: "close", ComputeStep: "step"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A decision that was carried out, and what the catalog answered."""

    decision: Doable
    commit: Commit
    committed: Committed


class Engine(Protocol):
    """What computes steps; `pipelines.spark.step.StepEngine` says the rest."""

    def compute(self, step: ComputeStep) -> StepResult: ...
    def swear_in(self, step: ComputeStep, result: StepResult) -> None: ...
    def compute_together(self, steps: Sequence[ComputeStep]) -> Iterator[list[Computed]]: ...


class Close(Protocol):
    """What writes the segment of closed buckets: `pipelines.streams.landing.close_buckets`."""

    def __call__(
        self,
        decision: CloseBuckets,
        catalog: Catalog,
        root: Path,
        columns: Sequence[Column],
        lease: Lease,
        plan: PlanId,
    ) -> Commit: ...


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
        engine: Callable[[], Engine],
        limits: Limits,
        said: Said | None = None,
        stands_for: Collection[PlanId] = (),
        close: Close = close_buckets,
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
        self._close_buckets = close

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
        work = []
        for decision in self.decide():
            if self._said:
                self._said.decided(decision)
            if not isinstance(decision, Wait):
                work.append(decision)
        applied: list[Applied] = []
        away: list[Unavailable] = []
        if len(work) <= ONE_BY_ONE_MAX:
            self._apply(work, applied, away)
        else:
            self._apply_many(work, applied, away)
        if away:
            raise away[0]
        return applied

    def _apply(
        self, work: Sequence[Doable], applied: list[Applied], away: list[Unavailable]
    ) -> None:
        """Do one after the other."""
        for decision in work:
            try:
                commit = self._commit_of(decision)
            except Unavailable as error:
                # A file or the disk: what another fragment needs may be there.
                away.append(error)
                continue
            self._note(decision, commit, commit_until_known(self._catalog, commit), applied)

    def _apply_many(
        self, work: Sequence[Doable], applied: list[Applied], away: list[Unavailable]
    ) -> None:
        """Do what is alike together: steps share jobs, waiting for disk and catalog overlaps."""
        steps = [d for d in work if isinstance(d, ComputeStep)]
        left = {id(step): step for step in steps}
        try:
            for batch in self._engine().compute_together(steps) if steps else ():
                made = [(step, self._commit_of_step(step, result)) for step, result in batch]
                self._commit_all(made, applied)
                for step, _ in batch:
                    del left[id(step)]
        except Unavailable:
            # Whose file it is shows when each is tried alone.
            self._apply(list(left.values()), applied, away)
        closes = [d for d in work if isinstance(d, CloseBuckets)]
        for at in range(0, len(closes), AT_ONCE_MAX):
            chunk = closes[at : at + AT_ONCE_MAX]
            found = list(_THREADS.map(self._closed, chunk))
            away += [error for error in found if isinstance(error, Unavailable)]
            self._commit_all(
                [(d, c) for d, c in zip(chunk, found, strict=True) if isinstance(c, Commit)],
                applied,
            )

    def _closed(self, decision: CloseBuckets) -> Commit | Unavailable:
        try:
            return self._close(decision)
        except Unavailable as error:
            return error

    def _commit_all(self, made: Sequence[tuple[Doable, Commit]], applied: list[Applied]) -> None:
        """Commit each (5), several at a time; all are over when this returns or raises."""
        asked = [_THREADS.submit(commit_until_known, self._catalog, c) for _, c in made]
        wait(asked)
        for (decision, commit), answer in zip(made, asked, strict=True):
            if answer.exception() is None:
                self._note(decision, commit, answer.result(), applied)
        for answer in asked:
            answer.result()

    def _note(
        self, decision: Doable, commit: Commit, committed: Committed, applied: list[Applied]
    ) -> None:
        reached(f"{_POINTS[type(decision)]}.committed")
        done = Applied(decision=decision, commit=commit, committed=committed)
        if self._said:
            self._said.applied(done)
        applied.append(done)

    def _commit_of(self, decision: Doable) -> Commit:
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
        commit = self._close_buckets(
            decision, self._catalog, self._root, columns, lease, self._plan_id
        )
        reached("close.written")
        return commit

    def _compute(self, step: ComputeStep) -> Commit:
        reached("step.decided")
        engine = self._engine()
        result = engine.compute(step)
        engine.swear_in(step, result)
        return self._commit_of_step(step, result)

    def _commit_of_step(self, step: ComputeStep, result: StepResult) -> Commit:
        from pipelines.spark.step import commit_of

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
