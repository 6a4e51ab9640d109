"""An answer that comes again counts again, and nothing looks whether a fragment is given (ONCE)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Refused
from medusa_core.market.messages import Answer, Item
from pipelines.catalog.memory.round_rows import MoveRow, MoveState, OfferRow
from pipelines.catalog.memory.rounds import MemoryRounds

agree_move = MemoryRounds._agree_move


def unless_lapsed(self: MemoryRounds, offer_id: int, answer: Answer, is_open: bool) -> None:
    if answer.accepted and not is_open and offer_id not in self.tables.answered:
        raise Refused("the offer had lapsed before it came: nothing of it is taken")


def again(
    self: MemoryRounds, row: OfferRow, item: Item, *, is_given: bool, state: MoveState
) -> MoveRow:
    others = self.tables.moves
    self.tables.moves = {}
    move = agree_move(self, row, item, is_given=is_given, state=state)
    self.tables.moves = {**others, move.move_id: replace(move)}
    return move


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryRounds, "_check_answerable", unless_lapsed)
    patch.setattr(MemoryRounds, "_agree_move", again)
