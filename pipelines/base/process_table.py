"""Facts about a process of this machine: its start, group, session, and whether it is stopped.

The system reuses the number of a process after its end. Number and start together identify a
process: the start counts from the machine's boot, so setting the clock does not change it.
"""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Two boots may start the same number at the same moment; psutil does not tell boots apart."""

TICKS_PER_S = 100
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
_FROZEN = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


@dataclass(frozen=True, slots=True)
class Seen:
    """A process now. `started` is `BOOT TICKS`; `session` is 0 where the system hides it."""

    started: str
    group: int
    session: int
    is_frozen: bool


def look_at(pid: int) -> Seen | None:
    """The process of a number; None without one, or if it has ended and is not yet reaped."""
    if pid < 1:
        return None
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            status = process.status()
            since_boot = ticks_since_boot(process)
        group, session = os.getpgid(pid), session_of(pid)
        # Its number may have been given again while the facts were read.
        if status in _ENDED or not process.is_running():
            return None
    except (psutil.Error, OSError):
        return None
    return Seen(
        started=f"{_boot()} {since_boot}",
        group=group,
        session=session,
        is_frozen=status in _FROZEN,
    )


def session_of(pid: int) -> int:
    """The session of a process; 0 if there is none or the system hides it."""
    with suppress(OSError):
        return os.getsid(pid)
    return 0


def ticks_since_boot(process: psutil.Process) -> int:
    """When a process began, in hundredths of a second since boot.

    psutil adds the time of the boot, which moves when the clock is set; this takes it off again.
    Raises psutil.Error if the process is gone.
    """
    while True:
        boot_s = psutil.boot_time()
        since_s: float = psutil.Process(process.pid).create_time() - boot_s
        if psutil.boot_time() == boot_s:
            return round(since_s * TICKS_PER_S)


def process_table() -> str:
    """Which processes the numbers here are of: those of a boot and, on Linux, of a namespace.

    Two containers of one machine have tables of their own.
    """
    with suppress(OSError):
        return f"{_boot()} {os.readlink('/proc/self/ns/pid')}"
    return _boot()


@functools.cache
def _boot() -> str:
    return BOOT.read_text().strip() if psutil.LINUX else "boot"
