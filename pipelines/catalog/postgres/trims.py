"""Trims and compactions as the database gives and takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from medusa_core.segments import Segment, SegmentFile
from medusa_core.trims import TrimLimit, TrimResult
from pipelines.catalog.postgres.rows import file_of, files_document


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
    """What medusa.compact_line takes, beside the line."""
    named = [
        {"from_us": s.range.from_us, "to_us": s.range.to_us, "version": s.version} for s in segments
    ]
    (document,) = files_document((file,))
    return {"segments": json.dumps(named), "file": json.dumps(document)}
