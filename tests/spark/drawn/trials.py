"""Which networks are drawn, and in which mode the steps of each are run.

Several networks are deployed as one: four networks in one plan take half the time of four plans. A
seed says everything about its deployment, the mode included, so that it can be run alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from medusa_core.commits import Cause
from pipelines.spark import (
    execution_mode,
    inputs,
    job,
    job_verification,
    pane_cache,
    step,
)
from pipelines.spark.execution_mode import ExecutionMode
from tests.conftest import folder_on_memory
from tests.generated_code import without_generated_code
from tests.spark.conftest import never_verified
from tests.spark.drawn.modes import Anew, Trial
from tests.spark.drawn.oracle import Oracle
from tests.spark.drawn.records import PIECES_S
from tests.spark.drawn.spec import KINDS, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Mode = Callable[[Trial], None]

# modes; each but the first is one of a network's several


def by_prepared_jobs(trial: Trial) -> None:
    with pytest.MonkeyPatch.context() as patch:
        never_verified(patch)
        world = trial.world()
        trial.one_after_the_other(world, "prepared")
        if trial.net.kind == "sliding":
            assert trial.taken["panes of the step before"], trial.id
        if trial.is_thorough:
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
    by_verified_kernels(trial)
    assert trial.taken["verified"] or trial.net.has_function, trial.id


def by_verified_kernels(trial: Trial) -> None:
    """The same, but where kernels fail on each step nothing is compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_verification, "STEPS_PER_VERIFICATION", 1 if trial.is_thorough else 3)
        trial.one_after_the_other(trial.world(), "verified")


OVER_TABLES = Anew("handed over", ExecutionMode.HANDED_OVER)
OVER_FILES = Anew("scanned", ExecutionMode.SCANNED)
IN_TASKS = Anew("written in tasks", ExecutionMode.SCANNED, in_tasks=True)


def by_plans_over_tables(trial: Trial) -> None:
    trial.anew(OVER_TABLES)


def by_plans_over_files(trial: Trial) -> None:
    trial.anew(OVER_FILES)


def by_plans_that_write_in_tasks(trial: Trial) -> None:
    trial.anew(IN_TASKS)


def by_plans_in_turn(trial: Trial) -> None:
    """Each step by the next of the three kinds of plans: a plan knows nothing of the last one."""
    trial.anew(IN_TASKS, OVER_TABLES, OVER_FILES)


def by_plans_without_shared_files(trial: Trial) -> None:
    """As on a cluster whose tasks have no file of this machine; they read all records."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (inputs, job, step):
            patch.setattr(module, "shares_no_files", lambda session, root: True)
        patch.setattr(execution_mode, "HANDED_OVER_RECORDS_MAX", 0)
        trial.one_after_the_other(trial.world(), "without shared files")


ALL_MODES = (
    by_prepared_jobs,
    by_shared_jobs,
    by_answers_and_corrections,
    by_verified_jobs,
    by_plans_over_tables,
    by_plans_over_files,
    by_plans_that_write_in_tasks,
    by_plans_without_shared_files,
)
MODES = (*ALL_MODES[:4], by_plans_in_turn)
"""Those of a sweep."""


def modes_alone(seed: int) -> tuple[Mode, ...]:
    """The modes that the network of a seed takes alone: all, or three where a share is run.

    Of eight seeds in a row, three take each mode.
    """
    if not os.environ.get("MEDUSA_DIFFERENTIAL"):
        return ALL_MODES
    return tuple(ALL_MODES[(seed + at) % len(ALL_MODES)] for at in (0, 1, 3))


# which


@dataclass(frozen=True)
class Drawing:
    """A deployment of so many networks, drawn from a seed, in one mode, and its steps."""

    seed: int
    networks: int
    mode: Mode
    steps: int = len(PIECES_S)

    def __str__(self) -> str:
        return f"{self.seed}-{self.mode.__name__}"

    def run(self, spark: SparkSession) -> None:
        """Run its steps and compare them, expressions evaluated without generated code."""
        with without_generated_code(spark):
            run(spark, self.seed, self.networks, self.mode, steps=self.steps)

    def run_once(self, spark: SparkSession) -> None:
        """Run it unless the file MEDUSA_DIFFERENTIAL_DONE lists the seed; then list it there."""
        done = Path(os.environ.get("MEDUSA_DIFFERENTIAL_DONE", os.devnull))
        if done.is_file() and str(self.seed) in done.read_text().split():
            return
        self.run(spark)
        with done.open("a") as file:
            file.write(f"{self.seed}\n")


def run(
    spark: SparkSession, seed: int, networks: int, *modes: Mode, steps: int = len(PIECES_S)
) -> None:
    """The networks of a seed through these modes; one alone through several is thorough."""
    root = folder_on_memory("medusa-drawn-")
    few_records_are_enough_for_panes = mock.patch.multiple(
        pane_cache, RECORDS_MIN=1, ROWS_PER_RECORD_MAX=100.0
    )
    try:
        with few_records_are_enough_for_panes:
            trial = Trial(
                spark, _oracle(), root, seed, networks,
                has_two=by_shared_jobs in modes, is_thorough=len(modes) > 1, steps=steps,
            )  # fmt: skip
            for mode in modes:
                mode(trial)
    finally:
        shutil.rmtree(root)


@cache
def _oracle() -> Oracle:
    return Oracle()


def _steps_of(mode: Mode) -> int:
    """The steps of a network in `make test`: the first one makes the plan, the next two take it
    over, and plans are of three kinds in turn; a correction spans two."""
    return 4 if mode in (by_answers_and_corrections, by_verified_jobs) else 3


QUICK: Mapping[Mode, tuple[int, ...]] = {
    by_prepared_jobs: (64, 382, 123, 36, 367, 37, 39),
    by_answers_and_corrections: (51,),
    by_shared_jobs: (8,),
    by_verified_jobs: (90,),
    by_plans_in_turn: (55,),
}
"""The seeds of `make test`: networks of few outputs, in which every kind of box and of network
occurs. Each output costs some tenths of a second of CPU in each step."""

HUNDRED = (4, 8, 11, 18, 20, 21, 23, 24, 40, 41)
"""The seeds of the sweep that `make test` takes too: each is a deployment of ten networks over all
steps. They are those of the first fifty that take least CPU."""


def quick_drawings() -> Iterator[Drawing]:
    """One network for each seed of `QUICK`."""
    for mode, seeds in QUICK.items():
        yield from (Drawing(seed, 1, mode, _steps_of(mode)) for seed in seeds)


def hundred() -> list[Drawing]:
    """A hundred networks over six steps each."""
    return [drawing_of(seed) for seed in HUNDRED]


_TURNS: dict[str, tuple[Mode, ...]] = {
    "any": (by_prepared_jobs, by_shared_jobs, by_prepared_jobs, by_plans_in_turn,
            by_prepared_jobs, by_verified_jobs, by_prepared_jobs),
    "foldable": (by_answers_and_corrections, by_prepared_jobs, by_shared_jobs),
    "distinct": (by_prepared_jobs, by_shared_jobs, by_prepared_jobs, by_verified_jobs),
    "sliding": (by_prepared_jobs, by_answers_and_corrections, by_prepared_jobs, by_verified_jobs),
    "function": (by_plans_in_turn,),
    "joined": (by_prepared_jobs, by_answers_and_corrections, by_shared_jobs),
    "paired": (by_prepared_jobs, by_answers_and_corrections, by_shared_jobs, by_verified_jobs,
               by_plans_in_turn),
    "calendar": (by_prepared_jobs, by_answers_and_corrections, by_shared_jobs, by_verified_jobs,
                 by_plans_in_turn),
    "emitting": (by_prepared_jobs, by_answers_and_corrections, by_shared_jobs, by_verified_jobs,
                 by_plans_in_turn),
}  # fmt: skip
"""The modes of the seeds of a kind, in turn."""

NETWORKS_IN_SWEEP = 2_000
NETWORKS = 10
NETWORKS_OF_KIND = {"joined": 6, "paired": 5}
NETWORKS_ANEW = 2
"""Networks of a deployment whose steps are each planned anew; one costs as much CPU as five
networks with prepared jobs."""


def drawing_of(seed: int) -> Drawing:
    """What a seed of the sweep stands for."""
    kind = kind_of(seed)
    turns = _TURNS[kind]
    # Two seeds of a round may be of one kind.
    at = seed // len(KINDS) + (seed % len(KINDS) if kind == "any" else 0)
    mode = turns[at % len(turns)]
    is_anew = mode is by_plans_in_turn
    networks = NETWORKS_ANEW if is_anew else NETWORKS_OF_KIND.get(kind, NETWORKS)
    return Drawing(seed, networks, mode)


PARTS = 3
"""A file of tests goes to one worker of pytest-xdist: the sweep is in as many as there are."""


def part_of_sweep(number: int) -> list[Drawing]:
    """The drawings of one of the sweep's files; every kind and mode is in each."""
    return [drawing for drawing in sweep() if drawing.seed % PARTS == number]


def sweep() -> list[Drawing]:
    """The drawings of MEDUSA_DIFFERENTIAL (such as 0-300), or as many as hold 2,000 networks."""
    given = os.environ.get("MEDUSA_DIFFERENTIAL")
    if given:
        first, _, end = given.partition("-")
        return [drawing_of(seed) for seed in range(int(first), int(end))]
    found: list[Drawing] = []
    while sum(drawing.networks for drawing in found) < NETWORKS_IN_SWEEP:
        found.append(drawing_of(len(found)))
    return found
