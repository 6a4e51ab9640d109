"""Landing is a log: a batch lands once, and a source's promise never goes back (S1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from medusa_core.commits import LandedBatch, Lease, SourcePromise
from medusa_core.digest import Digest
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import StreamName
from pipelines.catalog.interface import Catalog
from pipelines.catalog.records import StreamStatus
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

LEASE = a.a_lease(a.LANDING)
MORE, MORE_LANDING = StreamName("more"), "landing/more"
FILE = a.a_file(7, "files/shared")


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


def test_a_promise_never_moves_back(catalog: Catalog) -> None:
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


def test_landed_records_are_between_origin_and_end(catalog: Catalog) -> None:
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


def shared(*batches: LandedBatch) -> list[tuple[Lease, LandedBatch]]:
    """Batches of `src` and of `more`, which land together in one file."""
    return [(LEASE if b.stream == a.SRC else a.a_lease(MORE_LANDING), b) for b in batches]


def a_share(
    stream: StreamName, batch_id: int = 0, rows: dict[int, int] | None = None, **more: Any
) -> LandedBatch:
    counts = {at * a.WIDTH_US: n for at, n in (rows or {}).items()}
    file = more.pop("file", FILE)
    return a.LandedBatch(
        stream=stream,
        query_id="shared",
        batch_id=batch_id,
        file=file if counts else None,
        counts=counts,
        file_of=a.SRC,
        **more,
    )


def test_the_digests_of_a_file_are_kept_with_what_has_landed(catalog: Catalog) -> None:
    digests = {at * a.WIDTH_US: Digest(n, 2**70 + at, 3) for at, n in ((0, 2), (3, 1))}
    large, small = a.a_file(3), a.a_file(1)
    catalog.land(LEASE, replace(a.a_batch(0, {0: 2, 3: 1}, file=large), digests=digests))
    catalog.land(LEASE, a.a_batch(1, {0: 1}, file=small))
    promise(catalog, 2)
    first, whole = catalog.landed_parts([(a.SRC, a.buckets(0, 2)), (a.SRC, a.buckets(0, 9))])
    assert [part.file for part in first] == [large, small]
    assert [dict(part.digests) for part in first] == [{0: digests[0]}, {}]
    assert dict(whole[0].digests) == digests


def test_a_file_is_promised_once_the_boundary_has_passed_all_of_its_buckets(
    catalog: Catalog,
) -> None:
    catalog.land(LEASE, a.a_batch(0, {0: 2, 3: 1}, file=a.a_file(3)))
    catalog.land(LEASE, a.a_batch(1, {0: 1}, file=a.a_file(1)))

    def is_promised() -> list[bool]:
        (parts,) = catalog.landed_parts([(a.SRC, a.buckets(0, 1))])
        return [part.is_promised for part in parts]

    assert is_promised() == [False, False]
    promise(catalog, 3)
    assert is_promised() == [False, True]
    promise(catalog, 4)
    assert is_promised() == [True, True]


def test_digests_of_other_rows_than_are_counted_are_refused() -> None:
    with pytest.raises(Refused, match="has digests of other rows"):
        replace(a.a_batch(0, {0: 2}), digests={0: Digest(1, 1, 1)})


@pytest.fixture
def with_more(catalog: Catalog) -> Catalog:
    """The example with a second source `more`, whose landing is leased as well."""
    deployment = a.a_deployment(
        fragments={MORE_LANDING: ((), (MORE,))}, assignments=(a.an_assignment(MORE_LANDING),)
    )
    catalog.deploy(a.replace_streams(deployment, (a.a_stream(MORE, "source"),)))
    catalog.acquire_lease(a.a_key(MORE_LANDING), a.FIRST, "me", a.HOUR_MS)
    return catalog


def test_batches_of_several_streams_land_in_one_file_once(with_more: Catalog) -> None:
    bad = a.a_bad_record()
    landed = shared(
        a_share(a.SRC, 0, {0: 2, 3: 1}, state="of src", quarantine=(bad,)),
        a_share(MORE, 0, {1: 4}, state="of more"),
    )
    assert with_more.land_many(landed)
    assert not with_more.land_many(landed)
    assert with_more.landed_batches(a.SRC, "shared") == {0: 3}
    assert with_more.landed_batches(MORE, "shared") == {0: 4}
    assert with_more.quarantined() == (bad,)
    parts = [(MORE, a.buckets(0, 9)), (a.SRC, a.buckets(1, 3)), (a.SRC, a.buckets(3, 4))]
    found = with_more.landed_parts(parts)
    assert [[part.file for part in of] for of in found] == [[FILE], [], [FILE]]
    assert with_more.landed_states((a.SRC, MORE, a.SUMS), "shared") == {
        a.SRC: (0, "of src"),
        MORE: (0, "of more"),
    }
    assert with_more.landed_extents((MORE, a.SUMS)) == {MORE: (a.WIDTH_US, a.WIDTH_US)}


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda c: promise(c, 3), Refused, "late"),
        (lambda c: c.renew_lease(LEASE, 0), Conflict, "expired"),
        (lambda c: c.release_lease(a.a_lease(MORE_LANDING)), Conflict, "expired"),
    ],
)
def test_where_one_may_not_land_none_does(
    with_more: Catalog, spoil: Callable[[Catalog], object], error: type[Exception], said: str
) -> None:
    spoil(with_more)
    with pytest.raises(error, match=said):
        with_more.land_many(shared(a_share(MORE, 0, {1: 4}), a_share(a.SRC, 0, {0: 2, 3: 1})))
    for stream in (a.SRC, MORE):
        assert with_more.landed_batches(stream, "shared") == {}


def test_a_batch_that_landed_without_another_of_its_file_is_refused(with_more: Catalog) -> None:
    file = a.a_file(3)
    with_more.land_many(shared(a_share(a.SRC, 0, {0: 2, 3: 1}, file=file)))
    with pytest.raises(Refused, match="without the others"):
        with_more.land_many(shared(a_share(a.SRC, 0, {0: 2, 3: 1}), a_share(MORE, 0, {1: 4})))
    assert with_more.landed_batches(MORE, "shared") == {}


def test_a_shared_file_holds_what_its_batches_count(with_more: Catalog) -> None:
    with pytest.raises(Refused, match="count again"):
        with_more.land_many(shared(a_share(a.SRC, 0, {0: 2}), a_share(MORE, 0, {1: 4})))
    with pytest.raises(Refused, match="in one file"):
        with_more.land_many(
            shared(a_share(a.SRC, 0, {0: 2, 3: 1}), a_share(MORE, 0, {1: 4}, file=a.a_file(4)))
        )


def test_a_shared_file_goes_when_the_last_of_its_streams_is_trimmed(with_more: Catalog) -> None:
    with_more.land_many(shared(a_share(a.SRC, 0, {0: 2, 1: 1}), a_share(MORE, 0, {1: 4})))
    gone = []
    for stream, lease in ((MORE, a.a_lease(MORE_LANDING)), (a.SRC, LEASE)):
        with_more.promise(lease, stream, origin_us=0, boundary_us=9 * a.WIDTH_US, end_us=None)
        with_more.commit(a.a_commit(a.a_segment(0, 2, stream=stream), lease=lease))
        trimmed = with_more.trim(
            stream, a.ME, 2 * a.WIDTH_US, needed={a.MAIN: 9 * a.WIDTH_US}, segments_max=9
        )
        gone.append(trimmed.files)
        assert with_more.named_files([FILE.path]) == ({FILE.path} if stream == MORE else set())
    assert gone == [(), (FILE,)]


def test_promises_of_several_sources_are_made_together_or_not_at_all(with_more: Catalog) -> None:
    def both(src: int, more: int) -> list[SourcePromise]:
        return [
            SourcePromise(lease=LEASE, stream=a.SRC, origin_us=0, boundary_us=src * a.WIDTH_US),
            SourcePromise(
                lease=a.a_lease(MORE_LANDING),
                stream=MORE,
                origin_us=0,
                boundary_us=more * a.WIDTH_US,
            ),
        ]

    with_more.promise_many(both(4, 5))
    assert status(with_more).promised_us == 4 * a.WIDTH_US
    assert (status(with_more, MORE).origin_us, status(with_more, MORE).boundary_us) == (0, 0)
    with pytest.raises(Refused, match="promised"):
        with_more.promise_many(both(9, 3))
    assert status(with_more).promised_us == 4 * a.WIDTH_US
    with_more.renew_lease(LEASE, 0)
    with pytest.raises(Conflict, match="expired"):
        with_more.promise_many(both(9, 9))
    assert status(with_more, MORE).promised_us == 5 * a.WIDTH_US
