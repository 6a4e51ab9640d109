"""Sizes and contents of schedules: whole ones, with replicas, with revisions, with moves, short
ones of trims, and markets."""

from __future__ import annotations

from dataclasses import dataclass, replace

KINDS = (
    "crash", "freeze", "pause", "slow", "duplicate", "reorder", "lost reply", "cut", "one way",
    "slow link", "skew", "together", "second", "epoch",
)  # fmt: skip
REPLICA_KINDS = ("gone", "lapse")
"""What happens where a stream has several producers."""

REVISION_KINDS = ("add", "remove", "replace", "late")
"""What operators do to final records of sources, and records that arrive late."""

MARKET_KINDS = (
    "crash", "freeze", "pause", "cut", "one way", "slow link", "skew", "second", "duplicate",
    "late", "replay", "lost reply", "gone",
)  # fmt: skip
"""What happens where participants trade."""

Bounds = tuple[int, int]
"""The least and the most; what is in between is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Bounds of a schedule.

    `buckets_per_step`: how many a step takes at most. `kinds_min`: of how many kinds its faults are
    at least; a link is cut for `cut_ms`. The first fault comes at `first_ms`, the last `beyond_ms`
    after the last record; one that waits for somebody to come by waits for `trap_ms`. `late`,
    `reads`, `backlog`: with which probability a participant begins late, has a reader, has a
    process for corrections. `replicas`: with which probability a fragment has more owners than one;
    `verifies`: an output of such a fragment is to be verified; `diverges`: one of them, or a
    provider of a move, computes a wrong row. `revisions`: how many revisions operators make;
    `admits`: with which probability a source admits its late records; `follows`: a reader follows
    the revisions of a stream. `moves`: how many fragments move, some of them twice. `overloads`:
    with which probability an output has a QoS, by which an overload drops records of it. `market`:
    the schedule is one of a market, drawn as `market_scenario` says, and of the rest `kinds` alone
    counts. Of a run, each `mixes`-th seed is one of REPLICAS, of the others each `markets`-th one
    of MARKETS, of the rest each `revises`-th one of REVISIONS, and of what is left each `moved`-th
    one of MOVES.
    """

    buckets: Bounds
    buckets_per_batch: Bounds
    batch_every_ms: Bounds
    buckets_per_step: Bounds
    retention_buckets: Bounds
    trim_every_ms: Bounds
    look_ms: int
    buckets_per_read: int
    late: float
    reads: float
    backlog: float
    kinds: tuple[str, ...]
    kinds_min: int
    faults: Bounds
    cut_ms: Bounds
    first_ms: int
    beyond_ms: int
    trap_ms: int
    replicas: float = 0.0
    verifies: float = 0.0
    diverges: float = 0.0
    revisions: Bounds = (0, 0)
    admits: float = 0.0
    follows: float = 0.0
    mixes: int = 0
    moves: Bounds = (0, 0)
    overloads: float = 0.0
    market: bool = False
    markets: int = 0
    revises: int = 0
    moved: int = 0


WHOLE = Shape(
    buckets=(40, 52),
    buckets_per_batch=(3, 6),
    batch_every_ms=(1_000, 2_000),
    buckets_per_step=(3, 8),
    retention_buckets=(0, 6),
    trim_every_ms=(1_200, 3_500),
    look_ms=600,
    buckets_per_read=6,
    late=0.15,
    reads=0.75,
    backlog=0.7,
    kinds=KINDS,
    kinds_min=3,
    faults=(9, 13),
    cut_ms=(2_000, 7_000),
    first_ms=1_500,
    beyond_ms=0,
    trap_ms=3_000,
)

TRIMS = Shape(
    buckets=(12, 16),
    buckets_per_batch=(1, 3),
    batch_every_ms=(200, 500),
    buckets_per_step=(3, 8),
    retention_buckets=(0, 2),
    trim_every_ms=(100, 500),
    look_ms=100,
    buckets_per_read=1,
    late=0.0,
    reads=1.0,
    backlog=0.7,
    kinds=("crash", "pause"),
    kinds_min=2,
    faults=(6, 8),
    cut_ms=(2_000, 7_000),
    first_ms=1_000,
    beyond_ms=5_000,
    trap_ms=600,
)
"""Trims, reads, and kills of processes and catalogs; little else happens."""

REPLICAS = replace(WHOLE, kinds=(*KINDS, *REPLICA_KINDS), replicas=0.6, verifies=0.35, diverges=0.2)
"""Some fragments have owners on two or three participants."""

MARKETS = replace(WHOLE, kinds=MARKET_KINDS, market=True)
"""Participants that trade load under contracts."""

REVISIONS = replace(
    WHOLE, revisions=(3, 6), admits=0.6, follows=0.6, retention_buckets=(4, 40), beyond_ms=3_000
)
"""Operators revise sources, late records are admitted, and readers follow or stop."""

MOVES = replace(WHOLE, moves=(1, 3), diverges=0.25)
"""Fragments are handed over to partners while they run, and come back."""

OVERLOADS = replace(WHOLE, kinds=(*KINDS, "overload"), overloads=0.7)
"""Participants are overloaded for a while, and drop records by the QoS of outputs."""

MIXED = replace(WHOLE, mixes=4, markets=5, revises=3, moved=11)
"""Whole ones; some of them have replicas, revisions or moves, and some are markets."""


def shape_of(seed: int, shape: Shape) -> Shape:
    """The shape of one schedule of a run of a shape."""
    if shape.mixes and seed % shape.mixes == 0:
        return REPLICAS
    if shape.markets and seed % shape.markets == 0:
        return MARKETS
    if shape.revises and seed % shape.revises == 0:
        return REVISIONS
    if shape.moved and seed % shape.moved == 0:
        return MOVES
    return replace(shape, mixes=0, markets=0, revises=0, moved=0)
