"""Lateness over columns is the plain rule, however the sequence is cut; and the number to hit."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medusa_core.lateness import LatenessRule, LatenessState, Verdict, judge
from pipelines.base.settings import Settings
from pipelines.sources.arrow_lateness import judge_column
from tests.sweeps import examples, long_but

ZEEK = Settings.from_environment(os.environ).test_data / "netmon-zeek-server"
needs_data = pytest.mark.skipif(not ZEEK.is_dir(), reason=f"test data is not in {ZEEK}")
SECOND_US = 1_000_000

near = st.integers(0, 200)
times = st.lists(
    st.one_of(near, near, near, st.sampled_from([10_000, 10_005, 90_000, -500])), max_size=120
)
rules = st.builds(
    LatenessRule,
    disorder_us=st.integers(0, 60),
    max_jump_us=st.none() | st.integers(0, 150),
)
bounds = st.none() | st.integers(-10, 250)


@pytest.mark.sweep
@settings(max_examples=examples(30, 400), deadline=None)
@given(rules, times, st.sets(st.integers(1, 119)), bounds, bounds)
@example(LatenessRule(max_jump_us=5), [0, 10_000] * 50, set(), None, None)
def test_any_cut_into_columns_gives_the_verdicts_of_the_plain_rule(
    rule: LatenessRule,
    times: list[int],
    cuts: set[int],
    limit_us: int | None,
    promised_us: int | None,
) -> None:
    plain = judge(rule, LatenessState(), times, limit_us=limit_us, promised_us=promised_us)
    found: list[int] = []
    state = LatenessState()
    edges = [0, *sorted(cut for cut in cuts if cut < len(times)), len(times)]
    for start, end in pairwise(edges):
        judged = judge_column(
            rule,
            LatenessState.from_json(state.to_json()),
            np.array(times[start:end], np.int64),
            limit_us=limit_us,
            promised_us=promised_us,
        )
        if judged.released is not None:
            assert found[-1] == Verdict.HELD
            found[-1] = judged.released
        found += judged.verdicts.tolist()
        state = judged.state
    assert found == list(plain.verdicts)
    assert state == plain.state


@pytest.mark.sweep
@settings(max_examples=examples(20, 200), deadline=None)
@given(rules, times)
def test_late_is_what_the_definition_says_where_nothing_is_held(
    rule: LatenessRule, times: list[int]
) -> None:
    rule = LatenessRule(disorder_us=rule.disorder_us)
    judged = judge_column(rule, LatenessState(), np.array(times, np.int64))
    defined = [i for i, time in enumerate(times) if i and time < max(times[:i]) - rule.disorder_us]
    assert np.flatnonzero(judged.verdicts == Verdict.LATE).tolist() == defined


def test_long_sequences_with_wrong_clocks_are_judged_as_by_the_plain_rule() -> None:
    chance = np.random.default_rng(3)
    column = np.arange(20_000) * 100 + chance.integers(-500, 500, 20_000)
    column[chance.integers(0, 20_000, 30)] += 10**15
    column[7_000:] += 10**9  # a pause that the next records confirm
    rule = LatenessRule(disorder_us=300, max_jump_us=10_000)
    plain = judge(rule, LatenessState(), column.tolist())
    judged = judge_column(rule, LatenessState(), column)
    assert judged.verdicts.tolist() == list(plain.verdicts)
    assert judged.state == plain.state
    assert 20 < plain.state.unconfirmed <= 31


@needs_data
@pytest.mark.parametrize(("disorder_s", "late"), [(60, 4_753), (3_900, 1), (3_901, 0)])
@pytest.mark.parametrize("batch", long_but(1, [997, 1, 70_459]))
def test_the_zeek_server_has_the_same_late_records_in_batches_of_any_size(
    disorder_s: int, late: int, batch: int
) -> None:
    column = pq.read_table(ZEEK / "connections.parquet", columns=["ts_us"])["ts_us"].to_numpy()
    rule = LatenessRule(disorder_us=disorder_s * SECOND_US)
    state = LatenessState()
    for start in range(0, len(column), batch):
        state = judge_column(rule, state, column[start : start + batch]).state
    assert (state.late, state.unconfirmed) == (late, 0)
