"""When a contract that notice was given of ends: the database's rules (`note_notice`, `ends_at`),
as two homes in memory go by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medusa_core.market.converging import CLOCK_MS_MAX


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Ending:
    """A statement, signed by `is_heard` the partner or else the giver, of when a notice ends."""

    ends_at_ms: int
    is_heard: bool


def end_of(notices: Mapping[str, Iterable[Ending]]) -> int | None:
    """When a contract ends: the earliest of both parties' notices, each of full length.

    `notices` by giver. A notice runs in full for the one that is given it, so what that one says
    counts as soon as it has said it; no other notice takes anything from it.
    """
    ends = []
    for statements in notices.values():
        given = list(statements)
        heard = [one.ends_at_ms for one in given if one.is_heard]
        ends += [min(heard or [one.ends_at_ms for one in given])] if given else []
    return min(ends, default=None)


def heard_end(told_ms: int, received_at_ms: int, notice_ms: int) -> int:
    """When a notice ends for the one that it was given to, by its own clock: as it was told, but
    not before its full length has run since it came."""
    return max(told_ms, received_at_ms + notice_ms)


def is_heard_in_time(heard_ms: int, told_ms: int, arrived_at_ms: int, notice_ms: int) -> bool:
    """Whether the giver believes when its partner says that it ends: not later than its full
    length after it arrived, for all that the clocks may differ."""
    return heard_ms <= max(told_ms, arrived_at_ms + notice_ms + CLOCK_MS_MAX)
