"""Landed files that hold the records of several streams, each stream's in one run of rows.

One file and one sync for a batch of a thousand streams, where a file each would cost a thousand.
The rows of each stream are listed in the file's own metadata, and so under its hash. These files
are private to the home: segments, which partners fetch, are of one stream.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.storage.segment_files import new_attempt, write_file

RUNS = b"medusa.runs"
KEPT_BYTES_MAX = 64 << 20
RUN_BYTES = 250
"""What a stream's entry in the runs takes in memory, about: as much as a few records do."""

Runs: TypeAlias = Mapping[StreamName, tuple[int, int]]
"""Stream -> its first row and how many it has."""


def write_shared_file(root: Path, folder: StreamName, table: pa.Table, runs: Runs) -> SegmentFile:
    """Write the rows as one file under `root`/folder, synced; the folder is not yet."""
    marked = table.replace_schema_metadata({RUNS: json.dumps(runs)})
    return write_file(root, folder, f"{new_attempt()}.shared", marked)


def is_shared(file: SegmentFile) -> bool:
    """Whether a file is one that `write_shared_file` wrote."""
    return file.path.endswith(".shared.parquet")


@dataclass(slots=True)
class SharedFiles:
    """Shared files as they were last read, KEPT_BYTES_MAX at most; safe for threads.

    Where the files of the buckets that close at a time are more than that, each is read again for
    every stream: the limit is far above what a second lands.
    """

    _kept: OrderedDict[Path, tuple[pa.Table, Runs]] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _guard: Lock = field(default_factory=Lock)

    def rows_of(self, path: Path, stream: StreamName) -> pa.Table:
        """A stream's rows of the file, in event-time order; raises OSError if it cannot be read.

        That it is as it was landed is for the caller to have looked at.
        """
        with self._guard:
            found = self._kept.get(path)
            if found is None:
                found = self._keep(path)
            else:
                self._kept.move_to_end(path)
        table, runs = found
        first, rows = runs.get(stream, (0, 0))
        return table.slice(first, rows)

    def _keep(self, path: Path) -> tuple[pa.Table, Runs]:
        table = pq.read_table(path, partitioning=None).combine_chunks()
        found = table, json.loads(table.schema.metadata[RUNS])
        self._kept[path] = found
        self._bytes += _bytes_of(found)
        while self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _bytes_of(oldest)
        return found


def _bytes_of(kept: tuple[pa.Table, Runs]) -> int:
    table, runs = kept
    return int(table.nbytes) + len(runs) * RUN_BYTES
