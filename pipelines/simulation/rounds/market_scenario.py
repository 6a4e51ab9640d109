"""A market of a schedule, drawn from its seed: loads, costs and contracts of participants.

Loads are whole thousandths of a core, prices whole hundredths, so that the laws' arithmetic is
exact. A revision of a contract is drawn here, too, long before it is agreed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from random import Random

from medusa_core.market.costs import PiecewiseLinear, Queue
from medusa_core.market.documents import revision_of
from medusa_core.market.terms import (
    Availability,
    ContractName,
    Method,
    Movement,
    PriceRange,
    Recovery,
    Revision,
    Terms,
)
from medusa_core.names import FragmentName, Participant
from pipelines.catalog.round_store import Trading

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")
CURRENCY = "EUR"
RELAYING = 0.35
"""In how many markets those who take may hand on for less: payers that are providers, too."""

SIZES = (30, 40, 60, 60, 80, 120)
"""Of fragments, in thousandths of a core, where the threshold is 0.8."""

YEAR_MS = 365 * 86_400_000
BEGINS_MS = 1_000_000_000_000
ROUND_MS = (2_000, 4_000)
SAFETY_MS = (50_000, 80_000)
GONE = 0.3
REVISIONS_MAX = 3
CHANGES = (20, 40)
SHARES = (0.35, 0.5, 0.6, 0.8, 0.95, 1.1, 1.25, 1.5)
"""Of its threshold that a participant carries at first."""


class Roles(Enum):
    """Who pays whom: two separate sides; both directions at one price; any pair, in any range."""

    SIDES = "sides"
    ONE_PRICE = "one price"
    RELAYS = "relays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trader:
    """A participant: its private costs, and how it trades; `background` cannot move."""

    name: Participant
    cost: Queue | PiecewiseLinear
    threshold: float
    background: int
    trading: Trading
    clock_ms: int
    look_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A revision of a contract as laws reckon with it: prices in hundredths by level, the most load
    in thousandths."""

    contract: ContractName
    number: int
    payer: Participant
    provider: Participant
    prices: tuple[int, ...]
    load_max: int
    fragments: frozenset[FragmentName] | None
    terms: Terms
    revision: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What changes from outside: a fragment's load, from some moment on; 0: it ends."""

    at_ms: int
    fragment: FragmentName
    load: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """A drawn market. `loads` and `homes` are those of fragments at the beginning; `revised` when
    a revision is agreed (the first ones are in force from the beginning); `gone`: who is away from
    some moment on, for good."""

    seed: int
    roles: Roles
    traders: Mapping[Participant, Trader]
    loads: Mapping[FragmentName, int]
    homes: Mapping[FragmentName, Participant]
    agreements: Mapping[Revision, Agreement]
    revised: tuple[tuple[int, Revision], ...]
    changes: tuple[Change, ...]
    safety_ms: int
    gone: tuple[int, Participant] | None = None

    def last_of(self, contract: ContractName) -> Agreement:
        """The last revision of a contract."""
        return max(
            (a for a in self.agreements.values() if a.contract == contract), key=lambda a: a.number
        )

    @property
    def contracts(self) -> tuple[ContractName, ...]:
        """All contracts, by name."""
        return tuple(sorted({a.contract for a in self.agreements.values()}))


def draw_market(seed: int) -> Market:
    """The market of a seed."""
    random = Random(f"market {seed}")
    names = [Participant(name) for name in NAMES[: random.randint(3, 5)]]
    roles = _roles(random)
    traders = {name: _trader(name, random) for name in names}
    loads: dict[FragmentName, int] = {}
    homes: dict[FragmentName, Participant] = {}
    for name in names:
        _fill(name, traders[name], random.choice(SHARES), loads, homes, random)
    agreements = _agreements(roles, traders, loads, random)
    safety_ms = random.randint(*SAFETY_MS)
    fragments = sorted(loads)
    changes = [
        Change(
            at_ms=random.randint(2_000, safety_ms),
            fragment=random.choice(fragments),
            load=random.choice((0, 20, 150, 250)) if random.random() < 0.5 else _size(1.0, random),
        )
        for _ in range(random.randint(*CHANGES))
    ]
    return Market(
        seed=seed,
        roles=roles,
        traders=traders,
        loads=loads,
        homes=homes,
        agreements={a.revision: a for a in agreements},
        revised=_revised(agreements, safety_ms, random),
        changes=tuple(sorted(changes, key=lambda c: c.at_ms)),
        safety_ms=safety_ms,
        gone=_gone(names, safety_ms, random),
    )


def _revised(
    agreements: list[Agreement], safety_ms: int, random: Random
) -> tuple[tuple[int, Revision], ...]:
    """When revisions behind the first are agreed: of a contract, one after the other."""
    found: list[tuple[int, Revision]] = []
    for contract in sorted({a.contract for a in agreements}):
        later = [a.revision for a in agreements if a.contract == contract and a.number > 1]
        times = sorted(random.randint(3_000, safety_ms) for _ in later)
        found += zip(times, later, strict=True)
    return tuple(sorted(found))


def _gone(
    names: list[Participant], safety_ms: int, random: Random
) -> tuple[int, Participant] | None:
    """Of four or more, now and then, one; three are left at least."""
    if len(names) <= 3 or random.random() >= GONE:
        return None
    return random.randint(5_000, safety_ms), random.choice(names)


def _roles(random: Random) -> Roles:
    if random.random() < RELAYING:
        return Roles.RELAYS
    return random.choice((Roles.SIDES, Roles.ONE_PRICE))


def _trader(name: Participant, random: Random) -> Trader:
    capacity = random.choice((0.5, 1.0, 1.0, 2.0))
    threshold = round(capacity * random.choice((0.7, 0.8, 0.85)), 3)
    queue = Queue(capacity=capacity, scale=capacity)
    cost: Queue | PiecewiseLinear = queue
    if random.random() < 0.3:
        parts = (0.0, 0.3, 0.5, 0.65, 0.75, 0.82, 0.9, 0.95)
        cost = PiecewiseLinear(
            tuple((capacity * rho, round(queue.cost(capacity * rho), 6)) for rho in parts)
        )
    round_ms = random.randint(*ROUND_MS)
    return Trader(
        name=name,
        cost=cost,
        threshold=threshold,
        background=random.choice((0, 0, 50, 100)),
        trading=Trading(
            round_ms=round_ms,
            move_ms=round_ms * random.randint(2, 4),
            residence_ms=random.choice((0, 0, round_ms, 3 * round_ms)),
            dead_band=random.choice((0.004, 0.004, 0.02)),
            partners_max=random.choice((1, 2, 2)),
        ),
        clock_ms=BEGINS_MS + random.randint(0, 60_000),
        look_ms=random.randint(300, 600),
    )


def _size(capacity: float, random: Random) -> int:
    return max(round(random.choice(SIZES) * capacity), 1)


def _fill(
    name: Participant,
    trader: Trader,
    share: float,
    loads: dict[FragmentName, int],
    homes: dict[FragmentName, Participant],
    random: Random,
) -> None:
    """Fragments up to this share of the threshold."""
    capacity = trader.threshold / 0.8
    left = round(trader.threshold * share * 1_000) - trader.background
    while left > 0:
        fragment = FragmentName(f"f{len(loads)}")
        loads[fragment] = min(_size(capacity, random), max(left, 10))
        homes[fragment] = name
        left -= loads[fragment]


def _agreements(
    roles: Roles,
    traders: Mapping[Participant, Trader],
    loads: Mapping[FragmentName, int],
    random: Random,
) -> list[Agreement]:
    found: list[Agreement] = []
    one_price = _price_at(traders[random.choice(sorted(traders))], random)
    for payer, provider in _pairs(roles, sorted(traders), random):
        contract = ContractName(f"{payer}_{provider}")
        levels = 0 if roles is Roles.ONE_PRICE else random.choice((0, 1, 2, 4))
        low = one_price if roles is Roles.ONE_PRICE else _price_at(traders[provider], random)
        before: Agreement | None = None
        for number in range(1, random.randint(1, REVISIONS_MAX) + 1):
            step = max(round(low * random.choice((0.03, 0.06, 0.1))), 1)
            before = _agreement(
                contract, number, payer, provider,
                tuple(low + level * step for level in range(levels + 1)),
                random.choice((60, 150, 400, 5_000)),
                _covered(loads, random), step, before,
            )  # fmt: skip
            found.append(before)
            if roles is not Roles.ONE_PRICE:
                low = max(round(low * random.uniform(0.8, 1.25)), 1)
                levels = random.choice((levels, 0, 1, 3))
    return found


def _pairs(
    roles: Roles, names: list[Participant], random: Random
) -> list[tuple[Participant, Participant]]:
    if roles is Roles.SIDES:
        names = random.sample(names, len(names))
        cut = random.randint(1, len(names) - 1)
        expected = [(payer, provider) for payer in names[:cut] for provider in names[cut:]]
    else:
        expected = [(one, other) for one in names for other in names if one != other]
    pairs = [pair for pair in expected if random.random() < 0.75]
    return sorted(pairs or expected[:1])


def _price_at(trader: Trader, random: Random) -> int:
    """About what a unit costs the trader at its threshold, in hundredths."""
    return max(round(trader.cost.slope(trader.threshold) * random.uniform(0.35, 1.1) * 100), 1)


def _covered(loads: Mapping[FragmentName, int], random: Random) -> frozenset[FragmentName] | None:
    if random.random() < 0.75:
        return None
    return frozenset(random.sample(sorted(loads), max(len(loads) * 3 // 4, 1)))


def _agreement(
    contract: ContractName,
    number: int,
    payer: Participant,
    provider: Participant,
    prices: tuple[int, ...],
    load_max: int,
    fragments: frozenset[FragmentName] | None,
    step: int,
    before: Agreement | None,
) -> Agreement:
    hundredth = Decimal("0.01")
    terms = Terms(
        contract=contract,
        number=number,
        supersedes=None if before is None else before.revision,
        payer=payer,
        provider=provider,
        currency=CURRENCY,
        valid_from_ms=BEGINS_MS - YEAR_MS,
        valid_until_ms=BEGINS_MS + YEAR_MS,
        settlement_ms=3_600_000,
        notice_ms=60_000,
        subject=Movement(
            price=PriceRange(
                low=prices[0] * hundredth, high=prices[-1] * hundredth, step=step * hundredth
            ),
            fragments=fragments,
            load_max=Decimal(load_max) / 1_000,
            availability=Availability(recovery=Recovery.ROLLBACK, method=Method.UPSTREAM_BACKUP),
            penalty=Decimal(0),
            hold_ms_max=3_600_000,
        ),
    )
    return Agreement(
        contract=contract,
        number=number,
        payer=payer,
        provider=provider,
        prices=prices,
        load_max=load_max,
        fragments=fragments,
        terms=terms,
        revision=revision_of(terms),
    )
