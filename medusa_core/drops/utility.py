"""Quality of service (QoS) of an output: its utility by delay and by loss, as piecewise linear
graphs.

A graph is a list of points; between two of them it is a straight line, and behind the last one it
is level. Utility is from 0 to 1, begins at 1 and never rises, so that less delay and fewer
drops are never worse. A loss graph need not be concave. Where it is not, a road map skips the part
below its concave hull: it drops much at once where the first drops cost most
(`medusa_core.drops.road_map`).

Source: the QoS graphs of Aurora. Theirs have the share delivered on the x axis of the loss graph;
here it is the share dropped, so that both graphs are read in one direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

from medusa_core.errors import Refused

POINTS_MAX = 64
"""Of one graph: it is evaluated at every decision of an overloaded participant."""

TOLERANCE = 1e-9
"""Up to which slopes are equal."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class UtilityGraph:
    """Utility by something that grows worse from left to right: points (x, utility), x ascending.

    Raises Refused, naming the point, for anything else.
    """

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.points) <= POINTS_MAX:
            raise Refused(f"a graph has from 2 to {POINTS_MAX} points, not {len(self.points)}")
        if self.points[0] != (0, 1):
            raise Refused(f"the first point is {_shown(self.points[0])}: begin with [0, 1]")
        for before, after in pairwise(self.points):
            if not after[0] > before[0]:
                raise Refused(f"point {_shown(after)} is not to the right of {_shown(before)}")
            if not 0 <= after[1] <= 1:
                raise Refused(f"point {_shown(after)} has a utility outside of 0 to 1")
            if after[1] > before[1]:
                raise Refused(f"the utility rises from {_shown(before)} to {_shown(after)}")

    def at(self, x: float) -> float:
        """The utility at x, which is not below 0."""
        for (left, high), (right, low) in pairwise(self.points):
            if x <= right:
                return high + (low - high) * (x - left) / (right - left)
        return self.points[-1][1]

    @property
    def good_until(self) -> float:
        """Up to which x nothing is lost."""
        return max(x for x, utility in self.points if utility == 1)

    @property
    def is_concave(self) -> bool:
        """Whether each further step costs at least as much as the one before."""
        slopes = [(low - high) / (right - left) for (left, high), (right, low)
                  in pairwise(self.points)]  # fmt: skip
        return all(after <= before + TOLERANCE for before, after in pairwise(slopes))


def _shown(point: Point) -> str:
    return f"[{point[0]:g}, {point[1]:g}]"


def loss_graph(points: Sequence[Point]) -> UtilityGraph:
    """The utility by the share that is dropped, which must be known up to where all is dropped."""
    graph = UtilityGraph(tuple(points))
    if graph.points[-1][0] != 1:
        raise Refused(
            f"the last point is {_shown(graph.points[-1])}: end with [1, U], the utility if "
            "everything is dropped"
        )
    return graph


class AfterDrop(Enum):
    """What becomes of a bucket that was dropped; the values are those of contracts.

    CORRECT: it is tentative, its raw data is kept, and it is computed when the load has fallen.
    GAP: it is final and empty, and nothing is kept for it.
    """

    CORRECT = "correct"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """What an output is worth by its delay (ms) and by the share that is dropped of it."""

    delay: UtilityGraph
    loss: UtilityGraph
    after: AfterDrop = AfterDrop.CORRECT

    def __post_init__(self) -> None:
        loss_graph(self.loss.points)
        if self.good_ms < 1:
            raise Refused("the delay graph falls from 0 on: say up to which delay nothing is lost")

    @property
    def good_ms(self) -> float:
        """The delay up to which nothing is lost: an overload is tolerated as long."""
        return self.delay.good_until


def qos_document(qos: Qos) -> dict[str, object]:
    """As plain JSON values."""
    return {
        "delay_ms": [list(point) for point in qos.delay.points],
        "loss": [list(point) for point in qos.loss.points],
        "after": qos.after.value,
    }


def qos_of_document(document: Mapping[str, Any]) -> Qos:
    """The QoS of plain JSON values, as `qos_document` wrote it."""
    delay, loss = ([(x, u) for x, u in document[name]] for name in ("delay_ms", "loss"))
    after = AfterDrop(document["after"])
    return Qos(delay=UtilityGraph(tuple(delay)), loss=loss_graph(loss), after=after)
