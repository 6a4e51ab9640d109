"""A content contract lets its payer read the stream in the provider's home, as long as it runs."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from medusa_core.names import Participant
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import ALPHA, BETA, GAMMA, Party, SqlRefused
from tests.catalog import building as a

Watchers = dict[Participant, Engine]
SELLS = """
INSERT INTO medusa_api.contract (contract, kind, payer, provider, currency, validity, settlement_ms,
    notice_ms, stream, price, per, recovery, method, replicas, penalty, hold_ms_max)
VALUES ('sums_for_alpha', 'content', 'alpha', 'beta', 'EUR', {validity}, 86400000, 1000, 'sums',
    0.001, 'record', 'precise', 'upstream_backup', 1, 0, 86400000)
"""
LONG = "'[2024-01-01 00:00Z,2096-01-01 00:00Z)'"
LATER = "'[2095-01-01 00:00Z,2096-01-01 00:00Z)'"
DECLARE = "SELECT medusa_api.declare_readers('sums', %s, %s)"
REASONS = ("reading", "readers", "owner")


def sell(alpha: Party, beta: Party, validity: str = LONG) -> None:
    """The contract, agreed and active in both homes."""
    for party in (alpha, beta):
        party.sql(SELLS.format(validity=validity))
    settle(party.contract_sync for party in (alpha, beta))
    for party in (alpha, beta):
        party.agreements.open_round(0, "a test")


@pytest.fixture
def reads(beta: Party, watchers: Watchers) -> Reads:
    """Beta computes `sums`; who may read it there?"""
    with watchers[BETA].begin() as connection:
        connection.execute(
            text("INSERT INTO medusa.stream VALUES ('sums', 'derived', 10000000, '[]', '{}')")
        )
    return Reads(watchers[BETA])


class Reads:
    """Asks as the exchange server's functions do."""

    def __init__(self, watcher: Engine) -> None:
        self._watcher = watcher

    def __call__(self, partner: str, stream: str = "sums") -> bool:
        with self._watcher.connect() as connection:
            values = {"partner": partner, "stream": stream}
            ask = text("SELECT medusa_api.may_read(:partner, :stream)")
            is_granted = connection.execute(ask, values).scalar_one()
            ask = text("SELECT :stream IN (SELECT medusa_api.granted_streams(:partner))")
            assert is_granted == connection.execute(ask, values).scalar_one()
        return bool(is_granted)

    def hold_ms(self, partner: str, limit_ms: int) -> int:
        """How long the partner's hold is once it has acknowledged with this limit."""
        with self._watcher.begin() as connection:
            if not connection.execute(text("SELECT count(*) FROM medusa.stream_producer")).scalar():
                connection.execute(text(
                    "INSERT INTO medusa.participant (name) VALUES ('beta') ON CONFLICT DO NOTHING;"
                    "INSERT INTO medusa.stream_producer (stream, participant, replica, origin_us,"
                    " boundary_us) VALUES ('sums', 'beta', 0, 0, 10000000)"
                ))  # fmt: skip
            ask = text("SELECT medusa.acknowledge_as(:partner, 'sums', 0, :limit_ms, 0)")
            connection.execute(ask, {"partner": partner, "limit_ms": limit_ms})
            ask = text("SELECT limit_ms FROM medusa.hold WHERE holder = :partner")
            return int(connection.execute(ask, {"partner": partner}).scalar_one())


def test_the_payer_may_read_the_stream_while_the_contract_is_in_force_and_nobody_else(
    alpha: Party, beta: Party, reads: Reads
) -> None:
    for party in (alpha, beta):
        party.sql(SELLS.format(validity=LONG))
    settle(party.contract_sync for party in (alpha, beta))
    assert not reads("alpha"), "agreed, and in force from the next round on"
    beta.agreements.open_round(0, "a test")
    assert reads("alpha")
    assert not reads("gamma")
    assert not reads("alpha", "src")


def test_a_payer_holds_a_stream_for_as_long_as_its_contract_permits(
    alpha: Party, beta: Party, reads: Reads
) -> None:
    sell(alpha, beta)
    assert reads("alpha")
    assert reads.hold_ms("alpha", 30 * 86_400_000) == 86_400_000
    assert reads.hold_ms("alpha", 1_000) == 1_000
    beta.sql("SELECT medusa_api.grant_stream('sums', 'alpha')")
    assert reads.hold_ms("alpha", 30 * 86_400_000) == 30 * 86_400_000, "by a grant of the owner"


@pytest.mark.long(quick=True)
def test_a_contract_that_is_not_valid_yet_grants_nothing(
    alpha: Party, beta: Party, reads: Reads
) -> None:
    sell(alpha, beta, LATER)
    assert not reads("alpha")


def test_the_end_of_the_contract_is_the_end_of_the_grant(
    alpha: Party, beta: Party, reads: Reads, watchers: Watchers
) -> None:
    sell(alpha, beta)
    alpha.sql("DELETE FROM medusa_api.contract")
    settle((alpha.contract_sync, beta.contract_sync))
    assert reads("alpha"), "until the notice has run"
    with watchers[BETA].begin() as connection:
        connection.execute(text("SET session_replication_role = replica"))
        connection.execute(
            text("UPDATE medusa_market.contract_notice SET ends_at = clock_timestamp()")
        )
    assert not reads("alpha")


@pytest.mark.long(quick=True)
def test_the_owner_cannot_withdraw_what_it_has_sold(
    alpha: Party, beta: Party, reads: Reads
) -> None:
    sell(alpha, beta)
    with pytest.raises(SqlRefused, match="contract sums_for_alpha sells stream sums to alpha: end"):
        beta.sql("SELECT medusa_api.withdraw_stream('sums', 'alpha')")
    assert reads("alpha")


@pytest.mark.long(quick=True)
def test_the_exchange_server_tells_a_partner_of_what_it_has_bought(
    alpha: Party, beta: Party, reads: Reads, watchers: Watchers
) -> None:
    sell(alpha, beta)
    with watchers[BETA].begin() as connection:
        connection.execute(
            text("INSERT INTO medusa.participant VALUES ('beta') ON CONFLICT DO NOTHING")
        )
        line = "INSERT INTO medusa.stream_producer (stream, participant, replica) VALUES {}"
        connection.execute(text(line.format("('sums', 'beta', 0)")))
    home = ExchangeHome(beta.urls.exchange, BETA)
    try:
        assert [one.name for one in home.published_streams(ALPHA)] == [a.SUMS]
        assert [line.stream for line in home.published_progress(ALPHA)] == [a.SUMS]
        assert home.published_streams(GAMMA) == home.published_progress(GAMMA) == ()
    finally:
        home.close()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(REASONS),
            st.sampled_from([*chain(*(combinations(("alpha", "gamma"), n) for n in range(3)))]),
        ),
        max_size=6,
    )
)
def test_whoever_has_a_reason_left_may_read(
    beta: Party, reads: Reads, changes: list[tuple[str, tuple[str, ...]]]
) -> None:
    expected: dict[str, set[str]] = {reason: set() for reason in REASONS}
    for partner in ("alpha", "gamma"):
        beta.sql("SELECT medusa_api.withdraw_stream('sums', %s)", partner)
    for reason, partners in changes:
        if reason == "owner":
            for partner in partners:
                beta.sql("SELECT medusa_api.grant_stream('sums', %s)", partner)
            expected[reason] |= set(partners)
        else:
            ((has_changed,),) = beta.sql(DECLARE, reason, list(partners))
            assert has_changed == (expected[reason] != set(partners))
            expected[reason] = set(partners)
    readers = set().union(*expected.values())
    assert {name for name in ("alpha", "gamma") if reads(name)} == readers


@pytest.mark.parametrize(
    ("reason", "partners", "sentence"),
    [
        ("owner", ["alpha"], "contracts declare the reason reading or readers"),
        (None, ["alpha"], "contracts declare the reason reading or readers, not NULL"),
        ("readers", ["beta"], "beta reads its own streams without a grant"),
        ("readers", ["Alpha"], "name"),
    ],
)
def test_readers_that_cannot_be_are_refused(
    beta: Party, reads: Reads, reason: str | None, partners: list[str], sentence: str
) -> None:
    with pytest.raises(SqlRefused, match=sentence):
        beta.sql(DECLARE, reason, partners)
    assert not reads(partners[0])


@pytest.mark.long(quick=True)
def test_the_owner_sees_who_may_read_what_and_why(alpha: Party, beta: Party, reads: Reads) -> None:
    sell(alpha, beta)
    beta.sql("SELECT medusa_api.grant_stream('sums', 'gamma')")
    beta.sql(DECLARE, "readers", ["gamma"])
    shown = beta.sql("SELECT stream, partner, reason, contract FROM medusa_api.stream_grants")
    assert sorted(map(str, shown)) == [
        "('sums', 'alpha', 'contract', 'sums_for_alpha')",
        "('sums', 'gamma', 'owner', None)",
        "('sums', 'gamma', 'readers', None)",
    ]
    assert reads("gamma")
