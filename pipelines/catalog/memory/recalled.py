"""Effects of recalls on readers and committers, in memory."""

from __future__ import annotations

from medusa_core.commits import Commit
from medusa_core.errors import Conflict
from medusa_core.names import StreamName, Version
from medusa_core.recalls import RecallResult
from medusa_core.segments import Producer
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import RECALLS

Line = tuple[StreamName, Producer]


def recalls(transaction: Transaction, stream: StreamName | None) -> tuple[RecallResult, ...]:
    """See `Recalls.recalls`."""
    found = sorted(transaction.rows(RECALLS).items())
    return tuple(recall for (name, _, _), recall in found if stream in (None, name))


def recalls_after(transaction: Transaction, line: Line, version: Version) -> list[RecallResult]:
    """The recalls of a line that took rows back after a version, oldest first."""
    found = (r for (s, p, _), r in sorted(transaction.rows(RECALLS).items()) if (s, p) == line)
    return [recall for recall in found if recall.version > version]


def check_commit(transaction: Transaction, commit: Commit) -> None:
    """Conflict if a commit was computed from what has been recalled since."""
    for read in commit.lineage:
        for recall in recalls_after(transaction, (read.input, read.producer), read.version):
            if recall.from_us < read.range.to_us:
                raise Conflict(f"{read.input} was recalled from {recall.from_us} on since it was "
                               "read: read again and decide again")  # fmt: skip
