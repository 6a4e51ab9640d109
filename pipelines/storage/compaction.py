"""Compaction: many small files of final segments become one with the same rows.

Nothing changes for readers: segments keep range, version and digests, and name another file. Only
segments below all holds are compacted, so that no step reads a large file for a small part of it.
Old files stay for the orphans' grace period, because a reader may still use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.errors import Conflict, Diverged, Unavailable
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import StreamName
from medusa_core.segments import Segment, SegmentFile, Stability
from pipelines.base.failpoints import reached
from pipelines.catalog.processing_roles import Trims
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import LineStatus
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, file_schema
from pipelines.storage.segment_files import keep_files, new_attempt, read_rows, write_file
from pipelines.storage.segment_rows import columns_of

SMALL_BYTES = 1_000_000
TOGETHER_BYTES_MAX = 16_000_000
FILES_MIN = 8
SEGMENTS_MAX = 256


@dataclass(frozen=True, slots=True)
class Compacted:
    """One file that took the place of others."""

    segments: int
    olds: tuple[SegmentFile, ...]
    file: SegmentFile


def runs_to_compact(segments: Sequence[Segment]) -> list[tuple[Segment, ...]]:
    """Runs of neighbouring stable segments of one line that name many small files.

    A run names FILES_MIN files at least, all small; its rows fit into memory at once.
    """
    runs: list[tuple[Segment, ...]] = []
    run: list[Segment] = []
    files: set[SegmentFile] = set()

    def end() -> None:
        if len(files) >= FILES_MIN:
            runs.append(tuple(run))
        run.clear()
        files.clear()

    for segment in sorted(segments, key=lambda s: s.range):
        if not segment.files:
            continue
        is_small = all(file.size_bytes < SMALL_BYTES for file in segment.files)
        if segment.stability is not Stability.STABLE or not is_small:
            end()
            continue
        together = files | set(segment.files)
        if sum(f.size_bytes for f in together) > TOGETHER_BYTES_MAX or len(run) == SEGMENTS_MAX:
            end()
        run.append(segment)
        files.update(segment.files)
    end()
    return runs


def runs_of_line(catalog: Lines, status: LineStatus, upto_us: int) -> list[tuple[Segment, ...]]:
    """What of a line would be compacted: below `upto_us`, where nothing holds it.

    No step reads there any more.
    """
    if upto_us <= BEGINNING_US:
        return []
    part = Range(BEGINNING_US, min(upto_us, FOREVER_US))
    found = catalog.segments(status.stream.name, part, producer=status.producer)
    return runs_to_compact([s for s in found if s.range.to_us <= upto_us])


def compact_run(
    catalog: Trims, root: Path, status: LineStatus, run: Sequence[Segment]
) -> Compacted | None:
    """Write the rows of a run as one file and let its segments name it.

    None if somebody trimmed or compacted it first. Raises Diverged if the rows read are not those
    that the digests tell, Unavailable if a file is damaged or nothing can be written.
    """
    stream, columns = status.stream.name, columns_of(status.stream)
    table = _rows_of(root, stream, columns, run)
    file = write_file(root, stream, new_attempt(), table)
    keep_files(root, (file,))
    reached("compact.written")
    olds = {old for segment in run for old in segment.files}
    # Their grace begins now: whoever has their names may still read them.
    with suppress(Unavailable):
        keep_files(root, olds, adopts=True)
    try:
        gone = catalog.compact(stream, status.producer, run, file)
    except Conflict:
        return None
    reached("compact.committed")
    return Compacted(len(run), gone, file)


def _rows_of(
    root: Path, stream: StreamName, columns: Sequence[Column], run: Sequence[Segment]
) -> pa.Table:
    schema = file_schema(columns)
    tables: dict[str, pa.Table] = {}
    parts: list[pa.Table] = []
    for segment in run:
        for file in segment.files:
            if file.path not in tables:
                tables[file.path] = read_rows(root, file, schema)
            whole = tables[file.path]
            inside = pc.and_(
                pc.greater_equal(whole[BUCKET], segment.range.from_us),
                pc.less(whole[BUCKET], segment.range.to_us),
            )
            parts.append(whole.filter(inside))
    table = pa.concat_tables(parts).combine_chunks()
    digests = {at: digest for segment in run for at, digest in segment.buckets.items()}
    if dict(digests_by_bucket(table, columns, table[BUCKET].to_numpy())) != digests:
        raise Diverged(
            f"the files of {stream} from {run[0].range.from_us} to {run[-1].range.to_us} hold "
            "other rows than their digests tell: nothing was compacted; call its operator"
        )
    return table
