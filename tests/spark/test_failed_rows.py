"""Failed rows of chains of windows: what is in quarantine does not depend on the cut into steps.

One step over everything is the reference. The records, windows and outputs are drawn; steps are
runs of buckets for all outputs or for some of them, of any cause, through prepared jobs and through
plans made for one step.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from medusa_core.columns import Column
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.network import Aggregate, Box, Filter, Map, Network, Output, Source
from medusa_core.reads import reads_of
from pipelines.spark import step as step_module
from pipelines.spark.execution_mode import ExecutionMode
from pipelines.storage.arrow_schema import record_schema
from tests.conftest import folder_on_memory
from tests.spark.drawn.world import World
from tests.sweeps import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
S = 1_000_000
BUCKETS = 12
LAST_RECORD_S = 60
"""Four windows of at most 15 s later every row is in an output."""

BIG = 2**62
WINDOWS_S = ((5, 5), (20, 20), (7, 7), (15, 5), (12, 8), (10, 10))
Entry = tuple[str, str, str | None, int | None, str]


@pytest.fixture
def root() -> Iterator[Path]:
    folder = folder_on_memory("medusa-failed-rows-")
    yield folder
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Steps:
    """A cut at starts of buckets; each run is computed for some outputs, then for the others."""

    cuts: Sequence[int]
    apart: Sequence[frozenset[str]]
    causes: Sequence[Cause]


WHOLE = Steps((), (frozenset(),), (Cause.NORMAL,))
BY_BUCKET = Steps(tuple(range(1, BUCKETS)), (frozenset(),) * BUCKETS, (Cause.NORMAL,) * BUCKETS)


def windows(name: str, input_: str, size_s: int, advance_s: int) -> Aggregate:
    return Aggregate(
        name=name, input=input_, size=f"{size_s}s", advance=f"{advance_s}s",
        columns={"n": "sum(n)"},
    )  # fmt: skip


def a_network(boxes: Sequence[Box], outputs: Sequence[str]) -> Network:
    columns = {"at_us": "bigint", "n": "bigint"}
    return Network(
        name="chain",
        sources=(Source(name="readings", columns=columns, time="at_us"),),
        boxes=tuple(boxes),
        outputs=tuple(Output(name=f"out{n}", input=name) for n, name in enumerate(outputs)),
        bucket="10s",
    )  # fmt: skip


class Chain:
    """A network, its records, and one engine for every cut."""

    def __init__(
        self, spark: SparkSession, root: Path, network: Network, readings: Sequence[tuple[int, int]]
    ) -> None:
        self.world = World(spark, root, network)
        (self.fragment,) = self.world.fragments
        schema = record_schema([Column("at_us", "bigint"), Column("n", "bigint")])
        rows = sorted((at_us, n, at_us) for at_us, n in readings)
        table = pa.Table.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
        )
        self.world.comes("readings", table, Range(0, BUCKETS * 10 * S))

    def quarantine(self, steps: Steps) -> Counter[Entry]:
        """What all steps report together."""
        found: Counter[Entry] = Counter()
        ends = [0, *(cut * 10 * S for cut in steps.cuts), BUCKETS * 10 * S]
        parts = (Range(*ends) for ends in pairwise(ends))
        for part, apart, cause in zip(parts, steps.apart, steps.causes, strict=False):
            whole = self.world.step(self.fragment, part, cause)
            for outputs in (
                tuple(o for o in whole.outputs if o in apart),
                tuple(o for o in whole.outputs if o not in apart),
            ):
                if outputs:
                    reads = tuple(reads_of(whole.fragment, outputs, part))
                    one = replace(whole, outputs=outputs, reads=reads)
                    result = self.world.engine.compute(one)
                    found.update(
                        (q.stream, q.origin, q.field, q.position, q.content)
                        for q in result.quarantine
                    )
        return found


@pytest.mark.long
def test_a_window_that_fails_is_reported_although_only_a_later_step_needs_it(
    spark: SparkSession, root: Path
) -> None:
    """The window [15 s, 25 s) fails; the step over [20 s, 30 s) has no row of `outer`."""
    boxes = (windows("inner", "readings", 10, 5), windows("outer", "inner", 20, 20))
    readings = [(2 * S, 1), (16 * S, BIG), (21 * S, BIG), (37 * S, 1)]
    chain = Chain(spark, root, a_network(boxes, ("outer",)), readings)
    (entry,) = chain.quarantine(BY_BUCKET).elements()
    assert entry[:4] == ("out0", "box inner", "sum(n)", 25 * S - 1)


def test_a_window_of_which_a_step_reads_a_part_is_not_reported_by_it(
    spark: SparkSession, root: Path
) -> None:
    """The sum over [14 s, 21 s) fits; over its records from 20 s on alone it does not.

    The step over [20 s, 30 s) has no row of `outer`, so it reads its own range and no more.
    """
    boxes = (windows("inner", "readings", 7, 7), windows("outer", "inner", 20, 20))
    readings = [(15 * S, -BIG), (20 * S, BIG), (20 * S + 1, BIG)]
    chain = Chain(spark, root, a_network(boxes, ("outer",)), readings)
    steps = replace(BY_BUCKET, causes=(Cause.CORRECTION,) * BUCKETS)
    assert chain.quarantine(steps) == Counter()


@st.composite
def networks(draw: st.DrawFn) -> Network:
    boxes: list[Box] = []
    length = draw(st.integers(2, 4))
    for at in range(length):
        input_ = boxes[-1].name if boxes else "readings"
        kind = draw(st.sampled_from(("windows", "windows", "map", "filter")))
        if kind == "map":
            boxes.append(Map(name=f"box{at}", input=input_, columns={"n": "n + 1"}))
        elif kind == "filter":
            cases = {"high": f"n * 2 > -{BIG}"}
            boxes.append(Filter(name=f"box{at}", input=input_, cases=cases))
        else:
            size_s, advance_s = draw(st.sampled_from(WINDOWS_S))
            boxes.append(windows(f"box{at}", input_, size_s, advance_s))
    names = [box.name for box in boxes]
    others = draw(st.lists(st.sampled_from(names), max_size=2))
    return a_network(boxes, draw(st.permutations([names[-1], *others])))


readings_drawn = st.lists(
    st.tuples(
        st.integers(0, 2 * LAST_RECORD_S - 1).map(lambda half_s: half_s * S // 2),
        st.sampled_from((BIG, BIG, -BIG, 1, 2 * BIG - 1, -2 * BIG)),
    ),
    min_size=4,
    max_size=24,
)


@st.composite
def cuts(draw: st.DrawFn) -> Steps:
    chosen = draw(st.sets(st.integers(1, BUCKETS - 1), min_size=2, max_size=BUCKETS - 1))
    number = len(chosen) + 1
    groups = st.frozensets(st.sampled_from(("out0", "out1", "out2")))
    causes = st.sampled_from((Cause.NORMAL, Cause.CORRECTION))
    return Steps(
        cuts=tuple(sorted(chosen)),
        apart=draw(st.lists(st.just(frozenset()) | groups, min_size=number, max_size=number)),
        causes=draw(st.lists(causes, min_size=number, max_size=number)),
    )


@pytest.mark.long
def test_what_is_in_quarantine_does_not_depend_on_the_cut(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()
    mode_of = step_module.mode_of

    @settings(
        # An example takes seconds: it is not worth its time to look for a smaller one.
        max_examples=examples(4, 24), derandomize=True, phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
    )  # fmt: skip
    @given(network=networks(), readings=readings_drawn, steps=cuts(), is_prepared=st.booleans())
    def check(
        network: Network, readings: list[tuple[int, int]], steps: Steps, is_prepared: bool
    ) -> None:
        mode = mode_of if is_prepared else lambda *_: ExecutionMode.HANDED_OVER
        monkeypatch.setattr(step_module, "mode_of", mode)
        chain = Chain(spark, root / str(next(numbers)), network, readings)
        whole = chain.quarantine(WHOLE)
        assert chain.quarantine(steps) == whole
        if is_prepared:
            assert chain.quarantine(BY_BUCKET) == whole

    check()
