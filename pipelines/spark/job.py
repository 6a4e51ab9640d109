"""One Spark job from input records to written outputs, in the mode that suits their number.

The resulting relation holds the rows of all outputs, each under its tag. Its inputs were opened
by name and version, so nothing here can read more than lineage will name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.commits import Cause, QuarantinedRecord
from medusa_core.errors import Refused, Unavailable
from medusa_core.failure_rules import failure_rules
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.base.failpoints import reached
from pipelines.base.phase_times import Phases
from pipelines.base.settings import Engine
from pipelines.language.check import CheckedNetwork
from pipelines.spark.carried_relations import ONE_PARTITION
from pipelines.spark.compiled_fragment import (
    TAG,
    CarriedShape,
    CompiledFragment,
    Statement,
    input_view,
)
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.execution_mode import (
    HANDED_OVER_RECORDS_MAX,
    KERNEL_CORRECTED_RECORDS_MIN,
    KERNEL_RECORDS_MIN,
    RESULT_ROWS_IN_DRIVER_MAX,
    ExecutionMode,
    JobForm,
)
from pipelines.spark.failures import spark_errors
from pipelines.spark.inputs import (
    FilePart,
    InputRecords,
    handed_over,
    open_relation,
    read_table,
    shares_no_files,
)
from pipelines.spark.job_verification import Contents, Records, Tagged, Verification
from pipelines.spark.kernel import Kernel
from pipelines.spark.kernel_expressions import NotInKernel
from pipelines.spark.made_up_rows import APART_US, ROWS, made_up_rows
from pipelines.spark.prepared import (
    SLOT_BYTES,
    FileBytes,
    GivenInput,
    NotPreparable,
    PreparedFragment,
    as_leaf,
)
from pipelines.spark.prepared_form import prepared_form
from pipelines.spark.results import (
    Target,
    Verified,
    Written,
    rows_left,
    target_of,
    write_in_driver,
    write_in_tasks,
)
from pipelines.spark.step_panes import EVERYTHING, Saved, StepPanes
from pipelines.spark.user_functions import register
from pipelines.storage.arrow_schema import STIME
from pipelines.storage.row_groups import groups_of
from pipelines.storage.segment_files import check_file, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT_TIME = "stime"
"""The name under which a Function box sees and returns event time."""

_VERIFICATION = "-verification"
_GENERATED = Range(0, ROWS * APART_US)
_WIDTH_US = 1_000_000

KERNEL_FAILURES_MAX = 3
"""After so many failures in a row a fragment's steps are computed by Spark SQL."""

FILES_IN_PLACE_MAX = 64
"""Of how many files a prepared job reads parts where they are; more are read here, together."""

Results = tuple[list[Written], list[QuarantinedRecord]]


class FragmentJobs:
    """The jobs of one fragment in one session: compiled once, prepared once."""

    def __init__(
        self,
        session: SparkSession,
        root: Path,
        checked: CheckedNetwork,
        fragment: Fragment,
        folded: Collection[str] = (),
        like: CompiledFragment | None = None,
    ) -> None:
        """The fragment and network are over panes; `folded` names the boxes that make them.

        What a box fails on is reported as by `like`, the same boxes in another form.
        """
        self.session = session
        self._root = root
        self._fragment = fragment.id
        self._rules = failure_rules(fragment)
        self.compiled = compile_fragment(fragment, checked)
        if like is not None:
            expressions = {f.box: f.expressions for f in like.fallible}
            fallible = tuple(
                replace(f, expressions=expressions.get(f.box, f.expressions))
                for f in self.compiled.fallible
            )
            self.compiled = replace(self.compiled, fallible=fallible)
        self._prepared: PreparedFragment | None = None
        self._kernel: Kernel | None = None
        self._kernel_failures = 0
        # A job that is sent again finds its records at paths of this machine.
        self._shares_no_files = shares_no_files(session, root)
        self._may_have_kernel = not self._shares_no_files
        self.is_preparable = not self._shares_no_files
        self._to_prepare = prepared_form(fragment, checked, folded, self.compiled)
        self._carrying = in_any_partitions(self._to_prepare)
        scratch = session.conf.get("spark.medusa.scratch")
        assert scratch is not None
        self.panes = StepPanes(
            self._to_prepare.panes, self._to_prepare.carried, Path(scratch), self._rules
        )
        self._verifications: dict[JobForm, Verification] = {}

    def run_anew(
        self,
        mode: ExecutionMode,
        inputs: Sequence[InputRecords],
        target: Target,
        phases: Phases,
        *,
        rows_expected: float,
        shuffled: bool = False,
        saved: Saved | None = None,
        leaves: Path | None = None,
    ) -> Results:
        """Plan the job for this step, run it and write what comes out.

        With `saved` the job is given carried rows; those that it leaves are written to a folder for
        each box in `leaves`.
        """
        compiled = self.compiled if saved is None else self._carrying
        frames = {
            i.stream: partial(
                open_relation, self.session, self._root, i,
                hands_over=mode is ExecutionMode.HANDED_OVER, shuffled=shuffled,
            )
            for i in inputs
        }  # fmt: skip
        with ExitStack() as stack:
            with phases.phase("plan"):
                if saved is not None:
                    self._open_saved(saved)
                tagged = _planned(self.session, compiled, frames, stack, shuffled=shuffled)
            if leaves is not None and not self._shares_no_files:
                with phases.phase("spark"):
                    _write_carried(tagged, compiled, leaves)
                tagged = tagged.where(f"{TAG} < {len(compiled.outputs)}")
            if rows_expected > RESULT_ROWS_IN_DRIVER_MAX:
                with phases.phase("spark"):
                    return write_in_tasks(target, tagged)
            with phases.phase("spark"):
                table = tagged.toArrow()
            with phases.phase("write"):
                if leaves is not None and self._shares_no_files:
                    _write_left(table, compiled, leaves)
                return write_in_driver(target, table)

    def _open_saved(self, saved: Saved) -> None:
        for view, rows in saved.given.items():
            if isinstance(rows, Path) and self._shares_no_files:
                rows = _read_left(rows)
            is_file = isinstance(rows, Path)
            reader = self.session.read
            frame = reader.parquet(str(rows)) if is_file else handed_over(self.session, rows)
            frame.createOrReplaceTempView(view)

    def ordinary_table(
        self, given: Mapping[StreamName, pa.Table], saved: Saved | None = None
    ) -> pa.Table:
        """The tagged relation over these records, by a plan that is made for them alone.

        With `saved` it is given carried rows like the prepared job, and gives those that are left.
        """
        if saved is None:
            return ordinary_table(self.session, self.compiled, given)
        self._open_saved(saved)
        return ordinary_table(self.session, self._to_prepare, given)

    @property
    def carried(self) -> tuple[CarriedShape, ...]:
        """The boxes for whose earlier records rows stand."""
        return self._to_prepare.carried

    def prepare(
        self,
        columns: Mapping[StreamName, Sequence[Column]],
        records: int = 0,
        *,
        cause: Cause = Cause.NORMAL,
        has_many_rows: bool = False,
        phases: Phases | None = None,
    ) -> JobForm | None:
        """Prepare what computes a step over so many records, unless that was done.

        With 0 records, before a step, that is Spark's prepared job. Where so many rows come out
        that it would be planned anew (`has_many_rows`), a kernel alone is prepared.

        Returns the form in which it is given them; None if the step must be planned by itself. An
        answer waits neither for a preparation nor for a comparison with an ordinary plan.
        """
        phases = phases or Phases()
        is_answer = cause is Cause.TENTATIVE
        may_answer = self.verification(JobForm.IN_KERNEL).may_answer
        is_for_kernel = records >= self._kernel_records_min(cause)
        if is_for_kernel and (may_answer or not is_answer) and self._has_kernel(columns, phases):
            return JobForm.IN_KERNEL
        if has_many_rows:
            return None
        if is_answer and not self.verification().may_answer:
            return None
        if self._prepared is None and self.is_preparable:
            with phases.phase("plan"):
                try:
                    self._prepared = PreparedFragment(self.session, self._to_prepare, columns)
                except NotPreparable:
                    self.is_preparable = False
        return None if self._prepared is None else JobForm.OVER_RECORDS

    def _kernel_records_min(self, cause: Cause) -> float:
        """From how many records on a step is for a kernel."""
        engine = self.session.conf.get("spark.medusa.engine")
        if engine == Engine.SPARK:
            return inf
        if engine == Engine.KERNEL:
            return 1
        is_correction = cause is Cause.CORRECTION
        return KERNEL_CORRECTED_RECORDS_MIN if is_correction else KERNEL_RECORDS_MIN

    def _has_kernel(self, columns: Mapping[StreamName, Sequence[Column]], phases: Phases) -> bool:
        """Whether a kernel can compute its steps; it is made the first time."""
        if self._kernel is None and self._may_have_kernel:
            with phases.phase("plan"):
                try:
                    self._kernel = Kernel(self.session, self._to_prepare, columns)
                except NotInKernel:
                    self._may_have_kernel = False
        return self._kernel is not None

    def verification(self, form: JobForm = JobForm.OVER_RECORDS) -> Verification:
        """The verification of the job in the form in which it is given its records."""
        return self._verifications.setdefault(form, Verification())

    def warm_up(
        self,
        columns: Mapping[StreamName, Sequence[Column]],
        plain: FragmentJobs | None = None,
        originals: Mapping[StreamName, StreamName] | None = None,
    ) -> Verified | None:
        """Prepare the job and compare it with the ordinary plan over generated records.

        So the first step of the job is about as quick as a later one (measured: after a run over
        nothing it took three times as long), and the job may give tentative answers. The ordinary
        plan is that of `plain`, which reads the records of the inputs in `originals` under the
        names that these map to. None if the job cannot be prepared, or if the network fails on the
        values: then what ran before that is warm.
        """
        form = self.prepare(columns)
        if form is None:
            return None
        plain = plain or self
        given = {stream: made_up_rows(of) for stream, of in columns.items()}
        merged: dict[StreamName, pa.Table] = {}
        for stream, rows in given.items():
            name = (originals or {}).get(stream, stream)
            merged[name] = pa.concat_tables([merged[name], rows]) if name in merged else rows
        with suppress(Refused), spark_errors("generated records"):
            self.prepared_over({s: Records.FEW.of(rows) for s, rows in given.items()}, form)
            table = self.prepared_over(given, form)
            difference = self._found(plain, table).difference(
                plain._found(plain, plain.ordinary_table(merged))
            )
            if difference is None:
                self.verification(form).tried()
            return Verified(
                fragment=self._fragment,
                job="the prepared job over generated records",
                range=_GENERATED,
                difference=difference,
            )
        return None

    def _found(self, plain: FragmentJobs, tagged: pa.Table) -> Contents:
        """What a tagged relation over generated records holds of the outputs of `plain`."""
        streams = tuple(shape.stream for shape in plain.compiled.outputs)
        widths_us = dict.fromkeys(streams, _WIDTH_US)
        ranges = dict.fromkeys(streams, EVERYTHING)
        target = target_of(self.compiled, self._root, widths_us, ranges, plain._rules)
        return Tagged(target, tagged, streams).contents

    def prepared_table(
        self,
        inputs: Sequence[InputRecords],
        phases: Phases,
        form: JobForm,
        saved: Saved | None = None,
    ) -> pa.Table:
        """The tagged relation of the prepared job, which is given the panes that are saved.

        Raises KernelFailed.
        """
        with phases.phase("read"):
            given = {i.stream: self._given(i) for i in inputs}
        with phases.phase("spark"):
            table = self.prepared_over(given, form, saved)
        reached("step.computed")
        return table

    def prepared_over(
        self, given: Mapping[StreamName, GivenInput], form: JobForm, saved: Saved | None = None
    ) -> pa.Table:
        """The tagged relation of the prepared job over these records. Raises KernelFailed."""
        left = (saved or self.panes.nothing()).given
        if form is JobForm.IN_KERNEL:
            assert self._kernel is not None, "a kernel is made before a step is sent to it"
            return self._kernel.run(given, left)
        assert self._prepared is not None, "a job is prepared before a step is sent to it"
        return self._prepared.run(given, left)

    def computed_in_kernel(self) -> None:
        """The kernel has computed a step."""
        self._kernel_failures = 0

    def kernel_failed(self) -> None:
        """The kernel has failed on a step: after some in a row there is no kernel any more."""
        self._kernel_failures += 1
        if self._kernel_failures >= KERNEL_FAILURES_MAX:
            self._kernel, self._may_have_kernel = None, False

    def without_kernel(self, inputs: Sequence[InputRecords], saved: Saved | None) -> pa.Table:
        """The tagged relation by the ordinary plan, after the kernel failed on the step.

        It is given the same rows of an earlier step as the kernel, and gives those that are left.
        """
        given = {i.stream: read_table(self._root, i) for i in inputs}
        return self.ordinary_table(given, saved)

    def _given(self, records: InputRecords) -> GivenInput:
        """The one file that holds the records and no others; many records where they are."""
        files = () if records.given is not None else records.files
        if len(files) == 1 and files[0].range is None and files[0].file.size_bytes < SLOT_BYTES:
            return check_file(self._root, files[0].file)
        if records.rows <= HANDED_OVER_RECORDS_MAX or not 0 < len(files) <= FILES_IN_PLACE_MAX:
            return read_table(self._root, records)
        return [self._bytes_of(part) for part in files]

    def _bytes_of(self, part: FilePart) -> FileBytes:
        path, size_bytes = check_file(self._root, part.file), part.file.size_bytes
        start, end = 0, size_bytes
        if part.range is not None:
            with rows_of(path):
                groups = groups_of(pq.read_metadata(path), part.range)
            start, end = groups.start, groups.end
        return FileBytes(path, size_bytes, start, end, part.range)


def in_any_partitions(compiled: CompiledFragment) -> CompiledFragment:
    """A fragment whose job is to be planned for one step, and may exchange rows."""
    statements = (replace(s, sql=s.sql.replace(ONE_PARTITION, "")) for s in compiled.statements)
    sql = compiled.sql.replace(ONE_PARTITION, "")
    return replace(compiled, statements=tuple(statements), sql=sql)


def _write_carried(tagged: DataFrame, compiled: CompiledFragment, folder: Path) -> None:
    """Write what boxes leave where it is computed: many rows do not come to the driver."""
    for shape in compiled.carried:
        named = zip(shape.slots, shape.columns, strict=True)
        columns = [f"{slot} AS `{column.name}`" for slot, column in named]
        rows = tagged.where(f"{TAG} = {shape.tag}").selectExpr(*columns, STIME)
        rows.write.parquet(str(folder / shape.box))


def _write_left(tagged: pa.Table, compiled: CompiledFragment, folder: Path) -> None:
    """The same in the driver. Raises Unavailable if there is no room."""
    for shape in compiled.carried:
        try:
            (folder / shape.box).mkdir()
            pq.write_table(rows_left(shape, tagged), folder / shape.box / "rows.parquet")
        except OSError as error:
            raise Unavailable(
                f"the scratch folder {folder} cannot be written ({error.strerror or error}): free "
                "space, then run again; nothing was committed"
            ) from error


def _read_left(path: Path) -> pa.Table:
    """Rows that the driver has written. Raises Unavailable if they are not there any more."""
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise Unavailable(
            f"the scratch file {path} cannot be read ({' '.join(str(error).split())[:200]}): "
            "start the participant again, which reads the records instead"
        ) from error


@contextmanager
def jobs_of_verification(session: SparkSession) -> Iterator[None]:
    """Spark jobs of this thread do not count as those of its step meanwhile."""
    context = session.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id") or ""
    text = context.getLocalProperty("spark.job.description") or ""
    context.setJobGroup(f"{group}{_VERIFICATION}", f"verification of the {text}")
    try:
        yield
    finally:
        context.setJobGroup(group, text)


def verification_jobs(session: SparkSession) -> int:
    """How many jobs ran for verification in the group of this thread."""
    context = session.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id") or ""
    return len(context.statusTracker().getJobIdsForGroup(f"{group}{_VERIFICATION}"))


def ordinary_table(
    session: SparkSession, compiled: CompiledFragment, given: Mapping[StreamName, pa.Table]
) -> pa.Table:
    """The tagged relation over these records, by a plan that is made for them alone."""
    frames = {s: partial(handed_over, session, table) for s, table in given.items()}
    with ExitStack() as stack:
        return _planned(session, compiled, frames, stack).toArrow()


def _planned(
    session: SparkSession,
    compiled: CompiledFragment,
    frames: Mapping[StreamName, Callable[[], DataFrame]],
    stack: ExitStack,
    *,
    shuffled: bool = False,
) -> DataFrame:
    for stream, frame_of in frames.items():
        frame_of().createOrReplaceTempView(input_view(stream))
    register(session, compiled.aggregates)
    for statement in compiled.statements:
        frame = session.sql(statement.sql)
        if statement.function is not None:
            frame = _called(statement, frame, swears=shuffled)
        stack.callback(frame.persist().unpersist)
        rows, _ = as_leaf(frame)
        rows.createOrReplaceTempView(statement.view)
        # A view holds its plan, and through it the shuffle files of the cached relation.
        stack.callback(session.catalog.dropTempView, statement.view)
    return session.sql(compiled.sql)


def _called(statement: Statement, frame: DataFrame, *, swears: bool) -> DataFrame:
    """What a Function box makes of its input; Refused if it raises or returns other columns.

    At its first check, also if it returns an event time that it was not given.
    """
    assert statement.function is not None
    box = statement.view.removesuffix("P")
    try:
        made = statement.function(frame.withColumnRenamed(STIME, EVENT_TIME))
        found = dict(made.dtypes)
    except Exception as error:
        # A user's own code: whatever it raises is its input's or its own fault, not ours.
        raise Refused(
            f"function {box} raised {type(error).__name__}: {str(error)[:300]}"
        ) from error
    types = {**{c.name: c.type for c in statement.columns}, EVENT_TIME: "bigint"}
    for name, type_ in types.items():
        if found.get(name) != type_:
            raise Refused(
                f"function {box} returns column {name!r} as {found.get(name, 'nothing')} but "
                f"{type_} is declared"
            )
    if swears:
        given = frame.selectExpr(f"{STIME} AS {EVENT_TIME}")
        if made.select(EVENT_TIME).subtract(given).take(1):
            raise Refused(
                f"function {box} writes {EVENT_TIME}, which no box may: return each row with the "
                f"{EVENT_TIME} of the row it was made of"
            )
    renamed: DataFrame = made.select(*types).withColumnRenamed(EVENT_TIME, STIME)
    return renamed
