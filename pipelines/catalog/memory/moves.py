"""The moves of a home in memory, for the simulator: the rules of `sql/functions/market_moves`.

A contract is in force in a home, is agreed and begins with the next round, or is over. Moves that
rounds have agreed on are not here: nothing waits for room, and nothing is to be begun.
`tests/agreements/test_moves_as_in_memory.py` compares it with homes in Postgres.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import TypeVar

from medusa_core.errors import Conflict, Refused
from medusa_core.fragments import Move, moved_fragment
from medusa_core.market.moves import MovedEnvelope, MoveEnvelope, MoveState
from medusa_core.market.terms import ContractName, is_named
from medusa_core.names import FragmentName, Participant
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import Table, Transaction
from pipelines.catalog.move_store import AgreedToGive, Moves, MoveStatus, OpenMove

MOVES_OF_A_PAYER_MAX = 64
MOVE_MS = 300_000
"""How long a move may wait for its partner in a state, where a home declares nothing else."""

FOLLOWING = frozenset(
    {
        (MoveState.ACCEPTED, MoveState.STARTED),
        (MoveState.ACCEPTED, MoveState.ENDED),
        (MoveState.STARTED, MoveState.RELEASED),
        (MoveState.STARTED, MoveState.ENDED),
        (MoveState.RELEASED, MoveState.RETURNING),
        (MoveState.RETURNING, MoveState.ENDED),
    }
)
T = TypeVar("T")
Message = MoveEnvelope | MovedEnvelope


class Force(Enum):
    """Whether a contract is in force in a home."""

    AGREED = "agreed"
    IN_FORCE = "in force"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovementTerms:
    """What a movement contract says about moves; `fragments` None: everything may move."""

    contract: ContractName
    payer: Participant
    provider: Participant
    fragments: frozenset[FragmentName] | None = None
    bound_ms: int | None = None
    force: Force = Force.IN_FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRow:
    """A move as a home knows it; `recalls` is how many recalls there were when it began."""

    move_id: int
    is_given: bool
    partner: Participant
    contract: ContractName
    number: int
    fragment: str
    state: MoveState
    order: str
    reason: str
    recalls: int
    changed_at_ms: int

    def move(self, here: Participant) -> Move:
        """The move by its payer and number."""
        return Move(here if self.is_given else self.partner, self.number)


PRICE = Decimal(1)
MOVES: Table[int, MoveRow] = Table("move")
TERMS: Table[ContractName, MovementTerms] = Table("movement_terms")
TIMES: Table[str, int] = Table("move_times")
OUTBOX: Table[tuple[Participant, str], Message] = Table("move_outbox")
"""What is to be sent to whom, by what it is about: the same is sent once."""


class MemoryMoves(Moves):
    """A `Moves` over the tables of an in-memory catalog."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog = catalog
        self._here = catalog.participant

    def run(self, call: Callable[[Transaction], T]) -> T:
        """A call of the home."""
        return self._catalog.run(call)

    # what a home declares

    def declare(self, terms: MovementTerms) -> None:
        """A contract as it now stands in this home."""
        self.run(lambda t: t.put(TERMS, terms.contract, terms))

    def declare_move_ms(self, move_ms: int) -> None:
        """How long a move may wait for its partner in a state."""
        self.run(lambda t: t.put(TIMES, "move_ms", move_ms))

    # the payer's and the provider's program

    def next_number(self) -> int:
        """See `Moves.next_number`."""
        return self.run(_next_number)

    def begin(self, contract: str, number: int, fragment: str, order: str, reason: str) -> None:
        """See `Moves.begin`."""
        self.run(
            lambda t: _begin(t, self._here, ContractName(contract), number, fragment, order, reason)
        )

    def to_begin(self) -> tuple[AgreedToGive, ...]:
        """See `Moves.to_begin`."""
        return ()

    def lapse(self, agreed: int) -> bool:
        """See `Moves.lapse`."""
        return False

    def end(self, fragment: str, reason: str) -> bool:
        """See `Moves.end`."""
        return self.run(lambda t: _take_back(t, fragment, reason))

    def settle(self, move: int, state: MoveState, reason: str, lost_us: int | None = None) -> bool:
        """See `Moves.settle`; nothing is billed here."""
        return self.run(lambda t: note_settled(t, move, state, reason))

    def open_moves(self) -> tuple[OpenMove, ...]:
        """See `Moves.open_moves`."""
        return self.run(lambda t: _open_moves(t, self._here))

    def statuses(self, moves_max: int = 100) -> tuple[MoveStatus, ...]:
        """See `Moves.statuses`."""
        rows = self.run(lambda t: list(t.rows(MOVES).values()))
        newest = sorted(rows, key=lambda row: -row.move_id)[:moves_max]
        return tuple(
            MoveStatus(
                id=row.move_id,
                number=row.number,
                is_given=row.is_given,
                partner=row.partner,
                contract=row.contract,
                fragment=row.fragment,
                state=row.state,
                reason=row.reason,
                changed_at_ms=row.changed_at_ms,
            )
            for row in newest
        )

    # messages

    def outbox(self) -> tuple[tuple[Participant, str, Message], ...]:
        """What is to be sent: to whom, what it is about, and the message, oldest first."""
        rows = self.run(lambda t: list(t.rows(OUTBOX).items()))
        return tuple((to, about, message) for (to, about), message in rows)

    def sent(self, to: Participant, about: str) -> None:
        """The partner has answered that it has a message."""
        self.run(lambda t: t.remove(OUTBOX, (to, about)) if t.get(OUTBOX, (to, about)) else None)

    def take(self, sender: Participant, message: Message) -> str:
        """See `Agreements.take`, of the two messages about moves."""
        if isinstance(message, MoveEnvelope):
            return self.run(lambda t: take_move(t, self._here, sender, message))
        return self.run(lambda t: take_moved(t, sender, message))


def _next_number(transaction: Transaction) -> int:
    numbers = (row.number for row in transaction.rows(MOVES).values() if row.is_given)
    return max(numbers, default=0) + 1


def _begin(
    transaction: Transaction, here: Participant, contract: ContractName, number: int,
    fragment: str, order: str, reason: str,
) -> None:  # fmt: skip
    transaction.lock_name(tables.HOME, "moves")
    terms = transaction.get(TERMS, contract)
    provider = terms.provider if terms is not None else Participant("anybody")
    _check_terms(transaction, contract, here, provider, fragment)
    if _given(transaction, fragment) is not None:
        raise Refused(f"fragment {fragment} is moving or has moved already: end that move first")
    if number != _next_number(transaction):
        raise Conflict("another move has begun meanwhile: read again")
    row = _new(transaction, True, provider, contract, number, fragment, order, reason)
    transaction.put(MOVES, row.move_id, row)
    _put_out(transaction, provider, f"move/{number}/accepted", _message_of(row))


def _take_back(transaction: Transaction, fragment: str, reason: str) -> bool:
    transaction.lock_name(tables.HOME, "moves")
    known = _given(transaction, fragment)
    if known is None or known.state is MoveState.RETURNING:
        return known is not None
    is_released = known.state is MoveState.RELEASED
    state = MoveState.RETURNING if is_released else MoveState.ENDED
    return note_settled(transaction, known.move_id, state, reason)


def _given(transaction: Transaction, fragment: str) -> MoveRow | None:
    for row in transaction.rows(MOVES).values():
        if row.is_given and row.fragment == fragment and row.state is not MoveState.ENDED:
            return row
    return None


def _new(
    transaction: Transaction, is_given: bool, partner: Participant, contract: ContractName,
    number: int, fragment: str, order: str, reason: str, state: MoveState = MoveState.ACCEPTED,
) -> MoveRow:  # fmt: skip
    return MoveRow(
        move_id=max(transaction.rows(MOVES), default=0) + 1,
        is_given=is_given,
        partner=partner,
        contract=contract,
        number=number,
        fragment=fragment,
        state=state,
        order=order,
        reason=reason,
        recalls=_recalls(transaction, fragment),
        changed_at_ms=transaction.store.clock.now_ms,
    )


def _recalls(transaction: Transaction, fragment: str) -> int:
    """How many recalls and revisions the streams of a fragment have had."""
    row = transaction.get(tables.FRAGMENTS, fragment)
    streams = () if row is None else (*row.inputs, *row.outputs)
    return sum(stream in streams for stream, _, _ in transaction.rows(tables.RECALLS))


def _terms_of(
    transaction: Transaction, contract: ContractName, payer: Participant, provider: Participant,
    fragment: str,
) -> MovementTerms | None:  # fmt: skip
    """The terms of a contract of these two that lets a fragment move, in force or not."""
    terms = transaction.get(TERMS, contract)
    if terms is None or (terms.payer, terms.provider) != (payer, provider):
        return None
    name = FragmentName(fragment.replace("/", "."))
    return terms if terms.fragments is None or is_named(name, terms.fragments) else None


def _check_terms(
    transaction: Transaction, contract: ContractName, payer: Participant, provider: Participant,
    fragment: str,
) -> None:  # fmt: skip
    terms = _terms_of(transaction, contract, payer, provider, fragment)
    if terms is None or terms.force is not Force.IN_FORCE:
        raise Refused(
            f"no contract {contract} in force lets {payer} hand {fragment} over to {provider}: "
            "name a movement contract whose moves have it"
        )


def _put_out(transaction: Transaction, to: Participant, about: str, message: Message) -> None:
    if transaction.get(OUTBOX, (to, about)) is None:
        transaction.put(OUTBOX, (to, about), message)


def note_settled(transaction: Transaction, move: int, state: MoveState, reason: str) -> bool:
    """The next state of a move, and the message about it; False if it was known, or the move has
    ended. An AssertionError for a state that does not follow: the database refuses it to all."""
    known = transaction.lock_row(MOVES, move)
    if known is None or known.state in (state, MoveState.ENDED):
        return False
    assert (known.state, state) in FOLLOWING, (
        f"move {known.number} of {known.fragment} is {known.state.value}: it does not become "
        f"{state.value}"
    )
    now = replace(
        known, state=state, reason=reason[:500], changed_at_ms=transaction.store.clock.now_ms
    )
    transaction.put(MOVES, move, now)
    if now.is_given and state in (MoveState.RELEASED, MoveState.ENDED):
        _put_out(transaction, now.partner, f"move/{now.number}/{state.value}", _message_of(now))
    elif not now.is_given:
        message = MovedEnvelope(
            contract=now.contract, number=now.number, state=state, reason=now.reason
        )
        _put_out(transaction, now.partner, f"moved/{now.number}/{state.value}", message)
    return True


def _message_of(row: MoveRow) -> MoveEnvelope:
    """How a move of this home stands; the buckets that are paid for are left out."""
    is_new = row.state is MoveState.ACCEPTED
    return MoveEnvelope(
        contract=row.contract, number=row.number, fragment=row.fragment, state=row.state,
        order=row.order if is_new else None, price=PRICE, from_us=None, to_us=None, lost_us=None,
        reason=row.reason,
    )  # fmt: skip


def take_move(
    transaction: Transaction, here: Participant, sender: Participant, message: MoveEnvelope
) -> str:
    """A payer hands a fragment over under a contract in force, adopts its rows, or ends the
    move."""
    transaction.lock_name(tables.HOME, "moves")
    known = _of_partner(transaction, False, sender, message.number)
    if known is not None and (known.contract, known.fragment) != (
        message.contract,
        message.fragment,
    ):
        raise Refused(f"move {message.number} of {sender} is another one")
    if message.state is MoveState.RELEASED:
        return str(message.state.value)
    if message.state is MoveState.ENDED:
        if known is not None:
            note_settled(transaction, known.move_id, MoveState.ENDED, message.reason)
            return MoveState.ENDED.value
        # Its order may come later: it counts no more.
        return _take(transaction, sender, message, MoveState.ENDED).state.value
    if known is not None:
        return known.state.value
    refusal = _refusal(transaction, here, sender, message)
    row = _take(transaction, sender, message, MoveState.ACCEPTED)
    if refusal is None:
        return row.state.value
    note_settled(transaction, row.move_id, MoveState.ENDED, refusal)
    return MoveState.ENDED.value


def _take(
    transaction: Transaction, sender: Participant, message: MoveEnvelope, state: MoveState
) -> MoveRow:
    row = _new(
        transaction, False, sender, message.contract, message.number, message.fragment,
        message.order or "", message.reason, state,
    )  # fmt: skip
    transaction.put(MOVES, row.move_id, row)
    return row


def _refusal(
    transaction: Transaction, here: Participant, sender: Participant, message: MoveEnvelope
) -> str | None:
    """Why a move is not taken; Conflict if its contract is in force from the next round on."""
    try:
        _check_terms(transaction, message.contract, sender, here, message.fragment)
    except Refused as refused:
        terms = transaction.get(TERMS, message.contract)
        if terms is not None and terms.force is Force.AGREED:
            raise Conflict(
                f"contract {message.contract} is in force from the next round on: move "
                f"{message.number} waits"
            ) from refused
        return str(refused)
    taken = [
        row
        for row in transaction.rows(MOVES).values()
        if not row.is_given and row.partner == sender and row.state is not MoveState.ENDED
    ]
    if len(taken) >= MOVES_OF_A_PAYER_MAX:
        return f"{sender} has {MOVES_OF_A_PAYER_MAX} fragments here: it may hand over no more"
    return None


def take_moved(transaction: Transaction, sender: Participant, message: MovedEnvelope) -> str:
    """A provider states that it computes the fragment of a move, or does so no more."""
    transaction.lock_name(tables.HOME, "moves")
    known = _of_partner(transaction, True, sender, message.number)
    if known is None or known.contract != message.contract:
        return "nothing"
    state = _after(known.state, message.state)
    if state is not None:
        note_settled(transaction, known.move_id, state, message.reason)
    elif (known.state, message.state) == (MoveState.ENDED, MoveState.STARTED):
        _put_out(transaction, sender, f"move/{known.number}/ended", _message_of(known))
    else:
        return "nothing"
    return message.state.value


def _after(known: MoveState, word: MoveState) -> MoveState | None:
    """What a payer's move becomes by its provider's word; None: nothing else."""
    match known, word:
        case MoveState.ACCEPTED, MoveState.STARTED:
            return MoveState.STARTED
        case ((MoveState.ACCEPTED | MoveState.STARTED), MoveState.ENDED):
            return MoveState.ENDED
        case MoveState.RELEASED, MoveState.ENDED:
            return MoveState.RETURNING
    return None


def _of_partner(
    transaction: Transaction, is_given: bool, partner: Participant, number: int
) -> MoveRow | None:
    of = (is_given, partner, number)
    rows: Iterable[MoveRow] = transaction.rows(MOVES).values()
    return next((r for r in rows if (r.is_given, r.partner, r.number) == of), None)


def _open_moves(transaction: Transaction, here: Participant) -> tuple[OpenMove, ...]:
    now_ms, wired = transaction.store.clock.now_ms, transaction.rows(tables.FRAGMENTS)
    rows = [row for _, row in sorted(transaction.rows(MOVES).items())]
    move_ms = transaction.get(TIMES, "move_ms") or MOVE_MS
    found = []
    for row in rows:
        moved = wired.get(moved_fragment(row.fragment, row.move(here)))
        is_deployed = moved is not None and not moved.is_stopped
        if row.state is MoveState.ENDED and not is_deployed:
            continue
        payer, provider = (here, row.partner) if row.is_given else (row.partner, here)
        terms = _terms_of(transaction, row.contract, payer, provider, row.fragment)
        is_in_force = terms is not None and terms.force is Force.IN_FORCE
        recalls = _recalls(transaction, row.fragment)
        found.append(
            OpenMove(
                id=row.move_id,
                is_given=row.is_given,
                partner=row.partner,
                contract=row.contract,
                number=row.number,
                fragment=row.fragment,
                state=row.state,
                order=row.order,
                age_ms=now_ms - row.changed_at_ms,
                is_in_force=is_in_force,
                bound_ms=terms.bound_ms if terms is not None and is_in_force else None,
                move_ms=move_ms,
                is_deployed=is_deployed,
                is_recalled=row.is_given and recalls > row.recalls,
                earlier=_earlier(rows, row),
                waits=False,
                lacks_room=False,
            )
        )
    return tuple(found)


def _earlier(rows: Iterable[MoveRow], row: MoveRow) -> frozenset[int]:
    """The numbers of a payer's other moves of a fragment, of one that has not started here."""
    if row.is_given or row.state is not MoveState.ACCEPTED:
        return frozenset()
    same = (
        other.number
        for other in rows
        if not other.is_given and (other.partner, other.fragment) == (row.partner, row.fragment)
    )
    return frozenset(same) - {row.number}
