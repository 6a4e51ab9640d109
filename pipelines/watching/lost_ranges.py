"""Gaps that lost providers have left in streams of this home, as alarms of its status.

A driver raises the same alarm when it commits the gap, and ends it with its loop, which begins
again when the fragment has returned. What is lost does not return, so the status shows it for a
day, by the event time of the end of the gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import is_never
from medusa_core.segments import Producer, Stability
from pipelines.base.time_text import iso
from pipelines.catalog.processing_roles import Deployments, Owners
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import OwnerLine

SHOWN_MS = 86_400_000


class OwningHome(Deployments, Owners, Lines, Protocol):
    """What is deployed in a home, who owns its buckets, and its lines."""


def lost_name(fragment: str) -> str:
    """The name of the alarm."""
    return f"a range of {fragment}"


def lost_sentence(provider: Producer, part: Range) -> str:
    """What was lost, and why."""
    return (
        f"{provider.participant} was lost, and its results from {iso(part.from_us)} to "
        f"{iso(part.to_us)} that had not arrived are a gap, as its contract promises"
    )


def with_lost_ranges(
    alarms: Sequence[Mapping[str, Any]], catalog: OwningHome, clock_ms: int
) -> list[Mapping[str, Any]]:
    """The alarms, and those of gaps that no driver shows."""
    known = {alarm["of"] for alarm in alarms}
    return [*alarms, *(one for one in _lost(catalog, clock_ms) if one["of"] not in known)]


def _lost(catalog: OwningHome, clock_ms: int) -> Iterator[Mapping[str, Any]]:
    from pipelines.homes.deployed_fragments import fragments_in_force

    for name, fragment in sorted(fragments_in_force(catalog).items()):
        found: dict[Producer, Range] = {}
        for line, part in _lossy_ranges(catalog.fragment_owners(name)):
            if part.to_us < FOREVER_US and clock_ms - part.to_us // 1_000 <= SHOWN_MS:
                for stream in fragment.outputs:
                    own = Producer(catalog.participant)
                    for segment in catalog.segments(stream, part, producer=own):
                        if segment.stability is Stability.GAP:
                            lost = found.get(line.owner, segment.range).hull(segment.range)
                            found[line.owner] = lost
        for owner, lost in found.items():
            yield {
                "of": lost_name(name),
                "because": lost_sentence(owner, lost),
                "lasts_ms": max(clock_ms - lost.to_us // 1_000, 0),
            }


def _lossy_ranges(log: Sequence[OwnerLine]) -> Iterator[tuple[OwnerLine, Range]]:
    """The ranges of providers whose missing buckets are given up, which another owner follows."""
    for line, following in pairwise(log):
        if is_never(line.timeout_ms) and line.from_us < following.from_us:
            yield line, Range(line.from_us, following.from_us)
