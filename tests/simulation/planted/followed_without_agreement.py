"""A copy follows each revision of its partner's line, though nobody agreed to it (S13)."""

from __future__ import annotations

import pytest

from medusa_core.exchange import LineNews
from pipelines.catalog.memory import exchange, tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LineRow

follow_agreed = exchange.follow_revision


def follow_revision(
    transaction: Transaction, line: LineRow, news: LineNews, refusal: str | None
) -> LineRow:
    transaction.put(tables.FOLLOWINGS, news.stream, True)
    return follow_agreed(transaction, line, news, refusal)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exchange, "follow_revision", follow_revision)
