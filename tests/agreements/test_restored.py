"""Homes that were set back, envelopes that were lost or late: both come to hold the same again."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from medusa_core.names import Participant
from pipelines.market.sync.contract_sync import settle
from tests.agreements.backups import Backups, in_time
from tests.agreements.building import INSERT, RAISE_PRICE, Party, agree
from tests.sweeps import long_but
from tests.waiting import until

HELD = "SELECT contract, number, revision, signed_by FROM medusa_api.contract_history ORDER BY 1, 2"
ENDS = "SELECT contract, ends_at FROM medusa_api.contract ORDER BY 1"
VOIDS = "SELECT number, because FROM medusa_api.contract_voids ORDER BY voided_at"


@pytest.fixture
def backups(watchers: dict[Participant, Engine]) -> Backups:
    """Backups of all homes."""
    return Backups(watchers)


def compare(*parties: Party) -> None:
    """What participants do now and then: each tells what it holds, and what differs is mended."""
    for _ in range(4):
        for party in parties:
            party.agreements.send_statuses()
        settle((party.contract_sync for party in parties), ticks_max=30)


def hold_the_same(alpha: Party, beta: Party) -> bool:
    return alpha.sql(HELD) == beta.sql(HELD) and alpha.sql(ENDS) == beta.sql(ENDS)


def next_price(price: float, *parties: Party) -> None:
    for party in parties:
        party.sql(RAISE_PRICE, price)
    settle(party.contract_sync for party in parties)


def lose_what_waits(watcher: Engine) -> None:
    in_time(watcher, "DELETE FROM medusa_market.outbox WHERE acknowledged_at IS NULL")


@pytest.mark.long(quick=True)
def test_a_first_agreement_that_was_lost_on_its_way_is_found_missing(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    alpha.sql(INSERT)
    beta.sql(INSERT)
    settle((beta.contract_sync,))
    alpha.post.cut.add(beta.name)
    alpha.contract_sync.tick()
    lose_what_waits(watchers[alpha.name])
    alpha.post.cut.clear()
    settle((alpha.contract_sync, beta.contract_sync))
    assert (alpha.shows()[0], beta.shows()[0]) == ("agreed", "proposed")
    compare(alpha, beta)
    assert alpha.shows()[0] == beta.shows()[0] == "agreed"


@pytest.mark.parametrize("who", long_but(1, ["alpha", "beta"], quick=True))
def test_a_home_that_lost_everything_receives_its_agreements_again(
    alpha: Party, beta: Party, backups: Backups, who: str
) -> None:
    lost, other = (alpha, beta) if who == "alpha" else (beta, alpha)
    backups.back_up(lost.name)
    agree(alpha, beta)
    next_price(1.3, alpha, beta)
    other.sql("DELETE FROM medusa_api.contract")
    settle((alpha.contract_sync, beta.contract_sync))
    held, ends = other.sql(HELD), other.sql(ENDS)
    backups.restore(lost.name)
    assert lost.sql(HELD) == []
    compare(alpha, beta)
    assert (lost.sql(HELD), lost.sql(ENDS)) == (other.sql(HELD), other.sql(ENDS)) == (held, ends)
    for party in (alpha, beta):
        assert party.agreements.verify_audit() is None


@pytest.mark.long(quick=True)
def test_a_payer_that_was_set_back_and_signed_another_revision_takes_the_one_that_is_held(
    alpha: Party, beta: Party, backups: Backups
) -> None:
    agree(alpha, beta)
    # Beta offers 1.4; alpha's backup knows of it. Then both agree on 1.3 instead.
    beta.sql(RAISE_PRICE, 1.4)
    settle((beta.contract_sync, alpha.contract_sync))
    backups.back_up(alpha.name)
    next_price(1.3, alpha, beta)
    held = beta.sql(HELD)
    backups.restore(alpha.name)
    alpha.post.cut.add(beta.name)
    alpha.sql(RAISE_PRICE, 1.4)
    alpha.contract_sync.tick()
    alpha.agreements.open_round(0, "a test")
    assert alpha.shows(columns="number, price_high::text") == (2, "1.4")
    alpha.post.cut.clear()
    settle((alpha.contract_sync, beta.contract_sync), ticks_max=30)
    assert alpha.sql(HELD) == beta.sql(HELD) == held
    assert alpha.shows(columns="price_high::text") == ("1.3",)
    ((number, because),) = alpha.sql(VOIDS)
    assert (number, because.split()[:3]) == (2, ["both", "homes", "keep"])
    assert beta.sql(VOIDS) == []
    assert alpha.proposals()[-1] == ("alpha", "1.4", "void")
    assert alpha.agreements.in_force()[0].terms.number == 1
    next_price(1.5, alpha, beta)
    assert alpha.shows(columns="number, price_high::text") == (3, "1.5")
    assert hold_the_same(alpha, beta)


@pytest.mark.long(quick=True)
def test_what_a_provider_that_was_set_back_has_held_once_it_holds_again(
    alpha: Party, beta: Party, backups: Backups, watchers: dict[Participant, Engine]
) -> None:
    agree(alpha, beta)
    beta.sql(RAISE_PRICE, 1.3)
    settle((beta.contract_sync, alpha.contract_sync))
    backups.back_up(beta.name)
    alpha.sql(RAISE_PRICE, 1.3)
    settle((alpha.contract_sync, beta.contract_sync))
    backups.restore(beta.name)
    # Its offer has run out long ago, by what its home knows.
    in_time(
        watchers[beta.name], "UPDATE medusa_market.contract_proposal SET expires_at = '2020-01-01'"
    )
    compare(alpha, beta)
    assert beta.shows(columns="number, price_high::text") == (2, "1.3")
    assert hold_the_same(alpha, beta)


def test_an_agreement_that_comes_too_late_is_held_by_neither_and_both_say_so(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    agree(alpha, beta)
    for party in (beta, alpha):
        party.sql(RAISE_PRICE, 1.3)
        party.contract_sync.tick()
        alpha.post.cut.add(beta.name)
    alpha.contract_sync.tick()
    assert alpha.shows(columns="number") == (2,)
    in_time(
        watchers[beta.name], "UPDATE medusa_market.contract_proposal SET expires_at = '2020-01-01'"
    )
    alpha.post.cut.clear()
    settle((alpha.contract_sync, beta.contract_sync), ticks_max=30)
    assert hold_the_same(alpha, beta)
    assert alpha.shows(columns="number, price_high::text") == (1, "1.2")
    assert alpha.sql(VOIDS) == [(2, "beta refuses it: it came too late")]
    assert alpha.proposals()[-1][2] == "void"
    assert beta.sql("SELECT what FROM medusa_api.audit WHERE what = 'refused'")
    # The same terms can be agreed on afterwards, under the same revision.
    next_price(1.3, alpha, beta)
    settle((alpha.contract_sync, beta.contract_sync))
    assert hold_the_same(alpha, beta)
    assert beta.shows(columns="number, price_high::text") == (2, "1.3")


@pytest.mark.long(quick=True)
def test_notice_of_an_agreement_that_comes_too_late_comes_to_rest(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    beta.sql(INSERT)
    settle((beta.contract_sync, alpha.contract_sync))
    alpha.post.cut.add(beta.name)
    alpha.sql(INSERT)
    alpha.contract_sync.tick()
    alpha.sql("DELETE FROM medusa_api.contract")
    alpha.contract_sync.tick()
    in_time(
        watchers[beta.name], "UPDATE medusa_market.contract_proposal SET expires_at = '2020-01-01'"
    )
    alpha.post.cut.clear()
    assert settle((alpha.contract_sync, beta.contract_sync), ticks_max=30) < 30
    assert alpha.sql(HELD) == beta.sql(HELD) == []
    assert alpha.sql(VOIDS) == [(1, "beta refuses it: it came too late")]


@pytest.mark.long(quick=True)
def test_what_came_in_time_counts_however_long_it_lay_there(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    beta.sql(INSERT)
    settle((beta.contract_sync, alpha.contract_sync))
    alpha.sql(INSERT)
    alpha.a_contract_sync(lasts_ms=1).tick()
    assert beta.sql("SELECT 1 FROM medusa_api.inbox WHERE state = 'received'")
    # It came when it was sent, to the millisecond; beta's program looks at it when both times have
    # passed.
    in_time(
        watchers[beta.name],
        "UPDATE medusa_market.inbox SET received_at = to_timestamp(sent_at_ms / 1000.0) "
        "WHERE state = 'received'",
    )
    ((expires_ms,),) = beta.sql("SELECT max(expires_at_ms) FROM medusa_market.inbox")
    in_time(
        watchers[beta.name],
        "UPDATE medusa_market.contract_proposal SET expires_at = (SELECT max(received_at) FROM "
        "medusa_market.inbox WHERE state = 'received') - interval '6 days 23 h 59 min 59.9 s'",
    )

    def has_passed() -> bool:
        ((now_ms,),) = beta.sql("SELECT medusa.to_ms(clock_timestamp())")
        return bool(now_ms > expires_ms + 100)

    until(has_passed, "both times have passed")
    settle((beta.contract_sync, alpha.contract_sync))
    assert beta.shows()[0] == alpha.shows()[0] == "agreed"


@pytest.mark.long(quick=True)
def test_another_incarnation_of_a_home_is_noticed(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    compare(alpha, beta)
    beta.sql("UPDATE medusa.home SET incarnation = gen_random_uuid()")
    compare(alpha, beta)
    noted = alpha.sql("SELECT subject FROM medusa_api.audit WHERE what = 'incarnation'")
    assert noted == [("beta",), ("beta",)]
