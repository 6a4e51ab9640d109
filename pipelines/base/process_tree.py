"""The CPU time of a process and of all its descendants, ended ones included.

A process is identified by its number and start, so a reused number is another process. The CPU
time of a process is counted while it lives; when it has ended, the system adds all of it to its
parent's account of ended children, from which the part already counted is subtracted. Between
scans only the clocks of the known processes are read (microseconds each); a scan, every few
seconds, finds processes that have started and ended.

Limits: CPU time since the last scan is lost if no parent waits for the process (its parent ended
first, or ignores its children); a child that leaves the tree leaves the count. Only Linux keeps
an account of ended children: elsewhere their last seconds are not counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import psutil

from pipelines.base import clock
from pipelines.base.process_table import ticks_since_boot

RESCAN_S = 2.0
SERVER = "postgres"
"""An embedded server serves other participants as well, and may be any process's child."""


@dataclass(slots=True, kw_only=True)
class ProcessCpu:
    """A process as it was last seen: CPU of its own and of its ended children (ns)."""

    pid: int
    parent: int
    started: int
    name: str
    own_ns: int
    ended_ns: int
    is_left_out: bool = False


class Processes(Protocol):
    """The processes of a machine."""

    def tree(self, root: int) -> Iterator[ProcessCpu]:
        """A process and all below it, parents before their children; nothing if it is gone."""

    def process(self, pid: int) -> ProcessCpu | None:
        """One process; None if it is gone."""

    def own_ns(self, pid: int) -> int | None:
        """The CPU time of one process; None if it is gone."""


class SystemProcesses:
    """The processes of this machine."""

    def tree(self, root: int) -> Iterator[ProcessCpu]:
        """See `Processes`."""
        try:
            found = psutil.Process(root)
            below = [found, *found.children(recursive=True)]
        except psutil.Error:
            return
        for process in below:
            if (seen := _seen(process)) is not None:
                yield seen

    def process(self, pid: int) -> ProcessCpu | None:
        """See `Processes`."""
        try:
            return _seen(psutil.Process(pid))
        except psutil.Error:
            return None

    def own_ns(self, pid: int) -> int | None:
        """See `Processes`."""
        try:
            return clock.cpu_ns_of_process(pid)
        except OSError:
            return None


def _seen(process: psutil.Process) -> ProcessCpu | None:
    try:
        with process.oneshot():
            times = process.cpu_times()
            seen = ProcessCpu(
                pid=process.pid,
                parent=process.ppid(),
                started=ticks_since_boot(process),
                name=process.name(),
                own_ns=round((times.user + times.system) * 1e9),
                ended_ns=round((times.children_user + times.children_system) * 1e9),
            )
    except psutil.Error:
        return None
    with suppress(OSError):
        # Finer than the ticks of the system's accounts.
        seen.own_ns = clock.cpu_ns_of_process(process.pid)
    return seen


class ProcessTree:
    """What `root` and all below it have spent since this was made.

    Processes named `left_out`, and what they started, are not counted. Not for several threads.
    """

    def __init__(
        self,
        root: int | None = None,
        *,
        left_out: str = SERVER,
        rescan_s: float = RESCAN_S,
        now_s: Callable[[], float] = clock.monotonic_s,
        processes: Processes | None = None,
    ) -> None:
        self._root = os.getpid() if root is None else root
        self._left_out = left_out
        self._rescan_s = rescan_s
        self._now_s = now_s
        self._processes = processes or SystemProcesses()
        self._spent_ns = 0
        self._not_accounted: dict[int, int] = {}
        self._known = self._found()
        self._scanned_s = now_s()

    def spent_ns(self) -> int:
        """Nanoseconds of CPU since this was made; never fewer than before."""
        if self._now_s() - self._scanned_s >= self._rescan_s:
            self.rescan()
        else:
            for pid, known in self._known.items():
                if not known.is_left_out:
                    own_ns = self._processes.own_ns(pid)
                    if own_ns is not None and own_ns > known.own_ns:
                        self._spent_ns += own_ns - known.own_ns
                        known.own_ns = own_ns
        return self._spent_ns

    def rescan(self) -> None:
        """Find processes that have started and ended, and count all that is not counted yet."""
        found, before = self._found(), self._known
        counted = self._counted_of_ended(found)
        # Its parent may have been read before a process ended, and accounts for it by now.
        late, self._not_accounted = self._not_accounted, {}
        for pid, now in found.items():
            was = before.get(pid)
            if was is not None and was.started != now.started:
                was = None
            own_ns = now.own_ns - (was.own_ns if was else 0)
            ended_ns = now.ended_ns - (was.ended_ns if was else 0) - counted.get(pid, 0)
            if ended_ns < 0:
                self._not_accounted[pid] = -ended_ns
            elif was is not None:
                ended_ns -= late.get(pid, 0)
            if not now.is_left_out:
                self._spent_ns += max(own_ns, 0) + max(ended_ns, 0)
            if was is not None:
                # A clock of ticks may be behind the one that was read before.
                now.own_ns = max(now.own_ns, was.own_ns)
        self._known = found
        self._scanned_s = self._now_s()

    def _counted_of_ended(self, found: dict[int, ProcessCpu]) -> dict[int, int]:
        """Of processes that have ended: what was counted, by the process that accounts for it."""
        counted: dict[int, int] = {}
        # By the process, not its number: that may be another's by now.
        ended = {pid: known for pid, known in self._known.items() if not self._lives(known, found)}
        for known in ended.values():
            heir, step = known.parent, 0
            while heir in ended and step < len(ended):
                heir, step = ended[heir].parent, step + 1
            counted[heir] = counted.get(heir, 0) + known.own_ns + known.ended_ns
        return counted

    def _lives(self, known: ProcessCpu, found: dict[int, ProcessCpu]) -> bool:
        """Whether the same process still exists, here or under another parent."""
        now = found.get(known.pid) or self._processes.process(known.pid)
        return now is not None and now.started == known.started

    def _found(self) -> dict[int, ProcessCpu]:
        found: dict[int, ProcessCpu] = {}
        for seen in self._processes.tree(self._root):
            parent = found.get(seen.parent)
            seen.is_left_out = seen.name == self._left_out or (
                parent is not None and parent.is_left_out
            )
            found[seen.pid] = seen
        return found
