"""Answers and their corrections without a catalog: real files, real steps, knowledge by hand.

Streams have buckets of 10 s; the rows of a stream that arrive together are one segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from medusa_core.commits import Cause
from medusa_core.decide import ComputeStep
from medusa_core.decisions import DecisionReason
from medusa_core.digest import Digest
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import FragmentKnowledge, InputKnowledge, OutputKnowledge
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.network import Network
from medusa_core.reads import reads_of
from medusa_core.segments import Producer, Segment, Stability
from pipelines.language.check import check_network, fragments_for
from pipelines.spark.results import StepResult
from pipelines.spark.step import StepEngine
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import new_attempt, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND_US = 1_000_000
WIDTH_US = 10 * SECOND_US
ALPHA = Producer(Participant("alpha"))
PLAN = PlanId("0" * 32)
Found = Mapping[str, Mapping[int, Digest]]


@dataclass
class Answering:
    """One fragment, an engine for it, and the segments that have come of its inputs."""

    spark: SparkSession
    root: Path
    network: Network
    came: dict[StreamName, tuple[Segment, ...]] = field(default_factory=dict)
    tentative_us: int | None = None

    def __post_init__(self) -> None:
        self.checked = check_network(self.network)
        (self.fragment,) = fragments_for(self.checked)
        self.engine = self.new_engine()
        self._versions = count(1)

    def new_engine(self) -> StepEngine:
        """An engine that remembers nothing, as after a restart."""
        return StepEngine(self.spark, self.root, self.checked)

    def comes(
        self, stream: str, records: pa.Table, part: Range, stability: Stability = Stability.STABLE
    ) -> None:
        """The records of a range arrive as one segment; their first column is event time."""
        name = StreamName(stream)
        at = records.column(0).to_numpy()
        inside = pa.array((at >= part.from_us) & (at < part.to_us))
        records = records.filter(inside).sort_by(records.column_names[0])
        at = records.column(0).to_numpy().astype(np.int64)
        port = next(p for p, s in self.fragment.inputs.items() if s == name)
        columns = self.checked.columns[port]
        table = pa.table(
            [*records.columns, pa.array(at), pa.array(at - at % WIDTH_US)],
            names=[*records.column_names, STIME, BUCKET],
        ).cast(file_schema(columns))
        files = (write_file(self.root, name, new_attempt(), table),) if table.num_rows else ()
        segment = Segment(
            stream=name,
            producer=ALPHA,
            range=part,
            stability=stability,
            version=Version(next(self._versions)),
            plan=PLAN,
            buckets=digests_by_bucket(table, columns, table[BUCKET].to_numpy()),
            files=files,
            missing=("something",) if stability is Stability.TENTATIVE else (),
        )
        kept = [s for s in self.came.get(name, ()) if not s.range.overlaps(part)]
        self.came[name] = tuple(sorted([*kept, segment], key=lambda s: s.range))

    def known(self) -> FragmentKnowledge:
        """What is known now."""

        def an_input(name: StreamName) -> InputKnowledge:
            segments = self.came.get(name, ())
            return InputKnowledge(
                stream=name, width_us=WIDTH_US, origin_us=0, end_us=None, segments=segments,
                boundary_us=segments[-1].range.to_us if segments else 0,
                known_through_us=FOREVER_US,
            )  # fmt: skip

        return FragmentKnowledge(
            fragment=self.fragment, plan=PLAN, producer=ALPHA, epoch=Epoch(1), partition=0,
            inputs={name: an_input(name) for name in self.fragment.inputs.values()},
            outputs={
                name: OutputKnowledge(stream=name, width_us=WIDTH_US, boundary_us=0,
                                      tentative_us=self.tentative_us)
                for name in self.fragment.outputs
            },
        )  # fmt: skip

    def step(self, part: Range, cause: Cause) -> ComputeStep:
        """A step of that cause over what has come."""
        known, is_answer = self.known(), cause is Cause.TENTATIVE
        outputs = tuple(self.fragment.outputs)
        return ComputeStep(
            fragment=known, range=part, outputs=outputs,
            reads=tuple(reads_of(known, outputs, part, keeps_content=is_answer)),
            stability=Stability.TENTATIVE if is_answer else Stability.STABLE,
            cause=cause, ends=False, because=DecisionReason("asked for", {}),
            missing=(StreamName("something"),) if is_answer else (),
        )  # fmt: skip

    def answer(self, part: Range) -> StepResult:
        """An answer with what has come."""
        made = self.engine.compute(self.step(part, Cause.TENTATIVE))
        if self.tentative_us is None:
            self.tentative_us = part.from_us
        return made

    def correction(self, part: Range) -> StepResult:
        """The correction of answers in a range."""
        return self.engine.compute(self.step(part, Cause.CORRECTION))

    def in_full(self, part: Range) -> StepResult:
        """The same range from the records alone, by an engine that knows of no answers."""
        return self.new_engine().compute(self.step(part, Cause.NORMAL))


def found(result: StepResult) -> Found:
    """Output -> bucket -> digest."""
    return {w.stream: dict(w.buckets) for w in result.written}


def pane_files(root: Path) -> Sequence[Path]:
    """All that answers have left."""
    return sorted(path for path in (root / "_panes").rglob("*") if path.is_file())
