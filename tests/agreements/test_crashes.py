"""A tick cut short between any two of its numbers is repeated: nothing is lost or done twice."""

from __future__ import annotations

import pytest

from pipelines.base.failpoints import AGREEMENT_POINTS, visited_by
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import INSERT, Party
from tests.sweeps import long_but

AGREED = "SELECT revision, number FROM medusa_api.contract_history"
SIGNED = "SELECT revision, party FROM medusa_market.contract_signature ORDER BY 1, 2"


class Killed(BaseException):
    """The program is gone; what it held in memory is, too."""


def made_until_quiet(alpha: Party, beta: Party, point: str, passes: int) -> int:
    """Turns of both, each killed at the given pass of a point; how often a point was reached."""
    reached = 0

    def visit(name: str) -> None:
        nonlocal reached
        if name == point:
            reached += 1
            if reached == passes:
                raise Killed

    with visited_by(visit):
        for _ in range(12):
            for party in (alpha, beta):
                try:
                    party.contract_sync.tick()
                except Killed:
                    party.contract_sync = party.a_contract_sync()
    settle((alpha.contract_sync, beta.contract_sync))
    return reached


@pytest.mark.parametrize("point", long_but(1, AGREEMENT_POINTS, quick=True))
def test_a_tick_that_is_killed_anywhere_is_repeated(alpha: Party, beta: Party, point: str) -> None:
    for passes in (1, 2):
        name = f"after_{passes}"
        for party in (alpha, beta):
            party.sql(
                INSERT.replace("'spare_load'", f"'{name}'")
                .replace("hold_ms_max)", "hold_ms_max, fragments)")
                .replace("0.5, 86400000)", f"0.5, 86400000, '{{f{passes}}}')")
            )
        assert made_until_quiet(alpha, beta, point, passes) >= passes, "it was killed there"
        assert alpha.shows(name)[0] == beta.shows(name)[0] == "agreed"
    for party in (alpha, beta):
        assert len(party.sql(AGREED)) == 2
        assert party.agreements.verify_audit() is None
        audited = party.sql(
            "SELECT what, subject FROM medusa_api.audit WHERE what IN ('signed', 'proposed', "
            "'told', 'agreed')"
        )
        agreed = [line for line in audited if line == ("agreed", "after_1")]
        assert sum(line == ("signed", "after_1") for line in audited) == 1
        assert len(agreed) >= 1
        assert not party.sql("SELECT FROM medusa_api.outbox WHERE acknowledged_at IS NULL")
    assert alpha.sql(AGREED) == beta.sql(AGREED)
    assert alpha.sql(SIGNED) == beta.sql(SIGNED)


def test_a_partner_that_is_away_is_waited_for_and_holds_up_no_other(
    alpha: Party, beta: Party, gamma: Party
) -> None:
    alpha.post.cut.add(beta.name)
    alpha.sql(INSERT)
    alpha.sql(INSERT.replace("'beta'", "'gamma'").replace("'spare_load'", "'other'"))
    beta.sql(INSERT)
    settle((alpha.contract_sync, gamma.contract_sync))
    assert gamma.shows("other")[0] == "requested"
    ((problem,),) = alpha.sql("SELECT problem FROM medusa_api.outbox WHERE receiver = 'beta'")
    assert problem == "beta is cut off"
    result = alpha.contract_sync.tick()
    assert (result.is_idle, result.waiting) == (True, 1)
    alpha.post.cut.clear()
    settle((alpha.contract_sync, beta.contract_sync))
    assert alpha.shows()[0] == beta.shows()[0] == "agreed"


def test_a_message_that_expired_unsent_is_sealed_again(alpha: Party, beta: Party) -> None:
    alpha.post.cut.add(beta.name)
    alpha.contract_sync = alpha.a_contract_sync(lasts_ms=1)
    alpha.sql(INSERT)
    nonces = {alpha.sql("SELECT nonce FROM medusa_market.outbox")[0][0] for _ in range(2) if (
        alpha.contract_sync.tick())}  # fmt: skip
    assert len(nonces) == 2
    alpha.contract_sync = alpha.a_contract_sync()
    alpha.post.cut.clear()
    settle((alpha.contract_sync, beta.contract_sync))
    assert beta.shows()[0] == "requested"


def test_an_idle_tick_is_one_query(alpha: Party) -> None:
    assert not alpha.agreements.has_pending()
    assert alpha.contract_sync.tick().is_idle
