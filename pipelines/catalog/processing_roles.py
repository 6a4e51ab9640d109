"""The catalog's roles in processing: drivers, landers, importers receive those that they need.

A role is a protocol of few calls. Each call is one transaction; times are milliseconds of the
catalog's own clock.

Errors: Refused (the input or a law is broken), Conflict (lease lost or held, another writer was
first), Unavailable (cannot be reached), OutcomeUnknown (the connection broke during a commit).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from medusa_core.bounds import Bound
from medusa_core.commits import (
    Commit,
    CommitResult,
    Hold,
    LandedBatch,
    LandedPart,
    Lease,
    LeaseKey,
    SourcePromise,
)
from medusa_core.divergence import Divergence
from medusa_core.drops.utility import Qos
from medusa_core.errors import MedusaError
from medusa_core.exchange import ImportStatus, LineNews
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.imports import ChosenRows, ImportKnowledge
from medusa_core.knowledge import Knowledge, Limits
from medusa_core.late_records import LateBucket, LateRecord
from medusa_core.line_revisions import NO_REACH, RevisionAgreement, RevisionReach
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.recalls import RecallRequest, RecallResult
from medusa_core.revisions import RevisionRequest
from medusa_core.segments import Producer, Segment, SegmentFile
from medusa_core.states import Transition
from medusa_core.step_costs import Cost
from medusa_core.trims import TrimResult
from pipelines.catalog.records import (
    Assignment,
    Deployment,
    DroppedBuckets,
    LeaseRecord,
    OwnerLine,
    PlanRecord,
)


class HomeClock(Protocol):
    """Whose home this is, and its clock."""

    @property
    def participant(self) -> Participant:
        """Whose home this is."""

    def read_clock_ms(self) -> int:
        """The catalog's clock."""


class Plans(HomeClock, Protocol):
    """The plans under which a home computes."""

    def plans(self, *, superseded: bool = False) -> tuple[PlanRecord, ...]:
        """The plans of the newest assignments, by network and fingerprint.

        `superseded`: those of older ones too, under which earlier buckets may yet be computed.
        """


class Deployments(Plans, Protocol):
    """What is deployed in a home: plans, who computes which fragment, and how far each has come."""

    def deploy(self, deployment: Deployment) -> None:
        """Bring streams, network, plan, fragments and assignments in; the same again is nothing.

        Refused if a stream exists with another shape; Conflict if an epoch is not the next one.
        """

    def assignments(self) -> tuple[Assignment, ...]:
        """Those in force: the newest per (fragment, partition, replica), in that order."""

    def read_knowledge(self, fragments: Mapping[str, Fragment], limits: Limits) -> Knowledge:
        """One snapshot of all that is needed to decide; `fragments` by id, as deployed here."""

    def step_costs(self) -> Mapping[str, Cost]:
        """What the last steps of each fragment of this home cost, by fragment."""


class Owners(HomeClock, Protocol):
    """Who owns the buckets of fragments that are computed here: this home, or a provider."""

    def change_owner(self, line: OwnerLine) -> None:
        """Append to the log of owners of a fragment that is computed here; the same again is
        nothing.

        Refused if the fragment is not computed here, if the owner writes no line of its outputs
        here, or off the grid; Conflict if the epoch is not the next one, if a bucket is computed
        already, or if the owner changes at a bucket before that one already.
        """

    def fragment_owners(self, fragment: str, partition: int = 0) -> tuple[OwnerLine, ...]:
        """The log of owners of a fragment, oldest first."""

    def stop_fragment(self, fragment: str) -> bool:
        """Compute a moved fragment no more, import its lines no more, and release what it holds;
        False if it was stopped before, or is not deployed.

        Refused for a fragment that has not moved.
        """


class Guarantees(Protocol):
    """What is guaranteed of streams: bounds, and how many producers agree on a final row."""

    def declare_bound(self, stream: StreamName, bound: Bound | None, lag_ms: int) -> None:
        """Within which bound a stream, or an output behind it, is promised (None: within none), and
        how long after the event time of a bucket it is due. The same again is nothing, another
        takes its place.

        Refused if the stream is not deployed here.
        """

    def bounds(self) -> Mapping[StreamName, tuple[Bound | None, int]]:
        """What was declared of streams, by name: bound and lag."""

    def declare_qos(self, stream: StreamName, qos: Qos | None) -> None:
        """What a stream is worth by delay and by loss, if records of it may be dropped (None: they
        may not). The same again is nothing, another takes its place.

        Refused if the stream is not deployed here.
        """

    def qos(self) -> Mapping[StreamName, Qos]:
        """The streams of which records may be dropped, by name."""

    def dropped(self) -> tuple[DroppedBuckets, ...]:
        """What was dropped and is to be corrected, by line."""

    def declare_verify(self, stream: StreamName, count: int) -> None:
        """How many producers must agree over a bucket of a stream before it is final here (1: it
        is final as soon as one says so). The same again is nothing, another takes its place.

        Refused if the stream is not deployed here or the count is not above 0.
        """

    def verifies(self) -> Mapping[StreamName, int]:
        """The streams of which more than one producer must agree, by name, and how many must."""

    def declare_following(self, stream: StreamName, follows: bool) -> None:
        """Whether revisions of a partner's line of a stream are followed here without asking the
        operator (before it is declared: no). The same again is nothing.

        Refused if the stream is not deployed here.
        """

    def followings(self) -> tuple[StreamName, ...]:
        """The streams whose revisions are followed, by name."""


class ContractPresence(Protocol):
    """Whether the market concerns this home."""

    def has_contracts(self) -> bool:
        """Whether a bilateral contract was ever proposed here, or a partner sent a message about
        one."""


class Leases(Protocol):
    """Who may write which fragment, and until when."""

    def acquire_lease(self, key: LeaseKey, epoch: Epoch, holder: str, ttl_ms: int) -> Lease:
        """Take a free or expired lease (the same holder renews); Conflict while another has it.

        Conflict too if `epoch` is older than the assignment log's newest for the fragment.
        """

    def renew_lease(self, lease: Lease, ttl_ms: int) -> Lease:
        """Hold on; Conflict if it expired or was taken."""

    def release_lease(self, lease: Lease) -> None:
        """Give it back; nothing if it is no longer ours."""

    def acquire_leases(
        self, requests: Sequence[tuple[LeaseKey, Epoch]], holder: str, ttl_ms: int
    ) -> tuple[Lease, ...]:
        """As `acquire_lease`, for all or none, in one round trip."""

    def renew_leases(self, leases: Sequence[Lease], ttl_ms: int) -> tuple[Lease | MedusaError, ...]:
        """As `renew_lease`, each for itself, in one round trip: the lease, or what was refused."""

    def release_leases(self, leases: Sequence[Lease]) -> None:
        """As `release_lease`, in one round trip."""

    def leases(self) -> tuple[LeaseRecord, ...]:
        """Every lease ever taken, held or not, by fragment."""


class Landing(Protocol):
    """Sources of this home: how they are fed, their batches and their promises."""

    def declare_source(self, stream: StreamName, document: str) -> None:
        """How a source is fed (JSON); the same again is nothing, another takes its place."""

    def sources(self) -> Mapping[StreamName, str]:
        """The sources that are fed here, by name, as declared."""

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

    def landed_state(self, stream: StreamName, query_id: str) -> tuple[int, str | None] | None:
        """The last batch of a query id and the state that it left; None before the first."""

    def landed_states(
        self, streams: Sequence[StreamName], query_id: str
    ) -> Mapping[StreamName, tuple[int, str | None]]:
        """As `landed_state`, for those of the streams that have one, in one round trip."""

    def landed_extent(self, stream: StreamName) -> tuple[int, int] | None:
        """Starts of the first and of the last bucket with landed records; None if there is none."""

    def landed_extents(self, streams: Sequence[StreamName]) -> Mapping[StreamName, tuple[int, int]]:
        """As `landed_extent`, for those of the streams that have one, in one round trip."""


class LateRecords(Protocol):
    """Late records of this home's sources that wait for a revision (`Recalls.revise`)."""

    def late_buckets(
        self, streams: Sequence[StreamName]
    ) -> Mapping[StreamName, tuple[LateBucket, ...]]:
        """Those of the streams by bucket, in order; streams for which none waits are left out.

        A late record waits that landed with its `LateRow`, until it has landed repaired or a
        revision has admitted it.
        """

    def late_records(self, stream: StreamName, buckets: Sequence[int]) -> tuple[LateRecord, ...]:
        """Those of some buckets (their beginnings), by number."""


class LandedFiles(Protocol):
    """Landed batches, and the files that hold their records."""

    def landed_files(self, stream: StreamName, part: Range) -> tuple[SegmentFile, ...]:
        """Landed files that hold a record of `part`."""

    def landed_parts(
        self, parts: Sequence[tuple[StreamName, Range]]
    ) -> tuple[tuple[LandedPart, ...], ...]:
        """As `landed_files`, for each part in its order, with what the files hold of it."""

    def landed_batches(self, stream: StreamName, query_id: str) -> Mapping[int, int]:
        """Batch id -> records, of what has landed under a query id (to go on after a crash)."""

    def landed_queries(self, stream: StreamName) -> tuple[str, ...]:
        """The query ids under which something has landed, by name."""


class Steps(Protocol):
    """Steps of fragments: their commits and states."""

    def record_transition(self, transition: Transition) -> bool:
        """Note that a fragment came into another state (S: it began as STABLE).

        False, and nothing is noted, if it is in this state already.
        """

    def commit(self, commit: Commit) -> CommitResult:
        """Design 7.5: one server-side function, one round trip, in this order:

        1 the same key committed before? its answer again · 2 lock the lease; Conflict unless holder
        and epoch are right and clock < expires_at (S8) · 3 lock the (stream, producer) rows in one
        order; number them · 4 supersede overlapped tentative rows, splitting those that reach
        beyond; Conflict over stable or gap ones (S2, S3) · 5 write segments, files, lineage,
        boundaries (S1), quarantine, metrics.
        """

    def commit_many(self, commits: Sequence[Commit]) -> tuple[CommitResult | MedusaError, ...]:
        """As `commit`, each for itself, in one round trip: the answer, or what it was refused with.

        What one is refused with changes nothing for the others. Raises OutcomeUnknown and
        Unavailable for all of them.
        """


class Imports(Protocol):
    """Copies of partners' lines, and the choice among several producers of one stream."""

    def imports(self) -> tuple[ImportStatus, ...]:
        """The partners' lines that this home imports, by stream and producer."""

    def import_line(self, lease: Lease, news: LineNews, plan: PlanId,
                    reach: RevisionReach = NO_REACH) -> bool:  # fmt: skip
        """Bring news into this home's copy of a partner's line, in this order:

        1 the same news brought before? False · 2 lock the lease, which is of the stream's import;
        Conflict unless holder and epoch are right and clock < expires_at (S8); if the news is of a
        revision, move back the holds of those who will read again, and hold what `reach` says is
        needed · 3 lock the line; Conflict unless it is at `news.after`, Refused if it is this
        home's own, or if the partner recalled or revised what was read and this home's operator
        has not agreed (nor, to a revision, the contract of the stream), and for a revision if the
        stream has several producers here or what it names is not final here · 4 end what was
        superseded, by a revision the rows that its ranges overlap and no others (S13), write what
        is live; the laws hold as for any row (S2, S3) · 5 what lies before `news.trimmed_us` and
        is not final here is lost for this home: a gap takes its place · 6 move version and
        boundary (S1). `plan` is the one under which the import is assigned.
        """

    def read_imports(self, limits: Limits) -> tuple[ImportKnowledge, ...]:
        """All that is needed to choose among the producers of each stream that has an import's
        line here (`Producer(participant, IMPORT)`), by stream; one snapshot.

        At a cost that does not grow with their history, and small where nothing is new.
        """

    def commit_choice(self, lease: Lease, chosen: ChosenRows) -> CommitResult | None:
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


class Readers(Protocol):
    """What readers of this home's streams learn of a line, and what is held for them."""

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """What a partner may see of a line after a version.

        Cut at a version where more than `segments_max` segments came; what is trimmed is no news,
        whether it is still there or not. Refused if there is no such line, or if `after` lies
        beyond it.
        """

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0, *, replica: int = 0,
                    version: Version | None = None) -> None:  # fmt: skip
        """A reader has a stream's buckets before `through_us` durably: its hold moves up to there.

        `path_ms` is what the path behind the stream costs there. The reader has them as they are in
        `version` of the line of `replica` of this home (None: which version is not known). What was
        recalled or revised since stays held until a later version is acknowledged, also if it is
        recalled or revised after this call.

        A hold never moves back; past `limit_ms` without a sign of the reader it may be ignored.
        """

    def place_hold(self, hold: Hold) -> None:
        """Keep buckets from `hold.from_us` on; the same holder and purpose moves its hold.

        What is trimmed already stays gone; `StreamStatus.trimmed_us` says how far that is.
        """

    def release_hold(self, stream: StreamName, holder: str, purpose: str) -> None:
        """Give a hold up; nothing if there is none."""

    def holds(self, stream: StreamName) -> tuple[Hold, ...]:
        """The holds on a stream, by start."""


class Recalls(Protocol):
    """Rows that an operator takes back."""

    def recall(self, request: RecallRequest, *, explain: bool = False) -> tuple[RecallResult, ...]:
        """Take back what a line has from a bucket on, and all in this home that was computed from
        it; for the owner of the home alone. In this order:

        1 may it be? Refused for another's line without `follows`, off the grid, before the origin ·
        2 move back the holds of those who will read again, and hold `needed` · 3 lock the lines of
        this home; Conflict if more was computed meanwhile · 4 Refused if a part of it, or of what
        is needed to compute it again, is trimmed (a partner's recall is followed as far as its
        copy is kept) · 5 end the rows from there on, of what was computed from it as far as it is
        kept (one that reaches over is cut), move the boundary back, begin the next generation,
        write down who and why.

        What was taken back, line by line, the requested one first. With `follows` a partner's
        recall is agreed to, which is made when its news comes; with `explain` nothing is done:
        what would be.
        """

    def revise(self, request: RevisionRequest) -> RecallResult:
        """Replace final buckets of named ranges of a source of this home; all other buckets stay as
        they are (S13). For the owner of the home, and with `late` for a driver too. In this order:

        1 the same revision made before? Its answer again · 2 may it be? Refused for a line that is
        computed or another's, and if several producers write the stream or one that is computed
        from it · 3 move back the holds of those who will read again, and hold `needed` · 4 lock the
        line; Conflict if it has another generation than the request names; Refused where it is not
        stable, off the grid, or trimmed; Conflict if a record of `late` does not wait any more,
        Refused if the buckets gain anything else than these records, or lose something, or if the
        plan in force does not say that the source revises · 5 replace the ranges under the next
        generation, write down who and why, and that the records of `late` are admitted.

        What was computed from a bucket that differs is owed then: a commit with cause `correction`
        may replace a final row whose lineage reads what was revised since, and is a revision of its
        own line.
        """

    def agree_to_revisions(self, agreement: RevisionAgreement) -> None:
        """Agree to follow the revisions of a partner's line up to a generation, none of which
        begins before `from_us`; for the owner of the home. They are followed when the news comes.

        Refused for a line of this home, and for a generation that is followed already.
        """

    def recalls(self, stream: StreamName | None = None) -> tuple[RecallResult, ...]:
        """What was taken back or revised here, of one stream if given, by line and generation."""


class Trims(Protocol):
    """How long rows are kept, and how rows and files go that are no longer needed."""

    def declare_retention(self, stream: StreamName, retention_ms: int | None) -> None:
        """How long a stream's buckets are kept after their end; None for good, as before it is
        declared. The same again is nothing, another takes its place.

        Refused if the stream is not deployed here or the time is not above 0.
        """

    def retentions(self) -> Mapping[StreamName, int]:
        """The streams that are not kept for good, by name, and for how many ms each is."""

    def trim(self, stream: StreamName, producer: Producer, before_us: int, *,
             needed: Mapping[str, int], segments_max: int,
             explain: bool = False) -> TrimResult:  # fmt: skip
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
