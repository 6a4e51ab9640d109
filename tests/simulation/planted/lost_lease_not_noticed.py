"""A driver looks at a lease only when it commits under it: an import without its own waits (L1)."""

from __future__ import annotations

import pytest

from pipelines.simulation import drivers
from pipelines.simulation.processes import Process


def look_at_leases(process: Process) -> None:
    """Leases are not looked at."""


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drivers, "look_at_leases", look_at_leases)
