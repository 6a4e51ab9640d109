"""A late record that a revision admits still waits for one (S13)."""

from __future__ import annotations

import pytest

from medusa_core.revisions import RevisionRequest
from pipelines.catalog.memory import revisions, tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.records import BY_REVISION


def admit_late(transaction: Transaction, request: RevisionRequest) -> None:
    for number in request.late:
        transaction.put(tables.RETRIES, number, BY_REVISION)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(revisions, "admit_late", admit_late)
