"""A missing input is waited for until it comes (S6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core import decide
from medusa_core.bounds import Bound
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.partial import PartialOutput

answered_in_time = decide.partial


def partial(fragment: FragmentKnowledge, bound: Bound, wait_ms: int) -> PartialOutput | None:
    lacks = answered_in_time(fragment, bound, wait_ms)
    return None if lacks is None else replace(lacks, due_ms=None)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "partial", partial)
