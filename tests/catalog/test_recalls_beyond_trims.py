"""A partner recalls without asking what its readers have trimmed: they can follow all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Version
from medusa_core.recalls import LineRecall
from medusa_core.segments import Producer
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest
from tests.catalog.test_recalls import (
    BETA,
    IMPORT,
    THEIRS,
    WIDTH,
    big,
    bring,
    expected,
    line,
    news,
    read_of_sums,
    reader_deployment,
    status,
    sums,
    write,
)
from tests.sweeps import long_but


@pytest.fixture
def partner() -> Catalog:
    """The home of beta, who computes `sums`, and has six buckets in three rows."""
    catalog = MemoryCatalog(BETA, ManualClock(1_000))
    mine = [a.an_assignment(name, producer=THEIRS) for name in (a.LANDING, a.MAIN)]
    catalog.deploy(a.a_deployment(assignments=tuple(mine)))
    catalog.acquire_lease(a.a_key(producer=THEIRS), a.FIRST, "them", a.HOUR_MS)
    for from_, to in ((0, 1), (1, 2), (2, 6)):
        write(catalog, sums(from_, to))
    return catalog


@pytest.fixture
def reader(home: HomeUnderTest, partner: Catalog) -> Catalog:
    """A home of alpha that has read all of it, and computed `big` from it."""
    home.catalog.deploy(reader_deployment())
    for fragment in (IMPORT, a.TAIL):
        home.catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    bring(home.catalog, news(partner, 0))
    lineage = tuple(
        replace(read_of_sums(a.buckets(from_, to), version), producer=THEIRS)
        for from_, to, version in ((0, 1, 1), (1, 2, 2), (2, 6, 3))
    )
    part = a.a_segment(0, 6, stream=a.BIG, rows={0: 1, 2: 1, 5: 1})
    home.catalog.commit(a.a_commit(part, lease=a.a_lease(a.TAIL), lineage=lineage))
    return home.catalog


def trim(catalog: Catalog, bucket: int, stream: a.StreamName, producer: Producer) -> None:
    at_us = bucket * WIDTH
    catalog.trim(stream, producer, at_us, needed={a.TAIL: 6 * WIDTH}, segments_max=9)
    assert line(catalog, stream, producer).trimmed_us == at_us


def recall_and_write_again(partner: Catalog, at: int) -> None:
    """The partner takes back what it has from a bucket on, and has it otherwise."""
    partner.recall(expected(at, producer=THEIRS))
    write(partner, sums(at, 3, rows=2))
    write(partner, sums(3, 7, rows=2))


@pytest.mark.parametrize(
    ("copy", "computed"), long_but(3, [(3, 0), (4, 5), (6, 6), (0, 3)], quick=True)
)
def test_a_recall_is_followed_as_far_as_what_it_takes_back_is_kept(
    partner: Catalog, reader: Catalog, owner: Catalog, copy: int, computed: int
) -> None:
    if copy:
        trim(reader, copy, a.SUMS, THEIRS)
    if computed:
        trim(reader, computed, a.BIG, a.ME)
    recall_and_write_again(partner, 1)
    if copy < 6:  # of what is trimmed to its end nothing is left to agree to
        with pytest.raises(Refused, match="--follow beta"):
            bring(reader, news(partner, 3))
        owner.recall(expected(1, producer=THEIRS, follows=2))
    assert bring(reader, news(partner, 3))
    copied = line(reader, a.SUMS, THEIRS)
    assert (copied.generation, copied.version, copied.boundary_us) == (2, 6, 7 * WIDTH)
    rows = {b: d.rows for s in reader.segments(a.SUMS) for b, d in s.buckets.items()}
    assert {at_us // WIDTH: n for at_us, n in rows.items() if at_us >= max(copy, 1) * WIDTH} == (
        dict.fromkeys(range(max(copy, 1), 7), 2)
    )
    assert line(reader, a.BIG).boundary_us == max(computed, 1) * WIDTH
    # It goes on from there, and what comes next is read like any.
    if computed < 6:
        read = replace(read_of_sums(a.buckets(max(computed, 1), 7), 6), producer=THEIRS)
        again = a.a_segment(max(computed, 1), 7, stream=a.BIG, rows={6: 1})
        reader.commit(a.a_commit(again, lease=a.a_lease(a.TAIL), lineage=(read,)))
        assert line(reader, a.BIG).boundary_us == 7 * WIDTH
    write(partner, sums(7, 8))
    bring(reader, news(partner, 6))
    assert line(reader, a.SUMS, THEIRS).boundary_us == 8 * WIDTH


def test_what_could_not_be_computed_again_stays_where_a_recall_is_followed(
    partner: Catalog, reader: Catalog, owner: Catalog
) -> None:
    trim(reader, 4, a.SUMS, THEIRS)
    recall_and_write_again(partner, 1)
    agreed = expected(1, producer=THEIRS, follows=2, stays={a.BIG: 5 * WIDTH})
    assert [(r.stream, r.from_us // WIDTH) for r in owner.recall(agreed)] == [
        (a.SUMS, 4),
        (a.BIG, 5),
    ]
    bring(reader, news(partner, 3))
    assert status(reader, a.BIG) == [(0, 5, "stable", 1)]


def test_what_is_computed_of_what_is_recalled_goes_as_far_as_it_is_kept(
    home: HomeUnderTest, owner: Catalog
) -> None:
    catalog = home.catalog
    catalog.deploy(a.a_deployment())
    for fragment in (a.MAIN, a.TAIL):
        catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    catalog.commit(a.a_commit(sums(0, 5)))
    big(catalog, 0, 5, version=1)
    trim(catalog, 3, a.BIG, a.ME)
    told = owner.recall(expected(1))
    assert [(r.stream, r.from_us // WIDTH) for r in told] == [(a.SUMS, 1), (a.BIG, 3)]
    assert line(catalog, a.BIG).boundary_us == 3 * WIDTH


def test_rows_that_a_partner_says_it_will_recall_are_not_taken(
    partner: Catalog, reader: Catalog
) -> None:
    """Nothing computed from them could ever be committed: all of the home would stand still."""
    write(partner, sums(6, 7))
    true = news(partner, 3)
    recall = LineRecall(generation=2, from_us=6 * WIDTH, version=Version(2**62), because="why")
    with pytest.raises(Refused, match="recalled later"):
        bring(reader, replace(true, recalls=(recall,)))
    # Told first, and with the rows no more.
    bring(reader, replace(true, recalls=(recall,), segments=()))
    write(partner, sums(7, 8))
    with pytest.raises(Refused, match="recalled later"):
        bring(reader, news(partner, 4))
    assert status(reader)[-1][1] == 6
