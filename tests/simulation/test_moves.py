"""Schedules in which fragments are handed over to partners while they run, and come back."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from medusa_core.names import Epoch, Participant
from medusa_core.segments import Producer
from pipelines.catalog.records import OwnerLine
from pipelines.cli.main import main
from pipelines.simulation.faults.drawn_moves import NO_MOVES, Return, is_movable
from pipelines.simulation.faults.events import Event
from pipelines.simulation.faults.move_laws import owner_of
from pipelines.simulation.faults.scenario import draw_scenario, landing_of
from pipelines.simulation.faults.schedule import run_schedule
from pipelines.simulation.faults.schedule_runs import run_schedules
from pipelines.simulation.faults.schedule_shapes import MIXED, MOVES, TRIMS, WHOLE, shape_of
from pipelines.simulation.faults.world import World
from tests.sweeps import examples

SEED = 70_000
STATES = ("accepted", "started", "released", "returning", "ended")


@pytest.mark.sweep
def test_schedules_with_moves_break_no_law_and_every_state_occurs() -> None:
    figures = run_schedules(examples(4, 40), SEED, shape=MOVES)
    assert figures.violations == []
    assert figures.moves["schedules"] > 0
    assert all(figures.moves[f"given {state}"] > 0 for state in STATES)
    assert figures.moves["adopted"] > 0


def test_schedules_without_moves_are_drawn_unchanged() -> None:
    for seed in range(SEED, SEED + 20):
        plain = draw_scenario(seed)
        assert plain.moves == draw_scenario(seed, TRIMS).moves == NO_MOVES
        moved = draw_scenario(seed, MOVES)
        assert moved.moves.moves
        assert (moved.network, moved.rules) == (plain.network, plain.rules)


def test_a_provider_has_nothing_of_the_network_and_a_fragment_moves_with_all_that_it_reads() -> (
    None
):
    returns = set()
    for seed in range(SEED, SEED + 40):
        scenario = draw_scenario(seed, MOVES)
        providers = scenario.moves.providers
        assert not set(scenario.owners.values()) & set(providers)
        assert all(landing_of(stream) in scenario.owners for stream in scenario.feeds)
        for move in scenario.moves.moves:
            assert is_movable(move.fragment, scenario.fragments, scenario.owners)
            assert scenario.owners[move.fragment] == move.payer
            assert move.provider in providers
            returns.add(move.returns)
    assert returns == set(Return)


def test_without_faults_a_fragment_is_released_adopted_and_returned() -> None:
    told: list[Event] = []
    quiet = replace(MOVES, faults=(0, 0), kinds_min=0)
    counts = run_schedules(3, SEED + 100, shape=quiet, observe=told.append)
    assert counts.violations == []
    assert counts.moves["given released"] == counts.moves["given returning"] > 0
    assert counts.moves["adopted"] > counts.moves["not waited for"]
    assert {event.kind for event in told} >= {"move", "owner", "message"}


def test_a_provider_that_makes_a_wrong_row_beside_its_payer_does_not_become_the_owner() -> None:
    figures = run_schedules(2, 14, shape=replace(MOVES, diverges=1.0))
    assert figures.violations == []
    assert figures.moves["other rows"] > 0


def test_one_provider_of_a_schedule_makes_a_wrong_row_if_the_shape_says_so() -> None:
    always, never = replace(MOVES, diverges=1.0), replace(MOVES, diverges=0.0)
    for seed in range(SEED, SEED + 10):
        moves = draw_scenario(seed, always).moves
        plain = draw_scenario(seed, never).moves
        assert plain == replace(moves, wrong=None)
        if moves.wrong is not None:
            assert (moves.wrong.provider, moves.wrong.fragment) in {
                (move.provider, move.fragment) for move in moves.moves
            }
    assert draw_scenario(SEED, always).moves.wrong is not None


def test_of_what_is_left_every_eleventh_schedule_of_a_run_has_moves() -> None:
    assert [shape_of(seed, MIXED) == MOVES for seed in (11, 22, 33, 44, 55, 77)] == [
        True, True, False, False, False, True
    ]  # fmt: skip


def test_each_bucket_has_the_owner_of_the_last_line_that_is_for_it() -> None:
    payer, provider = Producer(Participant("alpha")), Producer(Participant("beta"), 1)

    def line(epoch: int, owner: Producer, from_us: int) -> OwnerLine:
        return OwnerLine(fragment="net/main", epoch=Epoch(epoch), owner=owner, from_us=from_us,
                         timeout_ms=1, because="a test")  # fmt: skip

    log = (line(1, provider, 30), line(2, payer, 50), line(3, provider, 50))
    assert [owner_of(log[:2], at_us, payer.participant) for at_us in (20, 30, 50)] == [
        payer, provider, payer
    ]  # fmt: skip
    assert owner_of(log, 50, payer.participant) == provider


def test_a_schedule_without_moves_has_none_to_settle() -> None:
    with closing(World(draw_scenario(SEED, WHOLE))) as world:
        assert world.laws.moves.unsettled(()) == []
        assert not world.moving


@pytest.mark.long
def test_schedules_with_moves_can_be_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "faults", "--moves", "--schedules", "1", "--seed", str(SEED)]
    assert main([*command, "--explain"]) == 0
    assert "moves in 1 schedules" in capsys.readouterr().out


def test_a_seed_with_moves_gives_the_same_events() -> None:
    first: list[str] = []
    second: list[str] = []
    for found in (first, second):
        run_schedule(SEED, lambda event, found=found: found.append(str(event)), MOVES)
    assert first == second
