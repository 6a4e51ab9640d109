"""What the first bucket of a move needs is held, and no window may end in it (LOST)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.market.moves import moved_deployments

WIDTH_US = 10_000_000


def of_the_first(fragment: Fragment, from_us: int) -> Mapping[StreamName, int]:
    need = fragment.needed_by_all(Range(from_us, from_us + WIDTH_US))
    return {stream: part.from_us for stream, part in need.items()}


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moved_deployments, "begins_us", of_the_first)
