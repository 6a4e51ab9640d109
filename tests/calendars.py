"""Calendar windows by their definition: every instant at which a period could start is tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)


def period_starts(every: str, offsets: str, years: range) -> list[int]:
    """The starts of all periods in some years, in order; offsets are those of an Aggregate."""
    changes = [text.rpartition(":") for text in offsets.split()]
    since = [
        (int(at or -(10**13)) * 1_000_000, int(offset) * 1_000_000) for at, _, offset in changes
    ]
    offsets_us = {offset for _, offset in since}

    def local_us(at_us: int) -> int:
        return at_us + [offset for from_us, offset in since if from_us <= at_us][-1]

    found = set()
    for first in _firsts(every, years):
        midnight_us = (first - _EPOCH).days * DAY_US
        tried = {at for at, _ in since} | {midnight_us - offset for offset in offsets_us}
        near = sorted(at for at in tried if abs(at - midnight_us) <= 3 * DAY_US)
        found.add(next(at for at in near if local_us(at) >= midnight_us))
    return sorted(found)


def _firsts(every: str, years: Sequence[int]) -> Iterator[date]:
    day = date(years[0], 1, 1)
    while day.year in years:
        is_first = {
            "day": True, "week": day.isoweekday() == 1, "month": day.day == 1,
            "quarter": day.day == 1 and day.month in (1, 4, 7, 10),
            "year": (day.day, day.month) == (1, 1),
        }  # fmt: skip
        if is_first[every]:
            yield day
        day += timedelta(1)
