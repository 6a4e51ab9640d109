"""Steps and closings without Spark and Parquet: rows of integers, files in memory.

The other parts of a step, knowledge, decisions, lineage, leases and commits, are the product's. A
crash while a file is written leaves it torn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from medusa_core.commits import Commit, StepMetrics
from medusa_core.decide import ComputeStep
from medusa_core.digest import TAG_INTEGER, field_words, row_hashes
from medusa_core.drops.keeping import is_record_kept, seed_of
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.base.failpoints import reached
from pipelines.simulation.faults.evaluate import digests
from pipelines.simulation.faults.scenario import Row
from pipelines.simulation.faults.simulated_processes import Process
from pipelines.sources import landing
from pipelines.sources.closing import Closing
from pipelines.sources.landing import ClosedLines
from pipelines.spark.results import StepResult, Written

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

WRITE_MS = 10


def is_kept(row: Row, drop_rate: float, plan: str) -> bool:
    """Whether a step that drops records keeps this one."""
    hashes = row_hashes(field_words(TAG_INTEGER, value) for value in row)
    return is_record_kept(hashes[0], 1 - drop_rate, seed_of(plan))


class SimulatedEngine:
    """The `Engine` and the `Closer` of a process's drivers."""

    def __init__(self, world: World, process: Process, catalog: ClosedLines) -> None:
        self._catalog = catalog
        self._world = world
        self._process = process
        self._storage = world.homes[process.participant].storage

    def compute(self, step: ComputeStep) -> StepResult:
        """See `StepEngine.compute` (3, 4)."""
        rows = {name: self._rows(step, name) for name in step.outputs}
        began_ms = self._world.now_ms
        self._world.rest(self._world.compute_ms())
        reached("step.computed")
        written = tuple(
            Written(
                stream=name,
                files=self.write(name, found),
                buckets=digests(found, step.fragment.outputs[name].width_us),
            )
            for name, found in rows.items()
        )
        reached("step.written")
        for one in written:
            self._world.wrong_provider.note_files(one.stream, one.files, step.range)
        records = sum(map(len, rows.values()))
        metrics = StepMetrics(
            records_out=records, phases_ms={"compute": float(self._world.now_ms - began_ms)}
        )
        return StepResult(written=written, quarantine=(), metrics=metrics)

    def compute_together(
        self, steps: Sequence[ComputeStep]
    ) -> Iterator[list[tuple[ComputeStep, StepResult]]]:
        """See `StepEngine.compute_together`: corrections of one fragment are one batch."""
        for _, group in groupby(steps, lambda s: (s.fragment.fragment.id, s.cause)):
            yield [(step, self.compute(step)) for step in group]

    def check_deterministic(self, step: ComputeStep, result: StepResult) -> None:
        """There are no Functions here."""

    def close(self, closing: Closing) -> Commit:
        """See `pipelines.sources.closing.close_buckets`."""
        landed, part = closing.decision.landing, closing.decision.range
        with landing.unless_closed(self._catalog, closing.decision):
            files = self._catalog.landed_files(landed.stream, part)
            self._world.rest(self._world.compute_ms())
            rows = [row for f in files for row in self._storage.read(f) if part.holds(row[0])]
            buckets = digests(rows, landed.width_us)
            landing.check_counts(landed.stream, buckets, landed.counts, part.from_us, part.to_us)
        written = self.write(landed.stream, rows)
        return landing.closing_commit(
            closing.decision, closing.lease, closing.plan, buckets, written, {}
        )

    def close_together(self, closings: Sequence[Closing]) -> list[Commit]:
        """See `pipelines.sources.closing.close_together`."""
        return [self.close(closing) for closing in closings]

    def write(self, stream: str, rows: Sequence[Row]) -> tuple[SegmentFile, ...]:
        """Write a file under a name of its own, none for no rows."""
        if not rows:
            return ()
        path = f"{stream}/{self._process.name}-{self._world.next_number()}.parquet"
        self._storage.begin(path, rows)
        self._world.rest(WRITE_MS)
        return (self._storage.write(path, rows),)

    def _rows(self, step: ComputeStep, output: StreamName) -> list[Row]:
        """The rows of one output in the step's range, from the files that its lineage names."""
        inputs: dict[StreamName, list[Row]] = {name: [] for name in step.fragment.inputs}
        for read in step.reads:
            if read.output != output:
                continue
            for segment in step.fragment.inputs[read.input].segments:
                same = (segment.producer, segment.version) == (read.producer, read.version)
                if same and segment.range.overlaps(read.range):
                    inputs[read.input] += [
                        row
                        for file in segment.files
                        for row in self._storage.read(file)
                        if read.range.holds(row[0]) and segment.range.holds(row[0])
                        if not read.drop_rate or is_kept(row, read.drop_rate, step.fragment.plan)
                    ]
        name, wrong = step.fragment.fragment.home_id, self._world.diverging
        rows = self._world.evaluators[name].rows(output, inputs)
        if wrong is not None and wrong.spoils(name, self._process.participant, output):
            rows = wrong.spoilt(rows)
        rows = self._world.wrong_provider.spoilt(
            self._process.participant, step.fragment.fragment, output, rows, step.range
        )
        return [row for row in rows if step.range.holds(row[0])]
