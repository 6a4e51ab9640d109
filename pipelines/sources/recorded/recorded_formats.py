"""The format of a file, recognised by the beginning of its content, and the reader for each.

A Zeek log begins with a line that only Zeek writes (`#separator` and similar ones), JSON lines
with a brace or bracket; all other text is CSV with a header. Blank lines and a byte order mark
before that are ignored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.recorded.csv_records import RECORD_BYTES_MAX
from pipelines.sources.recorded.recorded_csv import read_csv
from pipelines.sources.recorded.recorded_files import PARQUET, open_recorded, text_pieces
from pipelines.sources.recorded.recorded_json import read_json
from pipelines.sources.recorded.recorded_rows import Target
from pipelines.sources.recorded.recorded_zeek import read_zeek
from pipelines.sources.recorded.text_chunks import Records
from pipelines.sources.recorded.zeek_header import is_zeek
from pipelines.storage.file_limits import FileLimits

_BOM = b"\xef\xbb\xbf"


class Format(Enum):
    """The formats that are read, as a declaration names them."""

    PARQUET = "parquet"
    CSV = "csv"
    ZEEK = "zeek"
    JSON = "json"


_SPELLED = {
    Format.PARQUET: "a Parquet file",
    Format.CSV: "CSV",
    Format.ZEEK: "a Zeek log",
    Format.JSON: "JSON lines",
}
_READERS = {Format.CSV: read_csv, Format.ZEEK: read_zeek, Format.JSON: read_json}


def recognise_format(file: Path) -> Format:
    """The format of a file; raises Refused or Unavailable if it cannot be read."""
    with open_recorded(file) as (stream, first):
        if first.startswith(PARQUET):
            return Format.PARQUET
        head, _, _ = _read_head(text_pieces(file, stream, first, FileLimits()))
        return format_of(head)


def check_format(source: Source, file: Path, declared: str) -> None:
    """Raise Refused if a file is of another format than its source is declared to have."""
    found = recognise_format(file)
    if found.value != declared:
        raise Refused(
            f"{file} is {_SPELLED[found]}, but the source of {source.name} is declared as "
            f"{declared}: convert it"
        )


def format_of(head: bytes) -> Format:
    """The format of what begins so, blank lines and byte order mark apart."""
    if head.startswith(PARQUET):
        return Format.PARQUET
    if is_zeek(head):
        return Format.ZEEK
    start = head.lstrip(b" \t")
    if start.startswith(b"{") or (start.startswith(b"[") and start[1:].lstrip()[:1] in b"{"):
        return Format.JSON
    return Format.CSV


def read_text(
    target: Target, texts: Iterator[bytes], chunk_records: int, skip: int
) -> Iterator[Records]:
    """The records of a text of any format, chunk by chunk, without the first `skip` chunks."""
    head, texts, line = _read_head(texts)
    found = format_of(head)
    # A Parquet file inside gzip is refused by the reader of last resort.
    read = _READERS.get(found, read_csv)
    return read(target, head, texts, line, chunk_records, skip)


def _read_head(texts: Iterator[bytes]) -> tuple[bytes, Iterator[bytes], int]:
    """The text from its first line on that is not blank, long enough to hold any header.

    Also the pieces behind it, and the number of that line.
    """
    head = bytearray()
    line = 1
    for piece in texts:
        head += piece
        if line == 1:
            del head[: len(_BOM) if head.startswith(_BOM) else 0]
        blank = len(head) - len(head.lstrip(b"\r\n"))
        blank = head.rfind(b"\n", 0, blank) + 1
        line += head.count(b"\n", 0, blank)
        del head[:blank]
        if len(head) > 2 * RECORD_BYTES_MAX:
            break
    return bytes(head), itertools.chain(texts), line
