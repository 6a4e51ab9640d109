"""News that comes while somebody works is forgotten, and no time limit stands in for it (L1)."""

from __future__ import annotations

import pytest

from pipelines.simulation import waiting
from pipelines.simulation.processes import Rest, Thread

FOR_EVER_MS = 10**9


def heard(thread: Thread) -> bool:
    if thread.rest.sleeps:
        thread.rest = Rest(0)
        return True
    return False


def sleep_ms(thread: Thread, limit_ms: int) -> int:
    return FOR_EVER_MS


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(waiting, "heard", heard)
    patch.setattr(waiting, "sleep_ms", sleep_ms)
