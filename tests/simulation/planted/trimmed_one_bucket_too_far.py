"""A trim goes one bucket beyond what stops it (S7)."""

from __future__ import annotations

import pytest

from medusa_core.grid import floor_us
from pipelines.catalog.memory import trim


def floor_and_one_us(time_us: int, width_us: int) -> int:
    return floor_us(time_us, width_us) + width_us


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trim, "floor_us", floor_and_one_us)
