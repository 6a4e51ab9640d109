"""Buckets that were dropped are committed as final: they are never computed (L2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core import decide as deciding
from medusa_core.decisions import ComputeStep, DropBuckets
from medusa_core.drops.overload import Overload
from medusa_core.segments import Stability

drop = deciding.with_drops


def with_drops(
    step: ComputeStep, overload: Overload | None, step_ms_max: int | None = None
) -> ComputeStep | DropBuckets:  # fmt: skip
    found = drop(step, overload, step_ms_max)
    return replace(found, stability=Stability.STABLE) if isinstance(found, DropBuckets) else found


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deciding, "with_drops", with_drops)
