"""Moves: what is next for a payer's move, and what a message about one may say."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.fragments import Move
from medusa_core.market.agreements import read_message
from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.moves import (
    ORDER_BYTES_MAX,
    MoveProgress,
    MoveState,
    message_of_move,
    message_of_moved,
    next_step,
)
from medusa_core.names import NetworkName, Participant, PlanId, StreamName
from medusa_core.plans import fingerprint_of
from medusa_core.segments import Producer
from pipelines.catalog.records import PlanRecord, StreamRecord
from pipelines.market.moves.move_order import MovedInput, MoveOrder, document_of_order, order_in

WIDTH_US = 2_000_000
KNOWN = MoveProgress(
    state=MoveState.STARTED,
    age_ms=1_000,
    is_in_force=True,
    own_us=20 * WIDTH_US,
    computed_us=20 * WIDTH_US,
    provider_us=20 * WIDTH_US,
    width_us=WIDTH_US,
    agrees=True,
    is_recalled=False,
    has_ended=False,
    move_ms=300_000,
    timeout_ms=5_000,
)


def state_after(**changes: Any) -> MoveState | None:
    step = next_step(replace(KNOWN, **changes))
    return None if step is None else step.state


def test_a_provider_that_has_caught_up_owns_the_bucket_after_the_next() -> None:
    step = next_step(KNOWN)
    assert step is not None
    assert (step.state, step.from_us) == (MoveState.RELEASED, 21 * WIDTH_US)


def test_a_provider_that_has_not_caught_up_is_waited_for_until_the_time_out() -> None:
    for provider_us in (None, 18 * WIDTH_US):
        assert state_after(provider_us=provider_us) is None
        assert state_after(provider_us=provider_us, age_ms=300_001) is MoveState.ENDED


def test_a_move_that_does_not_begin_ends() -> None:
    accepted = {"state": MoveState.ACCEPTED, "provider_us": None}
    assert state_after(**accepted) is None
    assert state_after(**accepted, age_ms=300_001) is MoveState.ENDED


@pytest.mark.parametrize(
    "changes",
    [{"is_in_force": False}, {"agrees": False}, {"is_recalled": True}, {"has_ended": True}],
)
def test_without_a_contract_with_other_rows_or_after_a_recall_a_fragment_comes_back(
    changes: dict[str, bool],
) -> None:
    assert state_after(**changes) is MoveState.ENDED
    assert state_after(**changes, state=MoveState.RELEASED) is MoveState.RETURNING


def test_a_provider_that_is_four_buckets_and_its_time_out_behind_is_lost() -> None:
    limit_us = 20 * WIDTH_US - 4 * WIDTH_US - 5_000_000
    assert state_after(state=MoveState.RELEASED, provider_us=limit_us) is None
    assert state_after(state=MoveState.RELEASED, provider_us=limit_us - 1) is MoveState.RETURNING
    before_1970 = {"own_us": -20 * WIDTH_US, "provider_us": None}
    assert state_after(state=MoveState.RELEASED, **before_1970, age_ms=13_000) is None
    late = state_after(state=MoveState.RELEASED, **before_1970, age_ms=13_001)
    assert late is MoveState.RETURNING, "without a line it is as late as the state is old"


LOSSY = {"state": MoveState.RELEASED, "is_lossy": True}
LOST_US = 20 * WIDTH_US - 4 * WIDTH_US - 5_000_000 - 1


def test_with_gap_recovery_a_lost_provider_costs_the_buckets_before_the_next_one() -> None:
    """This home has computed none of them: it is how far its inputs are that counts."""
    waiting = replace(
        KNOWN, **LOSSY, own_us=LOST_US, computed_us=LOST_US, provider_us=LOST_US,
        ready_us=20 * WIDTH_US - 1,
    )  # fmt: skip
    assert next_step(replace(waiting, quiet_ms=4_999)) is None
    step = next_step(replace(waiting, ready_us=20 * WIDTH_US, quiet_ms=5_000))
    assert step is not None
    assert (step.state, step.from_us) == (MoveState.RETURNING, 20 * WIDTH_US)
    part = next_step(replace(waiting, ready_us=20 * WIDTH_US + 1, quiet_ms=5_000))
    assert part is not None
    assert part.from_us == 21 * WIDTH_US, "a bucket that has begun is not complete without it"


def test_a_payer_that_was_away_itself_gives_its_provider_time_before_it_loses_rows() -> None:
    behind = replace(KNOWN, **LOSSY, provider_us=0, ready_us=1_000 * WIDTH_US)
    assert next_step(replace(behind, quiet_ms=4_999)) is None
    assert next_step(replace(behind, quiet_ms=5_000)) is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": MoveState.ACCEPTED, "age_ms": 300_001},
         "the provider has not begun within 300 s"),
        ({"provider_us": None, "age_ms": 300_001}, "the provider has not caught up within 300 s"),
        ({"provider_us": 19 * WIDTH_US}, "the provider has caught up: it is 2 s behind this home"),
        ({"state": MoveState.RELEASED, "provider_us": 0, "own_us": 40_125_000},
         "the provider is 40.125 s behind"),
        (LOSSY | {"provider_us": 0, "ready_us": 40_000_000, "quiet_ms": 5_000},
         "the provider is 40 s behind: what it has not sent is lost"),
    ],
)  # fmt: skip
def test_reasons_have_lengths_of_time_in_seconds(changes: dict[str, Any], reason: str) -> None:
    step = next_step(replace(KNOWN, **changes))
    assert step is not None
    assert step.reason == reason


@given(
    st.builds(
        MoveProgress,
        state=st.sampled_from(MoveState),
        age_ms=st.integers(0, 10**6),
        is_in_force=st.booleans(),
        own_us=st.integers(0, 10**9),
        computed_us=st.integers(0, 10**9),
        provider_us=st.none() | st.integers(0, 10**9),
        width_us=st.just(WIDTH_US),
        agrees=st.booleans(),
        is_recalled=st.booleans(),
        has_ended=st.booleans(),
        move_ms=st.integers(100, 10**6),
        timeout_ms=st.integers(1, 10**6),
        is_lossy=st.booleans(),
        ready_us=st.integers(0, 10**9),
        quiet_ms=st.integers(0, 10**6),
    )
)
def test_states_come_in_order_and_only_a_release_gives_buckets_away(known: MoveProgress) -> None:
    step = next_step(known)
    after = {
        MoveState.ACCEPTED: {MoveState.ENDED},
        MoveState.STARTED: {MoveState.RELEASED, MoveState.ENDED},
        MoveState.RELEASED: {MoveState.RETURNING},
        MoveState.RETURNING: {MoveState.ENDED},
        MoveState.ENDED: set[MoveState](),
    }
    assert step is None or step.state in after[known.state]
    if step is not None and step.state is MoveState.RETURNING and step.from_us is not None:
        assert known.is_lossy
        assert step.from_us >= known.computed_us
        assert known.quiet_ms >= known.timeout_ms
        return
    assert step is None or (step.from_us is not None) == (step.state is MoveState.RELEASED)
    if step is not None and step.from_us is not None:
        assert step.from_us > known.computed_us
        assert known.agrees
        assert known.is_in_force
        assert not known.is_recalled


MOVE = {
    "contract": "load", "number": 3, "fragment": "net/main", "state": "accepted", "order": "{}",
    "price": "1.5", "from_us": None, "to_us": None, "lost_us": None, "reason": "",
}  # fmt: skip
ENDED = MOVE | {"state": "ended", "order": None, "from_us": -5, "to_us": 9, "lost_us": 7}
MOVED = {"contract": "load", "number": 3, "state": "started", "reason": ""}


def test_a_message_says_just_what_it_has_to() -> None:
    assert message_of_move(json.dumps(MOVE).encode()).number == 3
    assert message_of_move(json.dumps(MOVE).encode()).price == Decimal("1.5")
    assert message_of_move(json.dumps(ENDED).encode()).to_us == 9
    assert message_of_moved(json.dumps(MOVED).encode()).state is MoveState.STARTED


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 0}, {"number": True}, {"number": "3"}, {"number": 2**31}, {"more": 1},
        {"fragment": "import/net"}, {"fragment": "moved/alpha/1/net/main"}, {"fragment": "net"},
        {"fragment": "../main"}, {"contract": "A'"}, {"order": 1},
        {"order": "x" * (ORDER_BYTES_MAX + 1)}, {"reason": None}, {"order": None},
        {"price": None}, {"price": "0"}, {"price": "NaN"}, {"price": 1.5}, {"price": "1e3"},
        {"state": "released"}, {"state": "started"}, {"from_us": "1"}, {"to_us": 2**60},
    ],
)  # fmt: skip
def test_any_other_move_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read_message(EnvelopeKind.MOVE, json.dumps({**MOVE, **changes}).encode())


@pytest.mark.parametrize("changes", [{"state": "released"}, {"number": -1}, {"more": 1}])
def test_any_other_word_of_a_provider_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read_message(EnvelopeKind.MOVED, json.dumps({**MOVED, **changes}).encode())


@given(st.binary(max_size=200) | st.just(b"[" * 100_000))
def test_what_is_no_message_is_refused(body: bytes) -> None:
    for kind in (EnvelopeKind.MOVE, EnvelopeKind.MOVED):
        with pytest.raises(Refused):
            read_message(kind, body)


ORDER = MoveOrder(
    move=Move(Participant("alpha"), 3),
    fragment="net/main",
    plan=PlanRecord(id=fingerprint_of("{}"), network=NetworkName("net"), document="{}"),
    inputs=(
        MovedInput(
            stream=StreamRecord(name=StreamName("s"), kind="source", width_us=5, key=("k",),
                                columns={"k": "string", "ts": "bigint"}),
            producer=Producer(Participant("alpha"), 0),
        ),
    ),
    starts_us=10,
)  # fmt: skip


def test_an_order_is_read_as_it_was_written() -> None:
    assert order_in(document_of_order(ORDER), ORDER.move, ORDER.fragment) == ORDER


def test_an_order_that_does_not_fit_a_message_is_not_sent() -> None:
    document = " " * ORDER_BYTES_MAX
    plan = PlanRecord(id=PlanId("x"), network=NetworkName("net"), document=document)
    with pytest.raises(Refused, match="does not fit"):
        document_of_order(replace(ORDER, plan=plan))


@given(st.data())
def test_an_order_with_anything_changed_is_refused_or_read(data: st.DataObject) -> None:
    fields = json.loads(document_of_order(ORDER))
    name = data.draw(st.sampled_from(sorted(fields)))
    junk = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
    fields[name] = data.draw(junk | st.dictionaries(st.text(max_size=3), junk, max_size=2))
    try:
        read = order_in(json.dumps(fields), ORDER.move, ORDER.fragment)
    except Refused:
        return
    assert read.plan == ORDER.plan


def test_a_plan_with_another_fingerprint_is_refused() -> None:
    fields = json.loads(document_of_order(ORDER))
    fields["plan"]["document"] = "[]"
    with pytest.raises(Refused, match="fingerprint"):
        order_in(json.dumps(fields), ORDER.move, ORDER.fragment)
