"""A hold keeps for half of the time that its reader was promised (HOLD)."""

from __future__ import annotations

import pytest

from pipelines.catalog.memory.tables import HoldRow


def is_held(self: HoldRow, now_ms: int) -> bool:
    limit_ms = self.hold.limit_ms
    return limit_ms is None or self.placed_at_ms + limit_ms // 2 >= now_ms


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HoldRow, "is_held", is_held)
