"""A record on which a Map fails is missing from every output behind the Map, and its entry in
quarantine names all of them and the cause: however the step is run, and whether or not an output
uses the column that failed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from medusa_core.columns import Column
from medusa_core.commits import Cause, QuarantinedRecord
from medusa_core.grid import Range
from medusa_core.network import Aggregate, Map, Network, Output, Source
from pipelines.spark import job
from pipelines.spark import step as step_module
from pipelines.spark.execution_mode import ExecutionMode
from pipelines.spark.results import StepResult
from pipelines.storage.arrow_schema import record_schema
from tests.conftest import folder_on_memory
from tests.spark.drawn.world import World
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
S = 1_000_000
PART = Range(0, 30 * S)
COLUMNS = {"at_us": "bigint", "n": "int", "of": "int"}
BIG = 2**31 - 1
READINGS = ((1, 10, 2), (2, 7, 0), (3, BIG, 1), (4, BIG, 0), (12, 9, 3), (13, None, 0))
"""Second, n and of. The second fails on a division; the third on a sum; the fourth on both."""


@pytest.fixture
def root() -> Iterator[Path]:
    folder = folder_on_memory("medusa-failed-outputs-")
    yield folder
    shutil.rmtree(folder)


def a_network(*members: str, windows_apart: bool = False) -> Network:
    """A Map that feeds three outputs, of which one uses each of its columns that can fail."""
    boxes, outputs = [], []
    for m in members:
        windows = f"windows{m}" if windows_apart else f"main{m}"
        boxes += [
            Map(name=f"share{m}", input=f"readings{m}", fragment=f"main{m}",
                columns={"n": "n", "ratio": "n div of", "more": "n + 1"}),
            Map(name=f"ratio{m}", input=f"share{m}", fragment=f"main{m}",
                columns={"ratio": "ratio"}),
            Map(name=f"plain{m}", input=f"share{m}", fragment=f"main{m}", columns={"n": "n"}),
            Aggregate(name=f"count{m}", input=f"share{m}", fragment=windows, size="10s",
                      columns={"records": "count(*)"}),
        ]  # fmt: skip
        # Of the fragments's outputs the one of the windows comes first.
        outputs += [Output(name=f"{name}s{m}", input=f"{name}{m}")
                    for name in ("count", "ratio", "plain")]  # fmt: skip
    return Network(
        name="shares",
        sources=tuple(Source(name=f"readings{m}", columns=COLUMNS, time="at_us") for m in members),
        boxes=tuple(boxes),
        outputs=tuple(outputs),
        bucket="10s",
    )


class Shares:
    """The network over the readings, and what its steps gave."""

    def __init__(self, spark: SparkSession, root: Path, network: Network) -> None:
        self.world = World(spark, root, network)
        self.rows: dict[str, list[tuple[object, ...]]] = {}
        self.quarantine: list[QuarantinedRecord] = []
        schema = record_schema([Column(name, type_) for name, type_ in COLUMNS.items()])
        rows = [(at_s * S, n, of, at_s * S) for at_s, n, of in READINGS]
        table = pa.Table.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
        )
        for source in network.sources:
            self.world.comes(source.name, table, PART)

    def take(self, step: object, result: StepResult) -> None:
        for stream, rows in self.world.rows_of(result):
            self.rows[stream] = sorted(rows.elements(), key=repr)
        self.quarantine += result.quarantine
        self.world.written(step, result)  # type: ignore[arg-type]

    def one_by_one(self, cause: Cause = Cause.NORMAL) -> None:
        for fragment in self.world.fragments:
            step = self.world.step(fragment, PART, cause)
            self.take(step, self.world.engine.compute(step))

    def together(self) -> None:
        steps = [self.world.step(fragment, PART) for fragment in self.world.fragments]
        batches = list(self.world.engine.compute_together(steps))
        assert len(batches) == 1
        for step, result in batches[0]:
            self.take(step, result)

    def check(self, member: str = "", *, first: str = "counts") -> None:
        """By hand: three of the six records are missing everywhere and named once."""
        assert self.rows[f"plains{member}"] == [(10, 1 * S), (9, 12 * S), (None, 13 * S)]
        assert self.rows[f"ratios{member}"] == [(3, 12 * S), (5, 1 * S), (None, 13 * S)]
        assert [row[1:] for row in self.rows[f"counts{member}"]] == [
            (1, 10 * S - 1), (2, 20 * S - 1),
        ]  # fmt: skip
        box = f"share{member}"
        mine = [q for q in self.quarantine if q.origin == f"box {box}"]
        assert [
            (q.position, q.field, q.reason) for q in sorted(mine, key=lambda q: q.position or 0)
        ] == [
            (2 * S, "n div of", f"column ratio of box {box}: division by zero"),
            (3 * S, "n + 1", f"column more of box {box}: overflow"),
            # The first column in the order of the box that fails.
            (4 * S, "n div of", f"column ratio of box {box}: division by zero"),
        ]
        outputs = tuple(f"{name}s{member}" for name in ("count", "ratio", "plain"))
        assert {q.outputs for q in mine} == {outputs}
        assert {q.stream for q in mine} == {f"{first}{member}"}
        assert '"_error"' not in mine[0].content
        assert f'"n":7,"of":0,"_stime":{2 * S}' in mine[0].content


def by_plan(mode: ExecutionMode) -> Callable[..., ExecutionMode]:
    return lambda *_: mode


@pytest.mark.parametrize("mode", list(ExecutionMode))
def test_in_every_mode_of_a_step(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, mode: ExecutionMode
) -> None:
    monkeypatch.setattr(step_module, "mode_of", by_plan(mode))
    shares = Shares(spark, root, a_network(""))
    shares.one_by_one()
    shares.check()


def test_where_tasks_write_the_files(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_module, "mode_of", by_plan(ExecutionMode.HANDED_OVER))
    monkeypatch.setattr(job, "RESULT_ROWS_IN_DRIVER_MAX", -1)
    shares = Shares(spark, root, a_network(""))
    shares.one_by_one()
    shares.check()


def test_in_a_job_that_fragments_share(spark: SparkSession, root: Path) -> None:
    shares = Shares(spark, root, a_network("", "_2"))
    shares.together()
    shares.check()
    shares.check("_2")


def test_the_outputs_of_other_fragments_are_named_too(spark: SparkSession, root: Path) -> None:
    shares = Shares(spark, root, a_network("", windows_apart=True))
    shares.one_by_one()
    shares.check(first="ratios")


@pytest.mark.parametrize(
    "outputs", long_but(1, map(pytest.param, [("plains",), ("ratios",), ("ratios", "plains")]))
)
def test_an_output_lacks_the_record_also_where_the_others_are_not_in_the_network(
    spark: SparkSession, root: Path, outputs: Sequence[str]
) -> None:
    """Which outputs a network has changes what is named, and not what they hold."""
    whole = a_network("")
    kept = [o for o in whole.outputs if o.name in outputs]
    read = {"share", *(output.input for output in kept)}
    network = Network(
        name="shares",
        sources=whole.sources,
        boxes=tuple(b for b in whole.boxes if b.name in read),
        outputs=tuple(kept),
        bucket="10s",
    )
    shares = Shares(spark, root, network)
    shares.one_by_one()
    every = Shares(spark, root / "every", whole)
    every.one_by_one()
    for output in outputs:
        assert shares.rows[output] == every.rows[output]
    assert {q.outputs for q in shares.quarantine} == {tuple(outputs)}
    assert [(q.position, q.reason) for q in shares.quarantine] == [
        (q.position, q.reason) for q in every.quarantine
    ]
