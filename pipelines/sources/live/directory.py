"""A watched directory: every file that is moved into it is read once, and lands with its batch.

New files are recorded in lists (`handover`), and Structured Streaming assigns, exactly once, each
list to a micro-batch, and stores that in its checkpoint. The files of the list are then read
strictly by the readers of recorded files, so bad records are quarantined with file, line and
reason as in a replay. The number of the micro-batch is that of the landed batch: one that is
repeated, because its process died between landing and checkpoint, has landed and is skipped.

The order of the records is that of the batches, in a batch that of the files' modification times
(to the millisecond, then by name), in a file that of its lines. A file is read when it appears
under a name that neither begins with `.` or `_` nor ends in `.tmp`, so write it under such a name
and rename it; later appended records, or another file under its name, are not read, but reported
(`reused_names`). An empty file
has no effect, nor has a file that is removed before it was read. Other entries (a folder, a pipe,
a device, a broken link) are reported once, in quarantine, and never opened. A batch is held in
memory: about 256 MiB of files, or one file; a poll lands one, and reports if there is more. For
the cost of a poll see `arrivals`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medusa_core.errors import Refused, Unavailable
from medusa_core.network import Source
from pipelines.sources.live.arrivals import Arrivals
from pipelines.sources.live.handover import Handed, HandOver
from pipelines.sources.live.lander import Piece
from pipelines.sources.live.live_source import BatchLander, Polled
from pipelines.sources.live.reused_names import ReusedNames
from pipelines.sources.live.spark_query import run_query, session_for_queries
from pipelines.sources.recorded.reader import LIMITS, read_recorded_file
from pipelines.sources.recorded.recorded_formats import check_format
from pipelines.sources.recorded.recorded_rows import Problem, Target
from pipelines.storage.arrow_schema import columns_of, record_schema
from pipelines.storage.file_limits import FileLimits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH_MAX = 1_000
BYTES_PER_BATCH_MAX = 256 << 20
_SOURCE_OPTIONS = {
    # Spark would pass over, in silence, lists a week older than the newest.
    "maxFileAge": "36500d",
    "maxFilesPerTrigger": "1",
    # No folder above is taken for a partition.
    "recursiveFileLookup": "true",
}
_READER = ThreadPoolExecutor(1, "medusa-reader")
"""Spark calls from a new thread for each query, and allocators keep what a thread leaves behind."""

_SPECIAL = re.compile(r"([\\*?\[\]{}])")
_KINDS = (
    (stat.S_ISDIR, "a folder: move the files that lie in it"),
    (stat.S_ISFIFO, "a named pipe: write a file, and move it"),
    (stat.S_ISSOCK, "a socket: write a file, and move it"),
    (stat.S_ISCHR, "a device: write a file, and move it"),
    (stat.S_ISBLK, "a device: write a file, and move it"),
)


class DirectorySource:
    """See `LiveSource`. `checkpoint` is a folder of the home for this source alone."""

    def __init__(
        self,
        *,
        lander: BatchLander,
        source: Source,
        directory: Path,
        format_: str | None,
        max_skew_us: int,
        checkpoint: Path,
        session: Callable[[], SparkSession],
        files_per_poll: int | None = None,
        file_limits: FileLimits = LIMITS,
    ) -> None:
        self._lander = lander
        self._source = source
        self._directory = directory.resolve()
        self._format = format_
        self._max_skew_us = max_skew_us
        self._checkpoint = checkpoint.resolve()
        self._session = session
        self._files_per_poll = files_per_poll or FILES_PER_BATCH_MAX
        self._file_limits = file_limits
        self._schema = record_schema(columns_of(f"source {source.name!r}", source.columns))
        self._own_session: SparkSession | None = None
        self._arrivals = Arrivals(self._directory, file_limits)
        self._reused = ReusedNames(self._directory)
        self._handover: HandOver | None = None
        self._now_ms = 0
        if not self._directory.is_dir():
            raise Refused(
                f"the source of {source.name} watches {directory}, which is no folder: make it, or "
                "name another"
            )

    def poll(self, now_ms: int) -> Polled:
        """Land the next files that are new; see `LiveSource.poll`."""
        # Left out until this poll has ended well: after an error all is read anew.
        handover, self._handover = self._handover or self._resumed(), None
        self._now_ms = now_ms
        if handover.done < handover.last:
            self._run(handover)
        self._arrivals.look(handover.known)
        taken = self._arrivals.take(self._files_per_poll, BYTES_PER_BATCH_MAX)
        if taken:
            handover.begin_generation_if_due(self._arrivals.present, now_ms)
            handover.hand_over(taken, now_ms, self._arrivals.identity)
            self._run(handover)
        waiting = self._arrivals.waiting
        self._lander.promise(now_ms * 1_000, has_all=not waiting)
        self._handover = handover
        if not taken:
            self._reused.look(handover.written_ms)
        polled = self._lander.polled(has_more=waiting > 0, waiting_files=waiting)
        return replace(polled, left_out=self._reused.sentence)

    def close(self) -> None:
        """No query runs between polls."""
        self._handover = None
        self._own_session = None

    def _resumed(self) -> HandOver:
        """What was handed over before; Refused if the catalog knows more of it, or less."""
        self._lander.resume()
        self._arrivals.forget()
        handover = HandOver(self._checkpoint)
        landed = self._lander.last_batch
        if not (handover.done <= landed <= handover.begun <= handover.last <= landed + 1):
            raise self._lost_checkpoint()
        return handover

    def _run(self, handover: HandOver) -> None:
        """One query over the list that is new, to its end."""

        def on_batch(lines: DataFrame, batch_id: int) -> None:
            # Spark says which list is next. A task that reads it may run on another machine.
            number = handover.base + batch_id
            _READER.submit(self.land_files, number, handover.handed(number)).result()

        frame = self._spark().readStream.format("text")
        for name, value in _SOURCE_OPTIONS.items():
            frame = frame.option(name, value)
        lists = frame.load(_SPECIAL.sub(r"\\\1", str(handover.lists)))
        what = f"the list of new files in {self._directory}"
        run_query(lists, on_batch, handover.checkpoint, what=what, hidden=())

    def land_files(self, batch_id: int, handed: Sequence[Handed]) -> None:
        """Land the files of a list as the batch of its number, unless they have landed.

        Raises Refused if this number has landed with other files: the checkpoint is not the one
        with which it did.
        """
        mine = sorted(handed, key=lambda file: (file.at_ms, os.fsencode(file.name)))
        words = "\n".join(f"{file.at_ms} {self._directory / file.name}" for file in mine)
        digest = sha256(words.encode(errors="surrogateescape")).hexdigest()
        if batch_id == self._lander.last_batch:
            if self._lander.at["digest"] != digest:
                raise self._lost_checkpoint()
            return
        if batch_id != self._lander.last_batch + 1:
            raise self._lost_checkpoint()
        self._lander.land(
            batch_id,
            [piece for file in mine for piece in self._read(file)],
            now_ms=self._now_ms,
            limit_us=self._now_ms * 1_000 + self._max_skew_us,
            at={"files": len(mine), "digest": digest},
        )

    def _read(self, file: Handed) -> list[Piece]:
        """A file's records; what cannot be used goes to quarantine whole."""
        path = self._directory / file.name
        origin = os.fsencode(path).decode(errors="replace")
        try:
            if not self._is_to_be_read(path, file.folder):
                return []
            if self._format is not None:
                check_format(self._source, path, self._format)
            return [
                Piece(
                    origin=origin,
                    records=chunk.records,
                    positions=chunk.positions,
                    quarantined=chunk.quarantined,
                )
                for chunk in read_recorded_file(self._source, path, limits=self._file_limits)
            ]
        except Refused as error:
            whole = Target.of(self._source, path).quarantined(Problem("", str(error)), None, "")
            records = self._schema.empty_table()
            nowhere = np.zeros(0, np.int64)
            return [Piece(origin=origin, records=records, positions=nowhere, quarantined=(whole,))]

    def _is_to_be_read(self, path: Path, folder: tuple[int, int]) -> bool:
        """False for an empty file and one that was taken away; Refused for what is no file."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            if path.is_symlink():
                raise Refused(f"{path} is a link to what is not there: move the file") from None
            if not self._arrivals.is_still_there(folder):
                raise Unavailable(
                    f"folder {self._directory} is not the one that was listed: bring it back"
                ) from None
            return False
        except OSError as error:
            if path.is_symlink():
                raise Refused(
                    f"{path} is a link that cannot be followed ({error.strerror}): move the file"
                ) from None
            raise Unavailable(f"{path} cannot be read now: {error.strerror or error}") from error
        for is_of_kind, kind in _KINDS:
            if is_of_kind(found.st_mode):
                raise Refused(f"{path} is {kind} in under another name")
        return found.st_size > 0

    def _lost_checkpoint(self) -> Refused:
        return Refused(
            f"the checkpoint {self._checkpoint} is not the one with which {self._lander.stream} "
            f"landed its files up to batch {self._lander.last_batch}, so nobody knows which files "
            "are new: restore both catalog and checkpoint from one backup, or give the stream "
            "another name"
        )

    def _spark(self) -> SparkSession:
        if self._own_session is None:
            self._own_session = session_for_queries(self._session())
        return self._own_session
