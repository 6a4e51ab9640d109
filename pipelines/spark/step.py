"""A step: one Spark job from named input versions to files, digests and a commit.

The numbers are those of the protocol (docs/architecture.md, "A step, numbered"): knowledge is read
(1) and decided on (2) by the caller; here one Spark job runs for the fragment and range (3), its
results are written and synced (4), and one call commits them (5). Killed between any two numbers,
nothing is lost: what no commit names does not exist.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.commits import Commit, Lease, OutputSegment, QuarantinedRecord, StepMetrics
from medusa_core.decide import ComputeStep, reads_of
from medusa_core.digest import Digest, sum_of
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.grid import Range, floor_us
from medusa_core.names import StreamName
from medusa_core.network import Function
from pipelines.failpoints import reached
from pipelines.networks.check import CheckedNetwork
from pipelines.spark.failures import spark_errors
from pipelines.spark.files import sync_folders
from pipelines.spark.inputs import InputRecords, input_records
from pipelines.spark.job import FragmentJobs
from pipelines.spark.phases import Phases
from pipelines.spark.results import Written, target_of
from pipelines.spark.ways import rows_out_guess, way_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

STEPS_PER_OATH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step made, not yet committed."""

    written: tuple[Written, ...]
    quarantine: tuple[QuarantinedRecord, ...]
    metrics: StepMetrics


class StepEngine:
    """Runs steps of one network in one Spark session, against one home's storage root."""

    def __init__(self, session: SparkSession, root: Path, checked: CheckedNetwork) -> None:
        self.session = session
        self.root = root
        self.checked = checked
        self._jobs: dict[str, FragmentJobs] = {}
        self._rows_out_per_record: dict[str, float] = {}
        self._steps_with_functions: dict[str, int] = {}

    def compute(self, step: ComputeStep, *, shuffled: bool = False) -> StepResult:
        """Run the step's job and write its files (3, 4); nothing is committed.

        Raises Refused if the job fails on its data, Unavailable if Spark or a file is gone.
        """
        phases = Phases()
        fragment = step.fragment.fragment
        inputs = self._inputs(step)
        records_in = sum(i.rows for i in inputs)
        ratio = self._rows_out_per_record.get(fragment.id, rows_out_guess(fragment))
        way = way_of(fragment, records_in, ratio * records_in)
        jobs = self._jobs_of(fragment)
        target = target_of(
            jobs.compiled,
            self.root,
            {name: output.width_us for name, output in step.fragment.outputs.items()},
            dict.fromkeys(step.outputs, step.range),
        )
        # No record in, none out: an empty relation needs no job.
        written = [Written(stream=s.stream, files=(), buckets={}) for s in target.shapes]
        failed: list[QuarantinedRecord] = []
        spark_jobs = 0
        if records_in:
            with (
                self._grouped(target.attempt, fragment.id) as group,
                spark_errors(f"{fragment.id} over {step.range}"),
            ):
                written, failed = jobs.run(
                    way, inputs, target, phases, rows_expected=ratio * records_in,
                    shuffled=shuffled,
                )  # fmt: skip
                spark_jobs = group.count()
        reached("step.written")
        with phases.phase("sync"):
            sync_folders(self.root, [f for w in written for f in w.files])
        records_out = sum(sum_of(w.buckets.values()).rows for w in written)
        if records_in:
            self._rows_out_per_record[fragment.id] = records_out / records_in
        metrics = StepMetrics(
            records_in=records_in,
            records_out=records_out,
            spark_jobs=spark_jobs,
            phases_ms=phases.ms,
        )
        return StepResult(written=tuple(written), quarantine=tuple(failed), metrics=metrics)

    def swear_in(self, step: ComputeStep, result: StepResult) -> None:
        """A fragment's Functions must see neither order nor cut: look before committing.

        Done at the fragment's first step that has records and at every thousandth after it. Raises
        Refused if the step over shuffled rows in other partitions, whole and in two halves, gives
        other digests, or if a Function writes event time.
        """
        fragment = step.fragment.fragment
        functions = [b.name for b in fragment.boxes if isinstance(b, Function)]
        if not functions or not result.metrics.records_in:
            return
        steps = self._steps_with_functions.get(fragment.id, 0)
        self._steps_with_functions[fragment.id] = steps + 1
        if steps % STEPS_PER_OATH:
            return
        found = {w.stream: dict(w.buckets) for w in result.written}
        for parts in ([step], halves(step)):
            again: dict[StreamName, dict[int, Digest]] = {name: {} for name in found}
            for part in parts:
                for written in self.compute(part, shuffled=True).written:
                    again[written.stream].update(written.buckets)
                    for file in written.files:
                        (self.root / file.path).unlink(missing_ok=True)
            if again != found:
                raise Refused(
                    f"function {' or '.join(functions)} of network {fragment.network.name} gives "
                    "other rows when its input comes in another order, other partitions or other "
                    "steps: make each row depend on one input row alone"
                )

    def _inputs(self, step: ComputeStep) -> list[InputRecords]:
        by_stream = {s: p for p, s in step.fragment.fragment.inputs.items()}
        return [
            input_records(name, self.checked.columns[by_stream[name]], known.segments, step.reads)
            for name, known in step.fragment.inputs.items()
        ]

    def _jobs_of(self, fragment: Fragment) -> FragmentJobs:
        if fragment.id not in self._jobs:
            self._jobs[fragment.id] = FragmentJobs(self.session, self.root, self.checked, fragment)
        return self._jobs[fragment.id]

    @contextmanager
    def _grouped(self, attempt: str, fragment: str) -> Iterator[_JobGroup]:
        context = self.session.sparkContext
        context.setJobGroup(attempt, f"step of {fragment}")
        yield _JobGroup(context, attempt)


@dataclass(frozen=True, slots=True)
class _JobGroup:
    context: Any
    name: str

    def count(self) -> int:
        """How many Spark jobs ran under the group."""
        return len(self.context.statusTracker().getJobIdsForGroup(self.name))


def halves(step: ComputeStep) -> list[ComputeStep]:
    """The step cut in two at a bucket near its middle; the step itself if it has one bucket."""
    known = step.fragment
    width_us = max(known.outputs[name].width_us for name in step.outputs)
    middle_us = floor_us((step.range.from_us + step.range.to_us) // 2, width_us)
    if not step.range.from_us < middle_us < step.range.to_us:
        return [step]
    ranges = (Range(step.range.from_us, middle_us), Range(middle_us, step.range.to_us))
    return [
        replace(step, range=part, reads=tuple(reads_of(known, step.outputs, part)))
        for part in ranges
    ]


def commit_of(step: ComputeStep, result: StepResult, lease: Lease) -> Commit:
    """The commit of a computed step (5)."""
    segments = tuple(
        OutputSegment(
            stream=w.stream,
            range=step.range,
            stability=step.stability,
            buckets=w.buckets,
            files=w.files,
        )
        for w in result.written
    )
    return Commit(
        lease=lease,
        plan=step.fragment.plan,
        cause=step.cause,
        segments=segments,
        lineage=step.reads,
        quarantine=result.quarantine,
        metrics=result.metrics,
        ends=step.ends,
    )
