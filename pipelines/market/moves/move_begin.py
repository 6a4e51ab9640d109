"""Beginning a move: the inputs that it reads are held for the provider before it is sent anything.

A hold that came behind the order could come too late: a trim in between would take away what the
provider is to read first, and nothing says of rows that are gone that they were there.
"""

from __future__ import annotations

from typing import Protocol

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import IMPORT_PURPOSE, READER_LIMIT_MS
from medusa_core.names import Participant, StreamName
from pipelines.catalog.move_store import Moves
from pipelines.catalog.processing_roles import Deployments, Readers
from pipelines.catalog.reading_roles import Lines
from pipelines.market.moves.move_order import MoveOrder, document_of_order
from pipelines.market.moves.moved_deployments import needed_by, order_of


class LendingHome(Deployments, Lines, Protocol):
    """What is deployed in a home, and its lines."""


def begin_move(
    moves: Moves,
    catalog: LendingHome,
    readers: Readers,
    *,
    contract: str,
    provider: Participant,
    fragment: str,
    reason: str,
) -> int:
    """Hand a fragment over from its next bucket on; the number of the move.

    Raises Refused for a fragment that does not move, and without a contract in force; Conflict if
    something has changed meanwhile.
    """
    number = moves.next_number()
    order = order_of(catalog, fragment, number)
    document = document_of_order(order)
    new = hold_inputs(readers, order, provider)
    try:
        _check_kept(catalog, order)
        moves.begin(contract, number, fragment, document, reason)
    except Refused:
        # Another move that has begun meanwhile may read the same.
        if not any(one.is_given and one.partner == provider for one in moves.open_moves()):
            for stream in new:
                readers.release_hold(stream, provider, IMPORT_PURPOSE)
        raise
    return number


def hold_inputs(
    readers: Readers, order: MoveOrder, provider: Participant
) -> tuple[StreamName, ...]:
    """Until the provider acknowledges, this home keeps the inputs that it is to read; of which it
    held nothing for it before."""
    new: list[StreamName] = []
    for stream, needed_us in needed_by(order).items():
        if stream not in order.payers_inputs:
            continue
        # The partner may read the stream for another reason, and be behind.
        held = (h for h in readers.holds(stream) if h.holder == provider)
        others = [h.from_us for h in held if h.purpose == IMPORT_PURPOSE]
        if not others:
            new.append(stream)
        readers.place_hold(
            Hold(
                stream=stream,
                holder=provider,
                purpose=IMPORT_PURPOSE,
                from_us=min([needed_us, *others]),
                limit_ms=READER_LIMIT_MS,
            )
        )
    return tuple(new)


def _check_kept(catalog: LendingHome, order: MoveOrder) -> None:
    """Conflict if something that the move needs was trimmed before it was held."""
    needed = needed_by(order)
    for line in catalog.lines():
        name, by = line.stream.name, line.producer.participant
        if by != order.move.payer or name not in order.payers_inputs or line.trimmed_us is None:
            continue
        if line.trimmed_us > needed.get(name, line.trimmed_us):
            raise Conflict(f"{name} was trimmed meanwhile: read again")
