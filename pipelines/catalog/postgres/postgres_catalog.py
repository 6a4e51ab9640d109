"""The catalog in Postgres: every call one statement, but for knowledge, which is one snapshot.

Writing calls are functions of the database; nothing here holds a lock across a round trip. What
they decide (laws, leases, versions) is in `sql/functions`; here is only how to call them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, RowMapping, create_engine, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from medusa_core.bounds import Bound, Policy
from medusa_core.certificates import Certificate, LineEvent
from medusa_core.changes import Difference, LineVersion
from medusa_core.commits import (
    Cause,
    Commit,
    CommitResult,
    Hold,
    LandedBatch,
    Lease,
    LeaseKey,
    QuarantinedRecord,
    SourcePromise,
)
from medusa_core.cursors import Cursor
from medusa_core.divergence import Divergence
from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.exchange import ImportStatus, LineNews
from medusa_core.fragments import Fragment
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.imports import ChosenRows, ImportKnowledge
from medusa_core.knowledge import Knowledge, Limits, TentativeKnowledge
from medusa_core.loads import WINDOW_MS, LoadSample, RecordedSample
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.recalls import RecallRequest, RecallResult
from medusa_core.segments import Producer, Read, Segment, SegmentFile
from medusa_core.sinks import DeliveryState, SinkRecord
from medusa_core.states import Transition
from medusa_core.step_costs import Cost
from medusa_core.trims import TrimResult
from pipelines.catalog import import_rows as imported
from pipelines.catalog import knowledge_rows
from pipelines.catalog.interface import Catalog
from pipelines.catalog.postgres import certificates as certified
from pipelines.catalog.postgres import choices, many, rows
from pipelines.catalog.postgres.costs import step_costs_of
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.loads import recorded_of, sample_document
from pipelines.catalog.postgres.news import import_document, news_of
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.recalls import recall_document, recalled_of
from pipelines.catalog.postgres.trims import compaction_documents, trimmed_of
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
from pipelines.catalog.server.migrations import check_connection

if TYPE_CHECKING:
    from medusa_core.market.declared import DeclaredCost

CONNECT_S_MAX = 10
SNAPSHOT = text("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def catalog_url(url: str) -> URL:
    """The URL with the driver that is used here, whichever way it was written."""
    try:
        return make_url(url).set(drivername="postgresql+psycopg2")
    except (ArgumentError, ValueError):
        # The value is not repeated: it may hold a password.
        raise Refused("MEDUSA_CATALOG_URL is not a valid PostgreSQL URL: correct it") from None


def catalog_engine(
    url: str, pool_size: int = 5, connect_args: Mapping[str, Any] | None = None
) -> Engine:
    """An engine whose statements are transactions of their own: one round trip each."""
    return create_engine(
        catalog_url(url),
        isolation_level="AUTOCOMMIT",
        pool_size=pool_size,
        connect_args={
            "connect_timeout": CONNECT_S_MAX,
            "application_name": "medusa",
            # Short statements: compiling one costs more than running it.
            "options": "-c jit=off",
            **(connect_args or {}),
        },
    )


class PostgresCatalog(Catalog):
    """A `Catalog` in a Postgres database that `medusa migrate` has prepared."""

    def __init__(self, url: str, participant: Participant) -> None:
        self._participant = participant
        self._engine = catalog_engine(url)
        with errors_of_catalog(), self._engine.connect() as connection:
            check_connection(connection)
            home = connection.execute(query("read_home")).mappings().first()
        if home is None:
            raise Unavailable(
                f"nobody lives in this database: run medusa migrate for {participant}"
            )
        if home["participant"] != participant:
            raise Refused(f"this is the home of {home['participant']}, not of {participant}")

    @property
    def participant(self) -> Participant:
        """Whose home this is."""
        return self._participant

    @property
    def engine(self) -> Engine:
        """For the rooms beside it, in the same home."""
        return self._engine

    def close(self) -> None:
        """Give connections back."""
        self._engine.dispose()

    # how statements are sent

    def _connect(self) -> AbstractContextManager[Connection]:
        return self._engine.connect()

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        with self._connect() as connection:
            connection.execute(SNAPSHOT)
            try:
                yield connection
            except BaseException:
                if not connection.invalidated:
                    connection.execute(text("ROLLBACK"))
                raise
            connection.execute(text("COMMIT"))

    def _rows(self, name: str, *, committing: bool = False, **values: Any) -> Sequence[RowMapping]:
        with errors_of_catalog():
            opened = self._connect()
            connection = opened.__enter__()
        try:
            with errors_of_catalog(committing=committing):
                return connection.execute(query(name), values).mappings().all()
        finally:
            opened.__exit__(None, None, None)

    def _value(self, name: str, *, committing: bool = False, **values: Any) -> Any:
        (row,) = self._rows(name, committing=committing, **values)
        (value,) = row.values()
        return value

    # deploying and leases

    def read_clock_ms(self) -> int:
        """The catalog's clock."""
        return int(self._value("read_clock"))

    def deploy(self, deployment: Deployment) -> None:
        """See `Deployments.deploy`."""
        self._value("deploy", request=rows.deployment_document(deployment))

    def declare_source(self, stream: StreamName, document: str) -> None:
        """See `Landing.declare_source`."""
        self._value("declare_source", stream=stream, document=document)

    def sources(self) -> Mapping[StreamName, str]:
        """See `Landing.sources`."""
        return {row["stream"]: row["document"] for row in self._rows("sources")}

    def declare_retention(self, stream: StreamName, retention_ms: int | None) -> None:
        """See `Trims.declare_retention`."""
        self._value("declare_retention", stream=stream, retention_ms=retention_ms)

    def retentions(self) -> Mapping[StreamName, int]:
        """See `Trims.retentions`."""
        return {row["stream"]: row["retention_ms"] for row in self._rows("retentions")}

    def declare_bound(self, stream: StreamName, bound: Bound | None, lag_ms: int) -> None:
        """See `Guarantees.declare_bound`."""
        self._value(
            "declare_bound",
            stream=stream,
            bound_ms=bound.bound_ms if bound else None,
            during_failure=(bound.during_failure if bound else Policy.PROCESS).value,
            during_stabilization=(bound.during_stabilization if bound else Policy.PROCESS).value,
            failure_ms_max=bound.failure_ms_max if bound else None,
            lag_ms=lag_ms,
        )

    def bounds(self) -> Mapping[StreamName, tuple[Bound | None, int]]:
        """See `Guarantees.bounds`."""
        return {row["stream"]: rows.promise_of(row) for row in self._rows("bounds")}

    def declare_verify(self, stream: StreamName, count: int) -> None:
        """See `Guarantees.declare_verify`."""
        self._value("declare_verify", stream=stream, verify_count=count)

    def verifies(self) -> Mapping[StreamName, int]:
        """See `Guarantees.verifies`."""
        return {row["stream"]: row["verify_count"] for row in self._rows("verifies")}

    def step_costs(self) -> Mapping[str, Cost]:
        """See `Deployments.step_costs`."""
        with errors_of_catalog(), self._snapshot() as connection:
            return step_costs_of(connection, self._participant)

    def record_transition(self, transition: Transition) -> bool:
        """See `Steps.record_transition`."""
        made: bool = self._value(
            "record_transition",
            fragment=transition.fragment,
            partition=transition.partition,
            participant=transition.producer.participant,
            replica=transition.producer.replica,
            state=transition.state.value,
            because=transition.because,
        )
        return made

    def transitions(self, limit: int | None = None) -> tuple[Transition, ...]:
        """See `StepHistory.transitions`."""
        return tuple(rows.transition_of(row) for row in self._rows("transitions", limit=limit))

    def states(self) -> tuple[Transition, ...]:
        """See `StepHistory.states`."""
        return tuple(rows.transition_of(row) for row in self._rows("states"))

    def assignments(self) -> tuple[Assignment, ...]:
        """See `Deployments.assignments`."""
        return tuple(rows.assignment_of(row) for row in self._rows("assignments"))

    def plans(self, *, superseded: bool = False) -> tuple[PlanRecord, ...]:
        """See `Deployments.plans`."""
        return tuple(PlanRecord(**row) for row in self._rows("plans", superseded=superseded))

    def acquire_lease(self, key: LeaseKey, epoch: Epoch, holder: str, ttl_ms: int) -> Lease:
        """See `Leases.acquire_lease`."""
        ends_ms = self._value(
            "acquire_lease", **rows.key_fields(key), epoch=epoch, holder=holder, ttl_ms=ttl_ms
        )
        return Lease(key=key, epoch=epoch, holder=holder, expires_at_ms=ends_ms)

    def renew_lease(self, lease: Lease, ttl_ms: int) -> Lease:
        """See `Leases.renew_lease`."""
        ends_ms = self._value("renew_lease", **many.lease_fields(lease), ttl_ms=ttl_ms)
        return Lease(key=lease.key, epoch=lease.epoch, holder=lease.holder, expires_at_ms=ends_ms)

    def release_lease(self, lease: Lease) -> None:
        """See `Leases.release_lease`."""
        self._value("release_lease", **many.lease_fields(lease))

    def acquire_leases(
        self, requests: Sequence[tuple[LeaseKey, Epoch]], holder: str, ttl_ms: int
    ) -> tuple[Lease, ...]:
        """See `Leases.acquire_leases`."""
        document = many.lease_requests_document(requests)
        ends_ms = self._value("acquire_leases", requests=document, holder=holder, ttl_ms=ttl_ms)
        return tuple(
            Lease(key=key, epoch=epoch, holder=holder, expires_at_ms=end_ms)
            for (key, epoch), end_ms in zip(requests, ends_ms, strict=True)
        )

    def renew_leases(self, leases: Sequence[Lease], ttl_ms: int) -> tuple[Lease | MedusaError, ...]:
        """See `Leases.renew_leases`."""
        answers = self._value("renew_leases", requests=many.leases_document(leases), ttl_ms=ttl_ms)
        return tuple(map(many.renewed_of, leases, answers))

    def release_leases(self, leases: Sequence[Lease]) -> None:
        """See `Leases.release_leases`."""
        self._value("release_leases", requests=many.leases_document(leases))

    def leases(self) -> tuple[LeaseRecord, ...]:
        """See `Leases.leases`."""
        return tuple(rows.lease_of(row) for row in self._rows("leases"))

    # landing

    def land(self, lease: Lease, batch: LandedBatch) -> bool:
        """See `Landing.land`."""
        document = rows.landing_document(many.lease_fields(lease), batch)
        return bool(self._value("land", request=document))

    def promise(self, lease: Lease, stream: StreamName, *, origin_us: int, boundary_us: int,
                end_us: int | None) -> None:  # fmt: skip
        """See `Landing.promise`."""
        self._value(
            "promise",
            **many.lease_fields(lease),
            stream=stream,
            origin_us=origin_us,
            boundary_us=boundary_us,
            end_us=end_us,
        )

    def land_many(self, landed: Sequence[tuple[Lease, LandedBatch]]) -> bool:
        """See `Landing.land_many`."""
        return bool(self._value("land_many", request=many.landing_document_of_many(landed)))

    def promise_many(self, promises: Sequence[SourcePromise]) -> None:
        """See `Landing.promise_many`."""
        self._value("promise_many", requests=many.promises_document(promises))

    def landed_files(self, stream: StreamName, part: Range) -> tuple[SegmentFile, ...]:
        """See `LandedFiles.landed_files`."""
        found = self._rows("landed_files", stream=stream, from_us=part.from_us, to_us=part.to_us)
        return tuple(rows.file_of(*row.values()) for row in found)

    def landed_files_of(
        self, parts: Sequence[tuple[StreamName, Range]]
    ) -> tuple[tuple[SegmentFile, ...], ...]:
        """See `LandedFiles.landed_files_of`."""
        found: list[list[SegmentFile]] = [[] for _ in parts]
        for row in self._rows(
            "landed_files_of",
            parts=list(range(len(parts))),
            streams=[stream for stream, _ in parts],
            from_us=[part.from_us for _, part in parts],
            to_us=[part.to_us for _, part in parts],
        ):
            file = rows.file_of(row["path"], row["size_bytes"], row["sha256"], row["rows"])
            found[row["part"]].append(file)
        return tuple(map(tuple, found))

    def landed_batches(self, stream: StreamName, query_id: str) -> Mapping[int, int]:
        """See `LandedFiles.landed_batches`."""
        found = self._rows("landed_batches", stream=stream, query_id=query_id)
        return {row["batch_id"]: row["records"] for row in found}

    def landed_state(self, stream: StreamName, query_id: str) -> tuple[int, str | None] | None:
        """See `Landing.landed_state`."""
        found = self._rows("landed_state", stream=stream, query_id=query_id)
        return (found[0]["batch_id"], found[0]["source_state"]) if found else None

    def landed_states(
        self, streams: Sequence[StreamName], query_id: str
    ) -> Mapping[StreamName, tuple[int, str | None]]:
        """See `Landing.landed_states`."""
        found = self._rows("landed_states", streams=list(streams), query_id=query_id)
        return {row["stream"]: (row["batch_id"], row["source_state"]) for row in found}

    def landed_queries(self, stream: StreamName) -> tuple[str, ...]:
        """See `LandedFiles.landed_queries`."""
        return tuple(row["query_id"] for row in self._rows("landed_queries", stream=stream))

    def landed_extent(self, stream: StreamName) -> tuple[int, int] | None:
        """See `Landing.landed_extent`."""
        (row,) = self._rows("landed_extent", stream=stream)
        return None if row["first_us"] is None else (row["first_us"], row["last_us"])

    def landed_extents(self, streams: Sequence[StreamName]) -> Mapping[StreamName, tuple[int, int]]:
        """See `Landing.landed_extents`."""
        found = self._rows("landed_extents", streams=list(streams))
        return {row["stream"]: (row["first_us"], row["last_us"]) for row in found}

    # committing

    def commit(self, commit: Commit) -> CommitResult:
        """See `Steps.commit`: the numbers are in `medusa.commit_step`."""
        answer = self._value("commit_step", committing=True, request=rows.commit_document(commit))
        return CommitResult(
            versions=answer["versions"],
            committed_at_ms=answer["committed_at_ms"],
            again=answer["again"],
        )

    def commit_many(self, commits: Sequence[Commit]) -> tuple[CommitResult | MedusaError, ...]:
        """See `Steps.commit_many`."""
        requests = many.commits_document(commits)
        answers = self._value("commit_steps", committing=True, requests=requests)
        return tuple(map(many.committed_of, answers))

    # reading

    def read_knowledge(self, fragments: Mapping[str, Fragment], limits: Limits) -> Knowledge:
        """See `Deployments.read_knowledge`: one snapshot, two strides, more where rows are owed."""
        with errors_of_catalog(), self._snapshot() as connection:
            assigned = self._assigned_lines(connection, fragments, limits)
            tentative = self._tentative(connection, assigned, limits)
            seen = knowledge_rows.frontier_knowledge(assigned, fragments, tentative)
            requests = [
                (at, r)
                for at, f in enumerate(seen)
                for r in knowledge_rows.requests_of(f, assigned)
            ]
            answers = self._answers(connection, [request for _, request in requests], limits)
        pairs: list[list[tuple[knowledge_rows.SegmentRequest, knowledge_rows.SegmentAnswer]]] = [
            [] for _ in seen
        ]
        for (at, _), pair in zip(requests, answers, strict=True):
            pairs[at].append(pair)
        return knowledge_rows.knowledge_of(
            self._participant,
            assigned,
            map(knowledge_rows.with_input_segments, seen, pairs),
            limits,
        )

    def _assigned_lines(
        self, connection: Connection, fragments: Mapping[str, Fragment], limits: Limits
    ) -> knowledge_rows.AssignedLines:
        values = {
            "participant": self._participant,
            "fragments": list(fragments),
            "buckets_max": limits.buckets_per_step_max + 1,
        }
        document = connection.execute(query("knowledge_assigned"), values).scalar_one()
        return rows.assigned_lines_of(document)

    def _tentative(
        self, connection: Connection, assigned: knowledge_rows.AssignedLines, limits: Limits
    ) -> list[TentativeKnowledge]:
        written = assigned.computed
        lines = {
            ln.line_id: ln
            for ln in assigned.lines
            if ln.tentative_us is not None and (ln.stream, ln.producer) in written
        }
        if not lines:
            return []
        reach, inputs = knowledge_rows.what_is_there(assigned, lines)
        values = {
            "line_ids": list(lines),
            "segments_max": limits.buckets_per_step_max,
            "reach": json.dumps(reach),
            "inputs": json.dumps(inputs),
        }
        found = connection.execute(query("knowledge_tentative"), values).mappings().all()
        reads: dict[int, list[Read]] = {}
        commit_ids = {"commit_ids": list({row["commit_id"] for row in found})}
        for row in connection.execute(query("knowledge_lineage"), commit_ids).mappings():
            reads.setdefault(row["commit_id"], []).append(rows.read_of(row))
        tentative: list[TentativeKnowledge] = []
        for row in found:
            line = lines[row["line_id"]]
            mine = (r for r in reads.get(row["commit_id"], ()) if r.output == line.stream)
            segment = rows.segment_of(row, line.stream, line.producer)
            tentative.append(TentativeKnowledge(segment=segment, reads=tuple(mine)))
        return tentative

    def _answers(
        self,
        connection: Connection,
        requests: Sequence[knowledge_rows.SegmentRequest],
        limits: Limits,
    ) -> list[tuple[knowledge_rows.SegmentRequest, knowledge_rows.SegmentAnswer]]:
        if not requests:
            return []
        values = {
            "requests": list(range(len(requests))),
            "line_ids": [r.line.line_id for r in requests],
            "from_us": [r.from_us for r in requests],
            "need_us": [r.need_us for r in requests],
            "beyond": [limits.buckets_per_step_max if r.goes_on else -1 for r in requests],
            "records_max": limits.records_per_step_max,
            "buckets_max": limits.buckets_per_step_max,
        }
        found: list[list[Segment]] = [[] for _ in requests]
        next_us: list[int | None] = [None] * len(requests)
        for row in connection.execute(query("knowledge_segments"), values).mappings():
            at = row["request"]
            line = requests[at].line
            found[at].append(rows.segment_of(row, line.stream, line.producer))
            next_us[at] = row["next_from_us"]
        return [
            (request, knowledge_rows.SegmentAnswer(tuple(found[at]), next_us[at]))
            for at, request in enumerate(requests)
        ]

    def segments(self, stream: StreamName, part: Range | None = None, *,
                 producer: Producer | None = None,
                 as_of: Version | None = None) -> tuple[Segment, ...]:  # fmt: skip
        """See `Lines.segments`."""
        values: dict[str, Any] = {
            "stream": stream,
            "from_us": part.from_us if part else BEGINNING_US,
            "to_us": part.to_us if part else FOREVER_US,
            "participant": producer.participant if producer else None,
            "replica": producer.replica if producer else None,
        }
        if as_of is None:
            found = self._rows("segments", **values)
        else:
            found = self._rows("segments_as_of", **values, as_of=as_of)
        return tuple(rows.segment_of(row, stream, rows.producer_of(row)) for row in found)

    def line_version(self, stream: StreamName, producer: Producer,
                     version: Version) -> LineVersion | None:  # fmt: skip
        """See `LineVersions.line_version`."""
        found = self._rows("line_version", **_line(stream, producer), version=version)
        return next((LineVersion(**row) for row in found), None)

    def line_versions(self, stream: StreamName, producer: Producer, *, after: Version,
                      until: Version | None = None,
                      limit: int) -> tuple[LineVersion, ...]:  # fmt: skip
        """See `LineVersions.line_versions`."""
        found = self._rows(
            "line_versions", **_line(stream, producer), after=after, until=until, limit=limit
        )
        return tuple(LineVersion(**row) for row in found)

    def version_at(self, stream: StreamName, producer: Producer, at_ms: int) -> Version:
        """See `LineVersions.version_at`."""
        found = self._rows("version_at", **_line(stream, producer), at_ms=at_ms)
        return Version(next((row["version"] for row in found), 0))

    def difference(self, stream: StreamName, producer: Producer, since: Version, until: Version,
                   part: Range) -> Difference:  # fmt: skip
        """See `LineVersions.difference`."""
        sides: dict[bool, list[Segment]] = {False: [], True: []}
        found = self._rows(
            "line_difference",
            **_line(stream, producer),
            since=since,
            until=until,
            from_us=part.from_us,
            to_us=part.to_us,
        )
        for row in found:
            sides[row["is_after"]].append(rows.segment_of(row, stream, producer))
        of = _line(stream, producer)
        (recalled,) = self._rows("recalled_between", **of, since=since, until=until)
        return Difference(
            before=tuple(sides[False]),
            after=tuple(sides[True]),
            recalled_us=FOREVER_US if recalled["from_us"] is None else recalled["from_us"],
            recalled_at=Version(recalled["version"] or 0),
        )

    def lineage(self, segment: Segment) -> tuple[Read, ...]:
        """See `StepHistory.lineage`."""
        found = self._rows(
            "lineage",
            stream=segment.stream,
            participant=segment.producer.participant,
            replica=segment.producer.replica,
            from_us=segment.range.from_us,
            to_us=segment.range.to_us,
            version=segment.version,
        )
        return tuple(rows.read_of(row) for row in found)

    def lines(self, stream: StreamName | None = None) -> tuple[LineStatus, ...]:
        """See `Lines.lines`."""
        if stream is not None and not _is_text(stream):
            return ()  # no database holds such a name
        return tuple(rows.line_of(row) for row in self._rows("lines", stream=stream))

    def streams(self) -> tuple[StreamStatus, ...]:
        """See `Lines.streams`."""
        return tuple(rows.status_of(row) for row in self._rows("streams"))

    def steps(self, limit: int | None = None) -> tuple[StepRecord, ...]:
        """See `StepHistory.steps`."""
        return tuple(rows.step_of(row) for row in self._rows("steps", limit=limit))

    def step_counts(self) -> Mapping[Cause, int]:
        """See `StepHistory.step_counts`."""
        return {Cause(row["cause"]): row["steps"] for row in self._rows("step_counts")}

    def quarantined(self, limit: int | None = None) -> tuple[QuarantinedRecord, ...]:
        """See `Quarantine.quarantined`."""
        return tuple(QuarantinedRecord(**row) for row in self._rows("quarantined", limit=limit))

    def quarantine_entries(
        self, stream: StreamName | None = None, *, after: int = 0,
        numbers: Sequence[int] | None = None, limit: int | None = None,
    ) -> tuple[QuarantineEntry, ...]:  # fmt: skip
        """See `Quarantine.quarantine_entries`."""
        return tuple(
            rows.quarantine_entry_of(row)
            for row in self._rows(
                "quarantine_entries",
                stream=stream,
                after=after,
                numbers=None if numbers is None else list(numbers),
                limit=limit,
            )
        )

    def quarantine_count(self, stream: StreamName | None = None) -> int:
        """See `Quarantine.quarantine_count`."""
        return int(self._value("quarantine_count", stream=stream))

    def quarantine_reasons(self, limit: int | None = None) -> tuple[QuarantineReason, ...]:
        """See `Quarantine.quarantine_reasons`."""
        return tuple(QuarantineReason(**r) for r in self._rows("quarantine_reasons", limit=limit))

    # certificates

    def history(self, stream: StreamName, producer: Producer,
                part: Range) -> tuple[LineEvent, ...]:  # fmt: skip
        """See `LineVersions.history`."""
        found = self._rows(
            "line_history",
            stream=stream,
            participant=producer.participant,
            replica=producer.replica,
            from_us=part.from_us,
            to_us=part.to_us,
        )
        return tuple(certified.event_of(row) for row in found)

    def record_certificate(self, certificate: Certificate) -> int:
        """See `Certificates.record_certificate`."""
        document = certified.certificate_document(certificate)
        return int(self._value("record_certificate", request=document))

    def certificates(self, stream: StreamName | None = None, *,
                     limit: int | None = None) -> tuple[Certificate, ...]:  # fmt: skip
        """See `Certificates.certificates`."""
        found = self._rows("certificates", stream=stream, limit=limit)
        return tuple(certified.certificate_of(row) for row in found)

    # load

    def record_load(self, sample: LoadSample) -> bool:
        """See `LoadLog.record_load`."""
        made: bool = self._value("record_load", committing=True, request=sample_document(sample))
        return made

    def loads_since(self, window_ms: int = WINDOW_MS) -> tuple[RecordedSample, ...]:
        """See `LoadLog.loads_since`."""
        return recorded_of(self._rows("loads_since", window_ms=window_ms))

    def declared_cost(self) -> DeclaredCost | None:
        """See `LoadLog.declared_cost`."""
        from pipelines.catalog.postgres.declared_costs import declared_of

        found = self._rows("declared_cost")
        return declared_of(found[0]) if found else None

    # recalls

    def recall(self, request: RecallRequest, *, explain: bool = False) -> tuple[RecallResult, ...]:
        """See `Recalls.recall`."""
        document = recall_document(request, explain=explain)
        return tuple(recalled_of(row) for row in self._value("recall", request=document))

    def recalls(self, stream: StreamName | None = None) -> tuple[RecallResult, ...]:
        """See `Recalls.recalls`."""
        return tuple(recalled_of(row) for row in self._rows("recalls", stream=stream))

    # the market

    def has_contracts(self) -> bool:
        """See `ContractPresence.has_contracts`."""
        return bool(self._value("has_contracts"))

    # the exchange

    def imports(self) -> tuple[ImportStatus, ...]:
        """See `Imports.imports`."""
        return tuple(
            ImportStatus(
                stream=StreamName(row["stream"]),
                producer=rows.producer_of(row),
                version=Version(row["last_version"]),
                boundary_us=row["boundary_us"],
                reader=Producer(self._participant, row["own_replica"]),
                epoch=Epoch(row["epoch"]),
                plan=PlanId(row["plan"]),
                tentative_us=row["tentative_us"],
                disputed_us=row["disputed_us"],
                chain=row["chain"],
                read_at_ms=row["read_at_ms"],
            )
            for row in self._rows("imports", participant=self._participant)
        )

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Readers.line_news`."""
        document = self._value(
            "line_news",
            stream=stream,
            participant=producer.participant,
            replica=producer.replica,
            after=after,
            segments_max=segments_max,
        )
        return news_of(document, stream, producer, after)

    def import_line(self, lease: Lease, news: LineNews, plan: PlanId) -> bool:
        """See `Imports.import_line`: the numbers are in `medusa.import_line`."""
        request = import_document(many.lease_fields(lease), news, plan)
        return bool(self._value("import_line", committing=True, request=request))

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0) -> None:  # fmt: skip
        """See `Readers.acknowledge`."""
        self._value(
            "acknowledge",
            stream=stream,
            reader=reader,
            through_us=through_us,
            limit_ms=limit_ms,
            path_ms=path_ms,
        )

    # several producers of one stream

    def read_imports(self, limits: Limits) -> tuple[ImportKnowledge, ...]:
        """See `Imports.read_imports`: two strides in one snapshot, one where nothing is new."""
        found: list[ImportKnowledge] = []
        with errors_of_catalog(), self._snapshot() as connection:
            values = {
                "participant": self._participant,
                "segments_max": limits.buckets_per_step_max,
            }
            document = connection.execute(query("knowledge_imports"), values).scalar_one()
            for known, ids in choices.imports_of(document, self._participant):
                expected = list(imported.rows_requested(known, ids))
                requests = [w.request for w in expected]
                answers = self._answers(connection, requests, imported.limits_of(limits))
                pairs = [(w, a) for w, (_, a) in zip(expected, answers, strict=True)]
                found.append(imported.with_rows(known, pairs))
        return tuple(found)

    def commit_choice(self, lease: Lease, chosen: ChosenRows) -> CommitResult | None:
        """See `Imports.commit_choice`: the numbers are in `medusa.commit_choice`."""
        request = choices.choice_document(lease, chosen)
        answer = self._value("commit_choice", committing=True, request=request)
        return None if answer is None else CommitResult(**answer)

    def divergences(self, stream: StreamName | None = None) -> tuple[Divergence, ...]:
        """See `Imports.divergences`."""
        return tuple(choices.divergence_of(row) for row in self._rows("divergences", stream=stream))

    def disputed(self) -> Mapping[StreamName, int]:
        """See `Imports.disputed`."""
        return {row["stream"]: row["from_us"] for row in self._rows("disputed")}

    # holds

    def place_hold(self, hold: Hold) -> None:
        """See `Readers.place_hold`."""
        self._value(
            "place_hold",
            stream=hold.stream,
            holder=hold.holder,
            purpose=hold.purpose,
            from_us=hold.from_us,
            limit_ms=hold.limit_ms,
        )

    def release_hold(self, stream: StreamName, holder: str, purpose: str) -> None:
        """See `Readers.release_hold`."""
        self._value("release_hold", stream=stream, holder=holder, purpose=purpose)

    def holds(self, stream: StreamName) -> tuple[Hold, ...]:
        """See `Readers.holds`."""
        return tuple(Hold(**row) for row in self._rows("holds", stream=stream))

    # cursors

    def place_cursor(self, stream: StreamName, name: str, producer: Producer, *, from_us: int,
                     limit_ms: int) -> None:  # fmt: skip
        """See `Cursors.place_cursor`."""
        self._value(
            "place_cursor",
            **_line(stream, producer),
            cursor=name,
            from_us=from_us,
            limit_ms=limit_ms,
        )

    def move_cursor(self, stream: StreamName, name: str, version: Version, limit_ms: int) -> None:
        """See `Cursors.move_cursor`."""
        self._value("move_cursor", stream=stream, cursor=name, version=version, limit_ms=limit_ms)

    def drop_cursor(self, stream: StreamName, name: str) -> None:
        """See `Cursors.drop_cursor`."""
        self._value("drop_cursor", stream=stream, cursor=name)

    def cursors(self) -> tuple[Cursor, ...]:
        """See `Cursors.cursors`."""
        return tuple(rows.cursor_of(row) for row in self._rows("cursors"))

    # sinks

    def declare_sink(self, stream: StreamName, name: str, document: str, *, from_us: int,
                     through_us: int | None, limit_ms: int) -> None:  # fmt: skip
        """See `Sinks.declare_sink`."""
        self._value(
            "declare_sink",
            stream=stream,
            sink=name,
            document=document,
            from_us=from_us,
            through_us=through_us,
            limit_ms=limit_ms,
        )

    def withdraw_sink(self, stream: StreamName, name: str) -> None:
        """See `Sinks.withdraw_sink`."""
        self._value("withdraw_sink", stream=stream, sink=name)

    def sinks(self) -> tuple[SinkRecord, ...]:
        """See `Sinks.sinks`."""
        return tuple(SinkRecord(**row) for row in self._rows("sinks"))

    def record_delivery(self, sink: SinkRecord, delivered: DeliveryState, limit_ms: int) -> None:
        """See `Sinks.record_delivery`."""
        self._value(
            "record_delivery",
            stream=sink.stream,
            sink=sink.name,
            document=sink.document,
            through_us=delivered.through_us,
            version=delivered.version,
            rows=delivered.rows,
            lost_us=delivered.lost_us,
            limit_ms=limit_ms,
        )

    def record_sink_problem(self, sink: SinkRecord, problem: str | None) -> None:
        """See `Sinks.record_sink_problem`."""
        self._value(
            "record_sink_problem",
            stream=sink.stream,
            sink=sink.name,
            document=sink.document,
            problem=problem,
        )

    # trimming

    def trim(self, stream: StreamName, producer: Producer, before_us: int, *,
             needed: Mapping[str, int], segments_max: int,
             explain: bool = False) -> TrimResult:  # fmt: skip
        """See `Trims.trim`: the numbers are in `medusa.trim_line`."""
        answer = self._value(
            "trim_line",
            stream=stream,
            participant=producer.participant,
            replica=producer.replica,
            before_us=before_us,
            needed=json.dumps(dict(needed)),
            segments_max=segments_max,
            explain=explain,
        )
        return trimmed_of(answer)

    def compact(self, stream: StreamName, producer: Producer, segments: Sequence[Segment],
                file: SegmentFile) -> tuple[SegmentFile, ...]:  # fmt: skip
        """See `Trims.compact`."""
        released = self._value(
            "compact_line",
            committing=True,
            stream=stream,
            participant=producer.participant,
            replica=producer.replica,
            **compaction_documents(segments, file),
        )
        return tuple(rows.file_of(*found) for found in released)

    def named_files(self, paths: Collection[str]) -> frozenset[str]:
        """See `Trims.named_files`."""
        return frozenset(row["path"] for row in self._rows("named_files", paths=list(paths)))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def _line(stream: StreamName, producer: Producer) -> dict[str, Any]:
    return {
        "stream": stream,
        "participant": producer.participant,
        "replica": producer.replica,
    }
