"""A move begins: what it reads is held before the provider hears of it, and read from its payer."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.commits import Cause, Commit, LeaseKey, OutputSegment
from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import IMPORT_PURPOSE, import_fragment
from medusa_core.fragments import Move, fragments_of
from medusa_core.grid import Range
from medusa_core.knowledge import Limits
from medusa_core.market.terms import ContractName
from medusa_core.names import FIRST_EPOCH, Participant, StreamName, Version
from medusa_core.network import Aggregate, Filter, Network, Output, Source
from medusa_core.segments import Producer, Stability
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.moves import MemoryMoves, MovementTerms
from pipelines.catalog.memory.store import ManualClock
from pipelines.homes.network_files import network_of_plan
from pipelines.language.check import check_network, fragments_for
from pipelines.market.moves.move_begin import begin_move
from pipelines.market.moves.move_order import document_of_order, order_in
from pipelines.market.moves.moved_deployments import order_of, provider_deployments
from pipelines.participant.assigned_plans import assigned_plans_of, newest_assignments
from pipelines.spark.deployment import deployment_of, plan_of

ALPHA, BETA = Participant("alpha"), Participant("beta")
WIDTH_US, DAY_MS = 10_000_000, 86_400_000
SEEN, COUNTED, LOUD = StreamName("seen"), StreamName("counted"), StreamName("loud")
NETWORK = Network(
    name="sums",
    sources=(Source(name="seen", columns={"at_us": "bigint", "host": "string"}, time="at_us"),),
    boxes=(
        # A window of six buckets ends in every second one.
        Aggregate(name="each", input="seen", size="60s", advance="20s", group_by=("host",),
                  columns={"n": "count(*)"}, fragment="main"),
        Filter(name="noise", input="each", cases={"loud": "n >= 2"}, fragment="tail"),
    ),
    outputs=(Output(name="counted", input="each"), Output(name="loud", input="noise.loud")),
    bucket="10s",
)  # fmt: skip


def a_payer(from_us: int, to_us: int) -> MemoryCatalog:
    """Alpha has landed `seen` and computed the rest over a range."""
    catalog = MemoryCatalog(ALPHA, ManualClock(DAY_MS))
    checked = check_network(NETWORK)
    plan = plan_of(NETWORK, checked, WIDTH_US, Path())
    catalog.deploy(deployment_of(plan, checked, fragments_for(checked), Producer(ALPHA)))
    for fragment, stream in (("landing/seen", SEEN), ("sums/main", COUNTED), ("sums/tail", LOUD)):
        key = LeaseKey(fragment=fragment, producer=Producer(ALPHA))
        lease = catalog.acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)
        segment = OutputSegment(
            stream=stream, range=Range(from_us, to_us), stability=Stability.STABLE
        )
        catalog.commit(Commit(lease=lease, plan=plan.id, cause=Cause.NORMAL, segments=(segment,)))
    return catalog


def begin(catalog: MemoryCatalog, fragment: str = "sums/main") -> MemoryMoves:
    moves = MemoryMoves(catalog)
    moves.declare(MovementTerms(contract=ContractName("load"), payer=ALPHA, provider=BETA))
    begin_move(moves, catalog, catalog, contract="load", provider=BETA, fragment=fragment,
               reason="a test")  # fmt: skip
    return moves


def test_an_order_may_begin_before_1970() -> None:
    order = order_of(a_payer(-9 * WIDTH_US, -4 * WIDTH_US), "sums/main", 1)
    assert order.starts_us == -4 * WIDTH_US
    assert order_in(document_of_order(order), order.move, order.fragment) == order


def test_all_that_a_move_will_read_is_held_though_no_window_ends_in_its_first_bucket() -> None:
    catalog = a_payer(0, 8 * WIDTH_US)
    (fragment,) = (f for f in fragments_of(NETWORK) if f.id == "sums/main")
    assert fragment.needed_by_all(Range(8 * WIDTH_US, 9 * WIDTH_US)) == {}
    begin(catalog)
    (hold,) = catalog.holds(SEEN)
    assert (hold.holder, hold.purpose) == (BETA, IMPORT_PURPOSE)
    assert hold.from_us == 4 * WIDTH_US, "the next window ends in bucket 9 and begins in bucket 4"


def test_the_hold_stands_before_the_order_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = a_payer(0, 8 * WIDTH_US)
    held: list[int] = []
    begin_as_before = MemoryMoves.begin

    def look_and_begin(self: MemoryMoves, *args: str) -> None:
        held.append(len(catalog.holds(SEEN)))
        begin_as_before(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryMoves, "begin", look_and_begin)
    begin(catalog)
    assert held == [1]


def test_a_move_whose_inputs_are_trimmed_is_not_begun() -> None:
    catalog = a_payer(0, 8 * WIDTH_US)
    (status,) = catalog.lines(SEEN)
    catalog.trim(SEEN, status.producer, 5 * WIDTH_US,
                 needed={"sums/main": 5 * WIDTH_US}, segments_max=9)  # fmt: skip
    with pytest.raises(Conflict, match="seen was trimmed meanwhile"):
        begin(catalog)


def test_of_a_move_that_is_refused_nothing_stays_held() -> None:
    catalog = a_payer(0, 8 * WIDTH_US)
    for _ in range(2):
        with pytest.raises(Refused, match="no contract unheard in force"):
            begin_move(MemoryMoves(catalog), catalog, catalog, contract="unheard", provider=BETA,
                       fragment="sums/main", reason="a test")  # fmt: skip
        assert catalog.holds(SEEN) == ()
    begin(catalog)
    (before,) = catalog.holds(SEEN)
    with pytest.raises(Refused, match="end that move first"):
        begin(catalog)
    assert catalog.holds(SEEN) == (before,)


def test_a_moved_fragment_reads_its_payers_line_though_the_stream_is_computed_beside_it() -> None:
    payer = a_payer(0, 8 * WIDTH_US)
    provider = MemoryCatalog(BETA, ManualClock(DAY_MS))
    for number, fragment in enumerate(("sums/tail", "sums/main"), start=1):
        order = order_of(payer, fragment, number)
        for deployment in provider_deployments(provider, order, Path()):
            provider.deploy(deployment)
    importing = import_fragment(COUNTED)
    key = LeaseKey(fragment=importing, producer=Producer(BETA))
    lease = provider.acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)
    news = payer.line_news(COUNTED, Producer(ALPHA), Version(0), segments_max=9)
    plan = next(a.plan for a in provider.assignments() if a.fragment == importing)
    assert provider.import_line(lease, news, plan)
    plans = assigned_plans_of(
        provider,
        newest_assignments(provider, BETA),
        lambda document: network_of_plan(document, Path()),
        Path(),
    )
    fragments = {fragment.id: fragment for one in plans for fragment in one.fragments}
    reached = {
        known.fragment.move: known.inputs[COUNTED].boundary_us
        for known in provider.read_knowledge(fragments, Limits()).fragments
        if COUNTED in known.inputs
    }
    assert reached == {Move(ALPHA, 1): 8 * WIDTH_US}
