"""A limit on records a second: kept on average, whatever the batches are."""

from __future__ import annotations

import pytest

from pipelines.sources.live.live_source import Polled
from pipelines.sources.live.throttled import Throttled
from tests.sources.live.building import NOW_MS, Landing, S, write_csv


class Batches:
    """A source that has batches of given sizes."""

    def __init__(self, *sizes: int) -> None:
        self.left = list(sizes)

    def poll(self, now_ms: int) -> Polled:
        if not self.left:
            return Polled()
        landed = self.left.pop(0)
        return Polled(landed=landed, batches=1, has_more=bool(self.left), has_waiting=True)

    def close(self) -> None:
        self.left.clear()


@pytest.mark.parametrize("limit", [1, 10, 250, 100_000])
def test_no_more_lands_than_the_limit_allows_but_one_batch(limit: int) -> None:
    sizes = [100, 1, 900, 50, 0, 30, 400]
    source = Throttled(Batches(*sizes), limit)
    landed, second = 0, 0.0
    for poll in range(4_000):
        second = poll / 2
        polled = source.poll(NOW_MS + poll * 500)
        landed += polled.landed
        assert landed <= limit * second + max(sizes)
        assert not (polled.has_more and polled.landed and limit < 100)
    assert landed == sum(sizes) or limit == 1
    assert landed >= min(sum(sizes), limit * second - max(sizes))


def test_while_it_waits_nothing_is_promised_by_time_alone(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S + n for n in range(100)])
    source = landing.open(kind="replay", paths=[str(file)], speed=1_000, records_per_s=10)
    landed = source.poll(NOW_MS).landed + source.poll(NOW_MS + 100).landed
    before = landing.status.promised_us
    held = source.poll(NOW_MS + 900)
    assert (held.landed, held.because) == (0, "at most 10 records a second are landed")
    assert landing.status.promised_us == before
    for second in range(1, 12):
        landed += source.poll(NOW_MS + second * 1_000).landed
    assert landed == landing.records == 100


def test_due_records_that_have_not_landed_are_reported(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S] * 25)
    source = landing.open(kind="replay", paths=[str(file)], records_per_s=10)
    polled = source.poll(NOW_MS)
    assert (polled.landed, polled.waiting_records, polled.has_waiting) == (10, 15, True)
    source.poll(NOW_MS + 1_000)
    assert not source.poll(NOW_MS + 2_000).has_waiting
