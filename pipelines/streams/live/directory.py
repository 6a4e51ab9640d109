"""A watched directory: every file that is moved into it is read once, and lands with its batch.

Structured Streaming only lists: it says, exactly once, which files are new and to which batch they
belong, and remembers both in its checkpoint. Each file is then read strictly by the readers of
recorded files, so what is wrong goes to quarantine with file, line and reason as in a replay. The
number of the micro-batch is that of the landed batch: one that comes again, because its process
died between landing and checkpoint, has landed and is passed over.

The order of the records is that of the batches, in a batch that of the files' modification times
(to the millisecond, then by name), in a file that of its lines. A file is read when it appears
under a name that neither begins with `.` or `_` nor ends in `.tmp`, so write it under such a name
and rename it; what is later appended to it, or put in its place under its name, is not read again.
An empty file is nothing, and a file that is taken away before it was read is not missed. Folders
inside are not looked into. A batch is held in memory: about 256 MiB of files, or one file.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medusa_core.errors import Refused, Unavailable
from medusa_core.network import Source
from pipelines.streams.live.interface import Polled
from pipelines.streams.live.lander import Lander, Piece
from pipelines.streams.recorded import read_recorded_file
from pipelines.streams.recorded_files import PARQUET, open_recorded
from pipelines.streams.recorded_rows import Problem, Target
from pipelines.streams.schemas import columns_of, record_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"
_SOURCE_OPTIONS = {
    # Spark would pass over, in silence, files a week older than the newest.
    "maxFileAge": "36500d",
    "maxBytesPerTrigger": str(256 << 20),
    # No folder inside is taken for a partition; what lies in it is left out by us.
    "recursiveFileLookup": "true",
}
_SESSION_SETTINGS = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The default starts a process (readlink, chmod) for every file of the checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
_SPECIAL = re.compile(r"([\\*?\[\]{}])")

ListedFile = tuple[Path, int]
"""A file and its modification time in milliseconds."""


class DirectorySource:
    """See `LiveSource`. `checkpoint` is Spark's, in the home, for this source alone."""

    def __init__(
        self,
        *,
        lander: Lander,
        source: Source,
        directory: Path,
        format_: str | None,
        max_skew_us: int,
        checkpoint: Path,
        session: Callable[[], SparkSession],
    ) -> None:
        self._lander = lander
        self._source = source
        self._directory = directory.resolve()
        self._format = format_
        self._max_skew_us = max_skew_us
        self._checkpoint = checkpoint.resolve()
        self._session = session
        self._schema = record_schema(columns_of(f"source {source.name!r}", source.columns))
        self._own_session: SparkSession | None = None
        self._seen: frozenset[str] = frozenset()
        self._is_current = False
        self._now_ms = 0
        self._error: BaseException | None = None
        if not self._directory.is_dir():
            raise Refused(
                f"the source of {source.name} watches {directory}, which is no folder: make it, or "
                "name another"
            )

    def poll(self, now_ms: int) -> Polled:
        """Land the files that are new; see `LiveSource.poll`."""
        is_resumed, self._is_current = not self._is_current, False
        if is_resumed:
            self._lander.resume()
            self._check_checkpoint()
            self._seen = frozenset()
        self._now_ms = now_ms
        # Listed before Spark does, so that what comes meanwhile is new to the next poll.
        names = frozenset(self._names())
        if names - self._seen or (is_resumed and self._numbers("offsets")):
            self._run()
        self._seen = names
        self._lander.promise(now_ms * 1_000, has_all=True)
        self._is_current = True
        return self._lander.polled()

    def close(self) -> None:
        """No query runs between polls."""
        self._is_current = False
        self._own_session = None

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self._directory) as entries:
                yield from (e.name for e in entries if is_whole_name(e.name) and e.is_file())
        except OSError as error:
            raise Unavailable(
                f"folder {self._directory} cannot be listed now ({error.strerror}): bring it back"
            ) from None

    def _run(self) -> None:
        """One query over all that is new, to its end."""
        from pyspark.errors import PySparkException

        frame = self._spark().readStream.format("binaryFile").schema(_SCHEMA)
        for name, value in _SOURCE_OPTIONS.items():
            frame = frame.option(name, value)
        files = frame.load(_SPECIAL.sub(r"\\\1", str(self._directory)))
        listed = files.selectExpr("path", "unix_millis(modificationTime) AS at_ms")
        writer = listed.writeStream.foreachBatch(self._on_batch).trigger(availableNow=True)
        self._error = None
        logger = logging.getLogger("py4j.clientserver")
        logger.addFilter(self._is_unknown)
        try:
            query = writer.option("checkpointLocation", str(self._checkpoint)).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()
        except PySparkException as error:
            if self._error is not None:
                raise self._error from None
            raise Unavailable(
                f"the files in {self._directory} cannot be listed now "
                f"({_first_words(error)}): bring back what was taken away, or see the Spark log"
            ) from error
        finally:
            logger.removeFilter(self._is_unknown)

    def _is_unknown(self, record: logging.LogRecord) -> bool:
        """Whether a message of py4j's is not about the error that the poll raises anyway."""
        return self._error is None

    def _on_batch(self, listed: DataFrame, batch_id: int) -> None:
        """What Spark calls; an error ends the query and is raised again by the poll."""
        try:
            if batch_id < self._lander.last_batch:
                return
            found = [(_path_of(row["path"]), row["at_ms"]) for row in listed.collect()]
            self.land_files(batch_id, found)
        except BaseException as error:
            self._error = error
            raise

    def land_files(self, batch_id: int, listed: Sequence[ListedFile]) -> None:
        """Land the files of a micro-batch as the batch of its number, unless they have landed.

        Raises Refused if this number has landed with other files: the checkpoint is not the one
        with which it did.
        """
        mine = sorted(
            ((at_ms, path) for path, at_ms in listed if self._is_ours(path)),
            key=lambda file: (file[0], os.fsencode(file[1])),
        )
        words = "\n".join(f"{at_ms} {path}" for at_ms, path in mine)
        digest = sha256(words.encode(errors="surrogateescape")).hexdigest()
        if batch_id == self._lander.last_batch:
            landed = self._lander.state.at
            # Fewer: Spark does not list again what was taken away after it had landed.
            if landed["digest"] != digest and landed["files"] <= len(mine):
                raise self._lost_checkpoint()
            return
        if batch_id != self._lander.last_batch + 1:
            raise self._lost_checkpoint()
        self._lander.land(
            batch_id,
            [piece for _, path in mine for piece in self._read(path)],
            now_ms=self._now_ms,
            limit_us=self._now_ms * 1_000 + self._max_skew_us,
            at={"files": len(mine), "digest": digest},
        )

    def _is_ours(self, path: Path) -> bool:
        return path.parent == self._directory and is_whole_name(path.name)

    def _read(self, path: Path) -> list[Piece]:
        """A file's records; a file that cannot be used goes to quarantine whole."""
        origin = os.fsencode(path).decode(errors="replace")
        try:
            self._check_format(path)
            return [
                Piece(
                    origin=origin,
                    records=chunk.records,
                    positions=chunk.positions,
                    quarantined=chunk.quarantined,
                )
                for chunk in read_recorded_file(self._source, path)
            ]
        except Refused as error:
            whole = Target.of(self._source, path).quarantined(Problem("", str(error)), None, "")
            records = self._schema.empty_table()
            nowhere = np.zeros(0, np.int64)
            return [Piece(origin=origin, records=records, positions=nowhere, quarantined=(whole,))]

    def _check_format(self, path: Path) -> None:
        if self._format is None:
            return
        with open_recorded(path) as (_, first):
            is_parquet = first.startswith(PARQUET)
        if is_parquet != (self._format == "parquet"):
            raise Refused(
                f"{path} is {'a Parquet file' if is_parquet else 'no Parquet file'}, but the "
                f"source of {self._source.name} is declared as {self._format}: convert it"
            )

    def _check_checkpoint(self) -> None:
        """The checkpoint must begin the next batch to land, or the one that landed last."""
        begun = max(self._numbers("offsets"), default=-1)
        done = max(self._numbers("commits"), default=-1)
        if not done <= self._lander.last_batch <= begun:
            raise self._lost_checkpoint()

    def _lost_checkpoint(self) -> Refused:
        return Refused(
            f"the checkpoint {self._checkpoint} is not the one with which {self._lander.stream} "
            f"landed its files up to batch {self._lander.last_batch}, so nobody knows which files "
            "are new: restore both catalog and checkpoint from one backup, or give the stream "
            "another name"
        )

    def _numbers(self, log: str) -> list[int]:
        try:
            names = os.listdir(self._checkpoint / log)
        except FileNotFoundError:
            return []
        return [int(name) for name in names if name.isdecimal()]

    def _spark(self) -> SparkSession:
        if self._own_session is None:
            self._own_session = self._session().newSession()
            for name, value in _SESSION_SETTINGS.items():
                self._own_session.conf.set(name, value)
        return self._own_session


def is_whole_name(name: str) -> bool:
    """Whether a file of this name is whole: not hidden, and not on its way under another name."""
    return not name.startswith((".", "_")) and not name.endswith(".tmp")


def _path_of(text: str) -> Path:
    """The path in a URI as Spark writes it: not encoded, with one slash or three."""
    return Path("/" + text.removeprefix("file:").lstrip("/"))


def _first_words(error: Exception) -> str:
    line = str(error).strip().splitlines()[0]
    return line.rpartition("terminated with exception: ")[2][:300].rstrip(".")
