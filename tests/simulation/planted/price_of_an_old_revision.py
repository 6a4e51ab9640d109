"""The prices of a contract's first revision are kept for all that follow (S4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.market.knowledge import ContractInForce
from medusa_core.market.terms import Terms
from pipelines.catalog.memory.rounds import MemoryRounds

contract = MemoryRounds.contract


def of_the_first(self: MemoryRounds, terms: Terms) -> ContractInForce:
    first = contract(self, self.mailbox.agreed[terms.contract][1])
    return replace(contract(self, terms), prices=first.prices)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryRounds, "contract", of_the_first)
