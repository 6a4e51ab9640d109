"""A commit reads its line without locking it, so two at once take one version (S1, S2)."""

from __future__ import annotations

import pytest

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from pipelines.catalog.memory import commit, tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LineRow


def lock_line(work: Transaction, stream: StreamName, producer: Producer) -> LineRow:
    line = work.get(tables.LINES, (stream, producer))
    if line is None:
        raise Refused(f"stream {stream} has no line by {producer}: deploy an assignment first")
    return line


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "lock_line", lock_line)
