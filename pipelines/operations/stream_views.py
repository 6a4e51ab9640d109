"""The views of a home: make one, list them, remove one."""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.errors import Expired, Refused
from medusa_core.grid import Range
from medusa_core.names import Participant, check_name
from medusa_core.views import HOLD_MS, RECORDS_MAX, StreamView
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.changes.line_versions import line_of, lost_before_us
from pipelines.homes.home import chosen_participant, open_home
from pipelines.participant.kept_history import ALL
from pipelines.participant.viewed_history import known_view


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """A view to make, of the home of `participant` (None for the only one).

    One of `records`, `duration_us` and `part` is given. `grows`: where less is kept than the view
    would have, begin with that.
    """

    participant: str | None
    name: str
    stream: str
    records: int | None = None
    duration_us: int | None = None
    part: Range = ALL
    hold_ms: int = HOLD_MS
    grows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewList:
    """The views of a home."""

    participant: Participant
    views: tuple[StreamView, ...]


def make_view(settings: Settings, request: ViewRequest) -> StreamView:
    """Make a view, and return it as it is then.

    Raises Refused for an invalid request, an unknown stream and a name that is taken; Expired if a
    part of the view is trimmed.
    """
    check_name("view", request.name)
    part = None if request.part == ALL else request.part
    if sum(one is not None for one in (request.records, request.duration_us, part)) != 1:
        raise Refused(
            "a view has one extent: give --records N, --last DURATION, or --from TIME and --to TIME"
        )
    if part is not None and part.from_us == ALL.from_us:
        raise Refused("a view of a range needs its beginning: give --from TIME")
    if request.records is not None and request.records > RECORDS_MAX:
        raise Refused(f"--records {request.records} is too many: give {RECORDS_MAX} at most")
    with open_home(settings, chosen_participant(settings, request.participant)) as home:
        line = line_of(home.catalog, request.stream)
        if any(view.name == request.name for view in home.catalog.views()):
            raise Refused(
                f"there is a view {request.name}: remove it with medusa view remove, or choose "
                "another name"
            )
        lost_us = lost_before_us(line)
        if part is not None and lost_us is not None and part.from_us < lost_us:
            if part.to_us <= lost_us or not request.grows:
                raise Expired(
                    f"stream {request.stream} is trimmed before {iso(lost_us)}: give --from "
                    f"{iso(lost_us)}, or later"
                )
            part = Range(lost_us, part.to_us)
        home.catalog.make_view(
            StreamView(
                name=request.name,
                stream=line.stream.name,
                records=request.records,
                duration_us=request.duration_us,
                # Holds are of whole buckets; the rows before the beginning are not read.
                from_us=None if part is None else part.from_us,
                to_us=None if part is None or part.to_us == ALL.to_us else part.to_us,
            ),
            limit_ms=request.hold_ms,
            grows=request.grows,
        )
        return known_view(home, request.name)


def list_views(settings: Settings, participant: str | None) -> ViewList:
    """All views of a home, by name."""
    with open_home(settings, chosen_participant(settings, participant)) as home:
        return ViewList(participant=home.participant, views=home.catalog.views())


def remove_view(settings: Settings, participant: str | None, name: str) -> Participant:
    """Remove a view and its hold; Refused if there is none. Replays that read it continue."""
    with open_home(settings, chosen_participant(settings, participant)) as home:
        known_view(home, name)
        home.catalog.remove_view(name)
        return home.participant
