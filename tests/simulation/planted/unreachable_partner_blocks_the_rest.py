"""Who goes through its contracts stops at the first partner that has not answered (L3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from medusa_core.market import shedding
from medusa_core.market.knowledge import MarketKnowledge, PayerStatus
from medusa_core.market.messages import LoadHeadroom

usable = shedding.usable


def up_to_the_first(
    knowledge: MarketKnowledge, *, is_full_too: bool = False
) -> Iterator[tuple[PayerStatus, tuple[LoadHeadroom, ...], bool]]:
    if any(status.unreachable_since_ms is not None for status in knowledge.as_payer):
        return
    yield from usable(knowledge, is_full_too=is_full_too)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shedding, "usable", up_to_the_first)
