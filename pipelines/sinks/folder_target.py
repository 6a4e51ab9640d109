"""A folder of Parquet or CSV files, each with the rows of a run of whole buckets.

    STREAM-FROM-TO-vVERSION.parquet   final rows; FROM and TO are event times in UTC
    _medusa.json                      the record: its sink, its position, its files
    _medusa.lock                      held during a delivery
    .medusa-*.part                    half written: never read, removed by the next delivery

Readers of folders ignore names that begin with `_` or `.`. Delivering a run is, in this order: 1
decide it · 2 write its file under a name of this attempt, and sync it · 3 rename it, and sync the
folder · 4 replace the record (written, synced, renamed, folder synced): the run is delivered · 5
copy the record into the catalog. A file that was renamed and is not in the record yet names the
end of its run, so that the same run is delivered again, over it.

The files must match the record, by names and sizes; else nothing is written.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.errors import WRONG_FORM, Conflict, MedusaError, Refused, Unavailable
from medusa_core.grid import Range
from medusa_core.sinks import DeliveryRange
from pipelines.base.failpoints import reached
from pipelines.base.files import (
    PART_PREFIX,
    PART_SUFFIX,
    FileLock,
    atomic_file,
    sync_file,
    write_atomically,
)
from pipelines.sinks.csv_text import csv_header, csv_lines
from pipelines.sinks.file_names import FileName, file_name, parse_file_name
from pipelines.sinks.folder_record import FolderContents, document_of, record_of
from pipelines.sinks.run_rows import OF_BUCKET, SORTED_BYTES_MAX, delivered_schema
from pipelines.sinks.sink_declaration import GUARD, FolderSink
from pipelines.sinks.target import Owner, Rows, TargetRecord, check_owner
from pipelines.storage.segment_files import ROWS_PER_GROUP
from pipelines.storage.stable_rows import EVENT_TIME

RECORD, LOCK = "_medusa.json", "_medusa.lock"
RECORD_BYTES_MAX = 1_000_000


class FolderTarget:
    """One folder, held alone from here to `close`.

    Raises Refused if it is another's, was tampered with or cannot be used, Conflict if another
    process delivers there, Unavailable if it cannot be read or written now.
    """

    def __init__(
        self, declaration: FolderSink, owner: Owner, columns: tuple[Column, ...], width_us: int
    ) -> None:
        self._width_us = width_us
        self._declared = declaration
        self._folder = declaration.path
        self._owner = owner
        self._columns = columns
        self._record: TargetRecord | None = None
        self._contents = FolderContents()
        self._unfinished: list[tuple[str, FileName]] = []
        with _errors_of(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self._folder)
        try:
            with _errors_of(self._folder):
                self._read()
        except BaseException:
            self.close()
            raise

    @property
    def record(self) -> TargetRecord | None:
        """See `Target.record`."""
        return self._record

    @property
    def resumes(self) -> Range | None:
        """See `Target.resumes`."""
        return self._unfinished[0][1].part if self._unfinished else None

    def close(self) -> None:
        """See `Target.close`."""
        self._lock.close()

    # ------------------------------------------------------------ what lies there

    def _read(self) -> None:
        names = _listed(self._folder)
        self._read_record(RECORD in names)
        found = FolderContents()
        for name, size_bytes in names.items():
            if name.startswith(PART_PREFIX) and name.endswith(PART_SUFFIX):
                with suppress(FileNotFoundError):
                    os.unlink(self._folder / name)
                continue
            if name.startswith(("_", ".")):
                continue
            if self._record is None:
                raise Refused(
                    f"{self._folder} holds {name!r}, which Medusa did not deliver: give "
                    f"{self._owner} an empty folder"
                )
            parsed = parse_file_name(name, self._owner.stream, self._suffix)
            if parsed is None:
                raise Refused(
                    f"{self._folder} holds {name!r}, which {self._owner} did not deliver: take it "
                    "away"
                )
            if parsed.part.from_us >= self._record.through_us:
                self._unfinished.append((name, parsed))
            else:
                found = found.plus(name, size_bytes)
        if found != self._contents or len(self._unfinished) > 1:
            raise Refused(
                f"{self._folder} does not hold the {self._contents.files} files that {self._owner} "
                "delivered as they were: put them back, or give the sink an empty folder"
            )

    def _read_record(self, is_there: bool) -> None:
        if not is_there:
            return
        path = self._folder / RECORD
        with path.open("rb") as file:
            text = file.read(RECORD_BYTES_MAX)
        try:
            document = json.loads(text)
            self._record, self._contents = record_of(document)
            kind = str(document["kind"])
        except (Refused, *WRONG_FORM):
            raise Refused(
                f"{path} is not as Medusa wrote it: restore it, or give {self._owner} an empty "
                "folder"
            ) from None
        check_owner(str(self._folder), self._record.owner, self._owner)
        if kind != self._declared.kind:
            raise Refused(
                f"{self._folder} holds {kind} files, and {self._owner} delivers "
                f"{self._declared.kind}: give it another folder"
            )

    # ------------------------------------------------------------ delivering

    def begin(self, record: TargetRecord) -> TargetRecord:
        """See `Target.begin`."""
        with _errors_of(self._folder):
            self._write_record(record, self._contents)
        reached("sink.prepared")
        return record

    def deliver(self, run: DeliveryRange, rows: Rows) -> TargetRecord:
        """See `Target.deliver`; the numbers are those above."""
        assert self._record is not None, "a new folder is begun first"
        record, contents = self._record.after(run), self._contents
        with _errors_of(self._folder):
            if run.rows:
                name = file_name(
                    self._owner.stream, run.range, run.version, self._suffix, self._width_us
                )
                with atomic_file(self._folder / name) as file:
                    # 2
                    self._write(file, run, rows)
                    size_bytes = file.tell()
                    sync_file(file)
                    reached("sink.written")
                    # 3
                    for other, _ in self._unfinished:
                        if other != name:
                            (self._folder / other).unlink(missing_ok=True)
                reached("sink.renamed")
                contents = contents.plus(name, size_bytes)
            # 4
            self._write_record(record, contents)
            self._unfinished = []
            reached("sink.committed")
        return record

    def _write(self, file: BinaryIO, run: DeliveryRange, rows: Rows) -> None:
        if self._declared.kind == "parquet":
            self._write_parquet(file, run, rows)
        else:
            self._write_csv(file, rows)

    def _write_parquet(self, file: BinaryIO, run: DeliveryRange, rows: Rows) -> None:
        schema = _shown(delivered_schema(self._columns)).with_metadata(
            {
                "medusa.stream": self._owner.stream,
                "medusa.from_us": str(run.range.from_us),
                "medusa.to_us": str(run.range.to_us),
                "medusa.version": str(run.version),
            }
        )
        # Through a file of Python's, so that a full disk is reported as such.
        with pq.ParquetWriter(pa.PythonFile(file, mode="w"), schema, compression="zstd") as writer:
            for table in _grouped(rows):
                writer.write_table(table.drop_columns([OF_BUCKET]).cast(schema))

    def _write_csv(self, file: BinaryIO, rows: Rows) -> None:
        columns = [Column(EVENT_TIME, "timestamp"), *self._columns]
        file.write(csv_header([c.name for c in columns]))
        for batch in rows:
            guarded = self._declared.formulas == GUARD
            file.writelines(csv_lines(batch, columns, guarded=guarded))

    def _write_record(self, record: TargetRecord, contents: FolderContents) -> None:
        document = {
            "kind": self._declared.kind,
            "columns": [[EVENT_TIME, "timestamp"], *([c.name, c.type] for c in self._columns)],
            **document_of(record, contents),
        }
        write_atomically(self._folder / RECORD, json.dumps(document, indent=1) + "\n")
        self._record, self._contents = record, contents

    @property
    def _suffix(self) -> str:
        return f".{self._declared.kind}"


def _shown(schema: pa.Schema) -> pa.Schema:
    """What a file shows of a row: all but its bucket, which the file's name bounds."""
    return schema.remove(schema.get_field_index(OF_BUCKET))


def _grouped(rows: Rows) -> Iterator[pa.Table]:
    """The rows in tables as long as a row group, or as large as memory allows."""
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in rows:
        held.append(batch)
        held_rows, held_bytes = held_rows + batch.num_rows, held_bytes + batch.nbytes
        if held_rows >= ROWS_PER_GROUP or held_bytes > SORTED_BYTES_MAX // 2:
            yield pa.Table.from_batches(held)
            held, held_rows, held_bytes = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _listed(folder: Path) -> dict[str, int]:
    """Every name in the folder with its size; what is no file has none that a file has."""
    found: dict[str, int] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                found[entry.name] = status.st_size if stat.S_ISREG(status.st_mode) else -1
    return found


def _locked(folder: Path) -> FileLock:
    try:
        return FileLock(folder / LOCK)
    except BlockingIOError:
        raise Conflict(
            f"another process delivers into {folder}: wait for it, or give the sink another folder"
        ) from None


@contextmanager
def _errors_of(folder: Path) -> Iterator[None]:
    """Raise Medusa's errors instead of the system's."""
    try:
        yield
    except MedusaError:
        raise
    except (FileExistsError, NotADirectoryError):
        raise Refused(f"{folder} is no folder that can be delivered into: name another") from None
    except PermissionError as error:
        raise Refused(
            f"{folder} cannot be delivered into ({error.strerror}): give the right to, or name "
            "another folder"
        ) from None
    except OSError as error:
        raise Unavailable(
            f"{folder} cannot be written now ({error.strerror or error}): make room or mend it; "
            "delivery continues by itself"
        ) from error
