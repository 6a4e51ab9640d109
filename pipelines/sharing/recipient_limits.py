"""What one recipient may use of the server, and what it has used.

Recipients have budgets, threads and connections to the catalog of their own, so that they take none
of a partner's. One thread of a low priority prepares files for all of them, a file at a time and in
turn. Counted in the server's one thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from anyio import to_thread

from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.catalog.sharing_records import RecipientUsage
from pipelines.exchange.server.partner_budgets import ServerLimits

NICE = 10
USAGE_S = 1.0
SERVER_LIMITS = ServerLimits(requests_max=32, memory_bytes_max=64 << 20, calls_max=2, threads_max=6)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingLimits:
    """Limits of each recipient.

    `burst_max` requests are answered at once, then `requests_per_s`; requests for files are not
    counted there, but are sent with `bytes_per_s` at most. `files_max`: of one answer.
    """

    requests_per_s: float = 20.0
    burst_max: int = 400
    bytes_per_s: float = 256 << 20
    files_max: int = 10_000
    page_max: int = 1_000
    server: ServerLimits = field(default_factory=lambda: SERVER_LIMITS)


class RequestRate:
    """How many requests each recipient may send now."""

    def __init__(
        self, limits: SharingLimits, now_s: Callable[[], float] = clock.monotonic_s
    ) -> None:
        self._limits = limits
        self._now_s = now_s
        self._left: dict[str, tuple[float, float]] = {}
        self._free_s: dict[str, float] = {}

    def take(self, recipient: str) -> bool:
        """Count one request; False if it is one too many."""
        now_s = self._now_s()
        left, at_s = self._left.get(recipient, (float(self._limits.burst_max), now_s))
        left = min(left + (now_s - at_s) * self._limits.requests_per_s, self._limits.burst_max)
        is_free = left >= 1
        self._left[recipient] = left - 1 if is_free else left, now_s
        return is_free

    def wait_s(self, recipient: str, size_bytes: int) -> float:
        """For how long to wait before so many bytes are sent."""
        now_s = self._now_s()
        free_s = max(self._free_s.get(recipient, now_s), now_s)
        self._free_s[recipient] = free_s + size_bytes / self._limits.bytes_per_s
        return free_s - now_s


class UsageMeter:
    """What recipients used; `note` stores it, in a thread, a second after the first of it.

    What was used in the last second before a server is killed is lost.
    """

    def __init__(self, note: Callable[[Sequence[RecipientUsage]], None]) -> None:
        self._note = note
        self._used: dict[tuple[str, str], list[int]] = {}
        self._noting: asyncio.Task[None] | None = None

    def count(
        self, recipient: str, stream: str = "", *, requests: int = 0, rows: int = 0, bytes_: int = 0
    ) -> None:
        """Add to what a recipient used."""
        used = self._used.setdefault((recipient, stream), [0, 0, 0])
        for position, more in enumerate((requests, rows, bytes_)):
            used[position] += more
        if self._noting is None or self._noting.done():
            self._noting = asyncio.get_running_loop().create_task(self._note_soon())

    async def _note_soon(self) -> None:
        await clock.sleep_async(USAGE_S)
        used, self._used = self._used, {}
        try:
            await to_thread.run_sync(self._note, _records(used))
        except MedusaError as error:
            log.warning("the usage of recipients is noted later: %s", error)
            for key, its in used.items():
                now = self._used.setdefault(key, [0, 0, 0])
                self._used[key] = [a + b for a, b in zip(now, its, strict=True)]

    def close(self) -> None:
        """Note what is left; the loop has ended."""
        used, self._used = self._used, {}
        try:
            if used:
                self._note(_records(used))
        except MedusaError as error:
            log.warning("the last usage of recipients is lost: %s", error)


def _records(used: Mapping[tuple[str, str], Sequence[int]]) -> tuple[RecipientUsage, ...]:
    return tuple(
        RecipientUsage(recipient=recipient, stream=stream, requests=n, rows=rows, bytes=sent)
        for (recipient, stream), (n, rows, sent) in used.items()
    )


def claimant_of(recipient: str) -> Participant:
    """A recipient among those that have budgets: no participant has a name with a space."""
    return Participant(f"recipient {recipient}")


def preparing_thread() -> ThreadPoolExecutor:
    """One thread of a low priority."""
    return ThreadPoolExecutor(1, "medusa-sharing", initializer=_lower_priority)


def _lower_priority() -> None:
    # On Linux a thread has a priority of its own.
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
