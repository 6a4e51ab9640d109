"""Nothing is chosen before every producer has come as far: one that is dead is waited for."""

from __future__ import annotations

import pytest

from medusa_core import choosing
from medusa_core.grid import Range
from medusa_core.imports import ImportKnowledge

window_of_the_furthest = choosing._window


def window(knowledge: ImportKnowledge) -> Range | None:
    whole = window_of_the_furthest(knowledge)
    ends = [p.segments[-1].range.to_us for p in knowledge.producers if p.segments]
    if whole is None or len(ends) < len(knowledge.producers):
        return None
    to_us = min(*ends, whole.to_us)
    return Range(whole.from_us, to_us) if whole.from_us < to_us else None


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "_window", window)
