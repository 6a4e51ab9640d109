"""The catalog's roles in reading: what pages, exports, checks and consumers read of a home.

Errors: Refused (the input is wrong), Unavailable (cannot be reached).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from medusa_core.certificates import Certificate, LineEvent
from medusa_core.changes import Difference, LineVersion
from medusa_core.commits import Cause, QuarantinedRecord
from medusa_core.cursors import Cursor
from medusa_core.grid import Range
from medusa_core.loads import WINDOW_MS, LoadSample, RecordedSample
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Read, Segment
from medusa_core.sinks import DeliveryState, SinkRecord
from medusa_core.states import Transition
from medusa_core.views import StreamView
from pipelines.catalog.processing_roles import HomeClock
from pipelines.catalog.records import (
    LineStatus,
    QuarantineEntry,
    QuarantineReason,
    StepRecord,
    StreamStatus,
)

if TYPE_CHECKING:
    from medusa_core.market.declared import DeclaredCost


class Lines(HomeClock, Protocol):
    """The lines of a home and their live segments."""

    def lines(self, stream: StreamName | None = None) -> tuple[LineStatus, ...]:
        """Every (stream, producer), by name, or those of one stream.

        At a cost that does not grow with their history.
        """

    def streams(self) -> tuple[StreamStatus, ...]:
        """The same, counted: reads every live segment."""

    def segments(self, stream: StreamName, part: Range | None = None, *,
                 producer: Producer | None = None,
                 as_of: Version | None = None) -> tuple[Segment, ...]:  # fmt: skip
        """Live segments in event-time order (those live at `as_of` of the producer, if given)."""


class LineVersions(Protocol):
    """The versions that a line had, and what differs between two of them."""

    def line_version(self, stream: StreamName, producer: Producer,
                     version: Version) -> LineVersion | None:  # fmt: skip
        """The newest version up to `version` that a line ever stood at here; None before the first
        (of a partner's line several versions may have come at once)."""

    def line_versions(self, stream: StreamName, producer: Producer, *, after: Version,
                      until: Version | None = None,
                      limit: int) -> tuple[LineVersion, ...]:  # fmt: skip
        """The versions that a line stood at here after one, oldest first (the first `limit`)."""

    def version_at(self, stream: StreamName, producer: Producer, at_ms: int) -> Version:
        """The version that a line had here at a time of this home's clock; 0 before the first."""

    def difference(self, stream: StreamName, producer: Producer, since: Version, until: Version,
                   part: Range) -> Difference:  # fmt: skip
        """The segments over `part` that were live at one of two versions and not at the other.

        Both must be versions that the line stood at here, and not trimmed over `part` (see
        `medusa_core.changes.as_one_change`).
        """

    def history(self, stream: StreamName, producer: Producer,
                part: Range) -> tuple[LineEvent, ...]:  # fmt: skip
        """Every row that a line has or had over a range, by the version at which it came."""


class StepHistory(Protocol):
    """Steps and states of the past, for people."""

    def steps(self, limit: int | None = None) -> tuple[StepRecord, ...]:
        """Commits in the order they were made (the last `limit`)."""

    def step_counts(self) -> Mapping[Cause, int]:
        """How many of these there are by cause."""

    def lineage(self, segment: Segment) -> tuple[Read, ...]:
        """What a segment was computed from."""

    def transitions(self, limit: int | None = None) -> tuple[Transition, ...]:
        """What was noted, oldest first (the last `limit`)."""

    def states(self) -> tuple[Transition, ...]:
        """The last transition of each fragment that was ever assigned here; one that never left
        STABLE has none."""


class Quarantine(Protocol):
    """Records that were refused."""

    def quarantined(self, limit: int | None = None) -> tuple[QuarantinedRecord, ...]:
        """Records in quarantine, oldest first."""

    def quarantine_entries(
        self, stream: StreamName | None = None, *, after: int = 0,
        numbers: Sequence[int] | None = None, limit: int | None = None,
    ) -> tuple[QuarantineEntry, ...]:  # fmt: skip
        """As `quarantined`, with what became of them: those behind the number `after`.

        Those that one stream lacks, and of these numbers, if they are given.
        """

    def quarantine_count(self, stream: StreamName | None = None) -> int:
        """How many records are in quarantine, if given those that a stream lacks."""

    def quarantine_reasons(self, limit: int | None = None) -> tuple[QuarantineReason, ...]:
        """Why they are, the most frequent first (the first `limit`)."""


class Certificates(Protocol):
    """What checks have found."""

    def record_certificate(self, certificate: Certificate) -> int:
        """Write down what a check found; its number. Refused if there is no such line."""

    def certificates(self, stream: StreamName | None = None, *,
                     limit: int | None = None) -> tuple[Certificate, ...]:  # fmt: skip
        """What checks have found, of one stream if given, the newest first."""


class LoadLog(Protocol):
    """What drivers spent, and what load costs here."""

    def record_load(self, sample: LoadSample) -> bool:
        """Write down what a driver spent in a period; False if this sample is known already.

        What is older than the home keeps goes meanwhile. Refused for a fragment that is not
        deployed here.
        """

    def loads_since(self, window_ms: int = WINDOW_MS) -> tuple[RecordedSample, ...]:
        """The samples that reach into the window that ends now; `medusa_core.loads.load_of`
        makes the load of them."""

    def declared_cost(self) -> DeclaredCost | None:
        """What load costs this participant, as its owner declared it last; None: never."""


class Cursors(Protocol):
    """How far consumers of tentative rows have come."""

    def place_cursor(self, stream: StreamName, name: str, producer: Producer, *, from_us: int,
                     limit_ms: int) -> None:  # fmt: skip
        """Place a cursor before all changes of a line, for its buckets from `from_us` on.

        What they are is held for `limit_ms` after each move. Conflict if the cursor is there
        already, Refused if nobody writes the stream as `producer`, Expired if a part of it is
        trimmed.
        """

    def move_cursor(self, stream: StreamName, name: str, version: Version, limit_ms: int) -> None:
        """The consumer has applied all changes up to `version`; the same again renews the hold.

        Refused if there is no such cursor, if it stands further, or if the line never stood at the
        version here; Diverged if the home no longer has the past that the cursor stands in.
        """

    def drop_cursor(self, stream: StreamName, name: str) -> None:
        """Forget a cursor and let go of what it held; nothing if there is none."""

    def cursors(self) -> tuple[Cursor, ...]:
        """All cursors of this home, by stream and name."""


class Views(Protocol):
    """Named parts of streams that are kept for queries."""

    def make_view(self, view: StreamView, *, limit_ms: int, grows: bool) -> None:
        """Keep a part of a stream, for `limit_ms` after each use.

        With `grows`, one that would begin before what is kept begins there and grows. Refused for a
        name that is taken and for an unknown stream, Expired if a part of it is trimmed.
        """

    def open_view(self, name: str, reader: str, limit_ms: int) -> int:
        """Hold what a view has now for a reader; renew its limit. Where it begins (us).

        Expired if there is no such view, or if its limit has passed.
        """

    def close_view(self, name: str, reader: str) -> None:
        """A reader has read the view; no effect if it holds nothing."""

    def remove_view(self, name: str) -> bool:
        """Remove a view and its hold; whether there was one."""

    def views(self) -> tuple[StreamView, ...]:
        """All views of this home, by name."""


class Sinks(Protocol):
    """Where streams are delivered, and how far each target has come."""

    def declare_sink(self, stream: StreamName, name: str, document: str, *, from_us: int,
                     through_us: int | None, limit_ms: int) -> None:  # fmt: skip
        """Deliver a stream from `from_us` on, or go on at `through_us`; what is declared takes the
        place of what was.

        What it has yet to deliver is held from now on, for `limit_ms` after each sign of it.
        Refused if the stream is not deployed here or the name is none.
        """

    def withdraw_sink(self, stream: StreamName, name: str) -> None:
        """Deliver there no more and give up the hold; nothing if there is no such sink."""

    def sinks(self) -> tuple[SinkRecord, ...]:
        """All sinks of this home, by stream and name."""

    def record_delivery(self, sink: SinkRecord, delivered: DeliveryState, limit_ms: int) -> None:
        """Copy how far a sink's target says it has come, and hold from there.

        Conflict if the sink is not there as declared in `sink.document`.
        """

    def record_sink_problem(self, sink: SinkRecord, problem: str | None) -> None:
        """Say why a sink does not go on, or that it does; nothing if it was declared anew."""
