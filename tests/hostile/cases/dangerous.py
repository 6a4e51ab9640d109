"""Files that are small on disk and unpack to more than a machine has: read in bounded memory."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.cases.log_files import line
from tests.hostile.cases.shapes import FileCase
from tests.hostile.cases.text_files import GOOD, HEADER

MIB = 1 << 20


def packed(pieces: Iterator[bytes]) -> bytes:
    """The pieces in gzip, without ever holding them all."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join((*(packer.compress(piece) for piece in pieces), packer.flush()))


def long_line(head: bytes, body: bytes, tail: bytes, mib: int) -> bytes:
    """One line of so many MiB between two others, in gzip."""
    piece = body * (MIB // len(body))
    return packed(iter((head, *(piece for _ in range(mib)), tail)))


def members(count: int) -> bytes:
    """Gzip members, each of which unpacks to nothing."""
    return packed(iter((HEADER + GOOD,))) + packed(iter(())) * count


def one_value(rows: int, size: int) -> bytes:
    """Parquet: one text of that size in every row, kept once in the file's dictionary."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["a" * size])
    table = pa.table(
        {
            "ts_us": pa.array([1_700_000_000_000_000] * rows),
            "host": column,
            "port": pa.array([1] * rows, pa.int32()),
            "size": pa.array([1.5] * rows),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, dictionary_pagesize_limit=64 * MIB, compression="zstd")
    return out.getvalue()


CASES = (
    FileCase(
        name="zeros in one line, 48 MiB",
        landed=2,
        aside=((3, "", "1 MiB"),),
        content=lambda: long_line(HEADER + GOOD, bytes(1), b"\n" + GOOD, 48),
    ),
    FileCase(
        name="an open quote over 1 MiB of lines",
        landed=2,
        aside=((3, "", "quotes are broken"),),
        content=lambda: long_line(HEADER + GOOD + b'1,"', b"a" * 31 + b"\n", b"\n" + GOOD, 1),
    ),
    FileCase(
        name="a header of 32 MiB",
        refused="header|column|MiB|line",
        content=lambda: long_line(b"", b"a,", b"\n1,2\n", 32),
    ),
    FileCase(
        name="a JSON line of 32 MiB",
        landed=2,
        aside=((2, "", "1 MiB"),),
        content=lambda: long_line(line() + b'{"a":"', b"a", b'"}\n' + line(), 32),
    ),
    FileCase(
        name="brackets in one line, 16 MiB",
        landed=2,
        aside=((2, "", "1 MiB"),),
        content=lambda: long_line(line(), b"[", b"\n" + line(), 16),
    ),
    FileCase(
        name="a Zeek line of 32 MiB",
        landed=0,
        aside=((2, "", "1 MiB"),),
        content=lambda: long_line(b"#fields\tts_us\thost\tport\tsize\n", b"a", b"\n", 32),
    ),
    FileCase(name="ten thousand empty gzip members", landed=1, content=lambda: members(10_000)),
    FileCase(
        name="blank lines, 6 MiB",
        landed=2,
        content=lambda: long_line(HEADER + GOOD, b"\n", GOOD, 6),
    ),
    FileCase(
        name="Parquet: a text of 1 MiB in 100,000 rows",
        refused="more than 2 GiB of text",
        content=lambda: one_value(100_000, MIB),
    ),
    FileCase(
        name="Parquet: a text of 64 KiB in 1,500 rows",
        landed=1_500,
        content=lambda: one_value(1_500, 64 * 1_024),
    ),
)
