"""What a provider is to read is not held for it, and is trimmed before it has read it (LOST)."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.market.moves import move_begin, move_sync


def hold_nothing(*given: Any) -> tuple[()]:
    return ()


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(move_begin, "hold_inputs", hold_nothing)
    patch.setattr(move_sync, "hold_inputs", hold_nothing)
