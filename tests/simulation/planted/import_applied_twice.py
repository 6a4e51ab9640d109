"""News is brought in wherever the copy stands, and again when it comes again (S3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Lease
from medusa_core.exchange import LineNews
from medusa_core.line_revisions import RevisionReach
from medusa_core.names import Participant, PlanId
from pipelines.catalog.memory import exchange, tables
from pipelines.catalog.memory.store import Transaction

import_once = exchange.import_line


def import_line(
    work: Transaction,
    here: Participant,
    lease: Lease,
    news: LineNews,
    plan: PlanId,
    reach: RevisionReach,
) -> bool:
    line = work.get(tables.LINES, (news.stream, news.producer))
    assert line is not None
    if work.get(tables.IMPORTS, news.key) is not None:
        news = replace(news, after=line.version, version=max(line.version, news.version))
    return import_once(work, here, lease, news, plan, reach)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exchange, "import_line", import_line)
