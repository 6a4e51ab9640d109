"""Orphans: files of a storage root that no row of the catalog names.

An attempt that was given up, a crash between a commit and the removal of freed files, a
compaction: all leave files without a reader. A file is an orphan once it is older than a grace
period, because the attempt that wrote it may still commit, and a reader may still use it.

Only names that Medusa gives to files of records are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeAlias

from pipelines.storage.store import ORPHAN_SUFFIX, StoredFile, store_of

Orphan: TypeAlias = StoredFile
"""A file that nothing names."""

GRACE_S = 3_600.0
GRACE_S_MIN = 60.0
"""How old an orphan is at least, unless somebody says otherwise."""
PATHS_PER_LOOK = 1_000

Named = Callable[[Collection[str]], frozenset[str]]
"""Which of some paths, relative to the root, the catalog knows."""


def find_orphans(root: Path, named: Named, now_s: float, grace_s: float) -> tuple[Orphan, ...]:
    """The orphans under a root, by path; `now_s` is the store's time of now.

    Files are listed before the catalog is read, so that what is committed meanwhile is no orphan.
    Raises Unavailable if the root cannot be read.
    """
    store = store_of(root)
    old = [found for found, at_s in store.files() if at_s <= now_s - grace_s]
    orphans: list[Orphan] = []
    for first in range(0, len(old), PATHS_PER_LOOK):
        page = old[first : first + PATHS_PER_LOOK]
        known = named([_given_name(found.path) for found in page])
        for found in page:
            if _given_name(found.path) not in known:
                orphans.append(found)
            elif found.path.endswith(ORPHAN_SUFFIX):
                store.put_back(found.path)  # a crash came between; it is somebody's after all
    return tuple(sorted(orphans))


def remove_orphans(
    root: Path, orphans: Collection[Orphan], now_s: float, grace_s: float
) -> tuple[Orphan, ...]:
    """Remove orphans that are still as old as they were; returns those that are gone."""
    store = store_of(root)
    return tuple(o for o in orphans if store.remove_if_old(o.path, now_s - grace_s))


def _given_name(path: str) -> str:
    return path.removesuffix(ORPHAN_SUFFIX)
