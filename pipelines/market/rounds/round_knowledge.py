"""The market records of a home, as the knowledge that decisions are made from.

Only movable load is offered: fragments of the networks here, by the name that contracts give them
(`fragment_names`). Agreed moves count as done already, and their fragments are not offered again.
What is metered is an average over the last minute: where a move was done or has ended within it,
the fragment is where it is now all the same, with the load that was stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from medusa_core.loads import WINDOW_MS, Load, load_of
from medusa_core.market.costs import Queue
from medusa_core.market.knowledge import (
    AcceptedItems,
    CarriedLoad,
    ContractInForce,
    MarketKnowledge,
    MarketLimits,
    MovedLoad,
    PayerStatus,
    ProviderStatus,
    ReceivedOffer,
    in_order,
)
from medusa_core.market.learning import is_passed_over, last_answer_from, lowest_taken
from medusa_core.market.messages import Answer, Item, Nonce
from medusa_core.names import Participant
from pipelines.catalog.round_store import MarketFacts, OpenOffer, PlacedMove
from pipelines.market.rounds.fragment_names import Naming, called, naming_of

RELAY_ROUNDS = 1
"""An offer lapses with its payer's round: who keeps it open answers before its own next one."""

PLACES = 6
"""Loads are stated to the microsecond of CPU per second."""


def knowledge_of(
    facts: MarketFacts, nonce: Nonce, naming: Naming | None = None
) -> MarketKnowledge | None:
    """What the participant knows now; None unless its owner has declared what load costs it.

    `naming` is what fragments are called (None: as contracts in force say of what has load).
    Contracts in another currency than that are left out: their prices say nothing here.
    """
    declared = facts.declared
    if declared is None:
        return None
    load = load_of(facts.loads, facts.clock_ms)
    if naming is None:
        naming = naming_of(metered_fragments(facts), facts.contracts, facts.participant)
    carried = 0.0 if load is None else load.carried
    moves = [m for m in facts.moves if not m.is_granted]
    given = sum(m.item.load for m in moves if m.is_given) + _still_metered(load, facts)
    taken = sum(m.item.load for m in moves if not m.is_given) + _not_metered_yet(load, facts)
    known = [c for c in facts.contracts if facts.currencies[c.name] == declared.currency]
    cost = declared.cost
    placed = [(one.of, _as_carried(one, load, facts)) for one in _at_provider(facts)]
    moved, names = [one for _, one in placed], {contract.name for contract in known}
    return MarketKnowledge(
        participant=facts.participant,
        round=facts.round,
        nonce=nonce,
        clock_ms=facts.clock_ms,
        cost=cost,
        threshold=declared.threshold,
        capacity=cost.capacity if isinstance(cost, Queue) else inf,
        load=max(carried - given, 0.0) + taken,
        carried=in_order(tuple(carried_of(load, facts, naming))) if load is not None else (),
        as_payer=tuple(
            _as_payer(naming.in_words_of_here(c), facts, moved) for c in known if _may_ask(c, facts)
        ),
        as_provider=tuple(
            _as_provider(c, facts, moved) for c in known if c.provider == facts.participant
        ),
        received=tuple(
            ReceivedOffer(waiting.offer, waiting.round)
            for waiting in received(facts)
            if can_be_weighed(waiting, facts)
        ),
        taken_at=lowest_taken(_prices_taken(facts, known)),
        moved=tuple(one for of, one in placed if of and one.contract in names),
        limits=MarketLimits(
            dead_band=facts.trading.dead_band,
            residence_ms=facts.trading.residence_ms,
            partners_max=facts.trading.partners_max,
            relay_rounds=RELAY_ROUNDS,
        ),
    )


def metered_fragments(facts: MarketFacts) -> set[str]:
    """The fragments that have load now, as they are metered."""
    load = load_of(facts.loads, facts.clock_ms)
    return set() if load is None else {key.fragment for key in load.by_key}


def received(facts: MarketFacts) -> tuple[OpenOffer, ...]:
    """Partners' offers that wait for an answer."""
    return tuple(waiting for waiting in facts.open if not waiting.is_own)


def own_offer(facts: MarketFacts, answer: Answer) -> OpenOffer | None:
    """The own offer that waits for just this answer; None if none does."""
    of = (answer.contract, answer.nonce)
    waiting = (one for one in facts.open if one.is_own)
    return next((one for one in waiting if (one.offer.contract, one.offer.nonce) == of), None)


def can_be_weighed(waiting: OpenOffer, facts: MarketFacts) -> bool:
    """Whether an offer is one to decide about: not too old, under a contract in force here, in the
    currency of what load costs."""
    declared = facts.declared
    return (
        not waiting.is_stale
        and declared is not None
        and facts.currencies.get(waiting.offer.contract) == declared.currency
    )


def carried_of(load: Load, facts: MarketFacts, naming: Naming) -> Iterator[CarriedLoad]:
    """What may be named in a contract and has load, by that name."""
    leaving = {(m.item.fragment, m.item.partition) for m in facts.moves if m.is_given}
    moved = [placed.moved for placed in _at_provider(facts)]
    unmovable = facts.moving | _just_returned(facts)
    taken = {(m.item.fragment, m.item.partition): m for m in moved if not m.is_given}
    for of, partition in sorted({(key.fragment, key.partition) for key in load.by_key}):
        names = called(of)
        spent = round(load.of(of, partition), PLACES)
        if names is None or spent <= 0 or partition or of not in naming.names:
            continue
        parts = [(name, partition) for name in names]
        was = next((taken[part] for part in parts if part in taken), None)
        yield CarriedLoad(
            Item(naming.names[of], partition, spent),
            contract=None if was is None else was.contract,
            since_ms=0 if was is None else was.since_ms,
            in_flight=of in unmovable or not leaving.isdisjoint(parts),
        )


def _may_ask(contract: ContractInForce, facts: MarketFacts) -> bool:
    """Whether one may hand load over under it now: one offer to a partner at a time, none to one
    that could not weigh the last, and none where a move takes no load away."""
    if not contract.relieves:
        return False
    last = facts.answers.get(contract.name)
    if last is not None and is_passed_over(last.answer, last.round, facts.round):
        return False
    return contract.payer == facts.participant and not any(
        waiting.is_own
        and waiting.partner == contract.provider
        and waiting.offer.contract != contract.name
        for waiting in facts.open
    )


def _as_payer(
    contract: ContractInForce, facts: MarketFacts, moved: Iterable[MovedLoad]
) -> PayerStatus:
    mine = [m for m in facts.moves if m.is_given and m.contract == contract.name]
    waiting = next((o for o in facts.open if o.is_own and o.offer.contract == contract.name), None)
    granted = [m for m in mine if m.is_granted and m.round == facts.round]
    granted = [m for m in granted if m.level == granted[0].level]
    received = facts.answers.get(contract.name)
    return PayerStatus(
        contract=contract,
        load_there=sum(m.item.load for m in mine if not m.is_granted)
        + _load_moved(contract, moved, is_given=True),
        open=None if waiting is None else waiting.offer,
        relays=waiting is not None and waiting.relays,
        accepted=(
            AcceptedItems(granted[0].level, tuple(m.item for m in granted)) if granted else None
        ),
        last_answer=(
            None
            if received is None
            else last_answer_from(
                received.answer, received.round, received.level, received.smallest
            )
        ),
        unreachable_since_ms=_silent_since(contract.provider, facts),
    )


def _as_provider(
    contract: ContractInForce, facts: MarketFacts, moved: Iterable[MovedLoad]
) -> ProviderStatus:
    return ProviderStatus(
        contract=contract,
        load_here=sum(
            m.item.load for m in facts.moves if not m.is_given and m.contract == contract.name
        )
        + _load_moved(contract, moved, is_given=False),
        request=facts.requested_loads.get(contract.name),
        unreachable_since_ms=_silent_since(contract.payer, facts),
    )


def _load_moved(contract: ContractInForce, moved: Iterable[MovedLoad], *, is_given: bool) -> float:
    """The load that has moved under a contract."""
    return sum(
        one.item.load for one in moved if (one.is_given, one.contract) == (is_given, contract.name)
    )


def _prices_taken(facts: MarketFacts, known: Sequence[ContractInForce]) -> Iterator[float]:
    """At which prices load was accepted in this round, also what has come since."""
    contracts = {contract.name: contract for contract in known}
    for move in facts.moves:
        contract = contracts.get(move.contract)
        is_taken = not (move.is_given or move.is_granted) and move.round == facts.round
        if is_taken and contract is not None and move.level <= contract.top:
            yield contract.prices[move.level]
    for placed in facts.placed:
        if not placed.moved.is_given and placed.round == facts.round:
            yield placed.moved.price


def _at_provider(facts: MarketFacts) -> Iterator[PlacedMove]:
    """What is at its provider now."""
    return (placed for placed in facts.placed if not placed.has_returned)


def _is_new(placed: PlacedMove, facts: MarketFacts) -> bool:
    """Whether the average of now has something of the time before this move was done or ended."""
    return placed.of is not None and facts.clock_ms - placed.moved.since_ms < WINDOW_MS


def _still_metered(load: Load | None, facts: MarketFacts) -> float:
    """What the average of now has of fragments that have left this participant within it."""
    stays = {contract.name for contract in facts.contracts if not contract.relieves}
    return sum(
        _metered(placed, load)
        for placed in facts.placed
        if _is_new(placed, facts)
        and placed.moved.is_given != placed.has_returned
        and not (placed.moved.is_given and placed.moved.contract in stays)
    )


def _not_metered_yet(load: Load | None, facts: MarketFacts) -> float:
    """What the average of now lacks of fragments that have come to this participant within it."""
    return sum(
        max(placed.moved.item.load - _metered(placed, load), 0.0)
        for placed in facts.placed
        if _is_new(placed, facts) and placed.moved.is_given == placed.has_returned
    )


def _just_returned(facts: MarketFacts) -> set[str]:
    """The fragments of this participant whose load is metered in part: they are not offered."""
    return {
        placed.of
        for placed in facts.placed
        if placed.of is not None and placed.moved.is_given and placed.has_returned
    }


def _metered(placed: PlacedMove, load: Load | None) -> float:
    of = placed.of
    return 0.0 if load is None or of is None else load.of(of, placed.moved.item.partition)


def _as_carried(placed: PlacedMove, load: Load | None, facts: MarketFacts) -> MovedLoad:
    """What is taken has the load that is metered, once the average is of it alone; a move by hand,
    whose load was never stated, has it from the beginning on."""
    moved = placed.moved
    if placed.of is None or moved.is_given or (moved.item.load and _is_new(placed, facts)):
        return moved
    return replace(moved, item=replace(moved.item, load=_metered(placed, load)))


def _silent_since(partner: Participant, facts: MarketFacts) -> int | None:
    """Since when a partner is away; None also when it is time to ask it again."""
    silence = facts.silent.get(partner)
    if silence is None or facts.round >= silence.asks_round:
        return None
    return silence.since_ms
