"""Processes of jobs on this machine: inspected, started in a separate session, ended.

A process is identified by id and start time together, which the system never reuses, and leads a
session: the end of its parent does not end it, and it is ended with all its descendants.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.supervision import Job, ProcessState
from pipelines.base.log_rotation import rotate_logs
from pipelines.base.process_table import look_at

_made: list[subprocess.Popen[bytes]] = []
"""Processes of ours that have yet to be buried."""


@dataclass(frozen=True, slots=True)
class Process:
    """What is written down of a process."""

    host: str
    pid: int
    started: str


def host_here() -> str:
    """The name of this machine, as jobs and leases carry it."""
    return socket.gethostname()


def own_process() -> Process:
    """The process that stands for this one: the leader of its session, or itself where the leader
    is not to be seen (it has ended, or is outside this container).

    Raises Unavailable where the system does not say since when it runs.
    """
    leader = os.getsid(0)
    return _process(leader if look_at(leader) is not None else os.getpid())


def make_process(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    folder: Path,
    hands_on: Collection[int] = (),
) -> Process:
    """Make a process that outlives this one; what it says goes to the log.

    `hands_on`: open files that are its own from its first instant to its last. Raises Unavailable
    if it cannot be made.
    """
    reap()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        rotate_logs([log])
        with log.open("ab") as words:
            made = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
                pass_fds=tuple(hands_on),
            )
    except OSError as error:
        raise Unavailable(
            f"{command[0]} cannot be started ({error.strerror}), or {log} not be written: mend "
            "that, then try again"
        ) from error
    _made.append(made)
    return _process(made.pid)


def reap() -> None:
    """Take note of the end of processes that this one has made."""
    _made[:] = [made for made in _made if made.poll() is None]


def inspect_process(job: Job | Process) -> ProcessState:
    """What is to be seen of a process from here, or of a job's."""
    if job.pid is None:
        return ProcessState.NONE
    if job.host != host_here():
        return ProcessState.ELSEWHERE
    found = look_at(job.pid)
    if found is None or found.started != job.started:
        return ProcessState.GONE
    return ProcessState.FROZEN if found.is_frozen else ProcessState.RUNS


def signal_process(job: Job | Process, number: signal.Signals) -> None:
    """Signal a process, or a job's, and what it leads, if it is the one that was written down.

    Nothing is done for one that is gone or on another host; Unavailable if this user may not.
    """
    if job.pid is None or inspect_process(job) not in (ProcessState.RUNS, ProcessState.FROZEN):
        return
    try:
        found = look_at(job.pid)
        if found is not None and found.group == job.pid:
            os.killpg(job.pid, number)
        else:
            os.kill(job.pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise Unavailable(
            f"process {job.pid} is another user's: supervise as that user, or as the administrator"
        ) from error


def _process(pid: int) -> Process:
    found = look_at(pid)
    if found is None:
        raise Unavailable(f"process {pid} ended as it was started: see its log")
    return Process(host_here(), pid, found.started)
