"""Steps of a drawn network without a catalog: real files, a real engine, knowledge made by hand.

Steps are compared by what they wrote and quarantined; the files are read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.commits import Cause
from medusa_core.decide import ComputeStep
from medusa_core.decisions import DecisionReason
from medusa_core.digest import sum_of
from medusa_core.fragments import Fragment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import FragmentKnowledge, InputKnowledge, OutputKnowledge
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.network import Network
from medusa_core.reads import reads_of
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from pipelines.language.check import check_network
from pipelines.spark.deployment import fragments_for
from pipelines.spark.inputs import input_records
from pipelines.spark.results import StepResult
from pipelines.spark.step import StepEngine
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import new_attempt, write_file
from tests.spark.drawn.oracle import Failed, Row, normalised
from tests.spark.drawn.records import FIRST_S, SECOND_US
from tests.spark.drawn.spec import BUCKET_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDTH_US = BUCKET_S * SECOND_US
SOMEBODY = Producer(Participant("somebody"))
PLAN = PlanId("0" * 32)


@dataclass
class World:
    """The fragments of one network, their engine, and the segments of every stream so far."""

    spark: SparkSession
    root: Path
    network: Network
    came: dict[StreamName, list[Segment]] = field(default_factory=dict)
    tentative_us: int | None = None

    def __post_init__(self) -> None:
        self.checked = check_network(self.network)
        self.fragments: tuple[Fragment, ...] = fragments_for(self.checked)
        self.engine = StepEngine(self.spark, self.root, self.checked)
        self.columns = {
            stream: self.checked.columns[port]
            for f in self.fragments
            for stream, port in f.outputs.items()
        }
        self._versions = count(1)

    # what comes

    def comes(self, stream: str, records: pa.Table, part: Range, *, files: int = 1) -> None:
        """The records of a range of a source arrive as one segment in so many files."""
        source = self.network.source(stream)
        columns = tuple(c for p, cs in self.checked.columns.items() if p.owner == source.name
                        for c in cs)  # fmt: skip
        at = records[STIME].to_numpy().astype(np.int64)
        table = records.append_column(BUCKET, pa.array(at - at % WIDTH_US)).cast(
            file_schema(columns)
        )
        cut = table.num_rows // 2 if files > 1 else 0
        pieces = [p for p in (table.slice(0, cut), table.slice(cut)) if p.num_rows]
        written = tuple(write_file(self.root, StreamName(stream), new_attempt(), p) for p in pieces)
        digests = digests_by_bucket(table, columns, table[BUCKET].to_numpy())
        self._add(stream, part, Stability.STABLE, written, digests)

    def _add(self, stream: str, part: Range, stability: Stability,
             files: tuple[SegmentFile, ...], buckets: Mapping[int, object]) -> None:  # fmt: skip
        segment = Segment(
            stream=StreamName(stream), producer=SOMEBODY, range=part, stability=stability,
            version=Version(next(self._versions)), plan=PLAN, buckets=dict(buckets), files=files,
            missing=() if stability.is_final else ("something",),
        )  # fmt: skip
        live = [s for s in self.came.get(segment.stream, ()) if not s.range.overlaps(part)]
        self.came[segment.stream] = sorted([*live, segment], key=lambda s: s.range)

    def written(self, step: ComputeStep, result: StepResult) -> None:
        """What a step wrote is there for the fragments behind it."""
        for one in result.written:
            self._add(one.stream, step.range, step.stability, one.files, one.buckets)

    # steps

    def step(self, fragment: Fragment, part: Range, cause: Cause = Cause.NORMAL) -> ComputeStep:
        """A step over what has come; a tentative one says that something is missing."""
        known, is_answer = self._known(fragment), cause is Cause.TENTATIVE
        outputs = tuple(fragment.outputs)
        return ComputeStep(
            fragment=known, range=part, outputs=outputs,
            reads=tuple(reads_of(known, outputs, part, keeps_content=is_answer)),
            stability=Stability.TENTATIVE if is_answer else Stability.STABLE,
            cause=cause, ends=False, because=DecisionReason("drawn", {}),
            missing=(StreamName("something"),) if is_answer else (),
        )  # fmt: skip

    def _known(self, fragment: Fragment) -> FragmentKnowledge:
        def an_input(name: StreamName) -> InputKnowledge:
            segments = tuple(self.came.get(name, ()))
            return InputKnowledge(
                stream=name, width_us=WIDTH_US, origin_us=FIRST_S * SECOND_US, end_us=None,
                segments=segments, known_through_us=FOREVER_US,
                boundary_us=segments[-1].range.to_us if segments else FIRST_S * SECOND_US,
            )  # fmt: skip

        return FragmentKnowledge(
            fragment=fragment, plan=PLAN, producer=SOMEBODY, epoch=Epoch(1), partition=0,
            inputs={name: an_input(name) for name in fragment.inputs.values()},
            outputs={
                name: OutputKnowledge(stream=name, width_us=WIDTH_US, boundary_us=0,
                                      tentative_us=self.tentative_us)
                for name in fragment.outputs
            },
        )  # fmt: skip

    def records_of(self, step: ComputeStep) -> int:
        """How many records a step reads if panes stand for none of them."""
        by_stream = {s: p for p, s in step.fragment.fragment.inputs.items()}
        return sum(
            input_records(
                name, self.checked.columns[by_stream[name]], known.segments, step.reads
            ).rows
            for name, known in step.fragment.inputs.items()
        )

    # what came out

    def rows_of(self, result: StepResult) -> Iterator[tuple[StreamName, Counter[Row]]]:
        """The rows of every output as they lie in the files, which digests must count."""
        for one in result.written:
            schema = file_schema(self.columns[one.stream])
            tables = [pq.read_table(self.root / f.path).cast(schema) for f in one.files]
            table = pa.concat_tables(tables) if tables else schema.empty_table()
            assert sum_of(one.buckets.values()).rows == table.num_rows
            again = digests_by_bucket(table, self.columns[one.stream], table[BUCKET].to_numpy())
            assert again == dict(one.buckets)
            yield one.stream, Counter(normalised(table.drop_columns([BUCKET])))

    def failed_of(self, result: StepResult, member: str = "") -> Counter[Failed]:
        """What was quarantined: box, expression, reason, outputs without it, event time.

        Names are without the suffix of a member.
        """
        return Counter(
            (
                q.origin.removeprefix("box ").removesuffix(member),
                q.field,
                q.reason.replace(f"{member}: ", ": "),
                frozenset(output.removesuffix(member) for output in q.outputs),
                q.position or 0,
            )
            for q in result.quarantine
        )
