"""Answers leave panes, and corrections go on from them: the same rows, and nothing read twice."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.answering import SECOND_US, Answering, found, pane_files
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Function,
    Map,
    Network,
    Output,
    Session,
    Source,
    Union,
)
from medusa_core.segments import Stability
from pipelines.language.check import check_network, fragments_for
from pipelines.language.pane_fragments import kept_panes
from pipelines.spark import pane_cache
from pipelines.spark.execution_mode import ExecutionMode
from pipelines.spark.job_verification import Verification
from pipelines.spark.results import StepResult
from pipelines.storage.orphans import GRACE_S, find_orphans
from tests.sweeps import IS_LONG, examples, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
COLUMNS = {"at_us": "bigint", "key": "string", "kind": "string", "value": "int", "real": "double",
           "flag": "boolean", "long": "bigint"}  # fmt: skip
INPUTS = ("left", "middle", "right")
VALUES = {
    "records": "count(*)",
    "given": "count(value)",
    "odd": "count(*) filter (where value % 2 = 1)",
    "total": "sum(value)",
    "mean": "round(avg(value), 3)",
    "least": "min(real)",
    "most": "max(value) - min(value)",
    "flagged": "some(flag)",
    "kinds": "count(distinct kind)",
    "longs": "sum(long)",
    "some_longs": "sum(long) filter (where flag)",
    "mean_long": "round(avg(long), 3)",
}
FEW_VALUES = (
    VALUES if IS_LONG else {name: VALUES[name] for name in ("records", "total", "most", "kinds")}
)
MINUTE = Range(600 * SECOND_US, 660 * SECOND_US)


def seconds(from_s: int, to_s: int) -> Range:
    return Range(from_s * SECOND_US, to_s * SECOND_US)


def records(seed: int, rows: int = 900, from_s: int = 480, to_s: int = 780) -> pa.Table:
    random = np.random.default_rng(seed)
    pick = random.integers
    reals = [0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), None]
    return pa.table(
        {
            "at_us": pa.array(pick(from_s * SECOND_US, to_s * SECOND_US, rows)),
            "key": pa.array([["a", "b", "c", None][i] for i in pick(0, 4, rows)], pa.string()),
            "kind": pa.array([["x", "y", "z", None][i] for i in pick(0, 4, rows)], pa.string()),
            "value": pa.array([None if v > 95 else int(v) for v in pick(0, 100, rows)], pa.int32()),
            "real": pa.array([reals[i] for i in pick(0, 7, rows)], pa.float64()),
            "flag": pa.array([[True, False, None][i] for i in pick(0, 3, rows)], pa.bool_()),
            "long": pa.array(pick(-(2**62), 2**62, rows)),
        }
    )


def a_network(
    *,
    columns: dict[str, str] | None = None,
    advance: str = "60s",
    before: tuple[Box, ...] = (),
    joins: tuple[str, ...] = INPUTS,
    also: tuple[Box, ...] = (),
    outputs: dict[str, str] | None = None,
) -> Network:
    return Network(
        name="joined",
        sources=tuple(Source(name=n, columns=COLUMNS, time="at_us") for n in INPUTS),
        boxes=(
            *before,
            Union(name="gathered", inputs=joins),
            Aggregate(name="per_key", input="gathered", size="60s", advance=advance,
                      group_by=("key",), columns=columns or VALUES),
            Filter(name="some", input="per_key", cases={"yes": "records > 3"}),
            *also,
        ),
        outputs=tuple(
            Output(name=n, input=i) for n, i in (outputs or {"answers": "some"}).items()
        ),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pane_cache, "RECORDS_MIN", 1)
    monkeypatch.setattr(pane_cache, "ROWS_PER_RECORD_MAX", 100.0)
    # As after a warm-up, which takes longer than the answers here.
    monkeypatch.setattr(Verification, "may_answer", True)
    monkeypatch.setattr(Verification, "is_trial_due", False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


class Planned(Answering):
    """A network whose plans serve several tests, also those of the engine that has no panes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.without_panes = self.new_engine()

    def in_full(self, part: Range) -> StepResult:
        return self.without_panes.compute(self.step(part, Cause.NORMAL))


@pytest.fixture(scope="module")
def planned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """The network that most tests are about."""
    network = a_network(columns=FEW_VALUES)
    return Planned(spark, tmp_path_factory.mktemp("planned"), network)


@pytest.fixture
def world(planned: Planned) -> Iterator[Planned]:
    """All inputs but one have come; nothing is left of another test but the plans."""
    engine = planned.engine
    planned.came.clear()
    planned.tentative_us = None
    shutil.rmtree(planned.root / "_panes", ignore_errors=True)
    all_but_one_come(planned, "right")
    yield planned
    planned.engine = engine


def a_failure(
    spark: SparkSession, root: Path, network: Network, missing: str = "right"
) -> Answering:
    """A network of its own of which all inputs but one have come."""
    world = Answering(spark, root, network)
    all_but_one_come(world, missing)
    return world


def all_but_one_come(world: Answering, missing: str) -> None:
    """The records of all windows of the minute."""
    for seed, name in enumerate(INPUTS):
        if name != missing:
            world.comes(name, records(seed), seconds(480, 720))


@pytest.mark.long
def test_a_correction_reads_only_what_was_missing_and_gives_the_same(world: Planned) -> None:
    whole = found(world.in_full(MINUTE))
    assert found(world.answer(MINUTE)) == whole
    world.comes("right", records(9), seconds(480, 720))
    made = world.correction(MINUTE)
    in_full = world.in_full(MINUTE)
    assert found(made) == found(in_full) != whole
    # Sums of bigint that overflow.
    assert made.quarantine == in_full.quarantine
    assert any(record.field == "sum(long)" for record in in_full.quarantine)
    assert made.metrics.records_in == _within(records(9), MINUTE)
    assert in_full.metrics.records_in > 2 * made.metrics.records_in


def _within(table: pa.Table, part: Range) -> int:
    at = table["at_us"].to_numpy()
    return int(((at >= part.from_us) & (at < part.to_us)).sum())


@pytest.mark.long
def test_panes_survive_the_process_that_left_them(world: Planned) -> None:
    world.answer(MINUTE)
    world.engine = world.new_engine()
    world.comes("right", records(9), seconds(480, 720))
    made = world.correction(MINUTE)
    assert made.metrics.records_in == _within(records(9), MINUTE)
    assert found(made) == found(world.in_full(MINUTE))


@pytest.mark.long
def test_sliding_answers_overlap_and_their_correction_counts_nothing_twice(
    spark: SparkSession, root: Path
) -> None:
    world = a_failure(spark, root, a_network(columns=FEW_VALUES, advance="20s"))
    parts = [seconds(600, 640), seconds(640, 660), seconds(660, 720)]
    for part in parts:
        world.answer(part)
    world.comes("right", records(9), seconds(480, 720))
    whole = seconds(600, 720)
    made = world.correction(whole)
    assert found(made) == found(world.in_full(whole))
    assert made.metrics.records_in == _within(records(9), seconds(560, 720))


@pytest.mark.long
def test_several_aggregates_over_one_union_have_panes_each(spark: SparkSession, root: Path) -> None:
    also = (
        Aggregate(name="per_kind", input="gathered", size="20s", group_by=("kind", "flag"),
                  columns={"keys": "count(distinct key)", "most": "max(value)"}),
        Aggregate(name="deeper", input="per_kind", size="60s", advance="20s",
                  columns={"all": "sum(keys)"}),
    )  # fmt: skip
    outputs = {"answers": "some", "kinds": "per_kind", "deep": "deeper"}
    network = a_network(columns=FEW_VALUES, also=also, outputs=outputs)
    world = a_failure(spark, root, network)
    world.answer(MINUTE)
    world.comes("right", records(9), seconds(480, 720))
    made, in_full = world.correction(MINUTE), world.in_full(MINUTE)
    assert found(made) == found(in_full)
    assert made.metrics.records_in < in_full.metrics.records_in / 2


@pytest.mark.long
def test_an_input_that_was_tentative_is_read_again(world: Planned) -> None:
    world.comes("middle", records(7), seconds(480, 720), Stability.TENTATIVE)
    world.answer(MINUTE)
    world.comes("middle", records(8), seconds(480, 720))
    world.comes("right", records(9), seconds(480, 720))
    made = world.correction(MINUTE)
    assert found(made) == found(world.in_full(MINUTE))
    again = _within(records(8), MINUTE) + _within(records(9), MINUTE)
    assert made.metrics.records_in == again


@pytest.mark.long
def test_panes_of_another_content_are_not_used(world: Planned) -> None:
    world.answer(MINUTE)
    world.comes("left", records(99), seconds(480, 720))
    world.comes("right", records(9), seconds(480, 720))
    made, in_full = world.correction(MINUTE), world.in_full(MINUTE)
    assert found(made) == found(in_full)
    assert made.metrics.records_in == in_full.metrics.records_in


@pytest.mark.parametrize("harm", long_but(0, ["torn", "gone", "index"]))
def test_panes_that_are_damaged_or_gone_are_not_used(world: Planned, harm: str) -> None:
    world.answer(MINUTE)
    suffix = ".panes" if harm == "index" else ".parquet"
    (file,) = (path for path in pane_files(world.root) if path.suffix == suffix)
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-7])
    world.comes("right", records(9), seconds(480, 720))
    made, in_full = world.correction(MINUTE), world.in_full(MINUTE)
    assert found(made) == found(in_full)
    assert made.metrics.records_in == in_full.metrics.records_in


@pytest.mark.long
def test_an_index_that_leads_out_of_its_folder_is_ignored(world: Planned) -> None:
    world.answer(MINUTE)
    (index,) = (path for path in pane_files(world.root) if path.suffix == ".panes")
    index.write_text(index.read_text().replace('"_panes/', '"_panes/joined/../'))
    world.comes("right", records(9), seconds(480, 720))
    made, in_full = world.correction(MINUTE), world.in_full(MINUTE)
    assert made.metrics.records_in == in_full.metrics.records_in


@pytest.mark.long
def test_what_is_corrected_is_let_go_by_the_next_step(world: Planned) -> None:
    world.answer(MINUTE)
    assert pane_files(world.root)
    world.comes("right", records(9), seconds(480, 720))
    world.correction(MINUTE)
    assert pane_files(world.root)
    world.tentative_us = None
    world.correction(MINUTE)
    assert not pane_files(world.root)


@pytest.mark.long
def test_panes_that_were_not_released_become_orphans(world: Planned) -> None:
    world.answer(MINUTE)
    left = {path.relative_to(world.root).as_posix() for path in pane_files(world.root)}
    hours_later_s = time.time() + 7_200
    orphans = find_orphans(world.root, lambda _: frozenset(), hours_later_s, GRACE_S)
    assert len(left) == 2
    assert left <= {orphan.path for orphan in orphans}


@pytest.mark.long
def test_panes_of_too_many_rows_are_not_left(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pane_cache, "ROWS_PER_RECORD_MAX", 0.001)
    world = a_failure(spark, root, a_network(columns=FEW_VALUES))
    whole = found(world.in_full(MINUTE))
    assert found(world.answer(MINUTE)) == whole
    assert not pane_files(root)
    assert found(world.answer(MINUTE)) == whole


@pytest.mark.parametrize("way", long_but(1, [ExecutionMode.HANDED_OVER, ExecutionMode.SCANNED]))
@pytest.mark.long
def test_every_way_of_running_a_step_gives_and_takes_panes(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, way: ExecutionMode
) -> None:
    world = a_failure(spark, root, a_network(columns=FEW_VALUES, advance="20s"))
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.spark.step.mode_of", lambda *_, **__: way)
        if way is ExecutionMode.SCANNED:
            patch.setattr("pipelines.spark.job.RESULT_ROWS_IN_DRIVER_MAX", -1)
        world.answer(seconds(600, 640))
        world.answer(seconds(640, 660))
        world.comes("right", records(9), seconds(480, 720))
        made = world.correction(MINUTE)
    assert found(made) == found(world.in_full(MINUTE))
    assert made.metrics.records_in == _within(records(9), seconds(560, 660))


# which inputs have panes


def inputs_with_panes(network: Network) -> set[str]:
    checked = check_network(network)
    (fragment,) = fragments_for(checked)
    found_ = kept_panes(checked, fragment)
    return set(found_.kept) if found_ else set()


def test_inputs_whose_records_all_end_in_folds_have_panes() -> None:
    assert inputs_with_panes(a_network()) == set(INPUTS)


def test_inputs_have_panes_also_where_a_group_is_of_no_type_of_times() -> None:
    network = a_network()
    boxes = [replace(b, group_by=("flag",)) if isinstance(b, Aggregate) else b
             for b in network.boxes]  # fmt: skip
    assert inputs_with_panes(replace(network, boxes=tuple(boxes))) == set(INPUTS)


@pytest.mark.long
def test_an_input_that_goes_out_as_it_is_has_none() -> None:
    before = (Map(name="shown", input="left", columns={"key": "key"}),)
    network = a_network(before=before, outputs={"answers": "some", "seen": "shown"})
    assert inputs_with_panes(network) == {"middle", "right"}


def test_an_input_that_a_session_reads_has_none() -> None:
    visits = Session(name="visits", input="left", by=("key",), gap="5s", length_max="1m",
                     columns={"n": "count(*)"})  # fmt: skip
    network = a_network(before=(visits,), outputs={"answers": "some", "seen": "visits"})
    assert inputs_with_panes(network) == {"middle", "right"}


@pytest.mark.parametrize(
    "columns", [{"records": "count(*)", "x": "first(value)"},
                {"records": "count(*)", "x": "round(sum(real), 2)"}]
)  # fmt: skip
def test_an_aggregate_that_is_no_fold_has_none(columns: dict[str, str]) -> None:
    assert inputs_with_panes(a_network(columns=columns)) == set()


@pytest.mark.long
def test_an_input_whose_records_can_fail_on_the_way_has_none() -> None:
    divided = {c: c for c in COLUMNS} | {"value": "cast(1000 div value as int)"}
    network = a_network(
        before=(Map(name="divided", input="left", columns=divided),),
        joins=("divided", "middle", "right"),
    )
    assert inputs_with_panes(network) == {"middle", "right"}


@pytest.mark.long
def test_rows_on_which_a_later_box_fails_are_quarantined_too(
    spark: SparkSession, root: Path
) -> None:
    columns = {"records": "count(*)", "share": "1000 div (max(value) - 94)"}
    world = a_failure(spark, root, a_network(columns=columns, advance="20s"))
    world.answer(MINUTE)
    world.comes("right", records(9), seconds(480, 720))
    made, in_full = world.correction(MINUTE), world.in_full(MINUTE)
    assert in_full.quarantine
    assert made.quarantine == in_full.quarantine
    assert found(made) == found(in_full)
    assert made.metrics.records_in < in_full.metrics.records_in


def test_a_fragment_with_a_function_has_none() -> None:
    before = (Function(name="own", input="left", function=lambda frame: frame, columns=COLUMNS),)
    assert inputs_with_panes(a_network(before=before, joins=("own", "middle", "right"))) == set()


# over generated networks


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Boxes before the Union, windows, values and boxes behind, all as they happen to come."""
    before: list[Box] = []
    joins = list(INPUTS)
    for at, name in enumerate(INPUTS):
        kind = draw(st.sampled_from(["nothing", "filter", "map", "both"]))
        if kind in ("filter", "both"):
            before.append(
                Filter(name=f"part_{name}", input=joins[at],
                       cases={"big": "value > 50", "flagged": "flag"}, otherwise="rest")
            )  # fmt: skip
            joins[at] = f"part_{name}.{draw(st.sampled_from(['big', 'flagged', 'rest']))}"
        if kind in ("map", "both"):
            same = {c: c for c in COLUMNS} | {"key": "coalesce(key, kind)"}
            before.append(Map(name=f"mapped_{name}", input=joins[at], columns=same))
            joins[at] = f"mapped_{name}"
    if draw(st.booleans()):
        joins.append(joins[0])  # its records count twice
    names = draw(st.sets(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5)) | {"records"}
    also: list[Box] = []
    outputs = {"answers": "some"}
    if draw(st.booleans()):
        size = draw(st.sampled_from(["20s", "30s"]))
        also.append(
            Aggregate(name="per_kind", input="gathered", size=size,
                      advance=draw(st.sampled_from(["10s", None])), group_by=("kind", "flag"),
                      columns={"keys": "count(distinct key)", "most": "max(value)"})
        )  # fmt: skip
        outputs["kinds"] = "per_kind"
    if draw(st.booleans()):
        also.append(
            Aggregate(name="over", input="some", size="60s", advance="20s",
                      columns={"groups": "count(*)", "most": "max(records)"})
        )  # fmt: skip
        outputs["overs"] = "over"
    return a_network(
        columns={name: VALUES[name] for name in sorted(names)},
        advance=draw(st.sampled_from(["60s", "20s", "15s"])),
        before=tuple(before), joins=tuple(joins), also=tuple(also), outputs=outputs,
    )  # fmt: skip


@pytest.mark.sweep
@settings(max_examples=examples(1, 8), deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(network=networks(), missing=st.sampled_from(INPUTS), cut=st.sampled_from([610, 630, 650]))
def test_corrections_over_panes_are_full_recomputations_for_any_network(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    network: Network,
    missing: str,
    cut: int,
) -> None:
    world = a_failure(spark, tmp_path_factory.mktemp("panes"), network, missing)
    whole = seconds(600, 690)
    for part in (seconds(600, cut), seconds(cut, 690)):
        world.answer(part)
    world.comes(missing, records(9), seconds(480, 720))
    made = world.correction(whole)
    in_full = world.in_full(whole)
    assert found(made) == found(in_full)
    assert made.quarantine == in_full.quarantine
    assert made.metrics.records_in <= _within(records(9), seconds(480, 720))
    assert any(found(in_full).values())
