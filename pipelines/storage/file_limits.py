"""Limits on the resources that a recorded file may use, each with its reason.

A file of a few KiB can hold a line of 2 GiB, or 64 million equal rows, and may be hostile. So a
reader stops where a file asks for more than any honest one does, and names the exceeded limit.
The unpacked size of a file is limited in proportion to its own size: only that limit may refuse
an honest file (the same row again and again), so it alone can be raised, for one source or one
replay. Memory never grows with a file: pieces of text and batches of rows are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.commits import QuarantinedRecord
from medusa_core.errors import Refused

LINE_BYTES_MAX = 16 << 20
"""Of a line, its end not counted. A record has at most 1 MiB; a line of many is no text at all."""

LINES_PER_PIECE_MAX = 1 << 20
"""Of text that is looked at at once: each line costs several numbers, however short it is."""

UNPACKED_RATIO_MAX = 200
"""How many times its own size a file may unpack to. Logs come to 30 times, and gzip to 1,032."""

UNPACKED_BYTES_FREE = 64 << 20
"""What any file may unpack to, whatever its size."""

UNUSABLE_RECORDS_FREE, UNUSABLE_PART_MAX = 100_000, 0.9
"""So many records of a file may be unusable, and beyond that so large a part: each is kept, with
its reason, and a file of nothing else is another file than was meant."""

COLUMNS_MAX = 10_000
"""Of a file. A declaration names few, and each column costs memory before a row is read."""

ROW_GROUPS_MAX = 20_000
"""Of a Parquet file: each is opened by itself, however few rows it has."""

FOOTER_BYTES_MAX = 8 << 20
"""Of the metadata of a Parquet file, which takes up to 240 times as much memory when it is read."""

PAGES_BYTES_MAX = 1 << 30
"""Of one page of each declared column together, unpacked: so much of a Parquet file is in memory at
once. A page has 1 MiB in most files, and a whole row group's column in a few."""

BATCH_ROWS_MAX = 65_536
"""Of a batch of rows of a Parquet file."""

VALUE_BYTES = 8
"""Of a value of a Parquet file, at least, whichever type it has, when it is in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """The bounds that can be set; the others hold for all files."""

    unpacked_ratio_max: int = UNPACKED_RATIO_MAX

    def unpacked_bytes_max(self, file_bytes: int) -> int:
        """What a file, or the beginning of one, of so many bytes may unpack to."""
        return UNPACKED_BYTES_FREE + self.unpacked_ratio_max * file_bytes

    def check_unpacked(self, file: Path, file_bytes: int, unpacked_bytes: int) -> None:
        """Raise Refused if so many bytes of a file unpack to more than they may."""
        if unpacked_bytes > self.unpacked_bytes_max(file_bytes):
            raise Refused(
                f"{file} unpacks to {unpacked_bytes:,} bytes or more from {file_bytes:,}, which is "
                f"above {self.unpacked_ratio_max} times as much (and {UNPACKED_BYTES_FREE >> 20} "
                "MiB): if it is a file of yours, set unpacked_ratio_max for its source"
            )


def check_column_count(file: Path, count: int) -> None:
    """Raise Refused if a file has more columns than it may."""
    if count > COLUMNS_MAX:
        raise Refused(
            f"{file} has {count:,} columns, more than {COLUMNS_MAX:,}: write it with those that "
            "the source declares"
        )


def check_usable(file: Path, usable: int, unusable: int, last: Sequence[QuarantinedRecord]) -> None:
    """Raise Refused if hardly any of a file's records can be used; `last` are some that cannot."""
    count = usable + unusable
    if unusable > UNUSABLE_RECORDS_FREE and unusable > UNUSABLE_PART_MAX * count:
        why = f"row or line {last[0].position}: {last[0].reason}" if last else "all"
        raise Refused(
            f"{file} has {unusable:,} records that cannot be used among its first {count:,} "
            f"({why}): give the file that the source declares"
        )
