"""Writing the files of segments so that a crash can leave an orphan but never half a file.

A file is written under a random name of this attempt, then synced, and its folder after it, before
a commit names it. What no commit names is an orphan: no reader sees it, and it may be removed.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from socket import gethostname
from threading import Lock
from typing import Any, BinaryIO, TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.errors import WRONG_FORM, Refused, Unavailable
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.base import clock
from pipelines.base.files import sync_file
from pipelines.storage.object_settings import SETTINGS, ObjectSettings, read_settings
from pipelines.storage.store import read_file, store_of

Buffer: TypeAlias = bytes | pa.Buffer

REASON_LENGTH_MAX = 300
ROWS_PER_GROUP = 65_536
GROUP_BYTES_MAX = 8 << 20
"""Of a row group with more than one row, in memory: what a reader has to hold at a time."""

ENCODED_ROWS_MIN = 16_384
SAMPLE_ROWS = 1_024
"""From how many rows on, and on how many of them, the encoding of each column is decided."""


def new_attempt() -> str:
    """A name that no other attempt has."""
    return uuid4().hex


def write_file(root: Path, stream: StreamName, attempt: str, table: pa.Table) -> SegmentFile:
    """Write the rows as one Parquet file under `root`/stream, synced; the folder is not yet."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", compression_level=1, **_encodings(table)
    ) as writer:
        for group in _groups(table):
            writer.write_table(group, row_group_size=max(group.num_rows, 1))
    data = sink.getvalue()
    path = f"{stream}/{attempt}.parquet"
    write_durably(root / path, data)
    return SegmentFile(
        path=path, size_bytes=data.size, sha256=sha256(data).hexdigest(), rows=table.num_rows
    )


def _encodings(table: pa.Table) -> dict[str, Any]:
    """How to encode the columns of a table: a dictionary only where values repeat.

    To look up each value of a column of event times took longer than all else of writing them, and
    the differences between them take less room. The columns of small tables are not examined.
    """
    if table.num_rows < ENCODED_ROWS_MIN:
        return {}
    rows = pa.array(range(0, table.num_rows, table.num_rows // SAMPLE_ROWS))
    repeating: list[str] = []
    by_difference: list[str] = []
    for field_, values in zip(table.schema, table.columns, strict=True):
        if 2 * pc.count_distinct(values.take(rows)).as_py() <= len(rows):
            repeating.append(field_.name)
        elif pa.types.is_integer(field_.type) or pa.types.is_timestamp(field_.type):
            by_difference.append(field_.name)
    return {
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(by_difference, "DELTA_BINARY_PACKED"),
    }


def _groups(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in pieces as large as a row group may be; one without rows if there are none."""
    for at in range(0, max(table.num_rows, 1), ROWS_PER_GROUP):
        yield from _cut(table.slice(at, ROWS_PER_GROUP))


def _cut(table: pa.Table) -> Iterator[pa.Table]:
    if table.num_rows < 2 or table.nbytes <= GROUP_BYTES_MAX:
        yield table
        return
    half = table.num_rows // 2
    yield from _cut(table.slice(0, half))
    yield from _cut(table.slice(half))


def write_durably(path: Path, data: Buffer) -> None:
    """Write a new file and sync it; its folder is not yet.

    Raises Unavailable if it cannot be written whole; then nothing is there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
            sync_file(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise Unavailable(
            f"file {path} could not be written ({error.strerror}): free space or mend the folder, "
            "then run again; nothing was committed"
        ) from error


def keep_files(root: Path, files: Iterable[SegmentFile], *, adopts: bool = False) -> None:
    """Make written files durable before a commit names them (see `Store.keep`).

    Raises Unavailable if one is gone meanwhile, or cannot be stored.
    """
    store_of(root).keep(frozenset(files), adopts=adopts)


@dataclass(frozen=True, slots=True)
class TaskRoot:
    """A storage root as a task of Spark finds it, maybe on a machine that has no file of it.

    With objects, a folder of copies is made there, at the same path. `written_ns` is when the
    settings were written (ns since 1970): it is copied with them, so that an older task does not
    replace newer settings.
    """

    folder: str
    objects: ObjectSettings | None
    written_ns: int = 0

    @classmethod
    def of(cls, root: Path) -> TaskRoot:
        """The root of this process, for a task."""
        written_ns = _written_ns(root)
        return cls(str(root), read_settings(root), written_ns)

    @property
    def is_anywhere(self) -> bool:
        """Whether a task on any machine can read the files."""
        return self.objects is not None

    def here(self) -> Path:
        """The folder of the root in this process; its settings are stored there.

        A process that has used older ones uses these from its next start on. Raises Unavailable if
        the machine has no keys, no file of authorities, or no right to make the folder.
        """
        root = Path(self.folder)
        if self.objects is not None and _written_ns(root) < max(self.written_ns, 1):
            try:
                self.objects.keys()
                self.objects.check_ca_file()
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.objects.write(root)
                os.utime(root / SETTINGS, ns=(self.written_ns, self.written_ns))
            except Refused as error:
                raise Unavailable(f"on machine {gethostname()}, {error}") from error
            except OSError as error:
                raise Unavailable(
                    f"on machine {gethostname()}, the folder {root} cannot be made "
                    f"({error.strerror}): mend the rights of the folder above it"
                ) from error
        return root

    def hand_over(self, files: Iterable[SegmentFile]) -> None:
        """Let other machines read what a task has written: objects are put at once.

        On disk the process that commits makes the names durable. Raises what `keep_files` raises.
        """
        if self.objects is not None:
            keep_files(self.here(), files)


def _written_ns(root: Path) -> int:
    try:
        return (root / SETTINGS).stat().st_mtime_ns
    except OSError:
        return 0


def read_checked(root: Path, file: SegmentFile) -> pa.Buffer:
    """The bytes of a file that is there with its size and hash (S10).

    They are in memory of Arrow's: a thread of its pool that lets go of bytes of Python's while the
    interpreter ends would abort the process (apache/arrow issue 34314).
    Raises Unavailable, naming the file, if it is gone or damaged.
    """
    return read_file(root, file, partial(_read, file))


def _read(file: SegmentFile, path: Path) -> pa.Buffer:
    try:
        with path.open("rb") as opened:
            data = pa.allocate_buffer(os.fstat(opened.fileno()).st_size)
            size_bytes = opened.readinto(memoryview(data))
    except OSError as error:
        raise _gone(path, error) from error
    if size_bytes != file.size_bytes or sha256(data).hexdigest() != file.sha256:
        raise _damaged(path, file, size_bytes)
    return data


@contextlib.contextmanager
def open_checked(root: Path, file: SegmentFile) -> Iterator[BinaryIO]:
    """A file, open at its beginning, that is there with its size and hash; a piece in memory only.

    Raises what `read_checked` raises.
    """
    with read_file(root, file, partial(_opened, file)) as opened:
        yield opened


def _opened(file: SegmentFile, path: Path) -> BinaryIO:
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(path.open("rb"))
            size_bytes = os.fstat(opened.fileno()).st_size
            is_same = size_bytes == file.size_bytes and (
                file_digest(opened, "sha256").hexdigest() == file.sha256
            )
            opened.seek(0)
        except OSError as error:
            raise _gone(path, error) from error
        if not is_same:
            raise _damaged(path, file, size_bytes)
        stack.pop_all()
        return opened


def read_rows(root: Path, file: SegmentFile, schema: pa.Schema) -> pa.Table:
    """The rows of a file that is as it was committed, in a schema.

    Raises what `read_checked` raises, and Unavailable if there are no such rows in it.
    """
    data = read_checked(root, file)
    with rows_of(root / file.path):
        table = pq.read_table(pa.BufferReader(data), columns=schema.names)
        if table.num_rows != file.rows:
            raise ValueError(f"{table.num_rows} rows, not {file.rows}")
        return table.select(schema.names).cast(schema)


@contextlib.contextmanager
def rows_of(path: Path) -> Iterator[None]:
    """Reading rows of a stored file; raises Unavailable if they are not there as they should be.

    The file has its hash, so that it was written so: by another program, or a partner's.
    """
    try:
        yield
    except (pa.ArrowException, OSError, *WRONG_FORM) as error:
        reason = " ".join(str(error).split())[:REASON_LENGTH_MAX] or type(error).__name__
        raise Unavailable(
            f"file {path} does not hold the rows of its stream ({reason}): restore it from a "
            "backup or another replica"
        ) from error


def _gone(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"file {path} cannot be read ({error.strerror}): restore it from a backup or another "
        "replica"
    )


def _damaged(path: Path, file: SegmentFile, size_bytes: int) -> Unavailable:
    return Unavailable(
        f"file {path} is damaged: its {size_bytes} bytes are not the {file.size_bytes} bytes "
        f"with SHA-256 {file.sha256[:12]}… that were committed; restore it from a backup or "
        "another replica"
    )


@dataclass(slots=True)
class CheckedFiles:
    """Which files were compared with their hash a short while ago, so that they need not be again.

    A file is known by its size, modification time (ns) and inode: written over or replaced, it is
    looked at anew. A bit that flips on the disk changes none of these, so nothing is known for more
    than `kept_s` seconds. At most `files_max` files are, those used last: a few hundred bytes each.
    """

    files_max: int = 4_096
    kept_s: float = 600.0
    now_s: Callable[[], float] = clock.monotonic_s
    _seen: OrderedDict[tuple[str, str], tuple[tuple[int, int, int], float]] = field(
        default_factory=OrderedDict
    )
    _guard: Lock = field(default_factory=Lock)

    def check(self, root: Path, file: SegmentFile) -> Path:
        """The path of a file that is as it was committed; raises what `open_checked` raises."""
        path = root / file.path
        key, identity, now_s = (str(path), file.sha256), _identity(path), self.now_s()
        with self._guard:
            known, at_s = self._seen.pop(key, (None, 0.0))
            if known is not None and known == identity and now_s - at_s < self.kept_s:
                self._seen[key] = known, at_s
                return path
        with open_checked(root, file):
            pass
        if identity is not None:
            with self._guard:
                self._seen[key] = identity, now_s
                while len(self._seen) > self.files_max:
                    self._seen.popitem(last=False)
        return path

    def __len__(self) -> int:
        return len(self._seen)


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


_CHECKED = CheckedFiles()


def check_file(root: Path, file: SegmentFile) -> Path:
    """The path of a file that is as it was committed, as far as `CheckedFiles` looks.

    Raises what `open_checked` raises.
    """
    return _CHECKED.check(root, file)
