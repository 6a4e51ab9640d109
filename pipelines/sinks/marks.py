"""The stability of a row: columns of a table that accepts tentative rows too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.segments import Segment
from pipelines.sinks.run_rows import OF_BUCKET

STABILITY, VERSION = "_stability", "_stream_version"
"""What the bucket of a row promises, and the version that made it so; no declared column can have
names like these."""

MARKS = (Column(STABILITY, "string"), Column(VERSION, "bigint"))


def with_marks(
    batches: Iterator[pa.RecordBatch], segments: Sequence[Segment]
) -> Iterator[pa.RecordBatch]:
    """Rows with the marks of the segments that they are of; these are in event-time order."""
    starts = np.array([s.range.from_us for s in segments], np.int64)
    stabilities = pa.array([s.stability.value for s in segments], pa.string())
    versions = pa.array([int(s.version) for s in segments], pa.int64())
    for batch in batches:
        buckets = batch[OF_BUCKET].cast(pa.int64()).to_numpy()
        of = pa.array(np.searchsorted(starts, buckets, side="right") - 1)
        yield batch.append_column(STABILITY, stabilities.take(of)).append_column(
            VERSION, versions.take(of)
        )
