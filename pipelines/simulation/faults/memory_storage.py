"""A participant's storage root in memory: files of rows under random names, with their hashes.

A file that is being written when its writer dies is torn: it is there under its name with a part of
its rows. Nothing is ever written twice under one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from medusa_core.errors import Unavailable
from medusa_core.segments import SegmentFile
from pipelines.simulation.faults.scenario import Row


@dataclass(slots=True)
class Storage:
    """The files of one root by path."""

    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    _hashes: dict[str, str] = field(default_factory=dict)

    def begin(self, path: str, rows: Sequence[Row]) -> None:
        """Begin to write: what would be found of the file after a crash."""
        self._put(path, tuple(rows)[: len(rows) // 2])

    def write(self, path: str, rows: Sequence[Row]) -> SegmentFile:
        """Write and sync a file; what is there is its record for the catalog."""
        self._put(path, tuple(rows))
        digest = self.hash(path)
        assert digest is not None, "a file that was written is there"
        return SegmentFile(path=path, size_bytes=len(rows), sha256=digest, rows=len(rows))

    def read(self, file: SegmentFile) -> tuple[Row, ...]:
        """The rows of a file after a look at its hash; Unavailable if it is gone."""
        found = self.hash(file.path)
        if found is None:
            raise Unavailable(f"file {file.path} is gone")
        assert found == file.sha256, f"file {file.path} has another hash"
        return self.files[file.path]

    def remove(self, path: str) -> None:
        """Take a file away, if it is there."""
        self.files.pop(path, None)
        self._hashes.pop(path, None)

    def hash(self, path: str) -> str | None:
        """The hash of what is there, None if nothing is."""
        if path not in self.files:
            return None
        if path not in self._hashes:
            self._hashes[path] = sha256(repr(self.files[path]).encode()).hexdigest()
        return self._hashes[path]

    def _put(self, path: str, rows: tuple[Row, ...]) -> None:
        self.files[path] = rows
        self._hashes.pop(path, None)
