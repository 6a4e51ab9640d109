"""A bucket counts as ready when the boundary stands in the one before it (L2)."""

from __future__ import annotations

import pytest

from medusa_core import owed
from medusa_core.grid import BEGINNING_US
from medusa_core.knowledge import InputKnowledge

ready_in_time = owed.ready_through_us


def ready_through_us(input_: InputKnowledge) -> int:
    has_begun = input_.boundary_us > BEGINNING_US and input_.end_us is None
    return ready_in_time(input_) + (input_.width_us if has_begun else 0)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owed, "ready_through_us", ready_through_us)
