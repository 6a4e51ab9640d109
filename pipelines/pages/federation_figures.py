"""What the page of the federation reads of one home: fragments, leases, lines and links.

Its cost grows with the number of fragments and lines, never with segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.pages.page_home import Snapshot
from pipelines.platform.drills.link_faults import FILE, read_faults
from pipelines.watching.link_facts import OLD_MS

MOVED, LANDING = "moved/", "landing/"


class Lease(NamedTuple):
    """A lease of a fragment: its holder, and when it expires by the home's clock."""

    lane: str
    epoch: int
    holder: str
    is_held: bool
    expires_at_ms: int


class FragmentFigures(NamedTuple):
    """A fragment at one of the participants that it is assigned to; STABLE has no `state`."""

    id: str
    partition: int
    participant: str
    replica: int
    inputs: list[str]
    outputs: list[str]
    owner: str | None
    owned_because: str | None
    state: str | None
    because: str | None
    since_ms: int | None
    leases: tuple[Lease, ...]

    @property
    def has_left(self) -> bool:
        """Whether another participant computes it now."""
        return self.owner is not None and self.owner != self.participant

    @property
    def is_led(self) -> bool:
        """Whether a driver has one of its leases."""
        return any(lease.is_held for lease in self.leases)


class LineFigures(NamedTuple):
    """A line and how far it is final and tentative."""

    stream: str
    kind: str
    participant: str
    replica: int
    origin_us: int | None
    boundary_us: int | None
    end_us: int | None
    tentative_us: int | None


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """One side of the link with a partner; `state` is `unknown` without a report of late."""

    partner: str
    side: str
    state: str
    since_ms: int | None
    error: str | None
    answer_ms: int | None
    delay_ms: int | None


@dataclass(frozen=True, slots=True)
class FederationFigures:
    """A home at one moment."""

    participant: str
    fragments: tuple[FragmentFigures, ...]
    lines: tuple[LineFigures, ...]
    links: tuple[LinkFigures, ...]


def read_federation(home: Snapshot) -> FederationFigures:
    """Four statements."""
    (here,) = home.rows("page_home")
    return FederationFigures(
        here["participant"],
        _fragments(home.tuples("page_fragments")),
        tuple(map(LineFigures._make, home.tuples("page_lines"))),
        tuple(_link(r, here["clock_ms"]) for r in home.rows("page_links")),
    )


def _fragments(rows: Any) -> tuple[FragmentFigures, ...]:
    """One of all rows of a fragment, which has a row for each lease, in order."""
    found: list[FragmentFigures] = []
    last: Any = None
    for row in rows:
        leases = () if row[11] is None else (Lease._make(row[11:]),)
        key = row[:4]
        if key == last:
            found[-1] = found[-1]._replace(leases=found[-1].leases + leases)
        else:
            found.append(FragmentFigures._make((*row[:11], leases)))
            last = key
    return tuple(found)


def _link(row: Any, clock_ms: int) -> LinkFigures:
    is_old = clock_ms - row["reported_at_ms"] > OLD_MS
    return LinkFigures(
        row["partner"],
        row["side"],
        "unknown" if is_old else row["state"],
        None if is_old else row["state_since_ms"],
        None if is_old else row["error"],
        row["answer_ms"],
        row["delay_ms"],
    )


def lost_links(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Pairs between which drills of this folder let nothing pass now, in both orders."""
    lost = read_faults(settings.directory / FILE).at(clock.wall_s()).lost
    return tuple(sorted({
        pair for one in lost
        for pair in ((one.sender, one.receiver), (one.receiver, one.sender))
    }))  # fmt: skip
