"""The laws, checked after every event in the committed state of the catalogs.

The checks see every home's tables, which no participant may; they share the value types with the
product and none of its checks. State that an event did not change is not checked again. The names
are those of docs/architecture.md. `VERSION`: a reader of version V of a line never sees a smaller
one appear, nor content of V vanish; `LANDING`: a batch lands once; `LOST`: nothing becomes a gap,
for no hold expires here; `HOLD`: an acknowledgement renews its hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from medusa_core.commits import Cause, Commit, CommitResult, Lease
from medusa_core.digest import Digest
from medusa_core.fragments import move_of
from medusa_core.grid import FOREVER_US, Range, floor_us
from medusa_core.names import Participant, StreamName
from medusa_core.recalls import RecallResult
from medusa_core.segments import Segment, SegmentFile, Stability
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.tables import (
    BatchRow,
    CommitRow,
    HoldRow,
    LeaseRow,
    LineRow,
)
from pipelines.catalog.records import Assignment
from pipelines.simulation.faults.bound_laws import check_bound
from pipelines.simulation.faults.choice_laws import ChoiceLaws
from pipelines.simulation.faults.evaluate import digests
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.expected import expected_buckets
from pipelines.simulation.faults.live_rows import check_final, check_no_overlap
from pipelines.simulation.faults.move_laws import MoveLaws
from pipelines.simulation.faults.revised_contents import RevisedContents
from pipelines.simulation.faults.revision_laws import RevisionLaws
from pipelines.simulation.faults.scenario import Row, Scenario, bucket_of
from pipelines.simulation.faults.simulated_homes import LineKey, SimulatedHome
from pipelines.simulation.faults.simulated_networks import WIDTH_US
from pipelines.simulation.faults.wrong_provider import WrongProvider

COMPUTATIONS_MAX = 2
_NO_LINE = LineRow()


@dataclass(eq=False, slots=True)
class _Seen:
    """What was seen of one home after the last event that changed it."""

    committed: object = None
    lines: Mapping[LineKey, LineRow] = field(default_factory=dict)
    made: object = None
    commits: int = 0
    brought: object = None
    batches: int = 0
    landed: dict[tuple[StreamName, int], int] = field(default_factory=dict)
    computations: dict[tuple[LineKey, int, object], int] = field(default_factory=dict)


def _new_commits(home: SimulatedHome, seen: _Seen) -> Iterator[tuple[str, CommitRow]]:
    """The commits of a home since it was last looked at, each with its key."""
    made: Mapping[str, CommitRow] = home.store.committed.get(tables.COMMITS.name, {})  # type: ignore[assignment]
    return islice(reversed(made.items()), len(made) - seen.commits)  # type: ignore[call-overload]


class Laws:
    """The laws over the homes of one schedule; every check raises Violation."""

    def __init__(
        self,
        scenario: Scenario,
        homes: Mapping[Participant, SimulatedHome],
        is_disturbed: Callable[[Participant], bool],
        choices: ChoiceLaws | None = None,
        wrong: WrongProvider | None = None,
    ) -> None:
        self._choices = choices
        self._wrong = wrong or WrongProvider(scenario)
        self._spoilt_us = choices.spoilt_us if choices else {}
        self._bound = scenario.bound
        self._is_disturbed = is_disturbed
        self._homes = homes
        self._watched = [(home, home.store, _Seen()) for home in homes.values()]
        self._widths_us = scenario.widths_us
        self._expected = expected_buckets(scenario)
        self.contents = RevisedContents(scenario, self._expected)
        self.revisions = RevisionLaws(scenario, homes, self.contents)
        self._has_revisions = scenario.revisions.occur
        self.moves = MoveLaws(scenario, homes, self._wrong)
        self._has_moves = scenario.moves.occur
        self._by_lineage: dict[object, Mapping[int, Digest]] = {}
        self._records: dict[tuple[StreamName, int], int] = {}
        for stream, batches in scenario.feeds.items():
            for batch in batches:
                for row in batch.records:
                    key = (stream, bucket_of(row[0]))
                    self._records[key] = self._records.get(key, 0) + 1

    # after every event

    def check(self) -> None:
        """Look at what the last event changed."""
        for home, store, seen in self._watched:
            if store.committed is not seen.committed:
                self._look(home, seen)

    def _look(self, home: SimulatedHome, seen: _Seen) -> None:
        """Look at the tables that changed; one that did not is the same object as before."""
        seen.committed = home.store.committed
        lines = home.lines()
        if self._has_revisions:
            self.revisions.note(home, seen.lines, (row for _, row in _new_commits(home, seen)))
        if self._has_moves:
            self.moves.note(home)
        if lines is not seen.lines:
            for key, line in lines.items():
                old = seen.lines.get(key, _NO_LINE)
                if line is not old:
                    self._check_line(home, key, old, line)
                    if self._choices:
                        self._choices.note_line(home, key, old, line)
        self._check_commits(home, seen)
        self._check_batches(home, seen)
        seen.lines = lines

    def _check_line(self, home: SimulatedHome, key: LineKey, old: LineRow, new: LineRow) -> None:
        where = f"{key[0]} by {key[1]} in the home of {home.participant}"
        for name in ("boundary_us", "promised_us", "version", "trimmed_us", "generation"):
            was, is_ = getattr(old, name), getattr(new, name)
            if was is not None and (is_ is None or is_ < was):
                raise Violation("S1", f"{name} of {where} went from {was} back to {is_}")
        same = 0
        for before, after in zip(old.live, new.live, strict=False):
            if before is not after:
                break
            same += 1
        check_no_overlap(where, new.live[max(same - 1, 0) :])
        revised = self._revised(home, key, old, new)
        check_final(where, old.live[same:], new.live[same:], new.trimmed_us, revised)
        if self._has_revisions:
            self.revisions.check_line(home, key, old, new)
        if new.trimmed_us != old.trimmed_us:
            self._check_trim(home, key[0], where, new)
        known = {id(row) for row in old.live[same:]}
        for row in new.live[same:]:
            if id(row) not in known:
                self._check_files(home, where, row.segment)
                if key[1].participant != home.participant:
                    self._check_age_here(where, key, row.segment)

    def _revised(
        self, home: SimulatedHome, key: LineKey, old: LineRow, new: LineRow
    ) -> list[Range]:
        """What of a line was revised by the last event."""
        if old.generation == new.generation:
            return []
        made: Mapping[object, RecallResult] = home.store.committed.get(tables.RECALLS.name, {})
        return [
            part
            for recall in made.values()
            if (recall.stream, recall.producer) == key and recall.generation > old.generation
            for part in recall.ranges
        ]

    def _check_age_here(self, where: str, key: LineKey, segment: Segment) -> None:
        """S11: what came from a partner is no younger here than when it was made there; what was
        trimmed there before it came is a gap here, and no answer."""
        if segment.stability is Stability.GAP:
            return
        made = self._homes[key[1].participant].lines().get(key, _NO_LINE)
        for row in (*made.live, *made.superseded):
            there = row.segment
            if there.version == segment.version and there.range.covers(segment.range):
                if segment.age_ms < there.age_ms:
                    raise Violation(
                        "S11",
                        f"{segment.range} of {where} is {segment.age_ms} ms old, it was "
                        f"{there.age_ms} ms old when it was made",
                    )
                return

    def _check_trim(
        self, home: SimulatedHome, stream: StreamName, where: str, line: LineRow
    ) -> None:
        """S7: nothing is trimmed under a hold that has not run out, nor what is not final."""
        trimmed_us = line.trimmed_us
        assert trimmed_us is not None, "a trim does not go back"
        holds: Mapping[object, HoldRow] = home.store.committed.get(tables.HOLDS.name, {})
        for row in holds.values():
            limit_ms = row.hold.limit_ms
            is_over = limit_ms is not None and row.placed_at_ms + limit_ms < home.clock.now_ms
            if row.hold.stream == stream and not is_over and row.hold.from_us < trimmed_us:
                raise Violation(
                    "S7", f"{where} is trimmed before {trimmed_us}, under {row.hold.holder}'s hold"
                )
        for live in line.live:
            is_final = live.segment.stability.is_final
            if not is_final and live.segment.range.from_us < trimmed_us:
                raise Violation("S7", f"tentative {live.segment.range} of {where} is trimmed")

    def _check_files(self, home: SimulatedHome, where: str, segment: Segment) -> None:
        rows = []
        for file in segment.files:
            if home.storage.hash(file.path) != file.sha256:
                raise Violation("S10", f"{file.path} of {where} is not there with its hash")
            rows += [row for row in home.storage.files[file.path] if segment.range.holds(row[0])]
        if digests(rows, self._widths_us[segment.stream]) != dict(segment.buckets):
            raise Violation("S10", f"the files of {where} {segment.range} hold other rows")
        if segment.stability is Stability.GAP:
            if self._choices and self._choices.may_be_lost(home, segment):
                return
            if self._has_moves and self.moves.may_be_lost(home, segment):
                return
            raise Violation("LOST", f"{segment.range} of {where} is a gap, and no hold has run out")
        if segment.stability is Stability.STABLE and not self._wrong.is_in(segment):
            found, expected = self._as_expected(segment, segment.range, rows)
            if found != expected:
                lost, extra = expected - found, found - expected
                raise Violation(
                    "L2",
                    f"stable {segment.range} of {where} lacks {sorted(lost)[:3]} and has "
                    f"{sorted(extra)[:3]} too many",
                )

    def _check_commits(self, home: SimulatedHome, seen: _Seen) -> None:
        made = home.store.committed.get(tables.COMMITS.name, {})
        if made is seen.made:
            return
        new = list(_new_commits(home, seen))
        seen.made, seen.commits = made, len(made)
        for made_under, row in new:
            for stream, version in row.versions.items():
                key = (stream, row.commit.lease.key.producer)
                was, line = seen.lines.get(key, _NO_LINE), home.lines()[key]
                where = f"{stream} by {key[1]} in the home of {home.participant}"
                if version <= was.version or line.version < version:
                    raise Violation("VERSION", f"version {version} of {where} was given twice")
                here = [r for r in (*line.live, *line.superseded) if r.commit_key == made_under]
                if not here:
                    raise Violation("VERSION", f"what version {version} of {where} wrote is gone")
            self._count(seen, row)
            if row.commit.cause is Cause.IMPORT:
                if self._choices:
                    self._choices.check_choice(home, row)
            else:
                self._check_equal_lineage(row.commit)
                is_disturbed = self._is_disturbed(home.participant)
                if move_of(row.commit.lease.key.fragment) is not None:
                    continue  # a provider promises its payer nothing, who waits for a time only
                check_bound(home, row, home.lines(), self._bound, is_disturbed)

    def _count(self, seen: _Seen, row: CommitRow) -> None:
        """S12: at most two computations of a bucket, a tentative and a final one, and as many of
        each content of the sources' revised buckets that it is computed from."""
        producer = row.commit.lease.key.producer
        for segment in row.commit.segments:
            width_us = self._widths_us[segment.stream]
            written = (segment.stream, producer, row.versions[segment.stream])
            for at_us in range(segment.range.from_us, segment.range.to_us, width_us):
                read = self.contents.identity(written, Range(at_us, at_us + width_us))
                of = ((segment.stream, producer), at_us, read)
                times = seen.computations[of] = seen.computations.get(of, 0) + 1
                if times > COMPUTATIONS_MAX:
                    raise Violation(
                        "S12", f"bucket {at_us} of {segment.stream} was computed {times} times"
                    )

    def _check_equal_lineage(self, commit: Commit) -> None:
        """I3: equal plans, equal lineage, equal digests."""
        for segment in commit.segments:
            lineage = tuple(r for r in commit.lineage if r.output == segment.stream)
            right_us = self._spoilt_us.get(segment.stream, FOREVER_US)
            if not lineage or segment.range.to_us > right_us or self._wrong.wrote(segment):
                continue
            key = (commit.plan, segment.stream, segment.range, lineage)
            if self._by_lineage.setdefault(key, segment.buckets) != segment.buckets:
                raise Violation("I3", f"{segment.stream} {segment.range} has two contents")

    def _check_batches(self, home: SimulatedHome, seen: _Seen) -> None:
        made: Mapping[tuple[StreamName, str, int], BatchRow] = home.store.committed.get(
            tables.BATCHES.name, {}
        )  # type: ignore[assignment]
        if made is seen.brought:
            return
        seen.brought = made
        new = islice(reversed(made.items()), len(made) - seen.batches)  # type: ignore[call-overload]
        seen.batches = len(made)
        for (stream, _, batch_id), row in new:
            for at_us, records in row.counts.items():
                landed = seen.landed.get((stream, at_us), 0) + records
                seen.landed[stream, at_us] = landed
                if landed > self._records.get((stream, at_us), 0):
                    raise Violation("LANDING", f"batch {batch_id} of {stream} landed twice")

    # around calls

    def may_write(self, home: SimulatedHome, lease: Lease) -> bool:
        """S8: whether a write under a lease may pass now, by its home's clock and assignments."""
        leases: Mapping[object, LeaseRow] = home.store.committed.get(tables.LEASES.name, {})
        held, key = leases.get(lease.key), lease.key
        if held is None or (held.holder, held.epoch) != (lease.holder, lease.epoch):
            return False
        log: Mapping[object, Assignment] = home.store.committed.get(tables.ASSIGNMENTS.name, {})
        newest = max(
            a.epoch
            for a in log.values()
            if (a.fragment, a.partition, a.producer) == (key.fragment, key.partition, key.producer)
        )
        return held.expires_at_ms > home.clock.now_ms and newest == lease.epoch

    def after_write(
        self, home: SimulatedHome, lease: Lease, answer: object, is_allowed: bool
    ) -> None:
        """S8: a write that may not pass was refused, or had been made before."""
        is_old = answer is False or (isinstance(answer, CommitResult) and answer.again)
        if not is_allowed and not is_old:
            raise Violation(
                "S8",
                f"{lease.holder} wrote in the home of {home.participant} under an expired, lost or "
                f"old lease of {lease.key} (epoch {lease.epoch})",
            )

    def check_lineage(
        self, here: Participant, commit: Commit, seen: Mapping[LineKey, LineRow]
    ) -> None:
        """S5: what is computed from was in this home when the decision was made."""
        for read in commit.lineage:
            line = seen.get((read.input, read.producer), _NO_LINE)
            # Rows of one version and stability may have been chosen as one.
            rows = (row.segment for row in (*line.live, *line.superseded))
            known = sorted(s.range for s in rows if s.version == read.version)
            if list(read.range.without(known)):
                raise Violation(
                    "S5",
                    f"{here} computed {read.output} from {read.input} {read.range} "
                    f"v{read.version}, which it did not know",
                )

    def check_acknowledged(
        self, home: SimulatedHome, stream: StreamName, reader: Participant, limit_ms: int
    ) -> None:
        """HOLD: an acknowledgement that arrived renews its reader's hold for the whole limit."""
        holds: Mapping[object, HoldRow] = home.store.committed.get(tables.HOLDS.name, {})
        row = holds.get((stream, reader, "import"))
        now_ms = home.clock.now_ms
        if row is None or not (row.is_held(now_ms) and row.is_held(now_ms + limit_ms)):
            raise Violation("HOLD", f"{reader} acknowledged {stream}, and its hold was not renewed")

    def check_removed(self, home: SimulatedHome, files: Iterable[SegmentFile]) -> None:
        """S10: what is removed from the disk is named by nothing that is live."""
        gone = {file.path for file in files}
        for (stream, _), line in home.lines().items() if gone else ():
            for row in line.live:
                for file in row.segment.files:
                    if file.path in gone:
                        part = row.segment.range
                        raise Violation("S10", f"a file of {stream} {part} was removed")

    def check_read(
        self, home: SimulatedHome, stream: StreamName, part: Range, segments: Iterable[Segment],
        rows: Iterable[Row],
    ) -> None:  # fmt: skip
        """S7, L2: what a reader holds and reads is there, and is what the oracle says."""
        if self.contents.are_revised:
            held = [row for row in rows if part.holds(row[0])]
            pairs = [
                self._as_expected(one, over, [row for row in held if over.holds(row[0])])
                for one in segments
                if (over := one.range.intersection(part)) is not None
            ]
            is_right = all(found == expected for found, expected in pairs)
        else:
            right_us = self._spoilt_us.get(stream, FOREVER_US)
            found = Counter(r for r in rows if r[0] < right_us)
            is_right = found == self._expected_within(stream, part)
        if not is_right:
            raise Violation(
                "S7",
                f"a reader in the home of {home.participant} got other rows of {stream} {part}",
            )

    def _as_expected(
        self, segment: Segment, part: Range, rows: Iterable[Row]
    ) -> tuple[Counter[Row], Counter[Row]]:
        """The rows of a part of a segment that are compared, and what they are to be."""
        if not self.contents.are_revised:
            return self._to_be_right(segment, rows), self._expected_within(segment.stream, part)
        found, expected = Counter(rows), Counter[Row]()
        width_us = self._widths_us[segment.stream]
        written = (segment.stream, segment.producer, segment.version)
        for at_us in range(floor_us(part.from_us, width_us), part.to_us, width_us):
            bucket = Range(at_us, at_us + width_us)
            its = self.contents.expected(written, bucket)
            if its is None:
                # Of a mixture only the end of the schedule demands something.
                self.revisions.counts["mixed"] += 1
                found = Counter({row: n for row, n in found.items() if not bucket.holds(row[0])})
            else:
                self.revisions.counts["compared"] += 1
                expected.update({row: n for row, n in its.items() if part.holds(row[0])})
        return found, expected

    def _to_be_right(self, segment: Segment, rows: Iterable[Row]) -> Counter[Row]:
        """The rows that must be the oracle's, where one engine makes a wrong one: those before."""
        right_us = self._spoilt_us.get(segment.stream, FOREVER_US)
        return Counter(row for row in rows if row[0] < right_us)

    def _expected_within(self, stream: StreamName, part: Range) -> Counter[Row]:
        found: Counter[Row] = Counter()
        buckets = self._expected[stream]
        to_us = min(part.to_us, self._spoilt_us.get(stream, FOREVER_US))
        for at_us in range(bucket_of(part.from_us), to_us, WIDTH_US):
            found.update({r: n for r, n in buckets.get(at_us, {}).items() if part.holds(r[0])})
        return found
