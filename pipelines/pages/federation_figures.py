"""What the page of the federation reads of one home: fragments, leases, lines and links.

Its cost grows with the number of fragments and lines, never with segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.pages.page_home import Snapshot

IMPORT, MOVED, LANDING = "import/", "moved/", "landing/"
OLD_MS = 60_000
"""A link of which nothing was reported for so long is in no known state."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of a fragment: its holder, and when it expires by the home's clock."""

    lane: str
    epoch: int
    holder: str
    is_held: bool
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class FragmentFigures:
    """A fragment at one of the participants that it is assigned to."""

    id: str
    partition: int
    participant: str
    replica: int
    owner: str | None
    owned_because: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    state: str
    because: str | None
    since_ms: int | None
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class LineFigures:
    """A line and how far it is final and tentative."""

    stream: str
    kind: str
    participant: str
    replica: int
    boundary_us: int | None
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
        _fragments(home.rows("page_fragments")),
        tuple(
            LineFigures(r["stream"], r["kind"], r["participant"], r["replica"], r["boundary_us"],
                        r["tentative_us"])
            for r in home.rows("page_lines") if r["replica"] >= 0
        ),
        tuple(_link(r, here["clock_ms"]) for r in home.rows("page_links") if r["side"]),
    )  # fmt: skip


def _fragments(rows: Any) -> tuple[FragmentFigures, ...]:
    """One of all rows of a fragment, which has a row for each lease."""
    found: dict[tuple[str, int, int], tuple[Any, list[Lease]]] = {}
    for row in rows:
        if row["fragment"].startswith(IMPORT):
            continue
        key = (row["fragment"], row["partition"], row["replica"])
        _, leases = found.setdefault(key, (row, []))
        if row["lane"] is not None:
            leases.append(
                Lease(row["lane"], row["epoch"], row["holder"], row["is_held"],
                      row["expires_at_ms"])
            )  # fmt: skip
    return tuple(
        FragmentFigures(
            row["fragment"], row["partition"], row["participant"], row["replica"], row["owner"],
            row["owned_because"], tuple(row["inputs"]), tuple(row["outputs"]),
            (row["state"] or "STABLE").lower(), row["because"], row["state_since_ms"],
            tuple(leases),
        )
        for row, leases in found.values()
    )  # fmt: skip


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
