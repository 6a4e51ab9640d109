"""A home's market in memory: what `sql/functions` does with offers, answers and agreed moves.

The same rules in the same order as `medusa_market.take_offer`, `take_answer`, `apply_round` and
`expire_market`, for the simulation of rounds: one open offer to a partner, a fragment in one of
them, an offer answered once, S4 where a price or a load is recorded. Unlike the database it
implements completed moves (`moved`): the load is placed at the provider from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from medusa_core.errors import Conflict, Refused
from medusa_core.loads import RecordedSample
from medusa_core.market.declared import DeclaredCost
from medusa_core.market.documents import revision_of
from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.knowledge import ContractInForce, MovedLoad, contract_in_force
from medusa_core.market.messages import (
    Answer,
    Item,
    Offer,
    Reason,
    answer_from,
    offer_from,
)
from medusa_core.market.terms import ContractName, Revision, Terms, is_named
from medusa_core.names import FragmentName, Participant
from pipelines.catalog.memory.mailbox import InboxEntry, MemoryMailbox
from pipelines.catalog.memory.round_rows import (
    MoveRow,
    MoveState,
    OfferRow,
    Tables,
    agreed_move,
    copied,
    is_made_by,
    movement_of,
    part_of,
    price_at,
    requested_load_of,
)
from pipelines.catalog.round_store import (
    AnswerRecord,
    MarketFacts,
    OpenOffer,
    PlacedMove,
    ReceivedAnswer,
    Silence,
    Trading,
)

SILENT_DOUBLINGS_MAX = 4
AN_HOUR_MS = 3_600_000
SAME_LOAD = 1e-6
CHANGED = "others have offered or answered meanwhile: read again"


class MemoryRounds:
    """A `Rounds` over tables in memory; `loads` gives what was metered up to now."""

    def __init__(
        self,
        mailbox: MemoryMailbox,
        trading: Trading,
        declared: DeclaredCost,
        loads: Callable[[], tuple[RecordedSample, ...]],
    ) -> None:
        self.mailbox = mailbox
        self.trading = trading
        self.declared = declared
        self.tables = Tables()
        self._loads = loads
        self._in_force: dict[Revision, ContractInForce] = {}
        self._revisions: dict[tuple[ContractName, int], Revision] = {}

    @property
    def participant(self) -> Participant:
        """See `Rounds.participant`."""
        return self.mailbox.participant

    def close(self) -> None:
        """See `Rounds.close`."""

    # ------------------------------------------------------------ reading

    def waits(self) -> bool:
        """See `Rounds.waits`."""
        tables, mailbox, now_ms = self.tables, self.mailbox, self.mailbox.clock_ms()
        return (
            tables.decided_round < mailbox.round
            or self.is_due()
            or any(ends_ms <= now_ms for ends_ms, _ in tables.open.values())
            or any(not tables.offers[at].is_own for at in tables.open)
            or any(m.expires_at_ms <= now_ms for m in self._agreed())
            or any(entry.state == "verified" for entry in mailbox.inbox.values())
        )

    def is_due(self) -> bool:
        """See `Rounds.is_due`."""
        mailbox, now_ms = self.mailbox, self.mailbox.clock_ms()
        has_passed = not mailbox.rounds or mailbox.rounds[-1] + self.trading.round_ms <= now_ms
        lasts = any(
            terms.valid_until_ms > now_ms
            for numbers in mailbox.agreed.values()
            for terms in numbers.values()
        )
        return has_passed and (lasts or bool(self.tables.open) or bool(self._agreed()))

    def read(self) -> MarketFacts:
        """See `Rounds.read`."""
        tables, mailbox = self.tables, self.mailbox
        contracts = tuple(self.contract(terms) for terms in mailbox.in_force().values())
        revisions = {contract.name: contract.revision for contract in contracts}
        answered = {
            name: answer
            for name, answer in tables.answers.items()
            if tables.offers[answer[1]].offer.revision == revisions.get(name)
        }
        return MarketFacts(
            participant=mailbox.participant,
            clock_ms=mailbox.clock_ms(),
            round=mailbox.round,
            opened_at_ms=mailbox.rounds[-1] if mailbox.rounds else None,
            decided_round=tables.decided_round,
            changes=tables.changes,
            trading=self.trading,
            loads=self._loads(),
            declared=self.declared,
            contracts=contracts,
            currencies={c.name: mailbox.agreed[c.name][1].currency for c in contracts},
            open=tuple(
                self._open_offer(tables.offers[at], *tables.open[at]) for at in sorted(tables.open)
            ),
            moves=tuple(agreed_move(m) for m in self._agreed()),
            placed=tuple(
                PlacedMove(
                    of=None,
                    moved=MovedLoad(
                        m.move_id, m.is_given, m.contract, m.item, float(m.price), m.since_ms
                    ),
                )
                for m in tables.moves.values()
                if m.state is MoveState.MOVED
            ),
            answers={name: self._received_answer(*answer) for name, answer in answered.items()},
            requested_loads={
                name: document
                for name, (revision, document) in tables.requested_loads.items()
                if revision == revisions.get(name)
            },
            silent={partner: silence for partner, (_, silence) in tables.silent.items()},
        )

    def last_answers(self) -> tuple[AnswerRecord, ...]:
        """See `Rounds.last_answers`; nobody looks at it here."""
        return ()

    def contract(self, terms: Terms) -> ContractInForce:
        """What decisions need of a revision; made once."""
        revision = self.revision(terms)
        if revision not in self._in_force:
            self._in_force[revision] = contract_in_force(terms, revision)
        return self._in_force[revision]

    def revision(self, terms: Terms) -> Revision:
        """The hash of a revision's document; made once."""
        key = terms.contract, terms.number
        if key not in self._revisions:
            self._revisions[key] = revision_of(terms)
        return self._revisions[key]

    # ------------------------------------------------------------ writing

    def expire(self) -> int:
        """See `Rounds.expire`."""
        now_ms, round_ = self.mailbox.clock_ms(), self.mailbox.round
        over = [at for at, (ends_ms, _) in sorted(self.tables.open.items()) if ends_ms <= now_ms]
        lapsed = [
            m
            for m in self._agreed()
            if (m.state is MoveState.GRANTED and m.round < round_)
            or (m.state is MoveState.ACCEPTED and m.expires_at_ms <= now_ms)
        ]
        if not over and not lapsed:
            return 0
        with self._transaction() as tables:
            for offer_id in over:
                row = tables.offers[offer_id]
                self._lapse_offer(offer_id)
                if row.is_own:
                    missed, silence = tables.silent.get(row.partner, (0, None))
                    wait = min(1 << min(missed, SILENT_DOUBLINGS_MAX), 16)
                    since_ms = now_ms if silence is None else silence.since_ms
                    asks = Silence(since_ms=since_ms, asks_round=round_ + 1 + wait)
                    tables.silent[row.partner] = missed + 1, asks
            for move in lapsed:
                del tables.moves[move.move_id]
        return len(over) + len(lapsed)

    def take_offer(self, envelope_id: int) -> int:
        """See `Rounds.take_offer`."""
        with self._transaction() as tables:
            entry = self._handled(envelope_id)
            sender, offer = entry.envelope.sender, offer_from(entry.envelope.body)
            numbers = self.mailbox.agreed.get(offer.contract)
            terms = numbers[max(numbers)] if numbers else None
            if terms is None or (terms.payer, terms.provider) != (sender, self.participant):
                raise Refused(f"there is no contract under which {sender} may hand load over")
            self._check_new(sender, offer)
            for at in [at for at in tables.open if is_made_by(tables.offers[at], sender)]:
                if offer.round <= tables.offers[at].offer.round:
                    raise Refused(f"another offer of {sender} is open: one at a time")
                self._lapse_offer(at)
            offered = {(item.fragment, item.partition) for item in offer.items}
            for move in self._agreed():
                is_taken = not move.is_given and move.state is MoveState.ACCEPTED
                if is_taken and move.partner == sender and part_of(move.item) in offered:
                    del tables.moves[move.move_id]
            row = self._note(False, sender, offer, False)
            round_ms, now_ms = self.trading.round_ms, self.mailbox.clock_ms()
            is_stale = entry.received_at_ms + round_ms < now_ms
            tables.open[row.offer_id] = now_ms + 2 * round_ms, is_stale
            tables.offers_made[sender, offer.contract] = offer.round, now_ms
            tables.silent.pop(sender, None)
        return row.offer_id

    def take_answer(
        self,
        envelope_id: int,
        keeps: Sequence[Item] | None = None,
        judged_at: int | None = None,
    ) -> int:
        """See `Rounds.take_answer`."""
        with self._transaction() as tables:
            if judged_at is not None and tables.changes - 1 != judged_at:
                raise Conflict(CHANGED)
            entry = self._handled(envelope_id)
            sender, answer = entry.envelope.sender, answer_from(entry.envelope.body)
            offer_id = tables.known.get((True, sender, answer.contract, answer.nonce))
            if offer_id is None:
                raise Refused(f"it answers an offer that was never made to {sender}")
            row = tables.offers[offer_id]
            if not set(answer.accepted) <= set(row.offer.items):
                raise Refused("it accepts what was not offered")
            is_open = tables.open.pop(offer_id, None) is not None
            tables.silent.pop(sender, None)
            self._check_answerable(offer_id, answer, is_open)
            if is_open:
                tables.answered.add(offer_id)
            state = MoveState.GRANTED if row.relays else MoveState.ACCEPTED
            for item in answer.accepted if keeps is None else keeps:
                self._agree_move(row, item, is_given=True, state=state)
            tables.answers[answer.contract] = answer, offer_id, not is_open, self.mailbox.round
        return offer_id

    def apply(self, request: Mapping[str, Any]) -> None:
        """See `Rounds.apply`."""
        with self._transaction() as tables:
            if (tables.changes - 1, self.mailbox.round) != (request["changes"], request["round"]):
                raise Conflict(CHANGED)
            for made in request["offers"]:
                self._make_offer(made)
            for given in request["answers"]:
                self._give_answer(given)
            for move_id in request["leaves"]:
                self._leave(move_id, None)
            for document in request["wanted"]:
                tables.requested_loads[document["contract"]] = (
                    document["revision"],
                    requested_load_of(document),
                )
            if request["decides"]:
                tables.decided_round = request["round"]

    def moved(self, move_id: int) -> None:
        """An agreed move is done: the load is where it was to go."""
        with self._transaction() as tables:
            move = tables.moves[move_id]
            since_ms = self.mailbox.clock_ms()
            tables.moves[move_id] = replace(move, state=MoveState.MOVED, since_ms=since_ms)

    def drop_moves(self, of: Callable[[MoveRow], bool]) -> None:
        """Moves that came to nothing, or whose fragment lies elsewhere by now."""
        gone = [m.move_id for m in self.tables.moves.values() if of(m)]
        if gone:
            with self._transaction() as tables:
                for move_id in gone:
                    del tables.moves[move_id]

    # ------------------------------------------------------------ the parts of a transaction

    @contextmanager
    def _transaction(self) -> Iterator[Tables]:
        """All or nothing, also of what is put out and of the inbox."""
        before, mailbox = copied(self.tables), self.mailbox
        inbox, outbox = dict(mailbox.inbox), dict(mailbox.outbox)
        try:
            self.tables.changes += 1
            yield self.tables
        except BaseException:
            self.tables, mailbox.inbox, mailbox.outbox = before, inbox, outbox
            raise

    def _received_answer(
        self, answer: Answer, offer_id: int, is_more: bool, at_round: int
    ) -> ReceivedAnswer:
        offer = self.tables.offers[offer_id].offer
        return ReceivedAnswer(
            answer=answer,
            round=at_round,
            level=None if is_more else offer.level,
            smallest=min(item.load for item in offer.items),
        )

    def _agreed(self) -> list[MoveRow]:
        return [m for m in self.tables.moves.values() if m.state is not MoveState.MOVED]

    def _handled(self, envelope_id: int) -> InboxEntry:
        if self.mailbox.inbox[envelope_id].state != "verified":
            raise Conflict(f"envelope {envelope_id} is handled already: look at the next")
        return self.mailbox.end(envelope_id)

    def _check_new(self, sender: Participant, offer: Offer) -> None:
        if (False, sender, offer.contract, offer.nonce) in self.tables.known:
            raise Refused("this offer was made before: it is a replay")
        later, at_ms = self.tables.offers_made.get((sender, offer.contract), (0, 0))
        if later > offer.round and at_ms + AN_HOUR_MS > self.mailbox.clock_ms():
            raise Refused(f"it is stale: an offer of a later round than {offer.round} has come")

    def _check_answerable(self, offer_id: int, answer: Answer, is_open: bool) -> None:
        if not is_open and answer.accepted:
            was = "was answered" if offer_id in self.tables.answered else "had lapsed"
            raise Refused(f"the offer {was} before it came: nothing of it is taken")

    def _note(self, is_own: bool, partner: Participant, offer: Offer, relays: bool) -> OfferRow:
        tables = self.tables
        tables.drawn += 1
        row = OfferRow(
            offer_id=tables.drawn,
            is_own=is_own,
            partner=partner,
            relays=relays,
            round=self.mailbox.round,
            made_at_ms=self.mailbox.clock_ms(),
            offer=offer,
        )
        tables.offers[row.offer_id] = row
        tables.known[row.key] = row.offer_id
        return row

    def _terms_in_force(self, contract: ContractName, revision: Revision) -> Terms | None:
        number = self.mailbox.active.get(contract)
        terms = None if number is None else self.mailbox.agreed[contract][number]
        return terms if terms is not None and self.revision(terms) == revision else None

    def _make_offer(self, made: Mapping[str, Any]) -> None:
        body = made["body"].encode()
        offer = offer_from(body)
        terms = self._terms_in_force(offer.contract, offer.revision)
        fragments = None if terms is None else movement_of(terms).fragments
        if terms is None or not all(_may_move(i.fragment, fragments) for i in offer.items):
            raise Conflict(f"contract {offer.contract} does not let it move: read it again")
        if terms.payer != self.participant or price_at(terms, offer.level) is None:
            raise Refused("an offer is refused: it is not one of the prices of the contract (S4)")
        self._check_alone(terms.provider, offer)
        row = self._note(True, terms.provider, offer, made["relays"])
        expires_at_ms = self.mailbox.clock_ms() + self.trading.round_ms
        self.tables.open[row.offer_id] = expires_at_ms, False
        self.mailbox.put(terms.provider, EnvelopeKind.OFFER, f"offer/{offer.nonce}", body)

    def _check_alone(self, provider: Participant, offer: Offer) -> None:
        """One open offer to a partner, and a fragment in one of them."""
        offered = {part_of(item) for item in offer.items}
        for at in self.tables.open:
            row = self.tables.offers[at]
            if row.is_own and (
                row.partner == provider or offered & {part_of(i) for i in row.offer.items}
            ):
                raise Conflict(f"another offer to {provider} is open, or of a fragment in it")

    def _give_answer(self, given: Mapping[str, Any]) -> None:
        tables = self.tables
        body = given["body"].encode()
        answer = answer_from(body)
        row = self._answered(given["to"], answer)
        if not given["is_more"] and tables.open.pop(row.offer_id, None) is None:
            raise Conflict(f"the offer {answer.nonce} is open no more: read again")
        offer = row.offer
        if answer.accepted and self._terms_in_force(offer.contract, offer.revision) is None:
            raise Conflict(f"contract {offer.contract} is not in force as the offer quotes it")
        taken = {}
        for item in answer.accepted:
            move = self._agree_move(row, item, is_given=False, state=MoveState.ACCEPTED)
            taken[part_of(item)] = move.move_id
        for leaf in given["leaves"]:
            self._leave(leaf["move_id"], taken[leaf["fragment"], leaf["partition"]])
        tables.drawn += 1
        self.mailbox.put(row.partner, EnvelopeKind.ANSWER, f"answer/{tables.drawn}", body)
        if answer.reason is Reason.REVISION:
            number = max(self.mailbox.agreed[offer.contract])
            self.mailbox.send_agreements(offer.contract, row.partner, number)
            if not self.mailbox.holds(offer.contract, offer.revision):
                self.mailbox.want(offer.contract, row.partner, number + 1)

    def _answered(self, to: Participant, answer: Answer) -> OfferRow:
        offer_id = self.tables.known.get((False, to, answer.contract, answer.nonce))
        if offer_id is None:
            raise Conflict("the answer does not fit the offer: read it again")
        row = self.tables.offers[offer_id]
        if not set(answer.accepted) <= set(row.offer.items):
            raise Conflict("the answer does not fit the offer: read it again")
        return row

    def _agree_move(
        self, row: OfferRow, item: Item, *, is_given: bool, state: MoveState
    ) -> MoveRow:
        tables, offer = self.tables, row.offer
        terms = next(
            t for t in self.mailbox.agreed[offer.contract].values()
            if self.revision(t) == offer.revision
        )  # fmt: skip
        price, movement = price_at(terms, offer.level), movement_of(terms)
        if price is None or not _may_move(item.fragment, movement.fragments):
            raise Refused(f"a move of {item.fragment} is refused: the contract does not allow it")
        same = [m for m in tables.moves.values() if m.is_given == is_given]
        lies = sum(m.item.load for m in same if m.contract == offer.contract)
        if lies + item.load > float(movement.load_max) * (1 + SAME_LOAD):
            raise Refused(f"a move of {item.fragment} is refused: {lies} are there already")
        for move in same:
            if part_of(move.item) == part_of(item) and (is_given or move.partner == row.partner):
                raise Refused(f"{item.fragment} is given already")
        tables.drawn += 1
        move = MoveRow(
            move_id=tables.drawn,
            is_given=is_given,
            partner=row.partner,
            contract=offer.contract,
            item=item,
            level=offer.level,
            price=price,
            round=self.mailbox.round,
            expires_at_ms=self.mailbox.clock_ms() + self.trading.move_ms,
            state=state,
        )
        tables.moves[move.move_id] = move
        return move

    def _leave(self, move_id: int, makes_room_for: int | None) -> None:
        move = self.tables.moves.get(move_id)
        if move is None or move.state is not MoveState.GRANTED:
            raise Conflict("what was to be handed on has lapsed: read again")
        self.tables.moves[move_id] = replace(
            move, state=MoveState.ACCEPTED, makes_room_for=makes_room_for
        )

    def _lapse_offer(self, offer_id: int) -> None:
        row = self.tables.offers[offer_id]
        del self.tables.open[offer_id]
        if row.is_own:
            self.mailbox.take_back(row.partner, f"offer/{row.offer.nonce}")

    def _open_offer(self, row: OfferRow, expires_at_ms: int, is_stale: bool) -> OpenOffer:
        return OpenOffer(
            offer_id=row.offer_id,
            is_own=row.is_own,
            partner=row.partner,
            relays=row.relays,
            round=row.round,
            is_stale=is_stale,
            expires_at_ms=expires_at_ms,
            offer=row.offer,
        )


def _may_move(fragment: FragmentName, fragments: frozenset[FragmentName] | None) -> bool:
    return fragments is None or is_named(fragment, fragments)
