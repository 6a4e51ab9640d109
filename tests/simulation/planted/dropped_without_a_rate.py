"""The lineage of dropped buckets has no rate: they are promoted as they are, or say no reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core import decide as deciding
from medusa_core.decisions import ComputeStep, DropBuckets
from medusa_core.drops.overload import Overload

drop = deciding.with_drops


def with_drops(
    step: ComputeStep, overload: Overload | None, step_ms_max: int | None = None
) -> ComputeStep | DropBuckets:  # fmt: skip
    found = drop(step, overload, step_ms_max)
    if not isinstance(found, DropBuckets):
        return found
    return replace(found, reads=tuple(replace(read, drop_rate=0.0) for read in found.reads))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deciding, "with_drops", with_drops)
