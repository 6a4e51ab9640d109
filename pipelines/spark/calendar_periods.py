"""Calendar windows in Spark SQL: the start and the end of the period that holds a record.

Spark's own functions of time zones read the database of the JVM, which may be another than that of
the plan. So the offsets of the zone are in the text, as arrays. Which offset holds at an instant is
looked up in constant time: cells of equal length say what holds where they begin, and a few
comparisons find the rest. Dates have no zone: their functions are Spark's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medusa_core.calendar_windows import DAY, DAY_US, MONTH, QUARTER, WEEK, YEAR, CalendarWindows
from pipelines.storage.arrow_schema import STIME

_CELL_US = 90 * DAY_US
_MONTHS = {MONTH: 1, QUARTER: 3, YEAR: 12}
_LENGTHS_US = {DAY: (DAY_US, 0), WEEK: (7 * DAY_US, 3 * DAY_US)}
"""With how long before 1970-01-01 such a period began."""


def in_periods(windows: CalendarWindows, input_: str, start: str, end: str) -> str:
    """The records of a relation with the start and the end of their window, in microseconds."""
    clock = windows.clock
    begins, offsets = _array(clock.begins_us), _array(clock.offsets_us)
    of_time, of_shown = _Bounds(clock.begins_us[1:]), _Bounds(clock.shown_us[:-1])
    rows = of_time.looked_up(f"SELECT * FROM {input_}", STIME, "_offset_at")
    rows = f"SELECT *, {STIME} + {offsets}[_offset_at] AS _local FROM ({rows})"
    rows = _with_midnights(windows.every, rows)
    rows = of_shown.looked_up(rows, "_from", "_from_at")
    rows = of_shown.looked_up(rows, "_to", "_to_at")
    starts = (
        f"greatest({begins}[{at}], {midnight} - {offsets}[{at}]) AS {name}"
        for midnight, at, name in (("_from", "_from_at", start), ("_to", "_to_at", end))
    )
    return f"SELECT *, {', '.join(starts)} FROM ({rows})"


def _with_midnights(every: str, rows: str) -> str:
    """Rows with the local times at which their period and the next one begin."""
    if every in _MONTHS:
        day = f"CAST((_local - pmod(_local, {DAY_US}L)) div {DAY_US}L AS INT)"
        rows = f"SELECT *, trunc(date_from_unix_date({day}), '{every}') AS _first FROM ({rows})"
        following = f"add_months(_first, {_MONTHS[every]})"
        first, last = (f"unix_date({date}) * {DAY_US}L" for date in ("_first", following))
        return f"SELECT *, {first} AS _from, {last} AS _to FROM ({rows})"
    length_us, ahead_us = _LENGTHS_US[every]
    first = f"_local - pmod(_local + {ahead_us}L, {length_us}L)"
    rows = f"SELECT *, {first} AS _from FROM ({rows})"
    return f"SELECT *, _from + {length_us}L AS _to FROM ({rows})"


def _array(values: Iterable[int]) -> str:
    """Numbers as an array: one text, which is parsed once, however many they are."""
    return f"CAST(split('{','.join(map(str, values))}', ',') AS ARRAY<BIGINT>)"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Numbers in ascending order."""

    bounds: Sequence[int]

    def looked_up(self, rows: str, value: str, name: str) -> str:
        """Rows with one column more: how many bounds are at most a value of the row."""
        if not self.bounds:
            return f"SELECT *, 0 AS {name} FROM ({rows})"
        first = self.bounds[0]
        cells = (self.bounds[-1] - first) // _CELL_US + 1
        known = [bisect_right(self.bounds, first + cell * _CELL_US) for cell in range(cells)]
        more = max(b - a for a, b in zip(known, (*known[1:], len(self.bounds)), strict=True))
        cell = f"({value} - {first}L) div {_CELL_US}L"
        near = f"{_array(known)}[CAST(least(greatest({cell}, 0L), {cells - 1}L) AS INT)]"
        near = f"IF({value} < {first}L, 0, CAST({near} AS INT))"
        rows = f"SELECT *, {near} AS {name}_near FROM ({rows})"
        # Behind the last bound are none that a value could reach.
        padded = _array((*self.bounds, *(2**63 - 1 for _ in range(more))))
        further = "".join(
            f" + IF({value} >= {padded}[{name}_near + {at}], 1, 0)" for at in range(more)
        )
        return f"SELECT *, {name}_near{further} AS {name} FROM ({rows})"
