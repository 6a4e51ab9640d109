"""One partner that is slow or away holds up no other, and is left alone for longer each time."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import pytest
from sqlalchemy import Engine, text

from medusa_core.errors import Unavailable
from medusa_core.market.envelopes import CLOCK_MS_MAX, Envelope, EnvelopeKind
from medusa_core.names import Participant
from pipelines.market.sync.contract_sync import LASTS_MS, ContractSync
from tests.agreements.building import ALPHA, INSERT, Party

PAUSES = "SELECT partner, failed, problem FROM medusa_market.delivery_pause"
TRIES_MS = "SELECT medusa.to_ms(tries_at) FROM medusa_market.delivery_pause"
NOW_MS = "SELECT medusa.to_ms(clock_timestamp())"


@pytest.fixture
def asked(alpha: Party) -> Party:
    """Alpha has something to say to beta, and to gamma."""
    alpha.sql(INSERT)
    alpha.sql(INSERT.replace("'beta'", "'gamma'").replace("'spare_load'", "'other'"))
    return alpha


def test_partners_are_sent_to_side_by_side(asked: Party, beta: Party, gamma: Party) -> None:
    gamma_has_its_own = Event()

    class Slow:
        """Beta, who comes first, answers once gamma has been sent to."""

        def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
            if partner == beta.name and not gamma_has_its_own.wait(60):
                raise Unavailable("gamma was never sent to")
            answers = asked.post.deliver(partner, envelopes)
            if partner == gamma.name:
                gamma_has_its_own.set()
            return answers

        def close(self) -> None:
            pass

    contract_sync = ContractSync(asked.agreements, lambda: asked.key, Slow(), asked.told.append)
    assert (contract_sync.tick().sent, asked.told) == (2, [])


@pytest.mark.long(quick=True)
def test_who_is_away_is_left_alone_for_twice_as_long_each_time_and_others_are_sent_to(
    asked: Party, beta: Party, gamma: Party, watchers: dict[Participant, Engine]
) -> None:
    asked.post.cut.add(beta.name)
    contract_sync = asked.a_contract_sync(to_all=False, draw_jitter=lambda: 0.5)
    ((before_ms,),) = asked.sql(NOW_MS)
    result = contract_sync.tick()
    assert (result.sent, result.waiting) == (1, 1)
    gamma.contract_sync.tick()
    assert gamma.shows("other")[0] == "requested"
    for failed in range(1, 9):
        assert asked.sql(PAUSES) == [("beta", failed, "beta is cut off")]
        ((tries_ms,),), ((after_ms,),) = asked.sql(TRIES_MS), asked.sql(NOW_MS)
        # It was counted from some instant of the tick, however long that took.
        wait_ms = min(2 ** (failed - 1), 60) * 1_000
        assert before_ms + wait_ms <= tries_ms <= after_ms + wait_ms
        with watchers[ALPHA].connect() as connection:
            connection.execute(text("UPDATE medusa_market.delivery_pause SET tries_at = now()"))
        contract_sync = asked.a_contract_sync(to_all=False, draw_jitter=lambda: 0.5)
        ((before_ms,),) = asked.sql(NOW_MS)
        contract_sync.tick()

    tried = len(asked.told)
    assert contract_sync.tick().is_idle
    assert len(asked.told) == tried, "it is not tried before"
    asked.post.cut.clear()
    beta.agreements.put(asked.name, EnvelopeKind.OFFER, "a sign of life", b"{}")
    beta.contract_sync.tick()
    contract_sync.tick()
    assert asked.sql(PAUSES) == [], "who is heard of is sent to again"
    beta.contract_sync.tick()
    assert beta.shows()[0] == "requested"


def test_offers_are_good_for_some_rounds_and_documents_for_days(alpha: Party, beta: Party) -> None:
    alpha.sql(INSERT)
    alpha.agreements.put(beta.name, EnvelopeKind.OFFER, "an offer", b"{}")
    alpha.contract_sync.tick()
    lasts = {e.kind: e.expires_at_ms - e.sent_at_ms for e in alpha.post.seen}
    assert lasts == {
        EnvelopeKind.DOCUMENT: LASTS_MS,
        EnvelopeKind.OFFER: CLOCK_MS_MAX + 4 * 60_000,
    }
    beta.contract_sync.tick()
    kept = "SELECT count(*) FROM medusa_api.inbox WHERE kind = 'offer'"
    assert beta.sql(kept) == [(1,)]


def test_what_has_arrived_is_not_kept_twice(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    alpha.sql(INSERT)
    alpha.agreements.put(beta.name, EnvelopeKind.OFFER, "an offer", b"{}")
    alpha.contract_sync.tick()
    kept = "SELECT kind, length(body) FROM medusa_market.outbox ORDER BY kind"
    assert alpha.sql(kept) == [("document", 0), ("offer", 0)]
    with watchers[ALPHA].connect() as connection:
        connection.execute(
            text("UPDATE medusa_market.outbox SET acknowledged_at = now() - interval '2 hours'")
        )
    alpha.agreements.tidy()
    assert alpha.sql(kept) == [("document", 0)], "a proposal may be taken back yet"
