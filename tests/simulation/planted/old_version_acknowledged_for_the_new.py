"""An acknowledgement of a copy that lacks a revision releases what the revision wrote (L1)."""

from __future__ import annotations

import pytest

from medusa_core.names import Participant
from medusa_core.segments import Producer
from pipelines.catalog.memory import trim
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import HoldRow


def held_from_us(
    transaction: Transaction, here: Participant, row: HoldRow, producer: Producer
) -> int:
    return row.hold.from_us


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trim, "_held_from_us", held_from_us)
