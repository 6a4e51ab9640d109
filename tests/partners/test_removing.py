"""A partner that is removed is refused within a second, whatever it is doing."""

from __future__ import annotations

import time

import pytest

from medusa_core.errors import MedusaError, Refused
from medusa_core.names import Participant
from pipelines.operations.partner_management import remove_partner
from pipelines.participant.home_session import open_session
from tests.partners.offices import Office
from tests.partners.test_joining import accepted, invited, is_answered, joined
from tests.waiting import until

REFUSED_S_MAX = 1.0
"""A promised bound; it is looked at five times as long, since this machine may stand still."""

ALPHA = Participant("alpha")


def test_a_removed_partner_is_refused_and_may_be_invited_again(
    offices: tuple[Office, Office],
) -> None:
    alpha, beta = offices
    joined(offices)
    with open_session(beta.settings, beta.participant) as session:
        session.exchange.health(ALPHA)
        assert remove_partner(alpha.settings, None, "beta") == "beta"
        removed_s = time.monotonic()

        def is_refused() -> bool:
            try:
                session.exchange.health(ALPHA)
            except MedusaError:
                return True
            return False

        until(is_refused, "beta is refused", 5 * REFUSED_S_MAX)
        assert time.monotonic() - removed_s < 5 * REFUSED_S_MAX
        with pytest.raises(Refused, match="not signed with the key of a partner"):
            session.exchange.health(ALPHA)
    assert alpha.sql("SELECT count(*) FROM medusa_market.access_token") == [(0,)]
    assert not is_answered(alpha, "beta")
    with pytest.raises(Refused, match="there is no partner 'beta' here"):
        remove_partner(alpha.settings, None, "beta")
    accepted(beta, invited(alpha))
    assert is_answered(beta, "alpha")
    assert is_answered(alpha, "beta")


@pytest.mark.long
def test_a_request_that_waits_is_over_when_its_partner_is_removed(
    offices: tuple[Office, Office],
) -> None:
    alpha, beta = offices
    joined(offices)
    with open_session(beta.settings, beta.participant) as session:
        key, lines = session.exchange.progress(ALPHA)
        assert lines == ()
        news: list[int] = []
        end = session.exchange.watch(ALPHA, lambda: news.append(1))
        try:
            until(lambda: news, "the first answer has come")
            remove_partner(alpha.settings, None, "beta")
            began_s = time.monotonic()
            with pytest.raises(MedusaError):
                session.exchange.progress(ALPHA, key, 25_000)
            assert time.monotonic() - began_s < 5 * REFUSED_S_MAX
        finally:
            end()


def test_an_invitation_is_removed_too_and_a_stranger_is_refused(
    offices: tuple[Office, Office],
) -> None:
    alpha, beta = offices
    code = invited(alpha)
    remove_partner(alpha.settings, None, "beta")
    with pytest.raises(Refused, match="is over"):
        accepted(beta, code)
    with pytest.raises(Refused, match="there is no partner 'gamma' here"):
        remove_partner(alpha.settings, None, "gamma")


@pytest.mark.long
def test_applying_contracts_does_not_bring_a_removed_partner_back(
    offices: tuple[Office, Office],
) -> None:
    alpha, _ = offices
    joined(offices)
    alpha.run("partner", "export", "beta")
    remove_partner(alpha.settings, None, "beta")
    ended = alpha.run("apply")
    assert ended.returncode == 0, ended.stderr
    printed = ended.stdout + ended.stderr
    assert "beta was removed from the home of alpha and stays removed" in printed
    assert alpha.state_of("beta") == "removed"
    invited(alpha)
    assert alpha.run("apply").returncode == 0
    assert alpha.state_of("beta") == "invited"
    alpha.sql("UPDATE medusa_market.invitation SET invited_at = now() - interval '2 days', "
              "expires_at = now() - interval '1 second'")  # fmt: skip
    assert alpha.run("apply").returncode == 0
    assert alpha.state_of("beta") == "removed"
