"""The rows of a provider are waited for without an end (L1, S6)."""

from __future__ import annotations

from typing import Any

import pytest

from medusa_core import adopting


def never(*given: Any) -> int:
    return 2**62


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(adopting, "_due_ms", never)
