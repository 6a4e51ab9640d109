"""The driver of one participant: read knowledge, decide, apply; repeatedly.

Applying carries out a decision and decides nothing. The order of a step is numbered in
docs/architecture.md; every number is a place at which the driver may die.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, TypeAlias, assert_never

from medusa_core.adopting import adopting_commit
from medusa_core.bound_headroom import Headroom, headrooms
from medusa_core.commits import (
    Cause,
    Commit,
    CommitResult,
    Lane,
    Lease,
    LeaseKey,
    OutputSegment,
    joined_commit,
)
from medusa_core.decide import (
    Adopt,
    CloseBuckets,
    ComputeStep,
    Decision,
    Doable,
    DropBuckets,
    Promote,
    Wait,
    decide,
)
from medusa_core.drops.dropping import dropping_commit
from medusa_core.drops.overload import needs_costs
from medusa_core.errors import Conflict, MedusaError, OutcomeUnknown, Refused, Unavailable
from medusa_core.fragments import Fragment, landing_fragment
from medusa_core.grid import BEGINNING_US
from medusa_core.knowledge import FragmentKnowledge, Knowledge, Limits
from medusa_core.loads import ActivityKind
from medusa_core.names import PlanId, StreamName
from medusa_core.network import Port
from medusa_core.paths import paths_ms
from medusa_core.segments import Stability
from medusa_core.states import State, Transition, state_of
from medusa_core.step_costs import Cost
from medusa_core.wait_budget import WaitBudget, wait_budget_of
from pipelines.base.cpu_meter import NO_METER, Meter
from pipelines.base.failpoints import reached
from pipelines.catalog.processing_roles import Deployments, Steps
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assigned_plans import AssignedPlan
from pipelines.participant.attribution import spans_of
from pipelines.participant.loop_times import LoopTimes
from pipelines.participant.retries import Retries
from pipelines.sources.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.spark.results import StepResult, Verified

COMMIT_TRIES = 5

ONE_BY_ONE_MAX = 16
"""How many decisions are carried out one after the other; more are done many at a time."""

AT_ONCE_MAX = 256
COMMITS_PER_CALL = 64
STEPS_PER_COMMIT = 64
"""What is committed in one transaction is seen, and its leases are renewed, when all of it is."""

_THREADS = ThreadPoolExecutor(4, "medusa-driver")

Computed: TypeAlias = "tuple[ComputeStep, StepResult]"
_POINTS = {
    CloseBuckets: "close",
    ComputeStep: "step",
    Promote: "step",
    Adopt: "step",
    DropBuckets: "step",
}

COSTS_EVERY_MS = 5_000
"""How often the recent costs of steps are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A decision that was carried out, and what the catalog answered.

    `commit` is what the decision made; the commit with the key may have held more.
    """

    decision: Doable
    commit: Commit
    committed: CommitResult
    commit_key: str


@dataclass(frozen=True, slots=True)
class Made:
    """One commit, and the decisions that it carries out, each with its part of it."""

    commit: Commit
    parts: tuple[tuple[Doable, Commit], ...]

    @classmethod
    def alone(cls, decision: Doable, commit: Commit) -> Made:
        """The commit of one decision."""
        return cls(commit, ((decision, commit),))


class Engine(Protocol):
    """What computes steps; see `pipelines.spark.step.StepEngine`."""

    def compute(self, step: ComputeStep) -> StepResult: ...
    def check_deterministic(self, step: ComputeStep, result: StepResult) -> None: ...
    def compute_together(self, steps: Sequence[ComputeStep]) -> Iterator[list[Computed]]: ...


class Closer(Protocol):
    """Writes the segments of closed buckets; `pipelines.sources.closing.BucketCloser`."""

    def close(self, closing: Closing) -> Commit: ...
    def close_together(self, closings: Sequence[Closing]) -> list[Commit]: ...


class DriverHome(Deployments, Steps, Protocol):
    """What a driver reads to decide, and where it commits."""


@dataclass(frozen=True, slots=True)
class DriverTick:
    """What a tick did; `away` is the first thing that kept a step from being made."""

    applied: list[Applied]
    away: Unavailable | None = None


class DriverObserver(Protocol):
    """Observes what a driver does, as it does it; an alarm without a reason has ended."""

    def decided(self, decision: Decision) -> None: ...
    def applied(self, applied: Applied) -> None: ...
    def transitioned(self, transition: Transition) -> None: ...
    def alarm(self, of: str, because: str | None) -> None: ...
    def verified(self, verified: Verified) -> None: ...


class Driver:
    """Runs the fragments of one plan in one home, in the lane of its leases.

    Of fragments and sources that other processes of the participant share it runs those that
    `is_here` names at the moment.

    After a tick `wakes_in_ms` is when there is something to do even if nothing happens, and
    `paths_ms` what the path behind each input costs, `wait_budgets` how long each may be waited
    for, and `headrooms` what the bounds leave.
    """

    def __init__(
        self,
        *,
        catalog: DriverHome,
        assigned_plan: AssignedPlan,
        closer: Closer,
        leases: LeaseRenewer,
        engine: Callable[[], Engine],
        limits: Limits,
        observer: DriverObserver | None = None,
        meter: Meter = NO_METER,
        is_here: Callable[[str], bool] = lambda fragment: True,
    ) -> None:
        self._catalog = catalog
        self._meter = meter
        self._plan_id: PlanId = assigned_plan.plan.id
        self._equal_plans = frozenset({assigned_plan.plan.id, *assigned_plan.equal_plans})
        self._checked = assigned_plan.checked
        self._fragments: Mapping[str, Fragment] = {f.id: f for f in assigned_plan.fragments}
        self._leases = leases
        self._engine = engine
        self._limits = limits
        self._is_here = is_here
        self._observer = observer
        self._closer = closer
        self._lane = leases.lane
        self._costs: Mapping[str, Cost] = {}
        self._states: dict[str, State] = {}
        self._retries = Retries(observer.alarm if observer else lambda of, because: None)
        self._requested_ms: int | None = None
        self._read_ms = 0
        self._times = LoopTimes()
        self.wakes_in_ms: int | None = None
        self.paths_ms: Mapping[StreamName, int] = {}
        self.wait_budgets: Mapping[StreamName, WaitBudget] = {}
        self.headrooms: tuple[Headroom, ...] = ()

    def read(self) -> Knowledge:
        """What this participant knows now (1)."""
        here = {name: one for name, one in self._fragments.items() if self._is_here(name)}
        knowledge = self._catalog.read_knowledge(here, self._limits)
        mine, plan = self._equal_plans, self._plan_id
        return replace(
            knowledge,
            landings=tuple(
                k if k.plan == plan else replace(k, plan=plan)
                for k in knowledge.landings
                if k.plan in mine and self._is_here(landing_fragment(k.stream))
            ),
            fragments=tuple(
                self._own(k, knowledge.clock_ms)
                for k in knowledge.fragments
                if k.plan in mine or mine.intersection(_plans_owed(k))
            ),
        )

    def _own(self, known: FragmentKnowledge, now_ms: int) -> FragmentKnowledge:
        """What is this plan's of a fragment: of one that has another by now, the corrections."""
        mine = self._equal_plans
        return replace(
            known,
            plan=self._plan_id,
            tentative=tuple(t for t in known.tentative if t.segment.plan in mine),
            revised=tuple(r for r in known.revised if r.segment.plan in mine),
            until_us=known.until_us if known.plan in mine else BEGINNING_US,
            cost=self._cost_of(known, now_ms),
        )

    def _cost_of(self, known: FragmentKnowledge, now_ms: int) -> Cost:
        """What its steps cost here, where a bound asks for it."""
        metered = self._costs.get(known.fragment.id, known.cost)
        if known.bound is None:
            return metered
        return self._times.cost(known.fragment.id, metered, now_ms)

    def decide(self) -> list[Decision]:
        """What it would do now (1, 2)."""
        knowledge = self._costed(self.read())
        self._read_ms = knowledge.clock_ms
        self._note_states(knowledge)
        decisions = decide(knowledge, knowledge.clock_ms, self._lane)
        dues = [d.until_ms for d in decisions if isinstance(d, Wait) and d.until_ms is not None]
        self.wakes_in_ms = max(min(dues) - knowledge.clock_ms, 0) if dues else None
        self.paths_ms = paths_ms(knowledge.fragments)
        self.wait_budgets = wait_budget_of(knowledge.fragments)
        self.headrooms = headrooms(knowledge.fragments)
        return decisions

    def _costed(self, knowledge: Knowledge) -> Knowledge:
        """The knowledge with what steps have cost lately, where a decision asks for it."""
        if not needs_costs(knowledge):
            return knowledge
        now_ms = knowledge.clock_ms
        if self._requested_ms is None or not 0 <= now_ms - self._requested_ms < COSTS_EVERY_MS:
            self._costs, self._requested_ms = self._catalog.step_costs(), now_ms
            costed = (self._own(known, now_ms) for known in knowledge.fragments)
            return replace(knowledge, fragments=tuple(costed))
        return knowledge

    def _note_states(self, knowledge: Knowledge) -> None:
        """Record which fragments came into another state of the protocol.

        While a fragment is another process's, that one records its states.
        """
        here = {known.fragment.id for known in knowledge.fragments}
        self._states = {of: state for of, state in self._states.items() if of in here}
        for known in knowledge.fragments:
            state, because = state_of(known)
            of = known.fragment.id
            if self._states.get(of) is state:
                continue
            transition = Transition(
                fragment=of,
                partition=known.partition,
                producer=known.producer,
                state=state,
                because=because,
            )
            is_live = self._lane is Lane.LIVE
            if is_live and self._catalog.record_transition(transition) and self._observer:
                self._observer.transitioned(transition)
            self._states[of] = state

    def tick(self, lead_ms: float = 0.0, tick_ms: float = 0.0) -> list[Applied]:
        """As `attempt`, but raises Unavailable if something kept a step from being made."""
        ticked = self.attempt(lead_ms, tick_ms)
        if ticked.away is not None:
            raise ticked.away
        return ticked.applied

    def attempt(self, lead_ms: float = 0.0, tick_ms: float = 0.0) -> DriverTick:
        """One round: decide, then apply in order. Nothing is applied when there is nothing to do.

        A fragment whose step lacks something is put off, and the others go on. Raises Unavailable
        if the catalog cannot be read.
        `lead_ms` is how long the loop has worked since it woke up, `tick_ms` how long its last
        tick took.
        """
        self._times.note_tick(tick_ms, lead_ms)
        self._meter.tick()
        decisions = []
        for decision in self.decide():
            if self._observer:
                self._observer.decided(decision)
            if not isinstance(decision, Wait):
                decisions.append(decision)
        self._retries.keep({retried_as(decision) for decision in decisions})
        decisions = [d for d in decisions if not self._retries.waits(retried_as(d), self._read_ms)]
        self._meter.did(kind=ActivityKind.DECIDING)
        applied: list[Applied] = []
        away: list[Unavailable] = []
        if len(decisions) > ONE_BY_ONE_MAX:
            self._apply_many(decisions, applied, away)
        else:
            for is_together, group in groupby(decisions, _is_computed_together):
                some = list(group)
                are_many = is_together and len(some) > 1
                (self._apply_many if are_many else self._apply)(some, applied, away)
        self._times.note_steps(applied, self._read_ms)
        return DriverTick(applied, away[0] if away else None)

    def _apply(
        self, decisions: Sequence[Doable], applied: list[Applied], away: list[Unavailable]
    ) -> None:
        """Do one after the other."""
        for decision in decisions:
            try:
                commit = self._commit_of(decision)
                committed = commit_until_known(self._catalog, commit)
            except Unavailable as error:
                # A file, the disk, or what the catalog says to this commit: others may go on.
                away.append(error)
                self._retries.failed(retried_as(decision), error, self._read_ms)
                self._meter.did(spans_of(decision))
                continue
            self._note(Made.alone(decision, commit), committed, applied)
            self._meter.did(spans_of(decision, commit))

    def _apply_many(
        self, decisions: Sequence[Doable], applied: list[Applied], away: list[Unavailable]
    ) -> None:
        """Do what is alike together: steps share jobs, waiting for disk and catalog overlaps."""
        steps = [d for d in decisions if isinstance(d, ComputeStep)]
        if steps:
            reached("step.decided")
        try:
            for batch in self._started().compute_together(steps) if steps else ():
                made = [(step, self._commit_of_step(step, result)) for step, result in batch]
                self._commit_all(_joined(made), applied)
                self._meter.did(*(spans_of(step, commit) for step, commit in made))
        except Unavailable:
            # Whose file it is shows when each is tried alone.
            done = {id(one.decision) for one in applied}
            self._apply([step for step in steps if id(step) not in done], applied, away)
        self._apply(
            [d for d in decisions if isinstance(d, Promote | Adopt | DropBuckets)], applied, away
        )
        closes = [d for d in decisions if isinstance(d, CloseBuckets)]
        for at in range(0, len(closes), AT_ONCE_MAX):
            self._close_many(closes[at : at + AT_ONCE_MAX], applied, away)

    def _close_many(
        self, closes: Sequence[CloseBuckets], applied: list[Applied], away: list[Unavailable]
    ) -> None:
        """Close what can be in one go; where something is the matter, each alone."""
        reached("close.decided")
        try:
            commits = self._closer.close_together([self._closing(d) for d in closes])
        except (Refused, Conflict, Unavailable):
            # Whose it is shows when each is tried alone.
            self._apply(closes, applied, away)
            return
        reached("close.written")
        self._commit_all(list(map(Made.alone, closes, commits)), applied)
        self._meter.did(*map(spans_of, closes, commits))

    def _commit_all(self, made: Sequence[Made], applied: list[Applied]) -> None:
        """Commit each (5), many in one call; all are over when this returns or raises."""
        parts = [made[at : at + COMMITS_PER_CALL] for at in range(0, len(made), COMMITS_PER_CALL)]
        if len(parts) == 1:
            self._note_all(parts[0], self._answers(parts[0]), applied)
            return
        results = [_THREADS.submit(self._answers, part) for part in parts]
        wait(results)
        failed: list[BaseException] = []
        for part, result in zip(parts, results, strict=True):
            if (error := result.exception()) is not None:
                failed.insert(0, error)
                continue
            try:
                self._note_all(part, result.result(), applied)
            except MedusaError as refusal:
                failed.append(refusal)
        for error in failed:
            raise error

    def _answers(self, part: Sequence[Made]) -> Sequence[CommitResult | MedusaError]:
        return commit_many_until_known(self._catalog, [one.commit for one in part])

    def _note_all(
        self, part: Sequence[Made], answers: Sequence[CommitResult | MedusaError],
        applied: list[Applied],
    ) -> None:  # fmt: skip
        """Note what was committed; raises what the first other was refused with."""
        refused: list[MedusaError] = []
        for one, answer in zip(part, answers, strict=True):
            if isinstance(answer, MedusaError):
                refused.append(answer)
            else:
                self._note(one, answer, applied)
        for error in refused:
            raise error

    def _note(self, made: Made, committed: CommitResult, applied: list[Applied]) -> None:
        reached(f"{_POINTS[type(made.parts[0][0])]}.committed")
        for decision, part in made.parts:
            self._retries.succeeded(retried_as(decision))
            done = Applied(
                decision=decision, commit=part, committed=committed, commit_key=made.commit.key
            )
            if self._observer:
                self._observer.applied(done)
            applied.append(done)

    def _commit_of(self, decision: Doable) -> Commit:
        match decision:
            case CloseBuckets():
                return self._close(decision)
            case ComputeStep():
                return self._compute(decision)
            case Promote():
                return self._promote(decision)
            case Adopt():
                return self._adopt(decision)
            case DropBuckets():
                reached("step.decided")
                return dropping_commit(decision, self._lease_of_step(decision.fragment))
            case _:
                assert_never(decision)

    def _promote(self, decision: Promote) -> Commit:
        """The tentative segments once more, as final: the same rows and files, another lineage."""
        reached("step.decided")
        known = decision.fragment
        return Commit(
            lease=self._lease_of_step(known),
            plan=known.plan,
            cause=Cause.CORRECTION,
            segments=tuple(
                OutputSegment(
                    stream=t.segment.stream,
                    range=t.segment.range,
                    stability=Stability.STABLE,
                    buckets=t.segment.buckets,
                    files=t.segment.files,
                    fresh_ms=decision.fresh_ms,
                )
                for t in decision.tentative
            ),
            lineage=decision.reads,
        )

    def _adopt(self, decision: Adopt) -> Commit:
        """The provider's rows and files as this home's own, with this home's lineage."""
        reached("step.decided")
        return adopting_commit(decision, self._lease_of_step(decision.fragment))

    def _lease_of_step(self, known: FragmentKnowledge) -> Lease:
        return self._leases.lease(
            LeaseKey(
                fragment=known.fragment.id,
                producer=known.producer,
                partition=known.partition,
                lane=self._lane,
            )
        )

    def _close(self, decision: CloseBuckets) -> Commit:
        reached("close.decided")
        commit = self._closer.close(self._closing(decision))
        reached("close.written")
        return commit

    def _closing(self, decision: CloseBuckets) -> Closing:
        return Closing(
            decision=decision,
            columns=self._checked.columns[Port(decision.landing.stream)],
            lease=self._lease_of(decision),
            plan=self._plan_id,
        )

    def _lease_of(self, decision: CloseBuckets) -> Lease:
        landing = decision.landing
        return self._leases.lease(
            LeaseKey(fragment=landing_fragment(landing.stream), producer=landing.producer)
        )

    def _compute(self, step: ComputeStep) -> Commit:
        reached("step.decided")
        engine = self._started()
        result = engine.compute(step)
        engine.check_deterministic(step, result)
        return self._commit_of_step(step, result)

    def _started(self) -> Engine:
        """The engine; what starting it costs, the first time, is no step's."""
        engine = self._engine()
        self._meter.did(kind=ActivityKind.STARTING)
        return engine

    def _commit_of_step(self, step: ComputeStep, result: StepResult) -> Commit:
        from pipelines.spark.step import commit_of

        reached("step.synced")
        if result.verified is not None and self._observer is not None:
            self._observer.verified(result.verified)
        return commit_of(step, result, self._lease_of_step(step.fragment))


def _is_computed_together(decision: Doable) -> bool:
    """Whether it is worth computing with others though they are few: nothing waits for it."""
    return isinstance(decision, ComputeStep) and decision.cause is Cause.CORRECTION


def _joined(made: Iterable[tuple[ComputeStep, Commit]]) -> list[Made]:
    """The corrections of one fragment in one commit, other steps each in its own.

    A commit that replaces final rows begins a generation for all ranges of the stream that it has
    (S13), so that revisions are apart from other corrections. Its reason is that of the newest
    revision which one of the ranges has read.
    """
    joined: list[Made] = []
    for _, group in groupby(made, lambda one: (one[1].scope, one[0].is_revision)):
        same = tuple(group)
        at_once = STEPS_PER_COMMIT if _is_computed_together(same[0][0]) else 1
        for at in range(0, len(same), at_once):
            parts = same[at : at + at_once]
            joined.append(Made(joined_commit([commit for _, commit in parts]), parts))
    return joined


def _plans_owed(known: FragmentKnowledge) -> set[PlanId]:
    """The plans under which something final is owed."""
    segments = [t.segment for t in known.tentative] + [r.segment for r in known.revised]
    return {segment.plan for segment in segments}


def retried_as(decision: Doable) -> str:
    """What is put off if it fails: a fragment that lands or computes, its corrections apart."""
    if isinstance(decision, CloseBuckets):
        return landing_fragment(decision.landing.stream)
    fragment = decision.fragment.fragment.id
    is_correction = isinstance(decision, Promote) or decision.cause is Cause.CORRECTION
    return f"corrections of {fragment}" if is_correction else fragment


def commit_until_known(catalog: Steps, commit: Commit) -> CommitResult:
    """Commit (5); after a lost reply the same commit again, which finds the first if it was made.

    Raises OutcomeUnknown if the catalog stays away, Conflict if the lease was lost.
    """
    for _ in range(COMMIT_TRIES - 1):
        try:
            return catalog.commit(commit)
        except OutcomeUnknown:
            continue
    return catalog.commit(commit)


def commit_many_until_known(
    catalog: Steps, commits: Sequence[Commit]
) -> Sequence[CommitResult | MedusaError]:
    """The like for many in one call: for each its answer, or what it was refused with."""
    for _ in range(COMMIT_TRIES - 1):
        try:
            return catalog.commit_many(commits)
        except OutcomeUnknown:
            continue
    return catalog.commit_many(commits)
