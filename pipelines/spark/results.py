"""From the tagged relation of a step to files, digests and quarantined records.

Few rows come to the driver as Arrow and become one file for each output. Many are written where
they are computed: each Spark task writes its files and returns one row of manifest for each, so
that only the files of tasks that succeeded are ever named; both ways give the same digests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.commits import QuarantinedRecord, StepMetrics
from medusa_core.digest import Digest
from medusa_core.failure_rules import FailureRule, FailureRules
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.language.failure_causes import FailureCause
from pipelines.spark.compiled_fragment import (
    TAG,
    CarriedShape,
    CompiledFragment,
    FallibleBox,
    OutputShape,
    PaneShape,
)
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema, record_schema
from pipelines.storage.segment_files import TaskRoot, new_attempt, write_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANIFEST_SCHEMA = (
    "tag int, path string, size_bytes bigint, sha256 string, rows bigint, detail string"
)


ROWS_OF_TASK_FILE = 250_000
"""About how many rows of a step a task writes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a step wrote of one output: its files and the digest of each non-empty bucket."""

    stream: StreamName
    files: tuple[SegmentFile, ...]
    buckets: Mapping[int, Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """That a job was compared with the ordinary plan; `difference` says how it differed.

    `spark_jobs` ran for that, besides those of the step.
    """

    fragment: str
    job: str
    range: Range
    difference: str | None
    spark_jobs: int = 0

    @property
    def sentence(self) -> str:
        """What was found, and what was done about it."""
        if self.difference is None:
            return f"{self.job} of {self.fragment} agrees with its ordinary plan"
        return (
            f"{self.job} of {self.fragment} is wrong over {self.range}: {self.difference}; the "
            "result of the ordinary plan was taken, and the fragment is planned for each step now"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step made, not yet committed; `verified` if its job was compared on the way."""

    written: tuple[Written, ...]
    quarantine: tuple[QuarantinedRecord, ...]
    metrics: StepMetrics
    verified: Verified | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where rows of the tagged relation go: shape, width, the range that the step computes.

    `failures` are the boxes that can fail, each with the rule for who reports it.
    """

    root: TaskRoot
    attempt: str
    shapes: tuple[OutputShape, ...]
    failures: tuple[tuple[FallibleBox, FailureRule], ...]
    widths_us: Mapping[StreamName, int]
    ranges: Mapping[StreamName, Range]


def target_of(
    compiled: CompiledFragment, root: Path, widths_us: Mapping[StreamName, int],
    ranges: Mapping[StreamName, Range], rules: FailureRules,
) -> Target:  # fmt: skip
    """A target under a new attempt; outputs that `ranges` does not name are left out."""
    return Target(
        root=TaskRoot.of(root),
        attempt=new_attempt(),
        shapes=tuple(s for s in compiled.outputs if s.stream in ranges),
        failures=tuple((f, rules.of(f.box, is_window=f.is_window)) for f in compiled.fallible),
        widths_us=dict(widths_us),
        ranges=dict(ranges),
    )


def rows_of_output(target: Target, shape: OutputShape, tagged: pa.Table) -> pa.Table:
    """An output's rows within the step's range, in event-time order, as they lie in its file."""
    part = target.ranges[shape.stream]
    width_us = target.widths_us[shape.stream]
    mask = pc.equal(tagged[TAG], shape.tag)
    mask = pc.and_(mask, pc.greater_equal(tagged[STIME], part.from_us))
    mask = pc.and_(mask, pc.less(tagged[STIME], part.to_us))
    mine = tagged.filter(mask)
    mine = mine.select([*shape.slots, STIME])
    stimes = mine[STIME].to_numpy()
    mine = mine.append_column(BUCKET, pa.array(stimes - stimes % width_us, pa.int64()))
    schema = file_schema(shape.columns)
    mine = pa.table(mine.columns, names=schema.names).cast(schema)
    order = np.argsort(stimes, kind="stable")
    return mine if bool((order[1:] > order[:-1]).all()) else mine.take(order)


def rows_left(shape: PaneShape | CarriedShape, tagged: pa.Table) -> pa.Table:
    """The rows that a box leaves to the next step: its columns, then `_stime`."""
    mine = tagged.filter(pc.equal(tagged[TAG], shape.tag)).select([*shape.slots, STIME])
    schema = record_schema(shape.columns)
    return pa.table(mine.columns, names=schema.names).cast(schema)


def failed_records(target: Target, tagged: pa.Table) -> Iterator[QuarantinedRecord]:
    """The failed rows that the step reports (`medusa_core.failure_rules`)."""
    if not target.ranges:
        return
    part = next(iter(target.ranges.values()))
    for box, rule in target.failures:
        positions = rule.positions(part)
        if positions is None:
            continue
        mask = pc.equal(tagged[TAG], box.tag)
        mask = pc.and_(mask, pc.greater_equal(tagged[STIME], positions.from_us))
        mine = tagged.filter(pc.and_(mask, pc.less(tagged[STIME], positions.to_us)))
        rows = mine.select([STIME, *box.slots]).to_pylist()
        for row in sorted(rows, key=lambda r: (r[STIME], r[box.slots[1]] or "")):
            if rule.output_at(row[STIME]) in target.ranges:
                yield failed_record(
                    box, rule, box.box, row[STIME], row[box.slots[0]], row[box.slots[1]] or ""
                )


def failed_record(
    box: FallibleBox, rule: FailureRule, origin: str, position_us: int, number: int, content: str
) -> QuarantinedRecord:
    """A failed row for quarantine; `origin` is the box as its network names it."""
    column, expression, cause = box.failure(number)
    return QuarantinedRecord.of(
        content,
        stream=rule.output_at(position_us),
        origin=f"box {origin}",
        position=position_us,
        field=expression,
        reason=failure_reason(origin, column, cause),
        outputs=rule.outputs,
    )


def failure_reason(box: str, column: str, cause: FailureCause) -> str:
    """Why a box failed on a record, as quarantine says it; of a Filter the column is a case."""
    return f"column {column} of box {box}: {cause.phrase}"


def write_in_driver(
    target: Target, tagged: pa.Table
) -> tuple[list[Written], list[QuarantinedRecord]]:
    """One file for each output that has rows."""
    rows = [rows_of_output(target, shape, tagged) for shape in target.shapes]
    # Making a file durable is waiting for the disk: the digests are taken meanwhile.
    pairs = list(zip(target.shapes, rows, strict=True))
    writing = [_FILES.submit(_write, target, shape, mine) for shape, mine in pairs]
    written = [
        Written(
            stream=shape.stream,
            files=writes.result(),
            buckets=digests_by_bucket(mine, shape.columns, mine[BUCKET].to_numpy()),
        )
        for (shape, mine), writes in zip(pairs, writing, strict=True)
    ]
    return written, list(failed_records(target, tagged))


def write_ranges(
    whole: Target, targets: Sequence[Target], tagged: pa.Table
) -> list[tuple[list[Written], list[QuarantinedRecord]]]:
    """One file for each output, with its rows in the ranges of all targets, which share it.

    The ranges are disjoint and lie in that of `whole`. What each target has of the buckets and of
    the failed rows is its own.
    """
    is_failed = pc.less(tagged[TAG], 0)
    failed = tagged.filter(is_failed)
    rows = tagged.filter(pc.and_not(_inside(tagged, targets), is_failed))
    written, _ = write_in_driver(whole, rows)
    return [
        (
            [_within(w, target.ranges[w.stream]) for w in written],
            list(failed_records(target, failed)) if failed.num_rows else [],
        )
        for target in targets
    ]


def _inside(tagged: pa.Table, targets: Sequence[Target]) -> pa.Array:
    """Which rows lie in a range of one of the targets; each target has one for all outputs."""
    parts = sorted(next(iter(target.ranges.values())) for target in targets)
    starts = np.array([part.from_us for part in parts], np.int64)
    ends = np.array([part.to_us for part in parts], np.int64)
    times = tagged[STIME].to_numpy()
    at = np.searchsorted(starts, times, side="right") - 1
    return pa.array((at >= 0) & (times < ends[at]))


def _within(written: Written, part: Range) -> Written:
    buckets = {at: digest for at, digest in written.buckets.items() if part.holds(at)}
    return replace(written, buckets=buckets, files=written.files if buckets else ())


_FILES = ThreadPoolExecutor(4, "medusa-files")


def _write(target: Target, shape: OutputShape, rows: pa.Table) -> tuple[SegmentFile, ...]:
    if not rows.num_rows:
        return ()
    return (write_file(target.root.here(), shape.stream, target.attempt, rows),)


def write_in_tasks(
    target: Target, frame: DataFrame
) -> tuple[list[Written], list[QuarantinedRecord]]:
    """Files written by the Spark tasks; the driver reads only their manifest."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from write_partition(target, batches)

    manifest = frame.mapInArrow(write, MANIFEST_SCHEMA).toArrow().to_pylist()
    return read_manifest(target, manifest)


def write_partition(target: Target, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What one Spark task does with its rows: files of its own, a row of manifest for each.

    A file has the rows of some batches, so that the task holds no more of them than that.
    """
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(b.num_rows for b in some) >= ROWS_OF_TASK_FILE:
            yield from _write_batches(target, some)
            some = []
    if some:
        yield from _write_batches(target, some)


def _write_batches(target: Target, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tagged = pa.Table.from_batches(batches)
    mine = replace(target, attempt=f"{target.attempt}-{new_attempt()}")
    written, failed = write_in_driver(mine, tagged)
    target.root.hand_over(file for w in written for file in w.files)
    tags = {shape.stream: shape.tag for shape in target.shapes}
    rows = [_manifest_row(tags[w.stream], file, w.buckets) for w in written for file in w.files]
    rows += [
        {"tag": -1, "path": None, "size_bytes": None, "sha256": None, "rows": None,
         "detail": json.dumps([f.stream, f.origin, f.position, f.field, f.reason, f.content,
                               f.size_bytes, f.sha256, f.outputs])}
        for f in failed
    ]  # fmt: skip
    if rows:
        yield from pa.Table.from_pylist(rows, schema=_MANIFEST).to_batches()


_MANIFEST = pa.schema(
    [
        ("tag", pa.int32()),
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("sha256", pa.string()),
        ("rows", pa.int64()),
        ("detail", pa.string()),
    ]
)


def _manifest_row(tag: int, file: SegmentFile, buckets: Mapping[int, Digest]) -> dict[str, object]:
    detail = [[at, d.rows, str(d.sum_a), str(d.sum_b)] for at, d in buckets.items()]
    return {
        "tag": tag,
        "path": file.path,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "rows": file.rows,
        "detail": json.dumps(detail),
    }


def read_manifest(
    target: Target, manifest: Sequence[Mapping[str, object]]
) -> tuple[list[Written], list[QuarantinedRecord]]:
    """Files and digests of every output, and failed records, from the tasks' rows."""
    files: dict[int, list[SegmentFile]] = {shape.tag: [] for shape in target.shapes}
    buckets: dict[int, dict[int, Digest]] = {shape.tag: {} for shape in target.shapes}
    failed = []
    for row in manifest:
        tag, detail = int(str(row["tag"])), json.loads(str(row["detail"]))
        if tag < 0:
            stream, origin, position, field, reason, content, size_bytes, hashed, outputs = detail
            failed.append(
                QuarantinedRecord(stream=stream, origin=origin, position=position, field=field,
                                  reason=reason, content=content, size_bytes=size_bytes,
                                  sha256=hashed, outputs=tuple(outputs))
            )  # fmt: skip
            continue
        files[tag].append(
            SegmentFile(path=str(row["path"]), size_bytes=int(str(row["size_bytes"])),
                        sha256=str(row["sha256"]), rows=int(str(row["rows"])))
        )  # fmt: skip
        for at, rows, sum_a, sum_b in detail:
            old = buckets[tag].get(at, Digest())
            buckets[tag][at] = old + Digest(rows, int(sum_a), int(sum_b))
    written = [
        Written(
            stream=shape.stream,
            files=tuple(files[shape.tag]),
            buckets=dict(sorted(buckets[shape.tag].items())),
        )
        for shape in target.shapes
    ]
    return written, failed
