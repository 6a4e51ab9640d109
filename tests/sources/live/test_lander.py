"""What lands, what does not and what is promised depend on the sequence, not on its batches."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.grid import floor_us
from medusa_core.lateness import BoundaryRule, LatenessRule, LatenessState, Verdict, judge
from pipelines.sources.live.lander import Lander, Piece
from pipelines.sources.live.source_state import HeldRecord, LiveState
from pipelines.storage.arrow_schema import columns_of, record_schema
from tests.sources.live.building import NOW_MS, SOURCE, STREAM, WIDTH_US, Landing, S
from tests.sweeps import examples

SCHEMA = record_schema(columns_of("source", SOURCE.columns))


def a_piece(times: Sequence[int], first_line: int = 2) -> Piece:
    count = len(times)
    column = pa.array(times, pa.int64())
    return Piece(
        origin="a.csv",
        records=pa.Table.from_arrays(
            [column, pa.array(["x"] * count), pa.array([1] * count, pa.int32()), column],
            schema=SCHEMA,
        ),
        positions=np.arange(first_line, first_line + count),
    )


def a_lander(landing: Landing, rule: LatenessRule) -> Lander:
    lander = Lander(
        source=SOURCE,
        width_us=WIDTH_US,
        catalog=landing.catalog,
        root=landing.folder / "storage",
        lease=lambda: landing.lease,
        query_id="query",
        lateness=rule,
        boundary=BoundaryRule(disorder_us=rule.disorder_us),
    )
    lander.resume()
    return lander


seconds = st.integers(0, 300)
times_s = st.lists(
    st.one_of(seconds, seconds, st.sampled_from([5_000, 5_010, 90_000])), max_size=40
)


@pytest.mark.sweep
@settings(max_examples=examples(20, 60), deadline=None)
@given(
    times_s,
    st.sets(st.integers(0, 40)),
    st.integers(0, 60),
    st.none() | st.integers(1, 300),
)
def test_any_cut_with_a_restart_behind_every_batch_lands_the_same(
    times_s: list[int], cuts: set[int], disorder_s: int, max_jump_s: int | None
) -> None:
    times = [1_000 * S + t * S for t in times_s]
    rule = LatenessRule(
        disorder_us=disorder_s * S, max_jump_us=None if max_jump_s is None else max_jump_s * S
    )
    whole = judge(rule, LatenessState(), times)
    edges = [0, *sorted(cut for cut in cuts if cut <= len(times)), len(times)]
    with tempfile.TemporaryDirectory() as folder:
        landing = Landing(Path(folder))
        promised = []
        for number, (start, end) in enumerate(pairwise(edges)):
            lander = a_lander(landing, rule)
            pieces = [a_piece(times[start:end], start + 2)]
            lander.land(number, pieces, now_ms=NOW_MS, at={"to": end})
            lander.promise(NOW_MS * 1_000, has_all=True)
            promised.append(lander.promised_us or 0)
        lines = [record.position for record in landing.catalog.quarantined()]
        assert landing.records == whole.verdicts.count(Verdict.IN_TIME)
    refused = (Verdict.LATE, Verdict.UNCONFIRMED)
    assert sorted(lines) == [i + 2 for i, v in enumerate(whole.verdicts) if v in refused]
    assert lander.state.lateness == whole.state
    assert (lander.state.held is None) == (whole.state.held_us is None)
    assert promised == sorted(promised)
    if whole.state.max_us is not None:
        assert promised[-1] == floor_us(whole.state.max_us - rule.disorder_us, WIDTH_US)


def test_a_batch_that_has_landed_is_not_judged_into_the_state_again(landing: Landing) -> None:
    lander = a_lander(landing, LatenessRule())
    lander.land(0, [a_piece([100 * S, 50 * S])], now_ms=NOW_MS, at={})
    lander.land(0, [a_piece([100 * S, 50 * S, 40 * S])], now_ms=NOW_MS, at={})
    assert lander.state.lateness == LatenessState(max_us=100 * S, late=1)
    assert lander.polled().batches == 1
    assert landing.catalog.quarantine_count() == 1


def test_what_is_held_when_the_source_ends_is_in_quarantine(landing: Landing) -> None:
    lander = a_lander(landing, LatenessRule(max_jump_us=S))
    lander.land(0, [a_piece([100 * S, 500 * S])], now_ms=NOW_MS, at={})
    assert landing.catalog.quarantine_count() == 0
    lander = a_lander(landing, LatenessRule(max_jump_us=S))
    lander.land(1, [], now_ms=NOW_MS, at={}, is_last=True)
    (bad,) = landing.catalog.quarantined()
    assert (bad.origin, bad.position) == ("a.csv", 3)
    assert "does not confirm it" in bad.reason
    assert '"orig_h": "x"' in bad.content


def test_an_end_lies_behind_what_was_promised(landing: Landing) -> None:
    lander = a_lander(landing, LatenessRule(max_jump_us=S))
    lander.land(0, [a_piece([100 * S])], now_ms=NOW_MS, at={})
    lander.promise(0, has_all=True)
    lander.promise_end()
    lander.promise_end()
    assert (landing.status.origin_us, landing.status.end_us) == (100 * S, 110 * S)


def test_the_state_of_a_source_survives_json() -> None:
    held = HeldRecord.of("ü.csv", 7, a_piece([5]).records)
    state = LiveState(
        lateness=LatenessState(max_us=1, held_us=5), held=held, seen_ms=9, at={"file": 1}
    )
    again = LiveState.from_json(STREAM, state.to_json())
    assert again == state
    assert again.held is not None
    assert again.held.record.equals(a_piece([5]).records)
    assert LiveState.from_json(STREAM, LiveState().to_json()) == LiveState()


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"lateness": {}, "held": null}'])
def test_a_batch_without_a_usable_state_is_refused_by_name(text: str | None) -> None:
    with pytest.raises(Refused, match=r"connections"):
        LiveState.from_json(STREAM, text)
