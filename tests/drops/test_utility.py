"""QoS graphs: what is refused, what is read off them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.drops.utility import (
    AfterDrop,
    Qos,
    UtilityGraph,
    loss_graph,
    qos_document,
    qos_of_document,
)
from medusa_core.errors import Refused

FALLING = UtilityGraph(((0, 1), (1_000, 1), (3_000, 0.5), (5_000, 0)))
EVEN = loss_graph(((0, 1), (1, 0)))


@st.composite
def graphs(draw: st.DrawFn, *, whole: bool = True) -> UtilityGraph:
    """Loss graphs of a few points."""
    xs = sorted(draw(st.sets(st.integers(1, 19), max_size=4)))
    us = sorted(draw(st.lists(st.integers(0, 20), min_size=len(xs) + 1, max_size=len(xs) + 1)))
    points = [(0.0, 1.0)]
    for x, u in zip([*xs, 20], reversed(us), strict=True):
        points.append((x / 20, u / 20))
    return loss_graph(points)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (((0, 1),), "from 2 to 64 points"),
        (((1, 1), (2, 0)), r"begin with \[0, 1\]"),
        (((0, 0.9), (1, 0)), r"begin with \[0, 1\]"),
        (((0, 1), (2, 0.5), (2, 0.4)), "is not to the right of"),
        (((0, 1), (1, 0.2), (2, 0.3)), r"rises from \[1, 0.2\] to \[2, 0.3\]"),
        (((0, 1), (1, -0.1)), "outside of 0 to 1"),
        (((0, 1), (float("nan"), 0)), "is not to the right of"),
    ],
)
def test_a_graph_of_another_shape_is_refused_and_its_point_is_named(
    points: tuple[tuple[float, float], ...], says: str
) -> None:
    with pytest.raises(Refused, match=says):
        UtilityGraph(points)


def test_a_loss_graph_says_what_is_left_when_everything_is_dropped() -> None:
    with pytest.raises(Refused, match="end with"):
        loss_graph(((0, 1), (0.5, 0.1)))


def test_a_delay_graph_that_falls_at_once_tolerates_no_overload_and_is_refused() -> None:
    with pytest.raises(Refused, match="falls from 0 on"):
        Qos(delay=UtilityGraph(((0, 1), (10, 0))), loss=EVEN)


@pytest.mark.parametrize(
    ("delay", "dropped", "utility"),
    [
        (0, 0, 1),
        (1_000, 0, 1),
        (2_000, 0, 0.75),
        (4_000, 0, 0.25),
        (9_000, 0, 0),
        (2_000, 0.5, 0.375),
    ],
)
def test_the_utility_of_an_output_is_what_a_hand_reads_off_its_graphs(
    delay: float, dropped: float, utility: float
) -> None:
    qos = Qos(delay=FALLING, loss=EVEN)
    assert qos.delay.at(delay) * qos.loss.at(dropped) == pytest.approx(utility)


@given(graph=graphs(), x=st.floats(0, 1), y=st.floats(0, 1))
def test_more_loss_is_never_worth_more(graph: UtilityGraph, x: float, y: float) -> None:
    assert 0 <= graph.at(max(x, y)) <= graph.at(min(x, y)) <= 1


@given(graph=graphs())
def test_a_qos_is_the_same_after_a_trip_through_its_document(graph: UtilityGraph) -> None:
    qos = Qos(delay=FALLING, loss=graph, after=AfterDrop.GAP)
    assert qos_of_document(qos_document(qos)) == qos  # type: ignore[arg-type]
