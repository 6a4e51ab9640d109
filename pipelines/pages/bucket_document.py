"""A bucket of a stream as a document: its history, its lineage, the rows that were corrected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medusa_core.errors import Refused
from medusa_core.grid import TIME_US_MAX, TIME_US_MIN, floor_us
from medusa_core.names import Participant
from pipelines.base.time_text import parse_time_us
from pipelines.pages.bucket_figures import BucketFigures, read_bucket
from pipelines.pages.page_kinds import Document, Request

EXAMPLE = "2024-04-19T08:00:00Z"


def parse_bucket(given: str | None) -> tuple[int | None, str | None]:
    """A time in the bucket, in microseconds (`us` behind it) or as ISO 8601; or what is wrong."""
    given = (given or "").strip()[:60]
    if not given:
        return None, None
    try:
        number = given.removesuffix("us")
        is_us = number != given and number.removeprefix("-").isdigit() and number.isascii()
        time_us = int(number) if is_us else parse_time_us("bucket", given)
    except Refused as refused:
        return None, str(refused)
    if not TIME_US_MIN <= time_us < TIME_US_MAX:
        return None, f"bucket {given!r} is outside the calendar: write a time such as {EXAMPLE}"
    return time_us, None


def bucket_document(
    request: Request, home: Participant, line: Mapping[str, Any], time_us: int
) -> Document | None:
    """The bucket of a line that a time is in; None if it was never read."""
    from_us = floor_us(time_us, line["width_us"])
    part = f"bucket {line['line_id']} {from_us}"
    figures: BucketFigures | None = request.of_home(
        home, part, lambda snapshot: read_bucket(snapshot, line, from_us)
    )
    if figures is None:
        return None
    return {
        "from_us": figures.range[0],
        "to_us": figures.range[1],
        "history": list(figures.history),
        "nodes": [
            {**node, "home": node["participant"] if node["participant"] in request.homes else None}
            for node in figures.nodes
        ],
        "edges": [list(edge) for edge in figures.edges],
        "is_whole": figures.is_whole,
        "rows": figures.rows,
    }
