"""Landing is a log: a batch lands once, and a source's promise never goes back (S1)."""

from __future__ import annotations

import pytest

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from pipelines.catalog.interface import Catalog, StreamStatus
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

LEASE = a.a_lease(a.LANDING)


def promise(catalog: Catalog, boundary: int, end: int | None = None, origin: int = 0) -> None:
    catalog.promise(
        LEASE,
        a.SRC,
        origin_us=origin * a.WIDTH_US,
        boundary_us=boundary * a.WIDTH_US,
        end_us=None if end is None else end * a.WIDTH_US,
    )


def status(catalog: Catalog, stream: a.StreamName = a.SRC) -> StreamStatus:
    return next(s for s in catalog.streams() if s.stream.name == stream)


def test_a_batch_sent_again_lands_once(catalog: Catalog) -> None:
    assert catalog.land(LEASE, a.a_batch(0, {0: 2, 3: 1}))
    assert not catalog.land(LEASE, a.a_batch(0, {0: 2, 3: 1}))
    assert catalog.landed_batches(a.SRC, "query") == {0: 3}


def test_a_batch_of_another_query_is_another_batch(catalog: Catalog) -> None:
    assert catalog.land(LEASE, a.a_batch(0, {0: 2}))
    assert catalog.land(LEASE, a.a_batch(0, {0: 2}, query_id="another"))
    assert catalog.landed_queries(a.SRC) == ("another", "query")


def test_landed_files_are_found_by_the_buckets_they_hold(catalog: Catalog) -> None:
    early, late = a.a_file(3), a.a_file(1)
    catalog.land(LEASE, a.a_batch(0, {0: 2, 2: 1}, file=early))
    catalog.land(LEASE, a.a_batch(1, {2: 1}, file=late))
    assert catalog.landed_files(a.SRC, a.buckets(0, 1)) == (early,)
    assert catalog.landed_files(a.SRC, a.buckets(1, 2)) == ()
    assert catalog.landed_files(a.SRC, a.buckets(2, 9)) == (early, late)
    within = Range(2 * a.WIDTH_US + 5, 2 * a.WIDTH_US + 6)
    assert catalog.landed_files(a.SRC, within) == (early, late)


def test_the_extent_of_what_landed_is_known(catalog: Catalog) -> None:
    assert catalog.landed_extent(a.SRC) is None
    catalog.land(LEASE, a.a_batch(0, {7: 1, 2: 2}))
    assert catalog.landed_extent(a.SRC) == (2 * a.WIDTH_US, 7 * a.WIDTH_US)


def test_a_batch_without_a_usable_record_lands_with_its_quarantine(catalog: Catalog) -> None:
    bad = a.a_bad_record()
    assert catalog.land(LEASE, a.a_batch(0, quarantine=(bad, bad)))
    assert catalog.quarantined() == (bad, bad)
    assert catalog.quarantine_count() == 2
    assert catalog.quarantined(1) == (bad,)
    assert catalog.landed_batches(a.SRC, "query") == {0: 0}


def test_a_record_before_the_promise_is_late_and_does_not_land(catalog: Catalog) -> None:
    promise(catalog, 3)
    with pytest.raises(Refused, match="late"):
        catalog.land(LEASE, a.a_batch(0, {2: 1}, quarantine=(a.a_bad_record(),)))
    assert catalog.landed_batches(a.SRC, "query") == {}
    assert catalog.quarantine_count() == 0
    assert catalog.land(LEASE, a.a_batch(0, {3: 1}))


def test_a_record_in_a_bucket_that_is_closed_is_late_though_nothing_was_promised(
    catalog: Catalog,
) -> None:
    promise(catalog, 0)
    catalog.commit(a.a_commit(a.a_segment(0, 1, stream=a.SRC), lease=LEASE))
    with pytest.raises(Refused, match="late"):
        catalog.land(LEASE, a.a_batch(0, {0: 1}))
    assert catalog.landed_batches(a.SRC, "query") == {}
    assert catalog.land(LEASE, a.a_batch(0, {1: 1}))


def test_nothing_lands_or_is_promised_where_there_is_no_line(
    home: HomeUnderTest, catalog: Catalog
) -> None:
    home.take_line_away(a.SRC, a.ME)
    with pytest.raises(Refused, match="no line"):
        catalog.land(LEASE, a.a_batch(0, {0: 1}))
    with pytest.raises(Refused, match="no line"):
        promise(catalog, 0)


def test_landed_buckets_lie_on_the_streams_grid(catalog: Catalog) -> None:
    batch = a.LandedBatch(stream=a.SRC, query_id="q", batch_id=0, file=a.a_file(1), counts={5: 1})
    with pytest.raises(Refused, match="grid"):
        catalog.land(LEASE, batch)


def test_a_fragment_lands_only_what_it_writes(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="does not write"):
        catalog.land(a.a_lease(a.MAIN), a.a_batch(0, {0: 1}))


def test_a_file_is_known_with_one_content(catalog: Catalog) -> None:
    catalog.land(LEASE, a.a_batch(0, {0: 1}, file=a.a_file(1, "files/one")))
    with pytest.raises(Refused, match="files/one"):
        catalog.land(LEASE, a.a_batch(1, {0: 1}, file=a.a_file(1, "files/one", sha256="cd")))


def test_a_stream_has_not_begun_before_its_first_promise(catalog: Catalog) -> None:
    assert (status(catalog).origin_us, status(catalog).boundary_us) == (None, BEGINNING_US)
    promise(catalog, 4)
    assert (status(catalog).origin_us, status(catalog).boundary_us) == (0, 0)
    assert status(catalog).promised_us == 4 * a.WIDTH_US


def test_a_promise_never_goes_back(catalog: Catalog) -> None:
    promise(catalog, 4)
    promise(catalog, 4)
    with pytest.raises(Refused, match="promised"):
        promise(catalog, 3)
    assert status(catalog).promised_us == 4 * a.WIDTH_US


def test_origin_and_end_are_promised_once(catalog: Catalog) -> None:
    promise(catalog, 4, end=9)
    with pytest.raises(Refused):
        promise(catalog, 5, end=8)
    with pytest.raises(Refused):
        promise(catalog, 5, end=9, origin=-1)
    promise(catalog, 5)
    assert status(catalog).end_us == 9 * a.WIDTH_US


def test_what_has_landed_lies_between_origin_and_end(catalog: Catalog) -> None:
    catalog.land(LEASE, a.a_batch(0, {2: 1, 5: 1}))
    with pytest.raises(Refused, match="before"):
        promise(catalog, 9, origin=3)
    with pytest.raises(Refused, match=r"end|behind"):
        promise(catalog, 9, end=5, origin=2)
    promise(catalog, 9, end=6, origin=2)


def test_a_source_that_ends_where_it_begins_has_ended(catalog: Catalog) -> None:
    promise(catalog, 0, end=0)
    assert status(catalog).boundary_us == FOREVER_US


def test_only_a_source_makes_promises(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="source"):
        catalog.promise(a.a_lease(a.MAIN), a.SUMS, origin_us=0, boundary_us=0, end_us=None)
