"""An answer that comes when its offer has lapsed is taken all the same (ONCE)."""

from __future__ import annotations

import pytest

from medusa_core.errors import Refused
from medusa_core.market.messages import Answer
from pipelines.catalog.memory.rounds import MemoryRounds


def answered_only(self: MemoryRounds, offer_id: int, answer: Answer, is_open: bool) -> None:
    if answer.accepted and offer_id in self.tables.answered:
        raise Refused("the offer was answered before it came: nothing of it is taken")


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryRounds, "_check_answerable", answered_only)
