"""A participant in an overload, in virtual time: the product's driver, catalog and decisions.

Only the engine is a model: a step takes a fixed time and a time per record, and its rows are
digests that follow from what it reads. So a run is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from medusa_core.commits import Cause, Commit, LeaseKey, OutputSegment, StepMetrics
from medusa_core.decide import ComputeStep
from medusa_core.digest import Digest, sum_of
from medusa_core.drops.utility import Qos
from medusa_core.fragments import fragments_of, landing_fragment
from medusa_core.grid import Range
from medusa_core.knowledge import Limits
from medusa_core.names import Epoch, NetworkName, Participant, StreamName
from medusa_core.network import Network, Port
from medusa_core.plans import Plan
from medusa_core.reads import records_of
from medusa_core.segments import Producer, SegmentFile, Stability
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import Store
from pipelines.catalog.records import Assignment, Deployment, StreamRecord
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.language.check import CheckedNetwork
from pipelines.participant.assigned_plans import AssignedPlan, leases_needed, newest_assignments
from pipelines.participant.driver import Driver
from pipelines.spark.results import StepResult, Written

SOLO = Participant("solo")
LEASE_MS = 10**9
ROWS = 5
"""Of each window that has a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What the model of the engine takes."""

    step_ms: int = 20
    record_us: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A bucket as it was committed; `is_dropped`: without a row, on purpose."""

    stream: str
    bucket_us: int
    at_ms: int
    stability: Stability
    is_dropped: bool
    digest: Digest | None


@dataclass
class Clock:
    """Virtual time."""

    now_ms: int = 0


@dataclass
class ModelledHome:
    """One home with one network; `records` says how many records a bucket of a source has."""

    network: Network
    width_us: int
    qos: Mapping[str, Qos]
    records: Callable[[int], int]
    costs: Costs = field(default_factory=Costs)
    capacity: float = 1.0
    answers: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.catalog = MemoryCatalog(SOLO, self.clock, Store(self.clock))
        self._deploy()
        for stream, qos in self.qos.items():
            self.catalog.declare_qos(StreamName(stream), qos)
        self._leases = LeaseRenewer(self.catalog, "driver", lease_ms=LEASE_MS)
        self._leases.take(leases_needed(newest_assignments(self.catalog, SOLO)))
        self._closed = dict.fromkeys((s.stream_name for s in self.network.sources), 0)
        self.driver = self._driver()

    def _deploy(self) -> None:
        fragments = fragments_of(self.network)
        sources = tuple(s.stream_name for s in self.network.sources)
        streams = [*sources, *(s for f in fragments for s in f.outputs)]
        self.plan = Plan(
            network=self.network,
            widths_us=dict.fromkeys(streams, self.width_us),
            function_sources={},
            engine={"engine": "modelled"},
        )
        landings = {landing_fragment(s): ((), (s,)) for s in sources}
        wired = {f.id: (f.input_streams, tuple(f.outputs)) for f in fragments}
        self.catalog.deploy(
            Deployment(
                network=NetworkName(self.network.name),
                document=self.plan.document,
                plan=self.plan.id,
                plan_document=self.plan.document,
                streams=tuple(
                    StreamRecord(
                        name=s,
                        kind="source" if s in sources else "derived",
                        width_us=self.width_us,
                        columns={"row": "bigint"},
                    )
                    for s in streams
                ),
                fragments=landings | wired,
                assignments=tuple(
                    Assignment(
                        fragment=f, producer=Producer(SOLO), epoch=Epoch(1), plan=self.plan.id
                    )
                    for f in landings | wired
                ),
            )
        )
        self._fragments = fragments

    def _driver(self) -> Driver:
        engine = _Engine(self)
        return Driver(
            catalog=self.catalog,
            assigned_plan=AssignedPlan(
                plan=self.plan,
                checked=CheckedNetwork(
                    network=self.network,
                    columns={Port(str(s)): () for s in self._closed},
                    boxes={},
                ),
                fragments=self._fragments,
            ),
            closer=engine,
            leases=self._leases,
            engine=lambda: engine,
            limits=Limits(capacity=self.capacity, records_per_step_max=10**9),
        )

    def run(self, until_ms: int, *, is_done: Callable[[], bool] = lambda: False) -> None:
        """Let sources come and the driver work, until a time or until it is done."""
        while self.clock.now_ms < until_ms and not is_done():
            self._close()
            applied = self.driver.attempt().applied
            for one in applied:
                self._note(one.commit, one.committed.committed_at_ms)
            if not applied:
                width_ms = self.width_us // 1_000
                self.clock.now_ms += width_ms - self.clock.now_ms % width_ms

    def _close(self) -> None:
        """Close the buckets of the sources that are over."""
        now_us = self.clock.now_ms * 1_000
        for stream, from_us in self._closed.items():
            to_us = now_us - now_us % self.width_us
            if to_us <= from_us:
                continue
            starts = range(from_us, to_us, self.width_us)
            counts = {at: self.records(at) for at in starts}
            buckets = {at: Digest(n, n * at + 1, n * at + 2) for at, n in counts.items() if n}
            key = LeaseKey(fragment=landing_fragment(stream), producer=Producer(SOLO))
            for at in starts:
                part = Range(at, at + self.width_us)
                own = {at: buckets[at]} if at in buckets else {}
                segment = OutputSegment(
                    stream=stream,
                    range=part,
                    stability=Stability.STABLE,
                    buckets=own,
                    files=a_file(own.values()),
                    # It came when it was over, however late the loop is.
                    fresh_ms=part.to_us // 1_000,
                )
                self.catalog.commit(
                    Commit(
                        lease=self._leases.lease(key),
                        plan=self.plan.id,
                        cause=Cause.LANDING,
                        segments=(segment,),
                    )
                )
            self._closed[stream] = to_us

    def _note(self, commit: Commit, at_ms: int) -> None:
        is_dropped = any(read.drop_rate == 1 for read in commit.lineage)
        for segment in commit.segments:
            for at in range(segment.range.from_us, segment.range.to_us, self.width_us):
                self.answers.append(
                    Answer(
                        stream=segment.stream,
                        bucket_us=at,
                        at_ms=at_ms,
                        stability=segment.stability,
                        is_dropped=is_dropped,
                        digest=segment.buckets.get(at),
                    )
                )

    def final(self, stream: str) -> dict[int, Digest]:
        """Bucket start -> digest of what is stable."""
        segments = self.catalog.segments(StreamName(stream))
        return {
            at: digest
            for segment in segments
            if segment.stability is Stability.STABLE
            for at, digest in segment.buckets.items()
        }

    def is_all_final(self) -> bool:
        """Whether nothing is tentative."""
        streams = [s for f in self._fragments for s in f.outputs]
        return all(s.stability.is_final for name in streams for s in self.catalog.segments(name))


_NUMBERS = count(1)


def a_file(digests: Iterable[Digest]) -> tuple[SegmentFile, ...]:
    """A file that nobody reads, if there are rows."""
    rows = sum(digest.rows for digest in digests)
    if not rows:
        return ()
    return (SegmentFile(path=f"rows/{next(_NUMBERS)}", size_bytes=1, sha256="ab", rows=rows),)


class _Engine:
    """The model: a step takes time, and its rows follow from what it reads."""

    def __init__(self, home: ModelledHome) -> None:
        self._home = home

    def compute(self, step: ComputeStep) -> StepResult:
        """See `Engine.compute`."""
        costs, known = self._home.costs, step.fragment
        records = records_of(known, step.outputs, step.range)
        took_ms = costs.step_ms + records * costs.record_us // 1_000
        self._home.clock.now_ms += took_ms
        written = tuple(self._written(step, output) for output in step.outputs)
        metrics = StepMetrics(records_in=records, phases_ms={"spark": float(took_ms)})
        return StepResult(written=written, quarantine=(), metrics=metrics)

    def _written(self, step: ComputeStep, output: StreamName) -> Written:
        known, width_us = step.fragment, self._home.width_us
        buckets: dict[int, Digest] = {}
        for at in range(step.range.from_us, step.range.to_us, width_us):
            read = [
                digest
                for name, part in known.fragment.needed(output, Range(at, at + width_us)).items()
                for segment in known.inputs[name].overlapping(part)
                for digest in segment.within(part).values()
            ]
            if read:
                total = sum_of(read)
                buckets[at] = Digest(ROWS, total.sum_a + at, total.sum_b + at)
        return Written(stream=output, files=a_file(buckets.values()), buckets=buckets)

    def compute_together(
        self, steps: Sequence[ComputeStep]
    ) -> Iterator[list[tuple[ComputeStep, StepResult]]]:
        """See `Engine.compute_together`."""
        for step in steps:
            yield [(step, self.compute(step))]

    def check_deterministic(self, step: ComputeStep, result: StepResult) -> None:
        """There are no Functions."""

    def close(self, closing: object) -> Commit:
        """Sources are closed by the home itself."""
        raise AssertionError("nothing has landed")

    def close_together(self, closings: Sequence[object]) -> list[Commit]:
        """See `close`."""
        raise AssertionError("nothing has landed")
