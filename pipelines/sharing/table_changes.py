"""What each version changed in a table, as the change feed reports it.

The table of stable rows grows where the stable prefix does; only a recall takes rows from it, and a
revision replaces those of some buckets. In the table of all rows a bucket changes when it is
computed, corrected or promoted. Every version is reported by itself, so that a consumer may stop at
any of them and has that version's snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from medusa_core.digest import EMPTY
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.names import Version
from medusa_core.segments import Segment
from pipelines.catalog.sharing_records import SharedSegment, SharedVersion
from pipelines.sharing.table_parts import Part, parts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StableChange:
    """The parts that a version added to the stable rows, and those that it took from them."""

    version: SharedVersion
    added: tuple[Part, ...] = ()
    removed: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedBucket:
    """A bucket that a version changed: the segments that held it before and after, if any."""

    at_us: int
    before: Segment | None
    after: Segment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllChange:
    """The buckets that a version changed."""

    version: SharedVersion
    buckets: tuple[ChangedBucket, ...]


def stable_changes(
    before: Sequence[SharedSegment], changed: Sequence[SharedSegment],
    since_us: int | None, versions: Sequence[SharedVersion],
) -> Iterator[StableChange]:  # fmt: skip
    """What each of `versions` changed in the stable rows, which ended at `since_us` before them.

    `before` are the segments that were live then and end behind `since_us`, `changed` those that
    became live or were superseded since.
    """
    live = {one.segment.range: one.segment for one in before}
    begun, ended = _by_version(changed)
    for version in versions:
        gone = {segment.range: segment for segment in ended[version.version]}
        live = {span: segment for span, segment in live.items() if span not in gone}
        live |= {segment.range: segment for segment in begun[version.version]}
        to_us = version.stable_us
        added = parts_of(_ordered(live), _between(since_us, to_us))
        # A stable prefix becomes shorter by a recall alone, which supersedes what is behind it.
        removed = parts_of(_ordered(gone), _between(to_us, since_us))
        for bucket in _revised_buckets(ended[version.version], begun[version.version]):
            if _is_before(bucket.at_us, since_us) and _is_before(bucket.at_us, to_us):
                span = Range(bucket.at_us, bucket.at_us + 1)
                added += parts_of([s for s in (bucket.after,) if s], span)
                removed += parts_of([s for s in (bucket.before,) if s], span)
        live = {span: one for span, one in live.items() if to_us is None or span.to_us > to_us}
        since_us = to_us
        if added or removed:
            yield StableChange(version=version, added=added, removed=removed)


def _revised_buckets(
    before: Sequence[Segment], after: Sequence[Segment]
) -> Iterator[ChangedBucket]:
    """The final buckets that a version replaced by other final ones, or by none."""
    yield from _changed_buckets(
        [segment for segment in before if segment.stability.is_final],
        [segment for segment in after if segment.stability.is_final],
    )


def _is_before(at_us: int, end_us: int | None) -> bool:
    return end_us is not None and at_us < end_us


def _between(from_us: int | None, to_us: int | None) -> Range | None:
    """From one end of the stable prefix (None: it has not begun) to a later one."""
    from_us = BEGINNING_US if from_us is None else from_us
    return Range(from_us, to_us) if to_us is not None and from_us < to_us else None


def _ordered(segments: Mapping[Range, Segment]) -> Sequence[Segment]:
    return [segments[span] for span in sorted(segments)]


def all_changes(
    changed: Sequence[SharedSegment], versions: Sequence[SharedVersion]
) -> Iterator[AllChange]:
    """What each of `versions` changed in the rows, tentative ones included."""
    begun, ended = _by_version(changed)
    for version in versions:
        buckets = tuple(_changed_buckets(ended[version.version], begun[version.version]))
        if buckets:
            yield AllChange(version=version, buckets=buckets)


def _by_version(
    changed: Sequence[SharedSegment],
) -> tuple[defaultdict[Version, list[Segment]], defaultdict[Version, list[Segment]]]:
    """The segments that each version made live, and those that it superseded."""
    begun: defaultdict[Version, list[Segment]] = defaultdict(list)
    ended: defaultdict[Version, list[Segment]] = defaultdict(list)
    for one in changed:
        begun[one.begin_version].append(one.segment)
        if one.end_version is not None:
            ended[one.end_version].append(one.segment)
    return begun, ended


def _changed_buckets(
    before: Sequence[Segment], after: Sequence[Segment]
) -> Iterator[ChangedBucket]:
    olds = {at: segment for segment in before for at in segment.buckets}
    news = {at: segment for segment in after for at in segment.buckets}
    for at_us in sorted(olds.keys() | news.keys()):
        old, new = olds.get(at_us), news.get(at_us)
        if _content(old, at_us) != _content(new, at_us):
            yield ChangedBucket(at_us, old, new)


def _content(segment: Segment | None, at_us: int) -> object:
    if segment is None:
        return EMPTY
    return segment.buckets[at_us], segment.stability, segment.missing
