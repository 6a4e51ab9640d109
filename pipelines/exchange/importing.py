"""Importing: what partners publish of the streams that are read here, copied into this home.

For each line: ask for its news, copy the files it names, bring it into the catalog in one call,
then let the partner know. Every part can be repeated: files lie under names of their own, the same
news is brought once, and an acknowledgement never goes back. So a crash anywhere costs a copy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from medusa_core.commits import LeaseKey
from medusa_core.errors import MedusaError, OutcomeUnknown, Refused, Unavailable
from medusa_core.exchange import (
    READER_LIMIT_MS,
    ImportStanding,
    LineNews,
    PublishedSegment,
    import_fragment,
)
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, SegmentFile
from pipelines.catalog.interface import Catalog
from pipelines.exchange.interface import Exchange
from pipelines.failpoints import reached
from pipelines.leases import LeaseKeeper
from pipelines.spark.files import read_checked, sync_folders

SEGMENTS_PER_NEWS_MAX = 1_024
IMPORTED = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of asking for one line: how many segments, or why none."""

    stream: StreamName
    producer: str
    segments: int
    version: int
    problem: str | None = None


class Importer:
    """Imports the lines that this home is assigned to import."""

    def __init__(
        self, catalog: Catalog, root: Path, exchange: Exchange, leases: LeaseKeeper
    ) -> None:
        self._catalog = catalog
        self._root = root
        self._exchange = exchange
        self._leases = leases
        self._acknowledged: dict[tuple[StreamName, Producer], int] = {}

    def poll(self, told: Callable[[Imported], None] = lambda imported: None) -> int:
        """Ask every partner once; how many lines had news. A partner that is away is passed by."""
        moved = 0
        away: set[Participant] = set()
        standings = self._catalog.imports()
        for standing in standings:
            if standing.producer.participant in away:
                continue
            try:
                news = self._news(standing)
                if news is None or not self._bring(standing, news):
                    continue
            except OutcomeUnknown:
                raise
            except MedusaError as error:
                # Whatever is the matter with one partner is no reason to leave the others.
                told(_imported(standing, 0, str(error)))
                if isinstance(error, Unavailable):
                    away.add(standing.producer.participant)
                continue
            moved += 1
            told(_imported(standing, len(news.segments), None))
        for standing in self._catalog.imports() if moved else standings:
            if standing.producer.participant not in away:
                self._acknowledge(standing)
        return moved

    def _acknowledge(self, standing: ImportStanding) -> None:
        """Tell the partner how far the copy is final, once; a new process tells it again."""
        line, safe_us = (standing.stream, standing.producer), standing.safe_through_us
        if safe_us is None or self._acknowledged.get(line) == safe_us:
            return
        partner = standing.producer.participant
        # Away now, the partner keeps more than it must until it is told.
        with contextlib.suppress(MedusaError):
            self._exchange.acknowledge(partner, standing.stream, safe_us, READER_LIMIT_MS)
            self._acknowledged[line] = safe_us
            reached("import.acknowledged")

    def _news(self, standing: ImportStanding) -> LineNews | None:
        """What is new of a line; None if nothing is."""
        news = self._exchange.line_news(
            standing.stream,
            standing.producer,
            standing.version,
            segments_max=SEGMENTS_PER_NEWS_MAX,
        )
        # The first answer counts even without a segment: where the line begins is news.
        has_begun = standing.boundary_us is not None or news.origin_us is None
        has_end = news.end_us is None or standing.has_ended
        is_known = news.version == standing.version and has_begun and has_end
        return None if is_known else news

    def _bring(self, standing: ImportStanding, news: LineNews) -> bool:
        """Bring news in; False if it had been brought before."""
        partner = standing.producer.participant
        segments = tuple(self._with_files(partner, published) for published in news.segments)
        sync_folders(self._root, [f for p in segments for f in p.segment.files])
        reached("import.fetched")
        lease = self._leases.lease(
            LeaseKey(fragment=import_fragment(standing.stream), producer=standing.reader)
        )
        is_new = self._catalog.import_line(lease, replace(news, segments=segments), standing.plan)
        reached("import.committed")
        return is_new

    def _with_files(self, partner: Participant, published: PublishedSegment) -> PublishedSegment:
        """The segment with its files copied here, where it is live."""
        if published.end_version is not None:
            return published
        files = tuple(self._fetched(partner, file) for file in published.segment.files)
        return replace(published, segment=replace(published.segment, files=files))

    def _fetched(self, partner: Participant, file: SegmentFile) -> SegmentFile:
        here = replace(file, path=str(_place_of(partner, file)))
        try:
            # Touched before it is looked at: no longer an old file that may be removed as orphan.
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._root / here.path)
            read_checked(self._root, here)
        except Unavailable:
            self._exchange.fetch(partner, file, self._root / here.path)
        return here


def _place_of(partner: Participant, file: SegmentFile) -> PurePosixPath:
    """Where a partner's file lies in this home; Refused if its name leads out of its folder."""
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts or "\\" in file.path or "\0" in file.path:
        raise Refused(f"partner {partner} names file {file.path!r}, which leads out of its folder")
    return PurePosixPath(IMPORTED) / partner / path


def _imported(standing: ImportStanding, segments: int, problem: str | None) -> Imported:
    return Imported(
        stream=standing.stream,
        producer=str(standing.producer),
        segments=segments,
        version=standing.version,
        problem=problem,
    )
