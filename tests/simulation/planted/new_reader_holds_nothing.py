"""A partner that has acknowledged nothing yet holds nothing of what it is to read (S7)."""

from __future__ import annotations

import pytest

from pipelines.simulation import housekeeping
from pipelines.simulation.world import World


def hold_for_readers(world: World) -> None:
    """No hold is placed before the first acknowledgement."""


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(housekeeping, "hold_for_readers", hold_for_readers)
