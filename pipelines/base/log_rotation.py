"""Log rotation: a log that is too large is copied, and the original is emptied.

A program that appends to an open file keeps its descriptor, so the file is copied and emptied
instead of renamed. Lines written between the two may be lost: a few, at a rotation.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from pipelines.base import clock
from pipelines.base.files import rename

BYTES_MAX = 10_000_000
KEPT = 3


def rotate_logs(paths: Iterable[Path], *, bytes_max: int = BYTES_MAX, kept: int = KEPT) -> None:
    """Put each log aside that is larger than `bytes_max`: NAME.1 is the newest of `kept`."""
    for path in paths:
        # A log that cannot be turned now (no room, or gone) is looked at again the next time.
        with contextlib.suppress(OSError):
            if path.stat().st_size <= bytes_max:
                continue
            for number in range(kept - 1, 0, -1):
                older = path.with_name(f"{path.name}.{number}")
                if older.exists():
                    rename(older, path.with_name(f"{path.name}.{number + 1}"))
            shutil.copy2(path, path.with_name(f"{path.name}.1"))
            os.truncate(path, 0)


def remove_old(folder: Path, *, days: float) -> None:
    """Remove files below a folder that nobody has written for so long, and folders left empty."""
    before_s = clock.wall_s() - days * 86_400
    for directory, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(directory, name)
            with contextlib.suppress(OSError):
                if path.lstat().st_mtime < before_s:
                    path.unlink()
        if Path(directory) != folder:
            with contextlib.suppress(OSError):
                if Path(directory).stat().st_mtime < before_s:
                    os.rmdir(directory)
