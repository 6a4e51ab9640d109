"""Periodic housekeeping of a home: trims by retention, compaction, and removal of orphans."""

from __future__ import annotations

from dataclasses import replace

from pipelines.base.settings import Settings
from pipelines.homes.home import chosen_participant, open_home
from pipelines.operations.home_trim import TrimRequest, TrimResult, trim_opened


def keep_house(settings: Settings, request: TrimRequest) -> TrimResult:
    """As `trim_home`, without a refusal where there is nothing to do.

    Streams are trimmed by their retentions unless the request says how long to keep; a home
    without retentions, or one that has not begun, is left alone. Raises Unavailable if the home
    cannot be reached.
    """
    request.check()
    with open_home(settings, chosen_participant(settings, request.participant)) as home:
        lines, retentions = home.catalog.lines(), home.catalog.retentions()
        if not any(line.version > 0 for line in lines):
            return TrimResult(participant=home.participant, is_explained=request.explain)
        # A retention may be declared of a stream that this home has no line of.
        has_retention = any(line.stream.name in retentions for line in lines)
        by_retention = has_retention and request.keep_us is None and request.before_us is None
        return trim_opened(home, replace(request, by_retention=by_retention))
