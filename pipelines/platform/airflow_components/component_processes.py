"""Processes of the platform: recorded before they run, found again, ended.

A process is started in a separate session and waits at a gate until it is recorded, so that a
supervisor that is killed in between leaves a process that ends by itself. A process that one of
ours starts in yet another session (the job of a participant, say) inherits a mark in its
environment, by which it is found; programs that write their title over their environment, as
Airflow's do, are found by their sessions.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from medusa_core.errors import Unavailable
from pipelines.base import clock
from pipelines.base.process_table import look_at, session_of
from pipelines.platform.airflow_components.process_sessions import Process, Started, leftovers

MARK = "MEDUSA_UP"
LOOK_AGAIN_S = 0.05
KILL_MS_MAX = 10_000

GATE = """
import os, sys
if sys.stdin.buffer.readline() != b"go\\n":
    sys.exit("parent process exited before this child was registered")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def start(
    name: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    write_down: Callable[[Started], None],
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, once `write_down` has returned.

    The program's first word is its absolute path; what it says goes to the log. Raises Unavailable
    if it cannot be started.
    """
    try:
        with log.open("ab") as words:
            made = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", GATE, *command],
                stdin=subprocess.PIPE,
                stdout=words,
                stderr=words,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
    except OSError as error:
        raise Unavailable(
            f"{name} cannot be started ({error.strerror}: {error.filename}): mend that, then try "
            "again"
        ) from error
    assert made.stdin is not None
    with contextlib.suppress(BrokenPipeError), made.stdin as gate:
        write_down(_started(name, made.pid))
        gate.write(b"go\n")
    return made


def own(name: str) -> Started:
    """What is to be written down of this process."""
    return _started(name, os.getpid())


def is_there(one: Started | Process) -> bool:
    """Whether the very process lives."""
    found = look_at(one.pid)
    return found is not None and found.started == one.since


def left_of(started: Iterable[Started]) -> tuple[Process, ...]:
    """What lives of the sessions that were started."""
    recorded = tuple(started)
    numbers = {one.pid for one in recorded}
    # A look costs more than the question for a session, which most processes answer with another.
    pids = (pid for pid in psutil.pids() if pid in numbers or session_of(pid) in numbers)
    seen = tuple(one for one in map(_process, pids) if one is not None)
    return tuple(one for each in recorded for one in leftovers(each, seen, user=os.geteuid()))


def marked(mark: str) -> tuple[Process, ...]:
    """The processes that carry the mark, but for this one; none where the system hides them."""
    found = (_process(pid) for pid in psutil.pids() if pid != os.getpid() and _has_mark(pid, mark))
    return tuple(one for one in found if one is not None)


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return bool(psutil.Process(pid).environ().get(MARK) == mark)
    except (psutil.Error, OSError):
        return False


def end(find: Callable[[], Sequence[Process]], *, grace_ms: int) -> int:
    """End what `find` finds: by SIGTERM, after the grace by SIGKILL. Returns how many were forced.

    Only leaders of sessions get SIGTERM, each ends its own. Raises Unavailable if one survives.
    """
    found = find()
    for one in found:
        if one.session == one.pid:
            _signal(one, signal.SIGTERM)
            _signal(one, signal.SIGCONT)  # one that stands still hears nothing
    leaders = [one for one in found if one.session == one.pid]
    waits_until_s = clock.monotonic_s() + grace_ms / 1000
    # What has lost its leader waits for nothing.
    while any(map(is_there, leaders)) and clock.monotonic_s() < waits_until_s:
        clock.sleep_s(LOOK_AGAIN_S)
    forced: set[tuple[int, str]] = set()
    gives_up_s = clock.monotonic_s() + KILL_MS_MAX / 1000
    while found := find():
        for one in found:
            forced.add((one.pid, one.since))
            _signal(one, signal.SIGKILL)
        if clock.monotonic_s() > gives_up_s:
            numbers = ", ".join(str(one.pid) for one in found)
            raise Unavailable(f"these processes do not end: {numbers}; end them by hand")
        clock.sleep_s(LOOK_AGAIN_S)
    return len(forced)


def all_processes() -> tuple[Process, ...]:
    """All processes of this machine that live, as far as it shows them."""
    return tuple(one for one in map(_process, psutil.pids()) if one is not None)


def _process(pid: int) -> Process | None:
    found = look_at(pid)
    if found is None:
        return None
    try:
        user = psutil.Process(pid).uids().effective
    except psutil.Error:
        return None  # it has just ended
    return Process(pid, found.session, found.started, user)


def _signal(process: Process, number: signal.Signals) -> None:
    if not is_there(process):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)


def _started(name: str, pid: int) -> Started:
    found = look_at(pid)
    if found is None:
        raise Unavailable(f"{name} ended as it was started: see its log")
    return Started(name, pid, found.started)
