"""A recall of one producer of a stream is the way out where producers disagree."""

from __future__ import annotations

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Version
from medusa_core.recalls import RecallRequest
from medusa_core.segments import Producer
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest
from tests.catalog.producing import BETA, CHOSEN, GAMMA, Reading

WRONG = {0: 2, 1: 7, 2: 2}


@pytest.fixture
def reading(home: HomeUnderTest) -> Reading:
    return Reading(home.catalog)


def expected(producer: Producer, bucket: int, follows: int | None = None) -> RecallRequest:
    return RecallRequest(
        stream=a.SUMS,
        producer=producer,
        from_us=bucket * a.WIDTH_US,
        because="it had read half a file",
        who="ada",
        follows=follows,
    )


def diverged(reading: Reading, wrong: Producer) -> None:
    """Beta is read; then gamma comes, and one of the two is wrong in the second bucket."""
    reading[BETA].commit(0, 3, rows=WRONG if wrong == BETA else None)
    reading.hear()
    reading.settle()
    reading.catalog.acquire_lease(a.a_key(a.TAIL), a.FIRST, "me", a.HOUR_MS)
    version = next(r.version for r in reading.rows())
    read = a.Read(
        output=a.BIG, input=a.SUMS, producer=CHOSEN, range=a.buckets(0, 3), version=version
    )
    big = a.a_segment(0, 3, stream=a.BIG, rows={0: 1, 2: 1})
    reading.catalog.commit(a.a_commit(big, lease=a.a_lease(a.TAIL), lineage=(read,)))
    reading[GAMMA].commit(0, 3, rows=WRONG if wrong == GAMMA else None)
    reading.hear()
    reading.settle()
    assert [d.bucket_us for d in reading.catalog.divergences()] == [a.WIDTH_US]


def big(reading: Reading) -> list[tuple[int, int]]:
    found = reading.catalog.segments(a.BIG)
    return [(s.range.from_us // a.WIDTH_US, s.range.to_us // a.WIDTH_US) for s in found]


def test_what_was_read_of_another_producer_stays_when_one_takes_its_rows_back(
    reading: Reading, owner: Catalog
) -> None:
    diverged(reading, GAMMA)
    reading[GAMMA].catalog.recall(expected(GAMMA, 1))
    with pytest.raises(Refused, match="--follow gamma"):
        reading.hear()
    # The other one's line goes on being read meanwhile.
    reading[BETA].commit(3, 4)
    reading.hear(BETA)
    assert reading.catalog.divergences(), "it stands until the recall is followed"
    told = owner.recall(expected(GAMMA, 1, follows=2))
    assert [(r.stream, r.producer) for r in told] == [(a.SUMS, GAMMA)]
    reading.hear()
    assert reading.catalog.divergences() == ()
    assert reading.catalog.disputed() == {}
    reading[GAMMA].commit(1, 4)
    reading.hear()
    reading.settle()
    assert reading.catalog.divergences() == ()
    assert [s.split()[1] for s in reading.shown()] == ["stable"] * len(reading.shown())
    assert reading.shown()[-1].startswith("3-4 stable")
    assert big(reading) == [(0, 3)]


def test_what_was_read_of_the_one_that_was_wrong_is_chosen_anew_and_all_behind_it_goes(
    reading: Reading, owner: Catalog
) -> None:
    diverged(reading, BETA)
    reading[BETA].catalog.recall(expected(BETA, 1))
    told = owner.recall(expected(BETA, 1, follows=2))
    assert {(r.stream, r.producer) for r in told} == {
        (a.SUMS, BETA),
        (a.SUMS, CHOSEN),
        (a.BIG, a.ME),
    }
    reading.hear()
    assert reading.shown() == ["0-1 stable beta"]
    assert big(reading) == [(0, 1)]
    reading.settle()
    assert reading.shown() == ["0-1 stable beta", "1-3 stable gamma"]
    assert reading.catalog.segments(a.SUMS, producer=CHOSEN, as_of=Version(1))[0].range.to_us == (
        3 * a.WIDTH_US
    )


def test_who_computes_it_wrong_again_is_in_dispute_again(reading: Reading, owner: Catalog) -> None:
    diverged(reading, GAMMA)
    reading[GAMMA].catalog.recall(expected(GAMMA, 1))
    owner.recall(expected(GAMMA, 1, follows=2))
    reading.hear()
    reading[GAMMA].commit(1, 3, rows={1: 7, 2: 2})
    reading.hear()
    reading.settle()
    (again,) = reading.catalog.divergences()
    assert (again.bucket_us, again.producers) == (a.WIDTH_US, {BETA, GAMMA})
