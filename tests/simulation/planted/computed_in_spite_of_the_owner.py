"""The payer computes what its provider owns, whether the provider has its rows or not (S15)."""

from __future__ import annotations

from typing import Any

import pytest

from medusa_core import decide
from medusa_core.decisions import ComputeStep


def computed(step: ComputeStep, *bound: Any) -> ComputeStep:
    return step


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "adopted", computed)
