"""Who has not answered once is never asked again (L3)."""

from __future__ import annotations

import pytest

from medusa_core.names import Participant
from pipelines.catalog.round_store import MarketFacts
from pipelines.market.rounds import round_knowledge


def for_ever(partner: Participant, facts: MarketFacts) -> int | None:
    silence = facts.silent.get(partner)
    return None if silence is None else silence.since_ms


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(round_knowledge, "_silent_since", for_ever)
