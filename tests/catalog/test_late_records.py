"""Late records that wait: kept whole until a revision admits them, each once, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from medusa_core.commits import LateRow, QuarantinedRecord
from medusa_core.digest import Digest
from medusa_core.errors import Conflict, Refused
from medusa_core.late_records import LateBucket, LateRecord
from medusa_core.names import Epoch, PlanId, StreamName
from medusa_core.plans import fingerprint_of
from medusa_core.revisions import RevisedSegment, RevisionRequest
from pipelines.catalog.interface import Catalog
from pipelines.participant.late_admission import LateAdmission
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

DOCUMENT = '{"network": {"sources": [{"name": "src", "late": "revise"}]}}'
PLAN = fingerprint_of(DOCUMENT)
"""Under which the source revises."""
LEASE = a.a_lease(a.LANDING, epoch=a.SECOND)
WIDTH = a.WIDTH_US
WHY = "2 late records of 1 buckets: they are admitted once in 3600 s"


def late(bucket: int, row: bytes = b"row") -> QuarantinedRecord:
    """A late record at the end of a bucket, whose digest is that of one more row there."""
    kept = LateRow(stime_us=(bucket + 1) * WIDTH - 1, row=row, digest=Digest(1, 2**64, 2**63))
    return replace(a.a_bad_record(), stream=a.SRC, reason="is late", late=kept)


def land_under(catalog: Catalog, plan: PlanId, document: str, epoch: Epoch) -> None:
    """Assign the landing under a plan from now on."""
    assigned = a.an_assignment(a.LANDING, epoch, plan=plan)
    deployment = a.a_deployment(assignments=(assigned,), plan=plan, plan_document=document)
    catalog.deploy(deployment)
    catalog.acquire_lease(a.a_key(a.LANDING), epoch, "me", a.HOUR_MS)


@pytest.fixture
def landed(catalog: Catalog) -> Catalog:
    """Four closed buckets of one record each; four late records and one that does not fit."""
    records = (late(1, b"\0one"), late(2), a.a_bad_record(), late(1, b"two\xff"), late(5))
    land_under(catalog, PLAN, DOCUMENT, a.SECOND)
    batch = a.a_batch(0, dict.fromkeys(range(4), 1), quarantine=records)
    catalog.land(LEASE, batch)
    catalog.promise(LEASE, a.SRC, origin_us=0, boundary_us=4 * WIDTH, end_us=None)
    closed = a.a_segment(0, 4, stream=a.SRC, rows=dict.fromkeys(range(4), 1))
    catalog.commit(a.a_commit(closed, lease=LEASE))
    return catalog


def waiting(catalog: Catalog) -> dict[int, int]:
    found = catalog.late_buckets([a.SRC, a.SUMS]).get(a.SRC, ())
    return {bucket.at_us // WIDTH: bucket.records for bucket in found}


def numbers(catalog: Catalog, *buckets: int) -> tuple[int, ...]:
    starts = [bucket * WIDTH for bucket in buckets]
    return tuple(record.number for record in catalog.late_records(a.SRC, starts))


def admission(numbers: tuple[int, ...], rows: Mapping[int, int], **said: Any) -> RevisionRequest:
    """A revision by the driver that leaves so many rows in buckets, which lie side by side."""
    segment = a.a_segment(min(rows), max(rows) + 1, stream=a.SRC, rows=rows)
    known: dict[str, Any] = {"generation": 1, "because": WHY, "who": "alpha", **said}
    return RevisionRequest(
        stream=a.SRC, producer=a.ME, late=numbers,
        segments=(RevisedSegment(segment=segment, plan=a.PLAN),), **known,
    )  # fmt: skip


def rows_of(catalog: Catalog) -> dict[int, int]:
    return {
        at_us // WIDTH: digest.rows
        for segment in catalog.segments(a.SRC)
        for at_us, digest in segment.buckets.items()
    }


def test_late_records_wait_by_bucket_with_all_their_values(landed: Catalog) -> None:
    assert waiting(landed) == {1: 2, 2: 1, 5: 1}
    found = landed.late_records(a.SRC, [WIDTH])
    assert [(one.stime_us, one.row) for one in found] == [
        (2 * WIDTH - 1, b"\0one"), (2 * WIDTH - 1, b"two\xff"),
    ]  # fmt: skip
    first = landed.late_buckets([a.SRC])[a.SRC][0]
    assert first == LateBucket(at_us=WIDTH, records=2, arrived_ms=first.arrived_ms)
    assert 0 <= landed.read_clock_ms() - first.arrived_ms < a.HOUR_MS
    assert landed.late_buckets([a.SUMS]) == {}
    assert landed.quarantine_count(a.SRC) == 5
    assert [r.late for r in landed.quarantined()] == [None] * 5


def test_a_driver_admits_late_records_once(landed: Catalog) -> None:
    late_ones = numbers(landed, 1, 2)
    request = admission(late_ones, {1: 3, 2: 2})
    done = landed.revise(request)
    assert (done.generation, done.who, done.because) == (2, "alpha", WHY)
    assert landed.revise(request) == done, "sent again after a lost reply"
    assert rows_of(landed) == {0: 1, 1: 3, 2: 2, 3: 1}
    assert waiting(landed) == {5: 1}
    marks = {e.number: (e.landed_as, e.result) for e in landed.quarantine_entries(a.SRC)}
    assert [marks[number] for number in late_ones] == [("revision", "by revision")] * 3
    assert sum(mark == (None, "") for mark in marks.values()) == 2
    with pytest.raises(Conflict, match="does not wait"):
        landed.revise(admission(late_ones, {1: 5, 2: 3}, generation=2))
    assert rows_of(landed) == {0: 1, 1: 3, 2: 2, 3: 1}


class AdmittedMeanwhile:
    """A home in which another driver admits late records just before they are read."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def late_records(self, stream: StreamName, buckets: Sequence[int]) -> tuple[LateRecord, ...]:
        """What is left of them."""
        self._catalog.revise(admission(numbers(self._catalog, 1, 2), {1: 3, 2: 2}))
        return self._catalog.late_records(stream, buckets)


class NobodyToHear:
    """Hears alarms that are not to be raised."""

    def alarm(self, of: str, because: str | None) -> None:
        """Fail: there is nothing to report."""
        raise AssertionError(f"{of}: {because}")


def test_late_records_that_another_driver_admits_meanwhile_are_left_to_it(landed: Catalog) -> None:
    home: Any = AdmittedMeanwhile(landed)
    contents: Any = None  # nothing is written
    late_admission = LateAdmission(home, contents, {a.SRC: 1}, NobodyToHear())
    assert late_admission.tick() == 0
    assert rows_of(landed) == {0: 1, 1: 3, 2: 2, 3: 1}


def test_late_records_that_are_admitted_twice_at_once_are_admitted_once(
    home: HomeUnderTest, landed: Catalog
) -> None:
    """By medusa.revise, which looks again when it holds the lease."""
    first, second = home.session(), home.session()
    request = admission(numbers(landed, 1, 2), {1: 3, 2: 2})
    first.begin()
    done = home.start(first, lambda c: c.revise(request)).answer()
    pending = home.start(second, lambda c: c.revise(request))
    assert pending.is_waiting
    first.end(keep=True)
    assert pending.answer() == done
    assert rows_of(landed) == {0: 1, 1: 3, 2: 2, 3: 1}


WRONG: dict[str, tuple[tuple[int, ...], dict[int, int]]] = {
    "a row more": ((1,), {1: 4}),
    "a row less": ((1,), {1: 2}),
    "another bucket too": ((1,), {1: 3, 2: 2}),
    "rows of another bucket": ((2,), {1: 2}),
    "nothing of them": ((1,), {1: 1}),
}


@pytest.mark.parametrize(("of", "rows"), WRONG.values(), ids=WRONG.keys())
def test_late_records_change_nothing_but_that_they_are_added(
    landed: Catalog, of: tuple[int, ...], rows: dict[int, int]
) -> None:
    with pytest.raises(Refused):
        landed.revise(admission(numbers(landed, *of), rows))
    assert rows_of(landed) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert waiting(landed) == {1: 2, 2: 1, 5: 1}


@pytest.mark.parametrize(
    "document",
    [
        '{"network": {"sources": [{"name": "src", "late": "quarantine"}]}}',
        '{"network": {"sources": [{"name": "other", "late": "revise"}]}}',
        '{"network": {}}',
        "{}",
    ],
)
def test_late_records_are_not_admitted_under_a_plan_that_does_not_say_so(
    landed: Catalog, document: str
) -> None:
    late_ones = numbers(landed, 1)
    land_under(landed, fingerprint_of(document), document, Epoch(a.SECOND + 1))
    with pytest.raises(Refused, match="does not admit late records"):
        landed.revise(admission(late_ones, {1: 3}))
    assert waiting(landed) == {1: 2, 2: 1, 5: 1}


def test_a_late_record_is_named_once_and_is_one_that_waits(landed: Catalog) -> None:
    one, two = numbers(landed, 1)
    bad = next(e.number for e in landed.quarantine_entries() if e.record.reason != "is late")
    with pytest.raises(Refused, match="twice"):
        landed.revise(admission((one, two, two), {1: 4}))
    with pytest.raises(Conflict, match="does not wait"):
        landed.revise(admission((one, bad), {1: 3}))


def test_a_late_record_of_an_open_bucket_is_not_admitted(landed: Catalog) -> None:
    with pytest.raises(Refused, match="not stable"):
        landed.revise(admission(numbers(landed, 5), {5: 1}))
    assert waiting(landed)[5] == 1


def test_a_late_record_of_a_trimmed_bucket_stays_in_quarantine_alone(landed: Catalog) -> None:
    needed = {a.MAIN: 4 * WIDTH}
    landed.trim(a.SRC, a.ME, 2 * WIDTH, needed=needed, segments_max=0)
    assert waiting(landed) == {1: 2, 2: 1, 5: 1}, "as much is removed as one call may"
    landed.trim(a.SRC, a.ME, 2 * WIDTH, needed=needed, segments_max=9)
    assert waiting(landed) == {2: 1, 5: 1}
    assert landed.quarantine_count(a.SRC) == 5


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_nobody_removes_a_late_record_that_waits(landed: Catalog, watcher: Engine) -> None:
    """By medusa.guard_late_record."""
    with (
        pytest.raises(DBAPIError, match="waits to be admitted: its values are kept until then"),
        watcher.connect() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM medusa.late_record")
    assert waiting(landed) == {1: 2, 2: 1, 5: 1}


def test_a_late_record_that_lands_repaired_does_not_wait_any_more(landed: Catalog) -> None:
    (number,) = numbers(landed, 5)
    landed.land(LEASE, replace(a.a_batch(1, {5: 1}), retried=(number,)))
    assert waiting(landed) == {1: 2, 2: 1}
    with pytest.raises(Conflict, match="does not wait"):
        landed.revise(admission((number, *numbers(landed, 2)), {2: 2}))


def test_a_revision_of_the_owner_leaves_late_records_waiting(
    landed: Catalog, owner: Catalog
) -> None:
    owner.revise(admission((), {1: 7}, who="ada"))
    assert waiting(landed) == {1: 2, 2: 1, 5: 1}
    landed.revise(admission(numbers(landed, 1), {1: 9}, generation=2))
    assert rows_of(landed)[1] == 9
