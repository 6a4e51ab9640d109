"""Late records admitted: once a period as one revision of their source, by the participant's loop.

`medusa_core.late_records` decides. A revision that cannot be made (a partner reads the stream, or
it has several producers) is an alarm and is tried again a period later, and one for which something
is away a second later; meanwhile the records wait, and the loop continues. All progress is in the
catalog: killed anywhere, a participant decides again, and a record that was admitted does not wait
any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.grid import Range, merged_ranges
from medusa_core.late_records import (
    ROWS_MAX,
    AdmitLate,
    KeepLate,
    LateBucket,
    LateKnowledge,
    LateRecord,
    decide_late,
    first_that_fit,
)
from medusa_core.line_revisions import RevisionReach
from medusa_core.names import StreamName
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Producer
from pipelines.base.failpoints import reached
from pipelines.base.time_text import iso
from pipelines.catalog.processing_roles import LateRecords, Recalls
from pipelines.catalog.records import LineStatus
from pipelines.homes.home import Home
from pipelines.participant.revising import (
    RevisedHome,
    RevisionAction,
    make_revision,
    reach_of,
    revised_rows,
    write_revised,
)
from pipelines.storage.late_rows import late_records_of
from pipelines.storage.segment_rows import columns_of
from pipelines.storage.store import remove_file

LOOK_AGAIN_MS = 1_000
"""How often the catalog is read for which late records wait."""
RETRY_MS = 1_000
"""How long after one that could not be made because something is away."""
PUT_OFF_MS = 60_000
"""How long a revision that was refused is put off, at least; else for a period."""


class LateHome(RevisedHome, LateRecords, Recalls, Protocol):
    """What is read to decide about late records, and where their revision is made."""


class LateContents(Protocol):
    """The rows of buckets to which late records are added."""

    def write(self, line: LineStatus, records: Sequence[LateRecord]) -> tuple[RevisedSegment, ...]:
        """Write the buckets of the records with these added; Unavailable if that cannot be done."""

    def remove(self, path: str) -> object:
        """Remove a file that was written."""


class LateFiles:
    """`LateContents` in the storage root of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def write(self, line: LineStatus, records: Sequence[LateRecord]) -> tuple[RevisedSegment, ...]:
        """See `LateContents.write`."""
        columns = columns_of(line.stream)
        given = late_records_of(line.stream.name, [record.row for record in records], columns)
        rows = revised_rows(self._home, line, columns, given, RevisionAction.ADD)
        return write_revised(self._home, line, columns, rows)

    def remove(self, path: str) -> object:
        """See `LateContents.remove`."""
        return remove_file(self._home.storage, path)


class LateObserver(Protocol):
    """Observes revisions by late records; an alarm without a reason has ended."""

    def alarm(self, of: str, because: str | None) -> None: ...


class LateAdmission:
    """Admits the late records of a participant's sources; `every_us` has the period of each."""

    def __init__(
        self, catalog: LateHome, contents: LateContents, every_us: Mapping[StreamName, int],
        observer: LateObserver,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._contents = contents
        self._every_us = every_us
        self._observer = observer
        self._look_ms = 0
        self._refused_until_ms: dict[StreamName, int] = {}
        self._retry_ms: dict[StreamName, int] = {}
        self._reach_from_us: dict[StreamName, int] = {}
        self._alarmed: set[StreamName] = set()

    def tick(self) -> int:
        """Make the revisions that are due; how many."""
        now_ms = self._catalog.read_clock_ms()
        if 0 < self._look_ms - now_ms <= LOOK_AGAIN_MS:
            return 0
        self._look_ms = now_ms + LOOK_AGAIN_MS
        made = 0
        failing = {s for s, until_ms in self._refused_until_ms.items() if until_ms > now_ms}
        for line, decision in self._decisions(now_ms):
            stream = decision.stream
            if isinstance(decision, KeepLate):
                continue
            if self._retry_ms.get(stream, 0) > now_ms:
                failing.add(stream)
                continue
            try:
                made += self._admit(line, decision)
                self._look_ms = now_ms
            except Conflict:
                pass  # somebody changed the line meanwhile: decided again at the next look
            except Unavailable as error:
                self._retry_ms[stream] = now_ms + RETRY_MS
                self._alarm(stream, str(error))
                failing.add(stream)
            except Refused as error:
                put_off_ms = max(self._every_us[stream] // 1_000, PUT_OFF_MS)
                self._refused_until_ms[stream] = now_ms + put_off_ms
                self._alarm(stream, str(error))
                failing.add(stream)
        for stream in self._alarmed - failing:
            self._observer.alarm(alarm_of(stream), None)
        self._alarmed &= failing
        return made

    def has_admitted_all(self) -> bool:
        """Whether nothing is due now, but for what was refused."""
        decisions = self._decisions(self._catalog.read_clock_ms())
        return not any(isinstance(decision, AdmitLate) for _, decision in decisions)

    def _alarm(self, stream: StreamName, because: str) -> None:
        self._alarmed.add(stream)
        self._observer.alarm(alarm_of(stream), because)

    def _decisions(self, now_ms: int) -> list[tuple[LineStatus, AdmitLate | KeepLate]]:
        """What is decided about each source for which late records wait."""
        streams = [s for s in self._every_us if self._refused_until_ms.get(s, 0) <= now_ms]
        waiting = self._catalog.late_buckets(streams) if streams else {}
        found: list[tuple[LineStatus, AdmitLate | KeepLate]] = []
        for stream, buckets in waiting.items():
            for line in self._catalog.lines(stream):
                if line.producer == Producer(self._catalog.participant, line.producer.replica):
                    decision = decide_late(self._knowledge(line, buckets), now_ms)
                    found.append((line, decision))
        return found

    def _knowledge(self, line: LineStatus, buckets: tuple[LateBucket, ...]) -> LateKnowledge:
        stream, here = line.stream.name, self._catalog.participant
        admitted = [
            done.recalled_at_ms
            for done in self._catalog.recalls(stream)
            if done.who == here and done.producer == line.producer and done.ranges
        ]
        from_us = line.kept_from_us
        if from_us is not None:
            from_us = max(from_us, self._reach_from_us.get(stream, from_us))
        return LateKnowledge(
            stream=stream,
            every_us=self._every_us[stream],
            from_us=from_us,
            through_us=line.stable_through_us,
            has_ended=line.has_ended,
            admitted_ms=max(admitted, default=None),
            buckets=buckets,
        )

    def _admit(self, line: LineStatus, decision: AdmitLate) -> int:
        """Write the buckets with their late records, and revise, in one transaction; how many
        revisions were made: none if all of the buckets need what is trimmed.
        """
        stream = decision.stream
        reached("late.decided")
        within = self._within_reach(line, decision.buckets)
        if within is None:
            self._reach_from_us[stream] = decision.buckets[-1] + line.stream.width_us
            return 0
        buckets, reach = within
        waited = decision.waited
        if len(buckets) < len(decision.buckets):
            self._reach_from_us[stream] = buckets[0]
            waited += f"; those before {iso(buckets[0])} stay, because what they need is trimmed"
        buckets = self._that_fit(line, buckets)
        records = self._catalog.late_records(stream, buckets)
        if not records:
            return 0  # another driver has admitted them since they were decided on
        segments = self._contents.write(line, records)
        reached("late.written")
        done = replace(decision, buckets=tuple(buckets), records=len(records), waited=waited)
        make_revision(
            self._catalog,
            RevisionRequest(
                stream=stream,
                producer=line.producer,
                generation=line.generation,
                segments=segments,
                because=done.because,
                who=self._catalog.participant,
                behind=reach.behind,
                needed=reach.needed,
                late=tuple(record.number for record in records),
            ),
            self._contents.remove,
        )
        reached("late.admitted")
        return 1

    def _within_reach(
        self, line: LineStatus, buckets: Sequence[int]
    ) -> tuple[Sequence[int], RevisionReach] | None:
        """The last of the buckets for which all that is read again is kept, and what is; None if it
        is trimmed for the newest one too.

        A window reaches back from its bucket, so that what an older bucket needs is trimmed first.
        """
        found = self._reach(line, buckets)
        lost, kept = -1 if found else 0, 0 if found else len(buckets)
        while kept - lost > 1:
            middle = (lost + kept) // 2
            reach = self._reach(line, buckets[middle:])
            if reach is None:
                lost = middle
            else:
                found, kept = reach, middle
        return None if found is None else (buckets[kept:], found)

    def _reach(self, line: LineStatus, buckets: Sequence[int]) -> RevisionReach | None:
        """What is computed again if these buckets change; None if it would read what is trimmed."""
        width_us = line.stream.width_us
        ranges = merged_ranges(Range(at, at + width_us) for at in buckets)
        try:
            return reach_of(self._catalog, line, ranges)
        except Refused:
            return None

    def _that_fit(self, line: LineStatus, buckets: Sequence[int]) -> Sequence[int]:
        """The first buckets whose rows, which are held in memory, are few enough; at least one."""
        part = Range(buckets[0], buckets[-1] + line.stream.width_us)
        held: Counter[int] = Counter()
        for one in self._catalog.segments(line.stream.name, part, producer=line.producer):
            held.update({at: digest.rows for at, digest in one.buckets.items()})
        return buckets[: first_that_fit([held[at_us] for at_us in buckets], ROWS_MAX)]


def alarm_of(stream: StreamName) -> str:
    """What an alarm about late records that cannot be admitted is of."""
    return f"late records of {stream}"
