"""Room: trims by retention, compaction, and files that nothing names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.cli.trim import Wanted, run_trim
from pipelines.homes.home import open_home
from pipelines.operations.printed_documents import told_by


def keep_house(
    settings: Settings,
    participant: Participant,
    *,
    keep: str | None,
    compacts: bool,
    removes_orphans: bool,
    explain: bool,
) -> Mapping[str, Any]:
    """Trim, compact, remove orphans of one home; what is kept for good is left alone.

    Raises Refused for a duration that is none.
    """
    with open_home(settings, participant) as home:
        lines, retentions = home.catalog.lines(), home.catalog.retentions()
        # A retention may be declared of a stream that this home has no line of.
        trims = keep is not None or any(line.stream.name in retentions for line in lines)
        has_begun = any(line.version > 0 for line in lines)
    document: dict[str, Any] = {"participant": participant, "explained": explain}
    if not has_begun:
        return document
    if trims:
        document |= _trimmed(settings, participant, Wanted(keep=keep, explain=explain))
    if compacts or removes_orphans:
        wanted = Wanted(compact=compacts, orphans=removes_orphans, explain=explain)
        document |= _trimmed(settings, participant, wanted)
    return document


def _trimmed(settings: Settings, participant: Participant, wanted: Wanted) -> Mapping[str, Any]:
    document = told_by(run_trim, settings, participant, wanted, as_json=True)
    return dict(document)
