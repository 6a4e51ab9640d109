"""A provider that makes a wrong row of a moved fragment under the same plan, and where it ends up.

The payer compares its own rows with the provider's before it hands the fragment over, and while it
has computed buckets itself. A wrong row that it has nothing to compare with is adopted: from then
on the rows of everything computed from the stream are not compared with the oracle's.
"""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.commits import OutputSegment
from medusa_core.fragments import Fragment
from medusa_core.grid import Range, floor_us
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Segment, SegmentFile
from pipelines.simulation.faults.diverging import spoilt_from, with_a_wrong_row
from pipelines.simulation.faults.scenario import Row, Scenario


class WrongProvider:
    """The wrong row of a schedule, if it has one; `stream` and `bucket_us` once it was made."""

    def __init__(self, scenario: Scenario) -> None:
        self.drawn = scenario.moves.wrong
        self.stream: StreamName | None = None
        self.bucket_us: int | None = None
        self.adopted_us: dict[StreamName, int] = {}
        self._scenario = scenario
        self._moved: str | None = None
        self._computed: set[int] = set()
        self._hashes: set[str] = set()

    def spoilt(
        self, here: Participant, fragment: Fragment, output: StreamName, rows: Sequence[Row],
        part: Range,
    ) -> list[Row]:  # fmt: skip
        """The rows of an output that a participant computes, one of them wrong if this is where."""
        drawn = self.drawn
        if drawn is None or fragment.move is None:
            return list(rows)
        if (here, fragment.home_id, output) != (drawn.provider, drawn.fragment, drawn.stream):
            return list(rows)
        self._moved = self._moved or fragment.id
        width_us = self._scenario.widths_us[output]
        if fragment.id == self._moved and self.bucket_us is None:
            found = {floor_us(row[0], width_us) for row in rows if part.holds(row[0])}
            ahead = sorted(found - self._computed)[: drawn.after + 1 - len(self._computed)]
            self._computed.update(ahead)
            if len(self._computed) > drawn.after:
                self.stream, self.bucket_us = output, max(self._computed)
        if fragment.id != self._moved or self.bucket_us is None:
            return list(rows)
        return with_a_wrong_row(rows, Range(self.bucket_us, self.bucket_us + width_us))

    def note_files(self, stream: StreamName, files: Sequence[SegmentFile], part: Range) -> None:
        """Note the files with the wrong row, by which it is known wherever they are copied to."""
        if stream == self.stream and self.bucket_us is not None and part.holds(self.bucket_us):
            self._hashes.update(file.sha256 for file in files)

    def is_in(self, segment: Segment) -> bool:
        """Whether a segment has the wrong row; one of the payer's own line was adopted."""
        if self.bucket_us is None or not segment.range.holds(self.bucket_us):
            return False
        if not any(file.sha256 in self._hashes for file in segment.files):
            return False
        is_adopted = self.drawn and segment.producer.participant != self.drawn.provider
        if is_adopted:
            self.adopted_us.update(spoilt_from(self._scenario, segment.stream, self.bucket_us))
        return True

    def wrote(self, segment: OutputSegment) -> bool:
        """Whether the rows of a commit have it."""
        return any(file.sha256 in self._hashes for file in segment.files)

    def has_made_one(self, fragment: str) -> bool:
        """Whether there is a wrong row of a fragment."""
        return self.drawn is not None and self.drawn.fragment == fragment and bool(self._hashes)
