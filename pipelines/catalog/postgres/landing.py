"""Landed records in Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.commits import LandedBatch, LandedPart, Lease, SourcePromise
from medusa_core.digest import Digest
from medusa_core.grid import Range
from medusa_core.late_records import LateBucket, LateRecord
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.catalog.postgres import many, rows
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.processing_roles import LandedFiles, Landing, LateRecords


class PostgresLanding(HomeDatabase, Landing, LateRecords, LandedFiles):
    """Sources, landed batches and their files, and late records that wait."""

    def declare_source(self, stream: StreamName, document: str) -> None:
        """See `Landing.declare_source`."""
        self._value("declare_source", stream=stream, document=document)

    def sources(self) -> Mapping[StreamName, str]:
        """See `Landing.sources`."""
        return {row["stream"]: row["document"] for row in self._rows("sources")}

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

    def landed_extent(self, stream: StreamName) -> tuple[int, int] | None:
        """See `Landing.landed_extent`."""
        (row,) = self._rows("landed_extent", stream=stream)
        return None if row["first_us"] is None else (row["first_us"], row["last_us"])

    def landed_extents(self, streams: Sequence[StreamName]) -> Mapping[StreamName, tuple[int, int]]:
        """See `Landing.landed_extents`."""
        found = self._rows("landed_extents", streams=list(streams))
        return {row["stream"]: (row["first_us"], row["last_us"]) for row in found}

    def late_buckets(
        self, streams: Sequence[StreamName]
    ) -> Mapping[StreamName, tuple[LateBucket, ...]]:
        """See `LateRecords.late_buckets`."""
        found: dict[StreamName, list[LateBucket]] = {}
        for row in self._rows("late_buckets", streams=list(streams)):
            bucket = LateBucket(
                at_us=row["bucket_us"], records=row["records"], arrived_ms=row["arrived_ms"]
            )
            found.setdefault(StreamName(row["stream"]), []).append(bucket)
        return {stream: tuple(buckets) for stream, buckets in found.items()}

    def late_records(self, stream: StreamName, buckets: Sequence[int]) -> tuple[LateRecord, ...]:
        """See `LateRecords.late_records`."""
        found = self._rows("late_records", stream=stream, buckets=list(buckets))
        return tuple(
            LateRecord(number=row["number"], stime_us=row["stime_us"], row=bytes(row["row"]))
            for row in found
        )

    def landed_files(self, stream: StreamName, part: Range) -> tuple[SegmentFile, ...]:
        """See `LandedFiles.landed_files`."""
        found = self._rows("landed_files", stream=stream, from_us=part.from_us, to_us=part.to_us)
        return tuple(rows.file_of(*row.values()) for row in found)

    def landed_parts(
        self, parts: Sequence[tuple[StreamName, Range]]
    ) -> tuple[tuple[LandedPart, ...], ...]:
        """See `LandedFiles.landed_parts`."""
        found: list[list[LandedPart]] = [[] for _ in parts]
        for row in self._rows(
            "landed_parts",
            parts=list(range(len(parts))),
            streams=[stream for stream, _ in parts],
            from_us=[part.from_us for _, part in parts],
            to_us=[part.to_us for _, part in parts],
        ):
            digests: dict[int, Digest] = {}
            if row["sum_a"] is not None:
                digests = dict(zip(row["bucket_us"], rows.digests_of(row), strict=True))
            landed = LandedPart(
                file=rows.file_of(row["path"], row["size_bytes"], row["sha256"], row["rows"]),
                digests=digests,
                is_promised=row["is_promised"],
            )
            found[row["part"]].append(landed)
        return tuple(map(tuple, found))

    def landed_batches(self, stream: StreamName, query_id: str) -> Mapping[int, int]:
        """See `LandedFiles.landed_batches`."""
        found = self._rows("landed_batches", stream=stream, query_id=query_id)
        return {row["batch_id"]: row["records"] for row in found}

    def landed_queries(self, stream: StreamName) -> tuple[str, ...]:
        """See `LandedFiles.landed_queries`."""
        return tuple(row["query_id"] for row in self._rows("landed_queries", stream=stream))
