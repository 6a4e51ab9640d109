"""Rows of a provider are adopted over buckets that it does not own (S15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medusa_core import adopting, decide
from medusa_core.decisions import ComputeStep
from medusa_core.grid import FOREVER_US, Range

adopt_owned = adopting.adopted


def adopt(step: ComputeStep, *bound: Any) -> Any:
    provider = step.fragment.provider
    if provider is None:
        return adopt_owned(step, *bound)
    wider = replace(provider, range=Range(step.range.from_us, FOREVER_US))
    return adopt_owned(replace(step, fragment=replace(step.fragment, provider=wider)), *bound)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "adopted", adopt)
