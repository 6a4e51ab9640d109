"""Sources of Spark's `readStream`, landed exactly once with the lateness rules of live sources.

A poll runs one query over the available data: each micro-batch is landed as the batch of its
number, so one that is repeated, because its process died between landing and checkpoint, is
skipped. The order of the records is that of the batches, and in a batch the declared `order`: by
default that of files' modification times, of the rate source's numbers, of Kafka's timestamps and
then offsets. Where a source has no order over its parts (the partitions of a topic, files written
in one millisecond), lateness depends on how far apart these are read: declare a disorder that
covers it.

A batch is held in memory; its size is limited by the source's own options
(`maxOffsetsPerTrigger`, `files_per_poll`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.base import settings
from pipelines.sources.live.live_source import BatchLander, Polled
from pipelines.sources.live.spark_feed import SparkFeed, resolved_options
from pipelines.sources.live.spark_query import (
    Enough,
    checkpoint_numbers,
    first_words,
    run_query,
    session_for_queries,
)
from pipelines.sources.live.spark_rows import CORRUPT, SparkRows
from pipelines.sources.recorded.recorded_rows import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_POLL = 1_000
OFFSETS_PER_BATCH = 250_000
_MARKS_CORRUPT = ("json", "csv")


class SparkSource:
    """See `LiveSource`. `path` is the feed's, absolute; `checkpoint` is a folder of the home."""

    def __init__(
        self,
        *,
        lander: BatchLander,
        source: Source,
        feed: SparkFeed,
        path: Path | None,
        checkpoint: Path,
        session: Callable[[], SparkSession],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._lander = lander
        self._feed = feed
        self._path = path
        self._checkpoint = checkpoint.resolve()
        self._session = session
        self._target = Target.of(source, path or Path(feed.format))
        chosen = settings.environment() if environment is None else environment
        self._options, self._hidden = resolved_options(lander.stream, feed, chosen)
        self._frame: DataFrame | None = None
        self._rows: SparkRows | None = None
        self._is_current = False
        self._read_ms: int | None = None
        self._waiting: int | None = None
        self._now_ms = self._landed = 0

    def poll(self, now_ms: int) -> Polled:
        """Land what is there; see `LiveSource.poll`."""
        if self._is_current and self._is_too_early(now_ms):
            return self._polled(has_more=False)
        is_resumed, self._is_current = not self._is_current, False
        if is_resumed:
            self._lander.resume()
            self._check_resumed()
        self._now_ms, self._landed = now_ms, 0
        frame = self._opened()
        has_all, progress = run_query(
            frame, self._on_batch, self._checkpoint, what=self._what, hidden=self._hidden
        )
        self._lander.promise(now_ms * 1_000, has_all=has_all)
        self._is_current = True
        self._read_ms = now_ms if has_all else None
        self._waiting = waiting_of(progress)
        return self._polled(has_more=not has_all)

    def close(self) -> None:
        """No query runs between polls."""
        self._is_current = False
        self._frame = self._rows = None

    def _polled(self, *, has_more: bool) -> Polled:
        return self._lander.polled(has_more=has_more, waiting_records=self._waiting)

    def _is_too_early(self, now_ms: int) -> bool:
        """Whether the source was read to its end a moment ago."""
        read_ms = self._read_ms
        return read_ms is not None and 0 <= (now_ms - read_ms) * 1_000 < self._feed.every_us

    @property
    def _what(self) -> str:
        return f"the source of {self._lander.stream} (spark {self._feed.format})"

    def _on_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Land a micro-batch as the batch of its number, unless it has landed."""
        if batch_id <= self._lander.last_batch:
            return
        if batch_id != self._lander.last_batch + 1:
            raise self._lost_checkpoint()
        if self._landed and self._feed.records_per_s is not None:
            raise Enough
        assert self._rows is not None
        at = self._lander.at
        before = int(at.get("rows", 0))
        pieces = self._rows.pieces(batch, before)
        rows = sum(len(piece.positions) + len(piece.quarantined) for piece in pieces)
        self._lander.land(
            batch_id,
            pieces,
            now_ms=self._now_ms,
            limit_us=self._now_ms * 1_000 + self._feed.timing.max_skew_us,
            at={"rows": before + rows, "feed": self._identity},
        )
        self._landed += 1

    def _opened(self) -> DataFrame:
        """The frame, and how its rows become records; Refused if Spark has no such source."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if self._frame is not None:
            return self._frame
        feed = self._feed
        try:
            reader = session_for_queries(self._session()).readStream.format(feed.format)
            if feed.schema is not None:
                has_mark = feed.format in _MARKS_CORRUPT and CORRUPT not in feed.schema
                reader = reader.schema(feed.schema + (f", {CORRUPT} string" if has_mark else ""))
            for key, value in {**self._limits, **self._options}.items():
                reader = reader.option(key, value)
            frame = reader.load() if self._path is None else reader.load(str(self._path))
            schema = frame.schema
        except (PySparkException, Py4JJavaError) as error:
            package = (
                "; its package is missing, see docs/sources.md" if "KAFKA" in str(error) else ""
            )
            raise Refused(
                f"{self._what} cannot be opened ({first_words(error, self._hidden)}){package}"
            ) from None
        self._rows = SparkRows.of(self._target, feed, schema)
        self._frame = self._rows.selected_from(frame)
        return self._frame

    @property
    def _limits(self) -> dict[str, str]:
        """How much a batch holds unless the options say it."""
        if self._feed.reads_files:
            # Spark would pass over, in silence, files a week older than the newest.
            files = self._feed.files_per_poll or FILES_PER_POLL
            return {"maxFilesPerTrigger": str(files), "maxFileAge": "36500d"}
        return (
            {"maxOffsetsPerTrigger": str(OFFSETS_PER_BATCH)} if self._feed.format == "kafka" else {}
        )

    @property
    def _identity(self) -> str:
        """What the checkpoint's offsets are offsets of."""
        return f"{self._feed.format} {self._path or ''}".strip()

    def _check_resumed(self) -> None:
        """The checkpoint must begin the next batch to land, or the one that landed last."""
        at = self._lander.at
        if at and at.get("feed") != self._identity:
            raise Refused(
                f"{self._what} has read {at.get('feed')!r} so far: declare it as it was, or give "
                "the stream another name"
            )
        begun = max(checkpoint_numbers(self._checkpoint, "offsets"), default=-1)
        done = max(checkpoint_numbers(self._checkpoint, "commits"), default=-1)
        if not done <= self._lander.last_batch <= begun:
            raise self._lost_checkpoint()

    def _lost_checkpoint(self) -> Refused:
        return Refused(
            f"the checkpoint {self._checkpoint} is not the one with which {self._lander.stream} "
            f"landed up to batch {self._lander.last_batch}, so nobody knows what is new: restore "
            "both catalog and checkpoint from one backup, or give the stream another name"
        )


def waiting_of(progress: Mapping[str, Any]) -> int | None:
    """How many records a query's progress says are waiting; None where the source does not tell."""
    found: int | None = None
    for source in progress.get("sources") or ():
        metrics = source.get("metrics") or {}
        if "maxOffsetsBehindLatest" in metrics:
            found = (found or 0) + int(float(metrics["maxOffsetsBehindLatest"]))
    return found
