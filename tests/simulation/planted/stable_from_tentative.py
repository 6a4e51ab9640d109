"""What was computed from tentative input is called stable (L2)."""

from __future__ import annotations

import pytest

from medusa_core import decide
from medusa_core.grid import Range
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.segments import Stability


def stability_of(fragment: FragmentKnowledge, part: Range) -> Stability:
    return Stability.STABLE


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "stability_of", stability_of)
