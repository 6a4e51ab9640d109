"""A prepared job is compared with the ordinary plan; if they differ, the latter's result counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.answering import Answering, Found, found
from medusa_core.commits import VERIFY, Cause
from medusa_core.digest import Digest
from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Filter, Map, Network, Output, Source, Union
from pipelines.spark import job_verification, pane_cache, prepared
from pipelines.spark.compiled_fragment import TAG
from pipelines.spark.execution_mode import ExecutionMode
from pipelines.spark.job_verification import Contents, Records, Verification
from pipelines.spark.results import StepResult
from pipelines.spark.step import StepEngine
from pipelines.spark.step_panes import Saved, StepPanes
from tests.spark.conftest import never_verified
from tests.spark.drawn.world import World
from tests.sweeps import examples, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
VERIFIES = True
"""Prepared jobs are verified here."""

SECOND_US = 1_000_000
COLUMNS = {"at_us": "bigint", "key": "string", "value": "bigint"}
STEPS = [Range(at * SECOND_US, (at + 10) * SECOND_US) for at in range(0, examples(40, 60), 10)]


class Given:
    """A result with contents that a test makes up."""

    def __init__(self, rows: int) -> None:
        self.contents = Contents({StreamName("s"): {0: Digest(rows, rows, rows)}}, ())


def test_the_first_step_is_compared_after_a_run_over_a_few_of_its_records() -> None:
    calls: list[tuple[str, Records]] = []

    def run(by: str) -> Callable[[Records], Given]:
        def of(records: Records) -> Given:
            calls.append((by, records))
            return Given(1)

        return of

    result, is_compared, difference = Verification().run(run("job"), run("plan"))
    assert (is_compared, difference) == (True, None)
    few, all_ = Records.FEW, Records.ALL
    assert calls == [("job", few), ("job", all_), ("plan", all_)]
    assert result.contents == Given(1).contents


@pytest.mark.parametrize("fails", ["job", "plan"])
def test_a_run_that_failed_has_compared_nothing(fails: str) -> None:
    failing = {fails}

    def run(by: str) -> Callable[[Records], Given]:
        def of(records: Records) -> Given:
            if by in failing and records is Records.ALL:
                raise Unavailable("a file is away")
            return Given(1)

        return of

    job = Verification()
    with pytest.raises(Unavailable):
        job.run(run("job"), run("plan"))
    assert not job.may_answer
    failing.clear()
    _, is_compared, _ = job.run(run("job"), run("plan"))
    assert is_compared


def test_one_step_in_a_thousand_is_compared_again() -> None:
    ran: Counter[str] = Counter()

    def run(by: str) -> Callable[[Records], Given]:
        def of(records: Records) -> Given:
            ran[by] += 1
            return Given(1)

        return of

    job = Verification()
    compared = [at for at in range(2_500) if job.run(run("job"), run("plan"))[1]]
    assert compared == [0, 1_000, 2_000]
    assert ran == {"job": 2_501, "plan": 3}


def test_a_result_that_differs_is_not_taken() -> None:
    result, _, difference = Verification().run(lambda _: Given(2), lambda _: Given(3))
    assert result.contents == Given(3).contents
    assert difference == "stream s has 2 rows in the bucket at 0 us where the ordinary plan has 3"


def test_the_few_are_fewer_than_all_and_bounded() -> None:
    def few(rows: int) -> int:
        return Records.FEW.of(pa.table({"a": range(rows)})).num_rows

    assert [few(rows) for rows in (0, 1, 2, 5, 10_000)] == [0, 0, 1, 2, 1_000]


def run_noted(calls: list[tuple[str, Records]], by: str) -> Callable[[Records], Given]:
    def of(records: Records) -> Given:
        calls.append((by, records))
        return Given(1)

    return of


def test_of_a_large_step_only_some_records_are_compared() -> None:
    calls: list[tuple[str, Records]] = []
    Verification().run(run_noted(calls, "job"), run_noted(calls, "plan"), Records.COMPARED)
    few, compared, all_ = Records
    assert calls == [("job", few), ("job", compared), ("plan", compared), ("job", all_)]


def test_an_answer_is_not_compared_and_the_next_other_step_is() -> None:
    calls: list[tuple[str, Records]] = []
    job, verification = (run_noted(calls, by) for by in ("job", "plan")), Verification()
    assert not verification.may_answer
    verification.tried()
    assert verification.may_answer
    by_job, by_plan = job
    assert not verification.run(by_job, by_plan, is_answer=True)[1]
    assert verification.run(by_job, by_plan)[1]
    assert calls == [("job", Records.ALL)] * 2 + [("plan", Records.ALL)]


def test_a_job_of_answers_alone_is_tried_again_after_a_thousand() -> None:
    verification = Verification()
    verification.tried()
    for _ in range(1_000):
        assert not verification.is_trial_due
        verification.run(lambda _: Given(1), lambda _: Given(2), is_answer=True)
    assert verification.is_trial_due


# jobs of Spark


def a_network(*boxes: Box, outputs: dict[str, str] | None = None) -> Network:
    return Network(
        name="checked",
        sources=(Source(name="s", columns=COLUMNS, time="at_us"),),
        boxes=boxes
        or (
            Map(name="halved", input="s",
                columns={"key": "key", "value": "100 div (value - 7)"}),
            Aggregate(name="sums", input="halved", size="10s", group_by=("key",),
                      columns={"n": "count(*)", "total": "max(value)"}),
            Filter(name="many", input="sums", cases={"yes": "n > 1"}),
        ),
        outputs=tuple(
            Output(name=n, input=i)
            for n, i in (outputs or {"all": "sums", "some": "many"}).items()
        ),
    )  # fmt: skip


def records(seed: int = 0) -> pa.Table:
    rows = [
        (at * SECOND_US + 1, "ab"[at % 2], (at * 7 + seed) % 11) for at in range(60) for _ in (0, 1)
    ]
    return pa.table([pa.array(c) for c in zip(*rows, strict=True)], names=list(COLUMNS))


def a_world(spark: SparkSession, root: Path, network: Network | None = None) -> Answering:
    world = Answering(spark, root, network or a_network())
    for part in STEPS:
        world.comes("s", records(), part)
    return world


def run_all(world: Answering) -> list[StepResult]:
    return [world.engine.compute(world.step(part, Cause.NORMAL)) for part in STEPS]


def right(spark: SparkSession, root: Path, network: Network | None = None) -> list[Any]:
    """What the steps give without a fault."""
    world = a_world(spark, root / "right", network)
    with pytest.MonkeyPatch.context() as patch:
        never_verified(patch)
        made = run_all(world)
    return [(found(one), one.quarantine) for one in made]


@contextmanager
def each_planned_for_itself() -> Iterator[None]:
    """No step runs a prepared job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.spark.step.mode_of", lambda *_: ExecutionMode.HANDED_OVER)
        yield


def in_full(world: Answering, part: Range) -> Found:
    """The rows of a range by a plan made for it."""
    with each_planned_for_itself():
        return found(world.in_full(part))


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What the steps of `a_network` give without a fault."""
    return right(spark, tmp_path_factory.mktemp("expected"))


def keeps_its_first_records(patch: pytest.MonkeyPatch) -> None:
    """A slot is not replaced once it holds records."""
    put, filled = prepared._Slot.put, set()

    def first(slot: Any, given: Any) -> None:
        if slot not in filled:
            put(slot, given)
            if not isinstance(given, pa.Table) or given.num_rows:
                filled.add(slot)

    patch.setattr(prepared._Slot, "put", first)


def keeps_its_relations(patch: pytest.MonkeyPatch) -> None:
    """A relation that several boxes read is not dropped after a run."""
    patch.setattr(prepared._CachedRelation, "drop", lambda _: None)


def loses_failures(patch: pytest.MonkeyPatch) -> None:
    """Records that a box fails on do not come out."""
    run = prepared.RepeatedJob.run

    def without(job: Any) -> pa.Table:
        table = run(job)
        return table.filter(pc.greater_equal(table[TAG], 0))

    patch.setattr(prepared.RepeatedJob, "run", without)


@pytest.mark.parametrize(
    "fault", long_but(1, [keeps_its_first_records, keeps_its_relations, loses_failures])
)
@pytest.mark.sweep
def test_a_fault_of_a_prepared_job_is_found_at_its_first_step_and_the_fragment_planned_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    expected: list[Any], fault: Callable[[pytest.MonkeyPatch], None],
) -> None:  # fmt: skip
    fault(monkeypatch)
    made = run_all(a_world(spark, tmp_path))
    assert [(found(one), one.quarantine) for one in made] == expected
    first, *others = [one.verified for one in made]
    assert first is not None
    assert first.difference is not None
    assert first.fragment == "checked/main"
    assert others == [None] * (len(STEPS) - 1), "an ordinary plan is compared with nothing"
    assert "the result of the ordinary plan was taken" in first.sentence


@pytest.mark.long
@pytest.mark.sweep
def test_a_fault_that_comes_later_is_found_by_the_next_comparison(
    spark: SparkSession, tmp_path: Path, expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_verification, "STEPS_PER_VERIFICATION", 3)
    world = a_world(spark, tmp_path)
    made = [world.engine.compute(world.step(part, Cause.NORMAL)) for part in STEPS[:2]]
    keeps_its_first_records(monkeypatch)
    made += [world.engine.compute(world.step(part, Cause.NORMAL)) for part in STEPS[2:]]
    told = [None if one.verified is None else one.verified.difference for one in made]
    assert [at for at, difference in enumerate(told) if difference] == [3]
    same = [(found(one), one.quarantine) == is_ for one, is_ in zip(made, expected, strict=True)]
    assert same == [True] * len(STEPS)


@pytest.mark.long
@pytest.mark.sweep
def test_panes_that_count_twice_are_found_when_they_are_first_used(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = a_network(
        Aggregate(name="sums", input="s", size="30s", advance="10s", group_by=("key",),
                  columns={"n": "count(*)"}),
        outputs={"all": "sums"},
    )  # fmt: skip
    expected, saved = right(spark, tmp_path, network), StepPanes.saved

    def twice(step_panes: StepPanes, step: Any) -> Saved:
        one = saved(step_panes, step)
        twofold = {b: pa.concat_tables([t, t]) for b, t in one.panes.items()}
        return replace(one, panes=twofold)

    monkeypatch.setattr(StepPanes, "saved", twice)
    made = run_all(a_world(spark, tmp_path, network))
    assert [(found(one), one.quarantine) for one in made] == expected
    compared = [one.verified and (one.verified.job, one.verified.difference) for one in made]
    assert compared[0] == ("the prepared job over records", None)
    assert compared[1] is not None
    assert compared[1][0] == "the prepared job over panes"
    assert compared[1][1]
    assert compared[2:] == [None] * (len(STEPS) - 2)


def a_join() -> Network:
    names = ("left", "right")
    return Network(
        name="joined",
        sources=tuple(Source(name=n, columns=COLUMNS, time="at_us") for n in names),
        boxes=(
            Union(name="both", inputs=names),
            Aggregate(name="sums", input="both", size="10s", group_by=("key",),
                      columns={"n": "count(*)", "total": "sum(value)"}),
        ),
        outputs=(Output(name="all", input="sums"),),
    )  # fmt: skip


@pytest.mark.long
def test_no_answer_waits_for_a_verification(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job was compared while the engine warmed up, or the answer is planned for itself."""
    monkeypatch.setattr(pane_cache, "RECORDS_MIN", 1)
    monkeypatch.setattr(pane_cache, "ROWS_PER_RECORD_MAX", 100.0)
    prepared_runs: list[int] = []
    run = prepared.RepeatedJob.run

    def noted(job: Any) -> pa.Table:
        prepared_runs.append(1)
        return run(job)

    monkeypatch.setattr(prepared.RepeatedJob, "run", noted)
    minutes = [Range(at * SECOND_US, (at + 10) * SECOND_US) for at in (0, 10, 20)]
    cold, warm = (Answering(spark, tmp_path, a_join()) for _ in range(2))
    warm.engine.warm_up(warm.fragment)
    prepared_runs.clear()
    for world in (cold, warm):
        world.comes("left", records(1), Range(0, 60 * SECOND_US))
    expected = in_full(warm, minutes[0])
    prepared_runs.clear()
    answers = [cold.answer(minutes[0]), warm.answer(minutes[0])]
    assert [found(one) for one in answers] == [expected, expected]
    assert [VERIFY in one.metrics.phases_ms for one in answers] == [False, False]
    assert len(prepared_runs) == 1, "the cold engine has no job that was compared"
    # Once it has made another step, its job of answers was compared, and gives panes.
    for world in (cold, warm):
        world.comes("right", records(2), minutes[0])
    assert found(cold.correction(minutes[0])) == in_full(warm, minutes[0])
    prepared_runs.clear()
    cold.answer(minutes[1])
    assert len(prepared_runs) == 1


@pytest.mark.long
def test_a_fault_of_the_job_of_answers_is_found_while_the_engine_warms_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pane_cache, "RECORDS_MIN", 1)
    world = Answering(spark, tmp_path, a_join())
    keeps_its_first_records(monkeypatch)
    world.engine.warm_up(world.fragment)
    world.comes("left", records(1), Range(0, 60 * SECOND_US))
    made = world.answer(STEPS[0])
    assert found(made) == in_full(world, STEPS[0])
    assert made.verified is not None
    assert "the prepared job over generated records of joined/main is wrong" in (
        made.verified.sentence
    )


@pytest.mark.long
def test_kept_panes_that_are_wrong_are_found_by_the_first_correction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pane_cache, "RECORDS_MIN", 1)
    monkeypatch.setattr(pane_cache, "ROWS_PER_RECORD_MAX", 100.0)
    world = Answering(spark, tmp_path, a_join())
    world.comes("left", records(1), Range(0, 60 * SECOND_US))
    minute = Range(0, 60 * SECOND_US)
    world.engine.warm_up(world.fragment)
    assert world.answer(minute).verified is None
    world.comes("right", records(2), minute)
    given = pane_cache.PaneCache._to_take

    def without_panes(jobs: Any, *given_: Any) -> Any:
        pane_step = given(jobs, *given_)
        pane_step.inputs[-1] = pane_cache.replace(pane_step.inputs[-1], parts=())
        return pane_step

    monkeypatch.setattr(pane_cache.PaneCache, "_to_take", without_panes)
    made = world.correction(minute)
    assert made.verified is not None
    assert made.verified.difference is not None
    assert found(made) == in_full(world, minute)


@pytest.mark.long
def test_a_fault_of_a_shared_job_is_found_and_each_fragment_is_computed_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(3)
    network = Network(
        name="many",
        sources=tuple(Source(name=f"s{n}", columns=COLUMNS, time="at_us") for n in numbers),
        boxes=tuple(
            Aggregate(name=f"sums{n}", input=f"s{n}", size="10s", group_by=("key",),
                      fragment=f"f{n}", columns={"n": "count(*)", "total": "sum(value)"})
            for n in numbers
        ),
        outputs=tuple(Output(name=f"out{n}", input=f"sums{n}") for n in numbers),
    )  # fmt: skip
    world = World(spark, tmp_path, network)
    whole = Range(0, 60 * SECOND_US)
    for n in numbers:
        given = records(n)
        world.comes(f"s{n}", given.append_column("_stime", given["at_us"]), whole)
    alone = StepEngine(spark, tmp_path, world.checked)
    steps = [[world.step(f, part) for f in world.fragments] for part in STEPS[:2]]
    with pytest.MonkeyPatch.context() as patch:
        never_verified(patch)
        expected = [[found(alone.compute(step)) for step in part] for part in steps]
    keeps_its_first_records(monkeypatch)
    made = [
        [result for batch in world.engine.compute_together(part) for _, result in batch]
        for part in steps
    ]
    assert [[found(one) for one in part] for part in made] == expected
    told = made[0][0].verified
    assert told is not None
    assert told.job == "the job shared by 3 fragments"
    assert told.difference is not None
    assert [one.metrics.spark_jobs > 0 for one in made[0]] == [True, False, False]
    assert [one.metrics.spark_jobs > 0 for one in made[1]] == [True, True, True]


@pytest.mark.long
def test_corrections_of_one_fragment_are_one_run_of_its_own_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    network = a_network(
        Map(name="halved", input="s", columns={"key": "key", "value": "100 div (value - 7)"}),
        Aggregate(name="sums", input="halved", size="20s", advance="10s", group_by=("key",),
                  columns={"n": "count(*)", "total": "sum(value)"}),
        Filter(name="many", input="sums", cases={"yes": "n > 1"}),
    )  # fmt: skip
    world = Answering(spark, tmp_path, network)
    world.comes("s", records(), Range(0, 60 * SECOND_US))
    # The first two read a bucket in common; what lies before the third one is not read.
    parts = [Range(at * SECOND_US, (at + 10) * SECOND_US) for at in (10, 20, 50)]
    steps = [world.step(part, Cause.CORRECTION) for part in parts]
    (made,) = [[result for _, result in batch] for batch in world.engine.compute_together(steps)]
    with each_planned_for_itself():
        expected = [world.new_engine().compute(step) for step in steps]
    assert [(found(one), one.quarantine) for one in made] == [
        (found(one), one.quarantine) for one in expected
    ]
    assert all(one.quarantine for one in expected)
    assert [one.metrics.records_in for one in made] == [one.metrics.records_in for one in expected]
    assert [one.metrics.spark_jobs > 0 for one in made] == [True, False, False]
    files = {file.path for one in made for written in one.written for file in written.files}
    assert len(files) == len(network.outputs), "steps share the files"
    told = made[0].verified
    assert told is not None
    assert (told.job, told.difference) == ("the prepared job over records", None)
    (again,) = [[result for _, result in batch] for batch in world.engine.compute_together(steps)]
    assert [found(one) for one in again] == [found(one) for one in expected]
    assert again[0].verified is None
