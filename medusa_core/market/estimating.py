"""Estimates of partners' behaviour from their messages: never better than what was observed.

A partner's load and costs are unknown. A *provider* is assumed to carry at a price the load that
it was observed to carry, or offered to take at that price or a lower one, by its last message
about that price; a price about which it never sent a message, nor about a lower one, brings
nothing. While it did not answer it takes nothing. A *payer* is assumed to offer what it did
offer, when it did, up to the price that it offered; where that price is below the contract's
lowest it offers nothing.

Limit: a message is about its time. Before the first message, the first one that arrived is used.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medusa_core.market.headroom import SAME_LOAD, growing, slack, some_levels
from medusa_core.market.knowledge import ContractInForce
from medusa_core.market.messages import Answer, Item, LoadHeadroom, Offer, Reason

LEAST = 1e-6
"""The least load that is stated: whose fragments are how large is not known of a partner."""

Priced = tuple[tuple[float, float], ...]
"""Prices (currency per hour and unit of load), each with a load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAnswer:
    """What a provider answered at a time: to an offer at `price`, or as headroom later (`is_more`).

    `low` and `high` are the prices of the quoted revision: nothing was offered at others.
    `took` was accepted, `rooms` is what it would take beyond that in all, by rising price; `lay`
    was agreed before and counted there. `is_silence`: it did not answer.
    """

    at_ms: int
    low: float
    high: float
    price: float
    level: int = 0
    took: float = 0.0
    rooms: Priced = ()
    lay: Priced = ()
    is_more: bool = False
    is_silence: bool = False

    def carries(self, price: float) -> float:
        """The load that it is known by this word to carry, in all, at a price."""
        if self.is_silence:
            return 0.0
        lay = sum(load for at, load in self.lay if at <= price)
        took = self.took if self.price <= price else 0.0
        # Who takes nothing at a price is not believed to have room at it, as in a round.
        believed = self.is_more or self.took > 0.0
        room = max(
            (load for at, load in self.rooms if at <= price and (believed or at > self.price)),
            default=0.0,
        )
        return lay + took + room

    def speaks_of(self, price: float) -> bool:
        """Whether anything was offered to it at this price."""
        return self.is_silence or self.low <= price <= self.high


class ProviderEstimate:
    """What a provider would carry for this home, from its words; without any, nothing."""

    def __init__(self, words: Iterable[ObservedAnswer] = ()) -> None:
        self.words = tuple(sorted(words, key=lambda word: word.at_ms))
        self._of: dict[float, tuple[_Series, _Series]] = {}

    @property
    def answers(self) -> int:
        """How many times it answered."""
        return sum(1 for word in self.words if not word.is_silence)

    @property
    def last(self) -> ObservedAnswer | None:
        """Its last answer to an offer."""
        answers = (word for word in reversed(self.words) if not (word.is_silence or word.is_more))
        return next(answers, None)

    @property
    def highest(self) -> float | None:
        """The highest price of which it ever spoke."""
        return max((word.high for word in self.words if not word.is_silence), default=None)

    def carries(self, price: float, at_ms: int) -> float:
        """The load that it would carry in all, at a price and a time.

        Its last word on this price counts; its last one on lower prices at least holds, too, for
        who takes load at a price takes it at a higher one.
        """
        if price not in self._of:
            self._of[price] = (
                _Series([word for word in self.words if word.speaks_of(price)], price),
                _Series([word for word in self.words if word.low <= price], price),
            )
        return max(series.at(at_ms) for series in self._of[price])

    def rooms(
        self, contract: ContractInForce, lies: float, lies_under: float, at_ms: int
    ) -> tuple[LoadHeadroom, ...]:
        """What it would take more, where `lies` lies there already and `lies_under` of that under
        this contract: by level, as an answer tells it."""
        levels = some_levels(contract.top)
        loads = [max(self.carries(contract.prices[level], at_ms) - lies, 0.0) for level in levels]
        return growing(levels, loads, slack(contract.load_max, lies_under), LEAST)

    def answer(
        self, offer: Offer, contract: ContractInForce, lies: float, lies_under: float, at_ms: int
    ) -> Answer:
        """What it would say to an offer: it takes what fits, one item after the other."""
        most = self.carries(contract.prices[offer.level], at_ms) * (1.0 + SAME_LOAD) - lies
        left = slack(contract.load_max, lies_under)
        accepted: list[Item] = []
        taken = 0.0
        for item in offer.items:
            if taken + item.load <= min(most, left):
                accepted.append(item)
                taken += item.load
        return Answer(
            contract=contract.name,
            nonce=offer.nonce,
            round=offer.round,
            accepted=tuple(accepted),
            rooms=self.rooms(contract, lies + taken, lies_under + taken, at_ms),
            reason=Reason.TAKEN if len(accepted) == len(offer.items) else Reason.FULL,
        )


class _Series:
    """What a provider's words say of one price, over time: the last word before, else the first."""

    def __init__(self, words: Sequence[ObservedAnswer], price: float) -> None:
        self._times = [word.at_ms for word in words]
        self._loads = [word.carries(price) for word in words]

    def at(self, at_ms: int) -> float:
        if not self._loads:
            return 0.0
        return self._loads[max(bisect_right(self._times, at_ms) - 1, 0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedOffer:
    """What a payer offered at a time, at which price, and whether for an overload."""

    at_ms: int
    price: float
    items: tuple[Item, ...]
    for_overload: bool


class PayerEstimate:
    """What a payer would offer under a contract: what it did offer, when it did."""

    def __init__(self, offers: Iterable[ObservedOffer] = ()) -> None:
        self.offers = tuple(sorted(offers, key=lambda one: one.at_ms))
        self._times = [one.at_ms for one in self.offers]

    def between(self, after_ms: int, until_ms: int) -> ObservedOffer | None:
        """What it offered at the highest price in `[after, until)`, the last of that."""
        offered = self.offers[
            bisect_left(self._times, after_ms) : bisect_left(self._times, until_ms)
        ]
        return max(reversed(offered), key=lambda one: one.price, default=None)


def level_up_to(contract: ContractInForce, price: float) -> int | None:
    """The highest level of a contract that is not above a price; None if all are."""
    level = bisect_right(contract.prices, price) - 1
    return None if level < 0 else level


def level_for(
    items: Sequence[Item],
    rooms: Sequence[LoadHeadroom],
    above: int,
    contract: ContractInForce,
    price: float,
) -> int | None:
    """The level at which a payer asks once more: the lowest that has room for all that is left,
    else the last headroom it received, up to the price that it was seen to offer."""
    top = level_up_to(contract, price)
    needed, found = sum(item.load for item in items), None
    for room in rooms:
        if room.level > above and top is not None and room.level <= top:
            found = room.level
            if room.load >= needed:
                break
    return found
