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
from typing import TYPE_CHECKING, Any, TypeAlias

from medusa_core.commits import Cause, Commit, Lease, OutputSegment, QuarantinedRecord, StepMetrics
from medusa_core.decide import ComputeStep
from medusa_core.digest import Digest, sum_of
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range, floor_us
from medusa_core.names import StreamName
from medusa_core.network import Function
from medusa_core.reads import reads_of
from pipelines.base.failpoints import reached
from pipelines.base.phase_times import Phases
from pipelines.language.check import CheckedNetwork
from pipelines.language.fragment_shapes import Shape, Shaped, shaped
from pipelines.language.panes import over_panes
from pipelines.spark.execution_mode import (
    PREPARED_RECORDS_MAX,
    RESULT_ROWS_IN_DRIVER_MAX,
    Way,
    rows_out_guess,
    way_anew,
    way_of,
)
from pipelines.spark.failures import spark_errors
from pipelines.spark.inputs import InputRecords, input_records
from pipelines.spark.job import FragmentJobs
from pipelines.spark.pane_cache import KeptJobs
from pipelines.spark.pane_cache import Way as KeptWay
from pipelines.spark.prepared import NotPreparable
from pipelines.spark.results import StepResult, Target, Written, target_of
from pipelines.spark.shared_jobs import SharedJob, Together, in_batches
from pipelines.spark.step_panes import Saved
from pipelines.storage.segment_files import new_attempt, sync_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

STEPS_PER_OATH = 1_000

Computed: TypeAlias = tuple[ComputeStep, StepResult]


class StepEngine:
    """Runs steps of one network in one Spark session, against one home's storage root."""

    def __init__(self, session: SparkSession, root: Path, checked: CheckedNetwork) -> None:
        self.session = session
        self.root = root
        self.checked = checked
        self._paned, self._folds = over_panes(checked)
        self._over_panes = (
            {f.id: f for f in fragments_of(self._paned.network)} if self._folds else {}
        )
        self._jobs: dict[str, FragmentJobs] = {}
        self._kept: dict[str, KeptJobs] = {}
        self._shapes: dict[str, Shape | None] = {}
        self._shaped: dict[str, Shaped | None] = {}
        self._shared_jobs: dict[str, SharedJob | None] = {}
        self._rows_out_per_record: dict[str, float] = {}
        self._steps_with_functions: dict[str, int] = {}

    def compute(self, step: ComputeStep, *, shuffled: bool = False) -> StepResult:
        """Run the step's job and write its files (3, 4); nothing is committed.

        Raises Refused if the job fails on its data, Unavailable if a file is gone, SparkEnded if
        the JVM is.
        """
        phases = Phases()
        fragment = step.fragment.fragment
        ratio = self._ratio_of(fragment)
        kept = None if shuffled else self._kept_way(step, phases)
        if kept is not None:
            return self._compute_over_panes(step, kept, phases)
        jobs = self._jobs_of(fragment)
        saved = None if shuffled or not _is_next(step) else jobs.panes.saved(step)
        inputs = self._inputs(step, saved)
        records_in = sum(i.rows for i in inputs)
        way = self._way_of(jobs, fragment, inputs, ratio * records_in, phases)
        if way is not Way.PREPARED and saved is not None:
            # A plan that is made anew knows of no panes.
            saved, inputs = None, self._inputs(step)
            records_in = sum(i.rows for i in inputs)
        target = self._target_of(step, jobs)
        # No record in, none out: an empty relation needs no job.
        written = [Written(stream=s.stream, files=(), buckets={}) for s in target.shapes]
        failed: list[QuarantinedRecord] = []
        spark_jobs = 0
        if records_in or (saved and saved.rows):
            with (
                spark_errors(f"{fragment.id} over {step.range}"),
                self._grouped(target.attempt, fragment.id) as group,
            ):
                (written, failed), tagged = jobs.run(
                    way, inputs, target, phases, rows_expected=ratio * records_in,
                    shuffled=shuffled, saved=saved,
                )  # fmt: skip
                spark_jobs = group.count()
            if saved is not None and tagged is not None:
                jobs.panes.keep(step, saved, tagged)
        result = self._written(written, failed, records_in, spark_jobs, phases)
        if records_in and not (saved and saved.rows):
            self._rows_out_per_record[fragment.id] = result.metrics.records_out / records_in
        return result

    def _compute_over_panes(
        self, step: ComputeStep, kept: tuple[KeptJobs, KeptWay], phases: Phases
    ) -> StepResult:
        """The step by a job that gives or takes panes (`pipelines.spark.pane_cache`)."""
        panes, over = kept
        fragment = step.fragment.fragment
        records = sum(i.rows for i in self._inputs(step))
        rows = self._ratio_of(fragment) * records + panes.rows_expected(over)
        target = panes.targeted(over, self._target_of(step, over.jobs))
        with (
            self._grouped(target.attempt, fragment.id) as group,
            spark_errors(f"{fragment.id} over {step.range}"),
        ):
            way = self._way_of(over.jobs, fragment, over.inputs, rows, phases)
            (written, failed), _ = over.jobs.run(
                way, over.inputs, target, phases, rows_expected=rows
            )
            spark_jobs = group.count()
        written = panes.leave(step, over, target, written)
        return self._written(written, failed, over.records, spark_jobs, phases)

    def _written(
        self, written: Sequence[Written], failed: Sequence[QuarantinedRecord], records_in: int,
        spark_jobs: int, phases: Phases,
    ) -> StepResult:  # fmt: skip
        """The result of a step whose files are written, once they are durable."""
        reached("step.written")
        with phases.phase("sync"):
            sync_folders(self.root, [f for w in written for f in w.files])
        metrics = StepMetrics(
            records_in=records_in,
            records_out=sum(sum_of(w.buckets.values()).rows for w in written),
            spark_jobs=spark_jobs,
            phases_ms=phases.ms,
        )
        return StepResult(written=tuple(written), quarantine=tuple(failed), metrics=metrics)

    def _way_of(
        self, jobs: FragmentJobs, fragment: Fragment, inputs: Sequence[InputRecords],
        rows_out: float, phases: Phases,
    ) -> Way:  # fmt: skip
        """The way for a step over these inputs; a job that cannot be prepared is planned anew."""
        records = sum(i.rows for i in inputs)
        way = way_of(fragment, records, rows_out)
        if way is not Way.PREPARED:
            return way
        with phases.phase("plan"):
            is_prepared = jobs.prepare({i.stream: i.columns for i in inputs})
        return way if is_prepared else way_anew(records)

    def _target_of(self, step: ComputeStep, jobs: FragmentJobs) -> Target:
        return target_of(
            jobs.compiled,
            self.root,
            {name: output.width_us for name, output in step.fragment.outputs.items()},
            dict.fromkeys(step.outputs, step.range),
        )

    def _kept_way(self, step: ComputeStep, phases: Phases) -> tuple[KeptJobs, KeptWay] | None:
        """How to compute an answer or a correction over panes, if that is possible and pays."""
        id_ = step.fragment.fragment.id
        if step.cause is Cause.NORMAL and id_ not in self._kept:
            return None
        with phases.phase("panes"):
            panes = self._kept_jobs_of(step.fragment.fragment)
            way = panes.way(step)
        return None if way is None else (panes, way)

    def _kept_jobs_of(self, fragment: Fragment) -> KeptJobs:
        if fragment.id not in self._kept:
            like = self._jobs_of(fragment).compiled
            self._kept[fragment.id] = KeptJobs(
                self.session, self.root, self.checked, fragment, like
            )
        return self._kept[fragment.id]

    def compute_together(self, steps: Sequence[ComputeStep]) -> Iterator[list[Computed]]:
        """Run steps, those of fragments of one shape in one job; in batches, as they are written.

        Raises what `compute` raises, for the whole batch in which something is the matter.
        """
        alike: dict[str, list[Together]] = {}
        for step in steps:
            shaped_as = self._shaped_as(step.fragment.fragment)
            is_alone = set(step.outputs) != set(step.fragment.outputs)
            if step.cause is Cause.CORRECTION and shaped_as is not None and not is_alone:
                is_alone = self._kept_way(step, Phases()) is not None
            if shaped_as is None or is_alone:
                result = self.compute(step)
                self.swear_in(step, result)
                yield [(step, result)]
                continue
            together = Together(step=step, shaped=shaped_as, inputs=self._inputs(step))
            alike.setdefault(shaped_as.shape.key, []).append(together)
        for key, members in alike.items():
            ratios = [self._ratio_of(m.step.fragment.fragment) for m in members]
            batches = in_batches(
                members,
                records_max=PREPARED_RECORDS_MAX // 4,
                rows_expected=[r * m.records for r, m in zip(ratios, members, strict=True)],
                rows_max=RESULT_ROWS_IN_DRIVER_MAX,
            )
            for batch in batches:
                job = None if len(batch) == 1 else self._shared_job_of(key)
                if job is not None:
                    yield self._computed(job, batch)
                    continue
                for member in batch:
                    yield [(member.step, self.compute(member.step))]

    def _computed(self, job: SharedJob, members: Sequence[Together]) -> list[Computed]:
        fragment = members[0].step.fragment.fragment
        with (
            spark_errors(f"{len(members)} fragments like {fragment.id}"),
            self._grouped(new_attempt(), f"{len(members)} fragments like {fragment.id}"),
        ):
            results = job.compute(members)
        for member, result in zip(members, results, strict=True):
            if member.records:
                ratio = result.metrics.records_out / member.records
                self._rows_out_per_record[member.step.fragment.fragment.id] = ratio
        return [(m.step, r) for m, r in zip(members, results, strict=True)]

    def _shaped_as(self, fragment: Fragment) -> Shaped | None:
        if fragment.id not in self._shaped:
            self._shaped[fragment.id] = shaped(fragment, self.checked, self._shapes)
        return self._shaped[fragment.id]

    def _shared_job_of(self, key: str) -> SharedJob | None:
        """The job of all fragments of a shape; None if it cannot be prepared."""
        if key not in self._shared_jobs:
            shape = self._shapes[key]
            assert shape is not None
            try:
                self._shared_jobs[key] = SharedJob(self.session, self.root, shape)
            except NotPreparable:
                self._shared_jobs[key] = None
        return self._shared_jobs[key]

    def _ratio_of(self, fragment: Fragment) -> float:
        """How many rows come out for a record, as far as it is known."""
        return self._rows_out_per_record.get(fragment.id, rows_out_guess(fragment))

    def warm_up(self, fragment: Fragment) -> None:
        """Make the fragment's plans and run them over made-up records, so that its first step of
        each kind is quick.

        A fragment that is planned anew at every step is left alone: there is nothing to keep.
        """
        by_stream = {stream: port for port, stream in fragment.inputs.items()}
        columns = {stream: self.checked.columns[port] for stream, port in by_stream.items()}
        if way_of(fragment, 0, 0) is Way.PREPARED:
            self._jobs_of(fragment).warm_up(columns)
            self._kept_jobs_of(fragment).warm_up()

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

    def _inputs(self, step: ComputeStep, saved: Saved | None = None) -> list[InputRecords]:
        by_stream = {s: p for p, s in step.fragment.fragment.inputs.items()}
        reads = step.reads if saved is None else saved.reads
        return [
            input_records(name, self.checked.columns[by_stream[name]], known.segments, reads)
            for name, known in step.fragment.inputs.items()
        ]

    def _jobs_of(self, fragment: Fragment) -> FragmentJobs:
        if fragment.id not in self._jobs:
            over = self._over_panes.get(fragment.id, fragment)
            self._jobs[fragment.id] = FragmentJobs(
                self.session, self.root, self._paned, over, self._folds
            )
        return self._jobs[fragment.id]

    @contextmanager
    def _grouped(self, attempt: str, fragment: str) -> Iterator[_JobGroup]:
        context = self.session.sparkContext
        context.setJobGroup(attempt, f"step of {fragment}")
        yield _JobGroup(context, attempt)


def _is_next(step: ComputeStep) -> bool:
    """Whether it is a step at the frontier, for all outputs; others come at any time and place."""
    return step.cause is Cause.NORMAL and set(step.outputs) == set(step.fragment.outputs)


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
    """The commit of a computed step (5).

    What a tentative step puts aside is not kept: the step that takes its place meets it again. So
    that there is one, such a step is not promoted as it stands.
    """
    is_tentative = not step.stability.is_final
    pieces: list[tuple[Range, int | None]] = [(a.range, a.fresh_ms) for a in step.ages]
    pieces = pieces or [(step.range, None)]
    segments = tuple(
        OutputSegment(
            stream=w.stream,
            range=part,
            stability=step.stability,
            buckets=buckets,
            files=w.files if buckets else (),
            fresh_ms=fresh_ms,
            missing=step.missing if is_tentative else (),
        )
        for w in result.written
        for part, fresh_ms in pieces
        for buckets in ({at: d for at, d in w.buckets.items() if part.holds(at)},)
    )
    lineage, quarantine = step.reads, result.quarantine
    if is_tentative and quarantine:
        lineage, quarantine = tuple(replace(read, content=None) for read in lineage), ()
    return Commit(
        lease=lease,
        plan=step.fragment.plan,
        cause=step.cause,
        segments=segments,
        lineage=lineage,
        quarantine=quarantine,
        metrics=result.metrics,
        ends=step.ends,
    )
