"""A live source as the participant's loop sees it: polled, it lands new records and promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from medusa_core.names import StreamName

if TYPE_CHECKING:
    from pipelines.sources.live.lander import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What one poll did: records landed and put into quarantine, batches logged.

    `late` and `unconfirmed` are among the `quarantined`. `boundary_us` is what is promised now
    (None: nothing yet), and `because` why. `has_more`: more can be landed at once, so poll again
    without waiting. `waiting_files` and `waiting_records` are how many were seen and have not
    landed (None: the source cannot tell), `has_waiting` whether there are any. Where one query
    feeds several streams, `members` tells the same of each, and `unclaimed` counts the records that
    are none of theirs. `left_out` says what is there and will not be read, until it is removed.
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
    unclaimed: int = 0
    left_out: str = ""
    members: Mapping[StreamName, Polled] = field(default_factory=dict)


class BatchLander(Protocol):
    """What lands a source's batches: for one stream (`lander`) or several (`shared_lander`)."""

    stream: StreamName
    last_batch: int

    @property
    def at(self) -> Mapping[str, Any]:
        """How far the source had read behind the last batch, in words of its own."""

    def resume(self) -> None:
        """Take up what the catalog holds."""

    def land(
        self,
        batch_id: int,
        pieces: Sequence[Piece],
        *,
        now_ms: int,
        limit_us: int | None = None,
        at: Mapping[str, Any],
    ) -> None:
        """Judge the records of a batch and log it with the state behind it, once."""

    def promise(self, now_us: int, *, has_all: bool) -> None:
        """Promise what the rule allows now."""

    def polled(
        self,
        *,
        has_more: bool = False,
        waiting_files: int | None = None,
        waiting_records: int | None = None,
    ) -> Polled:
        """What has been done since the last call, and what waits."""


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
