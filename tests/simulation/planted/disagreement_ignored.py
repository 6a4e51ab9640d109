"""A provider becomes the owner though it has other rows than the payer (S15)."""

from __future__ import annotations

import pytest

from medusa_core.segments import Segment
from pipelines.market.moves import move_sync


def same_content(*given: object) -> tuple[Segment, ...]:
    return ()


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(move_sync, "content_of", same_content)
