"""The laws of revisions: S13, and what is owed for them in the end.

S13: a revision changes no bucket outside its ranges. A source's revision names the buckets of its
records and gives them the content that these say; a computed stream is revised only where
something that it read was; a copy has all of its partner's revisions up to its version, each as a
whole, and none that neither a contract nor an operator agreed to. L1: in the end each bucket is
computed from the newest contents, unless something that it needs was trimmed where it is computed
when the revision came there; and late records are admitted.

The checks see the tables of every home, and the files of the operators' commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from medusa_core.digest import Digest
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.names import Participant, StreamName, Version
from medusa_core.recalls import RecallResult
from medusa_core.segments import Producer, Stability
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.followed_revisions import AGREEMENTS, AgreementRow
from pipelines.catalog.memory.tables import CommitRow, LateRecordRow, LineRow, SegmentRow
from pipelines.catalog.records import BY_REVISION
from pipelines.participant.revising import RevisionAction
from pipelines.simulation.faults.drawn_revisions import RevisionFile
from pipelines.simulation.faults.evaluate import digests
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.expected import Buckets
from pipelines.simulation.faults.revised_contents import RevisedContents, Written
from pipelines.simulation.faults.scenario import Row, Scenario, bucket_of
from pipelines.simulation.faults.simulated_networks import WIDTH_US

if TYPE_CHECKING:
    from pipelines.simulation.faults.simulated_homes import LineKey, SimulatedHome

Recalls = Mapping[tuple[StreamName, Producer, int], RecallResult]
WrittenBucket = tuple[StreamName, Producer, int]
BUCKETS_PER_RECORD = 3
"""About so many buckets of a stream are computed from one record."""

KEPT_US = 40 * WIDTH_US
"""If nothing of a home is trimmed so far behind a late record, the record can be admitted."""


class RevisionLaws:
    """The laws over the revisions of one schedule; every check raises Violation.

    `files` are those of the operators' commands, by reason.
    """

    def __init__(
        self, scenario: Scenario, homes: Mapping[Participant, SimulatedHome],
        contents: RevisedContents,
    ) -> None:  # fmt: skip
        self.files: dict[str, RevisionFile] = {}
        self.counts: Counter[str] = Counter()
        self._scenario = scenario
        self._homes = homes
        self._contents = contents
        self._writers = {stream: writers[0] for stream, writers in scenario.writers().items()}
        self._seen: dict[Participant, Recalls] = {}
        self._admitted: dict[Participant, set[int]] = {p: set() for p in homes}
        self._begun: dict[tuple[Participant, LineKey], Version] = {}
        self._excused: set[WrittenBucket] = set()
        self._digests: dict[StreamName, tuple[Buckets, Mapping[int, Digest]]] = {}

    # after every event

    def note(
        self, home: SimulatedHome, before: Mapping[LineKey, LineRow], commits: Iterable[CommitRow]
    ) -> None:
        """Look at the revisions that the last event made in a home; before its lines are."""
        for row in commits:
            self._contents.note_commit(row)
        recalls: Recalls = home.store.committed.get(tables.RECALLS.name, {})  # type: ignore[assignment]
        known = self._seen.get(home.participant, {})
        if recalls is known:
            return
        self._seen[home.participant] = recalls
        for key, recall in recalls.items():
            if key not in known:
                self._look(home, before, recall)

    def _look(
        self, home: SimulatedHome, before: Mapping[LineKey, LineRow], recall: RecallResult
    ) -> None:
        key = (recall.stream, recall.producer)
        where = f"{recall.stream} by {recall.producer} in the home of {home.participant}"
        old, new = before[key], home.lines()[key]
        if recall.generation <= old.generation or new.generation < recall.generation:
            raise Violation("S1", f"generation {recall.generation} of {where} is none that follows")
        self._check_changed(where, recall, old, new)
        if recall.producer.participant != home.participant:
            self.counts["followed"] += 1
            self._check_copy(where, home, recall)
            return
        if recall.stream in self._scenario.feeds:
            self.counts["sources"] += 1
            self._revise_source(where, home, recall)
        else:
            self.counts["computed"] += 1
            self._check_needed(where, recall, old, new)
        self._excuse(home, recall.stream, recall.changed)

    def _check_changed(self, where: str, recall: RecallResult, old: LineRow, new: LineRow) -> None:
        """S13: a revision tells which buckets of its ranges it changed."""
        found = [
            bucket
            for bucket in self._buckets(recall.stream, recall.ranges)
            if content_of(old, bucket) != content_of(new, bucket)
        ]
        if list(self._buckets(recall.stream, recall.changed)) != found:
            raise Violation(
                "S13", f"revision {recall.generation} of {where} changed {found[:3]}, and says "
                f"{recall.changed[:3]}",
            )  # fmt: skip

    def _revise_source(self, where: str, home: SimulatedHome, recall: RecallResult) -> None:
        """S13: a source's revision names the buckets of its records, which say what they hold."""
        stream = recall.stream
        file = self.files.get(recall.because) or self._late_file(home, stream)
        named = sorted({bucket_of(row[0]) for row in file.rows})
        ranges = joined(Range(at_us, at_us + WIDTH_US) for at_us in named)
        if list(recall.ranges) != ranges:
            raise Violation(
                "S13", f"the revision of {where} names {recall.ranges}, and its records lie in "
                f"{ranges}",
            )  # fmt: skip
        buckets: dict[int, Counter[Row]] = {}
        for at_us in named:
            given = Counter(row for row in file.rows if bucket_of(row[0]) == at_us)
            held = self._contents.newest(stream, at_us)
            buckets[at_us] = _revised(file.action, held, given)
        self._contents.revise(stream, recall.version, buckets)

    def _late_file(self, home: SimulatedHome, stream: StreamName) -> RevisionFile:
        """The late records that are admitted now, and were not before."""
        admitted = self._admitted[home.participant]
        retries: Mapping[int, str] = home.store.committed.get(tables.RETRIES.name, {})  # type: ignore[assignment]
        held = home.store.committed.get(tables.QUARANTINE.name, {})
        new = [n for n, how in retries.items() if how == BY_REVISION and n not in admitted]
        admitted.update(new)
        late = self._scenario.revisions.late_of(stream)
        rows = tuple(late[held[n].position] for n in new if held[n].stream == stream)
        return RevisionFile(RevisionAction.ADD, rows)

    def _check_needed(self, where: str, recall: RecallResult, old: LineRow, new: LineRow) -> None:
        """S13: only what read something that was revised is computed again."""
        for bucket in self._buckets(recall.stream, recall.ranges):
            states = [
                self._contents.identity(written_of(row), bucket)
                for line in (old, new)
                for row in line.live_over(bucket)
            ]
            if len(set(states)) < 2:
                raise Violation(
                    "S13", f"{bucket} of {where} is revised, and nothing that it read was"
                )

    def _check_copy(self, where: str, home: SimulatedHome, recall: RecallResult) -> None:
        """S13: a copy is revised as its partner's line was, if somebody here agreed."""
        key = (recall.stream, recall.producer, recall.generation)
        there: Recalls = self._homes[recall.producer.participant].store.committed.get(
            tables.RECALLS.name, {}
        )  # type: ignore[assignment]
        its = there.get(key)
        if its is None or its.version != recall.version or not _cover(its.ranges, recall.ranges):
            raise Violation("S13", f"{where} has a revision that its producer has not made")
        follows = (home.participant, recall.stream) in self._scenario.revisions.follows
        agreements: Mapping[tuple[StreamName, Producer, int], AgreementRow]
        agreements = home.store.committed.get(AGREEMENTS.name, {})  # type: ignore[assignment]
        agreed = any(
            (stream, producer) == key[:2]
            and row.generation >= recall.generation
            and row.from_us <= recall.ranges[0].from_us
            for (stream, producer, _), row in agreements.items()
        )
        if not follows and not agreed:
            raise Violation("S13", f"{where} follows a revision to which nobody agreed")

    def check_line(self, home: SimulatedHome, key: LineKey, old: LineRow, new: LineRow) -> None:
        """S13: a copy holds its partner's revisions up to its version, each as a whole."""
        if key[1].participant == home.participant or new.version == old.version:
            return
        begun = self._begun.setdefault((home.participant, key), new.version)
        there: Recalls = self._homes[key[1].participant].store.committed.get(
            tables.RECALLS.name, {}
        )  # type: ignore[assignment]
        made = [r for (s, p, _), r in there.items() if (s, p) == key and r.version <= new.version]
        kept_us = BEGINNING_US if new.trimmed_us is None else new.trimmed_us
        for recall in (r for r in made if r.version > begun):
            for part in recall.ranges:
                for row in new.live_over(part) if part.to_us > kept_us else ():
                    if row.segment.version < recall.version and row.segment.range.to_us > kept_us:
                        raise Violation(
                            "S13", f"{key[0]} by {key[1]} in the home of {home.participant} is at "
                            f"v{new.version} and holds {row.segment.range} of before revision "
                            f"{recall.generation}",
                        )  # fmt: skip
        for recall in (r for r in made if r.version > max(old.version, begun)):
            self._excuse(home, key[0], recall.changed)

    # what is owed in the end

    def _excuse(self, home: SimulatedHome, stream: StreamName, changed: Iterable[Range]) -> None:
        """Note which buckets cannot be computed again here, because they or what they need are
        trimmed."""
        parts = list(changed)
        for name, fragment in self._scenario.fragments.items():
            is_here = self._scenario.owners[name] == home.participant
            for output in fragment.outputs if is_here and stream in fragment.input_streams else ():
                key = (output, self._writers[output])
                line = home.lines()[key]
                if line.origin_us is None or not line.live:
                    continue
                whole = Range(line.origin_us, line.live[-1].segment.range.to_us)
                for bucket in self._buckets(output, [whole]):
                    need = fragment.needed(output, bucket)
                    is_hit = stream in need and any(need[stream].overlaps(p) for p in parts)
                    if is_hit and (
                        self._is_lost(home, output, bucket)
                        or any(self._is_lost(home, s, p) for s, p in need.items())
                    ):
                        self._excused.add((*key, bucket.from_us))

    def _is_lost(self, home: SimulatedHome, stream: StreamName, need: Range) -> bool:
        line = home.lines()[stream, self._writers[stream]]
        from_us = need.from_us if line.origin_us is None else max(need.from_us, line.origin_us)
        return line.trimmed_us is not None and from_us < line.trimmed_us

    def stale(self, key: LineKey, line: LineRow) -> list[Range]:
        """The final buckets of a line that are kept and not as the newest contents make them."""
        if not self._contents.are_revised:
            return []
        stream, final = key[0], self._final_digests(key[0])
        kept_us = BEGINNING_US if line.trimmed_us is None else line.trimmed_us
        found = []
        for row in line.live:
            segment = row.segment
            if segment.stability is not Stability.STABLE or segment.range.to_us <= kept_us:
                continue
            for bucket in self._buckets(stream, [segment.range]):
                at_us = bucket.from_us
                if at_us >= kept_us and segment.buckets.get(at_us) != final.get(at_us):
                    found.append(bucket)
        return found

    def _final_digests(self, stream: StreamName) -> Mapping[int, Digest]:
        """What each bucket of a stream holds in the end."""
        final = self._contents.final()
        known = self._digests.get(stream)
        if known is None or known[0] is not final:
            rows = [row for found in final[stream].values() for row in found.elements()]
            known = final, digests(rows, self._scenario.widths_us[stream])
            self._digests[stream] = known
        return known[1]

    def excused(self, key: LineKey, line: LineRow) -> list[Range]:
        """Those of the stale buckets that cannot be computed again."""
        return [
            bucket
            for bucket in self.stale(key, line)
            if any(self._is_excused(written_of(r), bucket) for r in line.live_over(bucket))
        ]

    def _is_excused(self, written: Written, bucket: Range) -> bool:
        if (*written[:2], bucket.from_us) in self._excused:
            return True
        return any(self._is_excused(*read) for read in self._contents.inputs_of(written, bucket))

    def owed(self, key: LineKey, line: LineRow) -> list[Range]:
        """The stale buckets that can be computed again."""
        excused = set(self.excused(key, line))
        return [bucket for bucket in self.stale(key, line) if bucket not in excused]

    def buckets_owed(self, key: LineKey, line: LineRow) -> int:
        """At most so many buckets of a line are to be computed again."""
        waiting = sum(
            len(home.store.committed.get(tables.LATE_RECORDS.name, {}))
            for home in self._homes.values()
        )
        return len(self.stale(key, line)) + BUCKETS_PER_RECORD * waiting

    def expected(self) -> Mapping[str, Counter[Row]]:
        """The rows that every stream must have in the end."""
        return {
            stream: Counter({row: n for rows in buckets.values() for row, n in rows.items()})
            for stream, buckets in self._contents.final().items()
        }

    def late_waiting(self) -> list[str]:
        """The sources with late records that can be admitted, and are not."""
        found = []
        for home in self._homes.values():
            waiting: Mapping[int, LateRecordRow] = home.store.committed.get(
                tables.LATE_RECORDS.name, {}
            )  # type: ignore[assignment]
            trimmed_us = max(
                (line.trimmed_us for line in home.lines().values() if line.trimmed_us is not None),
                default=BEGINNING_US,
            )
            found += [
                f"late records of {row.stream}"
                for row in waiting.values()
                if row.late.stime_us - KEPT_US >= max(trimmed_us, self._scenario.origin_us)
                or (trimmed_us == BEGINNING_US and row.late.stime_us >= self._scenario.origin_us)
            ]
        return sorted(set(found))

    def _buckets(self, stream: StreamName, ranges: Iterable[Range]) -> Iterator[Range]:
        width_us = self._scenario.widths_us[stream]
        for part in ranges:
            for at_us in range(part.from_us, part.to_us, width_us):
                yield Range(at_us, at_us + width_us)


def written_of(row: SegmentRow) -> Written:
    """The version of a line that wrote what a row holds."""
    segment = row.segment
    return segment.stream, segment.producer, segment.version


def content_of(line: LineRow, bucket: Range) -> Mapping[int, Digest]:
    """What a line holds of one bucket."""
    over = line.live_over(bucket)
    return {at: digest for row in over for at, digest in row.segment.within(bucket).items()}


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in order as the longest ones that they make."""
    found: list[Range] = []
    for part in ranges:
        if found and found[-1].to_us == part.from_us:
            found[-1] = Range(found[-1].from_us, part.to_us)
        else:
            found.append(part)
    assert all(one.to_us < other.from_us for one, other in pairwise(found)), "they are apart"
    return found


def _revised(action: RevisionAction, held: Counter[Row], given: Counter[Row]) -> Counter[Row]:
    match action:
        case RevisionAction.ADD:
            return held + given
        case RevisionAction.REMOVE:
            return held - given
        case RevisionAction.REPLACE:
            return given


def _cover(wide: Iterable[Range], narrow: Iterable[Range]) -> bool:
    covers = list(wide)
    return all(any(one.covers(part) for one in covers) for part in narrow)
