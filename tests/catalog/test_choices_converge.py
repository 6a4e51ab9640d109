"""Whatever comes of which producer in whichever order, what is read ends as what they computed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medusa_core.grid import FOREVER_US
from medusa_core.segments import Producer, Stability
from medusa_core.wait_budget import WaitBudget
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.memory.tables import LINES, SegmentRow
from tests.catalog import building as a
from tests.catalog.producing import CHOSEN, PRODUCERS, Reading, S, T, digests_of
from tests.sweeps import examples

BUCKETS = 8
Commands = list[tuple[str, int, int]]


class Producing:
    """A producer at work: some of its buckets are tentative first, and all are final in the end."""

    def __init__(self, reading: Reading, producer: Producer) -> None:
        self._partner = reading[producer]
        self._at = 0
        self._tentative: set[int] = set()

    def answer(self, count: int, lacks: int) -> None:
        """The next buckets without some inputs."""
        to = min(self._at + count, BUCKETS)
        if to > self._at:
            self._partner.commit(self._at, to, T, missing=["other", "src"][:lacks])
            self._tentative.update(range(self._at, to))
            self._at = to

    def compute(self, count: int) -> None:
        """The next buckets, final."""
        to = min(self._at + count, BUCKETS)
        if to > self._at:
            from_bucket, self._at = self._at, to
            self._commit(from_bucket, to)

    def correct(self, number: int) -> None:
        """One of the tentative buckets."""
        if self._tentative:
            at = sorted(self._tentative)[number % len(self._tentative)]
            self._tentative.discard(at)
            self._commit(at, at + 1)

    def finish(self) -> None:
        """Everything."""
        while self._tentative:
            self.correct(0)
        self.compute(BUCKETS)

    def _commit(self, from_bucket: int, to_bucket: int) -> None:
        # Every third bucket is empty, the others have rows of their own.
        rows = {at: at + 2 for at in range(from_bucket, to_bucket) if at % 3}
        self._partner.commit(
            from_bucket, to_bucket, rows=rows, ends=self._at >= BUCKETS and not self._tentative
        )


def commands() -> st.SearchStrategy[Commands]:
    kinds = st.sampled_from(["answer", "compute", "correct", "hear", "hear", "choose", "choose"])
    return st.lists(st.tuples(kinds, st.integers(0, 2), st.integers(1, 3)), max_size=40)


def check_laws(reading: Reading, seen: dict[int, Any]) -> None:
    """S2: what was final is as it was. S3 and S12 are told by the history of the line."""
    for row in reading.rows():
        at_us = row.range.from_us
        while at_us < row.range.to_us:
            now = (row.stability, row.buckets.get(at_us))
            if at_us in seen and seen[at_us][0] is not Stability.TENTATIVE:
                assert seen[at_us] == now, f"bucket {at_us} changed after it was final"
            seen[at_us] = now
            at_us += a.WIDTH_US


@pytest.mark.sweep
@settings(
    deadline=None, max_examples=examples(10, 60), suppress_health_check=[HealthCheck.too_slow]
)
@given(
    commands(),
    st.integers(2, 3),
    st.integers(1, 3),
    st.sampled_from([None, WaitBudget(0), WaitBudget(3_000)]),
)
def test_any_order_of_arrival_ends_in_the_same_content(
    made: Commands, producers: int, verify: int, wait_budget: WaitBudget | None
) -> None:
    reading = Reading(
        MemoryCatalog(a.ALPHA, ManualClock(1_000)), PRODUCERS[:producers], min(verify, producers)
    )
    reading.wait_budget = wait_budget
    works = [Producing(reading, p) for p in PRODUCERS[:producers]]
    seen: dict[int, Any] = {}
    for kind, who, count in made:
        plan = works[who % producers]
        match kind:
            case "answer":
                plan.answer(count, who)
            case "compute":
                plan.compute(count)
            case "correct":
                plan.correct(count)
            case "hear":
                reading.hear(PRODUCERS[who % producers], page=count)
            case _:
                reading.choose()
                check_laws(reading, seen)
    for plan in works:
        plan.finish()
    for _ in range(40):
        reading.hear(page=3)
        reading.choose()
        check_laws(reading, seen)
    reading.settle()

    rows = reading.rows()
    assert {row.stability for row in rows} == {S}
    assert {at // a.WIDTH_US: d.rows for at, d in digests_of(rows).items()} == {
        at: at + 2 for at in range(BUCKETS) if at % 3
    }
    (line,) = (ln for ln in reading.catalog.lines(a.SUMS) if ln.producer == CHOSEN)
    assert line.boundary_us == FOREVER_US
    assert reading.catalog.divergences() == ()
    history = _rows_ever(reading)
    chosen = Counter(
        at_us
        for row in history
        for at_us in range(row.segment.range.from_us, row.segment.range.to_us, a.WIDTH_US)
        if not _is_left(history, row, at_us)
    )
    assert max(chosen.values()) <= 2, "a bucket is chosen twice at most (S12)"


def _rows_ever(reading: Reading) -> list[SegmentRow]:
    """Every row that the import's line has or had, as the memory keeps it."""
    assert isinstance(reading.catalog, MemoryCatalog)
    line = reading.catalog.run(lambda work: work.get(LINES, (a.SUMS, CHOSEN)))
    assert line is not None
    return [*line.live, *line.superseded]


def _is_left(history: list[SegmentRow], row: SegmentRow, at_us: int) -> bool:
    """Whether a row is what a later choice left of an earlier one: the same content."""
    return any(
        other.end_version == row.begin_version
        and other.segment.range.from_us <= at_us < other.segment.range.to_us
        and other.segment.stability is row.segment.stability
        for other in history
    )


@pytest.mark.sweep
@settings(
    deadline=None, max_examples=examples(15, 40), suppress_health_check=[HealthCheck.too_slow]
)
@given(commands(), st.integers(0, BUCKETS - 1), st.integers(1, 2))
def test_where_producers_disagree_nothing_becomes_final_that_was_not(
    made: Commands, differs: int, verify: int
) -> None:
    reading = Reading(MemoryCatalog(a.ALPHA, ManualClock(1_000)), PRODUCERS[:2], verify)
    reading.wait_budget = WaitBudget(0)
    reading[PRODUCERS[0]].commit(0, BUCKETS, rows=dict.fromkeys(range(BUCKETS), 2))
    other = {at: 5 if at == differs else 2 for at in range(BUCKETS)}
    cuts = sorted({0, BUCKETS, *(count for _, _, count in made)})
    for from_bucket, to_bucket in pairwise(cuts):
        part = {at: n for at, n in other.items() if from_bucket <= at < to_bucket}
        reading[PRODUCERS[1]].commit(from_bucket, to_bucket, rows=part)
    seen: dict[int, Any] = {}
    for kind, who, count in made:
        if kind == "hear":
            reading.hear(PRODUCERS[who % 2], page=count)
        elif kind == "choose":
            reading.choose()
            check_laws(reading, seen)
    final_before = {at for at, (stability, _) in seen.items() if stability is S}
    for _ in range(10):
        reading.hear()
        reading.choose()
    (divergence,) = reading.catalog.divergences()
    assert divergence.bucket_us == differs * a.WIDTH_US
    check_laws(reading, seen)
    final = {at for at, (stability, _) in seen.items() if stability is S}
    assert all(at < divergence.bucket_us or at in final_before for at in final)
    assert set(range(0, divergence.bucket_us, a.WIDTH_US)) <= final
