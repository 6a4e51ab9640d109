"""The dead band is turned round: what saves less than it costs is handed over and returns (L3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.market import decide
from medusa_core.market.decisions import MakeOffer
from medusa_core.market.knowledge import MarketKnowledge

offers_of_own = decide.offers_of_own


def gladly(knowledge: MarketKnowledge) -> list[MakeOffer]:
    return offers_of_own(replace(knowledge, limits=replace(knowledge.limits, dead_band=-0.8)))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "offers_of_own", gladly)
