"""The difference of two versions of a line, as changes: rows inserted and deleted, by bucket.

A line is a set of buckets, each a multiset of rows with one stability. The difference of two
versions is therefore computed bucket by bucket: where the digests are equal no row has changed,
however segments were cut, split or compacted in between, and rows that were superseded several
times count once, as of the later version. Stability belongs to the bucket: where rows remain and
their stability changes, the bucket is promoted, and no row is deleted.

Source: the difference of two collections in Differential Dataflow; the row marks of change data
feeds. Limit: with equal digests rows are taken as equal (128 bits for each bucket).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum

from medusa_core.digest import EMPTY, Digest
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Version
from medusa_core.segments import Segment, Stability

NO_VERSION = Version(0)


class ChangeType(Enum):
    """What became of a row; the values are those of `_change_type`.

    PROMOTE is of a bucket, not of a row: the rows of it that stayed have another stability now.
    """

    INSERT = "insert"
    DELETE = "delete"
    UPDATE_PREIMAGE = "update_preimage"
    UPDATE_POSTIMAGE = "update_postimage"
    PROMOTE = "promote"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineVersion:
    """A version at which this home's copy of a line stood.

    `stable_us` is where its stable prefix ended and `made_at_ms` when this home came to it (None:
    not known); `chain` names its whole past. At most `rows_max` rows came and went since the
    version before it that this home stood at.
    """

    version: Version
    chain: str | None = None
    stable_us: int | None = None
    made_at_ms: int | None = None
    rows_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Segments that are live at one of two versions and not at the other, in event-time order.

    Those of each side do not overlap each other. What is `before` and was superseded lies under
    something that is `after`, but for what was recalled: from `recalled_us` on, at version
    `recalled_at`, and not computed again yet.
    """

    before: tuple[Segment, ...] = ()
    after: tuple[Segment, ...] = ()
    recalled_us: int = FOREVER_US
    recalled_at: Version = NO_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChange:
    """A bucket that differs between two versions: the segments that hold it at each, if any.

    `version` is the one that made it as it is at the later; `stability` is what it has there and
    `was` what it had (None: it had no rows). What was recalled has none, and is not final.
    """

    at_us: int
    version: Version
    stability: Stability
    was: Stability | None
    before: Segment | None
    after: Segment | None

    @property
    def is_promoted(self) -> bool:
        """Whether all rows stay as they are and only their stability changes."""
        return self.before is not None and self.after is not None and (
            self.before.buckets[self.at_us] == self.after.buckets[self.at_us]
        )  # fmt: skip


def bucket_changes(difference: Difference, part: Range) -> tuple[BucketChange, ...]:
    """The buckets that begin in `part` and differ, by version and, within one, by event time."""
    olds = {at: s for s in difference.before for at in s.within(part)}
    starts = sorted(olds)
    found = [
        change
        for new in difference.after
        for at in sorted({*new.within(part), *_starts_in(starts, new.range)})
        if (change := _change(at, olds.get(at), new)) is not None
    ]
    found += [
        BucketChange(
            at_us=at,
            version=difference.recalled_at,
            stability=Stability.TENTATIVE,
            was=olds[at].stability,
            before=olds[at],
            after=None,
        )
        for at in _bare(difference, part)
        if at >= difference.recalled_us
    ]
    return tuple(sorted(found, key=lambda c: (c.version, c.at_us)))


def uncovered(difference: Difference, part: Range) -> tuple[int, ...]:
    """Buckets in `part` that had rows and of which the later version says nothing: none, ever,
    before what was recalled."""
    return tuple(at for at in _bare(difference, part) if at < difference.recalled_us)


def _bare(difference: Difference, part: Range) -> tuple[int, ...]:
    starts = sorted(at for old in difference.before for at in old.within(part))
    covered = {at for new in difference.after for at in _starts_in(starts, new.range)}
    return tuple(at for at in starts if at not in covered)


def _starts_in(starts: Sequence[int], part: Range) -> Sequence[int]:
    return starts[bisect_left(starts, part.from_us) : bisect_left(starts, part.to_us)]


def _change(at_us: int, old: Segment | None, new: Segment) -> BucketChange | None:
    was = old.buckets[at_us] if old is not None else EMPTY
    now: Digest = new.buckets.get(at_us, EMPTY)
    before = old.stability if old is not None else None
    if was == now and before in (None, new.stability):
        return None
    return BucketChange(
        at_us=at_us,
        version=new.version,
        stability=new.stability,
        was=before,
        before=old,
        after=new if now != EMPTY else None,
    )


def multiset_difference(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> tuple[list[int], list[int]]:
    """Positions of what is only before, and of what is only after; equal rows count.

    Of equal rows the first ones stay.
    """
    return _beyond(before, Counter(after)), _beyond(after, Counter(before))


def _beyond(rows: Sequence[Hashable], others: Counter[Hashable]) -> list[int]:
    left = others.copy()
    beyond: list[int] = []
    for position, row in enumerate(rows):
        if left[row] > 0:
            left[row] -= 1
        else:
            beyond.append(position)
    return beyond


def paired_by_key(deleted: Sequence[Hashable], inserted: Sequence[Hashable]) -> dict[int, int]:
    """Position of a deleted row -> that of the inserted one with its key, each at most once.

    Rows are given by their keys; of several with one key the first goes with the first.
    """
    waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
    for position in reversed(range(len(inserted))):
        waiting[inserted[position]].append(position)
    return {
        position: waiting[key].pop() for position, key in enumerate(deleted) if waiting.get(key)
    }


def versions_to_report(versions: Sequence[LineVersion], rows_max: int | None) -> LineVersion | None:
    """Up to which version to tell of changes: as many as have `rows_max` rows, never less than one.

    A version is never cut, so that whoever goes on behind it neither skips nor repeats. None if
    there is no version to tell of.
    """
    chosen: LineVersion | None = None
    rows = 0
    for version in versions:
        rows += version.rows_max
        if chosen is not None and rows_max is not None and rows > rows_max:
            break
        chosen = version
    return chosen


def as_one_change(since: LineVersion | None, trimmed_us: int | None, from_us: int) -> bool:
    """Whether the changes since a version are all there, from event time `from_us` on.

    What is trimmed was final; what was final at the version already has not changed since. `since`
    is None for the beginning of a line.
    """
    if trimmed_us is None or from_us >= trimmed_us:
        return True
    return since is not None and since.stable_us is not None and since.stable_us >= trimmed_us
