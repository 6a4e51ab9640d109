"""Atomic and durable writes, links and locks: no other module renames, syncs or locks files.

A file that is written here exists whole or not at all: its content is written under a temporary
name in the same folder, synced, and renamed. After a power failure a durable file still has its
name and its content. All functions raise OSError; the caller knows which sentence it deserves.

Limit: a process that is killed while it writes leaves a temporary file `.medusa-*.part`. File locks
are advisory, and end with the process that holds them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, Self

PART_PREFIX, PART_SUFFIX = ".medusa-", ".part"
"""How the name of a temporary file begins and ends."""

_NAME_LENGTH_MAX = 200
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def atomic_file(
    path: Path,
    *,
    durable: bool = True,
    syncs_folder: bool = True,
    replaces: bool = True,
    mode: int = 0o666,
) -> Iterator[BinaryIO]:
    """Open a file that gets the name `path` when the block ends without an error.

    Without `durable` nothing is synced: the file may be lost, or be empty, after a power failure.
    Without `syncs_folder` its name is durable only once the caller has synced the folder. Raises
    FileExistsError if `path` exists and may not be replaced; then `path` is unchanged.
    """
    name = f"{PART_PREFIX}{secrets.token_hex(6)}-{path.name[-_NAME_LENGTH_MAX:]}{PART_SUFFIX}"
    part = path.with_name(name)
    try:
        with os.fdopen(os.open(part, _NEW, mode), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if replaces:
            os.replace(part, path)
        else:
            _name_new(part, path)
        if durable and syncs_folder:
            sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write_atomically(
    path: Path,
    content: str | bytes,
    *,
    durable: bool = True,
    replaces: bool = True,
    mode: int = 0o666,
) -> None:
    """Write a whole file as `atomic_file` does; text is written as UTF-8."""
    data = content.encode() if isinstance(content, str) else content
    with atomic_file(path, durable=durable, replaces=replaces, mode=mode) as file:
        file.write(data)


def _name_new(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: a file that appears between these two calls is replaced.
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        os.replace(part, path)


def rename(source: Path, target: Path) -> None:
    """Give a file or folder another name in one step, replacing a file of that name."""
    os.replace(source, target)


def rename_within(folder: int, source: str, target: str) -> None:
    """Rename an entry of a folder that is open, whatever its path leads to by now."""
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; raises FileExistsError if `target` exists."""
    os.link(source, target)


def link_within(folder: int, source: str, target: str) -> None:
    """Give an entry of a folder that is open a second name; raises FileExistsError if it exists."""
    os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def sync_file(file: IO[bytes] | IO[str]) -> None:
    """Flush an open file and wait until its content is on disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: Path, *, follows_links: bool = False) -> BinaryIO:
    """Open a regular file for reading; OSError for anything else. A FIFO is not waited for."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


LOCK_MODE = 0o600


class FileLock:
    """A lock on a file, held from construction until `close`, or until this process ends.

    The file is created if it does not exist, and is never removed: another process may wait for it.
    A user who can open the file can lock it, so by default (`mode`) only its owner has access.
    Raises BlockingIOError if another process holds the lock and `waits` is false.
    """

    def __init__(
        self, path: Path, *, waits: bool = False, shared: bool = False, mode: int = LOCK_MODE
    ) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC if path.is_dir() else _LOCK
        self._descriptor = os.open(path, flags, mode)
        try:
            _close_to_others(self._descriptor, mode)
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(self._descriptor, kind if waits else kind | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def descriptor(self) -> int:
        """The open file; a child process that inherits it holds the lock too."""
        return self._descriptor

    def close(self) -> None:
        """Release the lock, unless a child has inherited it; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _close_to_others(descriptor: int, mode: int) -> None:
    """Take rights from a lock's file that an earlier version gave to other users."""
    status = os.fstat(descriptor)
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if is_own and stat.S_IMODE(status.st_mode) & 0o077 & ~mode:
        os.fchmod(descriptor, mode)


@contextmanager
def descriptor_lock(descriptor: int) -> Iterator[None]:
    """Hold the lock of a file that is open already, for as long as the block runs."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_locked(path: Path, *, mode: int = LOCK_MODE) -> bool:
    """Whether a process holds a lock on the file, shared or not."""
    try:
        FileLock(path, mode=mode).close()
    except BlockingIOError:
        return True
    return False
