"""Files that are small on disk and unpack to more than a machine has: read in bounded memory."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator

import numpy as np
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


def repeated(head: bytes, body: bytes, mib: int) -> bytes:
    """A head, and then the body again and again: gzip members of 16 MiB, the same each time."""
    piece = body * (MIB // len(body))
    member = packed(piece for _ in range(16))
    return packed(iter((head,))) + member * (mib // 16)


def equal_rows(millions: int) -> bytes:
    """Parquet: so many million rows, all of them equal."""
    rows = 1_000_000
    table = pa.table(
        {
            "ts_us": pa.array(np.full(rows, 1_700_000_000_000_000)),
            "host": pa.array(["a"] * rows),
            "port": pa.array(np.full(rows, 1, np.int32)),
            "size": pa.array(np.full(rows, 1.5)),
        }
    )
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, compression="zstd") as writer:
        for _ in range(millions):
            writer.write_table(table, row_group_size=rows)
    return out.getvalue()


def of_columns(count: int) -> bytes:
    """Parquet: one row of so many columns."""
    out = io.BytesIO()
    pq.write_table(pa.table({f"c{number}": [1] for number in range(count)}), out)
    return out.getvalue()


def of_row_groups(count: int) -> bytes:
    """Parquet: so many row groups of one row."""
    table = pa.table({"ts_us": [1], "host": ["a"], "port": [1], "size": [1.5]})
    out = io.BytesIO()
    pq.write_table(pa.concat_tables([table] * count).combine_chunks(), out, row_group_size=1)
    return out.getvalue()


GIB = 1 << 10
"""Of MiB."""

CASES = (
    FileCase(
        name="zeros in one line, 12 MiB",
        landed=2,
        quarantined=((3, "", "1 MiB"),),
        content=lambda: long_line(HEADER + GOOD, bytes(1), b"\n" + GOOD, 12),
    ),
    FileCase(
        name="a line of 2 GiB",
        refused="line of more than 16 MiB, line 3",
        content=lambda: repeated(HEADER + GOOD, b"a", 2 * GIB),
    ),
    FileCase(
        name="a quoted text of 2 GiB",
        refused="line of more than 16 MiB, line 3",
        content=lambda: repeated(HEADER + GOOD + b'1,"', b"a", 2 * GIB),
    ),
    FileCase(
        name="quotes, 2 GiB",
        refused="line of more than 16 MiB, line 3",
        content=lambda: repeated(HEADER + GOOD, b'"', 2 * GIB),
    ),
    FileCase(
        name="carriage returns, 2 GiB",
        refused="line of more than 16 MiB, line 3",
        content=lambda: repeated(HEADER + GOOD, b"\r", 2 * GIB),
    ),
    FileCase(
        name="blank lines, 2 GiB",
        refused="unpacks to .* above 200 times",
        content=lambda: repeated(HEADER + GOOD, b"\n", 2 * GIB),
    ),
    FileCase(
        name="blank lines above the header, 2 GiB",
        refused="unpacks to .* above 200 times",
        content=lambda: repeated(b"", b"\n", 2 * GIB),
    ),
    FileCase(
        name="lines of two bytes, 2 GiB",
        refused="249,999 records that cannot be used among its first 250,000",
        content=lambda: repeated(HEADER + GOOD, b"a\n", 2 * GIB),
    ),
    FileCase(
        name="lines of one quote, 2 GiB",
        refused="249,999 records that cannot be used among its first 250,000",
        content=lambda: repeated(HEADER + GOOD, b'"\n', 2 * GIB),
    ),
    FileCase(
        name="JSON lines of brackets, 2 GiB",
        refused="unpacks to .* above 200 times",
        content=lambda: repeated(line(), b"[" * 65_535 + b"\n", 2 * GIB),
    ),
    FileCase(
        name="an open quote over 1 MiB of lines",
        landed=2,
        quarantined=((3, "", "quotes are broken"),),
        content=lambda: long_line(HEADER + GOOD + b'1,"', b"a" * 31 + b"\n", b"\n" + GOOD, 1),
    ),
    FileCase(
        name="a header of 32 MiB",
        refused="header|column|MiB|line",
        content=lambda: long_line(b"", b"a,", b"\n1,2\n", 32),
    ),
    FileCase(
        name="a JSON line of 12 MiB",
        landed=2,
        quarantined=((2, "", "1 MiB"),),
        content=lambda: long_line(line() + b'{"a":"', b"a", b'"}\n' + line(), 12),
    ),
    FileCase(
        name="brackets in one line, 12 MiB",
        landed=2,
        quarantined=((2, "", "1 MiB"),),
        content=lambda: long_line(line(), b"[", b"\n" + line(), 12),
    ),
    FileCase(
        name="a Zeek line of 12 MiB",
        landed=0,
        quarantined=((2, "", "1 MiB"),),
        content=lambda: long_line(b"#fields\tts_us\thost\tport\tsize\n", b"a", b"\n", 12),
    ),
    FileCase(name="ten thousand empty gzip members", landed=1, content=lambda: members(10_000)),
    FileCase(
        name="blank lines, 6 MiB",
        landed=2,
        content=lambda: long_line(HEADER + GOOD, b"\n", GOOD, 6),
    ),
    FileCase(
        name="Parquet: 64 million equal rows",
        refused="unpacks to 2,048,000,000 bytes or more .* above 200 times",
        content=lambda: equal_rows(64),
    ),
    FileCase(
        name="Parquet: 20,000 columns",
        refused="20,000 columns, more than 10,000|metadata, more than 8 MiB",
        content=lambda: of_columns(20_000),
    ),
    FileCase(
        name="Parquet: 20,001 row groups",
        refused="20,001 row groups, more than 20,000|metadata, more than 8 MiB",
        content=lambda: of_row_groups(20_001),
    ),
    FileCase(
        name="Parquet: a text of 1 MiB in 100,000 rows",
        refused="more than 2 GiB of text",
        content=lambda: one_value(100_000, MIB),
    ),
    FileCase(
        name="Parquet: a text of 64 KiB in 1,500 rows",
        refused="unpacks to .* above 200 times",
        content=lambda: one_value(1_500, 64 * 1_024),
    ),
    FileCase(
        name="Parquet: a text of 64 KiB in 900 rows",
        landed=900,
        content=lambda: one_value(900, 64 * 1_024),
    ),
)

REFUSED = tuple(
    case for case in CASES if case.name in ("a line of 2 GiB", "Parquet: 64 million equal rows")
)
"""Those that once hung a replay."""
