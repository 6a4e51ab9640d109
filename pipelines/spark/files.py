"""Writing the files of segments so that a crash can leave an orphan but never half a file.

A file is written under a random name of this attempt, then synced, and its folder after it, before
a commit names it. What no commit names is an orphan: no reader sees it, and it may be removed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.errors import Unavailable
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile

Buffer: TypeAlias = bytes | pa.Buffer

ROWS_PER_GROUP = 65_536


def new_attempt() -> str:
    """A name that no other attempt has."""
    return uuid4().hex


def write_file(root: Path, stream: StreamName, attempt: str, table: pa.Table) -> SegmentFile:
    """Write the rows as one Parquet file under `root`/stream, synced; the folder is not yet."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=1,
                   row_group_size=ROWS_PER_GROUP)  # fmt: skip
    data = sink.getvalue()
    path = f"{stream}/{attempt}.parquet"
    write_durably(root / path, data)
    return SegmentFile(
        path=path, size_bytes=data.size, sha256=sha256(data).hexdigest(), rows=table.num_rows
    )


def write_durably(path: Path, data: Buffer) -> None:
    """Write a new file and sync it; its folder is not yet.

    Raises Unavailable if it cannot be written whole; then nothing is there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise Unavailable(
            f"file {path} could not be written ({error.strerror}): free space or mend the folder, "
            "then run again; nothing was committed"
        ) from error


def sync_folders(root: Path, files: Iterable[SegmentFile]) -> None:
    """Make the names of the files durable too, and the files young: no orphans of an hour ago.

    Raises Unavailable if one is gone meanwhile.
    """
    files = list(files)
    for file in files:
        try:
            os.utime(root / file.path)
        except OSError as error:
            raise Unavailable(
                f"file {root / file.path} is gone before it was committed ({error.strerror}): run "
                "again; nothing was committed"
            ) from error
    for folder in {(root / file.path).parent for file in files}:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_checked(root: Path, file: SegmentFile) -> bytes:
    """The bytes of a file that is there with its size and hash (S10).

    Raises Unavailable, naming the file, if it is gone or damaged.
    """
    path = root / file.path
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Unavailable(
            f"file {path} cannot be read ({error.strerror}): restore it from a backup or another "
            "replica"
        ) from error
    if len(data) != file.size_bytes or sha256(data).hexdigest() != file.sha256:
        raise Unavailable(
            f"file {path} is damaged: its {len(data)} bytes are not the {file.size_bytes} bytes "
            f"with SHA-256 {file.sha256[:12]}… that were committed; restore it from a backup or "
            "another replica"
        )
    return data


@lru_cache(maxsize=10_000)
def check_file(root: Path, file: SegmentFile) -> Path:
    """The path of a file, looked at once in this process (see `read_checked`)."""
    read_checked(root, file)
    return root / file.path
