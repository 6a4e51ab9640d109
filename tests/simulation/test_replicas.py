"""Fragments with several owners: who reads loses nothing and doubles nothing, whoever is gone."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from operator import is_

import pytest

from pipelines.cli.main import main
from pipelines.simulation.faults.diverging import diverging_in
from pipelines.simulation.faults.drawn_replicas import NO_REPLICAS
from pipelines.simulation.faults.events import Event, Violation
from pipelines.simulation.faults.liveness import let_compare, settle
from pipelines.simulation.faults.scenario import Scenario, deployment_for, draw_scenario
from pipelines.simulation.faults.schedule import run_schedule
from pipelines.simulation.faults.schedule_runs import run_schedules
from pipelines.simulation.faults.schedule_shapes import (
    MARKETS,
    MIXED,
    REPLICA_KINDS,
    REPLICAS,
    REVISIONS,
    TRIMS,
    WHOLE,
    shape_of,
)
from pipelines.simulation.faults.world import World
from tests.sweeps import examples

SEED = 60_000
SEEDS = range(SEED, SEED + 200)
DIVERGES = 60_154
"""A seed with a divergence, which one of ten has."""
GONE_FOR_GOOD = 60_106
"""A seed in which somebody is, as things are drawn now."""


@pytest.mark.sweep
def test_schedules_with_replicas_break_no_law_whichever_replica_is_gone() -> None:
    schedules = examples(2, 24)
    figures = run_schedules(schedules, DIVERGES, shape=REPLICAS)
    assert figures.violations == []
    assert figures.events["choose"] > schedules
    assert figures.events["diverged"] > 0


@pytest.mark.long
def test_a_schedule_in_which_owners_go_and_leases_lapse_breaks_no_law() -> None:
    shape = replace(REPLICAS, kinds=REPLICA_KINDS, kinds_min=len(REPLICA_KINDS), faults=(2, 4))
    figures = run_schedules(1, SEED + 1, shape=shape)
    assert figures.violations == []
    assert all(figures.faults[kind] > 0 for kind in REPLICA_KINDS)
    assert figures.events["choose"] > 0


def test_schedules_without_replicas_are_drawn_unchanged() -> None:
    for seed in range(SEED, SEED + 20):
        plain, several = draw_scenario(seed), draw_scenario(seed, REPLICAS)
        assert plain.replicas == draw_scenario(seed, TRIMS).replicas == NO_REPLICAS
        assert several.replicas.others
        assert replace(several, replicas=NO_REPLICAS, shape=WHOLE) == plain


@pytest.mark.long
def test_among_the_scenarios_are_all_that_a_choice_has_to_stand() -> None:
    met: Counter[str] = Counter()
    for seed in SEEDS:
        scenario = draw_scenario(seed, REPLICAS)
        met["three owners"] += any(len(p) > 1 for p in scenario.replicas.others.values())
        met["verified"] += bool(scenario.replicas.verify)
        met["reads what it computes"] += any(reads_its_own(scenario))
        met["diverges"] += diverging_in(scenario) is not None
    assert min(met.values()) > 20
    assert len(met) == 4


def reads_its_own(scenario: Scenario) -> list[bool]:
    writers = scenario.writers()
    return [
        any(writer.participant == reader for writer in writers[stream])
        for reader in scenario.participants
        for stream in scenario.chosen(reader)
    ]


def test_replicas_are_numbered_by_name_and_their_epochs_count_on() -> None:
    scenario = draw_scenario(SEED, REPLICAS)
    name = next(iter(scenario.replicas.others))
    log = [
        a for a in deployment_for(scenario, scenario.participants[0]).assignments
        if a.fragment == name
    ]  # fmt: skip
    assert [a.producer.replica for a in log] == list(range(len(log)))
    assert [a.epoch for a in log] == list(range(1, len(log) + 1))
    assert [a.producer.participant for a in log] == sorted(a.producer.participant for a in log)
    assert len(log) > 1


@pytest.mark.long
@pytest.mark.sweep
def test_without_faults_there_are_no_conflicts() -> None:
    quiet = replace(REPLICAS, faults=(0, 0), kinds_min=0)
    for seed in range(SEED, SEED + examples(1, 4)):
        schedule = run_schedule(seed, shape=quiet)
        assert schedule.violation is None
        assert not {"conflict", "unavailable", "ended"} & set(schedule.events)


@pytest.mark.long
def test_everybody_else_comes_to_the_end_without_a_producer_that_is_gone_for_good() -> None:
    told: list[Event] = []
    shape = replace(REPLICAS, kinds=("gone",), kinds_min=1, faults=(1, 1), diverges=0.0)
    for seed in range(GONE_FOR_GOOD, GONE_FOR_GOOD + 200):
        schedule = run_schedule(seed, told.append, shape)
        assert schedule.violation is None
        if any(e.kind == "GONE" and e.what.endswith("for good") for e in told):
            return
    pytest.fail("nobody was gone for good")


@pytest.mark.long
def test_what_producers_differ_in_is_noted_in_every_home_that_has_both() -> None:
    seeds = [seed for seed in SEEDS if diverging_in(draw_scenario(seed, REPLICAS))]
    scenario = draw_scenario(seeds[0], replace(REPLICAS, faults=(0, 0), kinds_min=0))
    with closing(World(scenario)) as world:
        seen: list[object] = []

        def differs() -> bool:
            nonlocal seen
            was, seen = seen, [home.lines() for home in world.homes.values()]
            is_same = len(was) == len(seen) and all(map(is_, was, seen))
            return not is_same and bool(world.choices.unnoted(gone=()))

        world.run(until=differs)
        assert world.choices.unnoted(gone=()), "a copy is there before it is compared"
        assert not world.choices.unnoted(gone=scenario.participants)
        with pytest.raises(Violation, match="not noted"):
            world.choices.check_noted(gone=())
        settle(world, world.now_ms)
        let_compare(world)
        world.choices.check_noted(gone=())
        assert not world.choices.unnoted(gone=())


def test_of_a_run_every_fourth_schedule_has_replicas() -> None:
    assert [shape_of(seed, MIXED) for seed in (4, 5, 6, 7, 8)] == [
        REPLICAS, MARKETS, REVISIONS, WHOLE, REPLICAS
    ]  # fmt: skip
    assert shape_of(4, TRIMS) == TRIMS


@pytest.mark.long
def test_schedules_with_replicas_can_be_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "faults", "--replicas", "--schedules", "1", "--seed", str(SEED)]
    assert main([*command, "--explain"]) == 0
    assert " choose " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, "--trims"])
