"""Two writers at once: who waits for whom, what each sees, and what an error does to the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medusa_core.commits import Hold, Lane
from medusa_core.errors import Conflict, MedusaError, Refused
from medusa_core.knowledge import Limits
from medusa_core.segments import Stability
from pipelines.catalog.interface import Catalog, Session
from tests.catalog import building as a
from tests.catalog.homes_under_test import Call, HomeUnderTest
from tests.sweeps import long_but

FRAGMENTS = a.some_fragments()
SOON_MS = 250


@pytest.fixture
def both_lanes(home: HomeUnderTest, catalog: Catalog) -> HomeUnderTest:
    """Two drivers of one line: `me` in the live lane, `other` in the backlog lane."""
    catalog.acquire_lease(a.a_key(lane=Lane.BACKLOG), a.FIRST, "other", a.HOUR_MS)
    return home


def commit_by(holder: str, from_bucket: int, to_bucket: int,
              stability: Stability = Stability.STABLE) -> Call:  # fmt: skip
    lane = Lane.LIVE if holder == "me" else Lane.BACKLOG
    commit = a.a_commit(
        a.a_segment(from_bucket, to_bucket, stability), lease=a.a_lease(holder=holder, lane=lane)
    )
    return lambda catalog: catalog.commit(commit)


def test_uncommitted_changes_are_invisible(both_lanes: HomeUnderTest) -> None:
    writer = both_lanes.session()
    writer.begin()
    both_lanes.start(writer, commit_by("me", 0, 1)).answer()
    assert both_lanes.catalog.segments(a.SUMS) == ()
    assert len(writer.catalog.segments(a.SUMS)) == 1, "but the writer itself does"
    writer.end(keep=True)
    assert len(both_lanes.catalog.segments(a.SUMS)) == 1


def test_what_is_rolled_back_never_was(both_lanes: HomeUnderTest) -> None:
    writer = both_lanes.session()
    writer.begin()
    both_lanes.start(writer, commit_by("me", 0, 1)).answer()
    writer.end(keep=False)
    assert both_lanes.catalog.segments(a.SUMS) == ()
    assert both_lanes.catalog.steps() == ()
    assert both_lanes.catalog.commit(a.a_commit(a.a_segment(0, 1))).versions == {a.SUMS: 1}


def test_a_snapshot_does_not_move_while_others_commit(both_lanes: HomeUnderTest) -> None:
    reader, writer = both_lanes.session(), both_lanes.session()
    reader.begin(snapshot=True)
    both_lanes.start(writer, commit_by("me", 0, 1)).answer()
    assert reader.catalog.segments(a.SUMS) == ()
    before = reader.catalog.read_knowledge(FRAGMENTS, Limits())
    both_lanes.start(writer, commit_by("other", 1, 2)).answer()
    assert reader.catalog.read_knowledge(FRAGMENTS, Limits()) == before
    reader.end(keep=True)
    assert len(reader.catalog.segments(a.SUMS)) == 2


def test_a_transaction_that_is_no_snapshot_sees_each_commit(both_lanes: HomeUnderTest) -> None:
    reader, writer = both_lanes.session(), both_lanes.session()
    reader.begin()
    assert reader.catalog.segments(a.SUMS) == ()
    both_lanes.start(writer, commit_by("me", 0, 1)).answer()
    assert len(reader.catalog.segments(a.SUMS)) == 1
    reader.end(keep=True)


@pytest.mark.parametrize("keep", [True, False])
def test_a_second_commit_to_a_line_waits_and_then_gets_the_next_version(
    both_lanes: HomeUnderTest, keep: bool
) -> None:
    first, second = both_lanes.session(), both_lanes.session()
    first.begin()
    both_lanes.start(first, commit_by("me", 0, 1)).answer()
    waiting = both_lanes.start(second, commit_by("other", 1, 2))
    assert waiting.is_waiting
    first.end(keep=keep)
    assert waiting.answer().versions == {a.SUMS: 2 if keep else 1}


@pytest.mark.parametrize("keep", [True, False])
def test_a_second_commit_over_the_same_range_loses_only_if_the_first_is_kept(
    both_lanes: HomeUnderTest, keep: bool
) -> None:
    first, second = both_lanes.session(), both_lanes.session()
    first.begin()
    both_lanes.start(first, commit_by("me", 0, 2)).answer()
    waiting = both_lanes.start(second, commit_by("other", 1, 3))
    assert waiting.is_waiting
    first.end(keep=keep)
    if keep:
        with pytest.raises(Conflict):
            waiting.answer()
    else:
        assert waiting.answer().versions == {a.SUMS: 1}


def test_the_same_commit_sent_twice_at_once_is_made_once(both_lanes: HomeUnderTest) -> None:
    first, second = both_lanes.session(), both_lanes.session()
    same = commit_by("me", 0, 1)
    first.begin()
    made = both_lanes.start(first, same).answer()
    waiting = both_lanes.start(second, same)
    assert waiting.is_waiting
    first.end(keep=True)
    again = waiting.answer()
    assert (again.again, again.versions) == (True, made.versions)


def test_a_commit_whose_lease_ends_while_it_waits_is_refused(both_lanes: HomeUnderTest) -> None:
    first, second = both_lanes.session(), both_lanes.session()
    first.begin()
    both_lanes.start(first, lambda c: c.renew_lease(a.a_lease(), 0)).answer()
    waiting = both_lanes.start(second, commit_by("me", 0, 1))
    assert waiting.is_waiting
    first.end(keep=True)
    with pytest.raises(Conflict, match="expired"):
        waiting.answer()


LINE_WRITES: dict[str, tuple[str, Call]] = {
    "commit": (a.MAIN, commit_by("me", 1, 2)),
    "land": (a.LANDING, lambda c: c.land(a.a_lease(a.LANDING), a.a_batch(0, {5: 1}))),
    "promise": (
        a.LANDING,
        lambda c: c.promise(a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=0, end_us=None),
    ),
}
every_line_write = pytest.mark.parametrize(
    ("fragment", "write"), LINE_WRITES.values(), ids=list(LINE_WRITES)
)


def hold_line(home: HomeUnderTest, fragment: str) -> Session:
    """`other`, in the backlog lane, writes to the fragment's line and does not end."""
    home.catalog.acquire_lease(a.a_key(fragment, Lane.BACKLOG), a.FIRST, "other", a.HOUR_MS)
    lease = a.a_lease(fragment, "other", lane=Lane.BACKLOG)
    commit = a.a_commit(a.a_segment(0, 1, stream=a.WRITES[fragment]), lease=lease)
    holder = home.session()
    holder.begin()
    home.start(holder, lambda c: c.commit(commit)).answer()
    return holder


@every_line_write
@pytest.mark.parametrize("keep", long_but(1, [True, False]))
def test_a_write_whose_lease_ends_while_it_waits_for_the_line_is_refused(
    both_lanes: HomeUnderTest, fragment: str, write: Call, keep: bool
) -> None:
    writer = both_lanes.session()
    holder = hold_line(both_lanes, fragment)
    for ttl_ms in (SOON_MS, 10 * SOON_MS, 100 * SOON_MS):
        lease = both_lanes.catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", ttl_ms)
        waiting = both_lanes.start(writer, write)
        if waiting.is_waiting:
            break
        # On a slow machine the lease was over before the write began to wait: a longer one.
        with pytest.raises(Conflict, match="expired"):
            waiting.answer()
    assert waiting.is_waiting
    both_lanes.let_time_pass(lease.expires_at_ms)
    holder.end(keep=keep)
    with pytest.raises(Conflict, match="expired"):
        waiting.answer()
    assert len(both_lanes.catalog.steps()) == keep
    assert both_lanes.catalog.landed_batches(a.SRC, "query") == {}


@every_line_write
@pytest.mark.parametrize("keep", [True, False])
def test_a_write_that_waits_for_the_line_is_refused_if_a_newer_epoch_comes_with_it(
    both_lanes: HomeUnderTest, fragment: str, write: Call, keep: bool
) -> None:
    writer = both_lanes.session()
    holder = hold_line(both_lanes, fragment)
    newer = a.a_deployment(assignments=(a.an_assignment(fragment, a.SECOND),))
    both_lanes.start(holder, lambda c: c.deploy(newer)).answer()
    waiting = both_lanes.start(writer, write)
    assert waiting.is_waiting
    holder.end(keep=keep)
    if keep:
        with pytest.raises(Conflict, match="epoch 2"):
            waiting.answer()
    else:
        waiting.answer()


def test_a_commit_is_dated_after_its_wait_for_the_line(both_lanes: HomeUnderTest) -> None:
    writer = both_lanes.session()
    holder = hold_line(both_lanes, a.MAIN)
    waiting = both_lanes.start(writer, commit_by("me", 1, 2))
    assert waiting.is_waiting
    let_go_ms = both_lanes.catalog.read_clock_ms() + 5
    both_lanes.let_time_pass(let_go_ms)
    holder.end(keep=True)
    assert waiting.answer().committed_at_ms > let_go_ms


def test_two_who_take_a_free_lease_at_once_do_not_both_get_it(both_lanes: HomeUnderTest) -> None:
    both_lanes.catalog.release_lease(a.a_lease(a.TAIL))
    first, second = both_lanes.session(), both_lanes.session()
    first.begin()
    both_lanes.start(
        first, lambda c: c.acquire_lease(a.a_key(a.TAIL), a.FIRST, "one", a.HOUR_MS)
    ).answer()
    waiting = both_lanes.start(
        second, lambda c: c.acquire_lease(a.a_key(a.TAIL), a.FIRST, "two", a.HOUR_MS)
    )
    assert waiting.is_waiting
    first.end(keep=True)
    with pytest.raises(Conflict, match="held by one"):
        waiting.answer()


def test_writers_of_different_lines_do_not_wait_for_each_other(both_lanes: HomeUnderTest) -> None:
    first, second = both_lanes.session(), both_lanes.session()
    first.begin()
    both_lanes.start(first, commit_by("me", 0, 1)).answer()
    landed = both_lanes.start(second, lambda c: c.land(a.a_lease(a.LANDING), a.a_batch(0, {0: 1})))
    assert not landed.is_waiting
    assert landed.answer() is True
    first.end(keep=True)


def test_deploying_does_not_wait_for_a_commit(both_lanes: HomeUnderTest) -> None:
    writer, deployer = both_lanes.session(), both_lanes.session()
    writer.begin()
    both_lanes.start(writer, commit_by("me", 0, 1)).answer()
    assert not both_lanes.start(deployer, lambda c: c.deploy(a.a_deployment())).is_waiting
    writer.end(keep=True)


def test_readers_never_wait(both_lanes: HomeUnderTest) -> None:
    writer, reader = both_lanes.session(), both_lanes.session()
    writer.begin()
    both_lanes.start(writer, commit_by("me", 0, 1)).answer()
    assert not both_lanes.start(reader, lambda c: c.streams()).is_waiting
    knowing = both_lanes.start(reader, lambda c: c.read_knowledge(FRAGMENTS, Limits()))
    assert not knowing.is_waiting
    writer.end(keep=True)


def test_an_error_fails_the_transaction_and_releases_its_locks(both_lanes: HomeUnderTest) -> None:
    first, second = both_lanes.session(), both_lanes.session()
    first.begin()
    both_lanes.start(first, commit_by("me", 0, 1)).answer()
    with pytest.raises(Refused):
        both_lanes.start(first, lambda c: c.land(a.a_lease(a.MAIN), a.a_batch())).answer()
    assert not both_lanes.start(second, commit_by("other", 0, 1)).is_waiting
    with pytest.raises(Refused, match="end it first"):
        first.catalog.streams()
    first.end(keep=True)
    assert len(both_lanes.catalog.steps()) == 1, "only the other's commit was kept"


WRITES: dict[str, Call] = {
    "commit": commit_by("me", 0, 1),
    "land": lambda c: c.land(a.a_lease(a.LANDING), a.a_batch(0, {0: 1})),
    "deploy": lambda c: c.deploy(a.a_deployment()),
    "renew": lambda c: c.renew_lease(a.a_lease(), a.HOUR_MS),
    "release": lambda c: c.release_lease(a.a_lease()),
    "hold": lambda c: c.place_hold(Hold(stream=a.SUMS, holder="h", purpose="p", from_us=0)),
    "no hold": lambda c: c.release_hold(a.SUMS, "h", "p"),
}


@pytest.mark.parametrize("write", long_but(4, WRITES.values(), quick=True), ids=list(WRITES))
def test_nothing_is_written_in_a_snapshot(
    both_lanes: HomeUnderTest, write: Callable[[Catalog], object]
) -> None:
    session = both_lanes.session()
    session.begin(snapshot=True)
    with pytest.raises(MedusaError) as refused:
        both_lanes.start(session, write).answer()
    assert refused.type is Refused
    session.end(keep=False)
