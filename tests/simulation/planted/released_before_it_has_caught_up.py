"""A fragment is released as soon as its provider has begun, however far behind that is (S15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.market.moves import MoveProgress, MoveState, MoveStep, next_step
from pipelines.market.moves import move_sync


def step(known: MoveProgress) -> MoveStep | None:
    has_begun = known.state is MoveState.STARTED and known.provider_us is not None
    return next_step(replace(known, provider_us=known.own_us) if has_begun else known)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(move_sync, "next_step", step)
