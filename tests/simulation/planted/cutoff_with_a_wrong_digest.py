"""A tentative output is promoted although its inputs have changed (L2)."""

from __future__ import annotations

import pytest

from medusa_core import owed
from medusa_core.knowledge import FragmentKnowledge, TentativeKnowledge


def is_unchanged(fragment: FragmentKnowledge, tentative: TentativeKnowledge) -> bool:
    return True


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owed, "_is_unchanged", is_unchanged)
