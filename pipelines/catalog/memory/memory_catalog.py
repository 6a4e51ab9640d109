"""The catalog in memory: the same answers, errors and waits as the one in Postgres.

For tests, and for the simulation, whose clock it takes as an argument. It is the model too: one
suite and one machine of random commands hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from medusa_core.bounds import Bound
from medusa_core.commits import (
    Cause,
    Commit,
    CommitResult,
    Hold,
    LandedBatch,
    LandedPart,
    Lease,
    LeaseKey,
    QuarantinedRecord,
    SourcePromise,
)
from medusa_core.divergence import Divergence
from medusa_core.drops.utility import Qos
from medusa_core.errors import MedusaError, Refused
from medusa_core.exchange import ImportStatus, LineNews
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.imports import ChosenRows, ImportKnowledge
from medusa_core.knowledge import Knowledge, Limits
from medusa_core.late_records import LateBucket, LateRecord
from medusa_core.line_revisions import NO_REACH, RevisionAgreement, RevisionReach
from medusa_core.loads import WINDOW_MS, LoadSample, RecordedSample
from medusa_core.market.declared import DeclaredCost
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version, check_name
from medusa_core.partitions.placing import PlacePartition
from medusa_core.recalls import RecallRequest, RecallResult
from medusa_core.revisions import RevisionRequest
from medusa_core.segments import Producer, Read, Segment, SegmentFile
from medusa_core.sinks import DeliveryState, SinkRecord
from medusa_core.states import Transition
from medusa_core.step_costs import Cost
from medusa_core.trims import TrimResult
from pipelines.catalog.memory import bounds as memory_bounds
from pipelines.catalog.memory import (
    choices,
    exchange,
    followed_revisions,
    knowledge,
    landing,
    late_records,
    loads,
    recalled,
    revisions,
    status,
    tables,
    worker_rows,
)
from pipelines.catalog.memory import commit as memory_commit
from pipelines.catalog.memory import deploy as memory_deploy
from pipelines.catalog.memory import leases as memory_leases
from pipelines.catalog.memory import lines as memory_reading
from pipelines.catalog.memory import owners as memory_owners
from pipelines.catalog.memory import recalls as memory_recalls
from pipelines.catalog.memory import sinks as memory_sinks
from pipelines.catalog.memory import trim as memory_trim
from pipelines.catalog.memory.store import Call, Clock, Store, Transaction
from pipelines.catalog.partner_records import PartnerLinks
from pipelines.catalog.records import (
    Assignment,
    Deployment,
    DroppedBuckets,
    LeaseRecord,
    LineStatus,
    OwnerLine,
    PlanRecord,
    QuarantineEntry,
    QuarantineReason,
    StepRecord,
    StreamStatus,
)
from pipelines.catalog.worker_records import PlacementRecord, WorkerRecord

READER_LIMIT_MS_MAX = 31 * 86_400_000
T = TypeVar("T")


class MemoryCatalog:
    """The roles of a catalog that are simulated, or faked in tests; Postgres alone has the others.

    Calls are transactions of their own unless a session holds one open.

    A call that would wait for a session's lock raises `Waiting`.
    """

    def __init__(self, participant: Participant, clock: Clock, store: Store | None = None) -> None:
        self._participant = participant
        self._store = store or Store(clock)
        self._open: Transaction | None = None

    @property
    def participant(self) -> Participant:
        """Whose home this is."""
        return self._participant

    def session(self) -> MemorySession:
        """A session on the same home."""
        return MemorySession(MemoryCatalog(self._participant, self._store.clock, self._store))

    def close(self) -> None:
        """Nothing to give back."""

    def run(self, call: Callable[[Transaction], T]) -> T:
        """Make a call in the transaction that a session holds open, else in one of its own."""
        is_open = self._open is not None
        with Call(self._open or Transaction(self._store), ends=not is_open) as transaction:
            return call(transaction)

    # deploying and leases

    def read_clock_ms(self) -> int:
        """The catalog's clock."""
        return self.run(lambda transaction: transaction.store.clock.now_ms)

    def deploy(self, deployment: Deployment) -> None:
        """See `Deployments.deploy`."""
        self.run(
            lambda transaction: memory_deploy.deploy(transaction, self._participant, deployment)
        )

    def declare_source(self, stream: StreamName, document: str) -> None:
        """See `Landing.declare_source`."""

        def call(transaction: Transaction) -> None:
            record = transaction.get(tables.STREAMS, stream)
            if record is None or record.kind != "source":
                raise Refused(f"{stream} is no source that is deployed here: deploy it first")
            transaction.lock_name(tables.SOURCES, stream)
            transaction.put(tables.SOURCES, stream, document)

        self.run(call)

    def sources(self) -> Mapping[StreamName, str]:
        """See `Landing.sources`."""
        return self.run(lambda transaction: dict(sorted(transaction.rows(tables.SOURCES).items())))

    def declare_retention(self, stream: StreamName, retention_ms: int | None) -> None:
        """See `Trims.declare_retention`."""
        self.run(
            lambda transaction: memory_trim.declare_retention(transaction, stream, retention_ms)
        )

    def retentions(self) -> Mapping[StreamName, int]:
        """See `Trims.retentions`."""

        def call(transaction: Transaction) -> Mapping[StreamName, int]:
            found = sorted(transaction.rows(tables.RETENTIONS).items())
            return {stream: kept_ms for stream, (kept_ms,) in found if kept_ms is not None}

        return self.run(call)

    def declare_bound(self, stream: StreamName, bound: Bound | None, lag_ms: int) -> None:
        """See `Guarantees.declare_bound`."""
        self.run(
            lambda transaction: memory_bounds.declare_bound(transaction, stream, bound, lag_ms)
        )

    def bounds(self) -> Mapping[StreamName, tuple[Bound | None, int]]:
        """See `Guarantees.bounds`."""
        return self.run(lambda transaction: memory_bounds.bounds(transaction))

    def declare_verify(self, stream: StreamName, count: int) -> None:
        """See `Guarantees.declare_verify`."""
        self.run(lambda transaction: choices.declare_verify(transaction, stream, count))

    def verifies(self) -> Mapping[StreamName, int]:
        """See `Guarantees.verifies`."""
        return self.run(lambda transaction: choices.verifies(transaction))

    def declare_qos(self, stream: StreamName, qos: Qos | None) -> None:
        """See `Guarantees.declare_qos`."""
        self.run(lambda transaction: memory_bounds.declare_qos(transaction, stream, qos))

    def qos(self) -> Mapping[StreamName, Qos]:
        """See `Guarantees.qos`."""
        return self.run(memory_bounds.qos)

    def dropped(self) -> tuple[DroppedBuckets, ...]:
        """See `Guarantees.dropped`."""
        return self.run(memory_bounds.dropped)

    def declare_following(self, stream: StreamName, follows: bool) -> None:
        """See `Guarantees.declare_following`."""
        self.run(
            lambda transaction: followed_revisions.declare_following(transaction, stream, follows)
        )

    def followings(self) -> tuple[StreamName, ...]:
        """See `Guarantees.followings`."""
        return self.run(followed_revisions.followings)

    def step_costs(self) -> Mapping[str, Cost]:
        """See `Deployments.step_costs`."""
        return self.run(lambda transaction: memory_bounds.step_costs(transaction))

    def record_transition(self, transition: Transition) -> bool:
        """See `Steps.record_transition`."""
        return self.run(
            lambda transaction: memory_bounds.record_transition(transaction, transition)
        )

    def states(self) -> tuple[Transition, ...]:
        """See `StepHistory.states`."""
        return self.run(lambda transaction: memory_bounds.states(transaction))

    def transitions(self, limit: int | None = None) -> tuple[Transition, ...]:
        """See `StepHistory.transitions`."""
        return self.run(lambda transaction: memory_bounds.transitions(transaction, limit))

    def assignments(self) -> tuple[Assignment, ...]:
        """See `Deployments.assignments`."""
        return self.run(lambda transaction: status.assignments(transaction))

    def change_owner(self, line: OwnerLine) -> None:
        """See `Owners.change_owner`."""
        self.run(
            lambda transaction: memory_owners.change_owner(transaction, self._participant, line)
        )

    def fragment_owners(self, fragment: str, partition: int = 0) -> tuple[OwnerLine, ...]:
        """See `Owners.fragment_owners`."""
        return self.run(lambda transaction: memory_owners.owners(transaction, fragment, partition))

    def stop_fragment(self, fragment: str) -> bool:
        """See `Owners.stop_fragment`."""
        return self.run(
            lambda transaction: memory_owners.stop(transaction, self._participant, fragment)
        )

    def plans(self, *, superseded: bool = False) -> tuple[PlanRecord, ...]:
        """See `Deployments.plans`."""
        return self.run(lambda transaction: status.plans(transaction, superseded=superseded))

    def acquire_lease(self, key: LeaseKey, epoch: Epoch, holder: str, ttl_ms: int) -> Lease:
        """See `Leases.acquire_lease`."""
        (lease,) = self.acquire_leases([(key, epoch)], holder, ttl_ms)
        return lease

    def acquire_leases(
        self, requests: Sequence[tuple[LeaseKey, Epoch]], holder: str, ttl_ms: int
    ) -> tuple[Lease, ...]:
        """See `Leases.acquire_leases`."""
        return self.run(
            lambda transaction: tuple(
                memory_leases.acquire(transaction, key, epoch, holder, ttl_ms)
                for key, epoch in requests
            )
        )

    def renew_lease(self, lease: Lease, ttl_ms: int) -> Lease:
        """See `Leases.renew_lease`."""
        return self.run(lambda transaction: memory_leases.renew(transaction, lease, ttl_ms))

    def release_lease(self, lease: Lease) -> None:
        """See `Leases.release_lease`."""
        self.run(lambda transaction: memory_leases.release(transaction, lease))

    def renew_leases(self, leases: Sequence[Lease], ttl_ms: int) -> tuple[Lease | MedusaError, ...]:
        """See `Leases.renew_leases`."""
        return tuple(_answer(partial(self.renew_lease, lease, ttl_ms)) for lease in leases)

    def release_leases(self, leases: Sequence[Lease]) -> None:
        """See `Leases.release_leases`."""

        def call(transaction: Transaction) -> None:
            for lease in leases:
                memory_leases.release(transaction, lease)

        self.run(call)

    def leases(self) -> tuple[LeaseRecord, ...]:
        """See `Leases.leases`."""
        return self.run(lambda transaction: status.leases(transaction))

    def report_worker(
        self, name: str, holder: str, *, busy: float, pace: float, ttl_ms: int
    ) -> None:
        """See `Placements.report_worker`."""

        def report(transaction: Transaction) -> None:
            row = tables.WorkerRow(holder, busy, pace, transaction.store.clock.now_ms + ttl_ms)
            worker_rows.report(transaction, name, row)

        self.run(report)

    def end_worker(self, name: str, holder: str) -> None:
        """See `Placements.end_worker`."""
        self.run(lambda transaction: worker_rows.end(transaction, name, holder))

    def workers(self) -> tuple[WorkerRecord, ...]:
        """See `Placements.workers`."""
        return self.run(worker_rows.workers)

    def placements(self) -> tuple[PlacementRecord, ...]:
        """See `Placements.placements`."""
        return self.run(worker_rows.placements)

    def place(self, decisions: Sequence[PlacePartition], after: int) -> bool:
        """See `Placements.place`."""
        return self.run(lambda transaction: worker_rows.place(transaction, decisions, after))

    # landing

    def land(self, lease: Lease, batch: LandedBatch) -> bool:
        """See `Landing.land`."""
        return self.run(lambda transaction: landing.land(transaction, lease, batch))

    def land_many(self, landed: Sequence[tuple[Lease, LandedBatch]]) -> bool:
        """See `Landing.land_many`."""
        return self.run(lambda transaction: landing.land_many(transaction, landed))

    def promise(self, lease: Lease, stream: StreamName, *, origin_us: int, boundary_us: int,
                end_us: int | None) -> None:  # fmt: skip
        """See `Landing.promise`."""
        self.run(
            lambda transaction: landing.promise(
                transaction,
                SourcePromise(
                    lease=lease,
                    stream=stream,
                    origin_us=origin_us,
                    boundary_us=boundary_us,
                    end_us=end_us,
                ),
            )
        )

    def promise_many(self, promises: Sequence[SourcePromise]) -> None:
        """See `Landing.promise_many`."""

        def call(transaction: Transaction) -> None:
            for promise in sorted(promises, key=lambda p: p.lease.key.fragment):
                landing.promise(transaction, promise)

        self.run(call)

    def landed_files(self, stream: StreamName, part: Range) -> tuple[SegmentFile, ...]:
        """See `LandedFiles.landed_files`."""

        (parts,) = self.landed_parts([(stream, part)])
        return tuple(landed.file for landed in parts)

    def landed_parts(
        self, parts: Sequence[tuple[StreamName, Range]]
    ) -> tuple[tuple[LandedPart, ...], ...]:
        """See `LandedFiles.landed_parts`."""
        return self.run(lambda t: tuple(landing.landed_parts(t, *part) for part in parts))

    def landed_batches(self, stream: StreamName, query_id: str) -> Mapping[int, int]:
        """See `LandedFiles.landed_batches`."""
        return self.run(lambda transaction: landing.landed_batches(transaction, stream, query_id))

    def late_buckets(
        self, streams: Sequence[StreamName]
    ) -> Mapping[StreamName, tuple[LateBucket, ...]]:
        """See `LateRecords.late_buckets`."""
        return self.run(lambda transaction: late_records.late_buckets(transaction, streams))

    def late_records(self, stream: StreamName, buckets: Sequence[int]) -> tuple[LateRecord, ...]:
        """See `LateRecords.late_records`."""
        return self.run(lambda transaction: late_records.late_records(transaction, stream, buckets))

    def landed_state(self, stream: StreamName, query_id: str) -> tuple[int, str | None] | None:
        """See `Landing.landed_state`."""

        def call(transaction: Transaction) -> tuple[int, str | None] | None:
            found = {
                batch_id: batch.state
                for (name, query, batch_id), batch in transaction.rows(tables.BATCHES).items()
                if (name, query) == (stream, query_id)
            }
            return (max(found), found[max(found)]) if found else None

        return self.run(call)

    def landed_states(
        self, streams: Sequence[StreamName], query_id: str
    ) -> Mapping[StreamName, tuple[int, str | None]]:
        """See `Landing.landed_states`."""
        found = {stream: self.landed_state(stream, query_id) for stream in streams}
        return {stream: state for stream, state in found.items() if state is not None}

    def landed_queries(self, stream: StreamName) -> tuple[str, ...]:
        """See `LandedFiles.landed_queries`."""

        def call(transaction: Transaction) -> tuple[str, ...]:
            found = {query for name, query, _ in transaction.rows(tables.BATCHES) if name == stream}
            return tuple(sorted(found))

        return self.run(call)

    def landed_extent(self, stream: StreamName) -> tuple[int, int] | None:
        """See `Landing.landed_extent`."""

        def call(transaction: Transaction) -> tuple[int, int] | None:
            starts = [
                at_us
                for (name, _, _), batch in transaction.rows(tables.BATCHES).items()
                if name == stream
                for at_us in batch.counts
            ]
            return (min(starts), max(starts)) if starts else None

        return self.run(call)

    def landed_extents(self, streams: Sequence[StreamName]) -> Mapping[StreamName, tuple[int, int]]:
        """See `Landing.landed_extents`."""
        found = {stream: self.landed_extent(stream) for stream in streams}
        return {stream: extent for stream, extent in found.items() if extent is not None}

    # committing

    def commit(self, commit: Commit) -> CommitResult:
        """See `Steps.commit`."""
        return self.run(lambda transaction: memory_commit.commit_step(transaction, commit))

    def commit_many(self, commits: Sequence[Commit]) -> tuple[CommitResult | MedusaError, ...]:
        """See `Steps.commit_many`."""
        return tuple(_answer(partial(self.commit, commit)) for commit in commits)

    # reading

    def read_knowledge(self, fragments: Mapping[str, Fragment], limits: Limits) -> Knowledge:
        """See `Deployments.read_knowledge`."""
        return self.run(
            lambda transaction: knowledge.read_knowledge(
                transaction, self._participant, fragments, limits
            )
        )

    def segments(self, stream: StreamName, part: Range | None = None, *,
                 producer: Producer | None = None,
                 as_of: Version | None = None) -> tuple[Segment, ...]:  # fmt: skip
        """See `Lines.segments`."""

        def call(transaction: Transaction) -> tuple[Segment, ...]:
            rows = memory_reading.segment_rows(transaction, stream, part, producer, as_of)
            return tuple(row.segment for row in rows)

        return self.run(call)

    def lineage(self, segment: Segment) -> tuple[Read, ...]:
        """See `StepHistory.lineage`."""

        def call(transaction: Transaction) -> tuple[Read, ...]:
            line = transaction.get(tables.LINES, (segment.stream, segment.producer))
            for row in (*line.live, *line.superseded) if line else ():
                same = row.segment.version == segment.version
                if same and row.segment.range.overlaps(segment.range):
                    return memory_reading.lineage_of(transaction, row)
            return ()

        return self.run(call)

    def lines(self, stream: StreamName | None = None) -> tuple[LineStatus, ...]:
        """See `Lines.lines`."""
        return self.run(lambda transaction: memory_reading.line_statuses(transaction, stream))

    def streams(self) -> tuple[StreamStatus, ...]:
        """See `Lines.streams`."""
        return self.run(lambda transaction: memory_reading.stream_statuses(transaction))

    def steps(self, limit: int | None = None) -> tuple[StepRecord, ...]:
        """See `StepHistory.steps`."""

        def call(transaction: Transaction) -> tuple[StepRecord, ...]:
            made = sorted(transaction.rows(tables.COMMITS).values(), key=lambda row: row.number)
            if limit is not None:
                made = made[max(len(made) - limit, 0) :]
            return tuple(memory_reading.step_of(row) for row in made)

        return self.run(call)

    def step_counts(self) -> Mapping[Cause, int]:
        """See `StepHistory.step_counts`."""
        return self.run(lambda transaction: status.step_counts(transaction))

    def quarantined(self, limit: int | None = None) -> tuple[QuarantinedRecord, ...]:
        """See `Quarantine.quarantined`."""

        def call(transaction: Transaction) -> tuple[QuarantinedRecord, ...]:
            rows = sorted(transaction.rows(tables.QUARANTINE).items(), key=lambda item: item[0])
            return tuple(record for _, record in rows[:limit])

        return self.run(call)

    def quarantine_entries(
        self, stream: StreamName | None = None, *, after: int = 0,
        numbers: Sequence[int] | None = None, limit: int | None = None,
    ) -> tuple[QuarantineEntry, ...]:  # fmt: skip
        """See `Quarantine.quarantine_entries`."""

        def call(transaction: Transaction) -> tuple[QuarantineEntry, ...]:
            found = sorted(transaction.rows(tables.QUARANTINE).items(), key=lambda item: item[0])
            return tuple(
                QuarantineEntry(
                    number=number, record=record, landed_as=transaction.get(tables.RETRIES, number)
                )
                for number, record in found
                if stream in (None, record.stream, *record.outputs)
                and number > after
                and (numbers is None or number in numbers)
            )[:limit]

        return self.run(call)

    def quarantine_count(self, stream: StreamName | None = None) -> int:
        """See `Quarantine.quarantine_count`."""

        def call(transaction: Transaction) -> int:
            records = transaction.rows(tables.QUARANTINE).values()
            return sum(stream in (None, record.stream, *record.outputs) for record in records)

        return self.run(call)

    def quarantine_reasons(self, limit: int | None = None) -> tuple[QuarantineReason, ...]:
        """See `Quarantine.quarantine_reasons`."""
        return self.run(lambda transaction: status.quarantine_reasons(transaction, limit))

    # load

    def record_load(self, sample: LoadSample) -> bool:
        """See `LoadLog.record_load`."""
        return self.run(lambda transaction: loads.record(transaction, sample))

    def links(self) -> tuple[PartnerLinks, ...]:
        """None: in memory no partner is reached over a network."""
        return ()

    def loads_since(self, window_ms: int = WINDOW_MS) -> tuple[RecordedSample, ...]:
        """See `LoadLog.loads_since`."""
        return self.run(lambda transaction: loads.since(transaction, window_ms))

    def declared_cost(self) -> DeclaredCost | None:
        """See `LoadLog.declared_cost`."""
        return self.run(lambda transaction: loads.declared_cost(transaction))

    def declare_cost(self, declared: DeclaredCost) -> None:
        """What the owner does by SQL in Postgres."""
        self.run(lambda transaction: loads.declare(transaction, declared))

    # the exchange

    def imports(self) -> tuple[ImportStatus, ...]:
        """See `Imports.imports`."""
        return self.run(lambda transaction: exchange.imports(transaction, self._participant))

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Readers.line_news`."""
        return self.run(
            lambda transaction: exchange.line_news(
                transaction, stream, producer, after, segments_max
            )
        )

    def import_line(self, lease: Lease, news: LineNews, plan: PlanId,
                    reach: RevisionReach = NO_REACH) -> bool:  # fmt: skip
        """See `Imports.import_line`."""
        return self.run(
            lambda transaction: exchange.import_line(
                transaction, self._participant, lease, news, plan, reach
            )
        )

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0, *, replica: int = 0,
                    version: Version | None = None) -> None:  # fmt: skip
        """See `Readers.acknowledge`."""
        check_name("reader", reader)

        def call(transaction: Transaction) -> None:
            if transaction.get(tables.STREAMS, stream) is None:
                raise Refused(f"stream {stream} is not deployed here: acknowledge one that is")
            if not 1 <= limit_ms <= READER_LIMIT_MS_MAX:
                raise Refused(f"a reader holds for 1 ms to 31 days, not for {limit_ms} ms")
            if not 0 <= path_ms <= READER_LIMIT_MS_MAX:
                raise Refused(f"a path costs 0 ms to 31 days, not {path_ms} ms")
            of, until_us = (stream, Producer(self.participant, replica)), through_us
            if version is not None:
                line = transaction.get(tables.LINES, of)
                if line is None or not 0 <= version <= line.version:
                    raise Refused(f"replica {replica} of stream {stream} has no version {version}")
                since = recalled.recalls_after(transaction, of, version)
                until_us = min([through_us, *(recall.from_us for recall in since)])
            if until_us > memory_reading.reached_us(transaction, stream):
                raise Refused(f"stream {stream} does not reach to {until_us} yet")
            transaction.share_name(tables.ORDERS, stream)
            transaction.lock_name(tables.HOLDS, (stream, str(reader), "import"))
            current = transaction.get(tables.HOLDS, (stream, str(reader), "import"))
            from_us = max(until_us, current.hold.from_us) if current else until_us
            hold = Hold(stream=stream, holder=reader, purpose="import", from_us=from_us,
                        limit_ms=limit_ms, path_ms=path_ms)  # fmt: skip
            memory_trim.place_hold(transaction, hold)
            if version is not None:
                memory_trim.note_version(transaction, hold, replica, version)

        self.run(call)

    # several producers of one stream

    def read_imports(self, limits: Limits) -> tuple[ImportKnowledge, ...]:
        """See `Imports.read_imports`."""
        return self.run(
            lambda transaction: choices.read_imports(transaction, self._participant, limits)
        )

    def commit_choice(self, lease: Lease, chosen: ChosenRows) -> CommitResult | None:
        """See `Imports.commit_choice`."""
        return self.run(lambda transaction: choices.commit_choice(transaction, lease, chosen))

    def divergences(self, stream: StreamName | None = None) -> tuple[Divergence, ...]:
        """See `Imports.divergences`."""
        return self.run(lambda transaction: choices.divergences(transaction, stream))

    def disputed(self) -> Mapping[StreamName, int]:
        """See `Imports.disputed`."""
        return self.run(lambda transaction: choices.disputed(transaction))

    # recalls

    def recall(self, request: RecallRequest, *, explain: bool = False) -> tuple[RecallResult, ...]:
        """See `Recalls.recall`."""

        def call(transaction: Transaction) -> tuple[RecallResult, ...]:
            before = {name: dict(rows) for name, rows in transaction.changes.items()}
            results = memory_recalls.recall(transaction, self._participant, request)
            if explain:
                transaction.changes = before
            return results

        return self.run(call)

    def revise(self, request: RevisionRequest) -> RecallResult:
        """See `Recalls.revise`."""
        return self.run(
            lambda transaction: revisions.revise(transaction, self._participant, request)
        )

    def agree_to_revisions(self, agreement: RevisionAgreement) -> None:
        """See `Recalls.agree_to_revisions`."""
        self.run(
            lambda transaction: followed_revisions.agree_to_revisions(
                transaction, self._participant, agreement
            )
        )

    def recalls(self, stream: StreamName | None = None) -> tuple[RecallResult, ...]:
        """See `Recalls.recalls`."""
        return self.run(lambda transaction: recalled.recalls(transaction, stream))

    # holds

    def place_hold(self, hold: Hold) -> None:
        """See `Readers.place_hold`."""
        self.run(lambda transaction: memory_trim.place_hold(transaction, hold))

    def release_hold(self, stream: StreamName, holder: str, purpose: str) -> None:
        """See `Readers.release_hold`."""

        def call(transaction: Transaction) -> None:
            if transaction.lock_row(tables.HOLDS, (stream, holder, purpose)) is not None:
                transaction.remove(tables.HOLDS, (stream, holder, purpose))

        self.run(call)

    def holds(self, stream: StreamName) -> tuple[Hold, ...]:
        """See `Readers.holds`."""

        def call(transaction: Transaction) -> tuple[Hold, ...]:
            rows = transaction.rows(tables.HOLDS).values()
            found = [row.hold for row in rows if row.hold.stream == stream]
            return tuple(sorted(found, key=lambda h: (h.from_us, h.holder, h.purpose)))

        return self.run(call)

    # sinks

    def declare_sink(self, stream: StreamName, name: str, document: str, *, from_us: int,
                     through_us: int | None, limit_ms: int) -> None:  # fmt: skip
        """See `Sinks.declare_sink`."""
        self.run(
            lambda transaction: memory_sinks.declare_sink(
                transaction, stream, name, document, from_us, through_us, limit_ms
            )
        )

    def withdraw_sink(self, stream: StreamName, name: str) -> None:
        """See `Sinks.withdraw_sink`."""
        self.run(lambda transaction: memory_sinks.withdraw_sink(transaction, stream, name))

    def sinks(self) -> tuple[SinkRecord, ...]:
        """See `Sinks.sinks`."""
        return self.run(
            lambda transaction: tuple(
                row for _, row in sorted(transaction.rows(tables.SINKS).items())
            )
        )

    def record_delivery(self, sink: SinkRecord, delivered: DeliveryState, limit_ms: int) -> None:
        """See `Sinks.record_delivery`."""
        self.run(
            lambda transaction: memory_sinks.record_delivery(transaction, sink, delivered, limit_ms)
        )

    def record_sink_problem(self, sink: SinkRecord, problem: str | None) -> None:
        """See `Sinks.record_sink_problem`."""
        self.run(lambda transaction: memory_sinks.record_sink_problem(transaction, sink, problem))

    # trimming

    def trim(self, stream: StreamName, producer: Producer, before_us: int, *,
             needed: Mapping[str, int], segments_max: int,
             explain: bool = False) -> TrimResult:  # fmt: skip
        """See `Trims.trim`."""

        def call(transaction: Transaction) -> TrimResult:
            before = {name: dict(rows) for name, rows in transaction.changes.items()}
            answer = memory_trim.trim(
                transaction, self._participant, stream, producer, before_us, needed, segments_max
            )
            if explain:
                transaction.changes = before
            return answer

        return self.run(call)

    def compact(self, stream: StreamName, producer: Producer, segments: Sequence[Segment],
                file: SegmentFile) -> tuple[SegmentFile, ...]:  # fmt: skip
        """See `Trims.compact`."""
        return self.run(
            lambda transaction: memory_trim.compact(transaction, stream, producer, segments, file)
        )

    def named_files(self, paths: Collection[str]) -> frozenset[str]:
        """See `Trims.named_files`."""
        return self.run(
            lambda transaction: frozenset(
                path for path in paths if transaction.get(tables.FILES, path) is not None
            )
        )


def _answer(call: Callable[[], T]) -> T | MedusaError:
    """What one of several calls answers, or is refused with."""
    try:
        return call()
    except MedusaError as error:
        return error


class MemorySession:
    """A `Session`: its catalog's calls are in one transaction between `begin` and `end`."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog = catalog

    @property
    def catalog(self) -> MemoryCatalog:
        """The catalog's calls, made inside this session."""
        return self._catalog

    def begin(self, *, snapshot: bool = False) -> None:
        """Open a transaction; a snapshot is taken now."""
        store = self._catalog._store
        assert self._catalog._open is None, "one transaction at a time"
        self._catalog._open = Transaction(store, store.committed if snapshot else None)

    def end(self, *, keep: bool) -> None:
        """COMMIT (`keep`) or ROLLBACK."""
        transaction, self._catalog._open = self._catalog._open, None
        assert transaction is not None, "no transaction is open"
        transaction.end(keep=keep)

    def close(self) -> None:
        """Forget what is open."""
        if self._catalog._open is not None:
            self.end(keep=False)
