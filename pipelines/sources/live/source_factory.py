"""From a declaration to a source that can be polled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from medusa_core.commits import Lease
from medusa_core.errors import Refused
from medusa_core.lateness import BoundaryRule, LatenessRule
from medusa_core.names import StreamName
from medusa_core.network import Source
from pipelines.sources.landing import LandedLines
from pipelines.sources.live.claims import claimed_value
from pipelines.sources.live.directory import DirectorySource
from pipelines.sources.live.feeds import GeneratedFeed, RecordedFeed, check_generated
from pipelines.sources.live.lander import Lander
from pipelines.sources.live.live_source import BatchLander, LiveSource
from pipelines.sources.live.members import Member
from pipelines.sources.live.paced import RECORDS_PER_POLL, PacedSource
from pipelines.sources.live.shared_feeds import feed_kind, feeds_of, where_of
from pipelines.sources.live.shared_lander import SharedLander
from pipelines.sources.live.source_declaration import (
    LiveGenerator,
    PacedReplay,
    SourceDeclaration,
    WatchedDirectory,
)
from pipelines.sources.live.spark_feed import SparkFeed
from pipelines.sources.live.spark_source import SparkSource
from pipelines.sources.live.throttled import Throttled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIRECTORY, REPLAY, GENERATE = "live-directory", "live-replay", "live-generate"
SPARK = "live-spark"
"""The query ids under which each kind lands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A source of this home: what feeds it, what the network says of it, and its landing's lease.

    `width_us` is the width of its buckets, `lease` gives the lease as last renewed.
    """

    declaration: SourceDeclaration
    source: Source
    width_us: int
    lease: Callable[[], Lease]

    @property
    def disorder_us(self) -> int:
        """What the declaration says, else the network."""
        disorder = self.declaration.timing.disorder_us
        return self.source.disorder_us if disorder is None else disorder

    @property
    def lateness(self) -> LatenessRule:
        """How late its records may be."""
        return LatenessRule(
            disorder_us=self.disorder_us, max_jump_us=self.declaration.timing.max_jump_us
        )

    @property
    def live_boundary(self) -> BoundaryRule:
        """What it may promise where its records come from a clock."""
        timing = self.declaration.timing
        return BoundaryRule(
            disorder_us=self.disorder_us,
            wall_time=timing.wall_time,
            idle_after_us=timing.idle_after_us,
            max_skew_us=timing.max_skew_us,
        )

    def check(self) -> None:
        """Refused if the declaration contradicts the network."""
        time = self.declaration.timing.time
        if time is not None and time != self.source.time:
            raise Refused(
                f"the source of {self.source.name} is declared with time {time!r}, but the "
                f"network says {self.source.time!r}: declare the same column in both, or leave it "
                "out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The home in which sources are opened.

    `root` is its storage, `checkpoints` a folder of the home for Spark's, and `session` gives the
    Spark session; both are used by directories and Spark's sources only. Relative paths of a
    declaration are taken from `base`.
    """

    catalog: LandedLines
    root: Path
    checkpoints: Path
    session: Callable[[], SparkSession]
    base: Path = Path()


def open_sources(
    declared: Mapping[StreamName, Declared], place: Place
) -> dict[StreamName, LiveSource]:
    """The sources of one home, ready to be polled; nothing is read or landed yet.

    Streams that differ by `where` and declared alike else are one source, under the name of
    their feed. Raises Refused if a declaration contradicts the network, or what it names is not
    there.
    """
    opened: dict[StreamName, LiveSource] = {}
    together: dict[StreamName, Declared] = {}
    for stream, one in declared.items():
        one.check()
        if isinstance(one.declaration, WatchedDirectory | SparkFeed) and one.declaration.where:
            together[stream] = one
        else:
            opened[stream] = _open_alone(one, place)
    for feed, members in feeds_of(together, place).items():
        opened[feed] = _open_feed(feed, members, place)
    return opened


def open_source(
    declaration: SourceDeclaration,
    *,
    source: Source,
    width_us: int,
    catalog: LandedLines,
    root: Path,
    lease: Callable[[], Lease],
    checkpoints: Path,
    session: Callable[[], SparkSession],
    base: Path | None = None,
) -> LiveSource:
    """One source as `open_sources` opens it; relative paths are the working directory's."""
    one = Declared(declaration=declaration, source=source, width_us=width_us, lease=lease)
    place = Place(
        catalog=catalog, root=root, checkpoints=checkpoints, session=session, base=base or Path()
    )
    (opened,) = open_sources({StreamName(source.name): one}, place).values()
    return opened


def _open_alone(one: Declared, place: Place) -> LiveSource:
    """A source that feeds one stream."""
    source, declaration = one.source, one.declaration

    def lander(query_id: str, boundary: BoundaryRule) -> Lander:
        return Lander(
            source=source,
            width_us=one.width_us,
            catalog=place.catalog,
            root=place.root,
            lease=one.lease,
            query_id=query_id,
            lateness=one.lateness,
            boundary=boundary,
        )

    clocked = BoundaryRule(disorder_us=one.disorder_us, wall_time=True)
    match declaration:
        case WatchedDirectory():
            checkpoint = place.checkpoints / source.name / DIRECTORY
            return _watched(
                lander(DIRECTORY, one.live_boundary), one, declaration, checkpoint, place
            )
        case SparkFeed():
            checkpoint = place.checkpoints / source.name / SPARK
            return _fed(lander(SPARK, one.live_boundary), one, declaration, checkpoint, place)
        case PacedReplay():
            paths = tuple(place.base / path for path in declaration.paths)
            recorded = RecordedFeed(source, paths, declaration.files)
            recorded.check_files()
            played = PacedSource(
                lander=lander(REPLAY, clocked),
                lateness=one.lateness,
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
                lander=lander(GENERATE, clocked),
                lateness=one.lateness,
                feed_from=lambda start_us: GeneratedFeed(
                    source=source,
                    seed=declaration.seed,
                    rate_per_s=declaration.rate_per_s,
                    sources=declaration.sources,
                    disorder_us=one.disorder_us,
                    start_us=start_us - one.disorder_us,
                    records=declaration.records,
                ),
                in_clock_time=True,
            )
        case _:
            assert_never(declaration)


def _open_feed(feed: StreamName, members: Sequence[Declared], place: Place) -> LiveSource:
    """One source for several streams, which are alike but for the value that is theirs."""
    first = members[0]
    declaration = first.declaration
    assert isinstance(declaration, WatchedDirectory | SparkFeed), "only these say where"
    assert declaration.where is not None
    kind = feed_kind(declaration)
    folder = place.checkpoints / feed / kind
    lander = SharedLander(
        feed=feed,
        members=[
            Member(
                source=m.source,
                width_us=m.width_us,
                value=claimed_value(m.source, where_of(m.declaration)),
                lease=m.lease,
            )
            for m in members
        ],
        column=declaration.where.column,
        catalog=place.catalog,
        root=place.root,
        query_id=kind,
        lateness=first.lateness,
        boundary=first.live_boundary,
        folder=folder,
    )
    match declaration:
        case WatchedDirectory():
            return _watched(lander, first, declaration, folder / "handed", place)
        case SparkFeed():
            return _fed(lander, first, declaration, folder / "query", place)
        case _:
            assert_never(declaration)


def _watched(
    lander: BatchLander,
    one: Declared,
    declaration: WatchedDirectory,
    checkpoint: Path,
    place: Place,
) -> LiveSource:
    watched = DirectorySource(
        lander=lander,
        source=one.source,
        directory=_outside(one.source, place.base / declaration.path, place.root),
        format_=declaration.format,
        max_skew_us=declaration.timing.max_skew_us,
        checkpoint=checkpoint,
        session=place.session,
        files_per_poll=declaration.files_per_poll,
        file_limits=declaration.files,
    )
    return _limited(watched, declaration.records_per_s)


def _fed(
    lander: BatchLander, one: Declared, declaration: SparkFeed, checkpoint: Path, place: Place
) -> LiveSource:
    path = None
    if declaration.path is not None:
        path = _outside(one.source, place.base / declaration.path, place.root)
    fed = SparkSource(
        lander=lander,
        source=one.source,
        feed=declaration,
        path=path,
        checkpoint=checkpoint,
        session=place.session,
    )
    return _limited(fed, declaration.records_per_s)


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
