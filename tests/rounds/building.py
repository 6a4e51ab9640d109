"""Participants that trade: homes with load, a declared cost, contracts in force, and ticks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from medusa_core.commits import Cause, Commit, Lane, LeaseKey, OutputSegment
from medusa_core.grid import Range
from medusa_core.loads import LoadKey, LoadSample, Shares
from medusa_core.market.documents import document_of
from medusa_core.market.terms import ContractName, PriceRange, Terms
from medusa_core.names import FIRST_EPOCH, Participant, StreamName
from medusa_core.network import Aggregate, Network, Output, Source
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from pipelines.language.check import check_network, fragments_for
from pipelines.market.rounds.round_tick import MarketTick, MarketWorker
from pipelines.market.sync.contract_sync import settle
from pipelines.spark.deployment import deployment_of, plan_of
from tests.agreements.backups import in_time
from tests.agreements.building import ALPHA, BETA, DAY_MS, GAMMA, Party, a_movement, some_terms
from tests.agreements.homes import HomeConnections, Watchers, parties_in
from tests.catalog import building as a

__all__ = ["ALPHA", "BETA", "GAMMA"]
PERIOD_MS = 60_000
PARTS = 24
OFFERS = """SELECT round, is_own, partner, state, level, items, coalesce(accepted, 0), relays
    FROM medusa_api.offers ORDER BY offer_id"""
MOVES = """SELECT is_given, partner, fragment, state FROM medusa_api.agreed_moves
    ORDER BY fragment, move_id"""
REFUSED = "SELECT reason FROM medusa_api.inbox WHERE state = 'refused' ORDER BY envelope_id"
COST = """INSERT INTO medusa_api.cost (kind, capacity, scale, threshold, currency)
    VALUES ('queue', %s, 1, %s, 'EUR')"""


@dataclass
class Trader:
    """A party with load; `watcher` is a superuser on its home."""

    party: Party
    watcher: Engine
    worker: MarketWorker = field(init=False)
    parts: dict[str, float] = field(default_factory=dict)
    network: str = "trade"
    _samples: int = 0

    def __post_init__(self) -> None:
        self.name = self.party.name
        self.rounds = self.party.connections.rounds
        self.catalog = self.party.connections.catalog
        self.sql = self.party.sql
        self.restart()
        fragments = {f"trade/f{at}": ((a.SRC,), ()) for at in range(PARTS)}
        self.catalog.deploy(
            a.a_deployment(fragments={a.LANDING: ((), (a.SRC,))} | fragments, assignments=())
        )

    def restart(self) -> None:
        """Another program of the same participant: what the one before had in memory is gone."""
        self.party.contract_sync = self.party.a_contract_sync()
        self.worker = self.another()

    def another(self) -> MarketWorker:
        """The worker of another loop of the same participant."""
        agreements = self.party.agreements
        return MarketWorker(
            self.party.a_contract_sync(), agreements, self.rounds, self.party.told.append
        )

    def declares(self, capacity: float, threshold: float) -> None:
        """The owner says what load costs: rho / (1 - rho)."""
        self.sql(COST, capacity, threshold)

    def carries(self, parts: Mapping[str, float] | None = None) -> None:
        """Its load over the last minute, by fragment, as its loop would have recorded it."""
        self.parts = dict(parts) if parts is not None else self.parts
        self._samples += 1
        by_key = {
            LoadKey(f"{self.network}/{name}", 0, Cause.NORMAL): round(load * PERIOD_MS * 1_000)
            for name, load in self.parts.items()
        }
        # The minute before is forgotten: a test may take longer than its load is remembered.
        self.in_time(FORGET)
        self.catalog.record_load(
            LoadSample(
                driver="a test", number=self._samples, lane=Lane.LIVE, length_ms=PERIOD_MS,
                shares=Shares(by_key=by_key),
            )
        )  # fmt: skip

    def opens(self) -> MarketTick:
        """A tick in which it opens a round."""
        self.carries()
        return self.worker.tick(opens="a test")

    def answers(self) -> MarketTick:
        """A tick in which it opens none, unless it has never had one."""
        self.carries()
        return self.worker.tick()

    def in_time(self, statement: str) -> None:
        """Let time pass for rows: an update that no role of the home may make."""
        in_time(self.watcher, statement)

    def offers(self) -> list[tuple[Any, ...]]:
        return self.sql(OFFERS, role="job")

    def moves(self) -> list[tuple[Any, ...]]:
        return self.sql(MOVES, role="job")

    def refused(self) -> list[str]:
        return [reason for (reason,) in self.sql(REFUSED)]


def computed(
    catalog: Catalog, name: str, fragments: Sequence[str], folder: Path, buckets: int = 3
) -> None:
    """A home lands a source and has computed some buckets of NAME/FRAGMENT for each of these names:
    fragments that may move."""
    source, width_us = f"seen_{name}", 10_000_000
    network = Network(
        name=name,
        sources=(Source(name=source, columns={"at_us": "bigint", "host": "string"}, time="at_us"),),
        boxes=tuple(
            Aggregate(name=box, input=source, size="10s", group_by=("host",),
                      columns={"n": "count(*)"}, fragment=box)
            for box in fragments
        ),
        outputs=tuple(Output(name=f"{name}_{box}", input=box) for box in fragments),
    )  # fmt: skip
    checked = check_network(network)
    plan = plan_of(network, checked, width_us, folder)
    here = Producer(catalog.participant)
    catalog.deploy(deployment_of(plan, checked, fragments_for(checked), here))
    streams = {f"landing/{source}": source} | {
        f"{name}/{box}": f"{name}_{box}" for box in fragments
    }
    for fragment, stream in streams.items():
        key = LeaseKey(fragment=fragment, producer=here)
        lease = catalog.acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)
        segment = OutputSegment(
            stream=StreamName(stream), range=Range(0, buckets * width_us),
            stability=Stability.STABLE,
        )  # fmt: skip
        catalog.commit(Commit(lease=lease, plan=plan.id, cause=Cause.NORMAL, segments=(segment,)))


LASTS = "UPDATE medusa_market.load_sample SET ended_at = ended_at + interval '1 hour'"
"""Load is remembered for longer than a test may take."""
FORGET = "DELETE FROM medusa_market.load_part; DELETE FROM medusa_market.load_sample"
OFFER_IS_OVER = "UPDATE medusa_market.open_offer SET expires_at = clock_timestamp()"
MOVES_ARE_OVER = "UPDATE medusa_market.agreed_move SET expires_at = clock_timestamp()"
Traders = Mapping[Participant, Trader]
MakeTrader = Callable[[Participant], Trader]


def traders_in(homes: HomeConnections, watchers: Watchers) -> Traders:
    """A trader in each home, which is emptied before; they have agreed on nothing."""
    parties = parties_in(homes, watchers)
    return {name: Trader(party, watchers[name]) for name, party in parties.items()}


def parts(count: int, load: float = 0.1) -> dict[str, float]:
    """So many fragments of that load each."""
    return {f"f{at}": load for at in range(count)}


def a_price(low: str, high: str | None = None, step: str = "1") -> PriceRange:
    return PriceRange(low=Decimal(low), high=Decimal(high or low), step=Decimal(step))


def agree_on(
    payer: Trader, provider: Trader, price: PriceRange, name: str = "spare", **changes: Any
) -> Terms:
    """A contract of both, in force in both homes."""
    terms = some_terms(
        contract=ContractName(name), payer=payer.name, provider=provider.name,
        subject=a_movement(**({"price": price, "load_max": Decimal(10)} | changes)),
    )  # fmt: skip
    for trader in (payer, provider):
        trader.party.agreements.propose(document_of(terms), "a test")
    settle(trader.party.contract_sync for trader in (payer, provider))
    for trader in (payer, provider):
        trader.party.agreements.open_round(0, "a test")
    return terms


def until_quiet(*traders: Trader, ticks_max: int = 20) -> None:
    """Turns of all, without new rounds, until nobody has anything to say."""
    for _ in range(ticks_max):
        if all([trader.answers().is_idle for trader in traders]):  # noqa: C419 - each has its turn
            return
    raise AssertionError("they never come to rest")


def a_round(*traders: Trader) -> None:
    """Each opens a round and hears what is said to it."""
    for trader in traders:
        trader.opens()
    until_quiet(*traders)
