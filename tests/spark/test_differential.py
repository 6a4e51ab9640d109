"""Drawn networks through every mode that a step can take, compared with DuckDB row for row.

`make test` runs a hundred networks, deployed five at a time, each over seven steps by its prepared
job and by one other mode; expressions are evaluated without generated code, which costs a third.
With the marker `differential_long` every network is deployed alone and takes every mode:

    MEDUSA_DIFFERENTIAL=0-2000 pytest tests/spark/test_differential.py -m differential_long

names the seeds (default: 0-200); tests of 20 seeds each can be shared out by pytest-xdist. Where
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
from tests.spark.drawn.spec import KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NETWORKS, TOGETHER = 100, 5
SEEDS_PER_TEST = 20
WITHOUT_GENERATED_CODE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def long_seeds() -> range:
    """The seeds of a long run."""
    first, _, end = os.environ.get("MEDUSA_DIFFERENTIAL", "0-200").partition("-")
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

    def run(_: Verification, job: Callable, ordinary: Callable) -> tuple:
        return job(Records.ALL), False, None

    patch.setattr(Verification, "run", run)


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
    """Every step of prepared jobs is compared with the ordinary plan: none may differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_verification, "STEPS_PER_VERIFICATION", 1)
        trial.one_after_the_other(trial.world(), "verified")


def by_plans_over_tables(trial: Trial) -> None:
    trial.anew("handed over", Way.HANDED_OVER)


def by_plans_over_files(trial: Trial) -> None:
    trial.anew("scanned", Way.SCANNED)


def by_plans_that_write_in_tasks(trial: Trial) -> None:
    trial.anew("written in tasks", Way.SCANNED, in_tasks=True)


OTHERS = (
    by_shared_jobs,
    by_verified_jobs,
    by_plans_over_files,
    by_shared_jobs,
    by_plans_that_write_in_tasks,
)


def others_of(number: int, trial: Trial) -> Callable[[Trial], None]:
    """The second mode of a trial of `make test`."""
    if trial.net.kind == "foldable":
        return by_answers_and_corrections
    if trial.net.has_function:
        return by_plans_that_write_in_tasks
    return OTHERS[number % len(OTHERS)]


@pytest.mark.parametrize("number", range(NETWORKS // TOGETHER))
def test_drawn_networks_give_the_rows_that_duckdb_gives(
    spark: SparkSession, oracle: Oracle, root: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WITHOUT_GENERATED_CODE.items():
        monkeypatch.setitem(prepared._SETTINGS, name, value)
        spark.conf.set(name, value)
    try:
        trial = Trial(spark, oracle, root, number, TOGETHER)
        by_prepared_jobs(trial)
        others_of(number, trial)(trial)
    finally:
        for name in WITHOUT_GENERATED_CODE:
            spark.conf.unset(name)


ALL_MODES = (
    by_prepared_jobs,
    by_shared_jobs,
    by_answers_and_corrections,
    by_verified_jobs,
    by_plans_over_tables,
    by_plans_over_files,
    by_plans_that_write_in_tasks,
)


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
        trial = Trial(spark, oracle, root / str(seed), seed)
        trial.taken["long"] = 1
        for mode in ALL_MODES:
            mode(trial)
        shutil.rmtree(root / str(seed))
        with done.open("a") as file:
            file.write(f"{seed}\n")


def test_every_kind_of_network_and_every_mode_has_its_turn() -> None:
    kinds = [KINDS[number % len(KINDS)] for number in range(NETWORKS // TOGETHER)]
    assert set(kinds) == set(KINDS)
    plain = {n % len(OTHERS) for n, kind in enumerate(kinds) if kind in ("any", "distinct")}
    assert plain == set(range(len(OTHERS)))
