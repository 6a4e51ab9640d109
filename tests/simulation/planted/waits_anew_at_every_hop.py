"""Time that was spent on the way here is not taken from what is waited for (S6)."""

from __future__ import annotations

import pytest

from medusa_core import partial
from medusa_core.grid import Range
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.reads import segments_needed


def fresh(fragment: FragmentKnowledge, part: Range) -> int | None:
    came = [segment.arrived_ms for segment in segments_needed(fragment, part)]
    return max(came, default=None)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partial, "fresh", fresh)
