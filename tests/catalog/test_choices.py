"""What a home reads of a stream that several producers compute."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from medusa_core.bounds import Policy
from medusa_core.choosing import choose
from medusa_core.commits import LeaseKey
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import FOREVER_US
from medusa_core.imports import ChosenRows
from medusa_core.names import Epoch
from medusa_core.segments import Producer, Stability
from medusa_core.wait_budget import WaitBudget
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.records import Assignment
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest
from tests.catalog.producing import (
    BETA,
    CHOSEN,
    GAMMA,
    IMPORTING,
    KAPPA,
    LIMITS,
    PRODUCERS,
    G,
    Reading,
    S,
    T,
    digests_of,
    replicated,
)


@pytest.fixture
def reading(home: HomeUnderTest) -> Reading:
    return Reading(home.catalog)


def test_a_final_row_is_read_from_any_producer_that_has_one(reading: Reading) -> None:
    reading[BETA].commit(0, 2, T, missing=["src"])
    reading[GAMMA].commit(0, 3)
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-3 stable gamma"]
    assert len(digests_of(reading.rows())) == 3


def test_of_tentative_rows_the_one_that_lacks_the_least_is_read(reading: Reading) -> None:
    reading[BETA].commit(0, 2, T, missing=["other", "src"])
    reading[GAMMA].commit(0, 1, T, missing=["src"])
    reading.hear()
    reading.settle()
    assert reading.shown() == [
        "0-1 tentative gamma without src",
        "1-2 tentative beta without other, src",
    ]


def test_where_one_producer_ends_the_other_is_read_on(reading: Reading) -> None:
    reading[BETA].commit(0, 2)
    reading[GAMMA].commit(0, 5)
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-2 stable beta", "2-5 stable gamma"]
    assert reading.catalog.lines(a.SUMS)[0].producer == CHOSEN
    assert reading.catalog.lines(a.SUMS)[0].boundary_us == 5 * a.WIDTH_US


def test_a_tentative_choice_is_replaced_once_and_only_by_what_is_final(reading: Reading) -> None:
    reading[BETA].commit(0, 4, T, missing=["src"])
    reading.hear()
    reading.settle()
    # Less tentative than what is read, and yet it is not read: a bucket is chosen twice at most.
    reading[GAMMA].commit(0, 4, T)
    reading.hear()
    assert reading.choose().is_nothing
    reading[GAMMA].commit(1, 3)
    reading.hear()
    reading.settle()
    assert reading.shown() == [
        "0-1 tentative beta without src",
        "1-3 stable gamma",
        "3-4 tentative beta without src",
    ]
    reading[BETA].commit(0, 4)
    reading.hear()
    reading.settle()
    assert [row.stability for row in reading.rows()] == [S, S, S]
    assert {d.rows for d in digests_of(reading.rows()).values()} == {2}


def test_a_loss_is_declared_only_once_every_producer_has_lost_it(reading: Reading) -> None:
    reading[BETA].commit(0, 2, G)
    reading.hear()
    assert reading.choose().is_nothing, "gamma has not been heard: it may have it"
    reading[GAMMA].commit(0, 1)
    reading[GAMMA].commit(1, 2, G)
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-1 stable gamma", "1-2 gap beta"]


@pytest.mark.parametrize("last", [G, T])
def test_behind_the_end_of_one_nothing_is_lost_nor_stays_tentative(
    reading: Reading, last: Stability
) -> None:
    reading.wait_budget = WaitBudget(a.HOUR_MS)
    reading[BETA].commit(0, 1)
    reading[BETA].commit(1, 2, last, rows={})
    reading.hear(BETA)
    reading.settle()
    waits_ms = reading.choose().waits_until_ms
    reading.choose(now_ms=waits_ms)
    assert [row.stability for row in reading.rows()] == [S, T]
    reading[GAMMA].commit(0, 1, ends=True)
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-1 stable beta", "1-2 stable"]
    assert digests_of(reading.rows()).keys() == {0}


def test_a_loss_that_too_few_know_to_be_empty_is_not_verified(home: HomeUnderTest) -> None:
    reading = Reading(home.catalog, verify=2)
    reading.wait_budget = WaitBudget(a.HOUR_MS)
    reading[BETA].commit(0, 1)
    reading[BETA].commit(1, 2, G)
    reading[GAMMA].commit(0, 1, ends=True)
    reading.hear()
    reading.settle()
    reading.choose(now_ms=reading.choose().waits_until_ms)
    assert reading.shown() == ["0-1 stable beta", "1-2 tentative without sums unverified"]


def test_what_one_has_lost_and_others_were_not_heard_of_is_answered_in_time_and_then_corrected(
    reading: Reading,
) -> None:
    reading.wait_budget = WaitBudget(a.HOUR_MS)
    reading[BETA].commit(0, 1, G)
    reading.hear()
    waits = reading.choose()
    assert waits.is_nothing
    assert waits.waits_until_ms is not None
    reading.choose(now_ms=waits.waits_until_ms)
    assert reading.shown() == ["0-1 tentative beta without sums lost"]
    reading[GAMMA].commit(0, 1)
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-1 stable gamma"]


def test_nothing_new_is_nothing_to_choose_and_reads_no_row(reading: Reading) -> None:
    reading[BETA].commit(0, 2)
    reading[GAMMA].commit(0, 2)
    reading.hear()
    reading.settle()
    known = reading.known()
    assert all(not line.segments for line in known.producers)
    assert choose(known, None, known.clock_ms) == ChosenRows(stream=a.SUMS)


def test_a_row_is_not_final_before_as_many_producers_have_it_as_verify_it(
    home: HomeUnderTest,
) -> None:
    reading = Reading(home.catalog, PRODUCERS, verify=2)
    reading[BETA].commit(0, 2)
    reading.hear()
    assert reading.choose().is_nothing
    reading[KAPPA].commit(0, 1)
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-1 stable beta"]
    assert home.catalog.verifies() == {a.SUMS: 2}


def test_what_is_not_verified_is_waited_for_as_long_as_the_bound_allows_and_once(
    home: HomeUnderTest,
) -> None:
    reading = Reading(home.catalog, verify=2)
    reading.wait_budget = WaitBudget(a.HOUR_MS)
    before_ms = reading.catalog.read_clock_ms()
    reading[BETA].commit(0, 1)
    reading.hear()
    after_ms = reading.catalog.read_clock_ms()
    waits = reading.choose()
    due_ms = waits.waits_until_ms
    assert waits.is_nothing
    assert due_ms is not None
    assert before_ms + a.HOUR_MS <= due_ms <= after_ms + a.HOUR_MS, "an hour after it came"
    assert reading.choose(now_ms=due_ms - 1).is_nothing
    reading.choose(now_ms=due_ms)
    assert reading.shown() == ["0-1 tentative beta without sums unverified"]

    # The same producer still has not moved: its next bucket is not waited for again.
    reading[BETA].commit(1, 2)
    reading.hear()
    reading.choose()
    assert [row.stability for row in reading.rows()] == [T, T]

    reading[GAMMA].commit(0, 2)
    reading.hear()
    reading.settle()
    assert [row.stability for row in reading.rows()] == [S, S]
    reading[BETA].commit(2, 3)
    reading.hear()
    assert reading.choose().waits_until_ms is not None, "gamma has moved: it is waited for anew"


@pytest.mark.parametrize("policy", [Policy.DELAY, Policy.SUSPEND])
def test_policies_that_block_for_each_bucket_do_so_for_what_is_not_verified(
    home: HomeUnderTest, policy: Policy
) -> None:
    reading = Reading(home.catalog, verify=2)
    reading.wait_budget = WaitBudget(a.HOUR_MS, policy)
    reading[BETA].commit(0, 1)
    reading.hear()
    due_ms = reading.choose().waits_until_ms
    assert (due_ms is None) == (policy is Policy.SUSPEND)
    reading.choose(now_ms=due_ms or 10**15)
    assert len(reading.rows()) == (0 if policy is Policy.SUSPEND else 1)
    reading[BETA].commit(1, 2)
    reading.hear()
    assert reading.choose().is_nothing


def test_producers_that_disagree_are_noted_and_nothing_becomes_final_from_there_on(
    reading: Reading,
) -> None:
    reading[BETA].commit(0, 2)
    reading.hear()
    reading.settle()
    reading[GAMMA].commit(0, 4, rows={0: 2, 1: 7, 2: 2, 3: 2})
    reading[BETA].commit(2, 4)
    reading.hear()
    reading.settle()
    (divergence,) = reading.catalog.divergences(a.SUMS)
    assert divergence.bucket_us == a.WIDTH_US
    assert divergence.producers == {BETA, GAMMA}
    assert (divergence.one.digest.rows, divergence.other.digest.rows) == (2, 7)
    assert reading.catalog.disputed() == {a.SUMS: a.WIDTH_US, a.BIG: a.WIDTH_US}
    # What was final stays; what comes is read, but not as final.
    assert reading.shown() == ["0-2 stable beta", "2-4 tentative beta without sums disputed"]
    assert reading.catalog.divergences(a.BIG) == ()


def test_what_differs_when_it_comes_is_disputed_from_its_first_bucket(reading: Reading) -> None:
    reading[BETA].commit(0, 4)
    reading[GAMMA].commit(0, 4, rows={0: 2, 1: 2, 2: 3, 3: 9})
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-2 stable beta", "2-4 tentative beta without sums disputed"]
    (divergence,) = reading.catalog.divergences()
    assert divergence.bucket_us == 2 * a.WIDTH_US


def test_rows_that_come_late_are_compared_once(reading: Reading) -> None:
    reading[BETA].commit(0, 6)
    reading.hear()
    reading.settle()
    assert reading.known().compare is None, "there is nobody to compare with"
    reading[GAMMA].commit(0, 4)
    reading.hear()
    compare = reading.known().compare
    assert compare == a.buckets(0, 4)
    reading.settle()
    assert reading.known().compare is None
    reading[GAMMA].commit(4, 5)
    reading.hear()
    assert reading.known().compare == a.buckets(4, 5)


def test_records_behind_the_end_of_another_producer_are_a_difference(reading: Reading) -> None:
    reading[BETA].commit(0, 2, ends=True)
    reading[GAMMA].commit(0, 2)
    reading[GAMMA].commit(2, 3, rows={2: 1}, ends=True)
    reading.hear()
    reading.settle()
    (divergence,) = reading.catalog.divergences()
    assert divergence.bucket_us == 2 * a.WIDTH_US


def test_the_line_ends_where_its_producers_do_however_many_empty_buckets_they_closed(
    reading: Reading,
) -> None:
    reading[BETA].commit(0, 2)
    reading[GAMMA].commit(0, 2, ends=True)
    reading.hear(BETA)
    reading.settle()
    reading.hear()
    reading.settle()
    reading[BETA].commit(2, 3, rows={}, ends=True)
    reading.hear()
    reading.settle()
    line = next(ln for ln in reading.catalog.lines(a.SUMS) if ln.producer == CHOSEN)
    assert (line.boundary_us, line.end_us) == (FOREVER_US, 2 * a.WIDTH_US)
    assert reading.catalog.divergences() == ()


def test_an_age_goes_along_with_what_is_chosen(reading: Reading) -> None:
    reading[BETA].commit(0, 1)
    reading[BETA].clock.advance(7_000)
    reading.hear()
    reading.settle()
    (row,) = reading.rows()
    assert row.age_ms >= 7_000


def test_fragments_read_what_was_chosen_and_not_a_producers_line(reading: Reading) -> None:
    reading[BETA].commit(0, 4)
    reading[GAMMA].commit(0, 2)
    reading.hear()
    fragments = a.some_fragments()
    before = reading.catalog.read_knowledge(fragments, LIMITS).fragments
    assert [f.inputs[a.SUMS].segments for f in before] == [()]
    reading.settle()
    (known,) = reading.catalog.read_knowledge(fragments, LIMITS).fragments
    assert {s.producer for s in known.inputs[a.SUMS].segments} == {CHOSEN}
    assert known.inputs[a.SUMS].boundary_us == 4 * a.WIDTH_US


def test_a_choice_under_a_lost_lease_is_refused_and_leaves_nothing(reading: Reading) -> None:
    reading[BETA].commit(0, 2)
    reading.hear()
    known = reading.known()
    chosen = choose(known, None, known.clock_ms)
    with pytest.raises(Conflict):
        reading.catalog.commit_choice(replace(reading.lease, holder="another"), chosen)
    tail = reading.catalog.acquire_lease(a.a_key(a.TAIL), a.FIRST, "me", a.HOUR_MS)
    with pytest.raises(Refused):
        reading.catalog.commit_choice(tail, chosen)
    assert reading.rows() == []
    assert reading.choose().rows == chosen.rows


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_a_choice_holds_commits_of_its_import_alone(reading: Reading) -> None:
    """As medusa.commit_choice refuses it: the program writes no other."""
    catalog, key = reading.catalog, reading.lease.key
    assert isinstance(catalog, PostgresCatalog)
    request = {
        "fragment": key.fragment, "partition": 0, "participant": a.ALPHA, "replica": -1,
        "lane": "live", "epoch": reading.lease.epoch, "holder": "me", "stream": a.SUMS,
        "commits": [{"fragment": a.TAIL, "cause": "import"}],
    }  # fmt: skip
    call = text("SELECT medusa.commit_choice(:request)")
    words = "a choice of import/sums holds a commit of example/tail"
    with catalog.engine.connect() as connection, pytest.raises(DBAPIError, match=words):
        connection.execute(call, {"request": json.dumps(request)})


def test_a_choice_that_cannot_be_made_whole_is_not_made_at_all(reading: Reading) -> None:
    reading[BETA].commit(0, 2)
    reading[GAMMA].commit(0, 2)
    reading.hear()
    known = reading.known()
    chosen = choose(known, None, known.clock_ms)
    wrong = replace(chosen, end_us=9 * a.WIDTH_US)
    with pytest.raises(Conflict):
        reading.catalog.commit_choice(reading.lease, wrong)
    assert reading.rows() == []
    assert reading.known().compare is not None


def test_replicas_have_leases_and_epochs_of_their_own(home: HomeUnderTest) -> None:
    """A line of the log for one replica locks no other out."""
    mine, other = Producer(a.ALPHA, 0), Producer(GAMMA.participant, 1)
    home.catalog.deploy(
        a.a_deployment(
            assignments=(
                a.an_assignment(a.LANDING),
                a.an_assignment(a.MAIN, Epoch(1), mine),
                a.an_assignment(a.MAIN, Epoch(2), other),
            )
        )
    )
    lease = home.catalog.acquire_lease(a.a_key(a.MAIN, producer=mine), Epoch(1), "me", a.HOUR_MS)
    assert home.catalog.commit(a.a_commit(a.a_segment(0, 1), lease=lease)).versions[a.SUMS] == 1
    newer = a.an_assignment(a.MAIN, Epoch(3), mine)
    home.catalog.deploy(a.a_deployment(assignments=(newer,)))
    with pytest.raises(Conflict):
        home.catalog.commit(a.a_commit(a.a_segment(1, 2), lease=lease))
    assert [x.epoch for x in home.catalog.assignments() if x.fragment == a.MAIN] == [3, 2]


def test_only_an_import_may_be_assigned_as_one(home: HomeUnderTest) -> None:
    wrong = a.an_assignment(a.MAIN, producer=CHOSEN)
    with pytest.raises(Refused):
        home.catalog.deploy(a.a_deployment(assignments=(wrong,)))


def test_an_import_of_one_producer_makes_no_line_when_it_becomes_one_of_several(
    home: HomeUnderTest,
) -> None:
    before = replicated([BETA])
    alone = Assignment(fragment=IMPORTING, producer=a.ME, epoch=Epoch(1), plan=a.PLAN)
    home.catalog.deploy(
        replace(
            before,
            fragments={**before.fragments, IMPORTING: ((), ())},
            assignments=(*before.assignments[:2], alone),
        )
    )
    assert home.catalog.read_imports(LIMITS) == ()
    after = replicated()
    chosen = Assignment(fragment=IMPORTING, producer=CHOSEN, epoch=Epoch(2), plan=a.PLAN)
    home.catalog.deploy(replace(after, assignments=(*after.assignments[:3], alone, chosen)))
    producers = [line.producer for line in home.catalog.lines(a.SUMS)]
    assert producers == [CHOSEN, BETA, GAMMA]
    assert {s.reader for s in home.catalog.imports()} == {CHOSEN}
    key = LeaseKey(fragment=IMPORTING, producer=CHOSEN)
    assert home.catalog.acquire_lease(key, Epoch(2), "me", a.HOUR_MS).epoch == 2


def test_a_copy_is_not_trimmed_before_it_is_settled_what_is_read_of_it(reading: Reading) -> None:
    reading[BETA].commit(0, 4)
    reading.hear()
    trim = reading.catalog.trim
    read = {a.TAIL: FOREVER_US}
    held = trim(a.SUMS, BETA, 4 * a.WIDTH_US, needed=read, segments_max=9)
    assert held.held_by is not None
    assert held.held_by.purpose == "choice"
    assert held.trimmed_us is None
    reading.settle()
    done = trim(a.SUMS, BETA, 4 * a.WIDTH_US, needed=read, segments_max=9)
    assert (done.trimmed_us, done.segments) == (4 * a.WIDTH_US, 1)
    assert done.files == (), "what was chosen names the same files"
    gone = trim(a.SUMS, CHOSEN, 4 * a.WIDTH_US, needed=read, segments_max=9)
    assert len(gone.files) == 1


def test_how_many_must_agree_is_one_or_more(home: HomeUnderTest) -> None:
    home.catalog.deploy(replicated())
    with pytest.raises(Refused):
        home.catalog.declare_verify(a.SUMS, 0)
    with pytest.raises(Refused):
        home.catalog.declare_verify(a.StreamName("nowhere"), 2)
    home.catalog.declare_verify(a.SUMS, 3)
    home.catalog.declare_verify(a.SUMS, 1)
    assert home.catalog.verifies() == {}
    assert home.catalog.bounds() == {a.SUMS: (None, 0)}
