"""What operators look at: leases, assignments and plans in force, streams, counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.grid import FOREVER_US
from medusa_core.names import PlanId, StreamName
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.records import LineStatus, StreamStatus, progress_of
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest


def sums(catalog: Catalog) -> StreamStatus:
    (found,) = [status for status in catalog.streams() if status.stream.name == a.SUMS]
    return found


def test_a_home_without_a_deployment_has_none_of_it(home: HomeUnderTest) -> None:
    catalog = home.catalog
    assert catalog.leases() == catalog.assignments() == catalog.plans() == ()
    assert (catalog.step_counts(), catalog.quarantine_reasons()) == ({}, ())


def test_a_lease_is_shown_with_its_holder_and_how_long_it_lasts(catalog: Catalog) -> None:
    shown = {record.lease.key.fragment: record for record in catalog.leases()}
    assert set(shown) == {a.LANDING, a.MAIN, a.TAIL}
    main = shown[a.MAIN]
    assert (main.lease.holder, main.lease.epoch, main.is_held) == ("me", a.FIRST, True)
    assert 0 < main.expires_in_ms <= a.HOUR_MS


def test_a_lease_that_expired_is_shown_as_not_held(home: HomeUnderTest, catalog: Catalog) -> None:
    ended = catalog.renew_lease(a.a_lease(), ttl_ms=0)
    home.let_time_pass(ended.expires_at_ms + 5)
    (main,) = [r for r in catalog.leases() if r.lease.key == a.a_key()]
    assert not main.is_held
    assert main.expires_in_ms < 0
    assert main.lease.holder == "me"


def test_leases_come_by_fragment_and_lane(catalog: Catalog) -> None:
    catalog.acquire_lease(a.a_key(lane=Lane.BACKLOG), a.FIRST, "another", a.HOUR_MS)
    shown = [(r.lease.key.fragment, r.lease.key.lane) for r in catalog.leases()]
    live, backlog = Lane.LIVE, Lane.BACKLOG
    assert shown == [(a.MAIN, live), (a.MAIN, backlog), (a.TAIL, live), (a.LANDING, live)]


def test_only_the_newest_assignment_of_a_replica_is_in_force(catalog: Catalog) -> None:
    later = replace(a.an_assignment(a.MAIN, a.SECOND, plan=PlanId("plan-two")), from_us=a.WIDTH_US)
    catalog.deploy(a.a_deployment(assignments=(later,), plan=PlanId("plan-two")))
    in_force = {line.fragment: line for line in catalog.assignments()}
    assert in_force[a.MAIN] == later
    assert in_force[a.TAIL] == a.an_assignment(a.TAIL)
    assert [(p.network, p.id) for p in catalog.plans()] == [
        ("example", a.PLAN),
        ("example", "plan-two"),
    ]


def test_a_plan_that_nothing_is_assigned_under_any_more_is_not_in_force(catalog: Catalog) -> None:
    plan = PlanId("plan-two")
    moved = tuple(a.an_assignment(f, a.SECOND, plan=plan) for f in (a.LANDING, a.MAIN, a.TAIL))
    catalog.deploy(a.a_deployment(assignments=moved, plan=plan, plan_document='{"two": 2}'))
    (left,) = catalog.plans()
    assert (left.id, left.document) == (plan, '{"two": 2}')


def test_a_replica_is_assigned_in_addition_to_the_first(catalog: Catalog) -> None:
    second = a.an_assignment(a.MAIN, a.SECOND, Producer(a.ALPHA, replica=1))
    catalog.deploy(a.a_deployment(assignments=(second,)))
    mains = [line for line in catalog.assignments() if line.fragment == a.MAIN]
    assert mains == [a.an_assignment(a.MAIN), second]


def test_a_stream_that_has_not_begun_is_through_nothing(catalog: Catalog) -> None:
    status = sums(catalog)
    assert (status.stable_through_us, status.tentative_through_us) == (None, None)
    assert not status.has_ended


def test_a_stream_is_stable_up_to_its_first_tentative_bucket(catalog: Catalog) -> None:
    tentative = Stability.TENTATIVE
    catalog.commit(a.a_commit(a.a_segment(0, 3), a.a_segment(3, 5, tentative)))
    catalog.commit(a.a_commit(a.a_segment(5, 7)))
    status = sums(catalog)
    assert status.stable_through_us == 3 * a.WIDTH_US
    assert status.tentative_through_us == 7 * a.WIDTH_US
    catalog.commit(a.a_commit(a.a_segment(3, 4)))
    assert sums(catalog).stable_through_us == 4 * a.WIDTH_US
    catalog.commit(a.a_commit(a.a_segment(4, 5)))
    status = sums(catalog)
    assert (status.stable_through_us, status.tentative_through_us) == (7 * a.WIDTH_US, None)


@pytest.mark.parametrize("last", [Stability.STABLE, Stability.TENTATIVE])
def test_a_stream_that_ended_is_stable_through_its_end_unless_that_is_tentative(
    catalog: Catalog, last: Stability
) -> None:
    catalog.commit(a.a_commit(a.a_segment(0, 3), a.a_segment(3, 5, last), ends=True))
    status = sums(catalog)
    assert status.has_ended
    final = last is Stability.STABLE
    assert status.stable_through_us == (5 if final else 3) * a.WIDTH_US
    assert status.tentative_through_us == (None if final else 5 * a.WIDTH_US)


def test_rows_behind_a_hole_are_not_counted_as_reached(catalog: Catalog) -> None:
    catalog.commit(a.a_commit(a.a_segment(0, 2)))
    catalog.commit(a.a_commit(a.a_segment(4, 6, Stability.TENTATIVE)))
    status = sums(catalog)
    assert (status.stable_through_us, status.tentative_through_us) == (2 * a.WIDTH_US, None)


def test_lines_are_the_streams_without_their_counts(catalog: Catalog) -> None:
    tentative = Stability.TENTATIVE
    catalog.commit(a.a_commit(a.a_segment(0, 3), a.a_segment(3, 5, tentative)))
    lines, streams = catalog.lines(), catalog.streams()
    assert [StreamStatus.of(ln, segments=s.segments, rows=s.rows)
            for ln, s in zip(lines, streams, strict=True)] == list(streams)  # fmt: skip
    assert [type(line) for line in lines] == [LineStatus] * 3
    assert {line.stable_through_us for line in lines} == {None, 3 * a.WIDTH_US}


def test_lines_of_one_stream_are_read_alone(catalog: Catalog) -> None:
    lines = catalog.lines()
    for name in {line.stream.name for line in lines}:
        assert catalog.lines(name) == tuple(ln for ln in lines if ln.stream.name == name)
    assert catalog.lines(StreamName("nobody's")) == ()


def test_steps_are_counted_by_cause(catalog: Catalog) -> None:
    for at in range(3):
        catalog.commit(a.a_commit(a.a_segment(at, at + 1)))
    catalog.commit(replace(a.a_commit(a.a_segment(3, 4)), cause=Cause.CORRECTION))
    assert catalog.step_counts() == {Cause.NORMAL: 3, Cause.CORRECTION: 1}


def test_quarantine_is_counted_by_reason_the_most_frequent_first(catalog: Catalog) -> None:
    bad = [a.a_bad_record(reason) for reason in ("seldom", "often", "often", "also seldom")]
    catalog.commit(a.a_commit(a.a_segment(0, 1), quarantine=tuple(bad)))
    found = [(q.stream, q.reason, q.records) for q in catalog.quarantine_reasons()]
    assert found == [(a.SRC, "often", 2), (a.SRC, "also seldom", 1), (a.SRC, "seldom", 1)]
    assert len(catalog.quarantine_reasons(2)) == 2


def test_a_tentative_row_behind_the_first_hole_moves_no_progress() -> None:
    assert progress_of(0, 9, None, 20) == (9, 9, None, False)
    assert progress_of(0, 9, None, 4) == (9, 4, 9, False)
    assert progress_of(0, FOREVER_US, 7, None) == (7, 7, None, True)
    assert progress_of(None, 0, None, None) == (None, None, None, False)
