"""A live source as the participant's loop sees it: polled, it lands what has come and promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What one poll did: records landed and put into quarantine, batches logged.

    `late` and `unconfirmed` are among the `quarantined`. `boundary_us` is what is promised now
    (None: nothing yet), and `because` why. `has_more`: more can be landed at once, so poll again
    without waiting. `waiting_files` and `waiting_records` are how many were seen and have not
    landed (None: the source cannot tell), `has_waiting` whether there are any.
    """

    landed: int = 0
    quarantined: int = 0
    late: int = 0
    unconfirmed: int = 0
    batches: int = 0
    boundary_us: int | None = None
    because: str = ""
    has_more: bool = False
    has_ended: bool = False
    waiting_files: int | None = None
    waiting_records: int | None = None
    has_waiting: bool = False


class LiveSource(Protocol):
    """One source of one home. Not for several threads at once.

    After any error the next poll goes on from what the catalog holds, as a restarted process does.
    """

    def poll(self, now_ms: int) -> Polled:
        """Land what has come until now and promise what can be promised.

        `now_ms` is the catalog's clock, read just before. Raises Refused if the source cannot be
        read as declared, Conflict if the lease is lost, Unavailable or OutcomeUnknown if a part is
        away.
        """

    def close(self) -> None:
        """Let go of what the source holds; nothing of it runs any more."""
