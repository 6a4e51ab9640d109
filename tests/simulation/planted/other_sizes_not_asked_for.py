"""Who has no room for a large fragment is never asked for a smaller one (L3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from medusa_core.market import shedding
from medusa_core.market.knowledge import MarketKnowledge
from medusa_core.market.shedding import Candidate


def nobody(knowledge: MarketKnowledge, below: float) -> Iterator[Candidate]:
    return iter(())


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shedding, "of_other_sizes", nobody)
