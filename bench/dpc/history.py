"""The history of a chain in its catalogs: values only, times in ms by the machine's clock.

All homes are in one server, so commit times of different homes can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

TENTATIVE = "tentative"
CORRECTION = "correction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A range of a stream as one commit wrote it; `rows` of its non-empty buckets by their start.

    `step_ms` is what computing it took, without the commit; 0 for a source.
    """

    commit: int
    committed_ms: float
    cause: str
    stability: str
    from_us: int
    to_us: int
    missing: tuple[str, ...] = ()
    rows: Mapping[int, int] = field(default_factory=dict)
    step_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A hop came into another state."""

    hop: str
    changed_ms: float
    state: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All versions of every source, and of the stream that each hop gives, head first."""

    width_us: int
    landed: Mapping[str, tuple[Version, ...]]
    hops: tuple[tuple[Version, ...], ...]
    transitions: tuple[Transition, ...] = ()


Answers = Mapping[int, tuple[Version, ...]]
"""Bucket start -> its versions, oldest first; one that a correction has cut in two counts once."""


def by_bucket(versions: Iterable[Version], width_us: int) -> Answers:
    """The versions of each bucket."""
    found: dict[int, dict[int, Version]] = {}
    for version in versions:
        for at_us in range(version.from_us, version.to_us, width_us):
            found.setdefault(at_us, {}).setdefault(version.commit, version)
    return {at_us: tuple(by[c] for c in sorted(by)) for at_us, by in sorted(found.items())}
