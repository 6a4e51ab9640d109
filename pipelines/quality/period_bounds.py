"""Calendar windows found by trying: the start of a period is the least of its possible instants.

Under each offset of a zone, clocks show the midnight of a date once, and a date that has begun
under an earlier offset is shown from the instant at which the next one holds. The first instant of
a period is the least of these. Dates are NumPy's. Nothing of `medusa_core.calendar_windows` is used
but the text in which a plan has the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.network import Aggregate

DAY_US = 86_400_000_000
_UNITS = {"day": (1, "D"), "month": (1, "M"), "quarter": (3, "M"), "year": (1, "Y")}
_FURTHEST_DAYS = 2
"""No clock is further from UTC."""


def offset_spans(offsets: str) -> list[tuple[int, int, int]]:
    """From when and before when each offset of a zone holds, and the offset, in microseconds."""
    texts = [text.rpartition(":") for text in offsets.split()]
    begins = [int(at) * 1_000_000 if at else BEGINNING_US for at, _, _ in texts]
    values = [int(offset) * 1_000_000 for _, _, offset in texts]
    return list(zip(begins, (*begins[1:], FOREVER_US), values, strict=True))


def period_at(box: Aggregate, at_us: int) -> Range:
    """The calendar window of an Aggregate that holds an instant."""
    (found,) = (one for one in periods_around(box, [at_us // DAY_US]) if one.holds(at_us))
    return found


def periods_around(box: Aggregate, days: Iterable[int]) -> set[Range]:
    """The calendar windows of an Aggregate that hold an instant of some days in UTC, and more."""
    every, spans = str(box.every), offset_spans(str(box.zone_offsets))
    found: set[Range] = set()
    for day in days:
        first, last = (_number(every, day + away) for away in (-_FURTHEST_DAYS, _FURTHEST_DAYS))
        starts = {_start_us(_first_day(every, at), spans) for at in range(first, last + 2)}
        found |= {Range(a, b) for a, b in pairwise(sorted(starts))}
    return found


def _number(every: str, day: int) -> int:
    """The number of the period that holds a day, counted from the one of 1970-01-01."""
    if every == "week":
        return (day + 3) // 7
    many, unit = _UNITS[every]
    counted = np.datetime64(day, "D").astype(f"datetime64[{unit}]")
    return int(counted.astype(np.int64)) // many


def _first_day(every: str, number: int) -> int:
    if every == "week":
        return 7 * number - 3
    many, unit = _UNITS[every]
    counted = np.array(many * number).astype(f"datetime64[{unit}]")
    return int(counted.astype("datetime64[D]").astype(np.int64))


def _start_us(day: int, spans: Iterable[tuple[int, int, int]]) -> int:
    instants = ((max(a, day * DAY_US - offset), b) for a, b, offset in spans)
    return min(instant for instant, before in instants if instant < before)
