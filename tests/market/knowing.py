"""Knowledge of one participant made by hand: loads are in hundredths, as whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from medusa_core.market.costs import CostFunction, Queue
from medusa_core.market.knowledge import (
    CarriedLoad,
    ContractInForce,
    LastAnswer,
    MarketKnowledge,
    MarketLimits,
    PayerStatus,
    ProviderStatus,
    ReceivedOffer,
)
from medusa_core.market.messages import Item, LoadHeadroom, Nonce, Offer
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import FragmentName, Participant

NONCE = Nonce("5e" * 16)
REVISION = Revision("a1" * 32)


def an_item(number: int, load: float = 0.01) -> Item:
    return Item(FragmentName("counts"), number, load)


def a_contract(
    name: str,
    prices: Sequence[float] = (25.0,),
    *,
    payer: str = "home",
    provider: str = "home",
    load_max: float = inf,
    fragments: frozenset[FragmentName] | None = None,
) -> ContractInForce:
    return ContractInForce(
        name=ContractName(name),
        revision=REVISION,
        payer=Participant(payer),
        provider=Participant(provider),
        prices=tuple(prices),
        load_max=load_max,
        fragments=fragments,
    )


def paying(
    name: str,
    prices: Sequence[float] = (25.0,),
    *,
    rooms: Sequence[tuple[int, float]] | None = None,
    load_max: float = inf,
    fragments: frozenset[FragmentName] | None = None,
    **status: object,
) -> PayerStatus:
    """A contract of the participant `home` as payer; `rooms` as the provider told them."""
    contract = a_contract(name, prices, provider=name, load_max=load_max, fragments=fragments)
    told = None if rooms is None else LastAnswer(tuple(LoadHeadroom(*room) for room in rooms), 0)
    return PayerStatus(contract=contract, last_answer=told, **status)  # type: ignore[arg-type]


def providing(
    name: str, prices: Sequence[float] = (25.0,), *, load_max: float = inf, **status: object
) -> ProviderStatus:
    contract = a_contract(name, prices, payer=name, load_max=load_max)
    return ProviderStatus(contract=contract, **status)  # type: ignore[arg-type]


def an_offer(
    name: str,
    items: Sequence[Item],
    *,
    level: int = 0,
    for_overload: bool = True,
    revision: Revision = REVISION,
    since_round: int = 1,
) -> ReceivedOffer:
    offer = Offer(
        contract=ContractName(name),
        revision=revision,
        nonce=NONCE,
        round=1,
        level=level,
        items=tuple(items),
        for_overload=for_overload,
    )
    return ReceivedOffer(offer, since_round)


def knowing(
    items: Sequence[Item],
    *,
    background: float = 0.0,
    threshold: float = 0.8,
    cost: CostFunction | None = None,
    as_payer: Sequence[PayerStatus] = (),
    as_provider: Sequence[ProviderStatus] = (),
    received: Sequence[ReceivedOffer] = (),
    since_ms: int = 0,
    clock_ms: int = 0,
    taken_under: str | None = None,
    limits: MarketLimits | None = None,
) -> MarketKnowledge:
    """Of a participant with the cost rho / (1 - rho), unless another is given."""
    under = None if taken_under is None else ContractName(taken_under)
    return MarketKnowledge(
        participant=Participant("home"),
        round=1,
        nonce=NONCE,
        clock_ms=clock_ms,
        cost=cost or Queue(1.0),
        threshold=threshold,
        capacity=1.0,
        load=background + sum(item.load for item in items),
        carried=tuple(CarriedLoad(item, under, since_ms) for item in items),
        as_payer=tuple(as_payer),
        as_provider=tuple(as_provider),
        received=tuple(received),
        limits=limits or MarketLimits(),
    )
