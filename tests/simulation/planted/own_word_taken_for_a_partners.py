"""The last word under a contract is kept whoever said it: an own one counts as told (S5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from medusa_core.market.messages import answer_from
from pipelines.catalog.memory.rounds import MemoryRounds

give_answer = MemoryRounds._give_answer


def kept_as_heard(self: MemoryRounds, given: Mapping[str, Any]) -> None:
    give_answer(self, given)
    answer = answer_from(given["body"].encode())
    offer_id = self.tables.known[False, given["to"], answer.contract, answer.nonce]
    self.tables.answers[answer.contract] = answer, offer_id, False, self.mailbox.round


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryRounds, "_give_answer", kept_as_heard)
