"""Markets in which things fail: the laws hold, load comes to rest, and a seed is a schedule."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.market.costs import PiecewiseLinear, Queue
from medusa_core.names import Participant
from pipelines.cli.main import main
from pipelines.simulation.faults.schedule_runs import run_schedules, run_shared, schedule_of
from pipelines.simulation.faults.schedule_shapes import (
    MARKET_KINDS,
    MARKETS,
    MIXED,
    MOVES,
    REPLICAS,
    REVISIONS,
    WHOLE,
    shape_of,
)
from pipelines.simulation.rounds.market_faults import MARKET_GAPS
from pipelines.simulation.rounds.market_scenario import Trader, draw_market
from pipelines.simulation.rounds.market_schedule import run_market_schedule
from pipelines.simulation.rounds.market_world import MarketWorld
from pipelines.simulation.rounds.reckoning import adds, cost_of, price_of
from pipelines.simulation.rounds.rest import could_gain, rounds_max
from tests.sweeps import examples

SEED = 40_000
ALL_KINDS = 40_018
"""The first of two seeds with every kind of fault and event between them."""
ALL_FORMS = 5
"""So many seeds from there on have a market of every form."""
CPUS = os.cpu_count() or 1


@pytest.mark.sweep
def test_markets_break_no_law_and_leave_no_kind_of_fault_out() -> None:
    schedules = examples(2, 40)
    figures = run_schedules(schedules, ALL_KINDS, shape=MARKETS)
    assert figures.violations == []
    assert {kind for kind in MARKET_KINDS if figures.faults[kind]} == set(MARKET_KINDS)
    for what in ("offer", "answer", "room", "move", "refused", "revision", "load"):
        assert figures.market[what], f"no {what} in any market"
    if schedules >= ALL_FORMS:
        assert len(figures.forms) == 3


@pytest.mark.simulation_long
def test_two_thousand_markets_break_no_law_and_crash_at_every_gap() -> None:
    figures = run_shared(2_000, 1, CPUS, MARKETS)
    print(figures.line())
    assert figures.violations == []
    assert figures.shortfalls == []
    assert {gap for kind, gap in figures.gaps if kind == "crash"} >= set(MARKET_GAPS)
    assert {gap for kind, gap in figures.gaps if kind == "freeze"} >= set(MARKET_GAPS)


def test_of_five_seeds_one_is_a_market_and_others_revise_or_move() -> None:
    for seed in range(1, 41):
        shape = shape_of(seed, MIXED)
        if seed % 4 == 0:
            assert shape == REPLICAS
        elif seed % 5 == 0:
            assert shape == MARKETS
        elif seed % 3 == 0:
            assert shape == REVISIONS
        elif seed % 11 == 0:
            assert shape == MOVES
        else:
            assert shape == WHOLE


@pytest.mark.long
def test_telling_a_market_changes_nothing() -> None:
    told = run_market_schedule(SEED, lambda event: None)
    silent = run_market_schedule(SEED)
    assert (told.market, told.faults, told.gaps) == (silent.market, silent.faults, silent.gaps)


def test_markets_alone_are_run_and_a_seed_of_them_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["simulate", "faults", "--markets", "--schedules", "1", "--seed", str(SEED)]
    assert main(command) == 0
    assert "per market (1): offers" in capsys.readouterr().out
    assert main([*command, "--explain"]) == 0
    output = capsys.readouterr().out
    assert " offer " in output
    assert " healed " in output


@pytest.mark.long
def test_trading_ends_long_before_its_limit() -> None:
    figures = run_schedules(20, SEED + 100, shape=MARKETS)
    assert figures.rounds_most < min(rounds_max(draw_market(SEED + 100 + n)) for n in range(20))


def test_an_overload_that_a_partner_would_gain_by_taking_is_seen() -> None:
    """Before the first round nothing has moved, whoever would gain."""
    gains = {seed: _gains_at_first(seed) for seed in range(30)}
    assert any(gains.values())
    assert not all(gains.values())
    seed = next(seed for seed, found in gains.items() if found)
    (who, *_) = gains[seed][0].split()
    market = draw_market(seed)
    with_it = sum(n for f, n in market.loads.items() if market.homes[f] == who)
    trader = market.traders[Participant(who)]
    assert (with_it + trader.background) / 1_000 > trader.threshold


def _gains_at_first(seed: int) -> list[str]:
    return list(could_gain(MarketWorld(draw_market(seed))))


TRADERS = draw_market(1).traders
ANYBODY = next(iter(TRADERS.values()))


def a_trader(cost: Queue | PiecewiseLinear) -> Trader:
    from dataclasses import replace

    return replace(ANYBODY, cost=cost)


def test_costs_are_reckoned_by_hand_as_they_were_declared() -> None:
    queue = a_trader(Queue(capacity=2.0, scale=3.0))
    assert cost_of(queue, 1.0) == pytest.approx(3.0)
    assert adds(queue, 1.0, 0.5) == pytest.approx(6.0)
    lines = a_trader(PiecewiseLinear(((0.0, 0.0), (1.0, 2.0), (2.0, 6.0))))
    assert cost_of(lines, 0.5) == pytest.approx(1.0)
    assert adds(lines, 0.5, 1.0) == pytest.approx(3.0)
    assert cost_of(lines, 3.0) == pytest.approx(10.0)


@given(load=st.floats(0.0, 6.0), scale=st.floats(0.1, 100.0))
def test_the_laws_and_the_product_reckon_costs_alike(load: float, scale: float) -> None:
    for cost in (
        Queue(capacity=2.0, scale=scale),
        PiecewiseLinear(((0.0, 0.0), (1.0, 2.0), (1.5, 4.0), (2.0, 60.0))),
    ):
        assert cost_of(a_trader(cost), load) == pytest.approx(cost.cost(load), rel=1e-9, abs=1e-9)


def test_a_level_that_a_contract_has_not_has_no_price() -> None:
    agreement = next(iter(draw_market(1).agreements.values()))
    assert price_of(agreement, 0) == agreement.prices[0] / 100
    assert price_of(agreement, len(agreement.prices)) is None
    assert price_of(agreement, -1) is None


@pytest.mark.long
@pytest.mark.sweep
def test_a_market_does_not_depend_on_earlier_runs() -> None:
    alone = run_market_schedule(SEED + 7)
    run_schedules(examples(3, 10), SEED + 300, shape=MARKETS)
    again = schedule_of(SEED + 7, MARKETS)
    assert (again.market, again.events, again.gaps) == (alone.market, alone.events, alone.gaps)
