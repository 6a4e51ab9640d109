"""Spans of event time, [j * within, (j + 1) * within): they are fixed to the Unix epoch.

A box that reads records by spans needs, for its rows in [a, b), the records in
[floor(a, within), b), where floor gives the beginning of the span. So its rows are a function of
buckets of the input, and nothing is kept from one span to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.errors import Refused
from medusa_core.grid import Range, floor_us, parse_duration_us
from medusa_core.names import check_name


def needed_range(part: Range, within_us: int) -> Range:
    """The range of the input that the output positions in `part` need, from the span's start on."""
    return Range(floor_us(part.from_us, within_us), part.to_us)


def check_within(owner: str, within: str) -> None:
    """Refuse a length of spans that is no duration; `owner` is the box in errors."""
    try:
        parse_duration_us(within)
    except Refused as error:
        raise Refused(f"within of {owner}: {error}") from None


def check_columns(owner: str, columns: Mapping[str, str], example: str) -> None:
    """Refuse wrong names of aggregates, and none at all; `owner` is the box in errors."""
    if not columns:
        raise Refused(f"{owner} has no columns: write columns={{{example}}}, names and aggregates")
    for name in columns:
        check_name(f"column of {owner},", name)


def check_keys(owner: str, by: tuple[str, ...]) -> None:
    """Refuse keys that are no names or are named twice; `owner` is the box in errors."""
    for name in by:
        check_name(f"key of {owner},", name)
    if len(set(by)) < len(by):
        raise Refused(f"{owner} has a key twice among {', '.join(by)}: name each once")
