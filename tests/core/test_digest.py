"""A digest is a property of the multiset of rows: order and cut do not matter, rows do."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.digest import (
    EMPTY,
    TAG_BINARY,
    TAG_BOOLEAN,
    TAG_DECIMAL,
    TAG_DOUBLE,
    TAG_INTEGER,
    TAG_STRING,
    TAG_TIMESTAMP,
    Digest,
    digest_of,
    sum_of,
)

TAGS = (TAG_INTEGER, TAG_STRING)
rows = st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text()))


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(content: list[Any], random: Any) -> None:
    shuffled = list(content)
    random.shuffle(shuffled)
    assert digest_of(shuffled, TAGS) == digest_of(content, TAGS)


@given(rows, st.integers(0, 20))
def test_digests_of_parts_sum_to_the_digest_of_the_whole(content: list[Any], at: int) -> None:
    whole = digest_of(content, TAGS)
    parts = digest_of(content[:at], TAGS), digest_of(content[at:], TAGS)
    assert sum_of(parts) == whole
    assert whole - parts[0] == parts[1]


@given(rows, rows)
def test_other_rows_have_another_digest(one: list[Any], other: list[Any]) -> None:
    same_rows = sorted(map(repr, one)) == sorted(map(repr, other))
    assert (digest_of(one, TAGS) == digest_of(other, TAGS)) is same_rows


def test_a_row_that_comes_twice_does_not_cancel_itself() -> None:
    twice = digest_of([(1, "a"), (1, "a")], TAGS)
    assert twice.rows == 2
    assert twice not in (EMPTY, digest_of([(1, "a")], TAGS))


@pytest.mark.parametrize(
    ("tags", "one", "other"),
    [
        ((TAG_STRING, TAG_STRING), (None, "a"), ("a", None)),
        ((TAG_STRING, TAG_STRING), ("ab", "c"), ("a", "bc")),
        ((TAG_STRING,), (None,), ("",)),
        ((TAG_STRING,), ("a",), ("a\0",)),
        ((TAG_INTEGER,), (None,), (0,)),
        ((TAG_INTEGER, TAG_INTEGER), (0, None), (None, 0)),
        ((TAG_STRING,), ("x" * 300,), ("x" * 299 + "y",)),
        ((TAG_BINARY,), (b"x" * 300,), (b"x" * 301,)),
        ((TAG_DECIMAL,), (Decimal(2**70),), (Decimal(2**71),)),
        ((TAG_BOOLEAN,), (True,), (False,)),
    ],
)
def test_rows_that_a_weak_encoding_confuses_differ(tags: Any, one: Any, other: Any) -> None:
    assert digest_of([one], tags) != digest_of([other], tags)


def test_zero_has_one_sign_and_nan_one_value() -> None:
    assert digest_of([(-0.0,)], (TAG_DOUBLE,)) == digest_of([(0.0,)], (TAG_DOUBLE,))
    assert digest_of([(float("nan"),)], (TAG_DOUBLE,)) == digest_of(
        [(-float("nan"),)], (TAG_DOUBLE,)
    )


def test_the_encoding_never_changes() -> None:
    """Digests are compared between participants and years: this vector must never change."""
    row = (42, "203.0.113.7", 1.5, Decimal("12.50"), None, True)
    tags = (TAG_INTEGER, TAG_STRING, TAG_DOUBLE, TAG_DECIMAL, TAG_TIMESTAMP, TAG_BOOLEAN)
    instant = digest_of([(datetime(2020, 1, 1, tzinfo=UTC),)], (TAG_TIMESTAMP,))
    whole = digest_of([row], tags, (0, 0, 0, 2, 0, 0))
    assert (instant, whole) == VECTOR


VECTOR = (
    Digest(rows=1, sum_a=16609717357408697759, sum_b=14607645533977733138),
    Digest(rows=1, sum_a=12162395783668768472, sum_b=12094148493622829587),
)
