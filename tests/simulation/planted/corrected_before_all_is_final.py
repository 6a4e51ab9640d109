"""A correction is made as soon as an input has come, whether or not it is final (L2)."""

from __future__ import annotations

import pytest

from medusa_core import owed
from medusa_core.grid import Range
from medusa_core.knowledge import InputKnowledge


def is_final(input_: InputKnowledge, part: Range) -> bool:
    return owed.ready_through_us(input_) >= part.to_us


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owed, "is_final", is_final)
