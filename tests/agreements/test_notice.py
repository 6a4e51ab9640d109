"""When a contract ends: the earliest notice of full length, and nobody puts off the other's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from medusa_core.market.agreements import ends_statement
from medusa_core.market.envelopes import EnvelopeKind, statement_bytes
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant
from pipelines.market.sync.contract_sync import settle
from tests.agreements.backups import Backups, in_time
from tests.agreements.building import (
    ALPHA,
    BETA,
    DAY_MS,
    INSERT,
    SPARE,
    Party,
    SqlRefused,
    a_key,
    agree,
)
from tests.agreements.test_envelopes import an_envelope, inbox, put
from tests.sweeps import long_but

DELETE = "DELETE FROM medusa_api.contract"
YEARS_MS = 100 * 365 * DAY_MS


def ends_ms(party: Party) -> int | None:
    rows = party.sql("SELECT ends_at FROM medusa_api.contract")
    found = rows[0][0] if rows else None
    return None if found is None else round(found.timestamp() * 1_000)


def a_notice(giver: Participant, teller: Participant, ends_at_ms: int) -> dict[str, Any]:
    stated = statement_bytes(ends_statement(ContractName(SPARE), giver, ends_at_ms))
    return {
        "given_by": giver,
        "stated_by": teller,
        "ends_at_ms": ends_at_ms,
        "signature": a_key(teller).sign(stated).hex(),
    }


def send_notice(sender: Party, receiver: Party, *statements: dict[str, Any]) -> tuple[Any, ...]:
    """Send statements in an envelope made by hand; its state and the reason."""
    body = json.dumps({"contract": SPARE, "statements": statements}).encode()
    envelope = an_envelope(
        sender,
        body,
        kind=EnvelopeKind.NOTICE,
        sender=sender.name,
        receiver=receiver.name,
        key=a_key(sender.name),
    )
    put(sender, receiver, envelope)
    receiver.contract_sync.tick()
    return inbox(receiver)[-1]


def test_a_partner_cannot_put_off_a_notice_that_it_was_given(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    alpha.sql(DELETE)
    settle((alpha.contract_sync, beta.contract_sync))
    ends = ends_ms(alpha)
    assert ends == ends_ms(beta) is not None
    # A notice of its own that ends in a hundred years.
    assert send_notice(beta, alpha, a_notice(BETA, BETA, YEARS_MS + ends)) == ("handled", "")
    assert ends_ms(alpha) == ends
    # It says that it has heard of alpha's only then; or again and again a little later.
    state, reason = send_notice(beta, alpha, a_notice(ALPHA, BETA, YEARS_MS + ends))
    assert (state, "later than it has to" in reason) == ("refused", True)
    for hours in (1, 2, 3):
        send_notice(beta, alpha, a_notice(ALPHA, BETA, ends + hours * 600_000))
    assert ends_ms(alpha) == ends
    settle((alpha.contract_sync, beta.contract_sync))
    assert ends_ms(alpha) == ends_ms(beta) == ends


def test_a_partner_hears_of_no_notice_that_nobody_has_given(alpha: Party, beta: Party) -> None:
    """As medusa_market.take_notice refuses it."""
    agree(alpha, beta)
    ((now_ms,),) = alpha.sql("SELECT medusa.to_ms(clock_timestamp())")
    state, reason = send_notice(beta, alpha, a_notice(ALPHA, BETA, now_ms + 2 * DAY_MS))
    assert state == "refused"
    assert "nobody has given notice of contract spare_load as beta says" in reason
    assert ends_ms(alpha) is None


@pytest.mark.long(quick=True)
def test_a_partner_that_waits_until_its_giver_has_forgotten_when_it_came_puts_off_nothing(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    agree(alpha, beta)
    settle((alpha.contract_sync, beta.contract_sync))
    alpha.sql(DELETE)
    alpha.contract_sync.tick()
    alpha.contract_sync.tick()
    ends = ends_ms(alpha) or 0
    # Five hours go by, in which beta says nothing; alpha keeps house.
    in_time(
        watchers[ALPHA],
        "UPDATE medusa_market.outbox SET acknowledged_at = acknowledged_at - interval '5 h'",
    )
    alpha.agreements.tidy()
    state, reason = send_notice(beta, alpha, a_notice(ALPHA, BETA, ends + 5 * 3_600_000))
    assert (state, "later than it has to" in reason) == ("refused", True)
    assert ends_ms(alpha) == ends


@pytest.mark.long(quick=True)
def test_a_partner_says_only_so_often_when_a_contract_ends(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    ((now_ms,),) = beta.sql("SELECT medusa.to_ms(clock_timestamp())")
    later = [a_notice(ALPHA, ALPHA, now_ms + YEARS_MS + at) for at in range(17)]
    assert send_notice(alpha, beta, *later[:16]) == ("handled", "")
    ends = ends_ms(beta)
    state, reason = send_notice(alpha, beta, later[16])
    assert (state, "no more is taken" in reason) == ("refused", True)
    assert ends_ms(beta) == ends


@pytest.mark.long(quick=True)
def test_of_two_notices_the_earlier_counts_in_both_homes(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    beta.sql(DELETE)
    alpha.sql(DELETE)
    first = ends_ms(beta)
    settle((alpha.contract_sync, beta.contract_sync))
    assert ends_ms(alpha) == ends_ms(beta)
    assert abs((ends_ms(alpha) or 0) - (first or 0)) < 60_000


def test_a_notice_runs_in_full_from_when_it_came(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    agree(alpha, beta)
    ((now_ms,),) = beta.sql("SELECT medusa.to_ms(clock_timestamp())")
    # It was written long ago, or pretends to: it is not over before its day has run.
    assert send_notice(alpha, beta, a_notice(ALPHA, ALPHA, now_ms - DAY_MS)) == ("handled", "")
    assert 0 <= (ends_ms(beta) or 0) - (now_ms + DAY_MS) < 60_000


@pytest.mark.long(quick=True)
def test_a_notice_that_overtakes_its_agreement_is_kept_and_holds_up_nothing(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    alpha.sql(INSERT)
    beta.sql(INSERT)
    settle((beta.contract_sync,))
    alpha.post.cut.add(beta.name)
    alpha.contract_sync.tick()
    in_time(watchers[alpha.name], "DELETE FROM medusa_market.outbox WHERE acknowledged_at IS NULL")
    alpha.post.cut.clear()
    alpha.sql(DELETE)
    alpha.contract_sync.tick()
    beta.contract_sync.tick()
    assert inbox(beta)[-1] == ("handled", "")
    assert beta.shows()[0] == "proposed"
    settle((alpha.contract_sync, beta.contract_sync))
    assert beta.shows()[0] == alpha.shows()[0] == "agreed"
    assert ends_ms(alpha) == ends_ms(beta) is not None


def test_notices_without_a_contract_are_bounded(alpha: Party, beta: Party) -> None:
    for at in range(4):
        statements = [a_notice(ALPHA, ALPHA, at * 100 + n) for n in range(16)]
        assert send_notice(alpha, beta, *statements)[0] == "handled"
    state, reason = send_notice(alpha, beta, a_notice(ALPHA, ALPHA, 5_000))
    assert (state, "no more is taken" in reason) == ("refused", True)
    assert ends_ms(beta) is None
    # They bind nobody who has not agreed, and do not keep anybody from agreeing.
    beta.sql(INSERT)


@pytest.mark.parametrize("who", long_but(1, ["alpha", "beta"], quick=True))
def test_a_home_that_was_set_back_learns_of_notice_again_as_it_was(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine], who: str
) -> None:
    backups = Backups(watchers)
    agree(alpha, beta)
    settle((alpha.contract_sync, beta.contract_sync))
    lost = alpha if who == "alpha" else beta
    backups.back_up(lost.name)
    alpha.sql(DELETE)
    settle((alpha.contract_sync, beta.contract_sync))
    ends = ends_ms(alpha)
    backups.restore(lost.name)
    assert ends_ms(lost) is None
    for party in (alpha, beta):
        party.agreements.send_statuses()
        settle((alpha.contract_sync, beta.contract_sync))
    assert ends_ms(alpha) == ends_ms(beta) == ends


def test_notice_is_given_once(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    alpha.sql(DELETE)
    with pytest.raises(SqlRefused, match="by notice already"):
        alpha.sql(DELETE)
