"""A step: one Spark job from named input versions to files, digests and a commit.

The numbers are those of the protocol (docs/architecture.md, "A step, numbered"): knowledge is read
(1) and decided on (2) by the caller; here one Spark job runs for the fragment and range (3), its
results are written and synced (4), and one call commits them (5). Killed between any two numbers,
nothing is lost: what no commit names does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.commits import Commit, Lease, OutputSegment, QuarantinedRecord, StepMetrics
from medusa_core.decide import ComputeStep
from medusa_core.digest import sum_of
from medusa_core.errors import Refused, Unavailable
from medusa_core.fragments import Fragment
from medusa_core.network import Aggregate, Function, Port, inputs_of
from pipelines.networks.check import CheckedNetwork
from pipelines.spark.compiler import CompiledFragment, Statement, compile_fragment, input_view
from pipelines.spark.files import sync_folders
from pipelines.spark.inputs import SMALL_RECORDS, InputRecords, input_records, open_relation
from pipelines.spark.phases import Phases
from pipelines.spark.results import Target, Written, target_of, write_in_driver, write_in_tasks
from pipelines.streams.schemas import STIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

RESULT_ROWS_IN_DRIVER_MAX = 100_000
ROWS_OUT_PER_AGGREGATED_RECORD = 0.25
STEPS_PER_OATH = 1_000
EVENT_TIME = "stime"
"""The name under which a Function box sees and returns event time."""


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
        self._compiled: dict[tuple[str, bool], CompiledFragment] = {}
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
        ranges = dict.fromkeys(step.outputs, step.range)
        widths_us = {n: o.width_us for n, o in step.fragment.outputs.items()}
        is_small = records_in <= SMALL_RECORDS
        compiled = self._compile(step, is_small)
        target = target_of(compiled, self.root, widths_us, ranges)
        jobs = 0
        if records_in:
            with self._job(target.attempt, fragment.id) as job, _spark_errors(step):
                expected = records_in * self._rows_out_per_record.get(
                    fragment.id, rows_out_guess(fragment)
                )
                written, failed = self._run(
                    compiled, inputs, target, phases, is_small, shuffled, expected
                )
            jobs = job.count()
        else:
            # No record in, none out: an empty relation needs no job.
            written = [Written(stream=s.stream, files=(), buckets={}) for s in target.shapes]
            failed = []
        with phases.phase("sync"):
            sync_folders(self.root, [f for w in written for f in w.files])
        records_out = sum(sum_of(w.buckets.values()).rows for w in written)
        if records_in:
            self._rows_out_per_record[fragment.id] = records_out / records_in
        metrics = StepMetrics(
            records_in=records_in,
            records_out=records_out,
            spark_jobs=jobs,
            phases_ms=phases.ms,
        )
        return StepResult(written=tuple(written), quarantine=tuple(failed), metrics=metrics)

    def swear_in(self, step: ComputeStep, result: StepResult) -> None:
        """A fragment's Functions must see neither order nor partitions: look before committing.

        Done at the fragment's first step that has records and at every thousandth after it. Raises
        Refused if the step over shuffled rows in other partitions gives other digests.
        """
        fragment = step.fragment.fragment
        functions = [b.name for b in fragment.boxes if isinstance(b, Function)]
        if not functions or not result.metrics.records_in:
            return
        steps = self._steps_with_functions.get(fragment.id, 0)
        self._steps_with_functions[fragment.id] = steps + 1
        if steps % STEPS_PER_OATH:
            return
        again = self.compute(step, shuffled=True)
        for file in (file for written in again.written for file in written.files):
            (self.root / file.path).unlink(missing_ok=True)
        if {w.stream: w.buckets for w in again.written} != {
            w.stream: w.buckets for w in result.written
        }:
            raise Refused(
                f"function {' or '.join(functions)} of network {fragment.network.name} gives other "
                "rows when its input comes in another order or other partitions: make each row "
                "depend on one input row alone"
            )

    # inside

    def _inputs(self, step: ComputeStep) -> list[InputRecords]:
        network = step.fragment.fragment.network
        by_stream = {s: p for p, s in step.fragment.fragment.inputs.items()}
        assert network.name == self.checked.network.name
        return [
            input_records(name, self.checked.columns[by_stream[name]], known.segments, step.reads)
            for name, known in step.fragment.inputs.items()
        ]

    def _compile(self, step: ComputeStep, is_small: bool) -> CompiledFragment:
        key = (step.fragment.fragment.id, is_small)
        if key not in self._compiled:
            self._compiled[key] = compile_fragment(
                step.fragment.fragment, self.checked, is_small=is_small
            )
        return self._compiled[key]

    def _run(
        self,
        compiled: CompiledFragment,
        inputs: Sequence[InputRecords],
        target: Target,
        phases: Phases,
        is_small: bool,
        shuffled: bool,
        rows_expected: float,
    ) -> tuple[list[Written], list[QuarantinedRecord]]:
        kept: list[DataFrame] = []
        try:
            with phases.phase("plan"):
                for records in inputs:
                    frame = open_relation(
                        self.session, self.root, records, is_small=is_small, shuffled=shuffled
                    )
                    frame.createOrReplaceTempView(input_view(records.stream))
                for statement in compiled.statements:
                    frame = self._statement(statement)
                    frame.createOrReplaceTempView(statement.view)
                    kept.append(frame.persist())
                tagged = self.session.sql(compiled.sql)
            if rows_expected > RESULT_ROWS_IN_DRIVER_MAX:
                with phases.phase("spark"):
                    return write_in_tasks(target, tagged)
            with phases.phase("spark"):
                table = tagged.toArrow()
            with phases.phase("write"):
                return write_in_driver(target, table)
        finally:
            for frame in kept:
                frame.unpersist()

    def _statement(self, statement: Statement) -> DataFrame:
        frame = self.session.sql(statement.sql)
        if statement.function is None:
            return frame
        given = frame.withColumnRenamed(STIME, EVENT_TIME)
        box = statement.view.rstrip("_")
        try:
            made = statement.function(given)
        except Exception as error:
            # A user's own code: whatever it raises is its input's or its own fault, not ours.
            raise Refused(
                f"function {box} raised {type(error).__name__}: {str(error)[:300]}"
            ) from error
        names = [*(c.name for c in statement.columns), EVENT_TIME]
        types = {**{c.name: c.type for c in statement.columns}, EVENT_TIME: "bigint"}
        found = dict(made.dtypes) if hasattr(made, "dtypes") else {}
        for name in names:
            if found.get(name) != types[name]:
                raise Refused(
                    f"function {box} returns column {name!r} as "
                    f"{found.get(name, 'nothing')} but {types[name]} is declared"
                )
        frame_out: DataFrame = made.select(*names).withColumnRenamed(EVENT_TIME, STIME)
        return frame_out

    @contextmanager
    def _job(self, attempt: str, fragment: str) -> Iterator[_JobCount]:
        context = self.session.sparkContext
        context.setJobGroup(attempt, f"step of {fragment}")
        yield _JobCount(context, attempt)


@dataclass(frozen=True, slots=True)
class _JobCount:
    context: Any
    group: str

    def count(self) -> int:
        """How many Spark jobs ran under the group."""
        return len(self.context.statusTracker().getJobIdsForGroup(self.group))


@contextmanager
def _spark_errors(step: ComputeStep) -> Iterator[None]:
    """Turn what Spark raises into one sentence: the data's fault, or Spark is gone."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    where = f"{step.fragment.fragment.id} over {step.range}"
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise Unavailable(
            f"Spark ended during the step of {where}: look into the log folder, then run again; it "
            "goes on from the last commit"
        ) from error
    except (PySparkException, Py4JError) as error:
        first = str(error).strip().splitlines()[0]
        raise Refused(f"the step of {where} failed on its data: {first[:300]}") from error


def rows_out_guess(fragment: Fragment) -> float:
    """Rows out per record in, before the first step has told: few behind Aggregates, else all."""
    network = fragment.network

    def is_aggregated(port: Port) -> bool:
        if port in fragment.inputs:
            return False
        box = network.box(port.owner)
        behind = [network.port(r, box.name) for r in inputs_of(box)]
        return isinstance(box, Aggregate) or all(is_aggregated(p) for p in behind)

    if all(is_aggregated(port) for port in fragment.outputs.values()):
        return ROWS_OUT_PER_AGGREGATED_RECORD
    return float(len(fragment.outputs))


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
