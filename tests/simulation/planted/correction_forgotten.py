"""A tentative row whose inputs have become final is not owed any more (L1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from medusa_core import owed
from medusa_core.knowledge import FragmentKnowledge

all_corrections = owed.corrections


def corrections(fragment: FragmentKnowledge) -> Iterator[owed.Correction]:
    found = list(all_corrections(fragment))
    return iter(found[:-1])


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owed, "corrections", corrections)
