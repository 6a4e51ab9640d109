"""A window that reaches back is computed without its first part (L2)."""

from __future__ import annotations

import pytest

from medusa_core import fragments
from medusa_core.grid import Range, floor_us
from medusa_core.network import Aggregate


def windows_within(box: Aggregate, part: Range) -> Range | None:
    first_us = floor_us(part.from_us - box.size_us, box.advance_us) + 2 * box.advance_us
    last_us = floor_us(part.to_us - box.size_us, box.advance_us)
    return Range(first_us, last_us + box.size_us) if first_us <= last_us else None


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fragments, "windows_within", windows_within)
