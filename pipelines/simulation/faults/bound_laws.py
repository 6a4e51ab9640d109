"""The laws of the bound: S6, S11, and the declared inputs of a tentative segment.

S6: a result computed at the frontier is committed within X of when its oldest input was fresh,
or, where its newest input arrived later than that, soon after that input; a participant that was
disturbed lately (a crash, a freeze, a slow machine, an absent catalog) is exempt. S11: nothing is
younger than its inputs, and nothing gets younger on transfer to another home. A tentative segment
names an input that it lacks; it lacks none that was available, and one that was blocked for the
first time has waited.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from medusa_core.bounds import Bound, Policy
from medusa_core.commits import Cause, Commit, Lane, OutputSegment
from medusa_core.segments import Read, Segment
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.tables import CommitRow, LineRow
from pipelines.simulation.faults.events import Violation

if TYPE_CHECKING:
    from pipelines.simulation.faults.simulated_homes import LineKey, SimulatedHome

GRACE_MS = 3_000
"""What may pass during other work: a step of up to 300 ms on a path of several, a correction that
was begun in time, a poll of a second."""

STEP_MS = 400
"""What each other step, closing or import takes that a home makes meanwhile; corrections do not
count, which have to leave room for answers."""

ANSWERED_MS = 5_000
"""For how long beyond X an answer may be owed, as long as others are made."""

CORRECTED_PART = 0.5
"""Of X that corrections may take before an answer that became possible while they ran."""

CHUNKS_MS = 400
"""What may come on top: the chunk that is made in any case, and one that took longer than usual."""

SHARE = 0.15
"""Of other work that they may take instead, where that is more: their share, with some play."""

DISTURBED_MS = 14_000
"""For how long after a fault a participant is not held to its bound: a restart, leases that run
out, a backlog."""


def check_bound(home: SimulatedHome, row: CommitRow, lines: Mapping[LineKey, LineRow],
                bound: Bound, is_disturbed: bool) -> None:  # fmt: skip
    """Look at one commit of a computed step; raises Violation."""
    commit = row.commit
    if commit.cause in (Cause.LANDING, Cause.IMPORT):
        return
    for given in commit.segments:
        reads = [read for read in commit.lineage if read.output == given.stream]
        read = [segment_of(lines, one) for one in reads]
        found = [segment for segment in read if segment is not None]
        where = f"{given.stream} {given.range} in the home of {home.participant}"
        fresh_ms = row.committed_at_ms if given.fresh_ms is None else given.fresh_ms
        _check_age(where, given, fresh_ms, commit, found)
        if commit.cause is Cause.CORRECTION or not found:
            continue
        if not is_disturbed:
            made = made_since(home, max(s.arrived_ms for s in found), row)
            begun_ms = _begun_ms(home, commit)
            _check_in_time(where, row, fresh_ms, found, bound, len(made), begun_ms)
            reached_ms = _reached_ms(home, given, commit)
            _check_was_answered(where, given, found, bound, reached_ms)
            if _reach(found, given.range.to_us):
                possible_ms = max(reached_ms, *(s.arrived_ms for s in found))
                waited_for = made_since(home, possible_ms, row, True)
                _check_corrections(where, waited_for, len(made), bound)
        if commit.cause is Cause.TENTATIVE:
            _check_tentative(where, given, found, any(read.drop_rate for read in reads))


def segment_of(lines: Mapping[LineKey, LineRow], read: Read) -> Segment | None:
    """What was read, as it lies in the home; None if it is trimmed."""
    line = lines.get((read.input, read.producer))
    for row in (*line.live, *line.superseded) if line else ():
        if row.segment.version == read.version and row.segment.range.overlaps(read.range):
            return row.segment
    return None


def _check_age(
    where: str, given: OutputSegment, fresh_ms: int, commit: Commit, found: list[Segment]
) -> None:
    """S11: what was computed is no younger than the youngest that it was computed from."""
    # Of what it lacks it read what was there before.
    youngest_ms = max((s.fresh_ms for s in found if s.stream not in given.missing), default=None)
    if youngest_ms is not None and fresh_ms > youngest_ms:
        raise Violation(
            "S11", f"{where} is fresh at {fresh_ms}, its inputs were at {youngest_ms} at the latest"
        )


def made_since(
    home: SimulatedHome, since_ms: int, row: CommitRow, corrections: bool = False
) -> list[CommitRow]:
    """What else a home has made since a time: corrections of its live lane, or all else."""
    found: list[CommitRow] = []
    for other in reversed(_commits(home)):  # type: ignore[call-overload]
        if other.committed_at_ms < since_ms:
            break
        is_correction = other.commit.cause is Cause.CORRECTION
        is_live = other.commit.lease.key.lane is Lane.LIVE
        if other is not row and is_correction is corrections and (is_live or not corrections):
            found.append(other)
    return found


def _reach(found: Collection[Segment], to_us: int) -> bool:
    """Whether rows of each input reach so far; from when on one was known to end stands nowhere."""
    reached = {s.stream for s in found if s.range.to_us >= to_us}
    return all(s.stream in reached for s in found)


def _check_corrections(where: str, corrections: list[CommitRow], made: int, bound: Bound) -> None:
    """S6: corrections leave room for the next answer, whatever is owed."""
    took_ms = sum(row.commit.metrics.step_ms for row in corrections)
    allowed_ms = max(bound.bound_ms * CORRECTED_PART, made * STEP_MS * SHARE) + CHUNKS_MS
    if took_ms > allowed_ms:
        raise Violation(
            "S6",
            f"{where} waited for {len(corrections)} corrections of {took_ms:.0f} ms, which leave "
            f"no room within X of {bound.bound_ms}",
        )


def _check_in_time(
    where: str,
    row: CommitRow,
    fresh_ms: int,
    found: list[Segment],
    bound: Bound,
    made: int,
    begun_ms: int,
) -> None:
    newest_ms = max(segment.arrived_ms for segment in found)
    due_ms = max(fresh_ms + bound.bound_ms, newest_ms, begun_ms) + GRACE_MS + made * STEP_MS
    if bound.during_stabilization is Policy.DELAY:
        due_ms += bound.bound_ms
    if row.committed_at_ms > due_ms:
        raise Violation(
            "S6",
            f"{where} came {row.committed_at_ms - fresh_ms} ms after its inputs were fresh and "
            f"{row.committed_at_ms - newest_ms} ms after the last of them, X is {bound.bound_ms}",
        )


def _reached_ms(home: SimulatedHome, given: OutputSegment, commit: Commit) -> int:
    """When the outputs had come to where a segment begins, by the home's clock."""
    line = home.lines().get((given.stream, commit.lease.key.producer))
    for row in line.live if line else ():
        if row.segment.range.to_us == given.range.from_us:
            return row.segment.arrived_ms
    # The first: nothing is answered before every input has begun.
    return home.clock.now_ms


def _begun_ms(home: SimulatedHome, commit: Commit) -> int:
    """When the outputs began: before every input has, nobody knows where."""
    of = commit.lease.key.fragment
    return next(
        (row.committed_at_ms for row in _commits(home) if row.commit.lease.key.fragment == of),
        home.clock.now_ms,
    )


def _commits(home: SimulatedHome) -> Collection[CommitRow]:
    """Everything that a home has made, in its order."""
    made: Mapping[object, CommitRow] = home.store.committed.get(tables.COMMITS.name, {})
    return made.values()


def _check_was_answered(
    where: str, given: OutputSegment, found: list[Segment], bound: Bound, reached_ms: int
) -> None:
    """S6: what comes first as final although an input was away beyond X has not been answered.

    Who had not come as far by then was busy: for overload nothing is answered early.
    """
    if given.missing:
        return
    came: dict[str, int] = {}
    for segment in found:
        came[segment.stream] = max(came.get(segment.stream, 0), segment.arrived_ms)
    first_ms, last_ms = min(came.values()), max(came.values())
    if last_ms - max(first_ms, reached_ms) > bound.bound_ms + ANSWERED_MS:
        raise Violation(
            "S6",
            f"{where} was not answered while an input was away for {last_ms - first_ms} ms, X is "
            f"{bound.bound_ms}",
        )


def _check_tentative(
    where: str, given: OutputSegment, found: list[Segment], is_dropped: bool
) -> None:
    is_named = bool(given.missing) or is_dropped
    if all(segment.stability.is_final for segment in found) and not is_named:
        raise Violation("S6", f"{where} is tentative and says not what it lacks")
