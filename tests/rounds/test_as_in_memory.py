"""A market in memory, which the simulator plays, goes as one in Postgres does, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

import pytest

from medusa_core.commits import Cause
from medusa_core.loads import LoadKey, RecordedSample, Shares
from medusa_core.market.costs import Queue
from medusa_core.market.declared import DeclaredCost
from medusa_core.market.terms import Terms
from medusa_core.names import Participant
from pipelines.catalog.agreement_store import Agreements
from pipelines.catalog.memory.mailbox import MemoryMailbox
from pipelines.catalog.memory.rounds import MemoryRounds
from pipelines.catalog.round_store import MarketFacts, Trading
from pipelines.market.rounds.round_tick import MarketWorker
from pipelines.market.sync.contract_sync import ContractSync, SyncResult
from tests.rounds.building import (
    ALPHA,
    BETA,
    MOVES_ARE_OVER,
    OFFER_IS_OVER,
    PERIOD_MS,
    Trader,
    a_price,
    agree_on,
    parts,
)

TRADING = Trading(
    round_ms=60_000, move_ms=300_000, residence_ms=300_000, dead_band=0.004, partners_max=2
)


@dataclass
class MemoryTrader:
    """What `Trader` is over Postgres, in memory; `others` are the homes that it sends to."""

    name: Participant
    others: dict[Participant, MemoryMailbox]
    parts: dict[str, float] = field(default_factory=dict)
    now_ms: int = 1_800_000_000_000
    nonces: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.mailbox = MemoryMailbox(self.name, lambda: self.now_ms, self._nonce)
        self.others[self.name] = self.mailbox
        declared = DeclaredCost(cost=Queue(capacity=1.0), threshold=0.9, currency="EUR")
        self.rounds = MemoryRounds(self.mailbox, TRADING, declared, self._loads)
        self.worker = MarketWorker(
            cast(ContractSync, self),
            cast(Agreements, self.mailbox),
            self.rounds,
            draw_nonce=self._nonce,
        )

    def tick(self) -> SyncResult:
        """As a contract synchronisation: take the inbox, send the outbox."""
        taken = self.mailbox.read_inbox()
        sent = list(self.mailbox.outbox.items())
        for number, (_, envelope) in sent:
            self.others[envelope.receiver].take_envelope(envelope)
            del self.mailbox.outbox[number]
        return SyncResult(taken=taken, sent=len(sent))

    def carries(self, carried: Mapping[str, float] | None = None) -> None:
        self.parts = dict(carried) if carried is not None else self.parts

    def opens(self) -> None:
        self.worker.tick(opens="a test")

    def answers(self) -> None:
        self.worker.tick()

    def in_time(self, what: str) -> None:
        tables = self.rounds.tables
        if what == OFFER_IS_OVER:
            tables.open = {at: (self.now_ms, stale) for at, (_, stale) in tables.open.items()}
        else:
            tables.moves = {
                at: replace(move, expires_at_ms=self.now_ms) for at, move in tables.moves.items()
            }

    def _nonce(self) -> str:
        return f"{self.name.encode()[0]:02x}{next(self.nonces):030x}"

    def _loads(self) -> tuple[RecordedSample, ...]:
        by_key = {
            LoadKey(f"trade/{name}", 0, Cause.NORMAL): round(load * PERIOD_MS * 1_000)
            for name, load in self.parts.items()
        }
        from_ms = self.now_ms - PERIOD_MS
        return (RecordedSample(from_ms=from_ms, to_ms=self.now_ms, shares=Shares(by_key=by_key)),)


def in_memory(*agreed: Terms) -> dict[Participant, MemoryTrader]:
    """The parties of these contracts, who have agreed on them."""
    others: dict[Participant, MemoryMailbox] = {}
    found: dict[Participant, MemoryTrader] = {}
    for terms in agreed:
        for name in terms.parties:
            trader = found.get(name) or found.setdefault(name, MemoryTrader(name, others))
            trader.mailbox.agree(terms)
    for trader in found.values():
        trader.mailbox.open_round(0)
    return found


def known(facts: MarketFacts) -> dict[str, Any]:
    """What both must say alike: all but clocks, nonces and numbers of rows."""
    return {
        "round": (facts.round, facts.decided_round),
        "contracts": [(c.name, c.revision, c.prices, c.load_max) for c in facts.contracts],
        "open": [
            (o.is_own, o.partner, o.relays, o.round, o.is_stale, o.offer.level, o.offer.items,
             o.offer.for_overload, o.offer.round)
            for o in facts.open
        ],
        "moves": [
            (m.is_given, m.is_granted, m.partner, m.contract, m.item, m.level, m.round)
            for m in facts.moves
        ],
        "told": {
            name: (
                told.answer.reason, told.answer.accepted, told.answer.rooms, told.round,
                told.level, told.smallest,
            )
            for name, told in facts.answers.items()
        },
        "wanted": {name: replace(w, offer="") for name, w in facts.requested_loads.items()},
        "silent": {partner: silence.asks_round for partner, silence in facts.silent.items()},
    }  # fmt: skip


@pytest.mark.long(quick=True)
def test_what_a_home_in_postgres_knows_after_each_step_one_in_memory_knows(
    alpha: Trader, beta: Trader
) -> None:
    terms = agree_on(alpha, beta, a_price("10", "14", "2"))
    stored = {ALPHA: alpha, BETA: beta}
    for trader in stored.values():
        trader.declares(1.0, 0.9)
    modelled = in_memory(terms)
    for who in (ALPHA, BETA):
        _both(stored, modelled, who, "carries", parts(9 if who == ALPHA else 3))
    seen = [
        _both(stored, modelled, who, what, *given)
        for who, what, *given in (
            (ALPHA, "opens"), (BETA, "answers"), (ALPHA, "answers"), (BETA, "opens"),
            (ALPHA, "opens"), (BETA, "answers"), (ALPHA, "answers"),
            (ALPHA, "carries", parts(12, 0.09)), (ALPHA, "opens"),
            (ALPHA, "in_time", OFFER_IS_OVER), (ALPHA, "answers"), (BETA, "answers"),
            (ALPHA, "answers"),
            (ALPHA, "opens"), (ALPHA, "opens"), (BETA, "opens"), (ALPHA, "answers"),
            (ALPHA, "in_time", MOVES_ARE_OVER), (BETA, "in_time", MOVES_ARE_OVER),
            (BETA, "answers"), (ALPHA, "opens"), (BETA, "answers"), (ALPHA, "answers"),
        )
    ]  # fmt: skip
    for of in ("open", "moves", "told", "wanted", "silent"):
        assert any(step[of] for step in seen), f"nothing was {of}"


def _both(
    stored: Mapping[Participant, Trader],
    modelled: Mapping[Participant, MemoryTrader],
    who: Participant,
    what: str,
    *given: Any,
) -> dict[str, Any]:
    """A step of one participant, in Postgres and in memory; what all know then."""
    for traders in (stored, modelled):
        getattr(traders[who], what)(*given)
    for name, trader in stored.items():
        found = known(trader.rounds.read())
        assert known(modelled[name].rounds.read()) == found, (who, what, name)
    return known(stored[who].rounds.read())
