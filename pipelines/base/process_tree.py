"""The CPU time of a process and of all that it started, those that have ended included.

A process is known by its id and when it started, so an id that is given again is another process.
What one has spent is counted while it lives; when it has ended, the system adds all of it to its
parent's account of ended children, of which what was counted already is then left out. A look reads
the clocks of the processes that are known (microseconds each); who has come and gone is found out
once in a while. Where the system has no /proc, only this process and its ended children are seen.

Limits: what a process has spent since the last look for it is lost if nobody waits for it (its
parent ended first, or ignores its children); a child that leaves the tree leaves the count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.base import clock

RESCAN_S = 2.0
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
SERVER = "postgres"
"""An embedded server serves other participants as well, and may be any process's child."""

_PARENT, _USER, _SYSTEM, _ENDED_USER, _ENDED_SYSTEM, _STARTED = 1, 11, 12, 13, 14, 19
"""Where these stand in `/proc/PID/stat`, behind the name in brackets (proc(5) counts from 3)."""


@dataclass(slots=True)
class _Known:
    """A process as it was last seen: CPU of its own and of its ended children (ns)."""

    started: int
    parent: int
    own_ns: int
    ended_ns: int
    is_left_out: bool


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
        proc: Path = Path("/proc"),
    ) -> None:
        self._root = os.getpid() if root is None else root
        self._left_out = left_out
        self._rescan_s = rescan_s
        self._now_s = now_s
        self._proc = proc
        self._spent_ns = 0
        self._known = self._found()
        self._scanned_s = now_s()

    def spent_ns(self) -> int:
        """Nanoseconds of CPU since this was made; never fewer than before."""
        if self._now_s() - self._scanned_s >= self._rescan_s:
            self.rescan()
        else:
            for pid, known in self._known.items():
                if not known.is_left_out:
                    own_ns = _clock_ns(pid)
                    if own_ns is not None and own_ns > known.own_ns:
                        self._spent_ns += own_ns - known.own_ns
                        known.own_ns = own_ns
        return self._spent_ns

    def rescan(self) -> None:
        """Find out who has come and gone, and count all that is not counted yet."""
        found, before = self._found(), self._known
        counted = self._counted_of_ended(found)
        for pid, now in found.items():
            was = before.get(pid)
            if was is not None and was.started != now.started:
                was = None
            own_ns = now.own_ns - (was.own_ns if was else 0)
            ended_ns = now.ended_ns - (was.ended_ns if was else 0) - counted.get(pid, 0)
            if not now.is_left_out:
                self._spent_ns += max(own_ns, 0) + max(ended_ns, 0)
            if was is not None:
                # A clock of ticks may be behind the one that was read before.
                now.own_ns = max(now.own_ns, was.own_ns)
        self._known = found
        self._scanned_s = self._now_s()

    def _counted_of_ended(self, found: dict[int, _Known]) -> dict[int, int]:
        """Of processes that have ended: what was counted, by who has it in its account now."""
        counted: dict[int, int] = {}
        # By the process, not its id: that may be another's by now.
        ended = {pid: known for pid, known in self._known.items()
                 if not self._lives(pid, known, found)}  # fmt: skip
        for known in ended.values():
            heir, step = known.parent, 0
            while heir in ended and step < len(ended):
                heir, step = ended[heir].parent, step + 1
            counted[heir] = counted.get(heir, 0) + known.own_ns + known.ended_ns
        return counted

    def _lives(self, pid: int, known: _Known, found: dict[int, _Known]) -> bool:
        """Whether the very process is there still, here or under another parent."""
        now = found.get(pid)
        if now is None:
            elsewhere = self._read(pid)
            now = elsewhere[1] if elsewhere else None
        return now is not None and now.started == known.started

    def _found(self) -> dict[int, _Known]:
        found = dict(self._below(self._root, is_left_out=False))
        if not found:
            times = os.times()
            ended_s = times.children_user + times.children_system
            found[self._root] = _Known(
                started=0,
                parent=0,
                own_ns=clock.process_cpu_ns(),
                ended_ns=int(ended_s * 1e9),
                is_left_out=False,
            )
        return found

    def _below(self, pid: int, *, is_left_out: bool) -> Iterator[tuple[int, _Known]]:
        read = self._read(pid)
        if read is None:
            return
        name, known = read
        known.is_left_out = is_left_out or name == self._left_out
        yield pid, known
        for child in self._children(pid):
            yield from self._below(child, is_left_out=known.is_left_out)

    def _children(self, pid: int) -> Iterator[int]:
        folder = f"{self._proc}/{pid}/task"
        try:
            threads = os.listdir(folder)
        except OSError:
            return
        for thread in threads:
            try:
                with open(f"{folder}/{thread}/children", "rb", buffering=0) as file:
                    children = file.read().split()
            except OSError:
                continue
            yield from map(int, children)

    def _read(self, pid: int) -> tuple[str, _Known] | None:
        """Its name and what the system says of it; None once it is gone."""
        try:
            with open(f"{self._proc}/{pid}/stat", "rb", buffering=0) as file:
                text = file.read().decode("utf-8", "replace")
            head, _, rest = text.rpartition(")")
            fields = rest.split()
            ticks = [int(fields[at]) for at in (_USER, _SYSTEM, _ENDED_USER, _ENDED_SYSTEM)]
            parent, started = int(fields[_PARENT]), int(fields[_STARTED])
        except (OSError, ValueError, IndexError):
            return None
        own_ns = _clock_ns(pid)
        return head.partition("(")[2], _Known(
            started=started,
            parent=parent,
            own_ns=(ticks[0] + ticks[1]) * TICK_NS if own_ns is None else own_ns,
            ended_ns=(ticks[2] + ticks[3]) * TICK_NS,
            is_left_out=False,
        )


def _clock_ns(pid: int) -> int | None:
    """The CPU clock of a process, all its threads together; None if there is none to read."""
    try:
        return clock.cpu_ns_of_process(pid)
    except OSError:
        return None
