"""From a declaration to a source that can be polled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from medusa_core.commits import Lease
from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.lateness import BoundaryRule, LatenessRule
from medusa_core.network import Source
from pipelines.catalog.interface import Catalog
from pipelines.streams.live.declaration import (
    LiveGenerator,
    PacedReplay,
    SourceDeclaration,
    WatchedDirectory,
)
from pipelines.streams.live.directory import DirectorySource
from pipelines.streams.live.feeds import GeneratedFeed, RecordedFeed, check_generated
from pipelines.streams.live.fields import Timing
from pipelines.streams.live.interface import LiveSource
from pipelines.streams.live.lander import Lander
from pipelines.streams.live.paced import RECORDS_PER_POLL, PacedSource
from pipelines.streams.live.spark_feed import SparkFeed
from pipelines.streams.live.spark_source import SparkSource
from pipelines.streams.live.throttled import Throttled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_DISORDER = "0s"
DIRECTORY, REPLAY, GENERATE = "live-directory", "live-replay", "live-generate"
SPARK = "live-spark"
"""The query ids under which each kind lands."""


def open_source(
    declaration: SourceDeclaration,
    *,
    source: Source,
    width_us: int,
    catalog: Catalog,
    root: Path,
    lease: Callable[[], Lease],
    checkpoints: Path,
    session: Callable[[], SparkSession],
    base: Path | None = None,
) -> LiveSource:
    """A source of one home, ready to be polled; nothing is read or landed yet.

    `source` is what the network says of the stream and `width_us` the width of its buckets, `root`
    the home's storage, `lease` the lease of the landing as last renewed. `checkpoints` is a folder
    of the home for Spark's, and `session` gives the Spark session; both are used by a directory and
    by Spark's sources only. Relative paths of the declaration are taken from `base` (default: the
    working directory).

    Raises Refused if the declaration contradicts the network, or what it names is not there.
    """
    timing = declaration.timing
    if timing.time is not None and timing.time != source.time:
        raise Refused(
            f"the source of {source.name} is declared with time {timing.time!r}, but the network "
            f"says {source.time!r}: declare the same column in both, or leave it out"
        )
    disorder_us = _disorder_us(source, timing)
    lateness = LatenessRule(disorder_us=disorder_us, max_jump_us=timing.max_jump_us)
    base = base or Path()

    def lander(query_id: str, boundary: BoundaryRule) -> Lander:
        return Lander(
            source=source,
            width_us=width_us,
            catalog=catalog,
            root=root,
            lease=lease,
            query_id=query_id,
            lateness=lateness,
            boundary=boundary,
        )

    live_boundary = BoundaryRule(
        disorder_us=disorder_us,
        wall_time=timing.wall_time,
        idle_after_us=timing.idle_after_us,
        max_skew_us=timing.max_skew_us,
    )
    match declaration:
        case WatchedDirectory():
            directory = _outside(source, base / declaration.path, root)
            watched = DirectorySource(
                lander=lander(DIRECTORY, live_boundary),
                source=source,
                directory=directory,
                format_=declaration.format,
                max_skew_us=timing.max_skew_us,
                checkpoint=checkpoints / source.name / DIRECTORY,
                session=session,
                files_per_poll=declaration.files_per_poll,
            )
            return _limited(watched, declaration.records_per_s)
        case SparkFeed():
            path = None
            if declaration.path is not None:
                path = _outside(source, base / declaration.path, root)
            fed = SparkSource(
                lander=lander(SPARK, live_boundary),
                source=source,
                feed=declaration,
                path=path,
                checkpoint=checkpoints / source.name / SPARK,
                session=session,
            )
            return _limited(fed, declaration.records_per_s)
        case PacedReplay():
            recorded = RecordedFeed(source, tuple(base / path for path in declaration.paths))
            recorded.check_files()
            played = PacedSource(
                lander=lander(REPLAY, BoundaryRule(disorder_us=disorder_us, wall_time=True)),
                lateness=lateness,
                feed_from=lambda start_us: recorded,
                speed=declaration.speed,
                records_per_poll=min(
                    declaration.records_per_s or RECORDS_PER_POLL, RECORDS_PER_POLL
                ),
            )
            return _limited(played, declaration.records_per_s)
        case LiveGenerator():
            check_generated(source)
            return PacedSource(
                lander=lander(GENERATE, BoundaryRule(disorder_us=disorder_us, wall_time=True)),
                lateness=lateness,
                feed_from=lambda start_us: GeneratedFeed(
                    source=source,
                    seed=declaration.seed,
                    rate_per_s=declaration.rate_per_s,
                    sources=declaration.sources,
                    disorder_us=disorder_us,
                    start_us=start_us - disorder_us,
                    records=declaration.records,
                ),
                in_clock_time=True,
            )
        case _:
            assert_never(declaration)


def _limited(source: LiveSource, records_per_s: int | None) -> LiveSource:
    return source if records_per_s is None else Throttled(source, records_per_s)


def _outside(source: Source, folder: Path, root: Path) -> Path:
    """The folder, absolute; Refused if it is where Medusa keeps its own files."""
    found, own = folder.resolve(), root.resolve()
    if found.is_relative_to(own) or own.is_relative_to(found):
        raise Refused(
            f"the source of {source.name} watches {found}, where Medusa keeps its own files: watch "
            "another folder"
        )
    return found


def _disorder_us(source: Source, timing: Timing) -> int:
    if timing.disorder_us is not None:
        return timing.disorder_us
    return 0 if source.disorder == NO_DISORDER else parse_duration_us(source.disorder)
