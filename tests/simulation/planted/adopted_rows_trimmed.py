"""A trim does not know who adopts, and takes files away that are being adopted (S10)."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.catalog.memory import trim


def nobody(*given: Any) -> set[str]:
    return set()


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trim, "_adopting", nobody)
