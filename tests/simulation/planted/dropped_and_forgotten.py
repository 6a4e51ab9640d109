"""What was dropped is not corrected when the load has fallen (L1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core import decide as deciding
from medusa_core.drops.overload import Overload
from medusa_core.knowledge import FragmentKnowledge


def without_dropped(fragment: FragmentKnowledge, overload: Overload | None) -> FragmentKnowledge:
    kept = tuple(t for t in fragment.tentative if not any(read.drop_rate for read in t.reads))
    return replace(fragment, tentative=kept)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deciding, "without_dropped", without_dropped)
