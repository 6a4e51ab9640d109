"""One plan of drops over several homes, against trying all shares."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.drops.load_equation import LoadedBox, LoadedNetwork
from medusa_core.drops.utility import UtilityGraph, loss_graph
from medusa_core.errors import Refused
from pipelines.cli.main import main
from pipelines.operations.drops_over_homes import plan_over_homes
from tests.contracts.writing import ALPHA, BETA, NETWORK, TICKS
from tests.drops.test_utility import EVEN, graphs

CONCAVE = graphs().filter(lambda graph: graph.is_concave)
HOMES = {"first": "alpha", "left": "beta", "right": "gamma"}


def a_chain(first_us: int, left_us: int, right_us: int) -> LoadedNetwork:
    """alpha passes 1,000 records a second on to beta and gamma, which each give an output."""
    return LoadedNetwork(
        boxes=(
            LoadedBox(name="first", inputs=("in",), record_us=first_us),
            LoadedBox(name="left", inputs=("first",), record_us=left_us),
            LoadedBox(name="right", inputs=("first",), record_us=right_us),
        ),
        rates={"in": 1_000},
        outputs={"a": "left", "b": "right"},
    )


costs = st.integers(100, 900)


@given(
    network=st.builds(a_chain, costs, costs, costs),
    loss=st.fixed_dictionaries({"a": CONCAVE, "b": CONCAVE}),
    limits=st.fixed_dictionaries({h: st.floats(0.05, 1) for h in ("alpha", "beta", "gamma")}),
)
def test_no_shares_that_every_home_can_carry_are_worth_more(
    network: LoadedNetwork, loss: dict[str, UtilityGraph], limits: dict[str, float]
) -> None:
    plan = plan_over_homes(network, loss, HOMES, limits)
    assert all(load <= limits[home] + 1e-6 for home, load in plan.loads.items())
    loads = dict(network.loads)
    for a, b in product([level / 8 for level in range(9)], repeat=2):
        fits = (
            loads["first"] * max(a, b) <= limits["alpha"]
            and loads["left"] * a <= limits["beta"]
            and loads["right"] * b <= limits["gamma"]
        )
        if fits:
            assert plan.lost <= 2 - loss["a"].at(1 - a) - loss["b"].at(1 - b) + 1e-6


def test_a_home_behind_that_is_full_makes_the_first_one_drop() -> None:
    plan = plan_over_homes(a_chain(100, 500, 100), {"a": EVEN}, HOMES, {"beta": 0.25})
    assert plan.shares == {"a": pytest.approx(0.5)}
    assert plan.loads["alpha"] == pytest.approx(0.1), "gamma needs all of it"


def test_what_may_not_be_dropped_is_refused_where_it_is_too_much() -> None:
    with pytest.raises(Refused, match="more than the capacity of gamma"):
        plan_over_homes(a_chain(100, 100, 500), {"a": EVEN}, HOMES, {"gamma": 0.25})


def test_a_graph_that_is_not_concave_is_planned_by_its_hull() -> None:
    leap = loss_graph(((0, 1), (0.1, 0.2), (1, 0)))
    plan = plan_over_homes(a_chain(100, 500, 100), {"a": leap}, HOMES, {"beta": 0.25})
    assert plan.shares == {"a": pytest.approx(0.5)}


def test_the_command_plans_for_the_homes_of_the_contracts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (("participants/alpha.yaml", ALPHA), ("participants/beta.yaml", BETA),
                          ("streams/ticks.yaml", TICKS), ("mine.py", NETWORK)):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    given_ = ["drops", str(tmp_path / "mine.py"), "--contracts", str(tmp_path)]
    assert main([*given_, "--rate", "2000000", "--capacity", "beta=0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["homes"]["beta"]["load_after"] <= 0.095 + 1e-9 < found["homes"]["beta"]["load"]
    assert main([*given_, "--capacity", "betta=0.1"]) == 2
    assert "did you mean 'beta'" in capsys.readouterr().err
