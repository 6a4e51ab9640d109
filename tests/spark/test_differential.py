"""Drawn networks through every mode that a step can take, compared with DuckDB row for row.

`make test` runs a hundred networks over seven steps, up to four in one deployment and each in one
mode, so that every mode has its turn. Expressions are evaluated without generated code there,
which costs a third. With the marker `differential_long` every network takes every mode:

    MEDUSA_DIFFERENTIAL=0-2000 pytest tests/spark/test_differential.py -m differential_long

names the seeds (default: 0-20); tests of 5 seeds each can be shared out by pytest-xdist. Where
MEDUSA_DIFFERENTIAL_DONE names a file, seeds listed there are skipped and those that pass are
added, so that a run can be stopped and continued.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.commits import Cause
from pipelines.spark import job_verification, pane_cache
from pipelines.spark.execution_mode import ExecutionMode
from tests.conftest import folder_on_memory
from tests.spark.conftest import never_verified
from tests.spark.drawn.modes import Trial
from tests.spark.drawn.oracle import Oracle
from tests.spark.drawn.spec import KINDS, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERIFIES = True
"""Prepared jobs are verified here."""

TESTS = 7
SEEDS_PER_TEST = 5


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
    is_whole = trial.net.cut == len(trial.net.boxes)
    if trial.net.kind == "foldable" and is_whole:
        # Where the folds are in the second fragment, the first one has nothing to leave.
        assert trial.taken["panes of an answer"], trial.id


def by_verified_jobs(trial: Trial) -> None:
    """Steps of prepared jobs are compared with the ordinary plan: none may differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_verification, "STEPS_PER_VERIFICATION", 1 if trial.taken["long"] else 3)
        trial.one_after_the_other(trial.world(), "verified")


def by_plans_over_tables(trial: Trial) -> None:
    trial.anew("handed over", ExecutionMode.HANDED_OVER)


def by_plans_over_files(trial: Trial) -> None:
    trial.anew("scanned", ExecutionMode.SCANNED)


def by_plans_that_write_in_tasks(trial: Trial) -> None:
    trial.anew("written in tasks", ExecutionMode.SCANNED, in_tasks=True)


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


@dataclass(frozen=True)
class Quick:
    """A trial of `make test`: so many networks of a seed, deployed as one, in one mode."""

    seed: int
    networks: int
    mode: Callable[[Trial], None]


def quick_trials() -> Iterator[Quick]:
    """A hundred networks, most of them by prepared jobs.

    Four networks in one plan take half the time of four plans. A network that is planned for each
    step takes as long as eight others.
    """
    seeds = {kind: iter(range(KINDS.index(kind), 1_000, len(KINDS))) for kind in KINDS}
    for _ in range(5):
        for kind in ("any", "foldable", "distinct", "sliding"):
            yield Quick(next(seeds[kind]), 4, by_prepared_jobs)
    for kind in ("any", "distinct"):
        yield Quick(next(seeds[kind]), 4, by_shared_jobs)
    for _ in range(2):
        yield Quick(next(seeds["foldable"]), 4, by_answers_and_corrections)
    yield Quick(next(seeds["any"]), 1, by_verified_jobs)
    for mode in PLANNED_ANEW:
        yield Quick(next(seeds["function"]), 1, mode)


@pytest.mark.parametrize("number", range(TESTS))
@pytest.mark.usefixtures("interpreted")
def test_drawn_networks_give_the_rows_that_duckdb_gives(
    spark: SparkSession, oracle: Oracle, root: Path, number: int
) -> None:
    for quick in list(quick_trials())[number::TESTS]:
        seed, has_two = quick.seed, quick.mode is by_shared_jobs
        folder = root / str(seed)
        quick.mode(Trial(spark, oracle, folder, seed, quick.networks, has_two=has_two))


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


def test_every_kind_of_network_and_every_mode_occurs() -> None:
    trials = list(quick_trials())
    assert sum(trial.networks for trial in trials) == 100
    assert {kind_of(trial.seed) for trial in trials} == set(KINDS)
    assert {trial.mode for trial in trials} == set(ALL_MODES)
