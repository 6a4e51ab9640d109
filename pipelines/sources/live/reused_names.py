"""Files of a watched folder that changed after they were read, or that another one replaced.

A name is read once (`handover`), so such a file is not read. It is reported for as long as it is
in the folder: nobody would look for records that were never read.

A look costs LOOKED_AT names at most, in turn, whatever the folder holds. A file counts as another
one if its modification time differs from the one that it had when it was handed over. Limit: a
file that is written again within the same millisecond, or with the time of the one before, is not
noticed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

LOOKED_AT_FIRST = 10_000
LOOKED_AT = 500


class ReusedNames:
    """The names of a folder under which there is another file than the one that was read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._found: set[str] = set()
        self._names: Iterator[str] = iter(())
        self._limit = LOOKED_AT_FIRST

    def look(self, written_ms: Mapping[str, int]) -> None:
        """Compare the next of these files, name -> modification time, with what is there now.

        A time of 0 is not known, and such a file is not compared.
        """
        self._found = {name for name in self._found if self._is_another(name, written_ms)}
        names = list(itertools.islice(self._names, self._limit))
        if len(names) < self._limit:
            # The next round begins; a name that is known since then has its turn in it.
            self._names = iter(list(written_ms))
            names += itertools.islice(self._names, self._limit - len(names))
        self._limit = LOOKED_AT
        self._found.update(name for name in names if self._is_another(name, written_ms))

    @property
    def count(self) -> int:
        """How many such names were seen."""
        return len(self._found)

    @property
    def sentence(self) -> str:
        """What there is and what to do; empty if there is nothing."""
        if not self._found:
            return ""
        files = "1 file" if self.count == 1 else f"{self.count:,} files"
        was = "was" if self.count == 1 else "were"
        return (
            f"{files} in {self._directory} {was} changed or replaced after having been read, for "
            f"example {min(self._found)}: a name is read once, so move each file in under a new "
            "name"
        )

    def _is_another(self, name: str, written_ms: Mapping[str, int]) -> bool:
        read_ms = written_ms.get(name, 0)
        if not read_ms:
            return False
        try:
            return os.stat(self._directory / name).st_mtime_ns // 1_000_000 != read_ms
        except OSError:
            return False
