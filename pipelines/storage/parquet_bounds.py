"""The memory that a Parquet file requires, checked before any of it is unpacked (`file_limits`)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.errors import Refused
from pipelines.storage.file_limits import (
    BATCH_ROWS_MAX,
    FOOTER_BYTES_MAX,
    PAGES_BYTES_MAX,
    ROW_GROUPS_MAX,
    check_column_count,
)
from pipelines.storage.parquet_pages import Page, WrongPages, pages_between

PART_BYTES_MAX = 64 << 20
"""Of text that is unpacked at once."""

_READ_BYTES = 1 << 20
_INT96_UNIT = "us"
"""Times of the old type INT96, which Spark writes: in nanoseconds, years before 1678 and after 2261
would become other dates."""
_TAIL_BYTES = 8  # the footer's length and the magic number


@dataclass(frozen=True, slots=True)
class PagesFound:
    """What the pages of some columns have shown: those with dictionaries, and how many rows may be
    unpacked at once."""

    with_dictionary: frozenset[str]
    batch_rows: int


def open_footer(file: Path, stream: BufferedReader) -> pq.ParquetFile:
    """A reader of a file of which the footer has been read; Refused for too many columns."""
    # Read through a small buffer: a row group of millions of rows must not be held whole.
    reader = pq.ParquetFile(
        stream,
        buffer_size=_READ_BYTES,
        pre_buffer=False,
        coerce_int96_timestamp_unit=_INT96_UNIT,
    )
    check_counts(file, reader.metadata)
    return reader


def open_pages(
    file: Path, stream: BufferedReader, reader: pq.ParquetFile, columns: Sequence[str]
) -> tuple[pq.ParquetFile, int]:
    """A reader of some columns of the same file, and how many rows may be unpacked at once.

    Raises Refused for pages that ask for more than they may, WrongPages for what is no page.
    Text of which a file keeps each value once is read as it is packed: a text of a MiB in each of
    65,536 rows is a MiB in the file, and would be 64 GiB at once.
    """
    found = look_at_pages(file, stream, reader.metadata, columns)
    schema = reader.schema_arrow
    packed = [name for name in sorted(found.with_dictionary) if is_bytes(schema.field(name).type)]
    if packed:
        reader = pq.ParquetFile(
            stream,
            metadata=reader.metadata,
            read_dictionary=packed,
            buffer_size=_READ_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit=_INT96_UNIT,
        )
    return reader, found.batch_rows


def parts_of(
    reader: pq.ParquetFile, columns: Sequence[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """All rows of these columns, in parts whose text is some MiB when it is unpacked."""
    for batch in reader.iter_batches(batch_rows, columns=list(columns)):
        yield from _cut(batch)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if len(batch) < 2 or text_bytes(batch) <= PART_BYTES_MAX:
        yield batch
        return
    half = len(batch) // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))


def is_bytes(given: pa.DataType) -> bool:
    """Whether a type is text or bytes, of any length."""
    return given in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def text_bytes(batch: pa.RecordBatch) -> int:
    """How much text there is in a batch once it is unpacked."""
    total = 0
    for values in batch.columns:
        if pa.types.is_dictionary(values.type) and is_bytes(values.type.value_type):
            lengths = pc.binary_length(values.dictionary).take(values.indices)
        elif is_bytes(values.type):
            lengths = pc.binary_length(values)
        else:
            continue
        total += pc.sum(lengths.cast(pa.int64())).as_py() or 0
    return total


def check_footer(file: Path, stream: BufferedReader) -> int:
    """The size of the file; Refused if its metadata are larger than they may be."""
    size = os.fstat(stream.fileno()).st_size
    tail = os.pread(stream.fileno(), _TAIL_BYTES, max(size - _TAIL_BYTES, 0))
    footer = int.from_bytes(tail[:4], "little")
    # One that says to be larger than the file is damaged, which its reader says better.
    if FOOTER_BYTES_MAX < footer < size:
        raise Refused(
            f"{file} has {footer:,} bytes of metadata, more than {FOOTER_BYTES_MAX >> 20} MiB: "
            "write it with fewer columns or longer row groups, or as several files"
        )
    return size


def check_counts(file: Path, metadata: pq.FileMetaData) -> None:
    """Refused if a file has more columns or row groups than it may."""
    check_column_count(file, metadata.num_columns)
    if metadata.num_row_groups > ROW_GROUPS_MAX:
        raise Refused(
            f"{file} has {metadata.num_row_groups:,} row groups, more than {ROW_GROUPS_MAX:,}: "
            "write it with longer ones"
        )


def look_at_pages(
    file: Path,
    stream: BufferedReader,
    metadata: pq.FileMetaData,
    columns: Collection[str],
) -> PagesFound:
    """What the pages of these columns show; Refused if they take more memory than they may.

    Raises WrongPages where there is no page.
    """
    largest = dict.fromkeys(columns, 0)
    with_dictionary: set[str] = set()
    longest_value = 0
    for column, page in _pages(stream, metadata, columns):
        largest[column] = max(largest[column], page.unpacked_bytes)
        if page.is_dictionary:
            with_dictionary.add(column)
        if page.is_front_coded:
            longest_value = max(longest_value, page.unpacked_bytes)
    at_once = sum(largest.values())
    if at_once > PAGES_BYTES_MAX:
        raise Refused(
            f"{file} has pages that unpack to {at_once:,} bytes at once, more than "
            f"{PAGES_BYTES_MAX >> 20} MiB: write it with shorter row groups, or smaller pages"
        )
    # Each value may be as long as all of its page: the others begin as it does.
    rows = PAGES_BYTES_MAX // longest_value if longest_value else BATCH_ROWS_MAX
    return PagesFound(frozenset(with_dictionary), max(min(rows, BATCH_ROWS_MAX), 1))


def _pages(
    stream: BufferedReader, metadata: pq.FileMetaData, columns: Collection[str]
) -> Iterator[tuple[str, Page]]:
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    expected = [number for number, path in enumerate(paths) if path in columns]
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        for number in expected:
            if number >= found.num_columns:
                raise WrongPages(f"row group {group} lacks column {paths[number]}")
            chunk = found.column(number)
            if not chunk.num_values:
                continue  # nothing is read of it, wherever it says to begin
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            for page in pages_between(stream, start, start + chunk.total_compressed_size):
                yield paths[number], page
