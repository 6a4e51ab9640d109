"""Holds: what keeps buckets of a stream."""

from __future__ import annotations

import pytest

from medusa_core.commits import Hold
from medusa_core.errors import Refused
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a


def a_hold(holder: str = "beta", from_us: int = 5, purpose: str = "reading") -> Hold:
    return Hold(stream=a.SUMS, holder=holder, purpose=purpose, from_us=from_us, limit_ms=1_000)


def test_a_holder_moves_its_own_hold_only(catalog: Catalog) -> None:
    catalog.place_hold(a_hold())
    catalog.place_hold(a_hold("gamma", 1))
    catalog.place_hold(a_hold(from_us=9))
    assert catalog.holds(a.SUMS) == (a_hold("gamma", 1), a_hold(from_us=9))


def test_a_hold_is_for_one_purpose(catalog: Catalog) -> None:
    catalog.place_hold(a_hold())
    catalog.place_hold(a_hold(purpose="dispute"))
    catalog.release_hold(a.SUMS, "beta", "reading")
    assert catalog.holds(a.SUMS) == (a_hold(purpose="dispute"),)


def test_a_hold_that_is_not_there_is_given_up_without_a_word(catalog: Catalog) -> None:
    catalog.release_hold(a.SUMS, "nobody", "nothing")


def test_a_hold_is_on_a_stream_of_this_home(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="not deployed"):
        catalog.place_hold(Hold(stream=a.StreamName("none"), holder="x", purpose="y", from_us=0))
