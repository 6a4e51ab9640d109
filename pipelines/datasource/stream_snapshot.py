"""The state of the stream being read, and its segments: all of one snapshot of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sqlalchemy import TextClause, text

from medusa_core.columns import Column, declare_columns
from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, Segment
from medusa_core.suggest import did_you_mean
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.rows import Row
from pipelines.catalog.postgres.snapshot_session import HeldCatalog, PostgresSession

LISTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSnapshot:
    """A stream in this home at one moment; times None before it has begun.

    `stable_through_us` ends what is final without a hole from the origin on, and so does
    `final_through_us`, which is the end of time where the stream has ended and all of it is final.
    Of what lies before `trimmed_us` nothing need be there. `recalls`: generation, from when on.
    `revisions`: of each version that revised the line, the generation that it began.
    """

    stream: StreamName
    home: Participant
    incarnation: str
    width_us: int
    columns: Mapping[str, str]
    producer: Producer | None
    version: Version
    origin_us: int | None
    stable_through_us: int | None
    final_through_us: int | None
    trimmed_us: int | None
    generation: int = 1
    recalls: tuple[tuple[int, int], ...] = ()
    revisions: Mapping[Version, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "columns", "revisions")

    @property
    def kept_from_us(self) -> int | None:
        """Where what is surely there begins: the trim, else the origin."""
        return self.origin_us if self.trimmed_us is None else self.trimmed_us

    @property
    def lost_before_us(self) -> int | None:
        """Before when rows may have been let go; None if all of them are there."""
        if self.trimmed_us is None or self.trimmed_us == self.origin_us:
            return None
        return self.trimmed_us

    @property
    def declared(self) -> tuple[Column, ...]:
        """The stream's declared columns."""
        return declare_columns(f"stream {self.stream}", self.columns)


class Snapshot:
    """The catalog at one moment, as long as the block that it was opened in."""

    def __init__(self, session: PostgresSession) -> None:
        catalog = session.catalog
        assert isinstance(catalog, HeldCatalog)
        self._catalog = catalog

    def stream_snapshot(self, stream: StreamName) -> StreamSnapshot:
        """How a stream stands; Refused, with the nearest name, if there is none of it."""
        with errors_of_catalog():
            found = self._catalog.held.execute(_query("line"), {"stream": stream}).mappings()
            row = found.first()
            if row is None:
                names = self._catalog.held.execute(_query("stream_names")).scalars().all()
        if row is not None:
            return _stream_snapshot(stream, self._catalog.participant, row)
        listed = ", ".join(names[:LISTED_MAX]) + (", …" if len(names) > LISTED_MAX else "")
        hint = did_you_mean(stream, names, f"it has {listed or 'none'}")
        raise Refused(f"the home of {self._catalog.participant} has no stream {stream!r}: {hint}")

    def version_at(self, line: StreamSnapshot, at_ms: int) -> Version:
        """The version that the line had at a time of the home's clock; Refused for the future."""
        with errors_of_catalog():
            is_past = self._catalog.held.execute(_query("is_past"), {"at_ms": at_ms}).scalar_one()
        if not is_past:
            raise Refused("option as_of is in the future: give a time that has passed")
        if line.producer is None:
            return Version(0)
        return self._catalog.version_at(line.stream, line.producer, at_ms)

    def segments(
        self, line: StreamSnapshot, part: Range, as_of: Version | None = None
    ) -> tuple[Segment, ...]:
        """The line's segments that overlap `part`, in event-time order; at a version, if given."""
        if line.producer is None:
            return ()
        return self._catalog.segments(line.stream, part, producer=line.producer, as_of=as_of)


def _stream_snapshot(stream: StreamName, home: Participant, row: Row) -> StreamSnapshot:
    producer = None
    if row["participant"] is not None:
        producer = Producer(Participant(row["participant"]), row["replica"])
    return StreamSnapshot(
        stream=stream,
        home=home,
        incarnation=row["incarnation"],
        width_us=row["width_us"],
        columns=dict(row["columns"]),
        producer=producer,
        version=Version(row["last_version"] or 0),
        origin_us=row["origin_us"],
        stable_through_us=_stable_through_us(row),
        final_through_us=_final_through_us(row),
        trimmed_us=row["trimmed_us"],
        generation=row["generation"] or 1,
        recalls=tuple((generation, from_us) for generation, from_us in row["recalls"] or ()),
        revisions={Version(version): generation for version, generation in row["revisions"] or ()},
    )


def _stable_through_us(row: Row) -> int | None:
    through_us = _final_through_us(row)
    return row["end_us"] if through_us == FOREVER_US else through_us


def _final_through_us(row: Row) -> int | None:
    if row["origin_us"] is None or row["boundary_us"] is None:
        return None
    through_us: int = row["boundary_us"]
    return through_us if row["tentative_us"] is None else min(through_us, row["tentative_us"])


@cache
def _query(name: str) -> TextClause:
    return text((Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8"))
