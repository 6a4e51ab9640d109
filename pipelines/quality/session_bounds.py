"""The sessions that records are in, found by a loop over the records of each key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import pyarrow as pa

from medusa_core.grid import Range
from medusa_core.network import Session


def session_bounds(box: Session, records: pa.Table, time: str) -> Sequence[Range]:
    """For each record, its session: the first time, and the last time + the gap.

    `time` is the column of event time in microseconds.
    """
    times: list[int] = records[time].to_pylist()
    keys = [map(_comparable, records[name].to_pylist()) for name in box.by]
    of_key: dict[tuple[Hashable, ...], list[int]] = {}
    for at, key in enumerate(zip(*keys, strict=True) if keys else [()] * len(times)):
        of_key.setdefault(key, []).append(at)
    found: dict[int, Range] = {}
    for places in of_key.values():
        places.sort(key=times.__getitem__)
        for session in _sessions(box, places, times):
            bounds = Range(times[session[0]], times[session[-1]] + box.gap_us)
            found |= dict.fromkeys(session, bounds)
    return [found[at] for at in range(len(times))]


def _sessions(box: Session, places: Iterable[int], times: Sequence[int]) -> Iterable[list[int]]:
    """Places of the records of one key in the order of time, by session."""
    session: list[int] = []
    cut_us = last_us = 0
    for at in places:
        if not session or times[at] - last_us >= box.gap_us:
            yield from [session] if session else []
            session, cut_us = [], times[at] + box.length_us_max
        elif times[at] >= cut_us:
            yield session
            session = []
        if times[at] >= cut_us:
            cut_us = (times[at] // box.length_us_max + 1) * box.length_us_max
        session.append(at)
        last_us = times[at]
    if session:
        yield session


def _comparable(value: Hashable) -> Hashable:
    """A value that is equal to those of the same key: NaN is one."""
    return "NaN" if isinstance(value, float) and value != value else value
