"""The load equation and the road map, against figures by hand and against trying all plans."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.drops.load_equation import (
    DropLocation,
    LoadedBox,
    LoadedNetwork,
    drop_locations,
)
from medusa_core.drops.road_map import plan_for, road_map
from medusa_core.drops.utility import UtilityGraph, loss_graph
from medusa_core.errors import Refused
from tests.drops.test_utility import EVEN, graphs

STEEP = loss_graph(((0, 1), (0.1, 0.2), (1, 0)))
FLAT = loss_graph(((0, 1), (0.5, 0.9), (1, 0)))


def a_chain() -> LoadedNetwork:
    """The network of appendix A13: 1,000 records a second, boxes of 0.2 and 0.4 ms."""
    return LoadedNetwork(
        boxes=(
            LoadedBox(name="first", inputs=("in",), record_us=200, selectivity=0.5),
            LoadedBox(name="second", inputs=("first",), record_us=400),
        ),
        rates={"in": 1_000},
        outputs={"out": "second"},
    )


def a_split(left_us: float = 100, right_us: float = 300) -> LoadedNetwork:
    """One box whose rows two others read."""
    return LoadedNetwork(
        boxes=(
            LoadedBox(name="shared", inputs=("in",), record_us=100),
            LoadedBox(name="left", inputs=("shared",), record_us=left_us),
            LoadedBox(name="right", inputs=("shared",), record_us=right_us),
        ),
        rates={"in": 1_000},
        outputs={"a": "left", "b": "right"},
    )


def test_the_load_of_a_network_is_its_rates_times_the_costs_of_their_paths() -> None:
    chain = a_chain()
    assert chain.load == pytest.approx(0.4)
    assert chain.load_with({"out": 0.75}) == pytest.approx(0.3)


def test_an_excess_of_a_quarter_is_dropped_at_the_input() -> None:
    plan = plan_for(a_chain(), {"out": EVEN}, 0.3)
    assert plan.shares["out"] == pytest.approx(0.75)
    assert plan.locations == (DropLocation(source="in", box=None, rate=0.25),)
    assert plan.lost == pytest.approx(0.25)


def test_plan_0_drops_nothing_and_a_load_that_fits_is_plan_0() -> None:
    assert road_map(a_chain(), {"out": EVEN})[0].locations == ()
    assert plan_for(a_chain(), {"out": EVEN}, 0.4).number == 0


def test_drops_are_at_inputs_and_behind_splits_and_never_elsewhere() -> None:
    split = a_split()
    found = list(drop_locations(split, {"a": 0.4, "b": 0.8}))
    assert [(d.source, d.box, pytest.approx(d.rate)) for d in found] == [
        ("in", None, pytest.approx(0.2)),
        ("shared", "left", pytest.approx(0.5)),
    ]
    assert list(drop_locations(split, {"a": 0.5, "b": 0.5})) == [
        DropLocation(source="in", box=None, rate=0.5)
    ]


def test_what_costs_least_for_the_load_that_it_saves_is_dropped_first() -> None:
    plans = road_map(a_split(left_us=300, right_us=300), {"a": STEEP, "b": FLAT})
    first = next(plan for plan in plans if plan.number == 1)
    assert first.shares["a"] == 1
    assert first.shares["b"] < 1


def test_an_output_without_a_graph_is_not_dropped() -> None:
    plan = plan_for(a_split(), {"b": EVEN}, 0.0)
    assert plan.shares == {"b": 0}
    assert plan.load == pytest.approx(0.1 + 0.1)


def test_a_box_that_reads_what_nothing_gives_is_refused() -> None:
    with pytest.raises(Refused, match="reads nowhere"):
        LoadedNetwork(
            boxes=(LoadedBox(name="one", inputs=("nowhere",), record_us=1),), rates={}, outputs={}
        )


# against all plans

LEVELS = 5
ANY_GRAPHS = graphs()
CONCAVE_GRAPHS = ANY_GRAPHS.filter(lambda graph: graph.is_concave)


@st.composite
def networks(
    draw: st.DrawFn, *, is_shared: bool, graphs: st.SearchStrategy[UtilityGraph] = ANY_GRAPHS
) -> tuple[LoadedNetwork, dict[str, UtilityGraph]]:
    """Chains of two boxes to outputs, behind a common box or each from a source of its own."""
    loss = {f"o{n}": draw(graphs) for n in range(draw(st.integers(1, 3)))}
    costs = st.integers(1, 9)
    boxes = [LoadedBox(name="common", inputs=("in",), record_us=draw(costs))] if is_shared else []
    for name in loss:
        begins = "common" if is_shared else f"in {name}"
        first = LoadedBox(name=f"first {name}", inputs=(begins,), record_us=draw(costs),
                          selectivity=draw(st.sampled_from((0.1, 0.5, 1, 2))))  # fmt: skip
        second = LoadedBox(name=f"second {name}", inputs=(first.name,), record_us=draw(costs))
        boxes += [first, second]
    rates = {"in": 1e5} if is_shared else {f"in {name}": draw(costs) * 1e4 for name in loss}
    outputs = {name: f"second {name}" for name in loss}
    return LoadedNetwork(boxes=tuple(boxes), rates=rates, outputs=outputs), loss


def load_by_hand(network: LoadedNetwork, shares: Mapping[str, float]) -> float:
    """What flows through each box, box by box, from what it must still give."""
    rows, load = dict(network.rates), 0.0
    needed = {box: max(shares[o] for o in outs) for box, outs in network.behind.items()}
    for box in network.boxes:
        read = sum(rows[name] for name in box.inputs)
        rows[box.name] = read * box.selectivity
        load += read * needed[box.name] * box.record_us / 1e6
    return load


def all_plans(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph]
) -> list[tuple[float, float]]:
    """Load and utility of every choice of shares."""
    found = []
    for levels in product(range(LEVELS + 1), repeat=len(loss)):
        shares = {name: level / LEVELS for name, level in zip(loss, levels, strict=True)}
        utility = sum(loss[name].at(1 - share) for name, share in shares.items())
        found.append((load_by_hand(network, shares), utility))
    return found


@given(drawn=networks(is_shared=False))
def test_where_outputs_share_no_box_no_plan_of_the_same_load_is_worth_more(
    drawn: tuple[LoadedNetwork, dict[str, UtilityGraph]],
) -> None:
    network, loss = drawn
    every = all_plans(network, loss)
    for plan in road_map(network, loss, LEVELS):
        best = max(utility for load, utility in every if load <= plan.load + 1e-9)
        assert plan.utility == pytest.approx(best)


@given(drawn=networks(is_shared=True, graphs=CONCAVE_GRAPHS))
def test_with_a_shared_box_and_concave_graphs_no_plan_of_the_same_load_is_worth_more(
    drawn: tuple[LoadedNetwork, dict[str, UtilityGraph]],
) -> None:
    network, loss = drawn
    every = all_plans(network, loss)
    for plan in road_map(network, loss, LEVELS):
        best = max(utility for load, utility in every if load <= plan.load + 1e-9)
        assert plan.utility == pytest.approx(best)


@given(drawn=networks(is_shared=True))
def test_each_plan_saves_more_load_than_the_one_before_until_nothing_is_left(
    drawn: tuple[LoadedNetwork, dict[str, UtilityGraph]],
) -> None:
    network, loss = drawn
    plans = road_map(network, loss, LEVELS)
    for before, after in pairwise(plans):
        assert after.load < before.load
        assert after.utility <= before.utility + 1e-9
    assert plans[-1].load == pytest.approx(0)
    for plan in plans:
        assert load_by_hand(network, plan.shares) == pytest.approx(plan.load)
