"""Delivery to one sink of a home, a run at a time, from the position recorded in its target.

A delivery is, in this order: 1 read the state of the stream and the target's record, and decide
the next run · 2 and 3 write it (see `folder_target` and `table_target`) · 4 with the record: it
is delivered · 5 copy the record into the catalog, which moves the hold. If it is cut short
anywhere, the next delivery finds the record as it is. After an error the target is closed and
opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from medusa_core.errors import Diverged, Refused, Unavailable
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Version
from medusa_core.segments import Segment, digest_over
from medusa_core.sinks import DeliveryRange, SinkRecord, due_us, final_through_us, next_run, run_of
from pipelines.base import clock
from pipelines.base.failpoints import reached
from pipelines.base.time_text import iso
from pipelines.catalog.processing_roles import Recalls
from pipelines.catalog.reading_roles import Lines, Sinks
from pipelines.catalog.records import LineStatus
from pipelines.sinks.delivered_line import line_of
from pipelines.sinks.folder_target import FolderTarget
from pipelines.sinks.marks import with_marks
from pipelines.sinks.run_rows import read_run
from pipelines.sinks.sink_declaration import (
    STOP,
    FolderSink,
    TableSink,
    check_sink,
    declaration_of,
    key_of,
)
from pipelines.sinks.table_target import NO_OVERLAY, TableTarget
from pipelines.sinks.target import Overlay, Owner, TargetRecord
from pipelines.storage.segment_rows import columns_of


class DeliveredHome(Lines, Sinks, Recalls, Protocol):
    """What a delivery reads and records: lines, recalls, and the sinks themselves."""


BUCKETS_AT_ONCE = 4_096
STORED_BYTES_MAX = 8 << 20
"""Of the compressed files of a run, unless one bucket has more."""

SIGN_S_MAX = 60.0
"""How often a sink that has nothing to deliver gives a sign, so that its hold does not run out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """What a tick did: the run that it delivered, if any; whether there is another one now.

    `corrected`: tentative rows that it showed, or took back. `version` is that of the line.
    """

    sink: SinkRecord
    run: DeliveryRange | None = None
    has_more: bool = False
    corrected: bool = False
    version: Version | None = None


class Delivering:
    """One sink as declared; `directory` is the folder of homes, where nothing is delivered into."""

    def __init__(
        self,
        catalog: DeliveredHome,
        root: Path,
        directory: Path,
        sink: SinkRecord,
        environment: Mapping[str, str],
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._catalog = catalog
        self._root = root
        self._directory = directory
        self._sink = sink
        self._environment = environment
        self._now_s = now_s
        self._declared = declaration_of(sink)
        self._target: FolderTarget | TableTarget | None = None
        self._copied_at_s: float | None = None

    @property
    def sink(self) -> SinkRecord:
        """The sink as it was declared."""
        return self._sink

    @property
    def takes_tentative(self) -> bool:
        """Whether it delivers tentative rows too."""
        return not isinstance(self._declared, FolderSink) and self._declared.takes_tentative

    @property
    def _stops_at_revisions(self) -> bool:
        return isinstance(self._declared, TableSink) and self._declared.on_revision == STOP

    @property
    def sign_s(self) -> float:
        """How often it has to give a sign while it has nothing to deliver."""
        return min(SIGN_S_MAX, self._declared.pace.hold_ms / 4_000)

    def tick(self) -> DeliveryResult:
        """Deliver the next run, if there is one.

        Raises Refused or Diverged for what somebody has to mend, Unavailable or Conflict for what
        may be over soon.
        """
        try:
            return self._tick()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the target."""
        target, self._target = self._target, None
        if target is not None:
            target.close()

    def cancel(self) -> None:
        """Cancel, from another thread, what is running in a database."""
        if isinstance(self._target, TableTarget):
            self._target.cancel()

    # ------------------------------------------------------------ a tick

    def _tick(self) -> DeliveryResult:
        # 1
        line = self._line()
        if line is None or line.origin_us is None:
            return DeliveryResult(sink=self._sink)
        target, line = self._opened(line)
        record, stable_us = target.record, line.stable_through_us
        assert record is not None
        assert stable_us is not None
        reached("sink.decided")
        run = self._resumed(line, target.resumes, record, stable_us)
        begins_us = max(record.through_us, self._sink.from_us)
        until_us = self._until_us(line, begins_us, stable_us)
        if run is None and begins_us < until_us:
            run = self._next_run(line, Range(begins_us, until_us))
        has_more = run is not None and run.range.to_us < self._due_us(line, stable_us)
        if isinstance(target, TableTarget):
            done = self._into_table(line, target, run, has_more=has_more)
        else:
            done = run is not None
            if run is not None:
                target.deliver(run, self._rows(run.segments, line, run.range, run.rows))
        # 5
        if done or self._is_time_for_a_sign():
            self._copy(target.record)
            reached("sink.recorded")
        return DeliveryResult(
            sink=self._sink,
            run=run,
            has_more=has_more,
            corrected=done and run is None,
            version=line.version,
        )

    def _into_table(
        self, line: LineStatus, target: TableTarget, run: DeliveryRange | None, *, has_more: bool
    ) -> bool:
        """Deliver a run and what is tentative behind it; whether there was anything to do."""
        record, overlay = target.record, NO_OVERLAY
        assert record is not None
        from_us = max(record.through_us if run is None else run.range.to_us, self._sink.from_us)
        if self.takes_tentative and not has_more:
            overlay = self._overlay(line, from_us)
        if run is None and target.shows(overlay):
            return False
        rows = iter(()) if run is None else self._rows(run.segments, line, run.range, run.rows)
        shown = overlay.segments
        if target.goes_on(run, overlay):
            shown = shown[target.shown_segments :]
        target.deliver_over(run, rows, overlay, self._rows_behind(shown, line, from_us))
        return True

    def _overlay(self, line: LineStatus, from_us: int) -> Overlay:
        behind = Range(from_us, FOREVER_US)
        found = self._segments(line, behind)
        return Overlay(segments=found, rows=digest_over(found, behind).rows)

    def _rows_behind(
        self, segments: Sequence[Segment], line: LineStatus, from_us: int
    ) -> Iterator[pa.RecordBatch]:
        if not segments:
            return iter(())
        part = Range(max(segments[0].range.from_us, from_us), segments[-1].range.to_us)
        return self._rows(segments, line, part, digest_over(tuple(segments), part).rows)

    def _rows(
        self, segments: Sequence[Segment], line: LineStatus, part: Range, rows: int
    ) -> Iterator[pa.RecordBatch]:
        found = read_run(self._root, segments, columns_of(line.stream), part, rows)
        is_marked = isinstance(self._target, TableTarget) and self._target.has_marks
        return with_marks(found, segments) if is_marked else found

    # ------------------------------------------------------------ what is next

    def _due_us(self, line: LineStatus, stable_us: int) -> int:
        return due_us(stable_us, self._declared.pace.every_us, has_ended=_is_finished(line))

    def _until_us(self, line: LineStatus, begins_us: int, stable_us: int) -> int:
        """Where the next run ends at the latest: no run crosses a multiple of `every`."""
        until_us, every_us = self._due_us(line, stable_us), self._declared.pace.every_us
        if every_us is None:
            return until_us
        return min(until_us, begins_us - begins_us % every_us + every_us)

    def _next_run(self, line: LineStatus, part: Range) -> DeliveryRange:
        width_us, buckets = line.stream.width_us, BUCKETS_AT_ONCE
        while True:
            looked = Range(part.from_us, min(part.to_us, part.from_us + buckets * width_us))
            segments = self._segments(line, looked)
            run = next_run(segments, looked, width_us, self._rows_max(segments))
            if run is None:
                raise Unavailable(
                    f"{self._sink.stream} has lost what was final from {iso(part.from_us)} on "
                    "while it was looked at: look again"
                )
            if run.rows or run.range.to_us < looked.to_us or looked == part:
                return run
            buckets *= 8

    def _rows_max(self, segments: Sequence[Segment]) -> int:
        """How many rows a run may have: as declared, and as many as can be put in order at once."""
        files = {file for segment in segments for file in segment.files}
        if not files:
            return self._declared.pace.rows_max
        rows = sum(f.rows for f in files)
        fitting = rows * STORED_BYTES_MAX // sum(f.size_bytes for f in files)
        return max(1, min(self._declared.pace.rows_max, fitting))

    def _resumed(
        self, line: LineStatus, part: Range | None, record: TargetRecord, stable_us: int
    ) -> DeliveryRange | None:
        """The run that was cut short, if there is one."""
        if part is None:
            return None
        begins = (record.through_us, max(record.through_us, self._sink.from_us))
        if part.from_us not in begins or part.to_us % line.stream.width_us:
            raise Refused(
                f"the target of sink {self._sink.name} of {self._sink.stream} holds a file from "
                f"{iso(part.from_us)} to {iso(part.to_us)}, and what was delivered ends at "
                f"{iso(record.through_us)}: take that file away"
            )
        segments = self._segments(line, part)
        if part.to_us > stable_us or final_through_us(segments, part.from_us) < part.to_us:
            raise Refused(
                f"the target of sink {self._sink.name} of {self._sink.stream} holds a file up to "
                f"{iso(part.to_us)}, and the home has final rows up to {iso(stable_us)} only: take "
                "that file away"
            )
        return run_of(segments, part)

    def _segments(self, line: LineStatus, part: Range) -> tuple[Segment, ...]:
        return self._catalog.segments(self._sink.stream, part, producer=line.producer)

    def _line(self) -> LineStatus | None:
        return line_of(
            self._catalog.lines(self._sink.stream), self._sink.stream, self._catalog.participant
        )

    # ------------------------------------------------------------ the target

    def _opened(self, line: LineStatus) -> tuple[FolderTarget | TableTarget, LineStatus]:
        """The target with its record, and how the stream stands once that is held."""
        if self._target is not None:
            self._take_back(line, self._target)
            return self._target, line
        target = self._target = self._open(line)
        self._take_back(line, target)
        record = target.record
        if record is not None:
            self._check_last(line, record)
            self._copy(record)
            line = self._line() or line
        from_us = self._sink.from_us
        assert line.origin_us is not None
        begins_us = max(from_us, line.origin_us if record is None else record.through_us)
        self._check_kept(line, begins_us)
        if record is None:
            target.begin(TargetRecord(owner=self._owner, through_us=begins_us))
        return target, line

    def _open(self, line: LineStatus) -> FolderTarget | TableTarget:
        stream, columns = line.stream, columns_of(line.stream)
        check_sink(stream.name, self._declared, stream.columns, stream.width_us, stream.key)
        if isinstance(self._declared, FolderSink):
            self._check_outside(self._declared.path)
            return FolderTarget(self._declared, self._owner, columns, stream.width_us)
        key = key_of(self._declared, stream.key)
        return TableTarget(self._declared, self._owner, columns, key, self._environment)

    def _check_outside(self, path: Path) -> None:
        found = path.resolve()
        for own in (self._root.resolve(), self._directory.resolve()):
            if own.is_relative_to(found) or found.is_relative_to(own):
                raise Refused(
                    f"the sink of {self._sink.stream} delivers into {found}, where Medusa keeps "
                    "its own files: name a folder elsewhere"
                )

    def _take_back(self, line: LineStatus, target: FolderTarget | TableTarget) -> None:
        """Go back to where a recall or revision begins, in a table whose rows are replaced by key.

        Refused for every other target that was given what was taken back since.
        """
        record = target.record
        if record is None or line.generation == 1:
            return
        since = [
            recall
            for recall in self._catalog.recalls(self._sink.stream)
            if recall.producer == line.producer
            and recall.version > record.version
            and recall.from_us < record.through_us
        ]
        if not since:
            return
        from_us = min(recall.from_us for recall in since)
        stops = any(recall.is_revision for recall in since) and self._stops_at_revisions
        if isinstance(target, TableTarget) and target.replaces_rows and not stops:
            target.go_back(from_us)
            return
        advice = "empty it or give the sink another target, and it delivers again"
        if stops:
            advice = f"declare on_revision: apply, or {advice}"
        taken_back = "revised" if since[-1].is_revision else "recalled"
        raise Refused(
            f"{self._declared.target} of sink {self._sink.name} holds what was {taken_back} of "
            f"{self._sink.stream} from {iso(from_us)} on (generation {since[-1].generation}: "
            f"{since[-1].because}): {advice}"
        )

    def _check_last(self, line: LineStatus, record: TargetRecord) -> None:
        """What a target was given last must be what the home has: it may have been set back."""
        if record.last is None:
            return
        part = record.last[0]
        segments = self._segments(line, part)
        if final_through_us(segments, part.from_us) < part.to_us:
            return  # trimmed, or the home was set back and has yet to come here
        if not record.is_of(digest_over(segments, part)):
            raise Diverged(
                f"{self._declared.target} holds other rows of {self._sink.stream} from "
                f"{iso(part.from_us)} to {iso(part.to_us)} than the home: find out which are right"
            )

    def _check_kept(self, line: LineStatus, begins_us: int) -> None:
        kept_us = line.kept_from_us
        assert kept_us is not None
        if begins_us < kept_us:
            raise Refused(
                f"sink {self._sink.name} of {self._sink.stream} has yet to deliver what begins at "
                f"{iso(begins_us)}, and what is before {iso(kept_us)} is trimmed: write from: "
                f"{iso(kept_us)} or a later time, and it continues there with a gap"
            )

    @property
    def _owner(self) -> Owner:
        return Owner(
            home=self._sink.home,
            participant=self._catalog.participant,
            stream=self._sink.stream,
            sink=self._sink.name,
        )

    def _copy(self, record: TargetRecord | None) -> None:
        assert record is not None
        # A declaration may have moved the beginning ahead of what was delivered.
        through_us = max(record.through_us, self._sink.from_us)
        delivered = replace(record.delivered, through_us=through_us)
        self._catalog.record_delivery(self._sink, delivered, self._declared.pace.hold_ms)
        self._copied_at_s = self._now_s()

    def _is_time_for_a_sign(self) -> bool:
        return self._copied_at_s is None or self._now_s() - self._copied_at_s >= self.sign_s


def _is_finished(line: LineStatus) -> bool:
    return line.has_ended and line.tentative_us is None
