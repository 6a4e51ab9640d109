"""The lock of a lane: only the kernel knows when a process has ended.

Rows, clocks and process ids report a job's end too early (it has recorded its end and still
closes its files) or not at all (its id was never recorded). So a supervisor starts a process only
while it holds the lane's first lock, and hands the lock over to the process, which holds it from
its first instant until the kernel has removed it. The job itself holds the second lock: under
spark-submit it is not the process that was started, and may outlive it. Both are `flock`s of
files that are never removed. The time of its file is when a lock was taken.

Limit: a lock is visible where the folder is. Jobs on hosts that share no folder are kept apart by
their leases alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medusa_core.commits import Lane
from medusa_core.errors import Conflict, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.files import FileLock

FOLDER = "running"
LOOKED_AT_S_MAX = 5.0
"""A lock is held for a moment by whoever looks whether it is held: a job tries for so long."""

LOOK_AGAIN_S = 0.02

_held: list[FileLock] = []
"""What this process holds until its end."""


@contextmanager
def reserved(directory: Path, participant: Participant, lane: Lane) -> Iterator[int]:
    """The lane's first lock, to be handed on to a process that is made in the block.

    Raises Conflict while a process of the lane is there, Unavailable if the folder cannot be
    written.
    """
    made, job = _files(directory, participant, lane)
    lock = _locked(made)
    try:
        if lock is None or _is_held(job):
            raise Conflict(
                f"a process of {participant} ({lane.value}) has yet to end: the next one follows it"
            )
        os.utime(lock.descriptor)
        yield lock.descriptor
    finally:
        if lock is not None:
            lock.close()


def hold_lane(directory: Path, participant: Participant, lane: Lane) -> None:
    """Hold the lane's second lock until the end of this process.

    Raises Conflict if another process holds it, Unavailable if the folder cannot be written.
    """
    _, job = _files(directory, participant, lane)
    ends_s = clock.monotonic_s() + LOOKED_AT_S_MAX
    while True:
        # If this process was paused after the attempt, its outcome is old: it tries once more.
        requested_s = clock.monotonic_s()
        if (lock := _locked(job)) is not None:
            break
        if requested_s > ends_s:
            raise Conflict(f"another process is the job of {participant} ({lane.value}): it ends")
        clock.sleep_s(LOOK_AGAIN_S)
    os.utime(lock.descriptor)
    _held.append(lock)


def occupied_ms(directory: Path, participant: Participant, lane: Lane) -> int | None:
    """For how long a process of the lane has been there, or a supervisor has been making one, by
    this machine's clock; None if the lane is free."""
    files = [file for file in _files(directory, participant, lane) if _is_held(file)]
    if not files:
        return None
    since_s = min(file.stat().st_mtime for file in files)
    return max(int((clock.wall_s() - since_s) * 1_000), 0)


def _files(directory: Path, participant: Participant, lane: Lane) -> tuple[Path, Path]:
    name = f"{participant}-{lane.value}"
    return directory / FOLDER / f"made-{name}.lock", directory / FOLDER / f"job-{name}.lock"


def _is_held(file: Path) -> bool:
    lock = _locked(file)
    if lock is not None:
        lock.close()
    return lock is None


def _locked(file: Path) -> FileLock | None:
    """The file's lock; None if another process holds it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(file, mode=0o600)
    except BlockingIOError:
        return None
    except OSError as error:
        raise Unavailable(
            f"{file} cannot be written ({error.strerror}): mend the folder, then try again"
        ) from error
