"""A provider becomes the owner of buckets that are computed already, and nobody looks (S15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medusa_core.errors import Conflict
from medusa_core.market.moves import MoveProgress, MoveStep, next_step
from pipelines.catalog.memory import owners
from pipelines.market.moves import move_sync

check = owners._check


def check_less(*given: Any) -> None:
    try:
        check(*given)
    except Conflict as error:
        if "is computed up to" not in str(error):
            raise


def step(known: MoveProgress) -> MoveStep | None:
    found = next_step(known)
    if found is None or found.from_us is None:
        return found
    return replace(found, from_us=found.from_us - 2 * known.width_us)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owners, "_check", check_less)
    patch.setattr(move_sync, "next_step", step)
