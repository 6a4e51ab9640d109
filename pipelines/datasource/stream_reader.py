"""`spark.readStream.format("medusa")`: the stable prefix as it grows, each row once.

Offsets are event times (`offsets.py`), so a batch that is tried again after a crash has the same
rows, and a restart continues where the last batch ended. One process of Spark's queries the
catalog for as long as the query runs, at most every half second when nothing is new; workers read
the files.

Limits: tentative rows are not returned, because no sink of Spark's can take them back. A query
takes no hold: buckets that it has not read may be trimmed, and it then ends with `Expired`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from medusa_core.errors import Unavailable
from medusa_core.grid import BEGINNING_US, Range
from pipelines.base import clock
from pipelines.datasource.admission import Ahead, Limit
from pipelines.datasource.home_access import OpenHome
from pipelines.datasource.offsets import Offset, beginning, check_offset, offset_of
from pipelines.datasource.options import COUNT_MAX, ReadOptions, for_stream, parse_options
from pipelines.datasource.partition_rows import read_partition
from pipelines.datasource.partitions import FilesPartition, check_whole, partitions_of
from pipelines.datasource.spark_columns import check_schema
from pipelines.datasource.stream_snapshot import Snapshot, StreamSnapshot
from pipelines.datasource.user_errors import in_one_sentence

LOOK_AGAIN_S = 0.5
T = TypeVar("T")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query's reader; what it holds open stays in the process that plans."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        # Not looked at before Spark asks something: of an error here it would lose the sentence.
        self._given = dict(given)
        self._schema = schema
        self._home: OpenHome | None = None
        self._line: StreamSnapshot | None = None
        self._looked_s = 0.0
        self._target_us: int | None = None
        self._ahead: Ahead | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers receive the options, never a connection or its credentials.
        return StreamReader, (self._given, self._schema)

    @cached_property
    def _options(self) -> ReadOptions:
        return for_stream(parse_options(self._given))

    # ------------------------------------------------------------ what Spark asks

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 Spark's name
        """Where a new query begins: option `from`, else all that is kept."""
        with in_one_sentence():
            return beginning(self._look(), self._options.from_us).document()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 Spark's name
        """The options' limit; it is given back in `latestOffset`, or not, as the trigger says."""
        with in_one_sentence():
            options = self._options
            if options.records_per_trigger_max is None and options.buckets_per_trigger_max is None:
                return ReadAllAvailable()
            return ReadMaxRows(options.records_per_trigger_max or COUNT_MAX)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 Spark's name
        """What is stable now is all that this run reads."""
        with in_one_sentence():
            self._target_us = None
            self._target_us = self._through_us(self._look())

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the batch that begins at `start` ends; `start` itself if nothing is new."""
        with in_one_sentence():
            offset = offset_of(start)
            line = self._look_beyond(offset)
            check_offset(line, offset, offset.through_us)
            end_us = self._through_us(line)
            if end_us > offset.through_us and not isinstance(limit, ReadAllAvailable):
                end_us = self._limited_us(line, offset, end_us, limit)
            if end_us <= offset.through_us:
                return dict(start)
            return replace(offset, through_us=end_us, generation=line.generation).document()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 Spark's name
        """How far the stream was stable at the last look."""
        with in_one_sentence():
            line = self._line
            if line is None or line.stable_through_us is None:
                return None
            return {"through_us": self._through_us(line)}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The files with the rows between two offsets."""
        with in_one_sentence():
            first, last = offset_of(start), offset_of(end)
            # Spark asks anew where the first batch begins; what its end says is what was promised.
            from_us = first.through_us if first.from_us == last.from_us else last.from_us
            return list(self._ask(lambda seen: self._planned(seen, last, from_us)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        assert isinstance(partition, FilesPartition)
        with in_one_sentence():
            yield from read_partition(partition, self._schema)

    def stop(self) -> None:
        """Give back what is open."""
        home, self._home = self._home, None
        if home is not None:
            home.close()

    # ------------------------------------------------------------ how it is answered

    def _planned(self, seen: Snapshot, end: Offset, from_us: int) -> list[FilesPartition]:
        line = seen.stream_snapshot(self._options.stream)
        check_offset(line, end, from_us)
        if line.origin_us is None or end.through_us <= max(from_us, line.origin_us):
            return []
        part = Range(max(from_us, line.origin_us), end.through_us)
        segments = seen.segments(line, part)
        check_whole(line.stream, segments, part)
        return partitions_of(line.home, line.width_us, segments, part)

    def _through_us(self, line: StreamSnapshot) -> int:
        """Up to where rows may be given: the stable prefix, `to`, what availableNow has seen."""
        through_us = BEGINNING_US if line.stable_through_us is None else line.stable_through_us
        through_us = min(through_us, self._options.to_us)
        return through_us if self._target_us is None else min(through_us, self._target_us)

    def _limited_us(
        self, line: StreamSnapshot, start: Offset, end_us: int, limit: ReadLimit
    ) -> int:
        allowed = Limit(
            records_max=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            buckets_max=self._options.buckets_per_trigger_max,
        )
        ahead = self._ahead or Ahead(line.width_us)
        from_us = max(start.through_us, line.kept_from_us or BEGINNING_US)
        self._ahead = ahead
        if from_us >= end_us:
            return end_us
        return self._ask(
            lambda seen: ahead.filled_us(
                allowed, from_us, end_us, lambda part: seen.segments(line, part)
            )
        )

    def _look_beyond(self, offset: Offset) -> StreamSnapshot:
        """How the stream stands; as it stood if nothing was new a moment ago."""
        line, is_fresh = self._line, clock.monotonic_s() < self._looked_s + LOOK_AGAIN_S
        if line is not None and is_fresh and self._through_us(line) <= offset.through_us:
            return line
        return self._look()

    def _look(self) -> StreamSnapshot:
        line = self._ask(lambda seen: seen.stream_snapshot(self._options.stream))
        if self._line is None:
            check_schema(line, self._schema, with_marks=False)
        self._line, self._looked_s = line, clock.monotonic_s()
        return line

    def _ask(self, question: Callable[[Snapshot], T]) -> T:
        """An answer from one snapshot; tried once more if the server was restarted meanwhile."""
        for is_last in (self._home is None, True):
            try:
                self._home = self._home or OpenHome(self._options.participant)
                with self._home.snapshot() as seen:
                    return question(seen)
            except Unavailable:
                self.stop()
                if is_last:
                    raise
        raise AssertionError("the last answer is given or raised")
