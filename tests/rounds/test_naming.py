"""Contracts may call a fragment by different names, and mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text

from medusa_core.errors import Refused
from medusa_core.market.knowledge import ContractInForce
from medusa_core.market.terms import ContractName, OriginStream, Revision, Terms
from medusa_core.names import FragmentName, Participant
from pipelines.market.rounds.fragment_names import naming_of
from tests.agreements.building import a_movement, some_terms
from tests.rounds.building import ALPHA, BETA, GAMMA, Trader, a_price, agree_on, parts, until_quiet
from tests.rounds.test_as_in_memory import MemoryTrader, in_memory

HOME = Participant("home")


def a_contract(name: str, *fragments: str) -> ContractInForce:
    return ContractInForce(
        name=ContractName(name),
        revision=Revision("a1" * 32),
        payer=HOME,
        provider=Participant("other"),
        prices=(1.0,),
        fragments=frozenset(map(FragmentName, fragments)) if fragments else None,
    )


def test_a_fragment_is_covered_by_each_contract_that_means_it() -> None:
    bare, whole, any_of = a_contract("a", "main"), a_contract("b", "net.main"), a_contract("c")
    naming = naming_of(["net/main", "net/rest", "landing/s"], (bare, whole, any_of), HOME)
    assert naming.names == {"net/main": "net.main", "net/rest": "rest"}
    assert naming.in_words_of_here(bare).fragments == {"main", "net.main"}
    assert naming.in_words_of_here(whole) == whole
    assert naming.in_words_of_here(any_of) == any_of


def test_a_name_that_two_fragments_have_covers_neither() -> None:
    bare, whole = a_contract("a", "main"), a_contract("b", "net.main")
    naming = naming_of(["net/main", "other/main"], (bare, whole), HOME)
    assert set(naming.names.values()) == {"net.main", "other.main"}
    assert naming.in_words_of_here(bare) == bare
    assert naming.in_words_of_here(whole) == whole


def test_a_fragment_is_offered_only_where_the_provider_reads_all_that_it_reads_of_others() -> None:
    plain, any_of = a_contract("a", "main"), a_contract("b")
    reads = replace(any_of, reads=frozenset({OriginStream("third/sums")}))
    naming = naming_of(["net/main", "net/rest", "net/own"], (plain, any_of), HOME).of_movable(
        {
            "net/main": frozenset({OriginStream("third/sums"), OriginStream("other/sums")}),
            "net/own": frozenset(),
        }
    )
    assert set(naming.names.values()) == {"main", "own"}
    assert naming.in_words_of_here(plain).fragments == frozenset()
    assert naming.in_words_of_here(any_of).fragments == {"own"}
    assert naming.in_words_of_here(reads) == reads
    assert naming.in_words_of_here(replace(plain, reads=reads.reads)).fragments == {"main"}


def test_what_partners_may_hand_over_says_nothing_about_own_fragments() -> None:
    theirs = replace(a_contract("a", "net.main"), payer=Participant("third"))
    assert naming_of(["net/main"], (theirs,), HOME).names == {"net/main": "main"}


def a_deal(payer: Participant, provider: Participant, price: str, *names: str) -> Terms:
    return some_terms(
        contract=ContractName(f"{payer}_{provider}"),
        payer=payer,
        provider=provider,
        subject=a_movement(
            price=a_price(price),
            load_max=Decimal(10),
            fragments=frozenset(map(FragmentName, names)),
        ),
    )


# Beta's contract says f0, and gamma's trade.f0: the fragment has one name, and both let it move.
BARE = a_deal(ALPHA, BETA, "10", *parts(9))
WHOLE = a_deal(ALPHA, GAMMA, "30", *(f"trade.{name}" for name in parts(9)))
ANOTHER = a_deal(GAMMA, BETA, "10", *parts(9))

Homes = Mapping[Participant, Any]
Agreeing = Callable[..., Homes]


@pytest.fixture(params=["postgres", "memory"])
def agreeing(request: pytest.FixtureRequest) -> Agreeing:
    """Homes that have agreed on contracts, and what load costs them."""

    def in_postgres(*agreed: Terms) -> Homes:
        traders: dict[Participant, Trader] = request.getfixturevalue("traders")
        for terms in agreed:
            agree_on(
                traders[terms.payer], traders[terms.provider], terms.subject.price,  # type: ignore[union-attr]
                terms.contract, fragments=terms.subject.fragments,  # type: ignore[union-attr]
            )  # fmt: skip
        for trader in traders.values():
            trader.declares(1.0, 0.9)
        return traders

    return in_postgres if request.param == "postgres" else in_memory


def agreed_by(trader: Trader | MemoryTrader) -> list[tuple[Participant, str]]:
    """With whom, and which fragments."""
    return sorted((m.partner, str(m.item.fragment)) for m in trader.rounds.read().moves)


def test_a_payer_offers_what_a_contract_means_by_the_name_that_another_one_gives(
    agreeing: Agreeing,
) -> None:
    homes = agreeing(BARE, WHOLE)
    alpha = homes[ALPHA]
    for name, count in ((ALPHA, 9), (BETA, 3), (GAMMA, 0)):
        homes[name].carries(parts(count))
    alpha.opens()
    facts = alpha.rounds.read()
    assert facts.decided_round == facts.round
    offered = [item.fragment for waiting in facts.open for item in waiting.offer.items]
    assert offered[0] == "trade.f0"
    assert all(name.startswith("trade.") for name in offered)
    homes[BETA].answers()
    alpha.answers()
    assert (BETA, "trade.f0") in agreed_by(alpha)


def test_a_provider_takes_what_its_contract_means_and_answers_all_others(
    agreeing: Agreeing,
) -> None:
    homes = agreeing(BARE, WHOLE, ANOTHER)
    for name, count in ((ALPHA, 9), (BETA, 0), (GAMMA, 9)):
        homes[name].carries(parts(count))
    for payer in (ALPHA, GAMMA):
        homes[payer].opens()
    homes[BETA].answers()
    taken = agreed_by(homes[BETA])
    assert (ALPHA, "trade.f0") in taken
    assert (GAMMA, "f0") in taken
    for payer in (ALPHA, GAMMA):
        homes[payer].answers()
        assert agreed_by(homes[payer]) == [(BETA, name) for of, name in taken if of == payer]


@pytest.fixture
def strict_beta(traders: dict[Participant, Trader]) -> Iterator[Trader]:
    """A home whose database has a law of its own, of which no decision knows."""
    beta = traders[BETA]
    with beta.watcher.connect() as connection:
        connection.execute(text(A_LAW_OF_ITS_OWN))
        yield beta
        connection.execute(text("DROP FUNCTION medusa.keeps_out() CASCADE"))


A_LAW_OF_ITS_OWN = """
CREATE FUNCTION medusa.keeps_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fragment = 'f3' THEN
        RAISE EXCEPTION 'f3 is kept out' USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
GRANT EXECUTE ON FUNCTION medusa.keeps_out() TO PUBLIC;
CREATE TRIGGER keeps_out BEFORE INSERT ON medusa_market.agreed_move
    FOR EACH ROW EXECUTE FUNCTION medusa.keeps_out()"""


@pytest.mark.long(quick=True)
def test_an_offer_that_the_database_refuses_is_declined_and_keeps_no_other_unanswered(
    strict_beta: Trader, traders: dict[Participant, Trader]
) -> None:
    alpha, gamma = traders[ALPHA], traders[GAMMA]
    for terms in (a_deal(ALPHA, BETA, "10", "f3"), a_deal(GAMMA, BETA, "10", "f0")):
        agree_on(
            traders[terms.payer], strict_beta, terms.subject.price, terms.contract,  # type: ignore[union-attr]
            fragments=terms.subject.fragments,  # type: ignore[union-attr]
        )  # fmt: skip
    for trader, count in ((alpha, 9), (strict_beta, 0), (gamma, 9)):
        trader.declares(1.0, 0.9)
        trader.carries(parts(count))
    for payer in (alpha, gamma):
        payer.opens()
    strict_beta.answers()
    assert [str(error) for error in strict_beta.party.told if isinstance(error, Refused)] == [
        "f3 is kept out"
    ]
    assert agreed_by(strict_beta) == [(GAMMA, "f0")]
    until_quiet(alpha, strict_beta, gamma)
    assert agreed_by(alpha) == []
    assert alpha.sql("SELECT reason, accepted FROM medusa_api.answers") == [("terms", 0)]
    assert agreed_by(gamma) == [(BETA, "f0")]
