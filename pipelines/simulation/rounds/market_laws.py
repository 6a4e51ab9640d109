"""The market's laws, checked at every read and write, against the drawn scenario.

S4: an offer has a price of the revision that is in force where it is made, and names movable
fragments; a participant that accepts has that revision in force, is below its threshold with it,
and pays for none of it more than it is paid, item by item on top of all that it carries and has
accepted. S5: every input of a decision has arrived here: each offer, each answer, each revision.
ONCE: the key of an offered or given fragment is one offer or one move; an offer is answered once,
while it is open; and the participant that made it knows of it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.messages import (
    Answer,
    Item,
    Offer,
    answer_bytes,
    answer_from,
    offer_bytes,
    offer_from,
)
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import Participant
from pipelines.catalog.memory.round_rows import MoveRow, MoveState, OfferRow
from pipelines.catalog.round_store import MarketFacts
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.rounds import reckoning
from pipelines.simulation.rounds.market_homes import MarketHome
from pipelines.simulation.rounds.market_scenario import Agreement
from pipelines.simulation.rounds.reckoning import adds, cost_of, no_more_than

if TYPE_CHECKING:
    from pipelines.simulation.rounds.market_world import MarketWorld


@dataclass(frozen=True, slots=True)
class AgreedLoad:
    """What a participant carries once all that is agreed has moved, and what has been agreed: by
    contract what lies with it, what may be handed on by the number of its move."""

    load: float
    lies: Mapping[ContractName, float]
    moves: Mapping[int, MoveRow]


class MarketLaws:
    """Looks on; raises Violation."""

    def __init__(self, world: MarketWorld) -> None:
        self._world = world
        self.knows: dict[Participant, set[Revision]] = defaultdict(set)
        self._came: dict[Participant, set[tuple[Participant, bytes]]] = defaultdict(set)
        self._answered: set[tuple[Participant, ContractName, str]] = set()
        self._open: dict[Participant, list[OfferRow]] = defaultdict(list)
        self._agreed: dict[Participant, set[int]] = defaultdict(set)

    # ------------------------------------------------------------ what has come

    def delivered(self, envelope: Envelope) -> None:
        """An envelope lies in an inbox: its sender's home must hold what it says."""
        here = envelope.receiver
        if envelope.kind is EnvelopeKind.OFFER:
            offer = offer_from(envelope.body)
            known = self._world.homes[envelope.sender].rounds.tables.known
            if (True, here, offer.contract, offer.nonce) not in known:
                raise Violation("ONCE", f"{envelope.sender} does not know what it has offered")
        if envelope.kind is EnvelopeKind.DOCUMENT:
            document = json.loads(envelope.body)
            self.knows[here].update(
                revision
                for revision, agreement in self._world.market.agreements.items()
                if agreement.contract == document["contract"]
                and agreement.number == document["number"]
            )
        self._came[here].add((envelope.sender, envelope.body))

    def look_at_facts(self, home: MarketHome, facts: MarketFacts) -> None:
        """S5, of all that a decision will rest on."""
        here = home.trader.name
        for contract in facts.contracts:
            if contract.revision not in self.knows[here]:
                raise Violation("S5", f"{here} goes by a revision of {contract.name} unknown there")
        came = self._came[here]
        for waiting in facts.open:
            if not waiting.is_own and (waiting.partner, offer_bytes(waiting.offer)) not in came:
                raise Violation("S5", f"an offer of {waiting.partner} never came to {here}")
        for name, received in facts.answers.items():
            provider = self._agreement_of(name).provider
            if (provider, answer_bytes(received.answer)) not in came:
                raise Violation("S5", f"{here} uses an answer of {provider} that it never received")

    # ------------------------------------------------------------ what is written

    def agreed_load(self, home: MarketHome, metered: int) -> AgreedLoad:
        """Where a participant stands that meters so many thousandths of a core."""
        moves = home.rounds.tables.moves
        agreed = [m for m in moves.values() if m.state is MoveState.ACCEPTED]
        given = sum(m.item.load for m in agreed if m.is_given)
        lies: dict[ContractName, float] = defaultdict(float)
        for move in moves.values():
            if not move.is_given:
                lies[move.contract] += move.item.load
        return AgreedLoad(
            load=max(metered / 1_000 - given, 0.0)
            + sum(m.item.load for m in agreed if not m.is_given),
            lies=lies,
            moves=dict(moves),
        )

    def look_at_request(
        self, home: MarketHome, before: AgreedLoad, request: Mapping[str, Any]
    ) -> None:
        """S4, of offers and answers that were just kept."""
        for made in request["offers"]:
            offer = offer_from(made["body"].encode())
            self._look_at_offer(home, offer, before)
            self._world.emit(home.trader.name, "offer", _text_of(offer), made["because"])
        load, lies = before.load, dict(before.lies)
        for given in request["answers"]:
            answer = answer_from(given["body"].encode())
            kind = "room" if given["is_more"] else "answer"
            self._world.emit(
                home.trader.name, kind, f"{given['to']} {_items(answer.accepted)}", given["because"]
            )
            if answer.accepted:
                load = self._look_at_answer(home, answer, given, before, load, lies)

    def _look_at_offer(self, home: MarketHome, offer: Offer, before: AgreedLoad) -> None:
        here, agreement = home.trader.name, self._in_force(home, offer.contract)
        if agreement is None or offer.revision != agreement.revision or agreement.payer != here:
            raise Violation(
                "S4", f"{here} offers under a revision of {offer.contract} not in force"
            )
        if reckoning.price_of(agreement, offer.level) is None:
            raise Violation("S4", f"{here} offers at level {offer.level} of {offer.contract}")
        self._look_at_parts(agreement, offer.items)
        is_over = before.load > home.trader.threshold * (1 - reckoning.SAME_LOAD)
        if offer.level and not (is_over or self._has_offered_in_overload(home)):
            raise Violation("S4", f"{here} raises the price of {offer.contract} without overload")

    def _look_at_answer(
        self,
        home: MarketHome,
        answer: Answer,
        given: Mapping[str, Any],
        before: AgreedLoad,
        load: float,
        lies: dict[ContractName, float],
    ) -> float:
        """The load that is carried after it."""
        trader, contract = home.trader, answer.contract
        here = trader.name
        offer = self._offer_to(home, given["to"], answer)
        agreement = self._in_force(home, contract)
        if agreement is None or offer.revision != agreement.revision:
            raise Violation("S4", f"{here} accepts under a revision of {contract} not in force")
        price = reckoning.price_of(agreement, offer.level)
        if price is None or agreement.provider != here:
            raise Violation("S4", f"{here} accepts at level {offer.level} of {contract}")
        self._look_at_parts(agreement, answer.accepted)
        for item in answer.accepted:
            leaves = [
                before.moves[leaf["move_id"]]
                for leaf in given["leaves"]
                if (leaf["fragment"], leaf["partition"]) == (item.fragment, item.partition)
            ]
            gone = sum(leaf.item.load for leaf in leaves)
            paid_on = sum(float(leaf.price) * leaf.item.load for leaf in leaves)
            after = max(load + item.load - gone, 0.0)
            costs = (
                cost_of(trader, after) - cost_of(trader, load) + paid_on
                if leaves
                else adds(trader, load, item.load)
            )
            if not no_more_than(costs, price * item.load):
                raise Violation(
                    "S4",
                    f"{here} takes {item.fragment} under {contract} for {price:g}, which costs it "
                    f"{costs / item.load:g} at {load:g}",
                )
            if after > trader.threshold * (1 + reckoning.SAME_LOAD) and after > load:
                raise Violation("S4", f"{here} takes {item.fragment} beyond its threshold")
            load = max(load, after)
            lies[contract] = lies.get(contract, 0.0) + item.load
        if lies[contract] > agreement.load_max / 1_000 * (1 + 2 * reckoning.SAME_LOAD):
            raise Violation("S4", f"{lies[contract]:g} lies at {here}, more than {contract} allows")
        return load

    def _look_at_parts(self, agreement: Agreement, items: tuple[Item, ...]) -> None:
        for item in items:
            if not reckoning.may_move(agreement, item.fragment):
                raise Violation("S4", f"{agreement.contract} does not let {item.fragment} move")

    def look_at_tables(self, home: MarketHome) -> None:
        """ONCE, in what a home keeps after each writing."""
        here, tables = home.trader.name, home.rounds.tables
        for number in tables.moves.keys() - self._agreed[here]:
            self._look_whether_open(here, tables.moves[number])
        self._agreed[here] = set(tables.moves)
        self._open[here] = [tables.offers[at] for at in tables.open]
        given = [m for m in tables.moves.values() if m.is_given and m.state is not MoveState.MOVED]
        parts = [(m.item.fragment, m.item.partition) for m in given]
        partners = []
        for at in tables.open:
            row = tables.offers[at]
            if row.is_own:
                partners.append(row.partner)
                parts += [(item.fragment, item.partition) for item in row.offer.items]
        if len(set(parts)) < len(parts):
            twice = next(part for part in parts if parts.count(part) > 1)
            raise Violation("ONCE", f"{here} gives or offers {twice[0]} twice")
        if len(set(partners)) < len(partners):
            raise Violation("ONCE", f"{here} has two offers to one partner open")
        taken = [
            (m.partner, m.item.fragment, m.item.partition)
            for m in tables.moves.values()
            if not m.is_given and m.state is not MoveState.MOVED
        ]
        if len(set(taken)) < len(taken):
            raise Violation("ONCE", f"{here} takes a fragment twice")

    def _look_whether_open(self, here: Participant, move: MoveRow) -> None:
        """What is agreed was in an offer that was open up to now."""
        if not any(
            (row.is_own, row.partner, row.offer.contract)
            == (move.is_given, move.partner, move.contract)
            and move.item in row.offer.items
            for row in self._open[here]
        ):
            what = f"{move.item.fragment} under {move.contract}"
            raise Violation("ONCE", f"{here} agrees on {what}, of which no offer is open")

    # ------------------------------------------------------------ what was drawn

    def _agreement_of(self, contract: ContractName) -> Agreement:
        return self._world.market.last_of(contract)

    def _in_force(self, home: MarketHome, contract: ContractName) -> Agreement | None:
        """The drawn revision that a home has active."""
        number = home.mailbox.active.get(contract)
        return next(
            (
                a
                for a in self._world.market.agreements.values()
                if a.contract == contract and a.number == number
            ),
            None,
        )

    def _offer_to(self, home: MarketHome, payer: Participant, answer: Answer) -> Offer:
        tables = home.rounds.tables
        row = tables.offers[tables.known[False, payer, answer.contract, answer.nonce]]
        if not set(answer.accepted) <= set(row.offer.items):
            raise Violation("S4", f"{home.trader.name} accepts what {payer} has not offered")
        key = home.trader.name, answer.contract, answer.nonce
        if key in self._answered:
            raise Violation("ONCE", f"{home.trader.name} accepts an offer of {payer} twice")
        self._answered.add(key)
        return row.offer

    @staticmethod
    def _has_offered_in_overload(home: MarketHome) -> bool:
        """Whether a partner's last offer under a contract was made for an overload: making room for
        what waits or was declined is on its behalf."""
        offers = home.rounds.tables.offers
        last = {
            offers[at].offer.contract: offers[at].offer
            for at in sorted(offers)
            if not offers[at].is_own
        }
        return any(offer.for_overload for offer in last.values())


def _text_of(offer: Offer) -> str:
    return f"{offer.contract} level {offer.level}: {_items(offer.items)}"


def _items(items: tuple[Item, ...]) -> str:
    return " ".join(item.fragment for item in items) or "nothing"
