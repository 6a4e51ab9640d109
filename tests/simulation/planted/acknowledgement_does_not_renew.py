"""A hold that an acknowledgement moves keeps the time at which it was first placed (HOLD)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Hold
from pipelines.catalog.memory import tables, trim
from pipelines.catalog.memory.store import Transaction

place_and_renew = trim.place_hold


def place_hold(work: Transaction, hold: Hold) -> None:
    key = (hold.stream, hold.holder, hold.purpose)
    before = work.get(tables.HOLDS, key)
    place_and_renew(work, hold)
    placed = work.get(tables.HOLDS, key)
    assert placed is not None
    if before is not None:
        work.put(tables.HOLDS, key, replace(placed, placed_at_ms=before.placed_at_ms))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trim, "place_hold", place_hold)
