"""A log of JSON lines, one object a line, rotated by size.

The files are `P.jsonl`, then `P.jsonl.1`, the newest of the old, and so on. Each line is one
write to a file opened for appending, so several processes may share it (a driver and the one that
takes over); a process that rotates holds the file's lock, the others notice at their next line.
Text is ASCII with escapes, so that no value can end a line or colour a terminal.

A log must not stop its process: a line that cannot be written (a full disk) is counted, and the
next line that can be written says how many are missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.base.files import descriptor_lock, rename

SIZE_BYTES_MAX = 10_000_000
OLD_FILES_MAX = 5


class JsonLog:
    """Appends to a file; not safe for threads: its owner holds a lock."""

    def __init__(
        self,
        path: Path,
        *,
        size_bytes_max: int = SIZE_BYTES_MAX,
        old_files_max: int = OLD_FILES_MAX,
    ) -> None:
        self.path = path
        self._lost_since_written = 0
        self._size_bytes_max = size_bytes_max
        self._old_files_max = old_files_max
        self._file: int | None = None
        self._ends_torn = False

    def write(self, line: Mapping[str, Any]) -> bool:
        """Append one object; False if the disk would not take it, but never an error for that."""
        missing = {"lines_lost": self._lost_since_written} if self._lost_since_written else {}
        text = json.dumps({**line, **missing}, allow_nan=False, separators=(",", ":"))
        try:
            self._append(text.encode("ascii") + b"\n")
        except OSError:
            self._lost_since_written += 1
            self.close()
            return False
        self._lost_since_written = 0
        return True

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, line: bytes) -> None:
        file = self._opened()
        size_bytes = os.fstat(file).st_size
        if size_bytes and size_bytes + len(line) > self._size_bytes_max:
            self._rotate(file)
            file = self._opened()
        if self._ends_torn:
            line = b"\n" + line
        if os.write(file, line) < len(line):
            raise OSError("the disk took a part of the line")
        self._ends_torn = False

    def _opened(self) -> int:
        if self._file is not None and not self._is_current(self._file):
            self.close()  # another process rotated it, or somebody removed it
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
            size_bytes = os.fstat(self._file).st_size
            # A line that a death or a full disk cut short is ended before the next.
            last = os.pread(self._file, 1, size_bytes - 1) if size_bytes else b"\n"
            self._ends_torn = last != b"\n"
        return self._file

    def _is_current(self, file: int) -> bool:
        try:
            named, opened = self.path.stat(), os.fstat(file)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

    def _rotate(self, file: int) -> None:
        with descriptor_lock(file):
            if self._is_current(file):
                for at in range(self._old_files_max, 0, -1):
                    newer = self._old(at - 1) if at > 1 else self.path
                    if newer.exists():
                        rename(newer, self._old(at))
        self.close()

    def _old(self, at: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{at}")
