"""What a round agrees on moves, counts as gone once it has gone, and comes back when it pays.

Real homes and all parts of the market; the steps of fragments are rows that the test commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.loads import LoadKey, LoadSample, Shares
from medusa_core.market.decisions import EndMove
from medusa_core.market.messages import Nonce
from medusa_core.market.moves import MoveState
from medusa_core.names import Participant
from pipelines.catalog.postgres.moves import PostgresMoves, open_moves_of
from pipelines.market.moves.move_order import document_of_order
from pipelines.market.moves.move_sync import MoveSync
from pipelines.market.moves.moved_deployments import order_of
from pipelines.market.rounds.round_knowledge import knowledge_of
from pipelines.market.rounds.round_tick import MarketTick, MarketWorker
from pipelines.operations.market_check import misstated
from tests.agreements.building import DAY_MS
from tests.catalog.building import LANDING
from tests.rounds.building import (
    ALPHA,
    BETA,
    FORGET,
    GAMMA,
    MOVES_ARE_OVER,
    PERIOD_MS,
    Trader,
    Traders,
    a_price,
    agree_on,
    computed,
    parts,
)

COUNTS, BUSY = "sums/counts", "sums/busy"
TAKEN = f"moved/alpha/1/{COUNTS}"


@dataclass
class Mover:
    """A trader whose fragments move: as its loop would, with a worker that carries moves out."""

    trader: Trader
    moves: PostgresMoves
    sync: MoveSync
    worker: MarketWorker
    samples: int = 0

    def carries(self, loads: Mapping[str, float]) -> None:
        """Its load over the last minute, by fragment as it is metered."""
        self.samples += 1
        self.trader.in_time(FORGET)
        by_key = {
            LoadKey(name, 0, Cause.NORMAL): round(load * PERIOD_MS * 1_000)
            for name, load in loads.items()
        }
        self.trader.catalog.record_load(
            LoadSample(
                driver="moves", number=self.samples, lane=Lane.LIVE, length_ms=PERIOD_MS,
                shares=Shares(by_key=by_key),
            )
        )  # fmt: skip

    def states(self) -> Mapping[str, MoveState]:
        """The newest state of each fragment's moves."""
        return {one.fragment: one.state for one in reversed(self.moves.statuses())}

    def deployed(self) -> set[str]:
        return {a.fragment for a in self.trader.catalog.assignments()}


@pytest.fixture
def movers(traders: Traders, tmp_path: Path) -> Mapping[Participant, Mover]:
    """Alpha computes `sums`; beta and gamma have nothing yet."""
    found = {}
    for name, trader in traders.items():
        moves = open_moves_of(trader.party.urls.job)
        sync = MoveSync(moves, trader.catalog, trader.catalog, tmp_path, trader.party.told.append)
        worker = MarketWorker(
            trader.party.a_contract_sync(), trader.party.agreements, trader.rounds,
            trader.party.told.append, settles=sync.settle, movable=sync.movable,
        )  # fmt: skip
        found[name] = Mover(trader, moves, sync, worker)
        trader.sql("UPDATE medusa_api.trading SET residence_ms = 0")
    computed(traders[ALPHA].catalog, "sums", ("counts", "busy"), tmp_path)
    return found


def ticked(*movers: Mover) -> list[MarketTick]:
    return [mover.worker.tick() for mover in movers]


def a_round(*movers: Mover) -> list[MarketTick]:
    """Each opens a round and hears what is said to it, until all are quiet."""
    ticks = [mover.worker.tick(opens="a test") for mover in movers]
    for _ in range(20):
        after = ticked(*movers)
        ticks += after
        if all(tick.is_idle for tick in after):
            return ticks
    raise AssertionError("they never come to rest")


def endings(ticks: list[MarketTick]) -> list[str]:
    return [one.because.reason for t in ticks for one in t.decisions if isinstance(one, EndMove)]


def release(payer: Mover) -> None:
    """As once the provider has caught up."""
    for move in payer.moves.open_moves():
        if move.is_given and move.state is MoveState.STARTED:
            assert payer.moves.settle(move.id, MoveState.RELEASED, "a test")


def load_of(mover: Mover) -> float:
    """What it decides by."""
    known = knowledge_of(mover.trader.rounds.read(), Nonce("0" * 32))
    assert known is not None
    return round(known.load, 6)


def agreed(mover: Mover) -> list[str]:
    return [state for *_, state in mover.trader.moves()]


def offered(mover: Mover) -> set[str]:
    facts = mover.trader.rounds.read()
    return {item.fragment for one in facts.open if one.is_own for item in one.offer.items}


@pytest.fixture
def pair(movers: Mapping[Participant, Mover]) -> tuple[Mover, Mover]:
    """Alpha is overloaded: 0.5 and 0.35 of 1; beta carries nothing."""
    alpha, beta = movers[ALPHA], movers[BETA]
    agree_on(alpha.trader, beta.trader, a_price("3"), hold_ms_max=DAY_MS)
    alpha.trader.declares(1.0, 0.7)
    beta.trader.declares(1.0, 0.7)
    alpha.carries({COUNTS: 0.5, BUSY: 0.35})
    beta.carries({LANDING: 0.01})
    return alpha, beta


def test_what_is_agreed_moves_and_counts_as_gone_while_the_average_has_it(
    pair: tuple[Mover, Mover],
) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    assert alpha.states() == beta.states() == {COUNTS: MoveState.STARTED}
    assert TAKEN in beta.deployed()
    assert agreed(alpha) == agreed(beta) == ["accepted"]
    assert [one.of for one in alpha.trader.rounds.read().placed] == []
    assert [one.of for one in beta.trader.rounds.read().placed] == [TAKEN]
    assert load_of(alpha) == 0.35, "it is on its way"
    release(alpha)
    assert [one.of for one in alpha.trader.rounds.read().placed] == [COUNTS]
    assert load_of(alpha) == 0.35, "its load is metered for a minute after it has gone"
    alpha.carries({COUNTS: 0.02, BUSY: 0.35})
    assert load_of(alpha) == 0.35, "to adopt rows is no load that could be given"
    assert load_of(beta) == 0.51, "its load is stated before it is metered"
    beta.carries({LANDING: 0.01, TAKEN: 0.2})
    assert load_of(beta) == 0.51
    beta.carries({LANDING: 0.01, TAKEN: 0.6})
    assert load_of(beta) == 0.61


def test_under_a_load_that_stays_nothing_moves_any_more(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    release(alpha)
    alpha.carries({COUNTS: 0.02, BUSY: 0.35})
    beta.carries({LANDING: 0.01, TAKEN: 0.5})
    for _ in range(4):
        assert endings(a_round(alpha, beta)) == []
    assert alpha.states() == {COUNTS: MoveState.RELEASED}
    assert len(alpha.trader.offers()) == 1


def test_a_fragment_comes_back_once_it_costs_less_at_home(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    release(alpha)
    alpha.carries({COUNTS: 0.02, BUSY: 0.05})
    assert endings(a_round(alpha, beta)) == ["it costs less here than its price"]
    assert alpha.states() == beta.states() == {COUNTS: MoveState.ENDED}
    assert agreed(alpha) == agreed(beta) == ["lapsed"]
    assert TAKEN not in beta.deployed()
    assert (
        "it costs less here than its price"
        in alpha.trader.sql(
            "SELECT string_agg(reason, ' ') FROM medusa_market.move_state", role="job"
        )[0][0]
    )


def test_a_provider_that_is_overloaded_gives_a_fragment_back(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    release(alpha)
    alpha.carries({COUNTS: 0.02, BUSY: 0.35})
    beta.carries({LANDING: 0.4, TAKEN: 0.5})
    assert endings([beta.worker.tick(opens="a test")]) == ["this participant is overloaded"]
    assert beta.states() == {COUNTS: MoveState.ENDED}
    ticked(alpha, beta, alpha)
    assert alpha.states() == {COUNTS: MoveState.ENDED}
    alpha.carries({COUNTS: 0.5, BUSY: 0.35})
    beta.carries({LANDING: 0.4})
    a_round(alpha, beta)
    assert alpha.states() == {COUNTS: MoveState.ENDED}, "it is not taken again"
    assert agreed(alpha) == ["lapsed"]


def test_nothing_comes_back_before_the_residence_is_over(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    alpha.trader.sql("UPDATE medusa_api.trading SET residence_ms = 600000")
    a_round(alpha, beta)
    release(alpha)
    alpha.carries({BUSY: 0.05})
    assert endings(a_round(alpha, beta)) == []
    alpha.trader.sql("UPDATE medusa_api.trading SET residence_ms = 0")
    assert len(endings(a_round(alpha, beta))) == 1


def test_an_agreement_does_not_lapse_while_its_move_lasts(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    for mover in pair:
        mover.trader.in_time(MOVES_ARE_OVER)
    a_round(alpha, beta)
    release(alpha)
    a_round(alpha, beta)
    assert agreed(alpha) == agreed(beta) == ["accepted"]
    alpha.moves.end(COUNTS, "by hand")
    ticked(alpha, beta, alpha)
    assert agreed(alpha) == agreed(beta) == ["lapsed"]


def test_a_fragment_that_cannot_move_is_not_offered(pair: tuple[Mover, Mover]) -> None:
    alpha, _ = pair
    alpha.carries({"trade/f0": 0.5, BUSY: 0.35})
    alpha.worker.tick(opens="a test")
    assert offered(alpha) == {"busy"}


def test_what_cannot_move_any_more_is_not_given_and_says_why(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    alpha.worker = MarketWorker(
        alpha.trader.party.a_contract_sync(), alpha.trader.party.agreements, alpha.trader.rounds,
        alpha.trader.party.told.append, settles=alpha.sync.settle,
    )  # fmt: skip
    alpha.carries({"trade/f0": 0.5, BUSY: 0.2})
    a_round(alpha, beta)
    assert agreed(alpha) == ["lapsed"]
    assert alpha.states() == {}
    assert any("f0 is not handed over" in str(error) for error in alpha.trader.party.told)


def test_a_move_by_hand_is_not_offered_meanwhile(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    order = document_of_order(order_of(alpha.trader.catalog, COUNTS, 1))
    alpha.moves.begin("spare", 1, COUNTS, order, "by hand")
    alpha.worker.tick(opens="a test")
    assert offered(alpha) == {"busy"}
    ticked(beta, alpha, beta)
    assert agreed(alpha) == ["accepted"], "of the other fragment"


def test_what_makes_room_for_a_fragment_goes_before_it_comes(
    movers: Mapping[Participant, Mover], tmp_path: Path
) -> None:
    """As in A9 of the bounded-price mechanism: 13, 10 and 5 tenths of the threshold."""
    alpha, beta, gamma = (movers[name] for name in (ALPHA, BETA, GAMMA))
    prices = a_price("14", "28", "14")
    agree_on(alpha.trader, beta.trader, prices, "near", hold_ms_max=DAY_MS)
    agree_on(beta.trader, gamma.trader, prices, "far", hold_ms_max=DAY_MS)
    for mover, units in ((alpha, 13), (beta, 10), (gamma, 5)):
        name = f"own_{mover.trader.name}"
        carried = parts(units, 0.08)
        computed(mover.trader.catalog, name, tuple(carried), tmp_path)
        mover.trader.declares(1.0, 0.8)
        mover.carries({f"{name}/{part}": load for part, load in carried.items()})
    for _ in range(12):
        a_round(alpha, beta, gamma)
        waiting = [one for one in beta.moves.open_moves() if one.waits]
        if waiting:
            break
    assert {one.state for one in waiting} == {MoveState.ACCEPTED}, "what makes room is still here"
    assert not any(one.waits for one in gamma.moves.open_moves())
    release(beta)
    ticked(beta, alpha)
    came = {one.id: one.state for one in beta.moves.open_moves() if not one.is_given}
    assert {came[one.id] for one in waiting} == {MoveState.STARTED}


def test_what_has_just_returned_counts_where_it_is(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    release(alpha)
    alpha.moves.end(COUNTS, "by hand")
    ticked(alpha, beta, alpha)
    alpha.carries({COUNTS: 0.1, BUSY: 0.35})
    beta.carries({LANDING: 0.01, TAKEN: 0.45})
    assert load_of(alpha) == 0.85, "it is metered in part, and as much as was stated has come"
    assert load_of(beta) == 0.01, "what is metered has gone"
    alpha.worker.tick(opens="a test")
    assert offered(alpha) == {"busy"}, "what has just returned is not offered with half its load"


def test_a_move_that_no_round_agreed_on_counts_as_metered_and_is_given_back(
    pair: tuple[Mover, Mover],
) -> None:
    alpha, beta = pair
    order = document_of_order(order_of(alpha.trader.catalog, COUNTS, 1))
    alpha.moves.begin("spare", 1, COUNTS, order, "by hand")
    alpha.carries({BUSY: 0.01})
    for _ in range(2):
        ticked(alpha, beta)
    beta.carries({LANDING: 0.01, TAKEN: 0.2})
    (placed,) = beta.trader.rounds.read().placed
    assert (placed.moved.item.fragment, placed.moved.item.load, placed.round) == (
        "sums.counts", 0, None,
    )  # fmt: skip
    assert load_of(beta) == 0.21
    beta.carries({LANDING: 0.4, TAKEN: 0.5})
    assert endings([beta.worker.tick(opens="a test")]) == ["this participant is overloaded"]
    assert beta.states() == {COUNTS: MoveState.ENDED}


def test_a_fragment_for_which_no_room_was_made_is_not_taken(pair: tuple[Mover, Mover]) -> None:
    alpha, beta = pair
    order = document_of_order(order_of(alpha.trader.catalog, COUNTS, 1))
    alpha.worker.tick(opens="a test")
    beta.worker.tick(opens="a test")
    ((taken,),) = beta.trader.sql("SELECT move_id FROM medusa_market.agreed_move", role="job")
    beta.trader.in_time(
        "INSERT INTO medusa_market.agreed_move (is_given, partner, contract, revision, fragment,"
        " partition, load, level, price, answer_id, makes_room_for, state, round, expires_at,"
        " ended_at) SELECT true, partner, contract, revision, 'other', 0, load, level, price,"
        f" answer_id, {taken}, 'lapsed', round, expires_at, clock_timestamp()"
        " FROM medusa_market.agreed_move"
    )
    alpha.moves.begin("spare", 1, COUNTS, order, "a test")
    ticked(alpha, beta)
    (status,) = beta.moves.statuses()
    assert (status.state, status.reason) == (
        MoveState.ENDED, "what was to make room for it has not left",
    )  # fmt: skip
    assert TAKEN not in beta.deployed()


def test_load_that_is_metered_otherwise_than_it_was_stated_is_reported(
    pair: tuple[Mover, Mover],
) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    beta.carries({LANDING: 0.01, TAKEN: 0.1})
    assert misstated(beta.trader.rounds.read()) == [], "the average has not the whole of it yet"
    beta.trader.in_time(
        "UPDATE medusa_market.move_state SET noted_at = noted_at - interval '1 day'"
    )
    (found,) = misstated(beta.trader.rounds.read())
    assert (found.fragment, found.stated, found.metered) == ("counts", 0.5, pytest.approx(0.1))
    beta.carries({LANDING: 0.01, TAKEN: 0.6})
    assert misstated(beta.trader.rounds.read()) == []
