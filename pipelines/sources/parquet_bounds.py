"""What a Parquet file asks of memory, looked at before any of it is unpacked (`file_limits`)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import pyarrow.parquet

from medusa_core.errors import Refused
from pipelines.sources.file_limits import (
    BATCH_ROWS_MAX,
    FOOTER_BYTES_MAX,
    PAGES_BYTES_MAX,
    ROW_GROUPS_MAX,
    check_column_count,
)
from pipelines.sources.parquet_pages import Page, WrongPages, pages_between

_TAIL_BYTES = 8  # the footer's length and the magic number


@dataclass(frozen=True, slots=True)
class PagesFound:
    """What the pages of some columns have shown: those with dictionaries, and how many rows may be
    unpacked at once."""

    with_dictionary: frozenset[str]
    batch_rows: int


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


def check_counts(file: Path, metadata: pyarrow.parquet.FileMetaData) -> None:
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
    metadata: pyarrow.parquet.FileMetaData,
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
    stream: BufferedReader, metadata: pyarrow.parquet.FileMetaData, columns: Collection[str]
) -> Iterator[tuple[str, Page]]:
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    wanted = [number for number, path in enumerate(paths) if path in columns]
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        for number in wanted:
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
