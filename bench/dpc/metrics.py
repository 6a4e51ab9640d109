"""The papers' metrics, each defined once, computed from the catalogs.

The **new buckets** of a cell are those that the head answered first after the cell began; the
**undisturbed** ones are the last before them.

* **Proc_new** (theirs: receive time - stime, the greatest over new tuples): commit of a bucket's
  first version - the bucket's start, the oldest stime that it can hold; the greatest over the new
  buckets. It counts from when the version can be read, so all of a bucket's width is in it.
* **Delay_new** (theirs: Proc_new - normal processing): commit of the first version - when the
  healthy inputs of the bucket were complete (all of them closed where they land) - the normal
  processing time, the median of that difference over the undisturbed buckets; the greatest.
* **N_tentative**: rows of tentative versions; also buckets.
* **Reconciliation time**: from the last heal until the last owed bucket is final. Theirs (from
  UNDO to REC_DONE) is shown with it: from the first correction to the last.
* **First correction**: from the first heal to the first correction; that of the head is promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.dpc.history import CORRECTION, TENTATIVE, Answers, History, Version, by_bucket

BASELINE_BUCKETS = 15
SAMPLES_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A source was cut off from the head of the chain, in ms by the machine's clock."""

    source: str
    from_ms: float
    to_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A cell as it was run: what was lost when, and from when until all was final again."""

    began_ms: float
    settled_ms: float
    lost: tuple[Lost, ...]

    @property
    def first_heal_ms(self) -> float:
        """When the first of the lost inputs came back."""
        return min(lost.to_ms for lost in self.lost)

    @property
    def last_heal_ms(self) -> float:
        """When the last of them did."""
        return max(lost.to_ms for lost in self.lost)

    def heal_before_ms(self, at_ms: float) -> float:
        """The last heal before a moment: one behind which nothing was tentative does not count."""
        return max((o.to_ms for o in self.lost if o.to_ms <= at_ms), default=self.first_heal_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class HopFigures:
    """One hop in one cell, in seconds; None where there was nothing to measure.

    `normal_s` is the normal processing time, `step_s` the slowest step of the cell.
    """

    normal_s: float
    proc_normal_s: float
    proc_new_s: float
    delay_new_s: float
    step_s: float
    tentative_rows: int
    tentative_buckets: int
    reconciliation_s: float | None
    correcting_s: float | None
    first_correction_s: float | None
    first_correction_step_s: float | None
    computed_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A bucket's first version at the last hop: seconds since the cell began, Proc in seconds."""

    at_s: float
    proc_s: float
    is_tentative: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigures:
    """A cell measured: its hops head first, the last hop's first versions, states, step times."""

    failure_s: float
    rate_left_per_s: float
    hops: tuple[HopFigures, ...]
    points: tuple[Point, ...]
    states: tuple[tuple[float, str, str], ...]
    steps_ms: tuple[float, ...]

    @property
    def end(self) -> HopFigures:
        """Where the chain ends: what a reader there sees."""
        return self.hops[-1]

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def figures_of(document: Mapping[str, Any]) -> CellFigures:
    """Back from JSON."""
    return CellFigures(
        failure_s=document["failure_s"],
        rate_left_per_s=document["rate_left_per_s"],
        hops=tuple(HopFigures(**hop) for hop in document["hops"]),
        points=tuple(Point(**point) for point in document["points"]),
        states=tuple((at, hop, state) for at, hop, state in document["states"]),
        steps_ms=tuple(document["steps_ms"]),
    )


def measure(history: History, episode: Episode) -> CellFigures:
    """The figures of one cell."""
    width_us = history.width_us
    landed = {s: by_bucket(versions, width_us) for s, versions in history.landed.items()}
    hops = [by_bucket(versions, width_us) for versions in history.hops]
    known = [at for at in hops[0] if at + width_us <= episode.settled_ms * 1_000]
    new = [at for at in known if hops[0][at][0].committed_ms > episode.began_ms]
    baseline = [at for at in known if at < new[0]][-BASELINE_BUCKETS:] if new else []
    complete = {
        at: _complete_ms(landed, at, episode) for at in (*baseline, *new) if _is_landed(landed, at)
    }
    last = hops[-1]
    healthy_rows = [
        sum(v.rows.get(at, 0) for s, of in landed.items() if not _was_lost(s, episode)
            for v in of.get(at, ())[:1])
        for at in new
    ]  # fmt: skip
    return CellFigures(
        failure_s=(episode.last_heal_ms - min(o.from_ms for o in episode.lost)) / 1_000,
        rate_left_per_s=sum(healthy_rows) / max(len(new) * width_us / 1e6, 1e-9),
        hops=tuple(_hop(answers, new, baseline, complete, episode) for answers in hops),
        points=tuple(
            Point(
                at_s=round((at + width_us) / 1e6 - episode.began_ms / 1e3, 3),
                proc_s=round(last[at][0].committed_ms / 1e3 - at / 1e6, 3),
                is_tentative=last[at][0].stability == TENTATIVE,
            )
            for at in (*baseline, *new)
            if at in last
        ),
        states=tuple(
            (round((t.changed_ms - episode.began_ms) / 1_000, 3), t.hop, t.state)
            for t in history.transitions
            if episode.began_ms <= t.changed_ms <= episode.settled_ms
        ),
        steps_ms=_steps(hops, baseline),
    )


def _hop(
    answers: Answers,
    new: Sequence[int],
    baseline: Sequence[int],
    complete: Mapping[int, float],
    episode: Episode,
) -> HopFigures:
    first = {at: answers[at][0] for at in (*baseline, *new) if at in answers and at in complete}
    quiet = [at for at in baseline if at in first and len(answers[at]) == 1]
    fresh = [at for at in new if at in first]
    assert quiet, "no undisturbed bucket before the cell"
    assert fresh, "no bucket in the cell"
    normal_ms = median(first[at].committed_ms - complete[at] for at in quiet)
    owed = [at for at in fresh if first[at].stability == TENTATIVE]
    # What was corrected before was owed for another reason: an input that came late by itself.
    again = [
        version
        for at in owed
        for version in answers[at]
        if version.cause == CORRECTION and version.committed_ms >= episode.first_heal_ms
    ]
    times = sorted(version.committed_ms for version in again)
    early = min(again, key=lambda version: version.committed_ms, default=None)
    return HopFigures(
        normal_s=normal_ms / 1e3,
        proc_normal_s=median(first[at].committed_ms - at / 1e3 for at in quiet) / 1e3,
        proc_new_s=max(first[at].committed_ms - at / 1e3 for at in fresh) / 1e3,
        delay_new_s=(max(first[at].committed_ms - complete[at] for at in fresh) - normal_ms) / 1e3,
        step_s=max(v.step_ms for at in fresh for v in answers[at]) / 1e3,
        tentative_rows=sum(first[at].rows.get(at, 0) for at in owed),
        tentative_buckets=len(owed),
        reconciliation_s=(times[-1] - episode.heal_before_ms(times[-1])) / 1e3 if times else None,
        correcting_s=(times[-1] - times[0]) / 1e3 if times else None,
        first_correction_s=(early.committed_ms - episode.first_heal_ms) / 1e3 if early else None,
        first_correction_step_s=early.step_ms / 1e3 if early else None,
        computed_max=max(len(answers[at]) for at in fresh),
    )


def _is_landed(landed: Mapping[str, Answers], at: int) -> bool:
    return all(at in of for of in landed.values())


def _complete_ms(landed: Mapping[str, Answers], at: int, episode: Episode) -> float:
    """When all inputs that were not lost just then had closed a bucket."""
    closed = {source: of[at][0].committed_ms for source, of in landed.items()}
    there = [ms for source, ms in closed.items() if not _is_lost(source, ms, episode)]
    return max(there or closed.values())


def _is_lost(source: str, at_ms: float, episode: Episode) -> bool:
    return any(o.source == source and o.from_ms <= at_ms < o.to_ms for o in episode.lost)


def _was_lost(source: str, episode: Episode) -> bool:
    return any(lost.source == source for lost in episode.lost)


def _steps(hops: Sequence[Answers], baseline: Sequence[int]) -> tuple[float, ...]:
    """What undisturbed steps took, of all hops: the simulator draws from these."""
    seen: list[Version] = [of[at][0] for of in hops for at in baseline if at in of]
    return tuple(round(v.step_ms, 1) for v in seen[:SAMPLES_MAX])
