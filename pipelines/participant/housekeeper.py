"""Housekeeping of a running participant: buckets past their retention are trimmed in pieces.

A round begins once a minute and covers every line whose stream has a limited retention, copies of
partners' lines like those of its own. It is cut into pieces of some milliseconds, one at each
tick of the loop that finds nothing else to do; only if no tick was idle for a whole interval does
a busy tick do a piece too. All progress is in the catalog: if it is cut short, the next round
does the rest, and a crash leaves orphans.

Each round begins with a check that the caller passes, such as of the notification queue.

Compaction and the search for orphans are left to `medusa trim`: both read much at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from medusa_core.errors import MedusaError
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from medusa_core.trims import TrimResult
from pipelines.base import clock
from pipelines.catalog.processing_roles import Deployments, Trims
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import LineStatus
from pipelines.participant.trimming import (
    Needs,
    before_of_retentions,
    needs_here,
    remove_files,
    trim_once,
)

EVERY_S = 60.0
SEGMENTS_PER_PIECE = 100
FILES_PER_PIECE = (50, 200)
"""A piece that frees fewer files is followed by one over more buckets, of more over fewer."""


@dataclass(slots=True)
class TrimmedLine:
    """What a round let go of one line, before `before_us` (us): what is counted is gone for good.

    `segments` are rows of the catalog, superseded ones too; `rows` those of live segments.
    """

    stream: StreamName
    producer: Producer
    before_us: int
    segments: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0

    def add(self, piece: TrimResult) -> None:
        """Count what a piece let go."""
        if piece.trimmed_us is not None:
            self.before_us = piece.trimmed_us
        self.segments += piece.segments
        self.rows += piece.rows
        self.files += len(piece.files)
        self.bytes += sum(file.size_bytes for file in piece.files)


class TrimmedHome(Deployments, Lines, Trims, Protocol):
    """The lines of a home, what is yet to be read of them, and the trim."""


class Housekeeper:
    """Trims the lines of one home by their retentions; `on_error` receives what went wrong.

    `trimmed` hears of each line of which a round let something go. `check` is called when a round
    begins. `now_s` is a clock that never goes back.
    """

    def __init__(
        self,
        catalog: TrimmedHome,
        root: Path,
        on_error: Callable[[Exception], None],
        trimmed: Callable[[TrimmedLine], None] = lambda line: None,
        *,
        check: Callable[[], None] = lambda: None,
        every_s: float = EVERY_S,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._catalog = catalog
        self._root = root
        self._check = check
        self._on_error = on_error
        self._trimmed = trimmed
        self._every_s = every_s
        self._now_s = now_s
        self._due_s = now_s()
        self._round: Generator[None, None, bool] | None = None

    def tick(self, *, is_idle: bool) -> bool:
        """Do one piece if it is time for one; True if there is more, which `is_idle` may do next.

        Raises nothing: what cannot be done now is reported, and tried again in the next round.
        """
        late_s = self._now_s() - self._due_s
        if late_s < 0 or not (is_idle or late_s >= self._every_s):
            return False
        if self._round is None:
            self._round = self._pieces(self._now_s() + self._every_s)
        try:
            next(self._round)
        except StopIteration as ended:
            # A round that ran out of time is gone on with at once, under what is known by then.
            self._end_round(self._now_s() if ended.value else self._now_s() + self._every_s)
        except MedusaError as error:
            self._on_error(error)
            self._end_round(self._now_s() + self._every_s)
        return self._round is not None

    def _end_round(self, due_s: float) -> None:
        self._round, self._due_s = None, due_s

    def _pieces(self, until_s: float) -> Generator[None, None, bool]:
        """A round, piece by piece; returns whether it was cut short at `until_s`."""
        self._check()
        retentions = self._catalog.retentions()
        if not retentions:
            return False
        needs = needs_here(self._catalog)
        before = before_of_retentions(retentions)
        for status in self._catalog.lines():
            gone = TrimmedLine(status.stream.name, status.producer, status.trimmed_us or 0)
            try:
                for piece in self._trim(status, before(status), needs):
                    gone.add(piece)
                    yield
                    if self._now_s() >= until_s:
                        return True
            except MedusaError as error:
                # What is the matter with one line is no reason to keep the others.
                self._on_error(error)
                yield
            finally:
                if gone.segments or gone.files:
                    self._trimmed(gone)
        return False

    def _trim(
        self, status: LineStatus, before_us: int | None, needs: Needs
    ) -> Iterator[TrimResult]:
        """Trim one line by some buckets at a time, until it is done or something holds it."""
        at_us = status.kept_from_us
        if before_us is None or at_us is None:
            return
        width_us, buckets = status.stream.width_us, 16
        few, many = FILES_PER_PIECE
        # Once even where no bucket is to go: what a round that was cut short had left is there yet.
        is_due = True
        while is_due:
            at_us = max(at_us, min(before_us, at_us + buckets * width_us))
            trimmed = trim_once(
                self._catalog, status, at_us, needs, segments_max=SEGMENTS_PER_PIECE
            )
            remove_files(self._root, trimmed)
            yield trimmed
            if trimmed.has_more:
                continue
            is_due = trimmed.held_by is None and at_us + width_us <= before_us
            if len(trimmed.files) < few:
                buckets *= 2
            elif len(trimmed.files) > many:
                buckets = max(1, buckets // 2)
