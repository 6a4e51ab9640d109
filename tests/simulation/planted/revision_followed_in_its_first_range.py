"""Of a partner's revision the first of several ranges is followed (S13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.exchange import LineNews
from pipelines.catalog.memory import exchange
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LineRow

follow_whole = exchange.follow_revision
without_others = exchange.without_remainders


def first_of(news: LineNews, line: LineRow) -> LineNews:
    whole = without_others(news, line)
    return replace(whole, segments=whole.segments[:1])


def follow_revision(
    transaction: Transaction, line: LineRow, news: LineNews, refusal: str | None
) -> LineRow:
    return follow_whole(transaction, line, first_of(news, line), refusal)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exchange, "follow_revision", follow_revision)
    patch.setattr(exchange, "without_remainders", first_of)
