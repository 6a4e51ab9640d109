"""Schedules of faults: the laws hold, a seed is a schedule, a run that is too small fails."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import cache

import pytest
from greenlet import getcurrent, greenlet

from pipelines.cli.main import main
from pipelines.simulation.faults import schedule as running
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.run_figures import RunFigures
from pipelines.simulation.faults.schedule import ScheduleFigures, run_schedule
from pipelines.simulation.faults.schedule_runs import run_schedules, run_shared
from pipelines.simulation.faults.schedule_shapes import (
    KINDS,
    MARKET_KINDS,
    REPLICA_KINDS,
    REVISION_KINDS,
    TRIMS,
    WHOLE,
)
from pipelines.simulation.faults.simulated_processes import GAPS
from pipelines.simulation.faults.world import World
from pipelines.simulation.rounds.market_schedule import run_market_schedule
from tests.sweeps import examples

SEED, MARKET_SEED = 20_000, 40_000
ALL_KINDS = 20_014
"""The first of two seeds with every kind of fault between them."""
CPUS = os.cpu_count() or 1


@cache
def plain_schedule() -> ScheduleFigures:
    return run_schedule(SEED)


@pytest.mark.sweep
def test_schedules_break_no_law_and_leave_no_kind_of_fault_out() -> None:
    schedules = examples(2, 100)
    figures = run_schedules(schedules, ALL_KINDS)
    assert figures.violations == []
    if schedules >= 100:
        assert figures.shortfalls == []
    assert set(figures.faults) == set(KINDS)
    assert figures.commits["correction"] > 0
    assert figures.events["import"] > 0


@pytest.mark.long
@pytest.mark.sweep
def test_trims_kills_and_reads_come_between_each_other_and_lose_nothing() -> None:
    schedules = examples(2, 25)
    figures = run_schedules(schedules, SEED + 1_000, shape=TRIMS)
    assert figures.violations == []
    assert figures.faults["crash"] > schedules
    assert figures.faults["pause"] > schedules
    assert figures.interleavings > schedules


@pytest.mark.simulation_long
def test_two_thousand_schedules_break_no_law_and_crash_at_every_gap() -> None:
    figures = run_shared(2_000, 1, CPUS)
    print(figures.line())
    assert figures.violations == []
    assert figures.shortfalls == []
    assert {gap for kind, gap in figures.gaps if kind == "crash"} >= set(GAPS)
    assert {gap for kind, gap in figures.gaps if kind == "freeze"} >= set(GAPS)


@pytest.mark.simulation_long
def test_ten_thousand_interleavings_of_trim_kill_and_read_lose_nothing() -> None:
    figures = run_shared(6_000, 1, CPUS, TRIMS)
    print(figures.line())
    assert figures.violations == []
    assert figures.interleavings >= 10_000


@pytest.mark.long
def test_a_run_is_the_same_however_many_processes_share_it() -> None:
    alone, shared = run_schedules(22, SEED, shape=TRIMS), run_shared(22, SEED, 2, TRIMS)
    assert shared.document() == alone.document()


@pytest.mark.long
@pytest.mark.sweep
def test_a_seed_gives_the_same_events_byte_for_byte_in_any_process() -> None:
    """A schedule of streams, and one of a market."""
    schedules, here = examples(1, 3), io.StringIO()
    for at in range(schedules):
        run_schedule(SEED + at, lambda event: print(event, file=here))
        run_market_schedule(MARKET_SEED + at, lambda event: print(event, file=here))
    assert len(here.getvalue().splitlines()) > 350 * schedules
    code = (
        "from pipelines.simulation.faults.schedule import run_schedule\n"
        "from pipelines.simulation.rounds.market_schedule import run_market_schedule\n"
        f"for at in range({schedules}):\n"
        f"    run_schedule({SEED} + at, print); run_market_schedule({MARKET_SEED} + at, print)"
    )
    for hash_seed in ("1", "2")[:schedules]:
        there = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        assert there.stdout.decode() == here.getvalue()


def stacks() -> set[greenlet]:
    """All that have begun and are not over."""
    return {found for found in gc.get_objects() if isinstance(found, greenlet) and found}


@pytest.mark.long
def test_no_fiber_outlives_its_schedule() -> None:
    before = stacks()
    run_schedule(SEED)
    run_schedule(SEED + 1, shape=TRIMS)
    assert stacks() - before == {getcurrent()} - before


@pytest.mark.long
def test_another_seed_gives_other_events() -> None:
    assert plain_schedule().events != run_schedule(SEED + 1).events


def test_telling_changes_nothing() -> None:
    assert run_schedule(SEED, lambda event: None) == plain_schedule()


@pytest.mark.long
def test_the_figures_are_one_line_or_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "faults", "--schedules", "2", "--seed", str(SEED)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "2 schedules" in line
    assert "0 violations" in line
    command = ["simulate", "faults", "--schedules", "1", "--seed", str(SEED), "--json"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schedules"], document["violations"]) == (1, [])
    assert set(document["faults"]) == {
        *KINDS,
        *REPLICA_KINDS,
        *REVISION_KINDS,
        *MARKET_KINDS,
    }


def test_explained_every_event_is_a_line_in_fixed_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "faults", "--schedules", "1", "--seed", str(SEED), "--explain"]) == 0
    first, *events, last = capsys.readouterr().out.splitlines()
    assert (first, last[:9]) == (f"schedule {SEED}", "simulate ")
    times = [int(line[:7]) for line in events]
    assert times == sorted(times)
    kinds = Counter(line[24:34].strip() for line in events)
    assert kinds["commit"] > 40
    assert kinds["decide"] > 40


def test_a_violation_is_exit_code_1_with_the_seed_and_the_command_to_see_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*of: object) -> int:
        raise Violation("L2", "a row is missing")

    monkeypatch.setattr(running, "check_outcome", broken)
    assert main(["simulate", "faults", "--schedules", "1", "--seed", str(SEED)]) == 1
    output = capsys.readouterr().out
    assert "L2 is broken: a row is missing" in output
    assert f"medusa simulate faults --schedules 1 --seed {SEED} --explain" in output


def test_a_run_in_which_a_kind_of_fault_did_not_happen_fails() -> None:
    figures = RunFigures(first_seed=1)
    schedule = plain_schedule()
    for _ in range(100):
        figures.add(schedule)
    figures.close()
    missing = [kind for kind in KINDS if not schedule.faults[kind]]
    assert missing
    assert figures.has_failed
    assert f"no fault of kind {missing[0]}" in figures.shortfalls


@pytest.mark.long
def test_without_faults_there_are_no_conflicts_and_nothing_is_unavailable() -> None:
    schedule = run_schedule(SEED, shape=replace(WHOLE, faults=(0, 0), kinds_min=0))
    assert schedule.violation is None
    assert schedule.faults.total() == 0
    assert not {"conflict", "unavailable", "outcomeunknown", "ended"} & set(schedule.events)


def test_time_in_a_home_goes_at_one_pace_with_the_world() -> None:
    from pipelines.simulation.faults.scenario import draw_scenario

    scenario = draw_scenario(SEED)
    world = World(scenario)
    with closing(world):
        world.run(until=lambda: world.now_ms > 5_000)
    for participant, home in world.homes.items():
        assert home.clock.now_ms == scenario.clock_offsets_ms[participant] + world.now_ms
