"""The only clock of `pipelines`: every other module reads time, or waits, through it.

There are two clocks. The monotonic clock measures durations and is never set back; the wall clock
names moments, for people and for other programs, and may jump. Decisions use neither: they take
time as an argument (`medusa_core`), and inside a home the database's clock alone decides.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic_s() -> float:
    """Seconds since an arbitrary moment; never goes back."""
    return time.monotonic()


def wall_s() -> float:
    """Seconds since the Unix epoch, as this machine's clock is set."""
    return time.time()


def wall_ns() -> int:
    """Nanoseconds since the Unix epoch, as this machine's clock is set."""
    return time.time_ns()


def now_utc() -> datetime:
    """The time of day in UTC, as this machine's clock is set."""
    return datetime.now(UTC)


def process_cpu_s() -> float:
    """CPU seconds that this process has used."""
    return time.process_time()


def process_cpu_ns() -> int:
    """CPU nanoseconds that this process has used."""
    return time.process_time_ns()


def thread_cpu_ns() -> int:
    """CPU nanoseconds that this thread has used."""
    return time.thread_time_ns()


def cpu_ns_of_thread(ident: int) -> int:
    """CPU nanoseconds that a live thread of this process has used, by `threading.get_ident`."""
    return time.clock_gettime_ns(time.pthread_getcpuclockid(ident))


def cpu_ns_of_process(pid: int) -> int:
    """CPU nanoseconds that all threads of a process have used; OSError if there is no such one."""
    # clock_getcpuclockid(3), which Python does not offer, computes this number from a process id.
    return time.clock_gettime_ns((~pid << 3) | 2)


def sleep_s(seconds: float) -> None:
    """Do nothing for so many seconds."""
    time.sleep(seconds)


async def sleep_async(seconds: float) -> None:
    """Suspend the current task for so many seconds; other tasks of its event loop run meanwhile."""
    import asyncio  # only callers with an event loop need it, and it takes long to import

    await asyncio.sleep(seconds)
