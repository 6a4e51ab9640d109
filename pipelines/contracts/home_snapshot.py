"""A snapshot of a home, with everything that `medusa apply` compares with the contracts.

Unlike the catalog's calls it holds streams without a producer and the whole assignment log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, create_engine, text

from medusa_core.drops.utility import Qos, qos_of_document
from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.names import Epoch, NetworkName, Participant, PlanId, StreamName
from medusa_core.segments import Producer
from medusa_core.step_costs import Cost
from pipelines.catalog.postgres.costs import step_costs_of
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.rows import promise_of
from pipelines.catalog.records import Assignment, PlanRecord, StreamRecord
from pipelines.catalog.server.migrations import check_connection
from pipelines.contracts.composition import Lineage
from pipelines.contracts.stream_bounds import Promise

PARTITION = 0
"""The only one: partitions of a fragment are not declared yet."""


class Grant(NamedTuple):
    """A stream that a partner may read, and why: READING, READERS or OWNER."""

    stream: StreamName
    partner: Participant
    reason: str


READING = "reading"
"""A fragment of the partner reads the stream, by the contracts."""
READERS = "readers"
"""The stream's contract lists the partner."""
EVERY_RECIPIENT = "*"
"""In the place of a recipient's name."""

OWNER = "owner"
"""The owner granted it by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedFragment:
    """A fragment as deployed: its network, what it reads and writes, where it starts.

    `starts_us` None: at the origin of its inputs.
    """

    network: NetworkName
    inputs: tuple[StreamName, ...]
    outputs: tuple[StreamName, ...]
    starts_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSnapshot:
    """How far what a producer wrote of a stream reaches, `end_us` where it has ended.

    `boundary_us` is None if it has not begun; what lies before `trimmed_us` is gone.
    """

    stream: StreamName
    producer: Producer
    boundary_us: int | None
    end_us: int | None
    trimmed_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSnapshot:
    """A home's deployments: `log` holds a fragment's assignments, oldest first.

    A home that has not been made is one where nothing stands. `sources` maps a stream to the JSON
    text of what feeds it, `retentions` to for how many ms it is kept, if not for good, `sinks`
    (with a name) to the JSON text of where it is delivered, `promises` to the bound it is held to;
    `verified` to how many of its producers must agree, if that is more than one; `followings` are
    the streams whose revisions by a partner are followed; `qos` has those of which records may be
    dropped; `costs` are those
    of the fragments that run here; `grants` are the streams that partners may read, `shared`
    those that recipients may read by the contracts (*: every recipient); `removed` are the partners
    that the owner has removed; `lineage` is what imported streams are computed from; `clock_ms` is
    the catalog's clock.
    """

    is_made: bool = False
    streams: Mapping[StreamName, StreamRecord] = field(default_factory=dict)
    plans: Mapping[PlanId, PlanRecord] = field(default_factory=dict)
    fragments: Mapping[str, DeployedFragment] = field(default_factory=dict)
    log: Mapping[str, tuple[Assignment, ...]] = field(default_factory=dict)
    lines: tuple[LineSnapshot, ...] = ()
    sources: Mapping[StreamName, str] = field(default_factory=dict)
    retentions: Mapping[StreamName, int] = field(default_factory=dict)
    promises: Mapping[StreamName, Promise] = field(default_factory=dict)
    verified: Mapping[StreamName, int] = field(default_factory=dict)
    followings: frozenset[StreamName] = frozenset()
    qos: Mapping[StreamName, Qos] = field(default_factory=dict)
    costs: Mapping[str, Cost] = field(default_factory=dict)
    sinks: Mapping[tuple[StreamName, str], str] = field(default_factory=dict)
    grants: frozenset[Grant] = frozenset()
    shared: frozenset[tuple[StreamName, str]] = frozenset()
    removed: frozenset[Participant] = frozenset()
    lineage: Mapping[StreamName, Lineage] = field(default_factory=dict)
    clock_ms: int | None = None

    def __post_init__(self) -> None:
        freeze(self, "streams", "plans", "fragments", "log", "sources", "retentions", "sinks")
        freeze(self, "promises", "verified", "qos", "costs")


def read_home_snapshot(url: str, participant: Participant) -> HomeSnapshot:
    """What stands in the home at this URL; Refused if it is somebody else's.

    Raises Unavailable if it cannot be reached or lacks a migration.
    """
    engine = create_engine(catalog_url(url), isolation_level="REPEATABLE READ")
    try:
        with errors_of_catalog(), engine.connect() as connection:
            connection.execute(text("SET TRANSACTION READ ONLY"))
            if not connection.execute(query("schema_made")).one().has_tables:
                return HomeSnapshot()
            check_connection(connection)
            owner = connection.execute(query("read_home")).scalar()
            if owner is None:
                return HomeSnapshot()
            if owner != participant:
                raise Refused(f"this is the home of {owner}, not of {participant}")
            return _snapshot_of(connection, participant)
    finally:
        engine.dispose()


def _snapshot_of(connection: Connection, participant: Participant) -> HomeSnapshot:
    def rows(name: str, **values: object) -> Sequence[Row[Any]]:
        return connection.execute(query(name), values).all()

    return HomeSnapshot(
        is_made=True,
        streams={
            row.name: StreamRecord(
                name=row.name,
                kind=row.kind,
                width_us=row.width_us,
                columns=dict(row.columns),
                key=tuple(row.key_columns),
            )
            for row in rows("deployed_streams")
        },
        plans={
            row.id: PlanRecord(id=row.id, network=row.network, document=row.document)
            for row in rows("deployed_plans")
        },
        fragments={
            row.id: DeployedFragment(
                network=row.network,
                inputs=tuple(row.inputs),
                outputs=tuple(row.outputs),
                starts_us=row.starts_us,
            )
            for row in rows("deployed_fragments")
        },
        log=_log(rows("assignment_log", partition=PARTITION)),
        lines=tuple(
            LineSnapshot(
                stream=row.stream,
                producer=Producer(row.participant, row.replica),
                boundary_us=row.boundary_us,
                end_us=row.end_us,
                trimmed_us=row.trimmed_us,
            )
            for row in rows("deployed_lines")
        ),
        sources={row.stream: row.document for row in rows("sources")},
        retentions={row.stream: row.retention_ms for row in rows("retentions")},
        promises={row.stream: Promise(*promise_of(row._mapping)) for row in rows("bounds")},
        verified={row.stream: row.verify_count for row in rows("verifies")},
        followings=frozenset(row.stream for row in rows("followings")),
        qos={row.stream: qos_of_document(row.qos) for row in rows("qos")},
        costs=step_costs_of(connection, participant),
        sinks={(row.stream, row.name): row.document for row in rows("sinks")},
        grants=frozenset(
            Grant(row.stream, row.partner, row.reason) for row in rows("stream_grants")
        ),
        shared=frozenset(
            (row.stream, row.recipient) for row in rows("recipient_grants") if row.reason != OWNER
        ),
        removed=frozenset(row.participant for row in rows("removed_partners")),
        lineage={
            row.stream: tuple((reads, writes) for reads, writes in row.lineage or ())
            for row in rows("imported_lineage")
        },
        clock_ms=connection.execute(query("read_clock")).scalar_one(),
    )


def _log(rows: Iterable[Row[Any]]) -> dict[str, tuple[Assignment, ...]]:
    found: dict[str, list[Assignment]] = {}
    for row in rows:
        found.setdefault(row.fragment, []).append(
            Assignment(
                fragment=row.fragment,
                producer=Producer(row.participant, row.replica),
                epoch=Epoch(row.epoch),
                plan=PlanId(row.plan),
                from_us=row.from_us,
            )
        )
    return {fragment: tuple(lines) for fragment, lines in found.items()}
