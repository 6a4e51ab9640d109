"""A drawn network through every mode that a step can take, each compared with DuckDB.

A mode changes how a step is run and nothing of what comes out. `Trial` runs one network; what was
taken is counted, so that the test can tell that each mode was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from medusa_core.commits import Cause
from medusa_core.decide import ComputeStep
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.plans import network_document
from pipelines.spark import job, step
from pipelines.spark.execution_mode import ExecutionMode
from pipelines.spark.results import StepResult
from tests.spark.drawn.oracle import Expected, Oracle
from tests.spark.drawn.records import PIECES_S, SECOND_US, Piece, pieces
from tests.spark.drawn.spec import (
    BUCKET_S,
    LATER,
    Aggregate,
    Drawn,
    Join,
    Rank,
    Session,
    drawn,
    medusa_network,
    of_member,
)
from tests.spark.drawn.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA_SETS = 12
MEMBERS = ("", "_2")


@dataclass(frozen=True)
class Anew:
    """A kind of plan that is made for one step; `in_tasks`: its tasks write what comes out."""

    name: str
    mode: ExecutionMode
    in_tasks: bool = False


@dataclass
class Trial:
    """One drawn network, its records, and what DuckDB expects of its members.

    Only `together` needs the second member, the same network in fragments of its own. `steps` is
    how many pieces of the records arrive, each of which is a step; an even number for corrections.
    """

    spark: SparkSession
    oracle: Oracle
    root: Path
    seed: int
    parts: int = 1
    has_two: bool = False
    is_thorough: bool = False
    steps: int = len(PIECES_S)
    taken: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.net: Drawn = drawn(self.seed, self.parts)
        self.members = MEMBERS if self.has_two and not self.net.has_function else MEMBERS[:1]
        self.pieces = {
            m: pieces((self.seed + 5 * at) % DATA_SETS, self.net.sources)[: self.steps]
            for at, m in enumerate(self.members)
        }
        self.whole = {m: self._expected(ps) for m, ps in self.pieces.items()}
        sizes_s = sum(b.size_s for b in self.net.boxes if isinstance(b, Aggregate | Rank))
        joins = [b for b in self.net.boxes if isinstance(b, Join)]
        sizes_s += sum(abs(us) for b in joins for us in b.within) // SECOND_US
        sizes_s += sum(b.gap_us // SECOND_US + 1 for b in self.net.boxes if isinstance(b, Session))
        # The last step goes on until every window has ended, and no pair is to come.
        *ranges, last = [p.range for p in self.pieces[""]]
        ends_us = last.to_us + (sizes_s // BUCKET_S + 2) * BUCKET_S * SECOND_US
        self.ranges = [*ranges, Range(last.from_us, ends_us)]

    def _expected(self, pieces: Sequence[Piece], but: str | None = None) -> Expected:
        tables = {
            s: pa.concat_tables([p.records[s].slice(0, 0 if s == but else None) for p in pieces])
            for s in self.net.sources
        }
        return self.oracle.expected(self.net, tables)

    @property
    def id(self) -> str:
        """What a failure says of the networks."""
        boxes = network_document(medusa_network(self.net))["boxes"]
        lines = [f"{self.parts} networks of seed {self.seed}, outputs {self.net.outputs}:"]
        return "\n".join([*lines, *(json.dumps(box) for box in boxes)])

    def world(self) -> World:
        """The network's own files and engine, before anything has come."""
        return World(self.spark, self.root, medusa_network(self.net, self.members))

    # modes

    def one_after_the_other(self, world: World, mode: str, cause: Cause = Cause.NORMAL) -> None:
        """Every step in order, the pieces arriving one by one."""
        for at in range(len(self.ranges)):
            self.next_step(world, at, mode, cause)

    def next_step(
        self, world: World, at: int, mode: str, cause: Cause = Cause.NORMAL
    ) -> None:  # fmt: skip
        """The step of that number of every fragment, once its piece has arrived."""
        self.arrives(world, "", at)
        for fragment in self.fragments(world, ""):
            self.run(world, world.step(fragment, self.ranges[at], cause), mode, "")

    def anew(self, *plans: Anew) -> None:
        """Steps whose plan is made for them alone, of these kinds in turn."""
        world = self.world()
        for at in range(len(self.ranges)):
            plan = plans[at % len(plans)]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(step, "mode_of", lambda *_, mode=plan.mode: mode)
                if plan.in_tasks:
                    patch.setattr(job, "RESULT_ROWS_IN_DRIVER_MAX", -1)
                self.next_step(world, at, plan.name)

    def together(self, world: World) -> None:
        """The steps of both members in one job."""
        for at, part in enumerate(self.ranges):
            for member in self.members:
                self.arrives(world, member, at)
            for pair in zip(*(self.fragments(world, m) for m in self.members), strict=True):
                steps = [world.step(f, part) for f in pair]
                member_of = {id(s): m for s, m in zip(steps, self.members, strict=True)}
                shared = 0
                for batch in world.engine.compute_together(steps):
                    shared += len(batch) > 1
                    for one, result in batch:
                        world.written(one, result)
                        self.compare(world, one, result, "together", member_of[id(one)])
                self.taken["together"] += shared

    def answers_and_corrections(self, world: World) -> None:
        """Answers without one source, then corrections with it, each over the range of two."""
        missing = Random(self.seed).choice(self.net.sources)
        partial = self._expected(self.pieces[""], but=missing)
        for at, part in enumerate(self.ranges):
            self.arrives(world, "", at, but=missing)
            for fragment in self.fragments(world, ""):
                answer = world.step(fragment, part, Cause.TENTATIVE)
                self.run(world, answer, "answer", "", partial)
            world.tentative_us = self.ranges[0].from_us
        for at in range(len(self.ranges)):
            self.arrives(world, "", at, only=missing)
        pairs = zip(self.ranges[::2], self.ranges[1::2], strict=True)
        corrected = [Range(first.from_us, second.to_us) for first, second in pairs]
        for part in corrected:
            for fragment in self.fragments(world, ""):
                correction = world.step(fragment, part, Cause.CORRECTION)
                self.run(world, correction, "correction", "")

    # parts of them

    def fragments(self, world: World, member: str) -> Iterator[Fragment]:
        """The fragments of a member, each after those that it reads."""
        names = (f"main{member}", f"{LATER}{member}")
        return (f for f in world.fragments if f.name in names)

    def arrives(self, world: World, member: str, at: int, *, but: str = "", only: str = "") -> None:
        """The piece of that number of every source of a member."""
        for source in self.net.sources:
            if source == but or only not in ("", source):
                continue
            piece, files = self.pieces[member][at], 1 + (self.seed + at) % 2
            world.comes(f"{source}{member}", piece.records[source], piece.range, files=files)

    def run(
        self, world: World, step: ComputeStep, mode: str, member: str, like: Expected | None = None
    ) -> None:
        """Compute a step, compare what it gave, and hand it to the fragments behind."""
        result = world.engine.compute(step)
        self.compare(world, step, result, mode, member, like)
        world.written(step, result)
        records, read = world.records_of(step), result.metrics.records_in
        if read < records:
            by = "an answer" if step.cause is Cause.CORRECTION else "the step before"
            self.taken[f"panes of {by}"] += 1
        if result.verified is not None:
            assert result.verified.difference is None, f"{result.verified.sentence}\n{self.id}"
            self.taken["verified"] += 1

    def compare(
        self, world: World, step: ComputeStep, result: StepResult, mode: str, member: str,
        like: Expected | None = None,
    ) -> None:  # fmt: skip
        """Fail unless a step gave the rows and quarantined the records that DuckDB says."""
        expected = like or self.whole[member]
        fragment, part = step.fragment.fragment, step.range
        for stream, rows in world.rows_of(result):
            port = fragment.outputs[stream]
            # A Filter with one port is named by itself in drawn networks.
            names = (str(port), port.owner)
            (ref,) = (r for r in expected.rows if of_member(r, member) in names)
            same = expected.of(ref, part.from_us, part.to_us)
            assert rows == same, self._difference(mode, f"stream {stream}", part, rows, same)
        boxes = [b.name.removesuffix(member) for b in fragment.boxes]
        failed = world.failed_of(result, member)
        same_failed = expected.failed_in(boxes, part.from_us, part.to_us)
        assert failed == same_failed, self._difference(
            mode, f"quarantine of {fragment.name}", part, failed, same_failed
        )

    def _difference(
        self, mode: str, what: str, part: Range, found: Counter, same: Counter
    ) -> str:  # fmt: skip
        more, fewer = list((found - same).elements()), list((same - found).elements())
        return (
            f"{mode}: {what} over {part} has {found.total()} rows and {same.total()} by DuckDB\n"
            f"only here: {more[:4]}\nonly by DuckDB: {fewer[:4]}\n{self.id}"
        )
