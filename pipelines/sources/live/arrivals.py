"""New files of a folder, at a cost that depends on the new files only.

A folder that has not changed since it was last listed is not listed again: its modification time
shows that. Known files in it are not inspected; only a new name costs a look. A folder that did
change has to be listed whole (names alone): remove landed files where that is too much.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Unavailable
from pipelines.base import clock
from pipelines.base.files import open_regular
from pipelines.storage.file_limits import FileLimits

SETTLED_NS = 2_000_000_000
"""Two changes this near to each other may leave the same time behind, whatever the file system."""

LIST_ANYWAY_NS = 10_000_000_000
"""A file system over a network may tell of a change late, or by a clock of its own."""

PACKED = (b"\x1f\x8b", b"PAR1")
"""How packed files begin: gzip and Parquet."""

PACKED_RATIO_MAX = 1_032
"""How many times its own size a file of gzip may unpack to. One of Parquet is counted alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Something under a name of its own: when it was last written, in ms, and its size."""

    name: str
    at_ms: int
    size_bytes: int

    @property
    def order(self) -> tuple[int, bytes]:
        """Files are read in the order in which they were written, then by name."""
        return self.at_ms, os.fsencode(self.name)


class Arrivals:
    """The names that are in a folder and have not been handed over yet."""

    def __init__(self, directory: Path, limits: FileLimits = FileLimits()) -> None:  # noqa: B008
        self._directory = directory
        self._limits = limits
        self._waiting: dict[str, Arrival] = {}
        self._listed_at_ns: int | None = None
        self._changed_at_ns = 0
        self._identity = (0, 0)

    @property
    def waiting(self) -> int:
        """How many were there when the folder was last listed and are not handed over."""
        return len(self._waiting)

    def look(self, known: Collection[str]) -> None:
        """See what is there now besides what is `known`; Unavailable if the folder cannot be read.

        What came and went between two looks was never there.
        """
        now_ns = clock.wall_ns()
        try:
            found = self._directory.stat()
            if not self._is_settled(found, now_ns):
                with_names = os.listdir(self._directory)
                self._waiting = self._waiting_among(with_names, known)
                self._listed_at_ns, self._changed_at_ns = now_ns, found.st_mtime_ns
                self._identity = (found.st_dev, found.st_ino)
        except OSError as error:
            self._listed_at_ns = None
            raise Unavailable(
                f"folder {self._directory} cannot be listed now ({error.strerror}): bring it back"
            ) from None

    def take(self, files_max: int, bytes_max: int) -> list[Arrival]:
        """The next to hand over, in order: at least one if there is any, within both limits.

        `bytes_max`: of what they may unpack to, all of which a batch holds at once.
        """
        taken: list[Arrival] = []
        left = bytes_max
        for arrival in sorted(self._waiting.values(), key=lambda a: a.order):
            if len(taken) == files_max:
                break
            unpacked = self._unpacked_bytes_max(arrival)
            if taken and unpacked > left:
                break
            taken.append(arrival)
            left -= unpacked
        for arrival in taken:
            del self._waiting[arrival.name]
        return taken

    @property
    def identity(self) -> tuple[int, int]:
        """Which folder was listed: its device and inode; zeros before the first look."""
        return self._identity

    def is_still_there(self, before: tuple[int, int] = (0, 0)) -> bool:
        """Whether the folder is the one that was listed; `before`: by a process before this one."""
        try:
            found = self._directory.stat()
            now = (found.st_dev, found.st_ino)
            if self._identity == (0, 0) and now != before:
                # This process has listed none yet; an empty mount point looks empty.
                with os.scandir(self._directory) as there:
                    return any(there)
        except OSError:
            return False
        return now == (before if self._identity == (0, 0) else self._identity)

    def present(self) -> frozenset[str]:
        """Every name that is there now."""
        try:
            return frozenset(os.listdir(self._directory))
        except OSError as error:
            raise Unavailable(
                f"folder {self._directory} cannot be listed now ({error.strerror}): bring it back"
            ) from None

    def forget(self) -> None:
        """List anew at the next look."""
        self._waiting.clear()
        self._listed_at_ns = None

    def _is_settled(self, found: os.stat_result, now_ns: int) -> bool:
        """Whether nothing can have come since the folder was listed."""
        listed_ns = self._listed_at_ns
        return (
            listed_ns is not None
            and found.st_mtime_ns == self._changed_at_ns
            and (found.st_dev, found.st_ino) == self._identity
            and listed_ns - found.st_mtime_ns > SETTLED_NS
            and 0 <= now_ns - listed_ns < LIST_ANYWAY_NS
        )

    def _waiting_among(self, names: Collection[str], known: Collection[str]) -> dict[str, Arrival]:
        waiting = {}
        for name in names:
            if name in known or not is_whole_name(name):
                continue
            arrival = self._waiting.get(name) or self._arrival(name)
            if arrival is not None:
                waiting[name] = arrival
        return waiting

    def _unpacked_bytes_max(self, arrival: Arrival) -> int:
        """What a file may unpack to, or its size; what is no file takes no room."""
        try:
            with open_regular(self._directory / arrival.name, follows_links=True) as file:
                is_packed = file.read(max(map(len, PACKED))).startswith(PACKED)
        except OSError:
            is_packed = False
        size = arrival.size_bytes
        return (
            min(PACKED_RATIO_MAX * size, self._limits.unpacked_bytes_max(size))
            if is_packed
            else size
        )

    def _arrival(self, name: str) -> Arrival | None:
        path = self._directory / name
        try:
            found = os.stat(path)
        except OSError:
            try:
                found = os.lstat(path)  # a link that leads nowhere is reported when it is read
            except OSError:
                return None
        at_ms = found.st_mtime_ns // 1_000_000
        return Arrival(name=name, at_ms=at_ms, size_bytes=found.st_size)


def is_whole_name(name: str) -> bool:
    """Whether a file of this name is whole: not hidden, and not a temporary name."""
    return not name.startswith((".", "_")) and not name.endswith(".tmp")
