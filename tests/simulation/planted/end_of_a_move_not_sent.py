"""The provider of a move that its payer has ended is not told, and computes on (L1)."""

from __future__ import annotations

import pytest

from medusa_core.market.moves import MoveEnvelope
from medusa_core.names import Participant
from pipelines.catalog.memory import moves
from pipelines.catalog.memory.moves import Message
from pipelines.catalog.memory.store import Transaction

put_out = moves._put_out


def put_out_orders(transaction: Transaction, to: Participant, about: str, message: Message) -> None:
    if not isinstance(message, MoveEnvelope) or message.order is not None:
        put_out(transaction, to, about, message)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moves, "_put_out", put_out_orders)
