"""A fragment returns and its provider goes on owning the next bucket (S15)."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.market.moves.move_sync import MoveSync


def take_nothing_back(self: MoveSync, *given: Any) -> None:
    pass


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MoveSync, "_take_back", take_nothing_back)
