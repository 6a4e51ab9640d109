"""The server's queue of notifications: an alarm while it fills up.

Postgres keeps a notification until every session that listens has read it, and one that listens
in an open transaction reads none. All homes of a server share the queue; while it is full, every
commit that notifies fails.
"""

from __future__ import annotations

from collections.abc import Callable

ALARM = "notifications of the catalog's server"
USED_MAX = 0.1
"""Of the queue. It holds 8 GB by default: an undisturbed server uses nearly nothing of it."""


def queue_sentence(used: float) -> str:
    """What to say of a queue of which so much is in use."""
    return (
        f"{used:.0%} of the server's queue of notifications is in use, and commits fail when it is "
        "full: end the session that listens in an old transaction (pg_stat_activity, xact_start)"
    )


class NotificationQueue:
    """Raises and ends the alarm; `used` asks the server, `alarm` is the observer's."""

    def __init__(self, used: Callable[[], float], alarm: Callable[[str, str | None], None]) -> None:
        self._used = used
        self._alarm = alarm

    def check(self) -> None:
        """Ask once; raises what `used` raises."""
        used = self._used()
        self._alarm(ALARM, queue_sentence(used) if used > USED_MAX else None)
