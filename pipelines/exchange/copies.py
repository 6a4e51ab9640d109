"""A home's copies of its partners' files, as files under its storage root.

A copy is as large as its partner says that the file is, so it is looked at piece by piece.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.segments import SegmentFile
from pipelines.base.files import open_regular
from pipelines.storage.segment_files import keep_files
from pipelines.storage.store import read_file

PIECE_BYTES = 1 << 20


class FileCopies:
    """`Copies` under a storage root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def holds(self, file: SegmentFile) -> bool:
        """See `Copies.holds`."""
        try:
            read_file(self._root, file, partial(_check, file))
        except Unavailable:
            return False
        return True

    def place(self, file: SegmentFile) -> Path:
        """See `Copies.place`."""
        return self._root / file.path

    def sync(self, files: Iterable[SegmentFile]) -> None:
        """See `Copies.sync`."""
        keep_files(self._root, files, adopts=True)


def _check(file: SegmentFile, path: Path) -> None:
    """Unavailable unless a file has the announced size and hash."""
    with suppress(OSError):
        # Touched before it is looked at: no longer an old file that may be removed as orphan.
        os.utime(path)
        if _is_as_announced(path, file):
            return
    raise Unavailable(f"file {path} is not as announced")


def _is_as_announced(path: Path, file: SegmentFile) -> bool:
    """Whether a file has the announced size and hash; OSError if it cannot be read."""
    digest = sha256()
    with open_regular(path, follows_links=True) as opened:
        # A file of another size is not read at all.
        if os.fstat(opened.fileno()).st_size != file.size_bytes:
            return False
        while piece := opened.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest() == file.sha256
