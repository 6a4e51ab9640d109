"""Times that were written without a zone: read in the zone that the source declares, or not at all.

Nothing is guessed. Without a declared zone such a time does not fit, and neither does one that a
change of the clocks skipped (02:30 on the last Sunday of March in Europe/Berlin) or repeated (02:30
on the last Sunday of October).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.zone_offsets import zone_offset_us

NO_ZONE = "has no time zone, and the source declares no time_zone"
_PLAIN = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")


def settle_zone(
    stamps: Any, zone: str | None, is_written: Any | None = None
) -> tuple[Any, dict[int, str]]:
    """Timestamps whose clock was read as UTC, as those of a zone, and the rows that do not fit.

    `is_written` marks the rows that were written without a zone; None: all of them.
    """
    is_plain = pc.is_valid(stamps)
    if is_written is not None:
        is_plain = pc.and_(is_plain, pc.fill_null(is_written, False))
    if zone == "UTC" or not pc.any(is_plain).as_py():
        return stamps, {}
    if zone is None:
        return pc.if_else(is_plain, None, stamps), _rows(is_plain, NO_ZONE)
    clocks = pc.cast(pc.if_else(is_plain, stamps, None), _UTC)
    clocks = pc.cast(clocks, _PLAIN)
    if (offset_us := zone_offset_us(zone)) is not None:
        moved = pc.subtract(clocks, pa.scalar(timedelta(microseconds=offset_us), pa.duration("us")))
        return pc.if_else(is_plain, pc.cast(moved, _UTC), stamps), {}
    early, late = (
        pc.assume_timezone(clocks, zone, ambiguous=which, nonexistent=which)
        for which in ("earliest", "latest")
    )
    is_doubtful = pc.fill_null(pc.not_equal(early, late), False)
    settled = pc.if_else(is_plain, pc.cast(early, _UTC), stamps)
    if not pc.any(is_doubtful).as_py():
        return settled, {}
    is_repeated = pc.and_(is_doubtful, pc.equal(pc.local_timestamp(early), clocks))
    is_skipped = pc.and_not(is_doubtful, is_repeated)
    failures = _rows(is_repeated, f"occurs twice in zone {zone}: write its offset")
    failures |= _rows(is_skipped, f"does not exist in zone {zone}: the clocks skip it")
    return pc.if_else(is_doubtful, None, settled), failures


def _rows(is_meant: Any, why: str) -> dict[int, str]:
    marked = np.asarray(pc.fill_null(is_meant, False).to_numpy(zero_copy_only=False), np.bool_)
    return dict.fromkeys(np.flatnonzero(marked).tolist(), why)
