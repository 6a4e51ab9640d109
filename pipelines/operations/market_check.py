"""A check of the market over the homes of a folder: is the allocation of load acceptable?

It reads what each home decides by, and the load that payers have stated beside what their
providers meter. Nothing is changed or sent; homes of other folders are not seen.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.loads import WINDOW_MS, load_of
from medusa_core.market.allocation import Allocation, allocation_of, is_misstated
from medusa_core.market.messages import Nonce
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.rounds import open_postgres_rounds
from pipelines.catalog.round_store import MarketFacts
from pipelines.homes.home import home_server, known_homes
from pipelines.market.rounds.round_knowledge import knowledge_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TraderStatus:
    """A participant as it decides now: its load, its threshold, and the marginal cost there.

    `given` and `taken` are the loads that are computed by and for partners.
    """

    participant: Participant
    load: float
    threshold: float
    marginal_cost: float
    currency: str
    given: float
    taken: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MisstatedLoad:
    """A fragment whose load its provider meters otherwise than its payer has stated."""

    provider: Participant
    contract: ContractName
    fragment: str
    stated: float
    metered: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketCheck:
    """The answer; `undeclared` have not said what load costs them, and are left out."""

    traders: tuple[TraderStatus, ...]
    undeclared: tuple[Participant, ...]
    misstated: tuple[MisstatedLoad, ...]
    allocation: Allocation


def check_market(settings: Settings) -> MarketCheck:
    """Check the homes of the folder; Refused if none of them has declared what load costs."""
    traders: list[TraderStatus] = []
    undeclared: list[Participant] = []
    reported: list[MisstatedLoad] = []
    for participant in sorted(known_homes(settings.directory)):
        with (
            home_server(settings, participant) as server,
            closing(open_postgres_rounds(server.login_url("job"), participant)) as rounds,
        ):
            facts = rounds.read()
        status = trader_status(facts)
        if status is None:
            undeclared.append(participant)
            continue
        traders.append(status)
        reported += misstated(facts)
    if not traders:
        raise Refused(
            "no participant of this folder has declared what load costs: INSERT INTO "
            "medusa_api.cost (docs/load.md)"
        )
    return MarketCheck(
        traders=tuple(traders),
        undeclared=tuple(undeclared),
        misstated=tuple(reported),
        allocation=allocation_of([t.load for t in traders], [t.threshold for t in traders]),
    )


def trader_status(facts: MarketFacts) -> TraderStatus | None:
    """What a home decides by; None if it has not declared what load costs."""
    known = knowledge_of(facts, Nonce("0" * 32))
    if known is None or facts.declared is None:
        return None
    return TraderStatus(
        participant=facts.participant,
        load=known.load,
        threshold=known.threshold,
        marginal_cost=known.cost.slope(known.load),
        currency=facts.declared.currency,
        given=sum(moved.item.load for moved in known.moved if moved.is_given),
        taken=sum(moved.item.load for moved in known.moved if not moved.is_given),
    )


def misstated(facts: MarketFacts) -> list[MisstatedLoad]:
    """What this home meters of what it has taken, where it is not what was stated."""
    load = load_of(facts.loads, facts.clock_ms)
    if load is None:
        return []
    found = []
    for placed in facts.placed:
        moved, stated = placed.moved, placed.moved.item.load
        is_new = facts.clock_ms - moved.since_ms < WINDOW_MS
        if moved.is_given or placed.of is None or placed.has_returned or is_new or not stated:
            continue
        metered = load.of(placed.of, moved.item.partition)
        if is_misstated(stated, metered):
            found.append(
                MisstatedLoad(
                    provider=facts.participant,
                    contract=moved.contract,
                    fragment=moved.item.fragment,
                    stated=stated,
                    metered=metered,
                )
            )
    return found
