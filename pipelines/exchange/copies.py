"""A home's copies of its partners' files, as files under its storage root.

A copy is as large as its partner says that the file is, so it is looked at piece by piece.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.segments import SegmentFile
from pipelines.base.files import atomic_file
from pipelines.storage.segment_files import sync_folders

PIECE_BYTES = 1 << 20


class FileCopies:
    """`Copies` under a storage root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def holds(self, file: SegmentFile) -> bool:
        """See `Copies.holds`."""
        path = self.place(file)
        try:
            # Touched before it is looked at: no longer an old file that may be removed as orphan.
            os.utime(path)
            for _ in checked_pieces(path, file):
                pass
        except (OSError, Unavailable):
            return False
        return True

    def place(self, file: SegmentFile) -> Path:
        """See `Copies.place`."""
        return self._root / file.path

    def sync(self, files: Iterable[SegmentFile]) -> None:
        """See `Copies.sync`."""
        sync_folders(self._root, files)


def checked_pieces(path: Path, file: SegmentFile) -> Iterator[bytes]:
    """The bytes of a file, piece by piece; raises Unavailable, naming it, if it is gone or differs.

    Whoever takes the pieces may use them only once all have come.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as opened:
            found, digest = os.fstat(opened.fileno()), sha256()
            size_bytes = found.st_size
            is_as_published = stat.S_ISREG(found.st_mode) and size_bytes == file.size_bytes
            # A file of another size is not read at all, nor is what is no file.
            left_bytes = size_bytes if is_as_published else 0
            while piece := opened.read(min(PIECE_BYTES, left_bytes)):
                left_bytes -= len(piece)
                digest.update(piece)
                yield piece
    except OSError as error:
        raise Unavailable(
            f"file {path} cannot be read ({error.strerror}): restore it from a backup or another "
            "replica"
        ) from error
    if not is_as_published or digest.hexdigest() != file.sha256:
        raise Unavailable(
            f"file {path} is damaged: its {size_bytes} bytes are not the {file.size_bytes} bytes "
            f"with SHA-256 {file.sha256[:12]}… that were announced; restore it from a backup or "
            "another replica"
        )


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO would be waited for


def write_copy(pieces: Iterable[bytes], target: Path) -> None:
    """Put the pieces at the target, synced, all at once; its folder is not yet synced.

    Raises Unavailable if they cannot be written, or as the pieces do; then nothing new lies there.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(target, syncs_folder=False) as opened:
            opened.writelines(pieces)
    except OSError as error:
        raise Unavailable(
            f"copy {target} could not be written ({error.strerror}): free space or mend the "
            "folder; it is tried again"
        ) from error
