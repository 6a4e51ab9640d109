"""What stands in a home that `medusa apply` compares with the contracts: one snapshot of it.

Unlike the calls of `Catalog` it holds streams that nobody writes yet and the whole assignment log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, create_engine, text

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.names import Epoch, NetworkName, Participant, PlanId, StreamName
from medusa_core.segments import Producer
from medusa_core.step_costs import Cost
from pipelines.catalog.interface import Assignment, PlanRecord, StreamRecord
from pipelines.catalog.postgres.costs import step_costs_of
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.postgres_catalog import catalog_url
from pipelines.catalog.postgres.rows import promise_of
from pipelines.catalog.server.migrations import check_connection
from pipelines.contracts.stream_bounds import Promise

PARTITION = 0
"""The only one: partitions of a fragment are not declared yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingFragment:
    """A fragment as deployed: its network, what it reads and writes."""

    network: NetworkName
    inputs: tuple[StreamName, ...]
    outputs: tuple[StreamName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLine:
    """How far what a producer wrote of a stream reaches, `end_us` where it has ended.

    `boundary_us` is None if it has not begun; what lies before `trimmed_us` is gone.
    """

    stream: StreamName
    producer: Producer
    boundary_us: int | None
    end_us: int | None
    trimmed_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A home's deployments: `log` holds a fragment's assignments, oldest first.

    A home that has not been made is one where nothing stands. `sources` maps a stream to the JSON
    text of what feeds it, `retentions` to for how many ms it is kept, if not for good, `sinks`
    (with a name) to the JSON text of where it is delivered, `promises` to the bound it is held to;
    `verified` to how many of its producers must agree, if that is more than one; `costs` are those
    of the fragments that run here; `clock_ms` is the catalog's clock.
    """

    is_made: bool = False
    streams: Mapping[StreamName, StreamRecord] = field(default_factory=dict)
    plans: Mapping[PlanId, PlanRecord] = field(default_factory=dict)
    fragments: Mapping[str, StandingFragment] = field(default_factory=dict)
    log: Mapping[str, tuple[Assignment, ...]] = field(default_factory=dict)
    lines: tuple[StandingLine, ...] = ()
    sources: Mapping[StreamName, str] = field(default_factory=dict)
    retentions: Mapping[StreamName, int] = field(default_factory=dict)
    promises: Mapping[StreamName, Promise] = field(default_factory=dict)
    verified: Mapping[StreamName, int] = field(default_factory=dict)
    costs: Mapping[str, Cost] = field(default_factory=dict)
    sinks: Mapping[tuple[StreamName, str], str] = field(default_factory=dict)
    clock_ms: int | None = None

    def __post_init__(self) -> None:
        freeze(self, "streams", "plans", "fragments", "log", "sources", "retentions", "sinks")
        freeze(self, "promises", "verified", "costs")


def read_standing(url: str, participant: Participant) -> Standing:
    """What stands in the home at this URL; Refused if it is somebody else's.

    Raises Unavailable if it cannot be reached or lacks a migration.
    """
    engine = create_engine(catalog_url(url), isolation_level="REPEATABLE READ")
    try:
        with errors_of_catalog(), engine.connect() as connection:
            connection.execute(text("SET TRANSACTION READ ONLY"))
            there = "SELECT to_regclass('medusa.home') IS NOT NULL"
            if not connection.execute(text(there)).scalar_one():
                return Standing()
            check_connection(connection)
            owner = connection.execute(text("SELECT participant FROM medusa.home")).scalar()
            if owner is None:
                return Standing()
            if owner != participant:
                raise Refused(f"this is the home of {owner}, not of {participant}")
            return _standing(connection)
    finally:
        engine.dispose()


def _standing(connection: Connection) -> Standing:
    streams = connection.execute(
        text("SELECT name, kind, width_us, columns, key_columns FROM medusa.stream ORDER BY name")
    )
    plans = connection.execute(text("SELECT id, network, document FROM medusa.plan ORDER BY id"))
    fragments = connection.execute(
        text("SELECT id, network, inputs, outputs FROM medusa.fragment ORDER BY id")
    )
    lines = connection.execute(
        text(
            "SELECT stream, participant, replica, boundary_us, end_us, trimmed_us "
            "FROM medusa.stream_producer ORDER BY stream, participant, replica"
        )
    )
    sources = connection.execute(text("SELECT stream, document FROM medusa.source ORDER BY stream"))
    promises = connection.execute(
        text(
            "SELECT stream, retention_ms, bound_ms, during_failure, during_stabilization, "
            "failure_ms_max, lag_ms, verify_count FROM medusa.stream_promise ORDER BY stream"
        )
    ).all()
    participant = connection.execute(text("SELECT participant FROM medusa.home")).scalar_one()
    sinks = connection.execute(
        text("SELECT stream, name, document FROM medusa.sink ORDER BY stream, name")
    )
    now_ms = connection.execute(text("SELECT medusa.to_ms(clock_timestamp())")).scalar_one()
    return Standing(
        is_made=True,
        streams={
            row.name: StreamRecord(
                name=row.name,
                kind=row.kind,
                width_us=row.width_us,
                columns=dict(row.columns),
                key=tuple(row.key_columns),
            )
            for row in streams
        },
        plans={
            row.id: PlanRecord(id=row.id, network=row.network, document=row.document)
            for row in plans
        },
        fragments={
            row.id: StandingFragment(
                network=row.network, inputs=tuple(row.inputs), outputs=tuple(row.outputs)
            )
            for row in fragments
        },
        log=_log(connection),
        lines=tuple(
            StandingLine(
                stream=row.stream,
                producer=Producer(row.participant, row.replica),
                boundary_us=row.boundary_us,
                end_us=row.end_us,
                trimmed_us=row.trimmed_us,
            )
            for row in lines
        ),
        sources={row.stream: row.document for row in sources},
        retentions={
            row.stream: row.retention_ms for row in promises if row.retention_ms is not None
        },
        promises={row.stream: Promise(*promise_of(row._mapping)) for row in promises},
        verified={row.stream: row.verify_count for row in promises if row.verify_count > 1},
        costs=step_costs_of(connection, participant),
        sinks={(row.stream, row.name): row.document for row in sinks},
        clock_ms=now_ms,
    )


def _log(connection: Connection) -> dict[str, tuple[Assignment, ...]]:
    found: dict[str, list[Assignment]] = {}
    log = connection.execute(
        text(
            "SELECT fragment, epoch, participant, replica, plan, from_us FROM medusa.assignment "
            "WHERE partition = :partition ORDER BY fragment, epoch"
        ),
        {"partition": PARTITION},
    )
    for row in log:
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
