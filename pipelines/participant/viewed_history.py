"""What a view of a home holds, as the history that a replay reads, and the hold of its reader.

Limit: of records at one instant all are read, or none. So a view of the last n records has more
than n where several have the event time of the n-th.
"""

from __future__ import annotations

from medusa_core.errors import Expired, Refused
from medusa_core.grid import FOREVER_US, Range
from medusa_core.suggest import did_you_mean
from medusa_core.views import READING_MS, StreamView
from pipelines.base.time_text import iso
from pipelines.homes.home import Home
from pipelines.participant.kept_history import ALL, KeptHistory, kept_history
from pipelines.storage.arrow_schema import STIME

ROWS_READ = 100_000


def known_view(home: Home, name: str) -> StreamView:
    """The view of that name; Refused, with the nearest, if there is none."""
    views = {view.name: view for view in home.catalog.views()}
    if name not in views:
        hint = did_you_mean(name, views, f"it has {', '.join(views) or 'none'}")
        raise Refused(f"the home of {home.participant} has no view {name!r}: {hint}")
    return views[name]


def viewed_history(home: Home, name: str, reader: str, as_of: str | None) -> KeptHistory:
    """The final rows of a view, which stay until the home's `close_view` for this reader.

    Raises Refused for an unknown view, and if it has no final rows yet; Expired if its limit has
    passed.
    """
    view = known_view(home, name)
    begins_us = home.catalog.open_view(name, reader, READING_MS)
    # What the stream has now may be more than a moment ago; the hold begins where the view did.
    view = known_view(home, name)
    if view.begins_us is not None:
        begins_us = max(begins_us, view.begins_us)
    history = kept_history(home, view.stream, ALL, as_of)
    if history.range.from_us > begins_us and not history.is_from_origin:
        raise Expired(
            f"view {name} begins at {iso(begins_us)}, but stream {view.stream} is kept from "
            f"{iso(history.range.from_us)} on: remove the view and make it again"
        )
    to_us = FOREVER_US if view.to_us is None else view.to_us
    found = history.within(Range(begins_us, to_us))
    if found is None:
        raise Refused(
            f"view {name} of stream {view.stream} has no final rows: the stream is final through "
            f"{iso(history.range.to_us)}"
        )
    return found if view.records is None else _last_records(found, view.records)


def _last_records(history: KeptHistory, records: int) -> KeptHistory:
    """From the instant of the n-th last record on."""
    buckets = sorted(
        (at, digest.rows)
        for segment in history.segments
        for at, digest in segment.buckets.items()
        if history.range.from_us <= at < history.range.to_us
    )
    left = records
    for at, rows in reversed(buckets):
        if rows >= left:
            first = history.within(Range(at, at + history.width_us))
            assert first is not None
            times = sorted(us for t in first.tables(ROWS_READ) for us in t[STIME].to_pylist())
            found = history.within(Range(times[-left], FOREVER_US))
            assert found is not None
            return found
        left -= rows
    return history
