"""A commit writes over what is final instead of being refused (S2, S12)."""

from __future__ import annotations

import pytest

from medusa_core.commits import Commit, OutputSegment
from medusa_core.grid import Range
from pipelines.catalog.memory import commit
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LineRow


def check_parts(
    work: Transaction, line: LineRow, parts: list[OutputSegment], given: Commit
) -> list[Range]:
    return [part.range for part in parts]


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "check_parts", check_parts)
