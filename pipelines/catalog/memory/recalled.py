"""Effects of recalls on readers and committers, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.commits import Commit
from medusa_core.errors import Conflict
from medusa_core.grid import Range
from medusa_core.names import StreamName, Version
from medusa_core.recalls import RecallResult
from medusa_core.segments import Producer, Read
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import COMMITS, RECALLS, SegmentRow

Line = tuple[StreamName, Producer]


def recalls(transaction: Transaction, stream: StreamName | None) -> tuple[RecallResult, ...]:
    """See `Recalls.recalls`."""
    found = sorted(transaction.rows(RECALLS).items())
    return tuple(recall for (name, _, _), recall in found if stream in (None, name))


def recalls_after(transaction: Transaction, line: Line, version: Version) -> list[RecallResult]:
    """The recalls of a line that took rows back after a version, oldest first."""
    found = (r for (s, p, _), r in sorted(transaction.rows(RECALLS).items()) if (s, p) == line)
    return [recall for recall in found if recall.version > version]


def revised_since(transaction: Transaction, row: SegmentRow, of: Line) -> tuple[Range, ...]:
    """The ranges of a line that a row's content read and that were revised since."""
    made = transaction.get(COMMITS, row.commit_key)
    found: set[Range] = set()
    for read in made.commit.lineage if made else ():
        if read.output != row.segment.stream or (read.input, read.producer) != of:
            continue
        for recall in recalls_after(transaction, of, read.version):
            found.update(changed for changed in recall.changed if changed.overlaps(read.range))
    return tuple(sorted(found))


def revision_since(
    transaction: Transaction, row: SegmentRow, lineage: Sequence[Read]
) -> RecallResult | None:
    """The last revision of something that a row's content read and that a lineage reads as it is
    since; None if there is none."""
    made = transaction.get(COMMITS, row.commit_key)
    output = row.segment.stream
    found = [
        recall
        for read in (made.commit.lineage if made else ())
        if read.output == output
        for recall in recalls_after(transaction, (read.input, read.producer), read.version)
        if _reads(lineage, output, recall)
        and any(changed.overlaps(read.range) for changed in recall.changed)
    ]
    return max(found, key=lambda r: (r.recalled_at_ms, r.generation), default=None)


def _reads(lineage: Sequence[Read], output: StreamName, recall: RecallResult) -> bool:
    """Whether a lineage reads what a revision changed, as it is since."""
    return any(
        (read.output, read.input, read.producer) == (output, recall.stream, recall.producer)
        and read.version >= recall.version
        and recall.takes_back(read.range)
        for read in lineage
    )


def check_commit(transaction: Transaction, commit: Commit) -> None:
    """Conflict if a commit was computed from what has been recalled since."""
    for read in commit.lineage:
        for recall in recalls_after(transaction, (read.input, read.producer), read.version):
            if recall.takes_back(read.range):
                raise Conflict(f"{read.input} was recalled from {recall.from_us} on since it was "
                               "read: read again and decide again")  # fmt: skip
