"""A process that runs one command and counts the CPU time of every process below it.

    python -m bench.reaper FILE COMMAND...

It adopts processes whose parent has ended (PR_SET_CHILD_SUBREAPER, Linux), and waits for all: the
system hands over the CPU time of a process, with that of all children it waited for, when the
process is waited for (wait4). So short-lived children count in full, and so does a server in a
session of its own. FILE receives the seconds until the command ended, its exit code, and the CPU
seconds of all.

Not counted is a child whose parent ignores the end of its children (SIGCHLD). A process that is
still there REMAINS_S_MAX after the command is read from /proc, and killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.process_tree import cpu_seconds, processes_of

PR_SET_CHILD_SUBREAPER = 36
REMAINS_S_MAX = 30.0
LOOK_AGAIN_S = 0.05


class _Reaped:
    """The CPU seconds of the processes that have been waited for, and exit codes by process."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.codes: dict[int, int] = {}

    def wait(self, options: int = 0) -> bool:
        """Wait for one process; whether there was one."""
        pid, status, usage = os.wait4(-1, options)
        if pid:
            self.cpu_s += usage.ru_utime + usage.ru_stime
            self.codes[pid] = os.waitstatus_to_exitcode(status)
        return pid > 0


def run(command: Sequence[str]) -> dict[str, float]:
    """Run a command to its end, and wait for all that it has started."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("this system does not hand orphaned processes over: Linux is needed")
    reaped, began_s = _Reaped(), time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while child.pid not in reaped.codes:
            reaped.wait()
        seconds = time.monotonic() - began_s
        _reap_rest(reaped)
    finally:
        reaped.cpu_s += _kill_rest()
    child.returncode = reaped.codes[child.pid]
    return {"seconds": seconds, "cpu_s": reaped.cpu_s, "code": child.returncode}


def _reap_rest(reaped: _Reaped) -> None:
    """Wait for processes that end after the command."""
    gives_up_s = time.monotonic() + REMAINS_S_MAX
    with suppress(ChildProcessError):
        while time.monotonic() < gives_up_s:
            if not reaped.wait(os.WNOHANG):
                time.sleep(LOOK_AGAIN_S)


def _kill_rest() -> float:
    """Kill what is left; the CPU seconds of that."""
    _, *left = processes_of(os.getpid())
    spent_s = cpu_seconds(left)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return spent_s


def main() -> None:
    """Run the command of the arguments; its standard output and error are those of this process."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    file, *command = sys.argv[1:]
    Path(file).write_text(json.dumps(run(command)))


if __name__ == "__main__":
    main()
