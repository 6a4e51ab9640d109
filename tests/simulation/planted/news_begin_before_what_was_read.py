"""News begin one version too early: the reader is sent rows that it has (REFUSED)."""

from __future__ import annotations

import pytest

from medusa_core.names import Version
from pipelines.catalog.memory import exchange
from pipelines.catalog.memory.tables import SegmentRow


def is_news(row: SegmentRow, after: Version, upto: Version) -> bool:
    return row.is_live_at(upto) != (row.begin_version < after and row.is_live_at(after))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exchange, "_is_news", is_news)
