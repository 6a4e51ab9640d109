"""A tentative row whose inputs have become final is not owed any more (L1)."""

from __future__ import annotations

import pytest

from medusa_core import owed
from medusa_core.knowledge import FragmentKnowledge, TentativeKnowledge

all_corrections = owed.corrections


def corrections(fragment: FragmentKnowledge) -> tuple[TentativeKnowledge, ...]:
    return tuple(t for t in all_corrections(fragment) if t.segment.missing)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owed, "corrections", corrections)
