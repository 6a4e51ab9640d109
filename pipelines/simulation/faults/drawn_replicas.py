"""Fragments with several owners: the other producers, verification, and the wrong producer.

Drawn from a separate random sequence, so that schedules without replicas do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from medusa_core.fragments import Fragment
from medusa_core.names import Participant, StreamName
from pipelines.simulation.faults.schedule_shapes import Shape

THIRD = 0.2
WRONG_FROM, WRONG_TO = 0.1, 0.8


@dataclass(frozen=True, slots=True)
class Wrong:
    """A participant whose engine makes one wrong row in an output of a fragment: in the first
    bucket with rows behind so great a part of the event time."""

    fragment: str
    participant: Participant
    stream: StreamName
    behind: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Who else computes a fragment than its first owner; how many producers must agree on a row
    before it is final for its readers; who computes it wrong."""

    others: Mapping[str, tuple[Participant, ...]] = field(default_factory=dict)
    verify: Mapping[StreamName, int] = field(default_factory=dict)
    wrong: Wrong | None = None


NO_REPLICAS = Replicas()


def draw_replicas(
    seed: int,
    shape: Shape,
    participants: Sequence[Participant],
    fragments: Mapping[str, Fragment],
    owners: Mapping[str, Participant],
) -> Replicas:
    """The replicas of a seed; one fragment has some at least, if the shape has them."""
    if not shape.replicas:
        return NO_REPLICAS
    chance = Random(f"replicas {seed}")
    names = [name for name in fragments if chance.random() < shape.replicas]
    names = names or [chance.choice(list(fragments))]
    others: dict[str, tuple[Participant, ...]] = {}
    verify: dict[StreamName, int] = {}
    for name in names:
        free = [p for p in participants if p != owners[name]]
        count = min(2 if chance.random() < THIRD else 1, len(free))
        others[name] = tuple(chance.sample(free, count))
        for stream in fragments[name].outputs:
            if chance.random() < shape.verifies:
                verify[stream] = chance.randint(2, 1 + count)
    wrong = None
    if chance.random() < shape.diverges:
        name = chance.choice(names)
        wrong = Wrong(
            fragment=name,
            participant=chance.choice([owners[name], *others[name]]),
            stream=chance.choice(list(fragments[name].outputs)),
            behind=chance.uniform(WRONG_FROM, WRONG_TO),
        )
    return Replicas(others=others, verify=verify, wrong=wrong)
