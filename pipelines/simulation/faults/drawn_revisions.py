"""Revisions of a schedule: what operators revise and when, late records, and who follows.

Drawn from a separate random sequence, so that schedules without revisions do not change. Which
records an operator adds, removes or replaces is drawn when the command runs: they lie in buckets
that are final and kept then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from medusa_core.names import Participant, StreamName
from pipelines.base.failpoints import LATE_POINTS, REVISION_POINTS
from pipelines.participant.revising import RevisionAction
from pipelines.simulation.faults.schedule_shapes import Shape
from pipelines.simulation.faults.simulated_networks import WIDTH_US

if TYPE_CHECKING:
    from pipelines.simulation.faults.scenario import FeedBatch, Row

EVERY_S = (2, 8)
"""How often late records are admitted, in seconds."""

LATE_BATCH, KILLED = 0.4, 0.5
"""With which probability a batch of such a source has late records, and a process is killed at a
gap of a revision."""

LATE_BUCKETS = 10
"""How many buckets late records are late, at most."""

LATE_RECORDS = (1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRevision:
    """A command of an operator: its time, its source, and the gap at which it is killed, if any."""

    number: int
    at_ms: int
    action: RevisionAction
    stream: StreamName
    gap: str | None

    @property
    def because(self) -> str:
        """The reason that the operator gives, by which its revision is recognised."""
        return f"revision {self.number} of the schedule"


@dataclass(frozen=True, slots=True)
class RevisionFile:
    """The file of a command: the records that it adds, removes or replaces."""

    action: RevisionAction
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """The revisions of a schedule.

    `every_s`: the sources that admit late records, with their period; `late`: those records by
    batch of their source; `late_gaps`: at which gap of their revision a process is killed.
    `follows`: which readers follow the revisions of which stream. The others stop before each, and
    their operators agree some time later.
    """

    commands: tuple[DrawnRevision, ...] = ()
    every_s: Mapping[StreamName, int] = field(default_factory=dict)
    late: Mapping[StreamName, Mapping[int, tuple[Row, ...]]] = field(default_factory=dict)
    late_gaps: Mapping[tuple[StreamName, int], str] = field(default_factory=dict)
    follows: frozenset[tuple[Participant, StreamName]] = frozenset()

    def late_of(self, stream: StreamName) -> tuple[Row, ...]:
        """The late records of a source, in the order in which they arrive."""
        return tuple(row for rows in self.late.get(stream, {}).values() for row in rows)

    @property
    def occur(self) -> bool:
        """Whether there are any."""
        return bool(self.commands or self.late)


NO_REVISIONS = Revisions()


def draw_late_sources(seed: int, shape: Shape, sources: Sequence[StreamName]) -> dict[str, int]:
    """The sources that admit their late records, with the period in seconds."""
    chance = Random(f"late sources {seed}")
    return {s: chance.randint(*EVERY_S) for s in sources if chance.random() < shape.admits}


def draw_revisions(
    seed: int,
    shape: Shape,
    participants: Sequence[Participant],
    feeds: Mapping[StreamName, tuple[FeedBatch, ...]],
    streams: Sequence[StreamName],
) -> Revisions:
    """The revisions of a seed; none if the shape has none."""
    if not shape.revisions[1]:
        return NO_REVISIONS
    chance = Random(f"revisions {seed}")
    every_s = {StreamName(s): n for s, n in draw_late_sources(seed, shape, list(feeds)).items()}
    late = {stream: _late_records(chance, feeds[stream]) for stream in every_s}
    fed_ms = max(feed[-1].at_ms for feed in feeds.values())
    return Revisions(
        commands=tuple(
            DrawnRevision(
                number=number,
                at_ms=chance.randint(shape.first_ms, fed_ms + shape.beyond_ms),
                action=chance.choice(list(RevisionAction)),
                stream=chance.choice(list(feeds)),
                gap=chance.choice(REVISION_POINTS) if chance.random() < KILLED else None,
            )
            for number in range(1, chance.randint(*shape.revisions) + 1)
        ),
        every_s=every_s,
        late=late,
        late_gaps={
            (stream, batch_id): chance.choice(LATE_POINTS)
            for stream, batches in late.items()
            for batch_id in batches
            if chance.random() < KILLED
        },
        follows=frozenset(
            (participant, stream)
            for participant in participants
            for stream in streams
            if chance.random() < shape.follows
        ),
    )


def _late_records(chance: Random, feed: Sequence[FeedBatch]) -> dict[int, tuple[Row, ...]]:
    """The late records of some batches: of before what the batch before has promised."""
    found: dict[int, tuple[Row, ...]] = {}
    for before, batch in pairwise(feed):
        promised_us = feed[-1].end_us if before.end_us is not None else before.boundary_us
        if promised_us is None or chance.random() >= LATE_BATCH:
            continue
        rows = []
        for _ in range(chance.randint(*LATE_RECORDS)):
            at_us = promised_us - 1 - chance.randrange(LATE_BUCKETS * WIDTH_US)
            rows.append((at_us, at_us, chance.randrange(3), chance.randrange(10)))
        found[batch.batch_id] = tuple(rows)
    return found
