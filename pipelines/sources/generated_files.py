"""Generated connections as files: the form of a recorded input of `netmon` on disk.

The same seed gives the same text on every machine; packed files (gzip, Parquet) hold the same
records but need not be the same bytes under another zlib or Parquet writer. Each file appears
under its name when it is whole.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from medusa_core.errors import Refused, Unavailable
from pipelines.base.files import rename
from pipelines.sources.generator import SCHEMA, generate_connections

__all__ = ["generate_connections", "write_generated"]

_GZIP_LEVEL = 3  # text of numbers: a third larger than level 9, eight times as fast


def write_generated(
    directory: Path,
    *,
    seed: int,
    records: int,
    files: int = 1,
    format: str = "csv",  # noqa: A002  # the word a user types
    packed: bool = True,
    **figures: int,
) -> list[Path]:
    """Write `records` connections, cut into `files` files by arrival; return their paths in order.

    `format` is csv or parquet; `packed` makes CSV `connections.csv.gz`. With several files they
    are `connections-001…`. `figures` go to `generate_connections`. Raises Refused for a format or a
    number of files that cannot be.
    """
    if format not in ("csv", "parquet"):
        raise Refused(f"format {format!r} is neither csv nor parquet")
    if files < 1:
        raise Refused(f"connections go into at least 1 file, not {files}")
    ending = ".parquet" if format == "parquet" else ".csv.gz" if packed else ".csv"
    names = [f"connections-{i:03}" for i in range(1, files + 1)] if files > 1 else ["connections"]
    paths = [directory / (name + ending) for name in names]
    tables = generate_connections(seed=seed, records=records, **figures)
    rest = SCHEMA.empty_table()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for number, path in enumerate(paths):
            count = records * (number + 1) // files - records * number // files
            with _whole(path) as unfinished, _writer(unfinished, format, packed) as writer:
                while count:
                    if not len(rest):
                        rest = next(tables)
                    part = rest.slice(0, count)
                    rest = rest.slice(len(part))
                    writer.write_table(part)
                    count -= len(part)
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise Refused(f"{directory} cannot be written ({error.strerror}): name another") from None
    except OSError as error:
        raise Unavailable(f"{directory} cannot be written now: {error}") from error
    return paths


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        yield unfinished
        rename(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _writer(path: Path, format_: str, packed: bool) -> Iterator[Any]:
    if format_ == "parquet":
        with pyarrow.parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
            yield writer
        return
    with path.open("wb") as file:
        if packed:
            # No name and no time inside: the same records make the same file.
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as stream:
                yield _CsvWriter(stream)
        else:
            yield _CsvWriter(file)


class _CsvWriter:
    """Tables as CSV with a header; nothing that is generated needs quotes."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        stream.write((",".join(SCHEMA.names) + "\n").encode())

    def write_table(self, table: pa.Table) -> None:
        text = pa.BufferOutputStream()
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        pyarrow.csv.write_csv(table, text, options)
        shutil.copyfileobj(pa.BufferReader(text.getvalue()), self._stream, 1 << 20)
