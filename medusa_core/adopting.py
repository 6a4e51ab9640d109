"""Adopting: a payer commits what a provider has computed of a moved fragment, in place of a step.

The fragment stays the payer's, and so do its streams: the payer's line continues, under its own
lease and versions, so that no reader sees who computed a bucket. The provider computes the same
buckets as another producer, and the payer's home has a copy of that producer's line. Where the
payer would compute a final step, and the copy has final rows of the same buckets, it commits these:
boxes are pure, and final inputs never change, so both have the same rows. Rows that are not there
yet are waited for, and then computed here, so that a provider that is lost costs time and never a
row.

Where the contract promises `gap` recovery, rows that are not there are never computed here: they
are waited for as long as the provider owns the fragment. Where another owner follows, what is not
there by then is lost, and becomes a gap.

A step with a missing or tentative input, and one that replaces final rows, is computed here: what
the provider has read of such an input may be something else.
"""

from __future__ import annotations

from dataclasses import replace

from medusa_core.commits import Cause, Commit, Lease, OutputSegment, StepMetrics
from medusa_core.decisions import (
    Adopt,
    ComputeStep,
    DecisionReason,
    Wait,
    ages_within,
    pieces_of,
)
from medusa_core.grid import FOREVER_US, Range, floor_us
from medusa_core.knowledge import ProviderKnowledge
from medusa_core.names import PlanId, StreamName
from medusa_core.partial import fresh
from medusa_core.reads import reads_of, records_of, segments_needed
from medusa_core.segments import Segment, Stability


def adopted(step: ComputeStep, wait_ms: int | None, now_ms: int) -> ComputeStep | Adopt | Wait:
    """The step, or what takes its place while the fragment is computed by a provider.

    `wait_ms` is how long the promised bound lets the step wait (None: no bound is promised).
    """
    provider = step.fragment.provider
    if provider is None or step.stability is not Stability.STABLE or step.is_revision:
        return step
    if not provider.range.covers(step.range):
        return step
    part = _there(provider, step)
    if part is not None:
        return _adopt(provider, step, part)
    if provider.is_lossy and step.cause is Cause.NORMAL:
        return _not_computed_here(provider, step)
    numbers = {"now_ms": now_ms, "timeout_ms": provider.timeout_ms}
    due_ms = _due_ms(step, provider.timeout_ms, wait_ms)
    if due_ms is None or due_ms <= now_ms:
        reason = f"{provider.producer} is late, and the wait is over: {step.because.reason}"
        return replace(step, because=DecisionReason(reason, {**step.because.numbers, **numbers}))
    reason = f"waits for what {provider.producer} computes"
    return Wait(of=step.fragment.fragment.id, because=DecisionReason(reason, numbers),
                until_ms=due_ms)  # fmt: skip


def _not_computed_here(provider: ProviderKnowledge, step: ComputeStep) -> Adopt | Wait:
    """Wait for the provider; if another owner follows, what it has not sent is lost."""
    until_us = provider.range.to_us
    if until_us == FOREVER_US:
        reason = f"waits for what {provider.producer} computes: with gap it is not computed here"
        return Wait(of=step.fragment.fragment.id, because=DecisionReason(reason, {}))
    reason = f"{provider.producer} is lost, and with gap its buckets are not computed here"
    return Adopt(
        fragment=step.fragment,
        range=step.range,
        provider=provider.producer,
        segments=dict.fromkeys(step.outputs, ()),
        reads=(),
        cause=step.cause,
        ends=step.ends,
        because=DecisionReason(reason, {"until_us": until_us}),
        is_lost=True,
    )


def adopting_commit(decision: Adopt, lease: Lease) -> Commit:
    """The commit of a decision: the provider's rows and files under this home's lineage; a gap."""
    if decision.is_lost:
        return _commit_of_loss(decision, lease)
    segments = tuple(
        _output_of(stream, rows, part, fresh_ms)
        for stream, rows in decision.segments.items()
        for part, fresh_ms in pieces_of(decision.ages, decision.range)
    )
    rows = sum(digest.rows for segment in segments for digest in segment.buckets.values())
    outputs = tuple(decision.segments)
    return Commit(
        lease=lease,
        plan=decision.fragment.plan,
        cause=decision.cause,
        segments=segments,
        lineage=decision.reads,
        metrics=StepMetrics(
            records_in=records_of(decision.fragment, outputs, decision.range), records_out=rows
        ),
        ends=decision.ends,
    )


def _commit_of_loss(decision: Adopt, lease: Lease) -> Commit:
    return Commit(
        lease=lease,
        plan=decision.fragment.plan,
        cause=decision.cause,
        segments=tuple(
            OutputSegment(stream=stream, range=decision.range, stability=Stability.GAP)
            for stream in decision.segments
        ),
        ends=decision.ends,
    )


def _output_of(
    stream: StreamName, rows: tuple[Segment, ...], part: Range, fresh_ms: int | None
) -> OutputSegment:
    inside = [(segment, segment.within(part)) for segment in rows]
    files = {file.path: file for segment, buckets in inside if buckets for file in segment.files}
    return OutputSegment(
        stream=stream,
        range=part,
        stability=Stability.STABLE,
        buckets={at_us: digest for _, buckets in inside for at_us, digest in buckets.items()},
        files=tuple(files.values()),
        fresh_ms=fresh_ms,
    )


def _there(provider: ProviderKnowledge, step: ComputeStep) -> Range | None:
    """As much of the step's buckets as the provider has final rows of, in all of its outputs."""
    to_us = step.range.to_us
    for output in step.outputs:
        rows = provider.segments.get(output, ())
        to_us = min(to_us, _final_through_us(rows, step.range, step.fragment.plan))
    if to_us < step.range.to_us:
        to_us = floor_us(to_us, step.fragment.width_us)
    return Range(step.range.from_us, to_us) if to_us > step.range.from_us else None


def _final_through_us(segments: tuple[Segment, ...], part: Range, plan: PlanId) -> int:
    """Up to where stable rows of a plan cover a range from its beginning on, without a hole."""
    at_us = part.from_us
    for segment in segments:
        if segment.range.to_us <= at_us:
            continue
        is_final = segment.stability is Stability.STABLE and segment.plan == plan
        if segment.range.from_us > at_us or not is_final:
            break
        at_us = segment.range.to_us
    return min(at_us, part.to_us)


def _adopt(provider: ProviderKnowledge, step: ComputeStep, part: Range) -> Adopt:
    is_whole = part == step.range
    reads = step.reads if is_whole else tuple(reads_of(step.fragment, step.outputs, part))
    segments = {
        output: tuple(s for s in provider.segments.get(output, ()) if s.range.overlaps(part))
        for output in step.outputs
    }
    rows = sum(d.rows for its in segments.values() for s in its for d in s.within(part).values())
    return Adopt(
        fragment=step.fragment,
        range=part,
        provider=provider.producer,
        segments=segments,
        reads=reads,
        cause=step.cause,
        ends=step.ends and is_whole,
        ages=ages_within(step.ages, part),
        because=DecisionReason(f"{provider.producer} has computed it", {"rows": rows}),
    )


def _due_ms(step: ComputeStep, timeout_ms: int, wait_ms: int | None) -> int | None:
    """Until when the provider is waited for, by the home's clock; None if nothing was read."""
    first = Range(step.range.from_us, step.range.from_us + step.fragment.width_us)
    arrived_ms = [segment.arrived_ms for segment in segments_needed(step.fragment, first)]
    if not arrived_ms:
        return None
    due_ms = max(arrived_ms) + timeout_ms
    fresh_ms = None if wait_ms is None else fresh(step.fragment, first)
    return due_ms if fresh_ms is None or wait_ms is None else min(due_ms, fresh_ms + wait_ms)
