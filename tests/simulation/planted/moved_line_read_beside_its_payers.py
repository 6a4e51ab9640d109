"""A moved fragment reads what another move computes in the same home, which begins later (L2)."""

from __future__ import annotations

import pytest

from pipelines.catalog import knowledge_rows


def no_move(fragment: str) -> None:
    return None


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(knowledge_rows, "move_of", no_move)
