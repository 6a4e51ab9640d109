"""Where the files of a storage root are kept: in its folder, or as objects in a bucket.

Every file has a path in the folder of the root, which readers and engines open. Without a bucket
that is the file. With one (`object_store`) it is a copy of an object: it may be missing, and is
then made again from the object. What a reader needs is named by the catalog; only the removal of
orphans lists files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from medusa_core.errors import Unavailable
from medusa_core.segments import SegmentFile
from pipelines.base.failpoints import reached
from pipelines.base.files import link_within, rename_within, sync_folder
from pipelines.storage.object_settings import read_settings

Value = TypeVar("Value")

ORPHAN_SUFFIX = ".orphan"
_OWN = (".parquet", ".parquet.part", ".panes", ".panes.part")
SUFFIXES = (*_OWN, *(f"{suffix}{ORPHAN_SUFFIX}" for suffix in _OWN))


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file of a store: its path relative to the root, and its size."""

    path: str
    size_bytes: int


EXPIRES_S = 60
"""How long the URL of an object is valid: the request that it is for follows at once."""


class Store(Protocol):
    """Where the files of one storage root are kept; paths are relative to the root."""

    def keep(self, files: Collection[SegmentFile], *, adopts: bool) -> None:
        """Make written files durable, and young: they are no orphans for a grace period.

        `adopts`: the names may be those of files of an earlier attempt, which may be orphans by
        now. Raises Unavailable if one is gone, or cannot be stored.
        """

    def restore(self, file: SegmentFile) -> bool:
        """Make the copy of a file in the folder again; False if there is no other one.

        Raises Unavailable if that cannot be found out now.
        """

    def object_url(self, path: str, origin: str) -> str | None:
        """A URL of a file at the server `origin`, for one who has no keys, for EXPIRES_S.

        None if it is not kept there, or may not be read there by others.
        """

    def files(self) -> Iterator[tuple[StoredFile, float]]:
        """Files with our names, and when each was last kept (s since 1970).

        Raises Unavailable if they cannot be listed.
        """

    def remove(self, path: str) -> bool:
        """Remove a file; False if there is none, if its path leads out, or if it fails."""

    def remove_if_old(self, path: str, before_s: float) -> bool:
        """Remove an orphan that nobody has kept since `before_s`; whether it is gone."""

    def put_back(self, path: str) -> None:
        """Undo what a removal that was interrupted has left: the file is named after all."""


@lru_cache(maxsize=64)
def store_of(root: Path) -> Store:
    """The store of a storage root; Refused if the settings of its bucket are not valid."""
    settings = read_settings(root)
    if settings is None:
        return Folder(root)
    # Imported where it is needed: it loads an S3 client.
    from pipelines.storage.object_store import Bucket

    return Bucket(root, settings)


def read_file(root: Path, file: SegmentFile, read: Callable[[Path], Value]) -> Value:
    """What `read` returns for the path of a file; it raises Unavailable if the file is not whole.

    Then the copy is made again and read again, if there is an object.
    """
    try:
        return read(root / file.path)
    except Unavailable:
        if not store_of(root).restore(file):
            raise
    return read(root / file.path)


def remove_file(root: Path, path: str) -> bool:
    """Remove a file of a root (see `Store.remove`)."""
    return store_of(root).remove(path)


def is_inside(path: str) -> bool:
    """Whether a path that is relative to a root names a file in it; links are not looked at."""
    pure = PurePosixPath(path)
    return not pure.is_absolute() and ".." not in pure.parts and pure.name != ""


def gone_before_commit(path: Path, error: OSError) -> Unavailable:
    """The error of `Store.keep` about a file that was written and is not there."""
    return Unavailable(
        f"file {path} is gone before it was committed ({error.strerror}): run again; nothing "
        "was committed"
    )


@dataclass(frozen=True, slots=True)
class Folder:
    """`Store` of files in a folder.

    Nothing outside of it is touched: symbolic links are neither followed nor removed.
    """

    root: Path

    def keep(self, files: Collection[SegmentFile], *, adopts: bool) -> None:
        """See `Store.keep`."""
        paths = {self.root / file.path for file in files}
        for path in paths:
            try:
                os.utime(path)
            except OSError as error:
                raise gone_before_commit(path, error) from error
        for folder in {path.parent for path in paths}:
            sync_folder(folder)

    def restore(self, file: SegmentFile) -> bool:
        """See `Store.restore`."""
        return False

    def object_url(self, path: str, origin: str) -> str | None:
        """See `Store.object_url`."""
        return None

    def files(self) -> Iterator[tuple[StoredFile, float]]:
        """See `Store.files`."""

        def refuse(error: OSError) -> None:
            raise Unavailable(
                f"folder {error.filename} cannot be read ({error.strerror}): mend it, then run "
                "again"
            ) from error

        try:
            os.stat(self.root)
        except OSError as error:
            refuse(error)
        walk = os.fwalk(self.root, onerror=refuse, follow_symlinks=False)
        for folder, _, names, descriptor in walk:
            for name in names:
                if not name.endswith(SUFFIXES):
                    continue
                with suppress(FileNotFoundError):
                    found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        path = (Path(folder) / name).relative_to(self.root)
                        yield StoredFile(path.as_posix(), found.st_size), found.st_mtime

    def remove(self, path: str) -> bool:
        """See `Store.remove`."""
        try:
            with self._folder_of(path) as (folder, name):
                os.unlink(name, dir_fd=folder)
        except OSError:
            return False
        return True

    def remove_if_old(self, path: str, before_s: float) -> bool:
        """See `Store.remove_if_old`.

        The file is set aside first and looked at again: who adopts a file that is already there
        touches it, and then either it is young here, or it is not there for them.
        """
        with suppress(OSError), self._folder_of(path) as (folder, name):
            quarantined = name if name.endswith(ORPHAN_SUFFIX) else name + ORPHAN_SUFFIX
            rename_within(folder, name, quarantined)
            reached("orphans.aside")
            if os.stat(quarantined, dir_fd=folder, follow_symlinks=False).st_mtime > before_s:
                rename_within(folder, quarantined, name)
                return False
            os.unlink(quarantined, dir_fd=folder)
            return True
        return False

    def put_back(self, path: str) -> None:
        """See `Store.put_back`."""
        with suppress(OSError), self._folder_of(path) as (folder, name):
            original = name.removesuffix(ORPHAN_SUFFIX)
            # Not over one that is there: it was fetched again meanwhile.
            link_within(folder, name, original)
            os.unlink(name, dir_fd=folder)

    @contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        """The open folder of a file and the file's name, reached from the root without a link.

        Raises OSError if there is no such folder.
        """
        if not is_inside(path):
            raise NotADirectoryError(f"{path} leads out of {self.root}")
        pure = PurePosixPath(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(self.root, flags)
        try:
            for part in pure.parts[:-1]:
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, pure.name
        finally:
            os.close(descriptor)
