"""What a provider once said of its room is believed, whatever it has said since (L3)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medusa_core.market.messages import Item
from pipelines.catalog.memory.rounds import MemoryRounds

take_answer = MemoryRounds.take_answer


def as_at_first(
    self: MemoryRounds,
    envelope_id: int,
    keeps: Sequence[Item] | None = None,
    judged_at: int | None = None,
) -> int:
    before = dict(self.tables.answers)
    taken = take_answer(self, envelope_id, keeps, judged_at)
    for contract, told in before.items():
        if told[0].rooms:
            self.tables.answers[contract] = told
    return taken


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryRounds, "take_answer", as_at_first)
