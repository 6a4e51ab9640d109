"""Faults planted in a copy of the facts, so that each check can be seen to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from medusa_core.errors import Refused
from medusa_core.grid import Range, floor_us
from medusa_core.names import StreamName, Version
from medusa_core.segments import Segment, Stability
from pipelines.quality.stored_rows import STIME
from pipelines.quality.window_facts import Facts

LATE_BOUND_MS = 10_000
"""The bound that the copy of a stream without a bound gets, so that a result can be late."""


def broken(mode: str, found: Sequence[Facts]) -> list[Facts]:
    """The facts with a fault in the first window that it applies to; Refused if there is none."""
    for at, facts in enumerate(found):
        copy = _MODES[mode](facts)
        if copy is not None:
            return [*found[:at], copy, *found[at + 1 :]]
    raise Refused(
        f"--break {mode} does not apply: choose a window with results of a stream that is computed "
        "here"
    )


def _with_rows(change: Callable[[pa.Table, Facts], pa.Table]) -> Callable[[Facts], Facts | None]:
    def break_rows(facts: Facts) -> Facts | None:
        if facts.recomputed is None or not facts.stable.num_rows:
            return None
        return replace(facts, stable=change(facts.stable, facts))

    return break_rows


def _lose_row(rows: pa.Table, facts: Facts) -> pa.Table:
    middle = rows.num_rows // 2
    return pa.concat_tables([rows.slice(0, middle), rows.slice(middle + 1)])


def _duplicate_row(rows: pa.Table, facts: Facts) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(rows.num_rows // 2, 1)])


def _change_value(rows: pa.Table, facts: Facts) -> pa.Table:
    middle = rows.num_rows // 2
    column = facts.columns[-1]
    field = rows.schema.field(column.name)
    value = rows.column(column.name)[middle].as_py()
    changed = pa.array([_another(value, column.type)], field.type)
    row = rows.slice(middle, 1).set_column(rows.schema.get_field_index(column.name), field, changed)
    return pa.concat_tables([rows.slice(0, middle), row, rows.slice(middle + 1)])


def _change_type(facts: Facts) -> Facts | None:
    """The stream's last number or boolean is declared as a text."""
    if facts.recomputed is None:
        return None
    columns = list(facts.columns)
    for at in reversed(range(len(columns))):
        if columns[at].type not in ("string", "binary", "date", "timestamp"):
            columns[at] = replace(columns[at], type="string")
            return replace(facts, columns=tuple(columns))
    return None


def _another(value: Any, type_: str) -> Any:
    """Another value of the type."""
    if value is None:
        zeros: Mapping[str, Any] = {"boolean": False, "string": "", "binary": b"", "double": 0.0}
        return zeros.get(type_, Decimal(0) if type_.startswith("decimal") else 0)
    match type_:
        case "boolean":
            return not value
        case "string":
            return f"{value}'"
        case "binary":
            return value + b"\0"
        case "double":
            return 0.0 if value else 1.0
        case "int" | "bigint":
            return value - 1 if value > 0 else value + 1
    return None


def _skip_correction(facts: Facts) -> Facts | None:
    """The last bucket with rows as it was before a correction: tentative."""
    if not facts.stable.num_rows:
        return None
    width_us = facts.subject.status.stream.width_us
    last_us = max(facts.stable[STIME].to_pylist())
    bucket = Range(floor_us(last_us, width_us), floor_us(last_us, width_us) + width_us)
    missing = (StreamName("an_input"),)
    segments: list[Segment] = []
    for segment in facts.segments:
        if not segment.range.overlaps(bucket):
            segments.append(segment)
            continue
        for from_us, to_us, is_it in (
            (segment.range.from_us, bucket.from_us, False),
            (bucket.from_us, bucket.to_us, True),
            (bucket.to_us, segment.range.to_us, False),
        ):
            if from_us < to_us:
                part = Range(from_us, to_us)
                label = {"stability": Stability.TENTATIVE, "missing": missing} if is_it else {}
                cut = replace(segment, range=part, buckets=segment.within(part))
                segments.append(replace(cut, **label) if label else cut)  # type: ignore[arg-type]
    inside = [bucket.holds(at) for at in facts.stable[STIME].to_pylist()]
    stable = facts.stable.filter(pa.array([not is_in for is_in in inside]))
    recomputed = facts.recomputed
    if recomputed is not None:
        outside = [not bucket.holds(at) for at in recomputed[STIME].to_pylist()]
        recomputed = recomputed.filter(pa.array(outside, pa.bool_()))
    return replace(facts, segments=tuple(segments), stable=stable, recomputed=recomputed)


def _boundary_back(facts: Facts) -> Facts | None:
    """A version after the last one, without the line's last segment."""
    if not facts.events:
        return None
    last = max(facts.events, key=lambda event: event.range.to_us)
    newest = max(event.begin_version for event in facts.events)
    events = [event for event in facts.events if event is not last]
    gone = replace(last, end_version=Version(newest + 1))
    return replace(facts, events=(*events, gone))


def _late(facts: Facts) -> Facts | None:
    """A first arrival one minute after the bound."""
    bound_ms = facts.bound_ms or LATE_BOUND_MS
    for at, event in enumerate(facts.events):
        if event.inputs_at_ms is not None:
            late = replace(event, committed_at_ms=event.inputs_at_ms + bound_ms + 60_000)
            events = (*facts.events[:at], late, *facts.events[at + 1 :])
            return replace(facts, events=events, bound_ms=bound_ms)
    return None


_MODES: Mapping[str, Callable[[Facts], Facts | None]] = {
    "lose-row": _with_rows(_lose_row),
    "duplicate-row": _with_rows(_duplicate_row),
    "change-value": _with_rows(_change_value),
    "change-type": _change_type,
    "skip-correction": _skip_correction,
    "boundary-back": _boundary_back,
    "late": _late,
}
MODES = tuple(_MODES)
