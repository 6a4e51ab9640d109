"""Read a home: its streams and how far each is, and rows of one stream at a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Participant, StreamName, Version
from pipelines.base.settings import Settings
from pipelines.catalog.records import LineStatus
from pipelines.changes.line_versions import line_of, version_of
from pipelines.changes.marked_rows import MarkedRows, read_marked
from pipelines.homes.home import chosen_participant, open_home
from pipelines.report.figures import StreamFigures, stream_figures
from pipelines.storage.segment_rows import columns_of
from pipelines.storage.stable_rows import stable_through_us
from pipelines.watching.home_status import held_streams


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamList:
    """The streams of a home; `disputed_us`: from where producers of a stream disagree."""

    participant: Participant
    streams: tuple[StreamFigures, ...]
    disputed_us: Mapping[StreamName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Which rows of a stream; `participant`: None for the only home of the folder.

    `part`: event times. `as_of`: a version, or a time by the home's clock; None for now.
    `with_tentative` reads past the end of the stable prefix. At most `limit` rows are returned.
    """

    participant: str | None = None
    stream: str
    part: Range
    as_of: str | None = None
    with_tentative: bool = False
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """The first rows in event-time order, and the version that they are of."""

    participant: Participant
    line: LineStatus
    version: Version
    stable_through_us: int | None
    rows: MarkedRows

    @property
    def has_ended(self) -> bool:
        """Whether the stream has an end and is stable through it at this version."""
        end_us, through_us = self.line.end_us, self.stable_through_us
        return end_us is not None and through_us is not None and through_us >= end_us


def list_streams(settings: Settings, participant: str | None) -> StreamList:
    """Every stream of a home that it writes or reads."""
    with open_home(settings, chosen_participant(settings, participant)) as home:
        return StreamList(
            participant=home.participant,
            streams=tuple(stream_figures(home, status) for status in held_streams(home.catalog)),
            disputed_us=home.catalog.disputed(),
        )


def read_stream(settings: Settings, request: ReadRequest) -> ReadResult:
    """Read the rows that are kept: of the stable prefix unless the request asks for more.

    Raises Refused for an unknown stream or version, Unavailable if a file is missing or damaged.
    """
    with open_home(settings, chosen_participant(settings, request.participant)) as home:
        line = line_of(home.catalog, request.stream)
        version = as_of = None
        if request.as_of is not None:
            version = as_of = version_of(home.catalog, line, "--as-of", request.as_of)
        version = line.version if version is None else version
        segments = home.catalog.segments(line.stream.name, producer=line.producer, as_of=as_of)
        through_us = stable_through_us(segments, line.kept_from_us) if version else None
        upto_us = FOREVER_US if request.with_tentative else through_us
        kept_us, kept = line.kept_from_us, None
        if kept_us is not None and upto_us is not None and kept_us < upto_us:
            kept = Range(kept_us, upto_us).intersection(request.part)
        rows = read_marked(home.storage, segments, columns_of(line.stream), kept, request.limit)
        return ReadResult(
            participant=home.participant,
            line=line,
            version=version,
            stable_through_us=through_us,
            rows=rows,
        )
