"""A provider's word that it has begun revives a move that its payer has ended (S15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.market.moves import MovedEnvelope, MoveState
from medusa_core.names import Participant
from pipelines.catalog.memory import moves
from pipelines.catalog.memory.moves import MOVES
from pipelines.catalog.memory.store import Transaction

take_once = moves.take_moved


def take(transaction: Transaction, sender: Participant, message: MovedEnvelope) -> str:
    known = moves._of_partner(transaction, True, sender, message.number)
    has_ended = known is not None and known.state is MoveState.ENDED
    if known is not None and has_ended and message.state is MoveState.STARTED:
        transaction.put(MOVES, known.move_id, replace(known, state=MoveState.STARTED))
        return MoveState.STARTED.value
    return take_once(transaction, sender, message)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moves, "take_moved", take)
