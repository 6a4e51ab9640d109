"""How long a stream is kept: declared once and anew, in both catalogs alike."""

from __future__ import annotations

import pytest

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest


def test_a_stream_is_kept_for_good_until_it_is_said_for_how_long(catalog: Catalog) -> None:
    assert catalog.retentions() == {}
    catalog.declare_retention(a.SUMS, a.HOUR_MS)
    catalog.declare_retention(a.SRC, 1)
    catalog.declare_retention(a.BIG, None)
    assert list(catalog.retentions().items()) == [(a.SRC, 1), (a.SUMS, a.HOUR_MS)]


def test_the_last_word_on_a_stream_counts(catalog: Catalog) -> None:
    for retention_ms in (5, 5, 7):
        catalog.declare_retention(a.SUMS, retention_ms)
    assert catalog.retentions() == {a.SUMS: 7}
    catalog.declare_retention(a.SUMS, None)
    assert catalog.retentions() == {}
    catalog.declare_retention(a.SUMS, 9)
    assert catalog.retentions() == {a.SUMS: 9}


@pytest.mark.parametrize("retention_ms", [0, -1, 2**63])
def test_a_stream_is_kept_for_a_time_above_zero(catalog: Catalog, retention_ms: int) -> None:
    with pytest.raises(Refused):
        catalog.declare_retention(a.SUMS, retention_ms)
    assert catalog.retentions() == {}


@pytest.mark.parametrize("retention_ms", [5, None])
def test_only_a_stream_of_this_home_is_kept(catalog: Catalog, retention_ms: int | None) -> None:
    with pytest.raises(Refused, match="not deployed"):
        catalog.declare_retention(StreamName("none"), retention_ms)


def test_a_retention_that_is_rolled_back_was_never_declared(
    home: HomeUnderTest, catalog: Catalog
) -> None:
    session = home.session()
    session.begin()
    session.catalog.declare_retention(a.SUMS, 5)
    assert session.catalog.retentions() == {a.SUMS: 5}
    assert catalog.retentions() == {}
    session.end(keep=False)
    assert catalog.retentions() == {}
