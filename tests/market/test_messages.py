"""What partners send each other, byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.market.envelopes import BODY_BYTES_MAX
from medusa_core.market.messages import (
    ITEMS_MAX,
    Answer,
    Item,
    LoadHeadroom,
    Reason,
    answer_bytes,
    answer_from,
    offer_bytes,
    offer_from,
)
from medusa_core.market.terms import ContractName
from medusa_core.names import FragmentName
from tests.market.knowing import NONCE, an_item, an_offer

OFFER = an_offer("b", [an_item(1), an_item(2, 0.5)], level=2).offer
ANSWER = Answer(
    contract=ContractName("b"),
    nonce=NONCE,
    round=3,
    accepted=(an_item(1),),
    rooms=(LoadHeadroom(0, 0.25), LoadHeadroom(2, 1.5)),
    reason=Reason.FULL,
)

loads = st.floats(1e-6, 1e6)
items = st.lists(
    st.builds(Item, st.sampled_from(["counts", "ports"]), st.integers(0, 99), loads),
    min_size=1,
    max_size=5,
    unique_by=lambda item: (item.fragment, item.partition),
).map(tuple)


@settings(deadline=None, max_examples=50)
@given(items, st.integers(0, 1_000), st.booleans())
def test_a_message_is_read_as_it_was_written(
    offered: tuple[Item, ...], level: int, for_overload: bool
) -> None:
    offer = an_offer("b", offered, level=level, for_overload=for_overload).offer
    assert offer_from(offer_bytes(offer)) == offer
    answer = Answer(
        contract=offer.contract,
        nonce=offer.nonce,
        round=level,
        accepted=offered[1:],
        rooms=tuple(LoadHeadroom(n, 1.0 + n) for n in range(level % 8)),
        reason=Reason.TAKEN,
    )
    assert answer_from(answer_bytes(answer)) == answer


def test_messages_say_nothing_of_what_their_sender_keeps_to_itself() -> None:
    assert set(json.loads(offer_bytes(OFFER))) == {
        *("contract", "for_overload", "format", "items", "level", "nonce", "revision", "round")
    }
    assert set(json.loads(answer_bytes(ANSWER))) == {
        *("accepted", "contract", "format", "nonce", "reason", "rooms", "round")
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("level", -1),
        ("level", True),
        ("level", 1.0),
        ("level", 10**6),
        ("round", 2**60),
        ("nonce", "5E" * 16),
        ("revision", "x"),
        ("contract", "b; drop table"),
        ("contract", None),
        ("for_overload", 1),
        ("items", []),
        ("items", {}),
        ("items", [{"fragment": "counts", "partition": 1, "load": -1.0}]),
        ("items", [{"fragment": "counts", "partition": 1, "load": 1}]),
        ("items", [{"fragment": "../x", "partition": 1, "load": 1.0}]),
        ("items", [{"fragment": "counts", "partition": 1, "load": 1.0, "cost": 2}]),
        ("items", [{"fragment": "counts", "partition": 1, "load": 1.0}] * 2),
        ("format", "medusa.offer/2"),
        ("extra", 1),
    ],
)
def test_an_offer_that_says_anything_else_is_refused(field: str, value: object) -> None:
    fields = json.loads(offer_bytes(OFFER)) | {field: value}
    with pytest.raises(Refused):
        offer_from(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reason", "because"),
        ("rooms", [{"level": 0, "load": 0.0}]),
        ("rooms", [{"level": 1, "load": 1.0}, {"level": 0, "load": 2.0}]),
        ("rooms", [{"level": 0, "load": 2.0}, {"level": 1, "load": 2.0}]),
        ("rooms", [{"level": 1, "load": 1.0}, {"level": 1, "load": 2.0}]),
        ("rooms", {}),
        ("rooms", ""),
        ("rooms", [{"level": n, "load": 1.0 + n} for n in range(9)]),
        ("accepted", None),
        ("load", 0.7),
    ],
)
def test_an_answer_that_says_anything_else_is_refused(field: str, value: object) -> None:
    fields = json.loads(answer_bytes(ANSWER)) | {field: value}
    with pytest.raises(Refused):
        answer_from(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"null",
        b"[" * 100_000,
        b"{}" + b" " * BODY_BYTES_MAX,
        b" " + offer_bytes(OFFER),
        offer_bytes(OFFER).replace(b"0.5", b"0.50"),
        offer_bytes(OFFER).replace(b"0.5", b"NaN"),
        offer_bytes(OFFER).replace(b"0.5", b"1e999"),
        answer_bytes(ANSWER),
    ],
)
def test_bytes_that_are_no_offer_are_refused(message: bytes) -> None:
    with pytest.raises(Refused):
        offer_from(message)


def test_the_longest_messages_fit_into_an_envelope() -> None:
    longest = FragmentName("n" * 63 + "." + "f" * 63)
    items = tuple(Item(longest, 2**53 - at, 1 / 3 + at * 1e-7) for at in range(ITEMS_MAX))
    offer = replace(OFFER, contract=ContractName("c" * 63), items=items, round=2**53, level=1_000)
    assert len(offer_bytes(offer)) <= BODY_BYTES_MAX
    assert offer_from(offer_bytes(offer)) == offer
    rooms = tuple(LoadHeadroom(at, 1 / 3 + at) for at in range(8))
    answer = replace(ANSWER, contract=offer.contract, accepted=items, rooms=rooms, round=2**53)
    assert len(answer_bytes(answer)) <= BODY_BYTES_MAX
    assert answer_from(answer_bytes(answer)) == answer


def test_an_answer_tells_of_as_many_rooms_as_it_may() -> None:
    rooms = tuple(LoadHeadroom(n, 1.0 + n) for n in range(8))
    answer = replace(ANSWER, rooms=rooms)
    assert answer_from(answer_bytes(answer)).rooms == rooms
