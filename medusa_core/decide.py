"""The one entry point: the decisions of a participant, as data with a reason in numbers.

`decide` is pure. Its list has three readers: apply, explain and simulate; none of them decides
anything. Decisions are in the order in which they should be carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from medusa_core import owed
from medusa_core.adopting import adopted
from medusa_core.bounds import Bound, Policy, wait_ms
from medusa_core.commits import Cause, Lane
from medusa_core.corrections import corrections_within
from medusa_core.decisions import (
    Adopt,
    CloseBuckets,
    ComputeStep,
    Decision,
    DecisionReason,
    Doable,
    DropBuckets,
    Promote,
    Wait,
    explain,
)
from medusa_core.drops.dropping import with_drops, without_dropped
from medusa_core.drops.overload import Overload, notices_ms, overload_of, tolerated_ms
from medusa_core.emitted_windows import emitted_within_us
from medusa_core.grid import BEGINNING_US, Range, ceil_us, floor_us
from medusa_core.knowledge import FragmentKnowledge, Knowledge, LandingKnowledge, Limits
from medusa_core.partial import (
    PartialOutput,
    ages_of,
    buckets_of,
    first_lacking,
    fresh,
    partial,
)
from medusa_core.paths import rests_ms
from medusa_core.reads import missing_of, reads_of, records_of, stability_of
from medusa_core.segments import Stability
from medusa_core.step_costs import Cost

__all__ = [
    "Adopt",
    "CloseBuckets",
    "ComputeStep",
    "Decision",
    "DecisionReason",
    "Doable",
    "DropBuckets",
    "Promote",
    "Wait",
    "decide",
    "explain",
]


STEPS_PER_NOTICE = 4
"""How many steps fit into the time that an overload is tolerated, so that it is noticed in time."""


def decide(knowledge: Knowledge, now_ms: int, lane: Lane = Lane.LIVE) -> list[Decision]:
    """What to do now, most urgent first: drops, which take no time, answers that are due without an
    input, then steps, then closing, then corrections in the time that is left (design 6, order of
    work).

    `now_ms` is the catalog's clock; steps of recorded input have no deadline and do not look at it.
    The backlog lane corrects and does nothing else.
    """
    rests = rests_ms(knowledge.fragments)
    tentative: list[ComputeStep] = []
    steps: list[ComputeStep | Adopt] = []
    drops: list[DropBuckets] = []
    waits: list[Wait] = []
    notices = notices_ms(knowledge)
    overload = overload_of(knowledge, notices, now_ms)
    slack_ms = tolerated_ms(knowledge, notices, now_ms)
    for fragment in knowledge.fragments if lane is Lane.LIVE else ():
        bound = fragment.bound
        blocks_ms = 0
        if bound is not None:
            blocks_ms = wait_ms(bound, fragment.cost, rests[fragment.fragment.id])
        step = _at_frontier(
            fragment,
            knowledge.limits,
            overload,
            notices.get(fragment.fragment.id),
            blocks_ms,
            now_ms,
        )
        found: ComputeStep | Adopt | DropBuckets | Wait = step
        if isinstance(step, ComputeStep):
            found = adopted(step, None if bound is None else blocks_ms, now_ms)
        if isinstance(found, Wait):
            waits.append(found)
            if bound is not None:
                left_ms = blocks_ms if found.until_ms is None else found.until_ms - now_ms
                slack_ms = left_ms if slack_ms is None else min(slack_ms, left_ms)
            continue
        if isinstance(found, ComputeStep) and found.cause is Cause.TENTATIVE:
            tentative.append(found)
        elif isinstance(found, DropBuckets):
            drops.append(found)
        else:
            steps.append(found)
        if bound is not None:
            # What comes while a correction runs has all of its time before it.
            slack_ms = blocks_ms if slack_ms is None else min(slack_ms, blocks_ms)
    tentative.sort(key=lambda step: (step.fresh_ms or 0, step.fragment.fragment.id))
    closes: list[Decision] = []
    for landing in knowledge.landings if lane is Lane.LIVE else ():
        closing = decide_landing(landing, knowledge.limits)
        if isinstance(closing, Wait):
            waits.append(closing)
        else:
            closes.append(closing)
    corrected = [
        adopted(correction, None, now_ms) if isinstance(correction, ComputeStep) else correction
        for correction in corrections_within(
            [
                without_dropped(f, overload)
                for f in knowledge.fragments
                if lane is Lane.BACKLOG or not f.is_corrected_apart
            ],
            knowledge.limits,
            slack_ms if lane is Lane.LIVE else None,
            [s.fragment.cost.of_ms(0) for s in (*tentative, *steps)],
        )
    ]
    busy = {d.fragment.fragment.id for d in corrected if not isinstance(d, Wait)}
    idle = [w for w in waits if w.of not in busy]
    suspended = [step for step in steps if _corrects_first(step.fragment)]
    steps = [step for step in steps if not _corrects_first(step.fragment)]
    return [*drops, *tentative, *steps, *closes, *corrected, *suspended, *idle]


def _corrects_first(fragment: FragmentKnowledge) -> bool:
    """Whether a fragment's new buckets come behind its own corrections."""
    bound = fragment.bound
    is_suspended = bound is not None and bound.during_stabilization is Policy.SUSPEND
    return is_suspended and bool(fragment.tentative)


def _at_frontier(
    fragment: FragmentKnowledge, limits: Limits, overload: Overload | None, notice_ms: int | None,
    blocks_ms: int, now_ms: int,
) -> ComputeStep | DropBuckets | Wait:  # fmt: skip
    """The next step of a fragment, or why there is none."""
    ready, bound = owed.frontier(fragment), fragment.bound
    if ready is not None:
        step = frontier_step(fragment, ready, limits)
        if step is not None:
            found = _unless_held_back(fragment, step, bound, blocks_ms, now_ms)
            if isinstance(found, Wait):
                return found
            ms_max = None if notice_ms is None else notice_ms // STEPS_PER_NOTICE
            return with_drops(found, overload, ms_max)
    elif bound is not None:
        lacks = partial(fragment, bound, blocks_ms)
        if lacks is not None:
            return _answer(fragment, lacks, limits, bound, blocks_ms, now_ms)
    return Wait(of=fragment.fragment.id, because=_why_wait(fragment))


def _unless_held_back(
    fragment: FragmentKnowledge, step: ComputeStep, bound: Bound | None, blocks_ms: int, now_ms: int
) -> ComputeStep | Wait:
    """The step, unless a policy lets it wait: for tentative inputs, or while corrections are owed.

    Under `process` a tentative input is an answer, which is not waited for again.
    """
    if bound is None or step.fresh_ms is None:
        return step
    is_tentative = step.stability is Stability.TENTATIVE
    policy = bound.during_failure if is_tentative else bound.during_stabilization
    if policy is Policy.PROCESS or not (is_tentative or fragment.tentative):
        return step
    until_ms = step.fresh_ms + blocks_ms
    if policy is Policy.DELAY and until_ms <= now_ms:
        return step
    if policy is Policy.SUSPEND and not is_tentative:
        return step  # its place in the list is behind the corrections
    what = "an input is tentative" if is_tentative else "corrections are owed"
    return Wait(
        of=fragment.fragment.id,
        because=DecisionReason(
            f"{what} and the policy is {policy.value}",
            {"fresh_ms": step.fresh_ms, "wait_ms": blocks_ms, "now_ms": now_ms},
        ),
        until_ms=until_ms if policy is Policy.DELAY else None,
    )


def _answer(
    fragment: FragmentKnowledge,
    lacks: PartialOutput,
    limits: Limits,
    bound: Bound,
    blocks_ms: int,
    now_ms: int,
) -> ComputeStep | Wait:
    """An answer without the inputs that are missing, once it is due; until then a wait."""
    names = ", ".join(lacks.missing)
    numbers = {
        "bound_ms": bound.bound_ms,
        "wait_ms": blocks_ms,
        **_cost_numbers(fragment.cost),
        "fresh_ms": lacks.fresh_ms,
        "now_ms": now_ms,
    }
    if lacks.due_ms is None:
        waits = f"{names} missing and the policy is suspend"
        if lacks.waited_for:
            waits = f"{', '.join(lacks.waited_for)} missing, and without it rows would be wrong"
        return Wait(of=fragment.fragment.id, because=DecisionReason(waits, numbers))
    if lacks.due_ms > now_ms:
        return Wait(
            of=fragment.fragment.id,
            because=DecisionReason(f"waits for {names} as long as the bound allows", numbers),
            until_ms=lacks.due_ms,
        )
    part = lacks.range
    if not lacks.was_blocked or bound.during_failure is Policy.DELAY:
        part = _due_by(fragment, part, now_ms - blocks_ms)
    part = _within(fragment, part, limits)
    outputs = tuple(fragment.outputs)
    reads = tuple(reads_of(fragment, outputs, part, keeps_content=True))
    return ComputeStep(
        fragment=fragment,
        range=part,
        outputs=outputs,
        reads=reads,
        stability=Stability.TENTATIVE,
        cause=Cause.TENTATIVE,
        ends=False,
        because=DecisionReason(
            f"{names} still missing as in the bucket before"
            if lacks.was_blocked
            else f"{names} missing, and the bound leaves no more time",
            numbers,
        ),
        missing=tuple(sorted({*lacks.missing, *missing_of(fragment, reads)})),
        ages=ages_of(fragment, part, bound),
    )


def _cost_numbers(cost: Cost) -> dict[str, int]:
    """What a wait leaves time for."""
    return {
        "step_ms": cost.step_ms,
        "slow_step_ms": cost.answer_step_ms,
        "around_ms": cost.wake_ms + cost.blocked_ms,
        "gather_ms": cost.gather_ms,
    }


def frontier_step(fragment: FragmentKnowledge, ready: Range, limits: Limits) -> ComputeStep | None:
    """The largest step at the frontier within the limits; at least one output bucket.

    It ends before the first bucket whose stability is another (design 6); where ages differ, its
    outputs differ by them.
    """
    part = _within_limits(fragment, ready, limits)
    if part is None:
        return None
    part = _same_owner(fragment, _same_stability(fragment, part))
    bound = fragment.bound
    outputs = tuple(fragment.outputs)
    stability = stability_of(fragment, part)
    is_final = stability.is_final
    reads = tuple(reads_of(fragment, outputs, part, keeps_content=not is_final))
    return ComputeStep(
        fragment=fragment,
        range=part,
        outputs=outputs,
        reads=reads,
        stability=stability,
        cause=Cause.NORMAL if is_final else Cause.TENTATIVE,
        ends=part.to_us == owed.ends_at_us(fragment),
        because=DecisionReason(
            "the boundary of every input has passed it"
            if is_final
            else "an input is there as tentative",
            {
                "ready_through_us": ready.to_us,
                "records": records_of(fragment, outputs, part),
                "records_per_step_max": limits.records_per_step_max,
            },
        ),
        missing=() if is_final else missing_of(fragment, reads),
        ages=() if bound is None else ages_of(fragment, part, bound),
    )


def _same_owner(fragment: FragmentKnowledge, part: Range) -> Range:
    """As much of a range as has one owner: it ends where a provider's buckets begin or end."""
    provider = fragment.provider
    if provider is None:
        return part
    bounds = (provider.range.from_us, provider.range.to_us)
    return Range(part.from_us, min([at for at in bounds if part.holds(at) and at > part.from_us],
                                   default=part.to_us))  # fmt: skip


def _first_bucket(fragment: FragmentKnowledge, part: Range) -> Range:
    return Range(part.from_us, min(part.from_us + fragment.width_us, part.to_us))


def _within_limits(fragment: FragmentKnowledge, ready: Range, limits: Limits) -> Range | None:
    """As much of a range as a step may take and the knowledge reaches; None if nothing."""
    width_us = fragment.width_us
    counts: dict[int, int] = {}
    to_us = ready.to_us
    for name, part in fragment.fragment.needed_by_all(ready).items():
        input_ = fragment.inputs[name]
        if input_.known_through_us < part.to_us:
            to_us = min(to_us, floor_us(input_.known_through_us, width_us))
        # What a Join needs less far counts where it is needed first.
        delay_us = fragment.fragment.delay_us(name)
        for segment in input_.overlapping(part):
            for at_us, digest in segment.within(part).items():
                first_us = at_us + delay_us
                if first_us >= ready.from_us:
                    counts[first_us] = counts.get(first_us, 0) + digest.rows
    to_us = cut_us(ready.from_us, to_us, counts, width_us, limits)
    emitted_us = emitted_within_us(fragment.fragment, limits.records_per_step_max)
    is_alive = any(i.end_us is None or ready.from_us < i.end_us for i in fragment.inputs.values())
    if emitted_us is not None and is_alive:
        # Rows of windows without records are as many as there is time, and not as records.
        to_us = min(to_us, ready.from_us + max(floor_us(emitted_us, width_us), width_us))
    return Range(ready.from_us, to_us) if to_us > ready.from_us else None


def _within(fragment: FragmentKnowledge, part: Range, limits: Limits) -> Range:
    """The same for an answer: at least as far as the first bucket that lacks something."""
    least = first_lacking(fragment) or _first_bucket(fragment, part)
    return (_within_limits(fragment, part, limits) or least).hull(least)


def _same_stability(fragment: FragmentKnowledge, part: Range) -> Range:
    """As much of a range as has one stability.

    A bucket in which no window ends reads nothing and has no stability of its own. It is computed
    with a stable bucket before it, else with the next bucket that reads something, as in an answer
    (`first_lacking`). A step that ended at each of them would compute a backlog of tentative
    windows bucket by bucket.
    """
    if not any(not s.stability.is_final for i in fragment.inputs.values() for s in i.segments):
        return part
    found: Stability | None = None
    to_us = read_us = part.from_us
    for bucket in buckets_of(fragment, part):
        if fragment.fragment.needed_by_all(bucket):
            stability = stability_of(fragment, bucket)
            if found not in (None, stability):
                break
            found, read_us = stability, bucket.to_us
        to_us = bucket.to_us
    return Range(part.from_us, read_us if found is Stability.TENTATIVE else to_us)


def _due_by(fragment: FragmentKnowledge, part: Range, fresh_ms_max: int) -> Range:
    """As much of a range as has waited long enough; its first bucket has."""
    buckets = buckets_of(fragment, part)
    to_us = next(buckets).to_us
    for bucket in buckets:
        fresh_ms = fresh(fragment, bucket)
        if fresh_ms is not None and fresh_ms > fresh_ms_max:
            break
        to_us = bucket.to_us
    return Range(part.from_us, to_us)


def cut_us(
    from_us: int, to_us: int, counts: Mapping[int, int], width_us: int, limits: Limits
) -> int:
    """Where a step from `from_us` ends: at `to_us`, or before the limits are passed.

    `counts` maps bucket start to records from `from_us` on: what windows that reach back read again
    is not counted, else a window of more buckets than the limit would advance bucket by bucket. The
    cut is on the grid of `width_us` and leaves at least one bucket.
    """
    records = buckets = 0
    for at_us in sorted(counts):
        if at_us >= to_us:
            break
        records, buckets = records + counts[at_us], buckets + 1
        if records > limits.records_per_step_max or buckets > limits.buckets_per_step_max:
            cut = max(floor_us(at_us, width_us), ceil_us(from_us + 1, width_us))
            return min(cut, to_us)
    return to_us


def _why_wait(fragment: FragmentKnowledge) -> DecisionReason:
    if all(o.has_ended for o in fragment.outputs.values()):
        return DecisionReason("its outputs have ended", {})
    last = min(fragment.inputs.values(), key=lambda i: i.boundary_us)
    if last.boundary_us == BEGINNING_US:
        return DecisionReason(f"{last.stream} has not begun", {})
    done_us = min(o.boundary_us for o in fragment.outputs.values())
    return DecisionReason(
        f"the boundary of {last.stream} has not passed the next bucket",
        {"boundary_us": last.boundary_us, "computed_us": done_us},
    )


def decide_landing(landing: LandingKnowledge, limits: Limits) -> CloseBuckets | Wait:
    """Close the buckets that the source's boundary has passed, within the limits of a step."""
    ended = landing.end_us is not None and landing.boundary_us >= landing.end_us
    to_us = (landing.end_us or 0) if ended else floor_us(landing.boundary_us, landing.width_us)
    to_us = min(to_us, landing.known_through_us, landing.until_us)
    counts = {at: n for at, n in landing.counts.items() if at >= landing.closed_us}
    to_us = cut_us(landing.closed_us, to_us, counts, landing.width_us, limits)
    if to_us <= landing.closed_us:
        has_closed_all = ended and landing.closed_us == landing.end_us
        return Wait(
            of=landing.stream,
            because=DecisionReason(
                "the source has ended and all of it is closed"
                if has_closed_all
                else "the source has promised no further bucket",
                {"closed_us": landing.closed_us, "boundary_us": landing.boundary_us},
            ),
        )
    inside = list(takewhile(lambda at: at < to_us, sorted(counts)))
    return CloseBuckets(
        landing=landing,
        range=Range(landing.closed_us, to_us),
        ends=ended and to_us == landing.end_us,
        because=DecisionReason(
            "the source's boundary has passed it",
            {
                "boundary_us": landing.boundary_us,
                "records": sum(counts[at] for at in inside),
                "buckets": len(inside),
            },
        ),
    )
