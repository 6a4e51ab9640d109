"""The one door to a participant's catalog, its only truth about its progress.

Two implementations behave alike, kept so by one suite: `postgres` (the product) and `memory` (for
tests and simulation). A `Catalog` answers whole calls; a `Session` lets a test hold a transaction
open between a call and its end, to see lock waits and isolation.

Errors: Refused (the input or a law is broken), Conflict (lease lost or held, somebody was first),
Unavailable (cannot be reached), OutcomeUnknown (the connection broke during a commit).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

from medusa_core.bounds import Bound
from medusa_core.certificates import Certificate, LineEvent
from medusa_core.changes import Difference, LineVersion
from medusa_core.commits import (
    Cause,
    Commit,
    Committed,
    Hold,
    LandedBatch,
    Lease,
    LeaseKey,
    QuarantinedRecord,
    SourcePromise,
    StepMetrics,
)
from medusa_core.cursors import Cursor
from medusa_core.divergence import Divergence
from medusa_core.errors import MedusaError
from medusa_core.exchange import ImportStanding, LineNews
from medusa_core.fragments import Fragment
from medusa_core.frozen import freeze
from medusa_core.grid import FOREVER_US, Range
from medusa_core.imports import ChosenRows, ImportKnowledge
from medusa_core.knowledge import Knowledge, Limits
from medusa_core.market.declared import DeclaredCost
from medusa_core.market.loads import WINDOW_MS, LoadSample, Recorded
from medusa_core.names import Epoch, NetworkName, Participant, PlanId, StreamName, Version
from medusa_core.recalls import Recalled, RecallWanted
from medusa_core.segments import Producer, Read, Segment, SegmentFile
from medusa_core.sinks import Delivered, SinkRecord
from medusa_core.states import Transition
from medusa_core.step_costs import Cost
from medusa_core.trims import Trimmed


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord:
    """A stream as deployed: `kind` is source or derived; columns map name to type."""

    name: StreamName
    kind: str
    width_us: int
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One line of the assignment log: who computes a fragment from a bucket on, under which plan.

    The log is append-only; an epoch is one higher than the last of (fragment, partition).
    """

    fragment: str
    producer: Producer
    epoch: Epoch
    plan: PlanId
    partition: int = 0
    from_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a network needs in a home: its streams, plan, fragments, and who computes them.

    `fragments` maps a fragment's id to (input streams, output streams); a source's landing is a
    fragment of its own, `landing/<stream>`, without inputs.
    """

    network: NetworkName
    document: str
    plan: PlanId
    plan_document: str
    streams: tuple[StreamRecord, ...]
    fragments: Mapping[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]]
    assignments: tuple[Assignment, ...]

    def __post_init__(self) -> None:
        freeze(self, "fragments")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStatus:
    """How a (stream, producer) stands: `boundary_us` ends its live rows, `promised_us` is what a
    source has promised, `end_us` where it ends, `tentative_us` where its first live tentative row
    begins, `corrected_us` where the row that was superseded last ended. Of what lies before
    `trimmed_us` nothing need be there.

    `boundary_us` is BEGINNING_US before the first row or promise, FOREVER_US once it has ended.
    `generation` is one more with each recall.
    """

    stream: StreamRecord
    producer: Producer
    version: Version
    origin_us: int | None
    boundary_us: int
    promised_us: int | None
    end_us: int | None
    tentative_us: int | None = None
    trimmed_us: int | None = None
    corrected_us: int | None = None
    generation: int = 1

    @property
    def has_ended(self) -> bool:
        """Whether its live rows reach its end; some of them may be tentative."""
        return self.boundary_us == FOREVER_US

    @property
    def kept_from_us(self) -> int | None:
        """Where what is surely there begins: the trim, else the origin; None before it began."""
        return self.origin_us if self.trimmed_us is None else self.trimmed_us

    @property
    def live_through_us(self) -> int | None:
        """Where the rows from the origin on have their first hole; None if it has not begun."""
        if self.origin_us is None:
            return None
        return self.end_us if self.has_ended else self.boundary_us

    @property
    def stable_through_us(self) -> int | None:
        """Where the rows from the origin on stop being final; None if it has not begun."""
        through_us = self.live_through_us
        if through_us is None or self.tentative_us is None:
            return through_us
        return min(through_us, self.tentative_us)

    @property
    def tentative_through_us(self) -> int | None:
        """Where live rows end, if tentative ones lie behind the stable prefix; else None."""
        through_us, stable_us = self.live_through_us, self.stable_through_us
        return None if through_us == stable_us else through_us

    @property
    def corrected_through_us(self) -> int | None:
        """Before when whatever was told tentatively is final now; None if nothing was corrected."""
        through_us = self.stable_through_us
        if self.corrected_us is None or through_us is None:
            return None
        return min(self.corrected_us, through_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus(LineStatus):
    """A line with the counts of its live segments and their rows, for people."""

    segments: int
    rows: int

    @classmethod
    def of(cls, line: LineStatus, *, segments: int, rows: int) -> StreamStatus:
        """A line, counted."""
        known = {fact.name: getattr(line, fact.name) for fact in fields(LineStatus)}
        return cls(**known, segments=segments, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A commit as it was made."""

    commit_key: str
    fragment: str
    plan: PlanId
    cause: str
    range: Range
    committed_at_ms: int
    versions: Mapping[StreamName, Version]
    metrics: StepMetrics = field(default_factory=StepMetrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A lease as it stands, held or not; `read_at_ms` is the catalog's clock at the look."""

    lease: Lease
    read_at_ms: int

    @property
    def expires_in_ms(self) -> int:
        """How long it is still held; below 1 since how long it is not."""
        return self.lease.expires_at_ms - self.read_at_ms

    @property
    def is_held(self) -> bool:
        """Whether its holder may commit."""
        return self.expires_in_ms > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan as stored: its fingerprint, the name of its network, its document (JSON)."""

    id: PlanId
    network: NetworkName
    document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReason:
    """How many records of a stream are in quarantine for one reason."""

    stream: StreamName
    reason: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """A record in quarantine under its number, and the batch with which it landed repaired."""

    number: int
    record: QuarantinedRecord
    landed_as: str | None = None


class Session(Protocol):
    """A connection on which a test opens and ends transactions itself.

    `begin(snapshot=True)` is REPEATABLE READ, READ ONLY; else READ COMMITTED. Calls outside of a
    transaction are transactions of their own. A call that must wait for another session's lock
    raises `Waiting` where the implementation is told not to block (see the suites).
    """

    def begin(self, *, snapshot: bool = False) -> None: ...

    def end(self, *, keep: bool) -> None:
        """COMMIT (`keep`) or ROLLBACK."""

    @property
    def catalog(self) -> Catalog:
        """The catalog's calls, made inside this session."""


class Catalog(Protocol):
    """One home. Times are milliseconds of the catalog's own clock."""

    @property
    def participant(self) -> Participant:
        """Whose home this is."""

    def read_clock_ms(self) -> int:
        """The catalog's clock."""

    # deploying

    def deploy(self, deployment: Deployment) -> None:
        """Bring streams, network, plan, fragments and assignments in; the same again is nothing.

        Refused if a stream stands with another shape; Conflict if an epoch is not the next one.
        """

    def declare_source(self, stream: StreamName, document: str) -> None:
        """How a source is fed (JSON); the same again is nothing, another takes its place."""

    def sources(self) -> Mapping[StreamName, str]:
        """The sources that are fed here, by name, as declared."""

    def declare_retention(self, stream: StreamName, retention_ms: int | None) -> None:
        """How long a stream's buckets are kept after their end; None for good, as before it is
        declared. The same again is nothing, another takes its place.

        Refused if the stream is not deployed here or the time is not above 0.
        """

    def retentions(self) -> Mapping[StreamName, int]:
        """The streams that are not kept for good, by name, and for how many ms each is."""

    def declare_bound(self, stream: StreamName, bound: Bound | None, lag_ms: int) -> None:
        """Within which bound a stream, or an output behind it, is promised (None: within none), and
        how long after the event time of a bucket it is due. The same again is nothing, another
        takes its place.

        Refused if the stream is not deployed here.
        """

    def bounds(self) -> Mapping[StreamName, tuple[Bound | None, int]]:
        """What was declared of streams, by name: bound and lag."""

    def declare_verify(self, stream: StreamName, count: int) -> None:
        """How many producers must agree over a bucket of a stream before it is final here (1: it
        is final as soon as one says so). The same again is nothing, another takes its place.

        Refused if the stream is not deployed here or the count is not above 0.
        """

    def verifies(self) -> Mapping[StreamName, int]:
        """The streams of which more than one producer must agree, by name, and how many must."""

    def step_costs(self) -> Mapping[str, Cost]:
        """What the last steps of each fragment of this home cost, by fragment."""

    def record_transition(self, transition: Transition) -> bool:
        """Note that a fragment came into another state (S: it began as STABLE).

        False, and nothing is noted, if it is in this state already.
        """

    def transitions(self, limit: int | None = None) -> tuple[Transition, ...]:
        """What was noted, oldest first (the last `limit`)."""

    def states(self) -> tuple[Transition, ...]:
        """The last transition of each fragment that was ever assigned here; one that never left
        STABLE has none."""

    def assignments(self) -> tuple[Assignment, ...]:
        """Those in force: the newest per (fragment, partition, replica), in that order."""

    def plans(self, *, superseded: bool = False) -> tuple[PlanRecord, ...]:
        """The plans of the newest assignments, by network and fingerprint.

        `superseded`: those of older ones too, under which earlier buckets may yet be computed.
        """

    # leases

    def acquire_lease(self, key: LeaseKey, epoch: Epoch, holder: str, ttl_ms: int) -> Lease:
        """Take a free or expired lease (the same holder renews); Conflict while another has it.

        Conflict too if `epoch` is older than the assignment log's newest for the fragment.
        """

    def renew_lease(self, lease: Lease, ttl_ms: int) -> Lease:
        """Hold on; Conflict if it expired or was taken."""

    def release_lease(self, lease: Lease) -> None:
        """Give it back; nothing if it is no longer ours."""

    def acquire_leases(
        self, wanted: Sequence[tuple[LeaseKey, Epoch]], holder: str, ttl_ms: int
    ) -> tuple[Lease, ...]:
        """As `acquire_lease`, for all or none, in one round trip."""

    def renew_leases(self, leases: Sequence[Lease], ttl_ms: int) -> tuple[Lease | MedusaError, ...]:
        """As `renew_lease`, each for itself, in one round trip: the lease, or what was refused."""

    def release_leases(self, leases: Sequence[Lease]) -> None:
        """As `release_lease`, in one round trip."""

    def leases(self) -> tuple[LeaseRecord, ...]:
        """Every lease ever taken, held or not, by fragment."""

    # landing

    def land(self, lease: Lease, batch: LandedBatch) -> bool:
        """Log a landed file once: False if (stream, query id, batch id) had landed before."""

    def promise(self, lease: Lease, stream: StreamName, *, origin_us: int, boundary_us: int,
                end_us: int | None) -> None:  # fmt: skip
        """A source's promise: no later record before `boundary_us`. S1: it never goes back."""

    def land_many(self, landed: Sequence[tuple[Lease, LandedBatch]]) -> bool:
        """As `land`, for batches of several streams: all land or none; False if all had landed.

        Refused if some of them had landed and others not, or if they name more than one file.
        """

    def promise_many(self, promises: Sequence[SourcePromise]) -> None:
        """As `promise`, for all or none, in one round trip."""

    def landed_files(self, stream: StreamName, part: Range) -> tuple[SegmentFile, ...]:
        """Landed files that hold a record of `part`."""

    def landed_files_of(
        self, parts: Sequence[tuple[StreamName, Range]]
    ) -> tuple[tuple[SegmentFile, ...], ...]:
        """As `landed_files`, for each part in its order, in one round trip."""

    def landed_batches(self, stream: StreamName, query_id: str) -> Mapping[int, int]:
        """Batch id -> records, of what has landed under a query id (to go on after a crash)."""

    def landed_state(self, stream: StreamName, query_id: str) -> tuple[int, str | None] | None:
        """The last batch of a query id and the state that it left; None before the first."""

    def landed_states(
        self, streams: Sequence[StreamName], query_id: str
    ) -> Mapping[StreamName, tuple[int, str | None]]:
        """As `landed_state`, for those of the streams that have one, in one round trip."""

    def landed_queries(self, stream: StreamName) -> tuple[str, ...]:
        """The query ids under which something has landed, by name."""

    def landed_extent(self, stream: StreamName) -> tuple[int, int] | None:
        """Starts of the first and of the last bucket with landed records; None if there is none."""

    def landed_extents(self, streams: Sequence[StreamName]) -> Mapping[StreamName, tuple[int, int]]:
        """As `landed_extent`, for those of the streams that have one, in one round trip."""

    # committing

    def commit(self, commit: Commit) -> Committed:
        """Design 7.5: one server-side function, one round trip, in this order:

        1 the same key committed before? its answer again · 2 lock the lease; Conflict unless holder
        and epoch are right and clock < expires_at (S8) · 3 lock the (stream, producer) rows in one
        order; number them · 4 supersede overlapped tentative rows, splitting those that reach
        beyond; Conflict over stable or gap ones (S2, S3) · 5 write segments, files, lineage,
        boundaries (S1), quarantine, metrics.
        """

    def commit_many(self, commits: Sequence[Commit]) -> tuple[Committed | MedusaError, ...]:
        """As `commit`, each for itself, in one round trip: the answer, or what it was refused with.

        What one is refused with changes nothing for the others. Raises OutcomeUnknown and
        Unavailable for all of them.
        """

    # reading

    def read_knowledge(self, fragments: Mapping[str, Fragment], limits: Limits) -> Knowledge:
        """One snapshot of all that is needed to decide; `fragments` by id, as deployed here."""

    def segments(self, stream: StreamName, part: Range | None = None, *,
                 producer: Producer | None = None,
                 as_of: Version | None = None) -> tuple[Segment, ...]:  # fmt: skip
        """Live segments in event-time order (those live at `as_of` of the producer, if given)."""

    def line_version(self, stream: StreamName, producer: Producer,
                     version: Version) -> LineVersion | None:  # fmt: skip
        """The newest version up to `version` that a line ever stood at here; None before the first
        (of a partner's line several versions may have come at once)."""

    def line_versions(self, stream: StreamName, producer: Producer, *, after: Version,
                      until: Version | None = None,
                      limit: int) -> tuple[LineVersion, ...]:  # fmt: skip
        """The versions that a line stood at here after one, oldest first (the first `limit`)."""

    def version_at(self, stream: StreamName, producer: Producer, at_ms: int) -> Version:
        """The version that a line had here at a time of this home's clock; 0 before the first."""

    def difference(self, stream: StreamName, producer: Producer, since: Version, until: Version,
                   part: Range) -> Difference:  # fmt: skip
        """The segments over `part` that were live at one of two versions and not at the other.

        Both must be versions that the line stood at here, and not trimmed over `part` (see
        `medusa_core.changes.told_whole`).
        """

    def lineage(self, segment: Segment) -> tuple[Read, ...]:
        """What a segment was computed from."""

    def lines(self, stream: StreamName | None = None) -> tuple[LineStatus, ...]:
        """Every (stream, producer), by name, or those of one stream.

        At a cost that does not grow with their history.
        """

    def streams(self) -> tuple[StreamStatus, ...]:
        """The same, counted: reads every live segment."""

    def steps(self, limit: int | None = None) -> tuple[StepRecord, ...]:
        """Commits in the order they were made (the last `limit`)."""

    def step_counts(self) -> Mapping[Cause, int]:
        """How many of these there are by cause."""

    def quarantined(self, limit: int | None = None) -> tuple[QuarantinedRecord, ...]:
        """Records in quarantine, oldest first."""

    def quarantine_entries(
        self, stream: StreamName | None = None, *, after: int = 0,
        numbers: Sequence[int] | None = None, limit: int | None = None,
    ) -> tuple[QuarantineEntry, ...]:  # fmt: skip
        """As `quarantined`, with what became of them: those behind the number `after`.

        Of one stream, and of these numbers, if they are given.
        """

    def quarantine_count(self, stream: StreamName | None = None) -> int:
        """How many records are in quarantine, of a stream if given."""

    def quarantine_reasons(self, limit: int | None = None) -> tuple[QuarantineReason, ...]:
        """Why they are, the most frequent first (the first `limit`)."""

    # certificates

    def history(self, stream: StreamName, producer: Producer,
                part: Range) -> tuple[LineEvent, ...]:  # fmt: skip
        """Every row that a line has or had over a range, by the version at which it came."""

    def record_certificate(self, certificate: Certificate) -> int:
        """Write down what a check found; its number. Refused if there is no such line."""

    def certificates(self, stream: StreamName | None = None, *,
                     limit: int | None = None) -> tuple[Certificate, ...]:  # fmt: skip
        """What checks have found, of one stream if given, the newest first."""

    # load

    def record_load(self, sample: LoadSample) -> bool:
        """Write down what a driver spent in a period; False if this sample is known already.

        What is older than the home keeps goes meanwhile. Refused for a fragment that is not
        deployed here.
        """

    def loads_since(self, window_ms: int = WINDOW_MS) -> tuple[Recorded, ...]:
        """The samples that reach into the window that ends now; `medusa_core.market.loads.load_of`
        makes the load of them."""

    def declared_cost(self) -> DeclaredCost | None:
        """What load costs this participant, as its owner declared it last; None: never."""

    # the exchange

    def imports(self) -> tuple[ImportStanding, ...]:
        """The partners' lines that this home imports, by stream and producer."""

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """What a partner may see of a line after a version.

        Cut at a version where more than `segments_max` segments came; what is trimmed is no news,
        whether it is still there or not. Refused if there is no such line, or if `after` lies
        beyond it.
        """

    def import_line(self, lease: Lease, news: LineNews, plan: PlanId) -> bool:
        """Bring news into this home's copy of a partner's line, in this order:

        1 the same news brought before? False · 2 lock the lease, which is of the stream's import;
        Conflict unless holder and epoch are right and clock < expires_at (S8) · 3 lock the line;
        Conflict unless it stands at `news.after`, Refused if it is this home's own, or if
        the partner recalled what was read and this home's operator has not agreed · 4 end what was
        superseded, write what is live; the laws hold as for any row (S2, S3) · 5 what lies before
        `news.trimmed_us` and is not final here is lost for this home: a gap takes its place · 6
        move version and boundary (S1). `plan` is the one under which the import is assigned.
        """

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0) -> None:  # fmt: skip
        """A reader has a stream's buckets before `through_us` durably: its hold moves up to there.

        `path_ms` is what the path behind the stream costs there.

        A hold never moves back; past `limit_ms` without a sign of the reader it may be ignored.
        """

    # several producers of one stream

    def read_imports(self, limits: Limits) -> tuple[ImportKnowledge, ...]:
        """All that is needed to choose among the producers of each stream that has an import's
        line here (`Producer(participant, IMPORT)`), by stream; one snapshot.

        At a cost that does not grow with their history, and small where nothing is new.
        """

    def commit_choice(self, lease: Lease, chosen: ChosenRows) -> Committed | None:
        """Make choices and what was found out with them durable, all in one transaction:

        1 lock the lease, which is of the stream's import; Conflict unless holder and epoch are
        right and clock < expires_at (S8) · 2 commit the rows, one commit for each plan, as `commit`
        does · 3 note divergences, each pair of producers once for a bucket · 4 move how far each
        producer's line has been compared; it never goes back · 5 end the import's line.

        The answer of the last commit; None if there was no row. After a lost answer read again.
        """

    def divergences(self, stream: StreamName | None = None) -> tuple[Divergence, ...]:
        """Where producers of a stream, if given, disagree: those not settled, oldest first."""

    def disputed(self) -> Mapping[StreamName, int]:
        """From which bucket on streams of this home are disputed, by name: those whose producers
        disagree, and all that is computed from them here."""

    # recalls

    def recall(self, wanted: RecallWanted, *, explain: bool = False) -> tuple[Recalled, ...]:
        """Take back what a line has from a bucket on, and all in this home that was computed from
        it; for the owner of the home alone. In this order:

        1 may it be? Refused for another's line without `follows`, off the grid, before the origin ·
        2 move back the holds of those who will read again, and hold `needed` · 3 lock the lines of
        this home; Conflict if more was computed meanwhile · 4 Refused if a part of it, or of what
        is needed to compute it again, is trimmed (a partner's recall is followed as far as its
        copy is kept) · 5 end the rows from there on, of what was computed from it as far as it is
        kept (one that reaches over is cut), move the boundary back, begin the next generation,
        write down who and why.

        What was taken back, line by line, the one asked for first. With `follows` a partner's
        recall is agreed to, which is made when its news comes; with `explain` nothing is done:
        what would be.
        """

    def recalls(self, stream: StreamName | None = None) -> tuple[Recalled, ...]:
        """What was taken back here, of one stream if given, by line and generation."""

    # holds

    def place_hold(self, hold: Hold) -> None:
        """Keep buckets from `hold.from_us` on; the same holder and purpose moves its hold.

        What is trimmed already stays gone; `StreamStatus.trimmed_us` says how far that is.
        """

    def release_hold(self, stream: StreamName, holder: str, purpose: str) -> None:
        """Give a hold up; nothing if there is none."""

    def holds(self, stream: StreamName) -> tuple[Hold, ...]:
        """The holds on a stream, by start."""

    # cursors

    def place_cursor(self, stream: StreamName, name: str, producer: Producer, *, from_us: int,
                     limit_ms: int) -> None:  # fmt: skip
        """Place a cursor before all changes of a line, for its buckets from `from_us` on.

        What they are is held for `limit_ms` after each move. Conflict if the cursor is there
        already, Refused if nobody writes the stream as `producer`, Expired if a part of it is
        trimmed.
        """

    def move_cursor(self, stream: StreamName, name: str, version: Version, limit_ms: int) -> None:
        """The consumer has applied all changes up to `version`; the same again renews the hold.

        Refused if there is no such cursor, if it stands further, or if the line never stood at the
        version here; Diverged if the home no longer has the past that the cursor stands in.
        """

    def drop_cursor(self, stream: StreamName, name: str) -> None:
        """Forget a cursor and let go of what it held; nothing if there is none."""

    def cursors(self) -> tuple[Cursor, ...]:
        """All cursors of this home, by stream and name."""

    # sinks

    def declare_sink(self, stream: StreamName, name: str, document: str, *, from_us: int,
                     through_us: int | None, limit_ms: int) -> None:  # fmt: skip
        """Deliver a stream from `from_us` on, or go on at `through_us`; what is declared takes the
        place of what was.

        What it has yet to deliver is held from now on, for `limit_ms` after each sign of it.
        Refused if the stream is not deployed here or the name is none.
        """

    def withdraw_sink(self, stream: StreamName, name: str) -> None:
        """Deliver there no more and give up the hold; nothing if there is no such sink."""

    def sinks(self) -> tuple[SinkRecord, ...]:
        """All sinks of this home, by stream and name."""

    def record_delivery(self, sink: SinkRecord, delivered: Delivered, limit_ms: int) -> None:
        """Copy how far a sink's target says it has come, and hold from there.

        Conflict if the sink is not there as declared in `sink.document`.
        """

    def record_sink_problem(self, sink: SinkRecord, problem: str | None) -> None:
        """Say why a sink does not go on, or that it does; nothing if it was declared anew."""

    # trimming

    def trim(self, stream: StreamName, producer: Producer, before_us: int, *,
             needed: Mapping[str, int], segments_max: int,
             explain: bool = False) -> Trimmed:  # fmt: skip
        """Trim a line as far towards `before_us` as the law lets (S7), in this order:

        1 lock the stream, on which nobody places a hold meanwhile, and the line · 2 hold from
        `needed` on (fragment -> event time) what fragments assigned to this home have yet to read
        of the stream; one that is not named keeps the hold it has, or holds everything · 3 move the
        trim to the last point of the grid before `before_us`, all holds that have not run out, all
        tentative rows and the boundary; it never goes back · 4 remove at most `segments_max` rows
        that end there or before, and what only they and landed batches before it named.

        Files may be removed from the disk once this has returned. `explain` only tells.
        """

    def compact(self, stream: StreamName, producer: Producer, segments: Sequence[Segment],
                file: SegmentFile) -> tuple[SegmentFile, ...]:  # fmt: skip
        """Let live, final segments name one file that holds exactly their rows, and nothing else.

        Returns the files that nothing names any more. Conflict if one of the segments is not there
        as given; Refused if the file has another number of rows.
        """

    def named_files(self, paths: Collection[str]) -> frozenset[str]:
        """Those of the paths that the catalog knows: all others under the root are orphans."""

    def close(self) -> None:
        """Give connections back."""
