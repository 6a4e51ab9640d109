"""Whatever two owners do, in whatever order it arrives, both homes come to agree on one thing."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from sqlalchemy import Engine

from medusa_core.names import Participant
from pipelines.base.failpoints import AGREEMENT_POINTS, visited_by
from pipelines.market.sync.contract_sync import settle
from tests.agreements.backups import Backups, in_time
from tests.agreements.building import INSERT, RAISE_PRICE, Party, SqlRefused
from tests.sweeps import long_but

STEPS = 45
SEEDS = range(8)
HISTORY = (
    "SELECT contract, number, revision, signed_by FROM medusa_api.contract_history ORDER BY 1, 2"
)
STATEMENTS = (
    INSERT,
    "SELECT medusa_api.accept_contract('spare_load')",
    "SELECT medusa_api.accept_contract('spare_load')",
    "SELECT medusa_api.withdraw_contract('spare_load')",
    "DELETE FROM medusa_api.contract",
)


class Killed(BaseException):
    """The program is gone."""


def a_step(random: Random, party: Party, partner: Party) -> None:
    """An edit, a tick that may be killed, a link that is cut or healed, or a round."""
    match random.randrange(10):
        case 0 | 1 | 2:
            with suppress(SqlRefused):
                party.sql(random.choice(STATEMENTS))
        case 3 | 4:
            with suppress(SqlRefused):  # after notice
                party.sql(RAISE_PRICE, random.choice((1.2, 1.3, 1.4)))
        case 5 | 6 | 7:
            party.contract_sync.tick()
        case 8:
            point, passes = (
                random.choice(AGREEMENT_POINTS),
                iter(range(random.randrange(3), -1, -1)),
            )

            def visit(name: str) -> None:
                if name == point and next(passes, 1) == 0:
                    raise Killed

            with visited_by(visit), suppress(Killed):
                party.contract_sync.tick()
            party.contract_sync = party.a_contract_sync()
        case _:
            cut = party.post.cut
            (cut.discard if cut else cut.add)(partner.name)
            party.agreements.open_round(0, "a test")


NOT_GONE = "SELECT contract, number, revision FROM medusa_api.contract_history ORDER BY 1, 2"
AGAIN = """UPDATE medusa_market.outbox SET acknowledged_at = NULL
    WHERE message_id IN (SELECT max(message_id)
        FROM medusa_market.outbox GROUP BY receiver, about)"""
ENDS = "SELECT medusa_market.ends_at('spare_load')"


def something_is_lost(
    random: Random, party: Party, watchers: dict[Participant, Engine], backups: Backups
) -> None:
    """A backup is made or put back, what is on its way is lost, or comes a second time."""
    match random.randrange(5):
        case 0 | 1:
            backups.back_up(party.name)
        case 2:
            backups.restore(party.name)
            party.contract_sync = party.a_contract_sync()
        case 3:
            in_time(
                watchers[party.name],
                "DELETE FROM medusa_market.outbox WHERE acknowledged_at IS NULL",
            )
        case _:
            in_time(watchers[party.name], AGAIN)


PAUSED = "SELECT partner FROM medusa_market.delivery_pause"
PAUSES_ARE_OVER = "UPDATE medusa_market.delivery_pause SET tries_at = clock_timestamp()"


@pytest.mark.parametrize(
    ("seed", "to_all"),
    long_but(2, [(3, True), (1, False), *((at, True) for at in SEEDS if at != 3)]),
)
def test_two_homes_hold_the_same_in_the_end_whatever_was_lost_doubled_or_set_back(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine], seed: int, to_all: bool
) -> None:
    random, backups = Random(seed), Backups(watchers)
    left_alone = 0
    for party in (alpha, beta):
        party.to_all = to_all
        party.contract_sync = party.a_contract_sync()
    for _ in range(STEPS):
        party, partner = (alpha, beta) if random.random() < 0.5 else (beta, alpha)
        if random.random() < 0.2:
            something_is_lost(random, party, watchers, backups)
        else:
            a_step(random, party, partner)
        left_alone += len(party.sql(PAUSED))
    assert to_all or left_alone, "a loop has left somebody alone"
    for party in (alpha, beta):
        party.post.cut.clear()
        in_time(watchers[party.name], PAUSES_ARE_OVER)
    for _ in range(4):
        for party in (alpha, beta):
            party.agreements.send_statuses()
        settle((alpha.contract_sync, beta.contract_sync), ticks_max=40)
    assert alpha.sql(NOT_GONE) == beta.sql(NOT_GONE)
    assert alpha.sql(ENDS) == beta.sql(ENDS)
    for party in (alpha, beta):
        assert not party.sql("SELECT 1 FROM medusa_api.outbox WHERE acknowledged_at IS NULL")
        assert party.agreements.verify_audit() is None


@pytest.mark.long(quick=True)
@pytest.mark.parametrize("seed", long_but(1, range(6)))
def test_two_homes_reach_the_same_agreements(alpha: Party, beta: Party, seed: int) -> None:
    random = Random(seed)
    numbers: dict[Party | str, int] = {}
    for _ in range(STEPS):
        party, partner = (alpha, beta) if random.random() < 0.5 else (beta, alpha)
        a_step(random, party, partner)
        for one in (alpha, beta):
            ((count,),) = one.sql("SELECT count(*) FROM medusa_api.contract_history")
            assert count >= numbers.get(one.name, 0), "nothing that was agreed is gone"
            numbers[one.name] = count
        # What the provider holds, the payer has signed.
        assert set(beta.sql("SELECT revision FROM medusa_api.contract_history")) <= set(
            alpha.sql("SELECT revision FROM medusa_api.contract_history")
        )
    for party in (alpha, beta):
        party.post.cut.clear()
    settle((alpha.contract_sync, beta.contract_sync), ticks_max=40)
    assert alpha.sql(HISTORY) == beta.sql(HISTORY)
    ends = "SELECT max(ends_at) FROM medusa_api.contract_notices"
    assert alpha.sql(ends) == beta.sql(ends)
    opened = [
        sorted((by, price) for by, price, state in party.proposals() if state == "open")
        for party in (alpha, beta)
    ]
    assert opened[0] == opened[1], "both show the same proposals"
    for party in (alpha, beta):
        assert not party.sql("SELECT 1 FROM medusa_api.outbox WHERE acknowledged_at IS NULL")
        assert not party.sql("SELECT 1 FROM medusa_api.inbox WHERE state <> 'handled'")
        assert party.agreements.verify_audit() is None
