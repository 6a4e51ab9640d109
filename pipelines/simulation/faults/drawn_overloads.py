"""Overloads of a schedule: which outputs have a QoS, and the capacity that a fault leaves.

Drawn from a sequence of its own, so that schedules without overloads do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from medusa_core.drops.utility import AfterDrop, Qos, UtilityGraph, loss_graph
from medusa_core.names import StreamName
from pipelines.simulation.faults.schedule_shapes import Shape

CAPACITIES = (0.0, 0.004, 0.01)
"""In seconds of steps per second of event time; fragments here take some hundredths."""

GOOD_MS = (300, 800, 2_000)
"""Up to which delay nothing is lost."""

OVERLOAD_MS = (2_000, 7_000)
LOSSES = (((0, 1), (1, 0)), ((0, 1), (0.5, 0.9), (1, 0.5)), ((0, 1), (0.1, 0.2), (1, 0)))


def draw_qos(seed: int, shape: Shape, outputs: Iterable[StreamName]) -> Mapping[StreamName, Qos]:
    """The outputs of which records may be dropped: one at least, if the shape has overloads."""
    if not shape.overloads:
        return {}
    chance, names = Random(f"overloads {seed}"), sorted(outputs)
    chosen = [name for name in names if chance.random() < shape.overloads]
    return {name: _qos(chance) for name in chosen or [chance.choice(names)]}


def _qos(chance: Random) -> Qos:
    good_ms = chance.choice(GOOD_MS)
    return Qos(
        delay=UtilityGraph(((0, 1), (good_ms, 1), (10 * good_ms, 0))),
        loss=loss_graph(chance.choice(LOSSES)),
        after=AfterDrop.CORRECT,
    )
