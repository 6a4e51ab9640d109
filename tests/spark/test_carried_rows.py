"""Steps that are given rows in place of earlier records give what one plan over all records gives.

The same records come bucket by bucket to an engine that carries rows on, and all at once to one
that knows of nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.answering import SECOND_US, WIDTH_US, Answering, found
from medusa_core.commits import Cause, QuarantinedRecord
from medusa_core.grid import Range
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Lookup,
    Map,
    Network,
    Output,
    Running,
    Session,
    Source,
    Union,
)
from pipelines.base.settings import Engine
from pipelines.spark import carried_rows, prepared_steps
from pipelines.spark.compiled_fragment import TAG
from pipelines.spark.execution_mode import ExecutionMode
from pipelines.spark.kernel import Kernel, KernelFailed
from pipelines.spark.prepared import PreparedFragment
from pipelines.spark.results import StepResult
from pipelines.storage.arrow_schema import STIME
from tests.spark.conftest import counted_runs
from tests.sweeps import IS_LONG, PART, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
VERIFIES = True
"""Each job over carried rows is compared with the ordinary plan once, as in a run."""

COLUMNS = {"at_us": "bigint", "key": "string", "kind": "int", "value": "int", "real": "double",
           "flag": "boolean", "long": "bigint", "price": "decimal(22,2)", "day": "date",
           "seen_at": "timestamp", "bytes": "binary"}  # fmt: skip
NAMES = ("given", "rates")
FOLDED = {
    "records": "count(*)",
    "number": "count(value)",
    "big": "count(*) filter (where value > 50)",
    "total": "sum(value)",
    "mean": "round(avg(value), 3)",
    "longs": "sum(long)",
    "some_longs": "sum(long) filter (where flag)",
    "mean_long": "round(avg(long), 3)",
    "least": "min(real)",
    "most": "max(value) - min(value)",
    "flagged": "some(flag)",
    "bits": "bit_xor(value)",
    "doubled": "sum(value * 2)",
    "divided": "sum(100 div value)",
    "named": "if(key is null, 'nobody', key)",
    "fails": "1000 div (max(value) - 94)",
}
FEW = {name: FOLDED[name] for name in ("records", "total", "fails")}
"""Each aggregate makes a plan dearer."""

BUCKETS = 14
CUTS = tuple(range(1, BUCKETS)) if IS_LONG else (1, 6, 7)
"""Where steps end: in `make test` some are of one bucket, one is of five, as long as a span."""


def records(seed: int, rows: int = 400, buckets: int = BUCKETS) -> pa.Table:
    """Few values and times, so that many records are equal; NULL and -0.0 are keys."""
    random = np.random.default_rng(seed)
    pick = random.integers
    reals = [0.0, -0.0, 1.5, float("nan"), float("inf"), None]
    at = pick(0, buckets * 10, rows) * SECOND_US + pick(0, 2, rows) * 500_000
    table = pa.table(
        {
            "at_us": pa.array(at),
            "key": pa.array([["a", "b", "c", None][i] for i in pick(0, 4, rows)], pa.string()),
            "kind": pa.array([[1, 2, None][i] for i in pick(0, 3, rows)], pa.int32()),
            "value": pa.array([None if v > 95 else int(v) for v in pick(0, 100, rows)], pa.int32()),
            "real": pa.array([reals[i] for i in pick(0, 6, rows)], pa.float64()),
            "flag": pa.array([[True, False, None][i] for i in pick(0, 3, rows)], pa.bool_()),
            "long": pa.array(pick(-(2**62), 2**62, rows)),
            "price": pa.array(
                [[Decimal("1.50"), None][i] for i in pick(0, 2, rows)], pa.decimal128(22, 2)
            ),
            "day": pa.array([[date(1969, 2, 3), None][i] for i in pick(0, 2, rows)]),
            "seen_at": pa.array(pick(-1, 1, rows), pa.timestamp("us", tz="UTC")),
            "bytes": pa.array([[b"\xff\x00", None][i] for i in pick(0, 2, rows)], pa.binary()),
        }
    )
    return pa.concat_tables([table, table.slice(0, rows // 10)])


def a_network(*boxes: Box, outputs: dict[str, str] | None = None) -> Network:
    read = {ref.partition(".")[0] for box in boxes for ref in _inputs(box)}
    return Network(
        name="carried",
        sources=tuple(Source(name=n, columns=COLUMNS, time="at_us") for n in NAMES if n in read),
        boxes=boxes,
        outputs=tuple(
            Output(name=n, input=i) for n, i in (outputs or {"out": boxes[-1].name}).items()
        ),
    )


def _inputs(box: Box) -> tuple[str, ...]:
    if isinstance(box, Lookup):
        return box.input, box.table
    return box.inputs if isinstance(box, Union) else (box.input,)


class Steps:
    """One network step by step; each step is a bucket or several."""

    def __init__(self, spark: SparkSession, root: Path, network: Network, seed: int = 3) -> None:
        self.world = Answering(spark, root, network)
        self.tables = {s.name: records(seed + at) for at, s in enumerate(network.sources)}
        self.rows: dict[str, dict[int, object]] = {}
        self.quarantine: list[QuarantinedRecord] = []
        self.read: list[int] = []

    def step(self, first: int, end: int, *, is_wrong: str = "") -> StepResult:
        """A step over some buckets; `is_wrong` is the difference that its comparison finds."""
        part = Range(first * WIDTH_US, end * WIDTH_US)
        for name, table in self.tables.items():
            self.world.comes(name, table, part)
        made = self.world.engine.compute(self.world.step(part, Cause.NORMAL))
        found_wrong = made.verified is not None and made.verified.difference
        assert (found_wrong or "") == is_wrong
        for stream, buckets in found(made).items():
            self.rows.setdefault(stream, {}).update(buckets)
        self.quarantine += made.quarantine
        assert all(jobs.is_preparable for jobs in self.world.engine._jobs.values())
        self.read.append(made.metrics.records_in)
        return made

    def all(self, cuts: Iterable[int] = CUTS) -> None:
        for first, end in pairwise([0, *cuts, BUCKETS]):
            self.step(first, end)

    def check(self, buckets: int = BUCKETS) -> None:
        """The rows and the quarantine are those of one step over everything."""
        whole = self.world.in_full(Range(0, buckets * WIDTH_US))
        assert self.rows == {s: dict(b) for s, b in found(whole).items()}
        assert sorted(self.quarantine, key=repr) == sorted(whole.quarantine, key=repr)

    @property
    def records(self) -> int:
        return sum(table.num_rows for table in self.tables.values())


FIRST = Deduplicate(name="first", input="given", by=("key", "kind"), within="50s")
TOTALS = Running(name="totals", input="given", by=("key",), within="50s", columns=FOLDED)
GROUPS = Every(name="groups", input="given", by=("key",), n=5, within="50s", columns=FOLDED)
VISITS = Session(
    name="visits", input="given", by=("key", "kind"), gap="4s", length_max="15s", columns=FOLDED
)
"""Some end for want of records, some are cut, at a multiple too; both in steps without a record of
their keys."""
RATED = Lookup(
    name="rated", input="given", table="rates", on=("key",), max_age="35s",
    columns={"key": "input.key", "value": "input.value", "rate": "table.real", "r": "table.value"},
)  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize(
    "box", long_but(1, [FIRST, VISITS, RATED, TOTALS, GROUPS]), ids=lambda box: box.name
)
def test_rows_in_place_of_earlier_records_give_the_same_and_each_record_is_read_once(
    spark: SparkSession, tmp_path: Path, box: Box
) -> None:
    steps = Steps(spark, tmp_path, a_network(box))
    steps.all()
    steps.check()
    assert sum(steps.read) == steps.records


SEEN = Map(name="seen", input="given", columns={c: c for c in COLUMNS} | {"value": "value + 1"})
BOTH = Union(name="both", inputs=("given", "rates"))
SOME = {name: FOLDED[name] for name in ("records", "total", "longs", "fails", "named")}
UNNAMED = {name: text for name, text in FOLDED.items() if name != "named"}
CHAINS: Mapping[str, tuple[tuple[Box, ...], dict[str, str]]] = {
    "records pass boxes between": (
        (
            SEEN,
            Filter(name="part", input="seen", cases={"yes": "value > 20"}, otherwise="no"),
            replace(FIRST, input="part.yes", within="70s"),
            replace(TOTALS, input="first", columns=SOME),
            replace(GROUPS, input="part.no", columns=SOME, n=3),
        ),
        {"out": "totals", "groups": "groups", "first": "first"},
    ),
    "two inputs in one order": (
        (
            BOTH,
            replace(TOTALS, input="both", by=(), columns=UNNAMED),
            replace(GROUPS, input="both", by=(), n=1, columns=UNNAMED),
        ),
        {"out": "totals", "groups": "groups"},
    ),
    "windows behind": (
        (
            replace(TOTALS, columns={"records": "count(*)", "total": "sum(value)"}),
            Aggregate(name="slid", input="totals", size="40s", advance="20s", group_by=("key",),
                      columns={"most": "max(records)", "n": "count(*)"}),
            Filter(name="many", input="slid", cases={"yes": "n > 1"}),
        ),
        {"out": "many", "totals": "totals"},
    ),
    "a table of totals": (
        (
            replace(TOTALS, input="rates", columns=SOME),
            replace(RATED, table="totals", how="inner",
                    columns={"key": "input.key", "so_far": "table.total"}),
            replace(FIRST, input="rated", by=("key", "so_far"), within="20s"),
        ),
        {"out": "first"},
    ),
    "keys of every type": (
        (
            replace(FIRST, by=("price", "day", "seen_at", "bytes")),
            replace(TOTALS, by=("seen_at", "price"), columns={"x": "max(bytes)", "d": "min(day)"}),
            Lookup(name="newest", input="totals", table="first", on=("bytes", "day"),
                   max_age="35s", columns={"p": "table.price", "s": "table.seen_at",
                                           "k": "table.key", "x": "input.x"}),
        ),
        {"first": "first", "out": "newest"},
    ),
    "a key of doubles": (
        (
            replace(FIRST, by=("real",)),
            replace(TOTALS, by=("real", "flag"), columns={"n": "count(*)"}),
            replace(GROUPS, by=("real",), columns={"n": "min(value)"}, n=2),
            replace(VISITS, by=("real",), columns={"n": "count(*)", "x": "min(real)"}),
        ),
        {"first": "first", "totals": "totals", "groups": "groups", "visits": "visits"},
    ),
    "sessions before and behind": (
        (
            replace(TOTALS, columns={"records": "count(*)"}),
            replace(VISITS, input="totals", by=("key",), gap="2s", length_max="12s",
                    columns={"n": "count(*)", "most": "max(records)",
                             "fails": "10 div (count(*) - 2)"}),
            Running(name="so_far", input="visits", by=("key",), within="60s",
                    columns={"sessions": "count(*)", "so_many": "sum(n)"}),
            Session(name="of_visits", input="so_far", gap="3s", length_max="25s",
                    columns={"n": "count(*)", "so_many": "max(so_many)"}),
        ),
        {"visits": "visits", "out": "so_far", "sessions": "of_visits"},
    ),
    "sessions of all records, and windows behind": (
        (
            replace(VISITS, by=(), gap="500ms", columns={"n": "count(*)"}),
            Aggregate(name="slid", input="visits", size="40s", advance="10s",
                      columns={"most": "max(n)", "sessions": "count(*)"}),
        ),
        {"visits": "visits", "out": "slid"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", long_but(0, sorted(CHAINS)))
def test_boxes_behind_each_other_carry_rows_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Spans end within steps and with them, steps are of several buckets, and files are merged."""
    monkeypatch.setattr(carried_rows, "SINCE_MIN", 2)
    boxes, outputs = CHAINS[name]
    steps = Steps(spark, tmp_path, a_network(*boxes, outputs=outputs))
    steps.all([1, 2, 4, 5, 7, 8, 9, 10, 12, 13])
    steps.check()
    assert sum(steps.read) == steps.records


@pytest.mark.parametrize(
    "box", long_but(0, [FIRST, TOTALS, GROUPS, VISITS, RATED]), ids=lambda box: box.name
)
def test_plans_that_are_made_for_one_step_take_and_leave_rows_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, box: Box
) -> None:
    """They write what they leave in tasks, and prepared jobs continue from it."""
    anew = (ExecutionMode.SCANNED, ExecutionMode.HANDED_OVER, ExecutionMode.PREPARED)
    steps = Steps(spark, tmp_path, a_network(box))
    number = 6
    for at in range(number):
        with monkeypatch.context() as patch:
            patch.setattr("pipelines.spark.step.mode_of", lambda *_, at=at, **__: anew[at % 3])
            if at == 3:
                patch.setattr("pipelines.spark.job.RESULT_ROWS_IN_DRIVER_MAX", -1)
            steps.step(2 * at, 2 * at + 2)
    steps.check(2 * number)
    assert sum(steps.read) == sum(
        _within(table, at) for table in steps.tables.values() for at in range(2 * number)
    )


IN_KERNEL = {name: FOLDED[name] for name in ("records", "big", "total", "least",
                                             "flagged", "bits", "doubled", "named")}  # fmt: skip
FEW_IN_KERNEL = {name: FOLDED[name] for name in ("records", "total")}


@pytest.mark.sweep
@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize(
    "box", long_but(1, [VISITS, RATED, FIRST, TOTALS, GROUPS]), ids=lambda box: box.name
)
def test_kernels_take_and_leave_rows_too(spark: SparkSession, tmp_path: Path, box: Box) -> None:
    """They continue from what prepared jobs have left, and these from what kernels left."""
    if not isinstance(box, Lookup | Deduplicate):
        box = replace(box, columns=IN_KERNEL if IS_LONG else FEW_IN_KERNEL)
    steps = Steps(spark, tmp_path, a_network(box))
    for first, end in pairwise([0, *CUTS, BUCKETS]):
        is_by_kernel = first not in CUTS[1::3]
        spark.conf.set("spark.medusa.engine", Engine.KERNEL if is_by_kernel else Engine.SPARK)
        with counted_runs() as runs:
            steps.step(first, end)
        assert bool(runs) == is_by_kernel
    steps.check()
    assert sum(steps.read) == steps.records


@pytest.mark.long
@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("name", long_but(0, sorted(CHAINS)))
def test_boxes_behind_each_other_carry_rows_on_in_kernels_where_they_have_some(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    boxes, outputs = CHAINS[name]
    steps = Steps(spark, tmp_path, a_network(*boxes, outputs=outputs))
    steps.all([1, 2, 4, 5, 7, 8, 9, 10, 12, 13])
    steps.check()


@pytest.mark.long
@pytest.mark.usefixtures("with_kernels")
def test_a_kernel_that_fails_on_carried_rows_leaves_what_the_ordinary_plan_leaves(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(spark, tmp_path, a_network(replace(TOTALS, columns=FEW_IN_KERNEL)))

    def failing(*_: object) -> pa.Table:
        raise KernelFailed("it is to fail")

    for at in range(5):
        with monkeypatch.context() as patch:
            if at == 2:
                patch.setattr(Kernel, "run", failing)
            steps.step(at, at + 1)
    steps.check(5)
    assert sum(steps.read) == sum(_within(steps.tables["given"], at) for at in range(5))


@pytest.mark.long
def test_a_corrected_bucket_is_read_again(spark: SparkSession, tmp_path: Path) -> None:
    steps = Steps(spark, tmp_path, a_network(FIRST))
    for at in range(3):
        steps.step(at, at + 1)
    steps.world.comes("given", records(8), Range(WIDTH_US, 2 * WIDTH_US))
    corrected = steps.world.correction(Range(WIDTH_US, 3 * WIDTH_US))
    steps.rows["out"] = {0: steps.rows["out"].get(0), **found(corrected)["out"]}
    steps.step(3, 4)
    assert steps.read[3] > steps.read[2], "the bucket has other records than those carried on"
    steps.step(4, 5)
    assert steps.read[4] < steps.read[3]
    steps.check(5)


@pytest.mark.long
def test_a_new_engine_reads_the_span_once_more(spark: SparkSession, tmp_path: Path) -> None:
    steps = Steps(spark, tmp_path, a_network(FIRST))
    for at in range(3):
        steps.step(at, at + 1)
    steps.world.engine = steps.world.new_engine()
    steps.step(3, 4)
    assert steps.read[3] > sum(steps.read[:3])
    steps.step(4, 5)
    assert steps.read[4] < steps.read[3]
    steps.check(5)


@pytest.mark.sweep
def test_a_value_that_is_no_fold_has_its_span_read_at_each_step(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps = Steps(spark, tmp_path, a_network(replace(TOTALS, columns={"x": "first(value)"})))
    steps.all()
    steps.check()
    assert sum(steps.read) > steps.records


@pytest.mark.long
def test_the_last_bucket_of_a_long_span_reads_as_many_records_as_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    buckets = max(100, 1_000 // PART)
    steps = Steps(spark, tmp_path, a_network(replace(TOTALS, within="1d", columns=SOME)))
    steps.tables["given"] = records(3, rows=10 * buckets, buckets=buckets)
    for first, end in pairwise((0, 1, buckets - 2, buckets - 1, buckets)):
        steps.step(first, end)
    own = [_within(steps.tables["given"], at) for at in (0, buckets - 2, buckets - 1)]
    assert [steps.read[0], *steps.read[2:]] == own
    steps.check(buckets)


@pytest.mark.long
def test_a_session_that_stays_open_is_read_once_and_ends_without_a_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    box = replace(VISITS, by=("key",), gap="30s", length_max="1d", columns=SOME)
    steps = Steps(spark, tmp_path, a_network(box))
    steps.all(CUTS)
    assert sum(steps.read) == steps.records
    assert not any(steps.rows["out"].values()), "all sessions are open"
    steps.read.clear()
    for end in (1, 2, 5):
        steps.step(BUCKETS + len(steps.read), BUCKETS + end)
    assert steps.read == [0] * 3
    steps.check(BUCKETS + 5)
    assert any(steps.rows["out"].values())


@pytest.mark.long
def test_a_job_is_compared_also_where_carried_rows_stand_for_many_records(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ordinary plan is given the same carried rows, and what both leave is compared too."""
    monkeypatch.setattr(prepared_steps, "RECORDS_REREAD_FIRST_MAX", 1)
    for box in (TOTALS, FIRST, VISITS):
        steps = Steps(spark, tmp_path / box.name, a_network(box))
        made = [steps.step(at, at + 1) for at in range(3)]
        assert [m.verified.job for m in made if m.verified] == [
            "the prepared job over records", "the prepared job over carried rows"
        ]  # fmt: skip
        steps.check(3)


def without_one(left: pa.Table) -> pa.Table:
    return left.slice(1)


def at_another_time(left: pa.Table) -> pa.Table:
    at = left.schema.get_field_index(STIME)
    return left.set_column(at, STIME, pc.add(left[STIME], 1))


@pytest.mark.parametrize(
    ("spoilt", "says"),
    long_but(
        0,
        [
            (at_another_time, "leaves 4 carried rows where the ordinary plan leaves 4 others"),
            (without_one, "leaves 3 carried rows where the ordinary plan leaves 4"),
        ],
    ),
)
def test_a_job_that_leaves_other_rows_is_found_and_the_fragment_planned_anew(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoilt: Callable[[pa.Table], pa.Table],
    says: str,
) -> None:
    monkeypatch.setattr(prepared_steps, "RECORDS_REREAD_FIRST_MAX", 1)
    steps = Steps(spark, tmp_path, a_network(replace(TOTALS, columns=FEW)))
    steps.step(0, 1)
    run = PreparedFragment.run

    def leaving_others(self: PreparedFragment, *given: object) -> pa.Table:
        tagged = run(self, *given)  # type: ignore[arg-type]
        left = pc.equal(tagged[TAG], 1)
        return pa.concat_tables([tagged.filter(pc.invert(left)), spoilt(tagged.filter(left))])

    monkeypatch.setattr(PreparedFragment, "run", leaving_others)
    steps.step(1, 2, is_wrong=f"box totals {says}")
    monkeypatch.setattr(PreparedFragment, "run", run)
    steps.step(2, 3)
    steps.check(3)


@pytest.mark.long
def test_panes_behind_a_running_are_as_many_as_their_windows_need(
    spark: SparkSession, tmp_path: Path
) -> None:
    boxes = (
        replace(TOTALS, within="1d", columns={"records": "count(*)"}),
        Aggregate(name="slid", input="totals", size="40s", advance="20s", group_by=("key",),
                  columns={"most": "max(records)", "n": "count(*)"}),
    )  # fmt: skip
    steps = Steps(spark, tmp_path, a_network(*boxes))
    steps.all([4, 8])
    steps.check()
    (jobs,) = steps.world.engine._jobs.values()
    assert jobs.panes._panes is not None
    (panes,) = jobs.panes._panes.rows.values()
    assert pc.min(panes["_stime"]).as_py() >= (BUCKETS - 4) * WIDTH_US
    assert sum(steps.read) == steps.records


def _within(table: pa.Table, bucket: int) -> int:
    at = table["at_us"].to_numpy() // WIDTH_US
    return int((at == bucket).sum())


def test_files_of_carried_rows_are_removed_with_the_engine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_rows, "SINCE_MIN", 2)
    folder = Path(spark.conf.get("spark.medusa.scratch") or "")
    before = set(folder.glob("carried-*"))
    steps = Steps(spark, tmp_path, a_network(FIRST))
    for at in range(4):
        steps.step(at, at + 1)
    assert len(set(folder.glob("carried-*")) - before) == 1, "each replaces the one before it"
    del steps
    gc.collect()
    assert set(folder.glob("carried-*")) <= before


@pytest.mark.long
def test_a_full_disk_costs_the_saving_and_not_the_step(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    steps = Steps(spark, tmp_path, a_network(FIRST))
    steps.step(0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(carried_rows, "SINCE_MIN", 0)
        patch.setattr(carried_rows, "_merged", full)
        steps.step(1, 2)
    steps.step(2, 3)
    assert steps.read[2] == sum(_within(steps.tables["given"], at) for at in range(3))
    steps.check(3)
