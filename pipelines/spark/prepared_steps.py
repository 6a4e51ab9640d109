"""A step by a prepared job, and the same step by the ordinary plan that the job is verified by.

The job may read its records in another form than the fragment does: panes of an earlier step stand
for some of them, or they come under other names (`pipelines.spark.pane_cache`). The ordinary plan
reads every record of the step, unless carried rows stand for too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from medusa_core.commits import VERIFY, Cause
from medusa_core.decide import ComputeStep
from medusa_core.names import StreamName
from pipelines.base.phase_times import Phases
from pipelines.spark.execution_mode import RESULT_ROWS_IN_DRIVER_MAX, JobForm
from pipelines.spark.inputs import InputRecords, read_table
from pipelines.spark.job import (
    FragmentJobs,
    jobs_of_verification,
    verification_jobs,
)
from pipelines.spark.job_verification import RECORDS_COMPARED_MAX, Records, Tagged
from pipelines.spark.kernel import KernelFailed
from pipelines.spark.results import Target, Verified
from pipelines.spark.step_panes import Saved
from pipelines.storage.arrow_schema import record_schema

RECORDS_REREAD_MAX, RECORDS_REREAD_FIRST_MAX = 250_000, 1_000_000
"""Up to how many records the ordinary plan reads all records of a step over carried rows again,
into memory, and up to how many in the first comparison. Of more it is given the same carried rows
as the job, and those that both leave are compared too: that finds what a prepared job does wrong,
not what is wrong in the form of the fragment that takes and leaves rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinary:
    """The fragment's own job, every record that the step reads, and where its rows go.

    To name them all takes longer than a step over carried rows: they are found where they are used.
    """

    jobs: FragmentJobs
    inputs_of_step: Callable[[], Sequence[InputRecords]]
    target: Target

    @property
    def inputs(self) -> Sequence[InputRecords]:
        """Every record that the step reads."""
        return self.inputs_of_step()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStep:
    """A step by a prepared job, which is given records in a form.

    `as_panes` are inputs that are panes and no records; `originals` maps inputs to the streams
    whose records they are, where these have other names.
    """

    root: Path
    step: ComputeStep
    jobs: FragmentJobs
    form: JobForm
    inputs: Sequence[InputRecords]
    target: Target
    ordinary: Ordinary
    phases: Phases
    saved: Saved | None = None
    as_panes: frozenset[StreamName] = frozenset()
    originals: Mapping[StreamName, StreamName] = field(default_factory=dict)
    rows_expected: float = 0.0
    tables: dict[InputRecords, pa.Table] = field(default_factory=dict)

    def run(self) -> tuple[Tagged, Verified | None]:
        """The result of the job, compared with the ordinary plan's where that is due.

        Each form in which the job is given its records is verified by itself. Raises KernelFailed
        if a kernel fails on a step with more than RESULT_ROWS_IN_DRIVER_MAX expected rows.
        """
        form = self._verified_form
        verification = self.jobs.verification(form)
        try:
            result, is_compared, difference = verification.run(
                self.by_job,
                self.by_ordinary_plan,
                self._compared,
                is_answer=self.step.cause is Cause.TENTATIVE,
            )
        except KernelFailed:
            self.jobs.kernel_failed()
            if self.rows_expected > RESULT_ROWS_IN_DRIVER_MAX:
                raise
            with self.phases.phase("spark"):
                table = self.jobs.without_kernel(self.inputs, self.saved)
            return Tagged(self.target, table, self._streams), None
        if form.is_in_kernel:
            self.jobs.computed_in_kernel()
        if not is_compared:
            return result, None
        return result, Verified(
            fragment=self.step.fragment.fragment.id,
            job=form.value,
            range=self.step.range,
            difference=difference,
            spark_jobs=verification_jobs(self.jobs.session),
        )

    def by_job(self, records: Records) -> Tagged:
        """What the prepared job gives; of fewer than all records without any panes."""
        if records is Records.ALL:
            table = self.jobs.prepared_table(self.inputs, self.phases, self.form, self.saved)
        else:
            with self._verifying():
                table = self.jobs.prepared_over(
                    {
                        i.stream: record_schema(i.columns).empty_table()
                        if i.stream in self.as_panes
                        else records.of(self._table(i))
                        for i in self.inputs
                    },
                    self.form,
                )
        return Tagged(self.target, table, self._streams, self.jobs.carried)

    def by_ordinary_plan(self, records: Records) -> Tagged:
        """What a plan gives that is made for these records alone."""
        with self._verifying():
            if records is Records.ALL and self._is_long:
                given = {i.stream: self._table(i) for i in self.inputs}
                table = self.jobs.ordinary_table(given, self.saved)
                return Tagged(self.target, table, self._streams, self.jobs.carried)
            if records is Records.ALL:
                given = {i.stream: self._table(i) for i in self.ordinary.inputs}
            else:
                given = {}
                for i in self.inputs:
                    if i.stream not in self.as_panes:
                        stream = self.originals.get(i.stream, i.stream)
                        others = [given[stream]] if stream in given else []
                        given[stream] = pa.concat_tables([*others, records.of(self._table(i))])
            table = self.ordinary.jobs.ordinary_table(given)
        return Tagged(self.ordinary.target, table, self._streams)

    @contextmanager
    def _verifying(self) -> Iterator[None]:
        with self.phases.phase(VERIFY), jobs_of_verification(self.jobs.session):
            yield

    def _table(self, records: InputRecords) -> pa.Table:
        """The records, read once."""
        if records not in self.tables:
            self.tables[records] = read_table(self.root, records)
        return self.tables[records]

    @property
    def _verified_form(self) -> JobForm:
        """The form as which the job is verified: with rows of an earlier step another one."""
        if self.saved is None or not self.saved.rows:
            return self.form
        return self.form.over(carried=bool(self.saved.carried))

    @property
    def _is_long(self) -> bool:
        """Whether carried rows stand for more records than are read again for a comparison."""
        if self.saved is None or not self.saved.carried or not self.saved.rows:
            return False
        has_compared = self.jobs.verification(self._verified_form).has_compared
        records_max = RECORDS_REREAD_MAX if has_compared else RECORDS_REREAD_FIRST_MAX
        return sum(i.rows for i in self.ordinary.inputs) > records_max

    @property
    def _compared(self) -> Records:
        """All records where they are few, or where panes stand for some of them."""
        if (self.saved is not None and self.saved.rows) or self.as_panes:
            return Records.ALL
        is_small = sum(i.rows for i in self.ordinary.inputs) <= RECORDS_COMPARED_MAX
        return Records.ALL if is_small else Records.COMPARED

    @property
    def _streams(self) -> tuple[StreamName, ...]:
        return tuple(shape.stream for shape in self.ordinary.target.shapes)
