"""Orphans: files under a storage root that no row of the catalog names.

An attempt that was given up, a crash between a commit and the removal of freed files, a
compaction: all leave files without a reader. A file is an orphan once it is older than a grace
period, because the attempt that wrote it may still commit, and a reader may still use it.

Nothing outside of the root is touched: symbolic links are neither followed nor removed, and only
names that Medusa gives to files of records are looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from medusa_core.errors import Unavailable
from pipelines.base.failpoints import reached
from pipelines.base.files import link_within, rename_within

GRACE_S = 3_600.0
GRACE_S_MIN = 60.0
"""How old an orphan is at least, unless somebody says otherwise."""
ORPHAN_SUFFIX = ".orphan"
_OWN = (".parquet", ".parquet.part", ".panes", ".panes.part")
SUFFIXES = (*_OWN, *(f"{suffix}{ORPHAN_SUFFIX}" for suffix in _OWN))
PATHS_PER_LOOK = 1_000

Named = Callable[[Collection[str]], frozenset[str]]
"""Which of some paths, relative to the root, the catalog knows."""


@dataclass(frozen=True, slots=True, order=True)
class Orphan:
    """A file that nothing names; its path is relative to the root."""

    path: str
    size_bytes: int


def find_orphans(root: Path, named: Named, now_s: float, grace_s: float) -> tuple[Orphan, ...]:
    """The orphans under a root, by path; `now_s` is the file system's time of now.

    Files are listed before the catalog is read, so that what is committed meanwhile is no orphan.
    Raises Unavailable if the root cannot be read.
    """
    old = [found for found, at_s in _files(root) if at_s <= now_s - grace_s]
    orphans: list[Orphan] = []
    for first in range(0, len(old), PATHS_PER_LOOK):
        page = old[first : first + PATHS_PER_LOOK]
        known = named([_given_name(found.path) for found in page])
        for found in page:
            if _given_name(found.path) not in known:
                orphans.append(found)
            elif found.path.endswith(ORPHAN_SUFFIX):
                _put_back(root, found.path)  # a crash came between; it is somebody's after all
    return tuple(sorted(orphans))


def remove_orphans(
    root: Path, orphans: Collection[Orphan], now_s: float, grace_s: float
) -> tuple[Orphan, ...]:
    """Remove orphans that are still as old as they were; returns those that are gone.

    A file is set aside first and looked at again: who adopts a file that is already there touches
    it, and then either it is young here, or it is not there for them.
    """
    return tuple(o for o in orphans if _remove_if_old(root, o.path, now_s - grace_s))


def remove_file(root: Path, path: str) -> bool:
    """Remove a file of a root; False if there is none, or if its path leads out of the root."""
    try:
        with _folder_of(root, path) as (folder, name):
            os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _remove_if_old(root: Path, path: str, before_s: float) -> bool:
    with suppress(OSError), _folder_of(root, path) as (folder, name):
        quarantined = name if name.endswith(ORPHAN_SUFFIX) else name + ORPHAN_SUFFIX
        rename_within(folder, name, quarantined)
        reached("orphans.aside")
        if os.stat(quarantined, dir_fd=folder, follow_symlinks=False).st_mtime > before_s:
            rename_within(folder, quarantined, name)
            return False
        os.unlink(quarantined, dir_fd=folder)
        return True
    return False


def _put_back(root: Path, path: str) -> None:
    with suppress(OSError), _folder_of(root, path) as (folder, name):
        original = name.removesuffix(ORPHAN_SUFFIX)
        # Not over one that is there: it was fetched again meanwhile.
        link_within(folder, name, original)
        os.unlink(name, dir_fd=folder)


def _given_name(path: str) -> str:
    return path.removesuffix(ORPHAN_SUFFIX)


def _files(root: Path) -> Iterator[tuple[Orphan, float]]:
    """Regular files with our names under a root, and when each was last touched."""

    def refuse(error: OSError) -> None:
        raise Unavailable(
            f"folder {error.filename} cannot be read ({error.strerror}): mend it, then run again"
        ) from error

    try:
        os.stat(root)
    except OSError as error:
        refuse(error)
    for folder, _, names, descriptor in os.fwalk(root, onerror=refuse, follow_symlinks=False):
        for name in names:
            if not name.endswith(SUFFIXES):
                continue
            with suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    path = (Path(folder) / name).relative_to(root)
                    yield Orphan(path.as_posix(), found.st_size), found.st_mtime


@contextmanager
def _folder_of(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """The open folder of a file and the file's name, reached from the root without a link.

    Raises OSError if there is no such folder.
    """
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.name:
        raise NotADirectoryError(f"{path} leads out of {root}")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(root, flags)
    try:
        for part in pure.parts[:-1]:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, pure.name
    finally:
        os.close(descriptor)
