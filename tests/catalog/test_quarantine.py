"""Quarantined records, and which of them landed repaired: each once, in a log that only grows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import QuarantinedRecord
from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a

LEASE = a.a_lease(a.LANDING)
WHOLE = QuarantinedRecord.of(
    b"x" * 5_000, stream=a.SRC, origin="f", position=1, field="at", reason="late"
)


def numbers(catalog: Catalog) -> list[int]:
    return [entry.number for entry in catalog.quarantine_entries()]


def landed(catalog: Catalog) -> list[str | None]:
    return [entry.landed_as for entry in catalog.quarantine_entries()]


def write_quarantine(catalog: Catalog, *records: QuarantinedRecord) -> list[int]:
    catalog.land(LEASE, a.a_batch(0, {0: 1}, quarantine=records))
    return numbers(catalog)


def test_length_and_hash_of_the_whole_record_are_kept_where_they_are_known(
    catalog: Catalog,
) -> None:
    write_quarantine(catalog, WHOLE, a.a_bad_record())
    assert catalog.quarantined() == (WHOLE, a.a_bad_record())
    assert [entry.record for entry in catalog.quarantine_entries()] == [WHOLE, a.a_bad_record()]


def test_entries_are_those_of_a_stream_oldest_first_and_no_more_than_asked_for(
    catalog: Catalog,
) -> None:
    first, second = write_quarantine(catalog, WHOLE, a.a_bad_record())
    assert first < second
    assert [e.number for e in catalog.quarantine_entries(a.SRC, limit=1)] == [first]
    assert catalog.quarantine_entries(a.SUMS) == ()


def test_entries_are_read_in_pages_and_by_their_numbers(catalog: Catalog) -> None:
    every = write_quarantine(catalog, *(replace(a.a_bad_record(), position=n) for n in range(5)))
    pages, after = [], 0
    while page := catalog.quarantine_entries(a.SRC, after=after, limit=2):
        pages.append([entry.number for entry in page])
        after = page[-1].number
    assert pages == [every[:2], every[2:4], every[4:]]
    found = catalog.quarantine_entries(a.SRC, numbers=[every[3], every[0], 10**9])
    assert [entry.number for entry in found] == [every[0], every[3]]
    assert catalog.quarantine_entries(a.SUMS, numbers=every) == ()
    assert catalog.quarantine_entries(numbers=[]) == ()


def test_records_are_counted_in_all_and_of_a_stream(catalog: Catalog) -> None:
    write_quarantine(catalog, WHOLE, a.a_bad_record())
    assert (catalog.quarantine_count(), catalog.quarantine_count(a.SRC)) == (2, 2)
    assert catalog.quarantine_count(a.SUMS) == 0


def test_a_record_that_several_outputs_lack_is_found_under_each_and_counted_once(
    catalog: Catalog,
) -> None:
    both = replace(a.a_bad_record("overflow"), stream=a.SRC, outputs=(a.SUMS, StreamName("more")))
    write_quarantine(catalog, WHOLE, both)
    assert catalog.quarantined() == (WHOLE, both)
    assert [e.record for e in catalog.quarantine_entries(a.SUMS)] == [both]
    assert [e.record for e in catalog.quarantine_entries(StreamName("more"))] == [both]
    assert [e.record for e in catalog.quarantine_entries(a.SRC)] == [WHOLE, both]
    assert (catalog.quarantine_count(), catalog.quarantine_count(a.SUMS)) == (2, 1)
    reasons = [(q.stream, q.reason, q.records) for q in catalog.quarantine_reasons()]
    assert reasons == [
        ("more", "overflow", 1), (a.SRC, "late", 1), (a.SRC, "overflow", 1),
        (a.SUMS, "overflow", 1),
    ]  # fmt: skip


def test_a_repaired_record_is_marked_with_the_batch_it_landed_with(catalog: Catalog) -> None:
    first, _ = write_quarantine(catalog, WHOLE, a.a_bad_record())
    batch = replace(a.a_batch(0, {1: 1}, query_id="repairs"), retried=(first,))
    assert catalog.land(LEASE, batch)
    assert not catalog.land(LEASE, batch)
    assert landed(catalog) == ["repairs", None]


def test_a_record_lands_repaired_once_and_what_comes_with_it_again_does_not_land(
    catalog: Catalog,
) -> None:
    first, second = write_quarantine(catalog, WHOLE, a.a_bad_record())
    catalog.land(LEASE, replace(a.a_batch(0, {1: 1}, query_id="one"), retried=(first,)))
    again = replace(a.a_batch(0, {1: 2}, query_id="two"), retried=(second, first))
    with pytest.raises(Refused, match="landed already"):
        catalog.land(LEASE, again)
    assert landed(catalog) == ["one", None]
    assert catalog.landed_batches(a.SRC, "two") == {}


def test_a_record_that_is_not_in_quarantine_cannot_land_repaired(catalog: Catalog) -> None:
    (number,) = write_quarantine(catalog, WHOLE)
    batch = replace(a.a_batch(0, {1: 1}, query_id="repairs"), retried=(number + 1_000,))
    with pytest.raises(Refused, match="no record"):
        catalog.land(LEASE, batch)
    assert catalog.landed_batches(a.SRC, "repairs") == {}
