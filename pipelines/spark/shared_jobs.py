"""Steps of fragments of one shape, computed in one Spark job.

Each step keeps its own range, reads, files, digests and quarantine; only the job is shared. Its
records carry the number of their step, by which the output is divided.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.commits import VERIFY, Cause, QuarantinedRecord, StepMetrics
from medusa_core.decide import ComputeStep
from medusa_core.digest import Digest, sum_of
from medusa_core.failure_rules import FailureRules
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.base.failpoints import reached
from pipelines.base.phase_times import Phases
from pipelines.language.fragment_shapes import Shape, Shaped
from pipelines.spark.compiled_fragment import TAG, FallibleBox, OutputShape
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.inputs import InputRecords, read_table
from pipelines.spark.job import jobs_of_verification, ordinary_table, verification_jobs
from pipelines.spark.job_verification import (
    RECORDS_COMPARED_MAX,
    Contents,
    Records,
    Verification,
)
from pipelines.spark.prepared import PreparedFragment
from pipelines.spark.results import StepResult, Verified, Written, failed_record
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import keep_files, new_attempt, write_file

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import SparkSession

    Int64s = npt.NDArray[np.int64]

_THREADS = ThreadPoolExecutor(4, "medusa-together")


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """A step among others of its shape, and the records that it reads of each input.

    `rules` say which failures the step reports.
    """

    step: ComputeStep
    shaped: Shaped
    inputs: Sequence[InputRecords]
    rules: FailureRules

    @property
    def records(self) -> int:
        """How many records it reads."""
        return sum(i.rows for i in self.inputs)


class SharedJob:
    """The job of one shape in one session: compiled once, prepared once.

    Raises NotPreparable if Spark's plan for it cannot be run again over other records.
    """

    def __init__(self, session: SparkSession, root: Path, shape: Shape) -> None:
        self._root, self._shape = root, shape
        self._compiled = compile_fragment(shape.fragment, shape.checked)
        columns = {
            stream: shape.checked.columns[port] for port, stream in shape.fragment.inputs.items()
        }
        self._session = session
        self._prepared = PreparedFragment(session, self._compiled, columns)
        self._verification = Verification()

    def compute(self, steps: Sequence[Together]) -> list[StepResult]:
        """Run one job for all steps and write their files; nothing is committed.

        The results are in the order of the steps. Time is shared alike; the first step has the job.
        """
        phases = Phases()
        with phases.phase("read"):
            given = {name: self._given(name, steps) for name in self._shape.fragment.input_streams}
        result, is_compared, difference = self._run(steps, given, phases)
        reached("step.computed")
        with phases.phase("write"):
            written, failed = self._written(steps, result.table)
        reached("step.written")
        with phases.phase("sync"):
            keep_files(self._root, [f for ws in written for w in ws for f in w.files])
        verified = None
        if is_compared:
            verified = _verified(steps, difference, verification_jobs(self._session))
        shared_ms = {name: ms / len(steps) for name, ms in phases.ms.items()}
        return [
            StepResult(
                written=tuple(of_step),
                quarantine=tuple(failed.get(at, ())),
                metrics=StepMetrics(
                    records_in=step.records,
                    records_out=sum(sum_of(w.buckets.values()).rows for w in of_step),
                    spark_jobs=1 if at == 0 else 0,
                    phases_ms=shared_ms,
                ),
                verified=verified if at == 0 else None,
            )
            for at, (step, of_step) in enumerate(zip(steps, written, strict=True))
        ]

    def _run(
        self, steps: Sequence[Together], given: Mapping[StreamName, pa.Table], phases: Phases
    ) -> tuple[_Result, bool, str | None]:
        """See `Verification.run`; answers wait for no verification, and are planned before it."""
        is_answer = any(step.step.cause is Cause.TENTATIVE for step in steps)
        if is_answer and not self._verification.may_answer:
            with phases.phase("spark"):
                table = ordinary_table(self._session, self._compiled, given)
            return _Result(self, steps, table), False, None
        is_small = sum(table.num_rows for table in given.values()) <= RECORDS_COMPARED_MAX
        return self._verification.run(
            partial(self._by_job, steps, given, phases),
            partial(self._by_ordinary_plan, steps, given, phases),
            Records.ALL if is_small else Records.COMPARED,
            is_answer=is_answer,
        )

    def _by_job(
        self, steps: Sequence[Together], given: Mapping[StreamName, pa.Table], phases: Phases,
        records: Records,
    ) -> _Result:  # fmt: skip
        if records is Records.ALL:
            with phases.phase("spark"):
                return _Result(self, steps, self._prepared.run(given))
        with phases.phase(VERIFY), jobs_of_verification(self._session):
            return _Result(self, steps, self._prepared.run(_of(given, records)))

    def _by_ordinary_plan(
        self, steps: Sequence[Together], given: Mapping[StreamName, pa.Table], phases: Phases,
        records: Records,
    ) -> _Result:  # fmt: skip
        with phases.phase(VERIFY), jobs_of_verification(self._session):
            table = ordinary_table(self._session, self._compiled, _of(given, records))
        return _Result(self, steps, table)

    def contents(self, steps: Sequence[Together], tagged: pa.Table) -> Contents:
        """What the tagged relation holds of all steps' outputs, and what they quarantine."""
        buckets: dict[StreamName, Mapping[int, Digest]] = {}
        for at, shape in enumerate(self._compiled.outputs):
            dealt = _Dealt.of(self._shape.member, shape, steps, at, tagged)
            buckets |= zip(dealt.streams, dealt.digests(), strict=True)
        failed = self._failed(steps, tagged)
        return Contents(buckets, [q for of_step in failed.values() for q in of_step])

    def _given(self, name: StreamName, steps: Sequence[Together]) -> pa.Table:
        """The records that all steps read of one input of the shape, with their numbers."""

        def records_of(at: int) -> pa.Table:
            number = [own for alike, own in steps[at].shaped.inputs if alike == name]
            (records,) = (i for i in steps[at].inputs if i.stream == number[0])
            table = read_table(self._root, records)
            numbers = pa.array(np.full(table.num_rows, at, np.int32))
            return table.add_column(
                table.num_columns - 1, pa.field(self._shape.member, pa.int32()), numbers
            )

        return pa.concat_tables(_THREADS.map(records_of, range(len(steps))))

    # what comes out

    def _written(
        self, steps: Sequence[Together], tagged: pa.Table
    ) -> tuple[list[list[Written]], Mapping[int, list[QuarantinedRecord]]]:
        """Step -> what it wrote of each of its outputs; step -> its quarantined records."""
        written: list[list[Written]] = [[] for _ in steps]
        attempts = [new_attempt() for _ in steps]
        for at, shape in enumerate(self._compiled.outputs):
            rows = _Dealt.of(self._shape.member, shape, steps, at, tagged)
            digests = rows.digests()

            def write(number: int, rows: _Dealt = rows) -> tuple[SegmentFile, ...]:
                mine = rows.of_step(number)
                if not mine.num_rows:
                    return ()
                stream = rows.streams[number]
                return (write_file(self._root, stream, attempts[number], mine),)

            for number, files in enumerate(_THREADS.map(write, range(len(steps)))):
                written[number].append(
                    Written(stream=rows.streams[number], files=files, buckets=digests[number])
                )
        return written, self._failed(steps, tagged)

    def _failed(
        self, steps: Sequence[Together], tagged: pa.Table
    ) -> Mapping[int, list[QuarantinedRecord]]:
        """The failed rows, by the step that reports them (`medusa_core.failure_rules`)."""
        found: dict[int, list[QuarantinedRecord]] = {}
        for box in self._compiled.fallible:
            mine = tagged.filter(pc.equal(tagged[TAG], box.tag)).select([STIME, *box.slots])
            own = [dict(step.shaped.boxes)[box.box] for step in steps]
            rules = [
                step.rules.of(name, is_window=box.is_window)
                for step, name in zip(steps, own, strict=True)
            ]
            positions = [
                rule.positions(step.step.range) for step, rule in zip(steps, rules, strict=True)
            ]
            rows = [self._of_member(box, row) for row in mine.to_pylist()]
            for number, at_us, failure, content in sorted(rows):
                part = positions[number]
                if part is not None and part.holds(at_us):
                    found.setdefault(number, []).append(
                        failed_record(box, rules[number], own[number], at_us, failure, content)
                    )
        return found

    def _of_member(self, box: FallibleBox, row: Mapping[str, object]) -> tuple[int, int, int, str]:
        """Whose record failed: step, event time, failure, content without the number."""
        content = str(row[box.slots[1]])
        # In a text of the record a quote has a backslash before it.
        found = re.search(rf'(?<!\\)"{self._shape.member}":(\d+),?', content)
        assert found is not None, "every record of a shared job carries its step's number"
        before, behind = content[: found.start()], content[found.end() :]
        text = (before.removesuffix(",") if behind == "}" else before) + behind
        return int(found[1]), int(str(row[STIME])), int(str(row[box.slots[0]])), text


def _of(given: Mapping[StreamName, pa.Table], records: Records) -> Mapping[StreamName, pa.Table]:
    return {name: records.of(table) for name, table in given.items()}


def _verified(steps: Sequence[Together], difference: str | None, spark_jobs: int) -> Verified:
    step = steps[0].step
    return Verified(
        fragment=step.fragment.fragment.id,
        job=f"the job shared by {len(steps)} fragments",
        range=step.range,
        difference=difference,
        spark_jobs=spark_jobs,
    )


@dataclass(frozen=True, slots=True)
class _Result:
    """The tagged relation of a run for these steps."""

    job: SharedJob
    steps: Sequence[Together]
    table: pa.Table

    @property
    def contents(self) -> Contents:
        """What it holds of each step's outputs, within the step's range."""
        return self.job.contents(self.steps, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dealt:
    """The rows of one output of the shape, dealt out to the steps, each within its range."""

    table: pa.Table
    columns: tuple[Column, ...]
    bounds: Int64s
    numbers: Int64s
    streams: tuple[StreamName, ...]

    @classmethod
    def of(
        cls, member: str, shape: OutputShape, steps: Sequence[Together], at: int, tagged: pa.Table
    ) -> _Dealt:
        """Rows in the order of steps and, within, of event time; `at` is the output's number."""
        streams = tuple(step.shaped.outputs[at][1] for step in steps)
        names = [c.name for c in shape.columns]
        mine = tagged.filter(pc.equal(tagged[TAG], shape.tag)).select([*shape.slots, STIME])
        mine = mine.rename_columns([*names, STIME])
        numbers = mine[member].to_numpy().astype(np.int64)
        stimes = mine[STIME].to_numpy()
        from_us = np.array([s.step.range.from_us for s in steps], np.int64)
        to_us = np.array([s.step.range.to_us for s in steps], np.int64)
        inside = (stimes >= from_us[numbers]) & (stimes < to_us[numbers])
        kept = np.flatnonzero(inside)
        order = kept[np.lexsort((stimes[kept], numbers[kept]))]
        numbers, stimes = numbers[order], stimes[order]
        columns = tuple(c for c in shape.columns if c.name != member)
        widths = np.array(
            [s.step.fragment.outputs[o].width_us for s, o in zip(steps, streams, strict=True)],
            np.int64,
        )
        dealt = mine.take(pa.array(order)).drop_columns([member])
        buckets = stimes - stimes % widths[numbers] if len(order) else stimes
        dealt = dealt.append_column(BUCKET, pa.array(buckets, pa.int64()))
        return cls(
            table=dealt.cast(file_schema(columns)),
            columns=columns,
            bounds=np.searchsorted(numbers, np.arange(len(steps) + 1)),
            numbers=numbers,
            streams=streams,
        )

    def of_step(self, number: int) -> pa.Table:
        """The rows of one step."""
        start, end = int(self.bounds[number]), int(self.bounds[number + 1])
        return self.table.slice(start, end - start)

    def digests(self) -> list[dict[int, Digest]]:
        """Step -> bucket -> digest: all of them in one pass."""
        found: list[dict[int, Digest]] = [{} for _ in self.streams]
        buckets = self.table[BUCKET].to_numpy()
        if not len(buckets):
            return found
        starts = (self.numbers[1:] != self.numbers[:-1]) | (buckets[1:] != buckets[:-1])
        runs = np.concatenate(([0], np.cumsum(starts)))
        firsts = np.concatenate(([0], np.flatnonzero(starts) + 1))
        for run, digest in digests_by_bucket(self.table, self.columns, runs).items():
            row = int(firsts[run])
            found[int(self.numbers[row])][int(buckets[row])] = digest
        return found


def in_batches(
    steps: Sequence[Together], *, records_max: int, rows_expected: Sequence[float], rows_max: int
) -> Iterator[Sequence[Together]]:
    """The steps that go into one job: as many as its limits allow, at least one."""
    batch: list[Together] = []
    records, rows = 0, 0.0
    for step, more in zip(steps, rows_expected, strict=True):
        if batch and (records + step.records > records_max or rows + more > rows_max):
            yield batch
            batch, records, rows = [], 0, 0.0
        batch.append(step)
        records, rows = records + step.records, rows + more
    if batch:
        yield batch
