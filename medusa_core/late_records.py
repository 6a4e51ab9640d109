"""Late records as revisions: when those that a source has kept are admitted, and which.

A source with `late="revise"` keeps its late records, and once in a period of `late_every` all of
them whose buckets are final are admitted together, as one revision of its line
(`medusa_core.revisions`). The records of a bucket that is still open wait until it is closed. Those
of a bucket that is trimmed, or before the first one of the stream, cannot be admitted: they stay in
quarantine.

A period is one of the catalog's clock, since nothing that a driver remembers would survive it: the
records are due when one of them has waited for a period, and none were admitted for as long. Once
the source has ended no other late record can come, and what is there is admitted at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from medusa_core.line_revisions import RANGES_MAX
from medusa_core.names import StreamName
from medusa_core.suggest import counted

RECORDS_MAX = 100_000
"""How many late records one revision admits, if they lie in more than one bucket; their rows are
held in memory."""

ROWS_MAX = 1_000_000
"""How many rows the buckets of one revision have, if they are several; they are held too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateBucket:
    """The late records of one bucket that wait: how many, and when the first arrived."""

    at_us: int
    records: int
    arrived_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRecord:
    """A late record that waits, by its number in quarantine; `row` as in `LateRow`."""

    number: int
    stime_us: int
    row: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LateKnowledge:
    """All that is needed to decide about the late records of one source.

    `from_us` and `through_us` bound what is final and kept of its line (None: nothing), `has_ended`
    tells that no record can follow, `admitted_ms` when late records were last admitted. `buckets`
    are in order of event time; `every_us` is the declared period.
    """

    stream: StreamName
    every_us: int
    from_us: int | None
    through_us: int | None
    has_ended: bool
    admitted_ms: int | None
    buckets: tuple[LateBucket, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitLate:
    """Admit the late records of these buckets (their beginnings, in order), now.

    `waited` says why now, and what is left.
    """

    stream: StreamName
    buckets: tuple[int, ...]
    records: int
    waited: str

    @property
    def because(self) -> str:
        """The reason in figures."""
        buckets = counted(len(self.buckets), "bucket")
        return f"{counted(self.records, 'late record')} of {buckets}: {self.waited}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLate:
    """Admit nothing yet; `until_ms` is when records are due that could be admitted now."""

    stream: StreamName
    until_ms: int | None
    because: str


def decide_late(known: LateKnowledge, now_ms: int) -> AdmitLate | KeepLate:
    """Whether the late records of a source are admitted now; times are of the catalog's clock."""
    kept = [b for b in known.buckets if known.from_us is not None and b.at_us >= known.from_us]
    ready = [b for b in kept if known.through_us is not None and b.at_us < known.through_us]
    waiting = sum(b.records for b in known.buckets)
    open_, lost = _records(kept) - _records(ready), waiting - _records(kept)
    rest = "".join(
        f"; {count:,} of {where}"
        for count, where in (
            (open_, "buckets that are open wait"),
            (lost, "buckets that are not kept stay in quarantine"),
        )
        if count
    )
    if not ready:
        because = f"no late record of {known.stream} is of a bucket that is final and kept{rest}"
        return KeepLate(stream=known.stream, until_ms=None, because=because)
    every_ms = known.every_us // 1_000
    since_ms = max(min(b.arrived_ms for b in ready), known.admitted_ms or 0)
    due_ms = since_ms + every_ms
    if now_ms < due_ms and not known.has_ended:
        because = (
            f"{counted(_records(ready), 'late record')} of {known.stream} to admit in "
            f"{(due_ms - now_ms) / 1e3:g} s, once in {every_ms / 1e3:g} s{rest}"
        )
        return KeepLate(stream=known.stream, until_ms=due_ms, because=because)
    chosen = ready[:RANGES_MAX]
    chosen = chosen[: first_that_fit([b.records for b in chosen], RECORDS_MAX)]
    waited = (
        "the source has ended"
        if known.has_ended
        else f"they are admitted once in {every_ms / 1e3:g} s, the first has waited for "
        f"{(now_ms - min(b.arrived_ms for b in ready)) / 1e3:g} s"
    )
    return AdmitLate(
        stream=known.stream,
        buckets=tuple(b.at_us for b in chosen),
        records=_records(chosen),
        waited=f"{waited}{rest}",
    )


def _records(buckets: list[LateBucket]) -> int:
    return sum(bucket.records for bucket in buckets)


def first_that_fit(counts: Sequence[int], most: int) -> int:
    """How many of some counts, from the first one on, are not more together; at least one."""
    sums = list(accumulate(counts))
    return max(bisect_right(sums, most), 1)
