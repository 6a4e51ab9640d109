"""Views: named parts of streams that a home keeps for queries over its history.

A view is a hold with a name. One of the last records or of the last duration moves on with the
stream; one of a range of event time stays. Its limit counts from its last use, so that a view that
nobody reads does not fill a disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.names import StreamName

HOLD_MS = 30 * 86_400_000
"""How long a view is kept after each use, by default."""

HOLD_US_MAX = 366 * 86_400_000_000

READING_MS = 86_400_000
"""How long the buckets of a view are held for one replay that reads them."""

RECORDS_MAX = 10**12


def view_hold_ms_of(given: str) -> int:
    """Milliseconds of `--hold`; Refused unless it is a duration from 1ms to 366d."""
    hold_us = parse_duration_us(given)
    if not 1_000 <= hold_us <= HOLD_US_MAX:
        raise Refused(f"--hold {given} is out of range: a view is kept for 1ms to 366d")
    return hold_us // 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """A named part of a stream: one of `records`, `duration_us` and `from_us` is given.

    `to_us` None: the range has no end. `begins_us` is where the view begins now, None before the
    stream has begun; `used_at_ms` by the home's clock, from which `limit_ms` counts.
    """

    name: str
    stream: StreamName
    records: int | None = None
    duration_us: int | None = None
    from_us: int | None = None
    to_us: int | None = None
    begins_us: int | None = None
    limit_ms: int | None = None
    used_at_ms: int | None = None
    is_expired: bool = False
