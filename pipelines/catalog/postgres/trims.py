"""Trims and compactions as the database gives and takes them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from medusa_core.names import StreamName
from medusa_core.segments import Producer, Segment, SegmentFile
from medusa_core.trims import TrimLimit, TrimResult
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.postgres.rows import file_of, files_document, line_fields
from pipelines.catalog.processing_roles import Trims


def trimmed_of(document: Mapping[str, Any]) -> TrimResult:
    """From the document of medusa.trim_line."""
    held = document["held_by"]
    return TrimResult(
        from_us=document["from_us"],
        trimmed_us=document["trimmed_us"],
        segments=document["segments"],
        rows=document["rows"],
        files=tuple(file_of(*found) for found in document["files"] or ()),
        has_more=document["has_more"],
        held_by=None if held is None else TrimLimit(**held),
    )


def compaction_documents(segments: Iterable[Segment], file: SegmentFile) -> dict[str, str]:
    """The arguments of medusa.compact_line but the line."""
    named = [
        {"from_us": s.range.from_us, "to_us": s.range.to_us, "version": s.version} for s in segments
    ]
    (document,) = files_document((file,))
    return {"segments": json.dumps(named), "file": json.dumps(document)}


class PostgresTrims(HomeDatabase, Trims):
    """Retention, trims and compactions."""

    def declare_retention(self, stream: StreamName, retention_ms: int | None) -> None:
        """See `Trims.declare_retention`."""
        self._value("declare_retention", stream=stream, retention_ms=retention_ms)

    def retentions(self) -> Mapping[StreamName, int]:
        """See `Trims.retentions`."""
        return {row["stream"]: row["retention_ms"] for row in self._rows("retentions")}

    def trim(self, stream: StreamName, producer: Producer, before_us: int, *,
             needed: Mapping[str, int], segments_max: int,
             explain: bool = False) -> TrimResult:  # fmt: skip
        """See `Trims.trim`: the numbers are in `medusa.trim_line`."""
        answer = self._value(
            "trim_line",
            **line_fields(stream, producer),
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
            **line_fields(stream, producer),
            **compaction_documents(segments, file),
        )
        return tuple(file_of(*found) for found in released)

    def named_files(self, paths: Collection[str]) -> frozenset[str]:
        """See `Trims.named_files`."""
        return frozenset(row["path"] for row in self._rows("named_files", paths=list(paths)))
