"""L3: after all has healed, load that pays to move moves within N rounds, and then none moves.

    N = silence + lapse + 2 * levels + fragments

`silence` is the longest pause before a partner that has not answered gets another offer (17
rounds), `lapse` how many rounds an agreed move may block room before it lapses. `levels` counts
the levels of all contracts of the payer with most of them: each may have to be offered (3.7.7),
and an offer of a round is answered before the next but one. Each further round moves a fragment
(3.7.2). Rounds are those of the slowest participant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medusa_core.names import FragmentName, Participant
from pipelines.catalog.memory.round_rows import MoveState
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.rounds.market_scenario import Agreement, Market
from pipelines.simulation.rounds.market_world import MarketWorld
from pipelines.simulation.rounds.reckoning import SAME_LOAD, adds, cost_of, may_move, price_of

SILENCE_ROUNDS = 17
QUIET_ROUNDS = 5
"""So long nothing has moved where it is at rest."""

PACE = 1.01
"""A home's clock may go a little too slow."""


@dataclass(frozen=True, slots=True)
class Rested:
    """After how many rounds nothing moved any more, and how many it might have taken."""

    rounds: int = 0
    rounds_max: int = 0


def rounds_max(market: Market) -> int:
    """N."""
    lapse = max(-(-t.trading.move_ms // t.trading.round_ms) for t in market.traders.values())
    of_payers = [
        [market.last_of(c) for c in market.contracts if market.last_of(c).payer == name]
        for name in market.traders
    ]
    prices_max = max(sum(len(a.prices) for a in its) for its in of_payers)
    return SILENCE_ROUNDS + lapse + 2 * prices_max + len(market.loads)


def round_ms(market: Market) -> int:
    """The longest round."""
    return int(max(t.trading.round_ms for t in market.traders.values()) * PACE)


def settle(world: MarketWorld, healed_ms: int) -> Rested:
    """Let rounds pass until rest; Violation of L3 if it does not come in time."""
    market, length_ms = world.market, round_ms(world.market)
    world.run(max(healed_ms, world.now_ms))
    world.traps.clear()
    world.orders.clear()
    began_ms, most = world.now_ms, rounds_max(market)
    world.emit("all", "healed", f"at rest within {most} rounds")
    world.last_move_ms = began_ms
    while True:
        world.run(world.now_ms + length_ms)
        left = list(could_gain(world))
        quiet = (world.now_ms - world.last_move_ms) // length_ms
        if not left and quiet >= QUIET_ROUNDS and not is_moving(world):
            break
        if world.now_ms - began_ms > (most + QUIET_ROUNDS) * length_ms:
            if quiet < QUIET_ROUNDS or is_moving(world):
                raise Violation("L3", f"load still moves after {most} rounds of constant load")
            raise Violation("L3", f"{left[0]} after {most} rounds")
    return Rested(-(-(world.last_move_ms - began_ms) // length_ms), most)


def is_moving(world: MarketWorld) -> bool:
    """Whether a move is agreed that has not been made."""
    return any(
        move.state is not MoveState.MOVED
        for name, home in world.homes.items()
        if not is_gone(world, name)
        for move in home.rounds.tables.moves.values()
    )


def is_gone(world: MarketWorld, participant: Participant) -> bool:
    """Whether it is away for good."""
    return world.market.gone is not None and world.market.gone[1] == participant


def could_gain(world: MarketWorld) -> Iterator[str]:
    """Who is over its threshold while a partner would gain by taking a fragment of it."""
    market = world.market
    for contract in market.contracts:
        agreement = market.last_of(contract)
        if is_gone(world, agreement.payer) or is_gone(world, agreement.provider):
            continue
        payer = market.traders[agreement.payer]
        load = world.load(payer.name) / 1_000
        if load <= payer.threshold * (1 + SAME_LOAD):
            continue
        for fragment, thousandths in sorted(world.carried(payer.name).items()):
            level = _gains_at(world, agreement, fragment, thousandths / 1_000)
            if level is not None:
                yield (
                    f"{payer.name} carries {load:g} of {payer.threshold:g}, and "
                    f"{agreement.provider} would gain by taking {fragment} at level {level} of "
                    f"{contract}"
                )


def _gains_at(
    world: MarketWorld, agreement: Agreement, fragment: FragmentName, item: float
) -> int | None:
    """At which level both gain by more than their dead bands, if any."""
    payer, provider = (world.market.traders[p] for p in (agreement.payer, agreement.provider))
    load, there = (world.load(t.name) / 1_000 for t in (payer, provider))
    if not may_move(agreement, fragment):
        return None
    if there + item > provider.threshold * (1 - SAME_LOAD):
        return None
    if item > agreement.load_max / 1_000 - lies_under(world, agreement) - SAME_LOAD:
        return None
    saves = (cost_of(payer, load) - cost_of(payer, load - item)) * (1 - SAME_LOAD)
    costs = adds(provider, there, item) * (1 + SAME_LOAD)
    level = 0
    while (price := price_of(agreement, level)) is not None:
        paid = price * item
        if saves > paid * (1 + payer.trading.dead_band) and costs < paid * (
            1 - provider.trading.dead_band
        ):
            return level
        level += 1
    return None


def lies_under(world: MarketWorld, agreement: Agreement) -> float:
    """The load that lies at the provider under a contract."""

    def of(participant: Participant, is_given: bool) -> float:
        moves = world.homes[participant].rounds.tables.moves.values()
        return sum(
            m.item.load
            for m in moves
            if m.is_given == is_given and m.contract == agreement.contract
        )

    return max(of(agreement.payer, True), of(agreement.provider, False))
