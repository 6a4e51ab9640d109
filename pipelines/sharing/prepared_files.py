"""Shared files: written once, kept in a folder of limited size, written again when requested.

A file is named after what it holds. What was removed to make room is written again from the stored
files when a client requests it: so a table may be larger than the folder. Rows that are trimmed
meanwhile are gone.

Limit: of `rows_max` files the server knows what they hold, those that answers named last.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from medusa_core.errors import Refused, Unavailable
from pipelines.base.files import write_atomically
from pipelines.sharing.file_rows import FileRows, parquet_of, statistics_of

SUFFIX = ".parquet"
FOLDER_MODE, FILE_MODE = 0o700, 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedFile:
    """A shared file: its name, its size, its rows, and its statistics as a JSON text."""

    key: str
    size_bytes: int
    rows: int
    statistics: str


class PreparedFiles:
    """The shared files of one server; `root` is the storage root of its home.

    `folder` is emptied first.
    """

    def __init__(
        self, folder: Path, root: Path, *, bytes_max: int = 2 << 30, rows_max: int = 100_000
    ) -> None:
        self._folder = folder
        self._root = root
        self._bytes_max = bytes_max
        self._rows_max = rows_max
        self._known: OrderedDict[str, tuple[PreparedFile, FileRows]] = OrderedDict()
        self._stored: OrderedDict[str, int] = OrderedDict()
        self._stored_bytes = 0
        self._guard = Lock()
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            for path in folder.glob(f"*{SUFFIX}"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from error

    def prepare(self, rows: FileRows) -> PreparedFile:
        """The file of these rows, written now unless it was before.

        Raises Unavailable if a stored file cannot be read or this one cannot be written.
        """
        key = rows.key
        with self._guard:
            known = self._known.pop(key, None)
            if known is not None:
                self._known[key] = known
                return known[0]
        return self._write(key, rows)

    def opened(self, key: str) -> BinaryIO | None:
        """The file of a name, open, if it is there."""
        with self._guard:
            if key not in self._stored:
                return None
            self._stored.move_to_end(key)
        try:
            return self._path(key).open("rb")
        except OSError:
            return None

    def written(self, key: str) -> BinaryIO | None:
        """The file of a name, written again and open; None: it is not known what it holds.

        Raises what `prepare` raises, and Refused if it is not the same any more.
        """
        with self._guard:
            known = self._known.get(key)
        if known is None:
            return None
        again = self._write(key, known[1])
        if again.size_bytes != known[0].size_bytes:
            raise Refused("the file has changed since it was named: read the table again")
        return self.opened(key)

    def _write(self, key: str, rows: FileRows) -> PreparedFile:
        table = rows.read(self._root)
        content = parquet_of(table)
        made = PreparedFile(
            key=key, size_bytes=content.size, rows=table.num_rows, statistics=statistics_of(table)
        )
        path = self._path(key)
        try:
            write_atomically(path, content.to_pybytes(), durable=False, mode=FILE_MODE)
        except OSError as error:
            raise _unwritable(path, error) from error
        with self._guard:
            self._known[key] = made, rows
            while len(self._known) > self._rows_max:
                self._forget(self._known.popitem(last=False)[0])
            self._stored_bytes += made.size_bytes - self._stored.pop(key, 0)
            self._stored[key] = made.size_bytes
            while self._stored_bytes > self._bytes_max and len(self._stored) > 1:
                self._forget(next(iter(self._stored)))
        return made

    def _forget(self, key: str) -> None:
        """Remove a file; what a client has open it reads to its end."""
        size_bytes = self._stored.pop(key, None)
        if size_bytes is not None:
            self._stored_bytes -= size_bytes
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{SUFFIX}"


def _unwritable(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"shared file {path} cannot be written ({error.strerror}): free space or mend the folder"
    )
