"""A revision is made of the line as it is now, whichever one its rows were read of (S13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.names import Participant
from medusa_core.recalls import RecallResult
from medusa_core.revisions import RevisionRequest
from pipelines.catalog.memory import revisions, tables
from pipelines.catalog.memory.store import Transaction

revise_as_read = revisions.revise


def revise(transaction: Transaction, here: Participant, request: RevisionRequest) -> RecallResult:
    line = transaction.get(tables.LINES, (request.stream, request.producer))
    assert line is not None
    return revise_as_read(transaction, here, replace(request, generation=line.generation))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(revisions, "revise", revise)
