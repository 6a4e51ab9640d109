"""A window that reaches back is computed without its first part (L2)."""

from __future__ import annotations

import pytest

from medusa_core import fragments
from medusa_core.grid import Range, floor_us


def windows_within(windows: fragments.Windows, part: Range) -> Range | None:
    size_us, advance_us = windows.size_us, windows.advance_us
    first_us = floor_us(part.from_us - size_us, advance_us) + 2 * advance_us
    last_us = floor_us(part.to_us - size_us, advance_us)
    return Range(first_us, last_us + size_us) if first_us <= last_us else None


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fragments, "windows_within", windows_within)
