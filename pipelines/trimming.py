"""Trimming a home: what nobody needs any more goes, from the catalog and then from the disk.

What must stay is in the catalog as holds; what this home's own fragments have yet to read is held
by the trim itself. Files are removed only after the catalog has forgotten them: a crash in between
leaves orphans, which the removal of orphans takes, and never a name without a file (S10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from medusa_core.fragments import Fragment
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.trims import Trimmed, needed_from_us
from pipelines.catalog.interface import Catalog, StreamStatus
from pipelines.failpoints import reached
from pipelines.orphans import remove_file

SEGMENTS_PER_CALL_MAX = 5_000
"""How many rows go in one transaction: commits of the line wait for it."""

Needs = Mapping[StreamName, Mapping[str, int]]
"""Stream -> fragment -> from when on this home's fragment has yet to read it."""


@dataclass(frozen=True, slots=True)
class Freed:
    """What a trim of one line did: `files` that were named, of them `removed` from the disk."""

    status: StreamStatus
    trimmed: Trimmed
    removed: int = 0

    @property
    def freed_bytes(self) -> int:
        """How much the files take."""
        return sum(file.size_bytes for file in self.trimmed.files)


def needs_of(catalog: Catalog, fragments: Mapping[str, Fragment]) -> Needs:
    """What the fragments that this home computes have yet to read; `fragments` by id.

    A fragment that is assigned here and not among them holds all of its inputs.
    """
    needs: dict[StreamName, dict[str, int]] = {}
    for known in catalog.read_knowledge(fragments, Limits()).fragments:
        for stream, from_us in needed_from_us(known).items():
            of_stream = needs.setdefault(stream, {})
            # A fragment may be here in several partitions or replicas: it needs what any needs.
            name = known.fragment.id
            of_stream[name] = min(of_stream.get(name, FOREVER_US), from_us)
    return needs


def furthest_us(catalog: Catalog, status: StreamStatus, needs: Needs) -> int:
    """Up to where nothing holds a line."""
    asked = trim_once(catalog, status, FOREVER_US, needs, segments_max=0, explain=True)
    return FOREVER_US if asked.held_by is None else asked.held_by.from_us


def trim_once(catalog: Catalog, status: StreamStatus, before_us: int, needs: Needs, *,
              segments_max: int | None = None, explain: bool = False) -> Trimmed:  # fmt: skip
    """One call of `Catalog.trim`."""
    stream = status.stream.name
    return catalog.trim(
        stream,
        status.producer,
        before_us,
        needed=needs.get(stream, {}),
        segments_max=SEGMENTS_PER_CALL_MAX if segments_max is None else segments_max,
        explain=explain,
    )


def explain_trim(catalog: Catalog, status: StreamStatus, before_us: int, needs: Needs) -> Freed:
    """What a trim would do; nothing is done."""
    everything = 2**31 - 1
    trimmed = trim_once(catalog, status, before_us, needs, segments_max=everything, explain=True)
    return Freed(status, trimmed)


def trim_line(
    catalog: Catalog, root: Path, status: StreamStatus, before_us: int, needs: Needs
) -> Freed:
    """Trim a line before an event time, or as far as nothing holds it, and remove its files."""
    whole = Freed(status, trim_once(catalog, status, before_us, needs))
    whole = replace(whole, removed=_remove(root, whole.trimmed))
    while whole.trimmed.has_more:
        more = trim_once(catalog, status, before_us, needs)
        whole = Freed(status, _together(whole.trimmed, more), whole.removed + _remove(root, more))
    return whole


def before_of(keep_us: int | None, before_us: int | None) -> Callable[[StreamStatus], int | None]:
    """Before when a line is trimmed: a time, or so long behind its stable prefix's end.

    None for a line that has not begun.
    """

    def before(status: StreamStatus) -> int | None:
        through_us = status.stable_through_us
        if through_us is None or before_us is not None:
            return before_us if through_us is not None else None
        return None if keep_us is None else through_us - keep_us

    return before


def _remove(root: Path, trimmed: Trimmed) -> int:
    reached("trim.committed")
    return sum(remove_file(root, file.path) for file in trimmed.files)


def _together(first: Trimmed, then: Trimmed) -> Trimmed:
    return replace(
        then,
        from_us=first.from_us,
        segments=first.segments + then.segments,
        rows=first.rows + then.rows,
        files=first.files + then.files,
    )
