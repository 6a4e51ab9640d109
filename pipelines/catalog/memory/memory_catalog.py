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
    Committed,
    Hold,
    LandedBatch,
    Lease,
    LeaseKey,
    QuarantinedRecord,
    SourcePromise,
)
from medusa_core.divergence import Divergence
from medusa_core.errors import MedusaError, Refused
from medusa_core.exchange import ImportStanding, LineNews
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.imports import ChosenRows, ImportKnowledge
from medusa_core.knowledge import Knowledge, Limits
from medusa_core.loads import WINDOW_MS, LoadSample, Recorded
from medusa_core.market.declared import DeclaredCost
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version, check_name
from medusa_core.recalls import Recalled, RecallWanted
from medusa_core.segments import Producer, Read, Segment, SegmentFile
from medusa_core.sinks import Delivered, SinkRecord
from medusa_core.states import Transition
from medusa_core.step_costs import Cost
from medusa_core.trims import Trimmed
from pipelines.catalog.memory import bounds as memory_bounds
from pipelines.catalog.memory import (
    choices,
    exchange,
    knowledge,
    landing,
    loads,
    recalled,
    status,
    tables,
)
from pipelines.catalog.memory import commit as memory_commit
from pipelines.catalog.memory import deploy as memory_deploy
from pipelines.catalog.memory import leases as memory_leases
from pipelines.catalog.memory import lines as memory_reading
from pipelines.catalog.memory import recalls as memory_recalls
from pipelines.catalog.memory import sinks as memory_sinks
from pipelines.catalog.memory import trim as memory_trim
from pipelines.catalog.memory.store import Call, Clock, Store, Transaction
from pipelines.catalog.records import (
    Assignment,
    Deployment,
    LeaseRecord,
    LineStatus,
    PlanRecord,
    QuarantineEntry,
    QuarantineReason,
    StepRecord,
    StreamStatus,
)

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
        with Call(self._open or Transaction(self._store), ends=not is_open) as work:
            return call(work)

    # deploying and leases

    def read_clock_ms(self) -> int:
        """The catalog's clock."""
        return self.run(lambda work: work.store.clock.now_ms)

    def deploy(self, deployment: Deployment) -> None:
        """See `Deployments.deploy`."""
        self.run(lambda work: memory_deploy.deploy(work, self._participant, deployment))

    def declare_source(self, stream: StreamName, document: str) -> None:
        """See `Landing.declare_source`."""

        def call(work: Transaction) -> None:
            record = work.get(tables.STREAMS, stream)
            if record is None or record.kind != "source":
                raise Refused(f"{stream} is no source that is deployed here: deploy it first")
            work.lock_name(tables.SOURCES, stream)
            work.put(tables.SOURCES, stream, document)

        self.run(call)

    def sources(self) -> Mapping[StreamName, str]:
        """See `Landing.sources`."""
        return self.run(lambda work: dict(sorted(work.rows(tables.SOURCES).items())))

    def declare_retention(self, stream: StreamName, retention_ms: int | None) -> None:
        """See `Trims.declare_retention`."""
        self.run(lambda work: memory_trim.declare_retention(work, stream, retention_ms))

    def retentions(self) -> Mapping[StreamName, int]:
        """See `Trims.retentions`."""

        def call(work: Transaction) -> Mapping[StreamName, int]:
            found = sorted(work.rows(tables.RETENTIONS).items())
            return {stream: kept_ms for stream, (kept_ms,) in found if kept_ms is not None}

        return self.run(call)

    def declare_bound(self, stream: StreamName, bound: Bound | None, lag_ms: int) -> None:
        """See `Guarantees.declare_bound`."""
        self.run(lambda work: memory_bounds.declare_bound(work, stream, bound, lag_ms))

    def bounds(self) -> Mapping[StreamName, tuple[Bound | None, int]]:
        """See `Guarantees.bounds`."""
        return self.run(lambda work: memory_bounds.bounds(work))

    def declare_verify(self, stream: StreamName, count: int) -> None:
        """See `Guarantees.declare_verify`."""
        self.run(lambda work: choices.declare_verify(work, stream, count))

    def verifies(self) -> Mapping[StreamName, int]:
        """See `Guarantees.verifies`."""
        return self.run(lambda work: choices.verifies(work))

    def step_costs(self) -> Mapping[str, Cost]:
        """See `Deployments.step_costs`."""
        return self.run(lambda work: memory_bounds.step_costs(work))

    def record_transition(self, transition: Transition) -> bool:
        """See `Steps.record_transition`."""
        return self.run(lambda work: memory_bounds.record_transition(work, transition))

    def states(self) -> tuple[Transition, ...]:
        """See `StepHistory.states`."""
        return self.run(lambda work: memory_bounds.states(work))

    def transitions(self, limit: int | None = None) -> tuple[Transition, ...]:
        """See `StepHistory.transitions`."""
        return self.run(lambda work: memory_bounds.transitions(work, limit))

    def assignments(self) -> tuple[Assignment, ...]:
        """See `Deployments.assignments`."""
        return self.run(lambda work: status.assignments(work))

    def plans(self, *, superseded: bool = False) -> tuple[PlanRecord, ...]:
        """See `Deployments.plans`."""
        return self.run(lambda work: status.plans(work, superseded=superseded))

    def acquire_lease(self, key: LeaseKey, epoch: Epoch, holder: str, ttl_ms: int) -> Lease:
        """See `Leases.acquire_lease`."""
        (lease,) = self.acquire_leases([(key, epoch)], holder, ttl_ms)
        return lease

    def acquire_leases(
        self, wanted: Sequence[tuple[LeaseKey, Epoch]], holder: str, ttl_ms: int
    ) -> tuple[Lease, ...]:
        """See `Leases.acquire_leases`."""
        return self.run(
            lambda work: tuple(
                memory_leases.acquire(work, key, epoch, holder, ttl_ms) for key, epoch in wanted
            )
        )

    def renew_lease(self, lease: Lease, ttl_ms: int) -> Lease:
        """See `Leases.renew_lease`."""
        return self.run(lambda work: memory_leases.renew(work, lease, ttl_ms))

    def release_lease(self, lease: Lease) -> None:
        """See `Leases.release_lease`."""
        self.run(lambda work: memory_leases.release(work, lease))

    def renew_leases(self, leases: Sequence[Lease], ttl_ms: int) -> tuple[Lease | MedusaError, ...]:
        """See `Leases.renew_leases`."""
        return tuple(_answer(partial(self.renew_lease, lease, ttl_ms)) for lease in leases)

    def release_leases(self, leases: Sequence[Lease]) -> None:
        """See `Leases.release_leases`."""

        def call(work: Transaction) -> None:
            for lease in leases:
                memory_leases.release(work, lease)

        self.run(call)

    def leases(self) -> tuple[LeaseRecord, ...]:
        """See `Leases.leases`."""
        return self.run(lambda work: status.leases(work))

    # landing

    def land(self, lease: Lease, batch: LandedBatch) -> bool:
        """See `Landing.land`."""
        return self.run(lambda work: landing.land(work, lease, batch))

    def land_many(self, landed: Sequence[tuple[Lease, LandedBatch]]) -> bool:
        """See `Landing.land_many`."""
        return self.run(lambda work: landing.land_many(work, landed))

    def promise(self, lease: Lease, stream: StreamName, *, origin_us: int, boundary_us: int,
                end_us: int | None) -> None:  # fmt: skip
        """See `Landing.promise`."""
        self.run(
            lambda work: landing.promise(
                work,
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

        def call(work: Transaction) -> None:
            for promise in sorted(promises, key=lambda p: p.lease.key.fragment):
                landing.promise(work, promise)

        self.run(call)

    def landed_files(self, stream: StreamName, part: Range) -> tuple[SegmentFile, ...]:
        """See `LandedFiles.landed_files`."""

        def call(work: Transaction) -> tuple[SegmentFile, ...]:
            record = work.get(tables.STREAMS, stream)
            width_us = record.width_us if record else 0
            batches = [
                batch
                for (name, _, _), batch in work.rows(tables.BATCHES).items()
                if name == stream
                and any(part.from_us - width_us < at < part.to_us for at in batch.counts)
            ]
            return tuple(b.file for b in sorted(batches, key=lambda b: b.number) if b.file)

        return self.run(call)

    def landed_files_of(
        self, parts: Sequence[tuple[StreamName, Range]]
    ) -> tuple[tuple[SegmentFile, ...], ...]:
        """See `LandedFiles.landed_files_of`."""
        return tuple(self.landed_files(stream, part) for stream, part in parts)

    def landed_batches(self, stream: StreamName, query_id: str) -> Mapping[int, int]:
        """See `LandedFiles.landed_batches`."""
        return self.run(lambda work: landing.landed_batches(work, stream, query_id))

    def landed_state(self, stream: StreamName, query_id: str) -> tuple[int, str | None] | None:
        """See `Landing.landed_state`."""

        def call(work: Transaction) -> tuple[int, str | None] | None:
            found = {
                batch_id: batch.state
                for (name, query, batch_id), batch in work.rows(tables.BATCHES).items()
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

        def call(work: Transaction) -> tuple[str, ...]:
            found = {query for name, query, _ in work.rows(tables.BATCHES) if name == stream}
            return tuple(sorted(found))

        return self.run(call)

    def landed_extent(self, stream: StreamName) -> tuple[int, int] | None:
        """See `Landing.landed_extent`."""

        def call(work: Transaction) -> tuple[int, int] | None:
            starts = [
                at_us
                for (name, _, _), batch in work.rows(tables.BATCHES).items()
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

    def commit(self, commit: Commit) -> Committed:
        """See `Steps.commit`."""
        return self.run(lambda work: memory_commit.commit_step(work, commit))

    def commit_many(self, commits: Sequence[Commit]) -> tuple[Committed | MedusaError, ...]:
        """See `Steps.commit_many`."""
        return tuple(_answer(partial(self.commit, commit)) for commit in commits)

    # reading

    def read_knowledge(self, fragments: Mapping[str, Fragment], limits: Limits) -> Knowledge:
        """See `Deployments.read_knowledge`."""
        return self.run(
            lambda work: knowledge.read_knowledge(work, self._participant, fragments, limits)
        )

    def segments(self, stream: StreamName, part: Range | None = None, *,
                 producer: Producer | None = None,
                 as_of: Version | None = None) -> tuple[Segment, ...]:  # fmt: skip
        """See `Lines.segments`."""

        def call(work: Transaction) -> tuple[Segment, ...]:
            rows = memory_reading.segment_rows(work, stream, part, producer, as_of)
            return tuple(row.segment for row in rows)

        return self.run(call)

    def lineage(self, segment: Segment) -> tuple[Read, ...]:
        """See `StepHistory.lineage`."""

        def call(work: Transaction) -> tuple[Read, ...]:
            line = work.get(tables.LINES, (segment.stream, segment.producer))
            for row in (*line.live, *line.superseded) if line else ():
                same = row.segment.version == segment.version
                if same and row.segment.range.overlaps(segment.range):
                    return memory_reading.lineage_of(work, row)
            return ()

        return self.run(call)

    def lines(self, stream: StreamName | None = None) -> tuple[LineStatus, ...]:
        """See `Lines.lines`."""
        return self.run(lambda work: memory_reading.line_statuses(work, stream))

    def streams(self) -> tuple[StreamStatus, ...]:
        """See `Lines.streams`."""
        return self.run(lambda work: memory_reading.stream_statuses(work))

    def steps(self, limit: int | None = None) -> tuple[StepRecord, ...]:
        """See `StepHistory.steps`."""

        def call(work: Transaction) -> tuple[StepRecord, ...]:
            made = sorted(work.rows(tables.COMMITS).values(), key=lambda row: row.number)
            if limit is not None:
                made = made[max(len(made) - limit, 0) :]
            return tuple(memory_reading.step_of(row) for row in made)

        return self.run(call)

    def step_counts(self) -> Mapping[Cause, int]:
        """See `StepHistory.step_counts`."""
        return self.run(lambda work: status.step_counts(work))

    def quarantined(self, limit: int | None = None) -> tuple[QuarantinedRecord, ...]:
        """See `Quarantine.quarantined`."""

        def call(work: Transaction) -> tuple[QuarantinedRecord, ...]:
            rows = sorted(work.rows(tables.QUARANTINE).items(), key=lambda item: item[0])
            return tuple(record for _, record in rows[:limit])

        return self.run(call)

    def quarantine_entries(
        self, stream: StreamName | None = None, *, after: int = 0,
        numbers: Sequence[int] | None = None, limit: int | None = None,
    ) -> tuple[QuarantineEntry, ...]:  # fmt: skip
        """See `Quarantine.quarantine_entries`."""

        def call(work: Transaction) -> tuple[QuarantineEntry, ...]:
            found = sorted(work.rows(tables.QUARANTINE).items(), key=lambda item: item[0])
            return tuple(
                QuarantineEntry(
                    number=number, record=record, landed_as=work.get(tables.RETRIES, number)
                )
                for number, record in found
                if stream in (None, record.stream)
                and number > after
                and (numbers is None or number in numbers)
            )[:limit]

        return self.run(call)

    def quarantine_count(self, stream: StreamName | None = None) -> int:
        """See `Quarantine.quarantine_count`."""

        def call(work: Transaction) -> int:
            records = work.rows(tables.QUARANTINE).values()
            return sum(stream in (None, record.stream) for record in records)

        return self.run(call)

    def quarantine_reasons(self, limit: int | None = None) -> tuple[QuarantineReason, ...]:
        """See `Quarantine.quarantine_reasons`."""
        return self.run(lambda work: status.quarantine_reasons(work, limit))

    # load

    def record_load(self, sample: LoadSample) -> bool:
        """See `LoadLog.record_load`."""
        return self.run(lambda work: loads.record(work, sample))

    def loads_since(self, window_ms: int = WINDOW_MS) -> tuple[Recorded, ...]:
        """See `LoadLog.loads_since`."""
        return self.run(lambda work: loads.since(work, window_ms))

    def declared_cost(self) -> DeclaredCost | None:
        """See `LoadLog.declared_cost`."""
        return self.run(lambda work: loads.declared_cost(work))

    def declare_cost(self, declared: DeclaredCost) -> None:
        """What the owner does by SQL in Postgres."""
        self.run(lambda work: loads.declare(work, declared))

    # the exchange

    def imports(self) -> tuple[ImportStanding, ...]:
        """See `Imports.imports`."""
        return self.run(lambda work: exchange.imports(work, self._participant))

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Readers.line_news`."""
        return self.run(
            lambda work: exchange.line_news(work, stream, producer, after, segments_max)
        )

    def import_line(self, lease: Lease, news: LineNews, plan: PlanId) -> bool:
        """See `Imports.import_line`."""
        return self.run(
            lambda work: exchange.import_line(work, self._participant, lease, news, plan)
        )

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0) -> None:  # fmt: skip
        """See `Readers.acknowledge`."""
        check_name("reader", reader)

        def call(work: Transaction) -> None:
            if work.get(tables.STREAMS, stream) is None:
                raise Refused(f"stream {stream} is not deployed here: acknowledge one that is")
            if not 1 <= limit_ms <= READER_LIMIT_MS_MAX:
                raise Refused(f"a reader holds for 1 ms to 31 days, not for {limit_ms} ms")
            if not 0 <= path_ms <= READER_LIMIT_MS_MAX:
                raise Refused(f"a path costs 0 ms to 31 days, not {path_ms} ms")
            if through_us > memory_reading.reached_us(work, stream):
                raise Refused(f"stream {stream} does not reach to {through_us} yet")
            work.share_name(tables.ORDERS, stream)
            work.lock_name(tables.HOLDS, (stream, str(reader), "import"))
            stands = work.get(tables.HOLDS, (stream, str(reader), "import"))
            from_us = max(through_us, stands.hold.from_us) if stands else through_us
            hold = Hold(stream=stream, holder=reader, purpose="import", from_us=from_us,
                        limit_ms=limit_ms, path_ms=path_ms)  # fmt: skip
            memory_trim.place_hold(work, hold)

        self.run(call)

    # several producers of one stream

    def read_imports(self, limits: Limits) -> tuple[ImportKnowledge, ...]:
        """See `Imports.read_imports`."""
        return self.run(lambda work: choices.read_imports(work, self._participant, limits))

    def commit_choice(self, lease: Lease, chosen: ChosenRows) -> Committed | None:
        """See `Imports.commit_choice`."""
        return self.run(lambda work: choices.commit_choice(work, lease, chosen))

    def divergences(self, stream: StreamName | None = None) -> tuple[Divergence, ...]:
        """See `Imports.divergences`."""
        return self.run(lambda work: choices.divergences(work, stream))

    def disputed(self) -> Mapping[StreamName, int]:
        """See `Imports.disputed`."""
        return self.run(lambda work: choices.disputed(work))

    # recalls

    def recall(self, wanted: RecallWanted, *, explain: bool = False) -> tuple[Recalled, ...]:
        """See `Recalls.recall`."""

        def call(work: Transaction) -> tuple[Recalled, ...]:
            before = {name: dict(rows) for name, rows in work.changes.items()}
            told = memory_recalls.recall(work, self._participant, wanted)
            if explain:
                work.changes = before
            return told

        return self.run(call)

    def recalls(self, stream: StreamName | None = None) -> tuple[Recalled, ...]:
        """See `Recalls.recalls`."""
        return self.run(lambda work: recalled.recalls(work, stream))

    # holds

    def place_hold(self, hold: Hold) -> None:
        """See `Readers.place_hold`."""
        self.run(lambda work: memory_trim.place_hold(work, hold))

    def release_hold(self, stream: StreamName, holder: str, purpose: str) -> None:
        """See `Readers.release_hold`."""

        def call(work: Transaction) -> None:
            if work.lock_row(tables.HOLDS, (stream, holder, purpose)) is not None:
                work.remove(tables.HOLDS, (stream, holder, purpose))

        self.run(call)

    def holds(self, stream: StreamName) -> tuple[Hold, ...]:
        """See `Readers.holds`."""

        def call(work: Transaction) -> tuple[Hold, ...]:
            rows = work.rows(tables.HOLDS).values()
            found = [row.hold for row in rows if row.hold.stream == stream]
            return tuple(sorted(found, key=lambda h: (h.from_us, h.holder, h.purpose)))

        return self.run(call)

    # sinks

    def declare_sink(self, stream: StreamName, name: str, document: str, *, from_us: int,
                     through_us: int | None, limit_ms: int) -> None:  # fmt: skip
        """See `Sinks.declare_sink`."""
        self.run(
            lambda work: memory_sinks.declare_sink(
                work, stream, name, document, from_us, through_us, limit_ms
            )
        )

    def withdraw_sink(self, stream: StreamName, name: str) -> None:
        """See `Sinks.withdraw_sink`."""
        self.run(lambda work: memory_sinks.withdraw_sink(work, stream, name))

    def sinks(self) -> tuple[SinkRecord, ...]:
        """See `Sinks.sinks`."""
        return self.run(
            lambda work: tuple(row for _, row in sorted(work.rows(tables.SINKS).items()))
        )

    def record_delivery(self, sink: SinkRecord, delivered: Delivered, limit_ms: int) -> None:
        """See `Sinks.record_delivery`."""
        self.run(lambda work: memory_sinks.record_delivery(work, sink, delivered, limit_ms))

    def record_sink_problem(self, sink: SinkRecord, problem: str | None) -> None:
        """See `Sinks.record_sink_problem`."""
        self.run(lambda work: memory_sinks.record_sink_problem(work, sink, problem))

    # trimming

    def trim(self, stream: StreamName, producer: Producer, before_us: int, *,
             needed: Mapping[str, int], segments_max: int,
             explain: bool = False) -> Trimmed:  # fmt: skip
        """See `Trims.trim`."""

        def call(work: Transaction) -> Trimmed:
            before = {name: dict(rows) for name, rows in work.changes.items()}
            answer = memory_trim.trim(
                work, self._participant, stream, producer, before_us, needed, segments_max
            )
            if explain:
                work.changes = before
            return answer

        return self.run(call)

    def compact(self, stream: StreamName, producer: Producer, segments: Sequence[Segment],
                file: SegmentFile) -> tuple[SegmentFile, ...]:  # fmt: skip
        """See `Trims.compact`."""
        return self.run(lambda work: memory_trim.compact(work, stream, producer, segments, file))

    def named_files(self, paths: Collection[str]) -> frozenset[str]:
        """See `Trims.named_files`."""
        return self.run(
            lambda work: frozenset(
                path for path in paths if work.get(tables.FILES, path) is not None
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
        work, self._catalog._open = self._catalog._open, None
        assert work is not None, "no transaction is open"
        work.end(keep=keep)

    def close(self) -> None:
        """Forget what is open."""
        if self._catalog._open is not None:
            self.end(keep=False)
