"""News comes in as if it had been made this moment (S11)."""

from __future__ import annotations

import pytest

from medusa_core.exchange import LineNews
from medusa_core.segments import Segment


def fresh_ms(self: LineNews, segment: Segment) -> int | None:
    return None


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LineNews, "fresh_ms", fresh_ms)
