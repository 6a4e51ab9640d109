"""Corrections in the remaining time: exactly the owed results, oldest first, in chunks.

A chunk never costs more than the slack to the next deadline, so that new data keeps its bound.
But corrections have a guaranteed share of the time, and advance by one bucket a tick even without
slack (no slack for the share is overload, which design 9 treats).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from medusa_core import owed
from medusa_core.commits import Cause
from medusa_core.decisions import ComputeStep, DecisionReason, OutputAge, Promote
from medusa_core.grid import Range, merged_ranges
from medusa_core.knowledge import FragmentKnowledge, Limits
from medusa_core.names import StreamName
from medusa_core.partial import oldest_fresh
from medusa_core.reads import reads_of, records_of
from medusa_core.segments import Producer, Segment, Stability

SHARE = 0.1
"""Of the time of a home that corrections get at least (design 6)."""

SLACK_PART = 0.5
"""Of the slack that a chunk is planned for: what it costs is an estimate."""

PROMOTION_MS = 10
"""What a segment that stays as it is costs: a commit."""


@dataclass(frozen=True, slots=True)
class _Owed:
    fragment: FragmentKnowledge
    correction: owed.Correction


def corrections_within(
    fragments: Sequence[FragmentKnowledge],
    limits: Limits,
    slack_ms: int | None,
    step_ms: Sequence[int],
) -> Iterator[Promote | ComputeStep]:
    """What is made final without a job, then chunks of corrections, each oldest first.

    `slack_ms` is the time until something must be answered (None: nothing must); `step_ms` is what
    the other steps of this tick are expected to take.
    """
    found = [_Owed(f, c) for f in fragments for c in owed.corrections(f)]
    found += _revisions_in_order(fragments)
    found.sort(key=lambda one: (one.correction.range, one.fragment.fragment.id))
    unchanged = [one for one in found if one.correction.is_unchanged]
    changed = [one for one in found if not one.correction.is_unchanged]
    budget_ms: float | None = None
    if slack_ms is not None:
        budget_ms = max(slack_ms * SLACK_PART, sum(step_ms) * SHARE / (1 - SHARE))
        unchanged = unchanged[: max(int(budget_ms / PROMOTION_MS), 1)]
        budget_ms -= len(unchanged) * PROMOTION_MS
    yield from map(_promoted, unchanged)
    has_one = False
    for chunk in _chunks(changed, limits, budget_ms):
        step = _corrected(chunk, slack_ms)
        if budget_ms is not None:
            records = records_of(step.fragment, step.outputs, step.range)
            cost_ms = chunk[0].fragment.cost.of_ms(records)
            if has_one and cost_ms > budget_ms:
                return
            budget_ms -= cost_ms
        has_one = True
        yield step


def _revisions_in_order(fragments: Sequence[FragmentKnowledge]) -> list[_Owed]:
    """The owed revisions of each fragment whose inputs are owed none: it would compute twice."""
    by_fragment = [(f, list(owed.revisions(f))) for f in fragments if f.revised]
    outdated = {name for f, owed_ in by_fragment if owed_ for name in f.outputs}
    return [
        _Owed(fragment, correction)
        for fragment, owed_ in by_fragment
        if outdated.isdisjoint(fragment.inputs)
        for correction in _in_runs(owed_)
    ]


def _in_runs(owed_: Iterable[owed.Correction]) -> Iterator[owed.Correction]:
    """The same buckets of the same outputs, those together that are owed over the same run.

    What one output owes over many buckets side by side is one step, though another one owes some
    of them: cut at each of these, a span that a Running reads is read again for each piece.
    """
    owed_by: dict[StreamName, list[tuple[Range, Segment]]] = {}
    for correction in owed_:
        for segment in correction.revised:
            owed_by.setdefault(segment.stream, []).append((correction.range, segment))
    found: dict[Range, dict[Range, list[Segment]]] = {}
    for buckets in owed_by.values():
        runs = iter(merged_ranges(bucket for bucket, _ in buckets))
        run = next(runs)
        for bucket, segment in buckets:
            while bucket.from_us >= run.to_us:
                run = next(runs)
            found.setdefault(run, {}).setdefault(bucket, []).append(segment)
    for of_run in found.values():
        for bucket, segments in of_run.items():
            revised = tuple(sorted(segments, key=lambda s: s.stream))
            yield owed.Correction(range=bucket, tentative=(), is_unchanged=False, revised=revised)


def _chunks(
    found: Sequence[_Owed], limits: Limits, budget_ms: float | None
) -> Iterator[list[_Owed]]:
    """Neighbouring ranges of one fragment and the same outputs, as many as a chunk may hold."""
    runs: list[list[_Owed]] = []
    for _, group in groupby(sorted(found, key=_of), key=_of):
        mine = list(group)
        fragment, most = mine[0].fragment, limits.records_per_step_max
        if budget_ms is not None:
            most = min(most, max(fragment.cost.records_within(int(budget_ms)), 1))
        run: list[_Owed] = []
        for one in mine:
            if run and not _goes_on(run, one, most, limits):
                runs.append(run)
                run = []
            run.append(one)
        runs.append(run)
    yield from sorted(runs, key=lambda run: run[0].correction.range)


def _of(one: _Owed) -> tuple[str, int, Producer, bool, tuple[StreamName, ...]]:
    fragment, correction = one.fragment, one.correction
    outputs = correction.outputs if correction.revised else ()
    is_revision = bool(correction.revised)
    return fragment.fragment.id, fragment.partition, fragment.producer, is_revision, outputs


def _goes_on(run: Sequence[_Owed], one: _Owed, records_max: int, limits: Limits) -> bool:
    first, last = run[0].correction, run[-1].correction
    if last.range.to_us != one.correction.range.from_us or last.outputs != one.correction.outputs:
        return False
    whole = first.range.hull(one.correction.range)
    buckets = (whole.to_us - whole.from_us) // one.fragment.width_us
    records = records_of(one.fragment, first.outputs, whole)
    return buckets <= limits.buckets_per_step_max and records <= records_max


def _corrected(chunk: Sequence[_Owed], slack_ms: int | None) -> ComputeStep:
    fragment, corrections = chunk[0].fragment, [one.correction for one in chunk]
    part = corrections[0].range.hull(corrections[-1].range)
    outputs = corrections[0].outputs
    is_revision = bool(corrections[0].revised)
    numbers = {"segments": len({id(s) for c in corrections for s in c.segments}),
               "records": records_of(fragment, outputs, part)}  # fmt: skip
    if slack_ms is not None:
        numbers["slack_ms"] = slack_ms
    return ComputeStep(
        fragment=fragment,
        range=part,
        outputs=outputs,
        reads=tuple(reads_of(fragment, outputs, part)),
        stability=Stability.STABLE,
        cause=Cause.CORRECTION,
        ends=False,
        because=DecisionReason(
            "its inputs were revised" if is_revision else "its inputs are final now", numbers
        ),
        ages=(OutputAge(part, _fresh_ms(fragment, part, corrections)),),
        is_revision=is_revision,
    )


def _promoted(one: _Owed) -> Promote:
    fragment, correction = one.fragment, one.correction
    return Promote(
        fragment=fragment,
        range=correction.range,
        tentative=correction.tentative,
        fresh_ms=_fresh_ms(fragment, correction.range, (correction,)),
        reads=tuple(reads_of(fragment, correction.outputs, correction.range)),
        because=DecisionReason(
            "its inputs are final now and hold what was read",
            {"segments": len(correction.tentative)},
        ),
    )


def _fresh_ms(
    fragment: FragmentKnowledge, part: Range, corrections: Sequence[owed.Correction]
) -> int:
    """As old as the oldest answer that it takes the place of, and as what it is computed from."""
    was_ms = min(segment.fresh_ms for c in corrections for segment in c.segments)
    now_ms = oldest_fresh(fragment, part)
    return was_ms if now_ms is None else min(was_ms, now_ms)
