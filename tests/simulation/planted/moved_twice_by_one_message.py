"""A message that comes again begins a second move of the same number (S15)."""

from __future__ import annotations

import pytest

from medusa_core.market.moves import MoveEnvelope
from medusa_core.names import Participant
from pipelines.catalog.memory import moves
from pipelines.catalog.memory.moves import MoveRow
from pipelines.catalog.memory.store import Transaction

find = moves._of_partner


def find_given(
    transaction: Transaction, is_given: bool, partner: Participant, number: int
) -> MoveRow | None:
    return find(transaction, is_given, partner, number) if is_given else None


def take(
    transaction: Transaction, here: Participant, sender: Participant, message: MoveEnvelope
) -> str:
    if message.order is None:
        return take_once(transaction, here, sender, message)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, "_of_partner", find_given)
        return take_once(transaction, here, sender, message)


take_once = moves.take_move


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moves, "take_move", take)
