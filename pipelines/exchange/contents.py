"""The content of partners' files, compared with their news.

The hash of a copy proves that it is the announced file, not that it holds rows. Later readers of
a line (a step, a sink, a report) trust its files, so each is read once when it arrives: it must
hold rows of the stream's columns, as many as announced, each within its bucket, and the buckets
of a segment must have the digests of the news. Any other file is refused, and other rows than the
announced ones are a divergence; both are problems of that one line. The memory that a file may
use is limited as for any other (`file_limits`), and a file that unpacks to very much more than its
size is refused, because steps hold all rows of a bucket.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from medusa_core.columns import Column, declare_columns
from medusa_core.digest import EMPTY, Digest
from medusa_core.errors import WRONG_FORM, Diverged, Refused, Unavailable
from medusa_core.names import StreamName
from medusa_core.segments import Segment, SegmentFile
from pipelines.base.time_text import iso
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import StreamRecord
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.file_limits import VALUE_BYTES, FileLimits
from pipelines.storage.parquet_bounds import (
    check_footer,
    open_footer,
    open_pages,
    parts_of,
    text_bytes,
)
from pipelines.storage.parquet_pages import WrongPages
from pipelines.storage.store import read_file

FILES_KNOWN_MAX = 64
"""Files whose digests are kept: a correction names an old file again for what it left as it was."""

REASON_LENGTH_MAX = 200


class Contents(Protocol):
    """What looks into partners' files."""

    def check(self, stream: StreamName, segments: Iterable[Segment]) -> None:
        """Raise Refused or Diverged unless the files of the segments hold the announced rows.

        The copies are here, with their size and hash; the segments name them.
        """


class AnyContents:
    """Accepts every file unchecked: for a simulation, which has none."""

    def check(self, stream: StreamName, segments: Iterable[Segment]) -> None:
        """See `Contents.check`."""


class FileContents:
    """`Contents` of files under a storage root."""

    def __init__(self, root: Path, lines: Lines) -> None:
        self._root = root
        self._lines = lines
        self._streams: dict[StreamName, StreamRecord] = {}
        self._known: OrderedDict[tuple[str, str], Mapping[int, Digest]] = OrderedDict()

    def check(self, stream: StreamName, segments: Iterable[Segment]) -> None:
        """See `Contents.check`."""
        found: dict[SegmentFile, tuple[Mapping[int, Digest], list[int]]] = {}
        for segment in segments:
            total: dict[int, Digest] = {}
            for file in segment.files:
                if file not in found:
                    digests = self._digests(self._stream(stream), file)
                    found[file] = digests, sorted(digests)
                digests, starts = found[file]
                first, past = (
                    bisect_left(starts, at) for at in (segment.range.from_us, segment.range.to_us)
                )
                for at_us in starts[first:past]:
                    total[at_us] = total.get(at_us, EMPTY) + digests[at_us]
            if total != dict(segment.buckets):
                raise _other_rows(segment, total)

    def _stream(self, name: StreamName) -> StreamRecord:
        """The stream as it is declared here, which never changes."""
        if name not in self._streams:
            lines = self._lines.lines(name)
            if not lines:
                raise Unavailable(f"{name} is not declared here: apply its contracts")
            self._streams[name] = lines[0].stream
        return self._streams[name]

    def _digests(self, stream: StreamRecord, file: SegmentFile) -> Mapping[int, Digest]:
        key = (stream.name, file.sha256)
        if key not in self._known:
            self._known[key] = self._read(stream, file)
            while len(self._known) > FILES_KNOWN_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _read(self, stream: StreamRecord, file: SegmentFile) -> Mapping[int, Digest]:
        """The digest of each bucket in a file."""
        columns = declare_columns(f"stream {stream.name}", stream.columns)
        try:
            with read_file(self._root, file, _opened) as opened:
                path = self._root / file.path
                return _digests_in(path, opened, file, columns, stream.width_us)
        except (pa.ArrowException, OSError, WrongPages, *WRONG_FORM) as error:
            reason = " ".join(str(error).split())[:REASON_LENGTH_MAX] or type(error).__name__
            raise Refused(
                f"file {file.path} holds no rows of {stream.name} ({reason}): call the operator of "
                "the partner that it is from"
            ) from error


def _digests_in(
    path: Path,
    stream: BufferedReader,
    file: SegmentFile,
    columns: tuple[Column, ...],
    width_us: int,
) -> Mapping[int, Digest]:
    """The digest of each bucket; one of WRONG_FORM if the rows are not what they have to be."""
    schema = file_schema(columns)
    found: dict[int, Digest] = {}
    check_footer(path, stream)
    reader = open_footer(path, stream)
    _check_schema(reader.schema_arrow, schema)
    reader, batch_rows = open_pages(path, stream, reader, schema.names)
    if reader.metadata.num_rows != file.rows:
        raise ValueError(f"{reader.metadata.num_rows} rows, {file.rows} announced")
    unpacked = VALUE_BYTES * file.rows * len(schema.names)
    _check_unpacked(file, unpacked)
    for part in parts_of(reader, schema.names, batch_rows):
        unpacked += text_bytes(part)
        _check_unpacked(file, unpacked)
        rows = pa.Table.from_batches([part]).select(schema.names).cast(schema)
        buckets, stimes = rows[BUCKET].to_numpy(), rows[STIME].to_numpy()
        if np.any(stimes - stimes % width_us != buckets):
            raise ValueError("a row outside of its bucket")
        for at_us, digest in digests_by_bucket(rows, columns, buckets).items():
            found[at_us] = found.get(at_us, EMPTY) + digest
    return found


def _opened(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise Unavailable(
            f"copy {path} cannot be read ({error.strerror}): mend the folder; it is tried again"
        ) from error


def _check_unpacked(file: SegmentFile, unpacked: int) -> None:
    if unpacked > FileLimits().unpacked_bytes_max(file.size_bytes):
        raise ValueError(f"its {file.size_bytes:,} bytes unpack to {unpacked:,} or more")


def _check_schema(given: pa.Schema, expected: pa.Schema) -> None:
    for field in expected:
        types = [_stored(given.field(at).type) for at in given.get_all_field_indices(field.name)]
        if types != [field.type]:
            found = ", ".join(map(str, types)) or "missing"
            raise ValueError(f"column {field.name} is {found}, not {field.type}")
    if len(given) != len(expected):
        raise ValueError(f"{len(given)} columns, not {len(expected)}")


def _stored(given: pa.DataType) -> pa.DataType:
    """A type, whether or not each value is kept once."""
    return given.value_type if pa.types.is_dictionary(given) else given


def _other_rows(segment: Segment, found: Mapping[int, Digest]) -> Diverged:
    at_us = min(set(found.items()) ^ set(segment.buckets.items()), key=lambda item: item[0])[0]
    digests, there = segment.buckets.get(at_us, EMPTY), found.get(at_us, EMPTY)
    return Diverged(
        f"the files of {segment.stream} by {segment.producer} hold other rows in the bucket at "
        f"{iso(at_us)} than its news ({there.rows} rows, {digests.rows} announced): call its "
        "operator"
    )
