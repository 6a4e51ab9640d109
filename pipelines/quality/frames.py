"""Facts as tables for expectations: a row for each thing that can be wrong."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import pandas as pd

from medusa_core.certificates import LineEvent
from medusa_core.first_outputs import delay_ms_of, first_arrivals
from medusa_core.grid import Range, floor_us
from pipelines.base.time_text import iso
from pipelines.quality.stored_rows import STIME
from pipelines.quality.window_facts import Facts

HOLE = "missing"


def pieces_frame(facts: Facts) -> pd.DataFrame:
    """The window cut into segments and holes: label, and rows by catalog and by file."""
    width_us = facts.subject.status.stream.width_us
    found: dict[int, int] = {}
    for at in facts.stable[STIME].to_pylist():
        start = floor_us(at, width_us)
        found[start] = found.get(start, 0) + 1
    rows = []
    at_us = facts.window.from_us
    for segment in sorted(facts.segments, key=lambda s: s.range):
        part = segment.range.intersection(facts.window)
        if part is None:
            continue
        if at_us < part.from_us:
            rows.append(_piece(Range(at_us, part.from_us), HOLE, "", 0, 0))
        counted = {at: digest.rows for at, digest in segment.within(part).items()}
        is_final = segment.stability.is_final
        in_files = sum(n for at, n in found.items() if part.holds(at)) if is_final else 0
        in_catalog = sum(counted.values())
        missing = ", ".join(segment.missing)
        label = segment.stability.value
        rows.append(_piece(part, label, missing, in_catalog, in_files if is_final else in_catalog))
        at_us = max(at_us, part.to_us)
    if at_us < facts.window.to_us:
        rows.append(_piece(Range(at_us, facts.window.to_us), HOLE, "", 0, 0))
    return pd.DataFrame(rows)


def _piece(
    part: Range, label: str, missing: str, in_catalog: int, in_files: int
) -> dict[str, object]:
    return {
        "from": iso(part.from_us),
        "to": iso(part.to_us),
        "label": label,
        "missing_inputs": missing,
        "length_us": part.to_us - part.from_us,
        "rows_in_catalog": in_catalog,
        "rows_in_files": in_files,
    }


def versions_frame(facts: Facts) -> pd.DataFrame:
    """The versions of the line: how far its rows reach without a hole, how many were replaced.

    Rows that a recall took back are not counted: a recall begins another generation.
    """
    rows = [
        {
            "version": version,
            "boundary": iso(boundary_us),
            "boundary_us": boundary_us,
            "final_rows_replaced": 0 if version in facts.recalled_at else replaced,
            "generation": 1 + sum(at <= version for at in facts.recalled_at),
        }
        for version, boundary_us, replaced in boundaries(facts.window, facts.events)
    ]
    columns = ["version", "boundary", "boundary_us", "final_rows_replaced", "generation"]
    return pd.DataFrame(rows, columns=columns)


def boundaries(window: Range, events: Sequence[LineEvent]) -> Iterator[tuple[int, int, int]]:
    """Each version, the boundary after it, and how many final segments it replaced."""
    begun: dict[int, list[LineEvent]] = {}
    ended: dict[int, list[LineEvent]] = {}
    for event in events:
        begun.setdefault(event.begin_version, []).append(event)
        if event.end_version is not None:
            ended.setdefault(event.end_version, []).append(event)
    live: list[Range] = []
    boundary_us = window.from_us
    for version in sorted({*begun, *ended}):
        replaced = 0
        for event in ended.get(version, ()):
            replaced += event.stability.is_final
            at = bisect_left(live, event.range)
            if at < len(live) and live[at] == event.range:
                del live[at]
                boundary_us = min(boundary_us, max(window.from_us, event.range.from_us))
        for event in begun.get(version, ()):
            if event.end_version != version:
                insort(live, event.range)
        # A segment that begins before the boundary may end behind it: one step back is enough,
        # since live segments do not overlap.
        at = max(0, bisect_left(live, Range(boundary_us, boundary_us + 1)) - 1)
        while at < len(live) and live[at].from_us <= boundary_us:
            boundary_us = max(boundary_us, live[at].to_us)
            at += 1
        yield version, boundary_us, replaced


def arrivals_frame(facts: Facts) -> pd.DataFrame:
    """The first results of each part of the window, and their delay after their inputs."""
    rows = []
    for event, part in first_arrivals(facts.window, facts.events):
        waited_ms = delay_ms_of(event)
        if waited_ms is None:
            continue
        rows.append(
            {
                "from": iso(part.from_us),
                "to": iso(part.to_us),
                "label": event.stability.value,
                "version": event.begin_version,
                "delay_ms": waited_ms,
            }
        )
    return pd.DataFrame(rows, columns=["from", "to", "label", "version", "delay_ms"])
