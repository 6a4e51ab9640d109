"""A step: one Spark job from named input versions to files, digests and a commit.

The numbers are those of the protocol (docs/architecture.md, "A step, numbered"): knowledge is read
(1) and decided on (2) by the caller; here one Spark job runs for the fragment and range (3), its
results are written and synced (4), and one call commits them (5). Killed between any two numbers,
nothing is lost: what no commit names does not exist.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from medusa_core.commits import (
    VERIFY,
    Cause,
    Commit,
    Lease,
    OutputSegment,
    QuarantinedRecord,
    StepMetrics,
)
from medusa_core.decide import ComputeStep
from medusa_core.digest import sum_of
from medusa_core.failure_rules import FailureRules, failure_rules
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from pipelines.base.failpoints import reached
from pipelines.base.phase_times import Phases
from pipelines.language.check import CheckedNetwork
from pipelines.language.fragment_shapes import Shape, Shaped, shaped
from pipelines.language.panes import over_panes
from pipelines.spark.emitted_rows import emitted_count, emitted_records
from pipelines.spark.execution_mode import (
    KERNEL_BYTES_MAX,
    PREPARED_RECORDS_MAX,
    RESULT_ROWS_IN_DRIVER_MAX,
    ExecutionMode,
    JobForm,
    mode_of,
    rows_out_guess,
    unprepared_mode,
)
from pipelines.spark.failures import spark_errors
from pipelines.spark.function_checks import FunctionChecks
from pipelines.spark.inputs import InputRecords, input_records, shares_no_files
from pipelines.spark.job import FragmentJobs
from pipelines.spark.job_verification import Tagged
from pipelines.spark.kept_records import has_drops, kept_records
from pipelines.spark.kernel import KernelFailed
from pipelines.spark.pane_cache import PaneCache, PaneStep
from pipelines.spark.prepared import NotPreparable
from pipelines.spark.prepared_form import columns_of
from pipelines.spark.prepared_steps import Ordinary, PreparedStep
from pipelines.spark.results import (
    StepResult,
    Target,
    Verified,
    Written,
    target_of,
    write_in_driver,
    write_ranges,
)
from pipelines.spark.shared_jobs import SharedJob, Together, in_batches
from pipelines.spark.step_panes import Saved
from pipelines.spark.user_functions import tried
from pipelines.storage.segment_files import keep_files, new_attempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

SENT_BYTES_MAX = 16 << 20
"""Up to how many bytes of carried rows are sent to a task that has no file of this machine. In
memory they take some times as much, and Spark sends no task of more than 128 MiB."""

Computed: TypeAlias = tuple[ComputeStep, StepResult]


class StepEngine:
    """Runs steps of one network in one Spark session, against one home's storage root."""

    def __init__(self, session: SparkSession, root: Path, checked: CheckedNetwork) -> None:
        self.session = session
        self.root = root
        self.checked = checked
        self._shares_no_files = shares_no_files(session, root)
        self._paned, self._folds = over_panes(checked)
        self._over_panes = (
            {f.id: f for f in fragments_of(self._paned.network)} if self._folds else {}
        )
        self._jobs: dict[str, FragmentJobs] = {}
        self._rules: dict[str, FailureRules] = {}
        self._kept: dict[str, PaneCache] = {}
        self._shapes: dict[str, Shape | None] = {}
        self._shaped: dict[str, Shaped | None] = {}
        self._shared_jobs: dict[str, SharedJob | None] = {}
        self._rows_out_per_record: dict[str, float] = {}
        self._functions = FunctionChecks(root, partial(self.compute, shuffled=True))
        self._planned_anew: set[str] = set()
        self._untold: dict[str, Verified] = {}

    def compute(self, step: ComputeStep, *, shuffled: bool = False) -> StepResult:
        """Run the step's job and write its files (3, 4); nothing is committed.

        Raises Refused if the job fails on its data, Unavailable if a file is gone, SparkEnded if
        the JVM is.
        """
        phases = Phases()
        fragment = step.fragment.fragment
        if step.cause is not Cause.TENTATIVE:
            self._verify_answers(fragment, phases)
        return self._with_noted(step, self._computed_alone(step, phases, shuffled=shuffled))

    def _with_noted(self, step: ComputeStep, result: StepResult) -> StepResult:
        """A result with the verification that was made apart from a step, if there was one."""
        fragment = step.fragment.fragment.id
        if result.verified is None and fragment in self._untold:
            return replace(result, verified=self._untold.pop(fragment))
        return result

    def _computed_alone(self, step: ComputeStep, phases: Phases, *, shuffled: bool) -> StepResult:
        try:
            return self._computed_once(step, phases, shuffled=shuffled, is_anew=shuffled)
        except KernelFailed:
            return self._computed_once(step, phases, shuffled=shuffled, is_anew=True)

    def _computed_once(
        self, step: ComputeStep, phases: Phases, *, shuffled: bool, is_anew: bool
    ) -> StepResult:
        """The step in the mode that suits it, or with `is_anew` by a plan made for it alone.

        Raises KernelFailed if a kernel fails and the step has too many rows for the driver.
        """
        fragment = step.fragment.fragment
        ratio = self._ratio_of(fragment)
        kept = None if is_anew or has_drops(step) else self._kept_pane_step(step, phases)
        if kept is not None:
            return self._compute_over_panes(step, kept, phases)
        jobs = self._jobs_of(fragment)
        saved = None if shuffled or not _is_next(step) else jobs.panes.saved(step)
        inputs = self._inputs(step, saved)
        records_in, emitted = sum(i.rows for i in inputs), emitted_count(inputs)
        rows_expected = ratio * records_in + emitted
        if is_anew:
            mode, form = unprepared_mode(records_in), None
        else:
            mode, form = self._mode_of(jobs, step, inputs, rows_expected, phases)
        is_wrong = fragment.id in self._planned_anew
        is_left_out = is_wrong or not jobs.panes.is_of_rows_alone
        if self._shares_no_files and saved is not None:
            # What is carried passes through the driver, and to one task.
            has_many_rows = rows_expected > RESULT_ROWS_IN_DRIVER_MAX
            is_left_out |= has_many_rows or saved.carried_bytes > SENT_BYTES_MAX
        if form is None and saved is not None and is_left_out:
            # A plan that is made for one step takes no panes.
            saved, inputs = None, self._inputs(step)
            records_in = sum(i.rows for i in inputs)
            mode = unprepared_mode(records_in)
        target = self._target_of(step, jobs)
        # No record in, none out but for windows without records: nothing needs a job.
        written = [Written(stream=s.stream, files=(), buckets={}) for s in target.shapes]
        failed: list[QuarantinedRecord] = []
        spark_jobs, verified = 0, None
        if records_in or emitted or (saved and saved.rows_alone):
            with (
                spark_errors(f"{fragment.id} over {step.range}"),
                self._grouped(target.attempt, fragment.id) as group,
            ):
                if form is not None:
                    prepared = PreparedStep(
                        root=self.root, step=step, jobs=jobs, form=form, inputs=inputs,
                        target=target, ordinary=self._ordinary(step, jobs, target), phases=phases,
                        saved=saved, rows_expected=rows_expected,
                    )  # fmt: skip
                    result, verified = self._run_prepared(prepared)
                    with phases.phase("write"):
                        written, failed = write_in_driver(result.target, result.table)
                    if saved is not None and (verified is None or verified.difference is None):
                        jobs.panes.keep(step, saved, result.table)
                else:
                    with (
                        tried(self.session, shuffled),
                        self._left_of(step, jobs, saved) as leaves,
                    ):
                        written, failed = jobs.run_anew(
                            mode, inputs, target, phases,
                            rows_expected=rows_expected, shuffled=shuffled,
                            saved=saved, leaves=leaves,
                        )  # fmt: skip
                spark_jobs = group.count()
        made = self._written(written, failed, records_in, spark_jobs, phases, verified)
        if records_in and not (saved and saved.rows_alone):
            rows_out = max(made.metrics.records_out - emitted, 0)
            self._rows_out_per_record[fragment.id] = rows_out / records_in
        return made

    @contextmanager
    def _left_of(
        self, step: ComputeStep, jobs: FragmentJobs, saved: Saved | None
    ) -> Iterator[Path | None]:
        """Where a plan that is made for one step writes the rows that it leaves, if it does."""
        if saved is None:
            yield None
            return
        scratch = self.session.conf.get("spark.medusa.scratch")
        with TemporaryDirectory(prefix="left-", dir=scratch) as folder:
            leaves = Path(folder)
            yield leaves
            boxes = saved.carried
            jobs.panes.keep_written(step, saved, {box: leaves / box for box in boxes})

    def _compute_over_panes(
        self, step: ComputeStep, kept: tuple[PaneCache, PaneStep], phases: Phases
    ) -> StepResult:
        """The step by a job that gives or takes panes (`pipelines.spark.pane_cache`)."""
        panes, over = kept
        fragment = step.fragment.fragment
        records = sum(i.rows for i in self._inputs(step))
        rows = self._ratio_of(fragment) * records + panes.rows_expected(over)
        target = panes.targeted(over, self._target_of(step, over.jobs))
        verified = None
        with (
            self._grouped(target.attempt, fragment.id) as group,
            spark_errors(f"{fragment.id} over {step.range}"),
        ):
            mode, form = self._mode_of(over.jobs, step, over.inputs, rows, phases)
            if form is not None:
                jobs = self._jobs_of(fragment)
                prepared = PreparedStep(
                    root=self.root, step=step, jobs=over.jobs, form=form, inputs=over.inputs,
                    target=target,
                    ordinary=self._ordinary(step, jobs, self._target_of(step, jobs)),
                    phases=phases, as_panes=over.comes_as_panes, originals=over.originals,
                    rows_expected=rows,
                )  # fmt: skip
                result, verified = self._run_prepared(prepared)
                with phases.phase("write"):
                    written, failed = write_in_driver(result.target, result.table)
            else:
                written, failed = over.jobs.run_anew(
                    mode, over.inputs, target, phases, rows_expected=rows
                )
            spark_jobs = group.count()
        if verified is None or verified.difference is None:
            written = panes.leave(step, over, target, written)
        return self._written(written, failed, over.records, spark_jobs, phases, verified)

    def _ordinary(self, step: ComputeStep, jobs: FragmentJobs, target: Target) -> Ordinary:
        return Ordinary(jobs=jobs, inputs_of_step=partial(self._inputs, step), target=target)

    def _run_prepared(self, prepared: PreparedStep) -> tuple[Tagged, Verified | None]:
        """The step by its prepared job; after a difference its fragment is planned anew."""
        result, verified = prepared.run()
        if verified is not None and verified.difference is not None:
            self._planned_anew.add(verified.fragment)
        return result, verified

    def _written(
        self, written: Sequence[Written], failed: Sequence[QuarantinedRecord], records_in: int,
        spark_jobs: int, phases: Phases, verified: Verified | None,
    ) -> StepResult:  # fmt: skip
        """The result of a step whose files are written, once they are durable."""
        reached("step.written")
        with phases.phase("sync"):
            keep_files(self.root, [f for w in written for f in w.files])
        return self._result(written, failed, records_in, spark_jobs, phases, verified)

    def _result(
        self, written: Sequence[Written], failed: Sequence[QuarantinedRecord], records_in: int,
        spark_jobs: int, phases: Phases, verified: Verified | None,
    ) -> StepResult:  # fmt: skip
        metrics = StepMetrics(
            records_in=records_in,
            records_out=sum(sum_of(w.buckets.values()).rows for w in written),
            spark_jobs=spark_jobs,
            phases_ms=phases.ms,
        )
        return StepResult(
            written=tuple(written), quarantine=tuple(failed), metrics=metrics, verified=verified
        )

    def _mode_of(
        self, jobs: FragmentJobs, step: ComputeStep, inputs: Sequence[InputRecords],
        rows_out: float, phases: Phases,
    ) -> tuple[ExecutionMode, JobForm | None]:  # fmt: skip
        """The mode for a step over these inputs, and in which form a prepared job is given them.

        A job that cannot be prepared is planned anew, and so is an answer whose job was not
        compared with an ordinary plan before: it does not wait for that.
        """
        fragment = step.fragment.fragment
        records = sum(i.rows for i in inputs)
        mode = mode_of(fragment, records, rows_out)
        if mode is not ExecutionMode.PREPARED:
            return mode, None
        has_many_rows = rows_out > RESULT_ROWS_IN_DRIVER_MAX
        record_bytes = sum(i.file_bytes for i in inputs) / max(records, 1)
        if has_many_rows and rows_out * record_bytes > KERNEL_BYTES_MAX:
            return unprepared_mode(records), None
        form = None
        if fragment.id not in self._planned_anew:
            columns = {i.stream: i.columns for i in inputs}
            form = jobs.prepare(
                columns, records, cause=step.cause, phases=phases,
                has_many_rows=has_many_rows,
            )  # fmt: skip
        if form is None:
            return unprepared_mode(records), None
        return mode, form

    def _target_of(self, step: ComputeStep, jobs: FragmentJobs) -> Target:
        return target_of(
            jobs.compiled,
            self.root,
            {name: output.width_us for name, output in step.fragment.outputs.items()},
            dict.fromkeys(step.outputs, step.range),
            self._rules_of(step.fragment.fragment),
        )

    def _rules_of(self, fragment: Fragment) -> FailureRules:
        if fragment.id not in self._rules:
            self._rules[fragment.id] = failure_rules(fragment)
        return self._rules[fragment.id]

    def _kept_pane_step(
        self, step: ComputeStep, phases: Phases
    ) -> tuple[PaneCache, PaneStep] | None:
        """How to compute an answer or a correction over panes, if that is possible and pays."""
        id_ = step.fragment.fragment.id
        if step.cause is Cause.NORMAL and id_ not in self._kept:
            return None
        if id_ in self._planned_anew or self._shares_no_files:
            return None
        with phases.phase("panes"):
            panes = self._pane_cache_of(step.fragment.fragment)
            pane_step = panes.pane_step_of(step)
        return None if pane_step is None else (panes, pane_step)

    def _pane_cache_of(self, fragment: Fragment) -> PaneCache:
        if fragment.id not in self._kept:
            like = self._jobs_of(fragment).compiled
            self._kept[fragment.id] = PaneCache(
                self.session, self.root, self.checked, fragment, like
            )
        return self._kept[fragment.id]

    def compute_together(self, steps: Sequence[ComputeStep]) -> Iterator[list[Computed]]:
        """Run steps, those of fragments of one shape in one job; in batches, as they are written.

        Raises what `compute` raises, for the whole batch in which something is the matter.
        """
        alike: dict[str, list[Together]] = {}
        for step in steps:
            fragment = step.fragment.fragment
            shaped_as = self._shaped_as(fragment)
            is_correction = step.cause is Cause.CORRECTION
            is_part = set(step.outputs) != set(step.fragment.outputs)
            is_alone = shaped_as is None or (is_part and not is_correction) or has_drops(step)
            if is_correction and not is_alone:
                is_alone = self._kept_pane_step(step, Phases()) is not None
            if shaped_as is None or is_alone:
                result = self.compute(step)
                self.check_deterministic(step, result)
                yield [(step, result)]
                continue
            rules = self._rules_of(fragment)
            together = Together(step=step, shaped=shaped_as, inputs=self._inputs(step), rules=rules)
            # A part of the outputs is computed with the same part of the same fragment's alone.
            key = f"{fragment.id} {step.outputs}" if is_part else shaped_as.shape.key
            alike.setdefault(key, []).append(together)
        for key, members in alike.items():
            ratios = [self._ratio_of(m.step.fragment.fragment) for m in members]
            batches = in_batches(
                members,
                records_max=PREPARED_RECORDS_MAX // 4,
                rows_expected=[r * m.records for r, m in zip(ratios, members, strict=True)],
                rows_max=RESULT_ROWS_IN_DRIVER_MAX,
            )
            for batch in batches:
                if (of_one := self._computed_in_one(batch)) is not None:
                    yield of_one
                    continue
                is_shape = key in self._shapes
                job = self._shared_job_of(key) if is_shape and len(batch) > 1 else None
                if job is not None:
                    yield self._computed(key, job, batch)
                    continue
                for member in batch:
                    yield [(member.step, self.compute(member.step))]

    def _computed_in_one(self, members: Sequence[Together]) -> list[Computed] | None:
        """Corrections of one fragment by one run of its own job; None if they are not that.

        The job reads the union of what the steps read. The rows in a step's range need no other
        records than the step's own, and no other record changes them; what the job makes outside of
        the ranges is left out.
        """
        steps = [member.step for member in members]
        fragment, outputs = steps[0].fragment.fragment, set(steps[0].outputs)
        are_alike = all(
            s.fragment.fragment.id == fragment.id
            and s.cause is Cause.CORRECTION
            and set(s.outputs) == outputs
            for s in steps
        )
        if len(steps) == 1 or not are_alike:
            return None
        phases, jobs = Phases(), self._jobs_of(fragment)
        whole = replace(
            steps[0],
            range=reduce(Range.hull, (step.range for step in steps)),
            reads=tuple(read for step in steps for read in step.reads),
        )
        inputs = self._inputs(whole)
        records = sum(i.rows for i in inputs)
        rows = self._ratio_of(fragment) * records
        _, form = self._mode_of(jobs, whole, inputs, rows, phases)
        if form is None:
            return None
        target = self._target_of(whole, jobs)
        text = f"{fragment.id} over {len(steps)} ranges in {whole.range}"
        with spark_errors(text), self._grouped(target.attempt, text) as group:
            prepared = PreparedStep(
                root=self.root, step=whole, jobs=jobs, form=form, inputs=inputs, target=target,
                ordinary=Ordinary(jobs=jobs, inputs_of_step=lambda: inputs, target=target),
                phases=phases, rows_expected=rows,
            )  # fmt: skip
            try:
                result, verified = self._run_prepared(prepared)
            except KernelFailed:
                return None
            spark_jobs = group.count()
        with phases.phase("write"):
            made = write_ranges(
                target, [self._target_of(step, jobs) for step in steps], result.table
            )
            reached("step.written")
        with phases.phase("sync"):
            keep_files(self.root, {f for written, _ in made for w in written for f in w.files})
        shared_ms = {name: ms / len(steps) for name, ms in phases.ms.items()}
        results = [
            self._result(
                written, failed, member.records, 0 if at else spark_jobs,
                Phases(dict(shared_ms)), None if at else verified,
            )
            for at, (member, (written, failed)) in enumerate(zip(members, made, strict=True))
        ]  # fmt: skip
        return [(step, self._with_noted(step, r)) for step, r in zip(steps, results, strict=True)]

    def _computed(self, key: str, job: SharedJob, members: Sequence[Together]) -> list[Computed]:
        fragment = members[0].step.fragment.fragment
        with (
            spark_errors(f"{len(members)} fragments like {fragment.id}"),
            self._grouped(new_attempt(), f"{len(members)} fragments like {fragment.id}"),
        ):
            results = job.compute(members)
        verified = results[0].verified
        if verified is not None and verified.difference is not None:
            # Each fragment is computed alone from now on, by a job of its own that is verified.
            self._shared_jobs[key] = None
        for member, result in zip(members, results, strict=True):
            if member.records:
                ratio = result.metrics.records_out / member.records
                self._rows_out_per_record[member.step.fragment.fragment.id] = ratio
        return [
            (m.step, self._with_noted(m.step, r)) for m, r in zip(members, results, strict=True)
        ]

    def _shaped_as(self, fragment: Fragment) -> Shaped | None:
        if fragment.id not in self._shaped:
            self._shaped[fragment.id] = shaped(fragment, self.checked, self._shapes)
        return self._shaped[fragment.id]

    def _shared_job_of(self, key: str) -> SharedJob | None:
        """The job of all fragments of a shape; None if it cannot be prepared."""
        if self._shares_no_files:
            return None
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
        if self._shares_no_files or mode_of(fragment, 0, 0) is not ExecutionMode.PREPARED:
            return
        jobs, columns = self._jobs_of(fragment), columns_of(fragment, self.checked)
        self._note(jobs.warm_up(columns))
        self._note(self._pane_cache_of(fragment).warm_up(jobs))

    def _verify_answers(self, fragment: Fragment, phases: Phases) -> None:
        """Compare the job of answers, if one came before that was done: no answer waits for it."""
        kept = self._kept.get(fragment.id)
        if kept is not None and kept.is_verification_due and fragment.id not in self._planned_anew:
            with (
                phases.phase(VERIFY),
                self._grouped(new_attempt(), f"verification of {fragment.id}"),
            ):
                self._note(kept.verify(self._jobs_of(fragment)))

    def _note(self, verified: Verified | None) -> None:
        """A verification apart from a step: a wrong job is reported with the next result."""
        if verified is not None and verified.difference is not None:
            self._planned_anew.add(verified.fragment)
            self._untold[verified.fragment] = verified

    def check_deterministic(self, step: ComputeStep, result: StepResult) -> None:
        """Check that the step's Functions are deterministic (`FunctionChecks`)."""
        self._functions.check(step, result)

    def _inputs(self, step: ComputeStep, saved: Saved | None = None) -> list[InputRecords]:
        by_stream = {s: p for p, s in step.fragment.fragment.inputs.items()}
        reads = step.reads if saved is None else saved.reads
        records = [
            input_records(name, self.checked.columns[by_stream[name]], known.segments, reads)
            for name, known in step.fragment.inputs.items()
        ]
        if has_drops(step):
            records = [kept_records(self.root, step, its) for its in records]
        return [*records, *emitted_records(step, self.checked)]

    def _jobs_of(self, fragment: Fragment) -> FragmentJobs:
        if fragment.id not in self._jobs:
            over = self._over_panes.get(fragment.home_id, fragment)
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
