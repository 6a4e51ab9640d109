"""A demonstration of a late and cheaper partner on real homes (papers: B6).

Alpha hands fragments over to beta and gamma when it is overloaded. Delta joins later and charges
0.8 of the price, for which gamma hands over load of its own. When the load of alpha and gamma costs
less again, all fragments return. Sources generate the same load all the time; the owners declare
costs that differ from the prices by a tenth or more: noise in the metered load decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from medusa_core.market.allocation import Allocation, allocation_of
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.simulation.schemes.bounded_price import BoundedPrice
from pipelines.simulation.schemes.demo_phases import NAMES, Phase, demo_failures, run_demo
from tests.federation.four_offices import Four
from tests.federation.test_moves_by_contract import UNSETTLED
from tests.waiting import until

PHASE_S_MAX = 400
QUIET_ROUNDS = 4
CHEAP = {"alpha": 0.2, "beta": 0.3, "gamma": 0.25}
DEAR, BETWEEN = 10.0, 0.9
"""Marginal costs, where the price is 1 and delta's is 0.8."""

CHARGES = """SELECT c.value->>1, c.value->>3, c.value->>4, c.value->>5, c.value->>7, c.value->>8
    FROM medusa_market.bill AS b,
        jsonb_array_elements(convert_from(b.document, 'UTF8')::jsonb->'charges') AS c
    WHERE (b.payer, b.provider, b.made_by) = (:payer, :provider, :made_by)
        AND c.value->>0 = 'load' ORDER BY 1, 2, 3"""
PAIRS = {"web": ("alpha", "beta"), "mail": ("alpha", "gamma"),
         "logins": ("gamma", "delta")}  # fmt: skip
PRICES = {"web": "1.00", "mail": "1.00", "logins": "0.80"}
LETTERS = dict(zip(("alpha", "beta", "gamma", "delta"), NAMES, strict=True))


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    until(is_done, what, PHASE_S_MAX)


def agree(four: Four, what: str) -> None:
    four.agree(*PAIRS[what], what, PRICES[what])


def allocation(four: Four) -> Allocation:
    """As `medusa market check` judges it, over homes in folders of their own."""
    traders = four.traders()
    return allocation_of([t.load for t in traders], [t.threshold for t in traders])


def some_rounds(four: Four, number: int) -> None:
    """Everybody has had so many, and no move is under way."""
    before = four.rounds()
    wait_for(
        f"everybody has had {number} rounds, and no move is under way",
        lambda: (
            all(n >= before[name] + number for name, n in four.rounds().items())
            and {state for *_, state in four.moves()} <= {"released", "ended"}
        ),
    )


def stays(four: Four, away: Mapping[str, str]) -> None:
    """So it is, and in some rounds of everybody nothing moves (L3)."""
    wait_for(f"away is just {away}, and not {four.away()}", lambda: four.away() == away)
    moves = four.moves()
    some_rounds(four, QUIET_ROUNDS)
    assert four.moves() == moves, four.reasons()


def show(four: Four, what: str, predicted: Phase | None) -> None:
    """Print a phase beside what was predicted of it."""
    print(f"\n{what}: away are {four.away() or 'no fragments'}", flush=True)
    for one in four.traders():
        print(
            f"  {one.participant}: load {one.load:.3f} of {one.threshold:.3f},"
            f" marginal cost {one.marginal_cost:.2f}, given {one.given:.3f}, taken {one.taken:.3f}"
        )
    print(f"  {allocation(four)}")
    print(f"  simulated: {predicted.line() if predicted else 'not there'}", flush=True)


def pairs_of(whats: set[str]) -> set[tuple[str, str]]:
    """From whom to whom these fragments go, in the letters of the simulation."""
    return {(LETTERS[payer], LETTERS[provider]) for payer, provider in map(PAIRS.get, whats)}  # type: ignore[misc]


def flows(phase: Phase) -> set[tuple[str, str]]:
    return {(NAMES[one], NAMES[other]) for one, other in phase.flows}


def check_statements(four: Four) -> None:
    """Each payer states the same load as its provider, to the last digit, and all is settled."""
    for one in four.offices.values():
        wait_for("all is settled", lambda one=one: not one.sql(UNSETTLED))  # type: ignore[misc]
    for pair in PAIRS.values():
        wait_for("they state the same", lambda pair=pair: is_stated_alike(four, *pair))  # type: ignore[misc]


def is_stated_alike(four: Four, payer: str, provider: str) -> bool:
    def stated(here: str, made_by: str) -> list[tuple[str, ...]]:
        values = {"payer": payer, "provider": provider, "made_by": made_by}
        return four.offices[here].sql(CHARGES, **values)

    billed = stated(provider, provider)
    return billed != [] and stated(payer, provider) == billed == stated(payer, payer)


def own_loads(four: Four) -> list[float]:
    load = four.load("alpha")
    return [load.of(f"{what}/main") for what in ("web", "mail")]


@pytest.mark.long
def test_load_goes_where_it_is_cheap_stays_there_and_comes_home(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    uneven, overload, _, joined = phases = run_demo(BoundedPrice())
    assert demo_failures(phases) == []
    with ExitStack() as stack:
        four = Four(postgres_server, tmp_path, stack)
        trio = "alpha", "beta", "gamma"
        for name in trio:
            four.join(name)
        for one, other in (("alpha", "beta"), ("alpha", "gamma"), ("beta", "gamma")):
            four.meet(one, other)
        for what in ("web", "mail"):
            agree(four, what)
        for name in trio:
            four.start(name)
        for name in trio:
            wait_for("load is metered", lambda n=name: four.load(n).carried > 0)  # type: ignore[misc]
        for name, marginal_cost in CHEAP.items():
            four.declare(name, marginal_cost)
        stays(four, {})
        assert allocation(four).is_acceptable
        show(four, uneven.what, uneven)

        wait_for("both fragments are metered", lambda: min(own_loads(four)) > 0)
        spent = four.trader("alpha").load
        four.declare("alpha", DEAR, spent - sum(own_loads(four)) / 2)
        stays(four, {"web": "beta", "mail": "gamma"})
        wait_for("it is acceptable", lambda: allocation(four).is_acceptable)
        show(four, overload.what, overload)
        assert pairs_of(set(four.away())) == flows(overload)

        four.declare("gamma", BETWEEN)
        four.join("delta")
        four.meet("gamma", "delta")
        agree(four, "logins")
        four.start("delta")
        four.declare("delta", CHEAP["beta"])
        stays(four, {"web": "beta", "mail": "gamma", "logins": "delta"})
        wait_for("it is acceptable", lambda: allocation(four).is_acceptable)
        show(four, joined.what, joined)
        assert pairs_of({"logins"}) <= flows(joined)

        for name in ("alpha", "gamma"):
            four.declare(name, CHEAP[name])
        stays(four, {})
        wait_for("it is acceptable", lambda: allocation(four).is_acceptable)
        show(four, "load falls", None)
        for one in four.reasons():
            print(*one)
        check_statements(four)
