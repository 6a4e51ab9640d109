"""Drawn networks through every mode that a step can take, compared with DuckDB row for row.

`make test` runs a hundred networks over seven steps, each in one mode, so that every mode has its
turn; expressions are evaluated without generated code, which costs a third. With the marker
`differential_long` every network takes every mode:

    MEDUSA_DIFFERENTIAL=0-2000 pytest tests/spark/test_differential.py -m differential_long

names the seeds (default: 0-20); tests of 5 seeds each can be shared out by pytest-xdist. Where
MEDUSA_DIFFERENTIAL_DONE names a file, seeds listed there are skipped and those that pass are added,
so that a run can be stopped and go on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.commits import Cause
from pipelines.spark import job_verification, pane_cache, prepared
from pipelines.spark.execution_mode import Way
from pipelines.spark.job_verification import Records, Verification
from tests.conftest import folder_on_memory
from tests.spark.drawn.modes import Trial
from tests.spark.drawn.oracle import Oracle
from tests.spark.drawn.spec import KINDS, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NETWORKS, NETWORKS_PER_TEST = 100, 10
SEEDS_PER_TEST = 5
WITHOUT_GENERATED_CODE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def long_seeds() -> range:
    """The seeds of a long run."""
    first, _, end = os.environ.get("MEDUSA_DIFFERENTIAL", "0-20").partition("-")
    return range(int(first), int(end))


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture
def root() -> Iterator[Path]:
    """A storage root where syncing files costs nothing."""
    folder = folder_on_memory("medusa-drawn-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def few_records_are_enough_for_panes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pane_cache, "RECORDS_MIN", 1)
    monkeypatch.setattr(pane_cache, "ROWS_PER_RECORD_MAX", 100.0)


def never_verified(patch: pytest.MonkeyPatch) -> None:
    """What a prepared job gives is taken as it is: verification would hide its faults."""

    def run(_: Verification, job: Callable, *others: object, **how: object) -> tuple:
        return job(Records.ALL), False, None

    patch.setattr(Verification, "run", run)
    patch.setattr(Verification, "may_answer", True)


# modes; each but the first is one of a network's several


def by_prepared_jobs(trial: Trial) -> None:
    with pytest.MonkeyPatch.context() as patch:
        never_verified(patch)
        world = trial.world()
        trial.one_after_the_other(world, "prepared")
        if trial.net.kind == "sliding":
            assert trial.taken["panes of the step before"], trial.id
        if trial.taken["long"]:
            # The same jobs without the panes of the step before.
            trial.one_after_the_other(world, "prepared, whole", Cause.CORRECTION)


def by_shared_jobs(trial: Trial) -> None:
    with pytest.MonkeyPatch.context() as patch:
        never_verified(patch)
        trial.together(trial.world())


def by_answers_and_corrections(trial: Trial) -> None:
    with pytest.MonkeyPatch.context() as patch:
        never_verified(patch)
        trial.answers_and_corrections(trial.world())
    if trial.net.kind == "foldable":
        assert trial.taken["panes of an answer"], trial.id


def by_verified_jobs(trial: Trial) -> None:
    """Steps of prepared jobs are compared with the ordinary plan: none may differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_verification, "STEPS_PER_VERIFICATION", 1 if trial.taken["long"] else 3)
        trial.one_after_the_other(trial.world(), "verified")


def by_plans_over_tables(trial: Trial) -> None:
    trial.anew("handed over", Way.HANDED_OVER)


def by_plans_over_files(trial: Trial) -> None:
    trial.anew("scanned", Way.SCANNED)


def by_plans_that_write_in_tasks(trial: Trial) -> None:
    trial.anew("written in tasks", Way.SCANNED, in_tasks=True)


ALL_MODES = (
    by_prepared_jobs,
    by_shared_jobs,
    by_answers_and_corrections,
    by_verified_jobs,
    by_plans_over_tables,
    by_plans_over_files,
    by_plans_that_write_in_tasks,
)
PLANNED_ANEW = (by_plans_over_tables, by_plans_over_files, by_plans_that_write_in_tasks)
"""The modes in which a job with a Function can run; each plans seven times."""

ANSWERED = 8
"""How many networks of folds are answered and corrected, of those of `make test`."""


def quick_seeds() -> list[int]:
    """A hundred seeds. Functions are drawn as often as there are modes for them."""
    functions = [s for s in range(NETWORKS) if kind_of(s) == "function"][: len(PLANNED_ANEW)]
    others = [s for s in range(2 * NETWORKS) if kind_of(s) != "function"]
    return sorted([*functions, *others[: NETWORKS - len(functions)]])


def quick_modes() -> dict[int, Callable[[Trial], None]]:
    """Seed -> the mode of its network in `make test`; most are run by prepared jobs.

    A network that is planned for each step costs as much as eight others.
    """
    modes = dict.fromkeys(quick_seeds(), by_prepared_jobs)
    plain = [s for s in modes if kind_of(s) in ("any", "distinct")]
    modes |= dict.fromkeys(plain[3::7], by_shared_jobs)
    modes |= dict.fromkeys(plain[12:13], by_verified_jobs)
    modes |= dict.fromkeys(
        [s for s in modes if kind_of(s) == "foldable"][:ANSWERED], by_answers_and_corrections
    )
    return modes | dict(
        zip((s for s in modes if kind_of(s) == "function"), PLANNED_ANEW, strict=True)
    )


@pytest.mark.parametrize("number", range(NETWORKS // NETWORKS_PER_TEST))
def test_drawn_networks_give_the_rows_that_duckdb_gives(
    spark: SparkSession, oracle: Oracle, root: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WITHOUT_GENERATED_CODE.items():
        monkeypatch.setitem(prepared._SETTINGS, name, value)
        spark.conf.set(name, value)
    modes = quick_modes()
    try:
        for seed in quick_seeds()[number :: NETWORKS // NETWORKS_PER_TEST]:
            mode = modes[seed]
            has_two = mode is by_shared_jobs
            mode(Trial(spark, oracle, root / str(seed), seed, has_two=has_two))
    finally:
        for name in WITHOUT_GENERATED_CODE:
            spark.conf.unset(name)


@pytest.mark.differential_long
@pytest.mark.parametrize("first", long_seeds()[::SEEDS_PER_TEST])
def test_every_drawn_network_in_every_mode(
    spark: SparkSession, oracle: Oracle, root: Path, first: int
) -> None:
    done = Path(os.environ.get("MEDUSA_DIFFERENTIAL_DONE", os.devnull))
    passed = set(done.read_text().split()) if done.is_file() else set()
    for seed in range(first, min(first + SEEDS_PER_TEST, long_seeds().stop)):
        if str(seed) in passed:
            continue
        trial = Trial(spark, oracle, root / str(seed), seed, has_two=True)
        trial.taken["long"] = 1
        for mode in ALL_MODES:
            mode(trial)
        shutil.rmtree(root / str(seed))
        with done.open("a") as file:
            file.write(f"{seed}\n")


def test_every_kind_of_network_and_every_mode_has_its_turn() -> None:
    modes = quick_modes()
    assert len(modes) == NETWORKS
    assert {kind_of(seed) for seed in modes} == set(KINDS)
    assert set(modes.values()) == set(ALL_MODES)
