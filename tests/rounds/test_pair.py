"""Two homes trade: what pays for both moves, then it stops; nothing is taken that was not said."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from math import inf

import pytest

from medusa_core.loads import LoadKey
from medusa_core.market.knowledge import MovedLoad
from medusa_core.market.learning import PASSED_ROUNDS
from medusa_core.market.messages import Item, Nonce
from medusa_core.names import FragmentName
from pipelines.catalog.round_store import MarketFacts, PlacedMove
from pipelines.market.rounds.round_knowledge import knowledge_of
from tests.rounds.building import (
    ALPHA,
    BETA,
    MOVES_ARE_OVER,
    OFFER_IS_OVER,
    Trader,
    a_price,
    a_round,
    agree_on,
    parts,
    until_quiet,
)


@pytest.fixture
def pair(alpha: Trader, beta: Trader) -> tuple[Trader, Trader]:
    """The pair A8 of the bounded-price mechanism: loads 0.9 and 0.3, tasks of 0.1, price 10."""
    agree_on(alpha, beta, a_price("10"))
    for trader, carried in ((alpha, parts(9)), (beta, parts(3))):
        trader.declares(1.0, 0.9)
        trader.carries(carried)
    return alpha, beta


def test_two_tasks_move_and_then_it_stops(pair: tuple[Trader, Trader]) -> None:
    alpha, beta = pair
    for _ in range(3):
        a_round(alpha, beta)
    given = [(True, BETA, "f0", "accepted"), (True, BETA, "f1", "accepted")]
    assert alpha.moves() == given
    assert beta.moves() == [(False, ALPHA, fragment, state) for _, _, fragment, state in given]
    assert [(items, accepted) for *_, items, accepted, _ in alpha.offers()] == [(2, 2)]
    ((level, price),) = alpha.sql("SELECT DISTINCT level, price FROM medusa_api.agreed_moves")
    assert (level, price) == (0, Decimal(10))
    assert alpha.party.agreements.verify_audit() is None
    assert beta.party.agreements.verify_audit() is None


@pytest.mark.long(quick=True)
def test_what_was_agreed_and_does_not_move_is_free_again(pair: tuple[Trader, Trader]) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    for trader in pair:
        trader.in_time(MOVES_ARE_OVER)
    a_round(alpha, beta)
    assert [state for *_, state in alpha.moves()] == ["lapsed", "accepted"] * 2
    assert [state for *_, state in beta.moves()] == ["lapsed", "accepted"] * 2


@pytest.mark.long(quick=True)
def test_a_round_is_opened_once_and_by_the_first_that_finds_its_time_passed(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, _ = pair
    alpha.in_time("UPDATE medusa_market.round SET opened_at = opened_at - interval '1 hour'")
    loops = [alpha.another() for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        ticks = list(threads.map(lambda loop: loop.tick(), loops))
    assert sorted(tick.opened is not None for tick in ticks) == [False, False, True]
    assert len(alpha.offers()) == 1
    assert alpha.sql("SELECT max(number) FROM medusa_api.rounds") == [(2,)]
    alpha.sql("UPDATE medusa_api.trading SET round_ms = 86400000")
    assert alpha.answers().opened is None


def test_to_explain_changes_nothing(pair: tuple[Trader, Trader]) -> None:
    alpha, beta = pair
    before = alpha.sql("SELECT changes, decided_round FROM medusa_market.market")
    _, decisions = alpha.worker.explain()
    assert [(str(d.because).split(" (")[0]) for d in decisions] == [
        "handing it over costs less than keeping it"
    ]
    assert decisions[0].because.numbers["price"] == 10.0
    assert alpha.offers() == beta.offers() == []
    assert alpha.sql("SELECT changes, decided_round FROM medusa_market.market") == before


@pytest.mark.long(quick=True)
def test_who_has_not_declared_what_load_costs_takes_nothing_and_says_so(
    alpha: Trader, beta: Trader
) -> None:
    agree_on(alpha, beta, a_price("10"))
    alpha.declares(1.0, 0.9)
    alpha.carries(parts(9))
    a_round(alpha, beta)
    assert beta.moves() == []
    assert alpha.sql("SELECT reason, accepted FROM medusa_api.answers") == [("unweighed", 0)]
    assert beta.worker.explain()[1] == []


@pytest.mark.long(quick=True)
def test_who_could_not_weigh_an_offer_is_asked_again_after_some_rounds(
    alpha: Trader, beta: Trader
) -> None:
    agree_on(alpha, beta, a_price("10"))
    alpha.declares(1.0, 0.9)
    alpha.carries(parts(9))
    a_round(alpha, beta)
    beta.declares(1.0, 0.9)
    for _ in range(PASSED_ROUNDS - 1):
        alpha.opens()
    assert len(alpha.offers()) == 1, "others have their turn"
    a_round(alpha, beta)
    assert [state for *_, state in beta.moves()] == ["accepted", "accepted"]


@pytest.mark.long(quick=True)
def test_what_is_accepted_in_a_later_round_is_given_only_as_far_as_it_still_pays(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, beta = pair
    alpha.opens()
    assert alpha.offers()[0][5] == 2
    beta.opens()
    alpha.carries(parts(8))
    alpha.worker.tick(opens="a test")
    states = sorted(state for *_, state in alpha.moves())
    assert states == ["accepted", "lapsed"], "with one gone, handing over the other does not pay"
    assert alpha.sql("SELECT accepted FROM medusa_api.answers") == [(2,)]


@pytest.mark.long(quick=True)
def test_what_comes_on_top_may_cost_no_more_than_what_was_taken_in_the_round_for_least(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, beta = pair
    a_round(alpha, beta)
    assert len(beta.moves()) == 2

    def taken_at() -> float:
        knowledge = knowledge_of(beta.rounds.read(), Nonce("0" * 32))
        assert knowledge is not None
        return knowledge.taken_at

    assert taken_at() == 10.0
    beta.opens()
    assert taken_at() == inf


def test_under_active_standby_nothing_is_offered_since_the_payer_computes_it_as_well(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, _ = pair
    facts = alpha.rounds.read()
    (contract,) = facts.contracts
    assert contract.relieves
    item = Item(FragmentName("f0"), 0, 0.0)
    released = MovedLoad(
        move_id=1, is_given=True, contract=contract.name, item=item, price=10.0,
        since_ms=facts.clock_ms,
    )  # fmt: skip
    placed = PlacedMove(of="trade/f0", moved=released, round=None, has_returned=False)
    for relieves, count, load in ((True, 1, 0.8), (False, 0, 0.9)):
        contracts = (replace(contract, relieves=relieves),)
        knowledge = knowledge_of(
            replace(facts, contracts=contracts, placed=(placed,)), Nonce("0" * 32)
        )
        assert knowledge is not None
        assert len(knowledge.as_payer) == count
        assert knowledge.load == pytest.approx(load)


def test_fragments_of_one_name_are_told_apart_by_their_network(alpha: Trader) -> None:
    alpha.declares(1.0, 0.9)
    alpha.carries({"f0": 0.2})
    facts = alpha.rounds.read()
    (sample,) = facts.loads
    another = {
        LoadKey("other/f0", key.partition, key.cause): spent
        for key, spent in sample.shares.by_key.items()
    }
    shares = replace(sample.shares, by_key={**sample.shares.by_key, **another})
    both = replace(facts, loads=(replace(sample, shares=shares),))

    def names(facts: MarketFacts) -> set[str]:
        knowledge = knowledge_of(facts, Nonce("0" * 32))
        assert knowledge is not None
        return {carried.item.fragment for carried in knowledge.carried}

    assert names(facts) == {"f0"}
    assert names(both) == {"trade.f0", "other.f0"}


@pytest.mark.long(quick=True)
def test_a_fragment_has_the_name_that_its_contract_gives_it(alpha: Trader, beta: Trader) -> None:
    agree_on(alpha, beta, a_price("10"), fragments=frozenset({"trade.f0", "f1"}))
    for trader, carried in ((alpha, parts(9)), (beta, parts(3))):
        trader.declares(1.0, 0.9)
        trader.carries(carried)
    a_round(alpha, beta)
    assert {fragment for _, _, fragment, _ in beta.moves()} == {"trade.f0", "f1"}


def test_no_more_load_is_at_a_partner_than_the_contract_permits(
    alpha: Trader, beta: Trader
) -> None:
    agree_on(alpha, beta, a_price("10"), load_max=Decimal("0.1"), fragments=frozenset({"f4", "f7"}))
    alpha.declares(1.0, 0.9)
    beta.declares(1.0, 0.9)
    alpha.carries(parts(9))
    for _ in range(2):
        a_round(alpha, beta)
    assert [fragment for _, _, fragment, _ in beta.moves()] == ["f4"]


@pytest.mark.long(quick=True)
def test_an_offer_that_nobody_answers_is_over_after_a_round_and_its_fragments_are_free(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, beta = pair
    alpha.opens()
    assert alpha.opens().decisions == (), "one open offer per partner"
    assert [state for _, _, _, state, *_ in alpha.offers()] == ["open"]
    alpha.in_time(OFFER_IS_OVER)
    alpha.opens()
    assert [state for _, _, _, state, *_ in alpha.offers()] == ["lapsed"]
    assert alpha.sql("SELECT count(*) FROM medusa_market.open_item") == [(0,)]
    assert alpha.sql("SELECT missed FROM medusa_market.silent_partner") == [(1,)]
    until_quiet(beta, alpha)
    assert "had lapsed" in alpha.refused()[-1]
    assert (alpha.moves(), len(beta.moves())) == ([], 2), "what it accepts now comes too late"
    a_round(alpha, beta)
    assert [state for *_, state in alpha.moves()] == ["accepted", "accepted"]
    assert [state for *_, state in beta.moves()] == ["lapsed", "accepted"] * 2
    assert alpha.sql("SELECT count(*) FROM medusa_market.silent_partner") == [(0,)], (
        "it has been heard"
    )


def test_an_unavailable_partner_is_left_alone_and_called_again_when_it_returns(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, beta = pair
    alpha.party.post.cut.add(BETA)
    asked = 0
    for _ in range(3):
        alpha.opens()
        asked = len(alpha.offers())
        alpha.in_time(OFFER_IS_OVER)
    assert asked == 2, "it is left alone for a round"
    assert beta.offers() == []
    alpha.party.post.cut.clear()
    for _ in range(5):
        a_round(alpha, beta)
    assert beta.offers()[0][3] == "answered", "what was not sent in time was not sent later"
    assert [state for *_, state in beta.moves()] == ["accepted", "accepted"]


@pytest.mark.long(quick=True)
def test_an_offer_that_lay_there_for_longer_than_a_round_is_declined(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, beta = pair
    alpha.opens()
    beta.in_time("UPDATE medusa_market.inbox SET received_at = received_at - interval '1 hour'")
    beta.answers()
    until_quiet(alpha, beta)
    assert alpha.sql("SELECT reason, accepted FROM medusa_api.answers") == [("stale", 0)]
    a_round(alpha, beta)
    assert len(beta.moves()) == 2, "it is asked again: it is there"


@pytest.mark.long(quick=True)
def test_an_offer_under_a_revision_that_is_not_active_here_is_declined_with_the_document(
    alpha: Trader, beta: Trader
) -> None:
    """`medusa_market.give_answer` sends the revision that is active here anew."""
    agree_on(alpha, beta, a_price("10"))
    for trader, carried in ((alpha, parts(9)), (beta, parts(3))):
        trader.declares(1.0, 0.9)
        trader.carries(carried)
    for trader in (alpha, beta):
        trader.sql("UPDATE medusa_api.contract SET price_low = 9, price_high = 11")
    for _ in range(4):
        for trader in (alpha, beta):
            trader.party.contract_sync.tick()
    newest = "SELECT max(message_id) FROM medusa_api.outbox WHERE about LIKE 'agreement/%%'"
    before = beta.sql(newest)
    alpha.opens()  # the new one is active at alpha, beta has not had a round since
    beta.answers()
    until_quiet(alpha, beta)
    answers = alpha.sql("SELECT reason, accepted FROM medusa_api.answers")
    assert answers == [("revision", 0)]
    assert beta.sql(newest) > before, "the revision that is agreed here is sent again"
    beta.opens()
    a_round(alpha, beta)
    assert len(beta.moves()) == 2
