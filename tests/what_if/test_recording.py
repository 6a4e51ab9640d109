"""Recorded load is counted once, wherever rounds cut it, and read as a live round reads it."""

from __future__ import annotations

from itertools import pairwise
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.loads import ActivityKind, LoadKey, RecordedSample, Shares, load_between, load_of
from medusa_core.market.costs import Queue
from medusa_core.market.declared import DeclaredCost
from medusa_core.names import Participant
from pipelines.catalog.postgres.what_if import with_placed_load
from pipelines.catalog.round_store import MarketFacts, Trading
from pipelines.market.rounds.fragment_names import naming_of
from pipelines.market.what_if.recorded_rounds import check_rounds, recorded_rounds

SECOND_MS = 1_000
MAIN, SPARE = LoadKey("net/main", 0, Cause.NORMAL), LoadKey("net/spare", 0, Cause.TENTATIVE)
LANDED, CORRECTED = LoadKey("landing/s", 0, Cause.LANDING), LoadKey("net/main", 0, Cause.CORRECTION)
NAMING = naming_of(("net/main", "net/spare", "landing/s"), (), Participant("home"))


def some_facts(round_ms: int) -> MarketFacts:
    return MarketFacts(
        participant=Participant("home"), clock_ms=0, round=7, opened_at_ms=None, decided_round=7,
        changes=1, loads=(), contracts=(), currencies={},
        trading=Trading(
            round_ms=round_ms, move_ms=1, residence_ms=0, dead_band=0.0, partners_max=2
        ),
        declared=DeclaredCost(cost=Queue(2.0), threshold=1.0, currency="EUR"),
    )  # fmt: skip


def a_sample(from_ms: int, length_ms: int, spent_ms: tuple[int, int, int, int]) -> RecordedSample:
    keys = (MAIN, SPARE, LANDED, CORRECTED)
    by_key = {key: spent * 1_000 for key, spent in zip(keys, spent_ms, strict=True) if spent}
    return RecordedSample(
        from_ms=from_ms, to_ms=from_ms + length_ms,
        shares=Shares(by_key=by_key, kinds={ActivityKind.DECIDING: 5_000}),
    )  # fmt: skip


samples = st.lists(
    st.builds(
        a_sample, st.integers(0, 200_000), st.integers(1, 70_000),
        st.tuples(*[st.integers(0, 9_000)] * 4),
    ),
    max_size=8,
)  # fmt: skip


@given(samples, st.lists(st.integers(-1_000, 300_000), max_size=8))
def test_load_is_counted_once_wherever_time_is_cut(
    found: list[RecordedSample], cuts: list[int]
) -> None:
    times = sorted({-1_000, 300_000, *cuts})
    spent = 0.0
    for from_ms, until_ms in pairwise(times):
        load = load_between(found, from_ms, until_ms)
        if load is not None:
            assert 0 < load.window_ms <= until_ms - from_ms
            spent += load.total * load.window_ms
    assert isclose(spent, sum(s.shares.total_us for s in found) / 1_000, abs_tol=1e-6)


def test_the_load_of_a_window_is_that_between_its_ends() -> None:
    found = [a_sample(0, 10_000, (900, 0, 0, 0)), a_sample(10_000, 10_000, (0, 800, 0, 100))]
    assert load_of(found, 20_000, 15_000) == load_between(found, 5_000, 20_000)
    assert load_between(found, 20_000, 30_000) is None


@pytest.mark.long(quick=True)
@given(samples, st.integers(1_000, 90_000), st.integers(0, 100_000), st.integers(1, 200_000))
def test_rounds_hold_all_that_was_recorded_but_corrections(
    found: list[RecordedSample], round_ms: int, from_ms: int, length_ms: int
) -> None:
    until_ms = from_ms + length_ms
    rounds = [*recorded_rounds(some_facts(round_ms), found, from_ms, until_ms, NAMING)]
    assert (rounds[0].at_ms, rounds[-1].at_ms) == (from_ms, until_ms)
    assert all(0 < b.at_ms - a.at_ms <= round_ms for a, b in pairwise(rounds))
    carried = sum(r.load * r.length_ms for r in rounds)
    whole = load_between(found, from_ms, until_ms)
    expected = 0.0 if whole is None else whole.carried * whole.window_ms
    assert isclose(carried, expected, rel_tol=1e-9, abs_tol=1e-3)
    for recorded in rounds:
        assert recorded.load >= sum(recorded.parts.values()) - 1e-5
        assert {fragment for fragment, _ in recorded.parts} <= {"main", "spare"}


def test_a_round_knows_what_had_ended_by_then_and_nothing_later() -> None:
    found = [a_sample(at * 10_000, 10_000, (1_000 * at, 0, 0, 0)) for at in range(9)]
    rounds = [*recorded_rounds(some_facts(30_000), found, 0, 90_000, NAMING)]
    known = [r.knowledge.load - 0.0005 for r in rounds]
    assert [round(load, 6) for load in known] == [-0.0005, 0.1, 0.25, 0.55]
    assert [round(r.load - 0.0005, 6) for r in rounds] == [0.1, 0.4, 0.7, -0.0005]


def test_a_span_of_too_many_rounds_is_refused() -> None:
    check_rounds(86_400 * SECOND_MS, SECOND_MS)
    with pytest.raises(Refused, match="172,800 rounds of 1000 ms"):
        check_rounds(2 * 86_400 * SECOND_MS, SECOND_MS)


spans = st.tuples(st.integers(0, 50), st.integers(1, 20), st.sampled_from(["near", "far"]))


@given(st.lists(spans, max_size=12), st.lists(spans, max_size=8))
@pytest.mark.long
def test_a_word_counts_what_lay_with_its_provider_then(
    moves: list[tuple[int, int, str]], words: list[tuple[int, int, str]]
) -> None:
    given_moves = [
        {"partner": partner, "from_ms": at, "until_ms": at + length, "price": 2, "load": at}
        for at, length, partner in moves
    ]
    output = [{"partner": partner, "at_ms": at} for at, _, partner in words]
    found = [
        (row["at_ms"], row["partner"], lay) for row, lay in with_placed_load(output, given_moves)
    ]
    assert [(at, partner) for at, partner, _ in found] == sorted(
        [(at, partner) for at, _, partner in words], key=lambda one: one[0]
    )
    for at_ms, partner, lay in found:
        expected = [at for at, length, of in moves if of == partner and at < at_ms < at + length]
        assert sorted(load for _, load in lay) == sorted(expected)
