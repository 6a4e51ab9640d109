"""The part of a line's event time that a page shows, as its address names it.

`span` is a length that ends with the newest bucket (`15m`, `1h`, `6h`, `24h`, `all`); `from` and
`to` are times. The default is the last hour. A value that is no time is left out, and named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.grid import TIME_US_MAX, TIME_US_MIN, ceil_us, floor_us
from pipelines.base.time_text import parse_time_us

HOUR_US = 3_600_000_000
SPANS = {"15m": HOUR_US // 4, "1h": HOUR_US, "6h": 6 * HOUR_US, "24h": 24 * HOUR_US, "all": None}
CELLS_MAX = 160
"""So many cells a timeline has at most, however many buckets there are."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """What an address asks for: a span, or either end."""

    span: str = "1h"
    from_us: int | None = None
    to_us: int | None = None
    problem: str | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether an end is given."""
        return self.from_us is not None or self.to_us is not None


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of equal length, whole buckets each, from `from_us` on."""

    from_us: int
    cell_us: int
    count: int

    @property
    def to_us(self) -> int:
        """Where the last one ends."""
        return self.from_us + self.cell_us * self.count


def parse_range(query: Mapping[str, str]) -> TimeRange:
    """The range that the values after `?` name."""
    span, problem = query.get("span") or "1h", None
    if span not in SPANS:
        span, problem = "1h", f"{span[:40]!r} is no span: choose one of {', '.join(SPANS)}"
    ends: dict[str, int | None] = {}
    for name in ("from", "to"):
        given = query.get(name, "").strip()
        try:
            ends[name] = parse_time_us(name, given[:60]) if given else None
        except Refused as refused:
            ends[name], problem = None, str(refused)
    return TimeRange(span, ends["from"], ends["to"], problem)


def cells_of(requested: TimeRange, begins_us: int, ends_us: int, width_us: int) -> Cells:
    """Cells over what is requested of a line that has rows in `[begins_us, ends_us)`."""
    to_us = ends_us if requested.to_us is None else requested.to_us
    if requested.from_us is not None:
        from_us = requested.from_us
    else:
        length_us = SPANS[requested.span]
        from_us = begins_us if length_us is None else max(to_us - length_us, begins_us)
    from_us, to_us = _inside(from_us, width_us), _inside(to_us, width_us)
    if to_us <= from_us:
        to_us = from_us + width_us
    first, last = floor_us(from_us, width_us), ceil_us(to_us, width_us)
    buckets = max((last - first) // width_us, 1)
    per_cell = -(-buckets // CELLS_MAX)
    return Cells(first, per_cell * width_us, -(-buckets // per_cell))


def _inside(time_us: int, width_us: int) -> int:
    """Within the calendar, a cell away from its ends."""
    return min(max(time_us, TIME_US_MIN + width_us), TIME_US_MAX - width_us)
