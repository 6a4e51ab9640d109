"""News of a line tells of its last revision alone, and of the rows of that one (S13)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medusa_core.line_revisions import LineRevision
from medusa_core.recalls import RecallResult
from pipelines.catalog.memory import exchange

tell_revision = exchange._revision


def last_revision(revisions: Sequence[RecallResult]) -> LineRevision:
    return tell_revision(revisions[-1:])


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exchange, "_revision", last_revision)
