"""Who has declined says nothing when there is room again (L3)."""

from __future__ import annotations

import pytest

from medusa_core.market import decide
from medusa_core.market.decisions import ReportHeadroom
from medusa_core.market.knowledge import MarketKnowledge


def nothing(knowledge: MarketKnowledge) -> list[ReportHeadroom]:
    return []


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "headroom_reports", nothing)
