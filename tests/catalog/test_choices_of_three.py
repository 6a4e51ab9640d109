"""Three producers of a stream, some of which fail, lag, trim, or come late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.choosing import choose
from medusa_core.commits import LeaseKey
from medusa_core.comparing import to_compare
from medusa_core.decide import decide
from medusa_core.decisions import ComputeStep
from medusa_core.errors import Conflict
from medusa_core.grid import FOREVER_US
from medusa_core.imports import ProducedLine
from medusa_core.names import Epoch
from medusa_core.recalls import RecallRequest
from medusa_core.segments import Producer
from medusa_core.wait_budget import WaitBudget
from pipelines.catalog.interface import Catalog
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
    Partner,
    Reading,
    S,
    T,
    replicated,
)


def reading_of_three(home: HomeUnderTest, verify: int = 2) -> Reading:
    return Reading(home.catalog, PRODUCERS, verify)


def expected(producer: Producer, bucket: int, follows: int | None = None) -> RecallRequest:
    return RecallRequest(
        stream=a.SUMS,
        producer=producer,
        from_us=bucket * a.WIDTH_US,
        because="it had read half a file",
        who="ada",
        follows=follows,
    )


def a_line(producer: Producer, through: int, compared: int) -> ProducedLine:
    return ProducedLine(
        producer=producer,
        origin_us=0,
        boundary_us=through * a.WIDTH_US,
        compared_us=compared * a.WIDTH_US,
    )


def compute_big(reading: Reading, from_: int, to: int) -> None:
    """The reading home's next buckets of `big`, from what it has chosen."""
    lease = reading.catalog.acquire_lease(a.a_key(a.TAIL), a.FIRST, "me", a.HOUR_MS)
    part = a.buckets(from_, to)
    found = reading.catalog.segments(a.SUMS, part, producer=CHOSEN)
    lineage = tuple(
        a.Read(output=a.BIG, input=a.SUMS, producer=CHOSEN, range=s.range.intersection(part),
               version=s.version)
        for s in found
    )  # fmt: skip
    final = all(s.stability.is_final for s in found)
    segment = a.a_segment(from_, to, S if final else T, stream=a.BIG, rows={from_: 1})
    reading.catalog.commit(a.a_commit(segment, lease=lease, lineage=lineage))


def test_two_that_agree_do_not_outvote_a_third(home: HomeUnderTest, owner: Catalog) -> None:
    reading = reading_of_three(home)
    reading[BETA].commit(0, 3)
    reading[GAMMA].commit(0, 3, rows={0: 2, 1: 9, 2: 2})
    reading[KAPPA].commit(0, 3)
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-1 stable beta", "1-3 tentative beta without sums disputed"]
    pairs = {d.producers for d in reading.catalog.divergences()}
    assert pairs == {frozenset({BETA, GAMMA}), frozenset({GAMMA, KAPPA})}
    compute_big(reading, 0, 1)
    compute_big(reading, 1, 3)
    assert [s.stability for s in reading.catalog.segments(a.BIG)] == [S, T]

    # The wrong one takes it back and has the same as the others: all is final again by itself.
    reading[GAMMA].catalog.recall(expected(GAMMA, 1))
    reading[GAMMA].commit(1, 3)
    owner.recall(expected(GAMMA, 1, follows=2))
    reading.hear()
    reading.settle()
    assert reading.catalog.divergences() == ()
    assert [row.stability for row in reading.rows()] == [S] * len(reading.rows())
    assert reading.catalog.lines(a.SUMS)[0].boundary_us == 3 * a.WIDTH_US
    knowledge = reading.catalog.read_knowledge(a.some_fragments("10s"), LIMITS)
    steps = [d for d in decide(knowledge, knowledge.clock_ms) if isinstance(d, ComputeStep)]
    assert [(s.fragment.fragment.id, s.range, s.stability) for s in steps] == [
        (a.TAIL, a.buckets(1, 3), S)
    ], "what was computed of it is corrected by itself, too"


def test_a_recall_by_the_one_that_was_right_settles_it_as_well(
    home: HomeUnderTest, owner: Catalog
) -> None:
    reading = Reading(home.catalog)
    reading[BETA].commit(0, 3)
    reading.hear()
    reading.settle()
    compute_big(reading, 0, 3)
    reading[GAMMA].commit(0, 3, rows={0: 2, 1: 9, 2: 2})
    reading.hear()
    reading.settle()
    assert [d.bucket_us for d in reading.catalog.divergences()] == [a.WIDTH_US]
    # The operator errs: beta was right. It computes the same again, and they differ again.
    reading[BETA].catalog.recall(expected(BETA, 1))
    owner.recall(expected(BETA, 1, follows=2))
    reading.hear()
    reading.settle()
    assert reading.shown() == ["0-1 stable beta", "1-3 stable gamma"]
    reading[BETA].commit(1, 3)
    reading.hear()
    reading.settle()
    (again,) = reading.catalog.divergences()
    assert again.bucket_us == a.WIDTH_US
    compute_big(reading, 1, 3)
    # Now the other one: what was read of it goes, and everybody has the same.
    reading[GAMMA].catalog.recall(expected(GAMMA, 1))
    owner.recall(expected(GAMMA, 1, follows=2))
    reading[GAMMA].commit(1, 4)
    reading[BETA].commit(3, 4)
    reading.hear()
    reading.settle()
    assert reading.catalog.divergences() == ()
    assert reading.catalog.disputed() == {}
    assert {row.stability for row in reading.rows()} == {S}
    rows = {b // a.WIDTH_US: d.rows for r in reading.rows() for b, d in r.buckets.items()}
    assert rows == dict.fromkeys(range(4), 2)
    assert reading.catalog.lines(a.BIG)[0].boundary_us == a.WIDTH_US
    compute_big(reading, 1, 4)


def test_one_that_is_dead_is_not_needed_and_one_that_comes_back_counts_again(
    home: HomeUnderTest,
) -> None:
    reading = reading_of_three(home)
    reading.wait_budget = WaitBudget(a.HOUR_MS)
    for bucket in range(3):
        reading[BETA].commit(bucket, bucket + 1)
        reading[GAMMA].commit(bucket, bucket + 1)
        reading.hear(BETA, GAMMA)
        reading.settle()
    assert reading.shown() == ["0-1 stable beta", "1-2 stable beta", "2-3 stable beta"]
    # Gamma dies, too: answers in time, without what would verify them.
    reading[BETA].commit(3, 5)
    reading.hear(BETA)
    due_ms = reading.choose().waits_until_ms
    assert due_ms is not None
    reading.choose(now_ms=due_ms)
    assert reading.shown()[-1] == "3-5 tentative beta without sums unverified"
    # Kappa, which was never heard, comes back and makes up for it, bucket by bucket.
    for bucket in range(5):
        reading[KAPPA].commit(bucket, bucket + 1)
        reading.hear(KAPPA)
        reading.settle()
        verified = reading.known().compare
        assert verified is None
    assert {row.stability for row in reading.rows()} == {S}


def test_one_that_ended_goes_on_counting_behind_its_end(home: HomeUnderTest) -> None:
    reading = reading_of_three(home)
    reading[BETA].commit(0, 2, ends=True)
    reading[GAMMA].commit(0, 2)
    reading[GAMMA].commit(2, 4, rows={}, ends=True)
    reading.hear()
    reading.settle()
    assert {row.stability for row in reading.rows()} == {S}
    line = next(ln for ln in reading.catalog.lines(a.SUMS) if ln.producer == CHOSEN)
    assert line.boundary_us == FOREVER_US
    reading[KAPPA].commit(0, 3, rows={0: 2, 1: 2}, ends=True)
    reading.hear()
    reading.settle()
    assert reading.catalog.divergences() == ()


def test_what_one_producer_trimmed_is_read_of_another(home: HomeUnderTest) -> None:
    reading = Reading(home.catalog)
    theirs = replicated()
    no_import = tuple(x for x in theirs.assignments if x.fragment != IMPORTING)
    reading.partners[BETA] = Partner(BETA, replace(theirs, assignments=no_import))
    reading[BETA].commit(0, 2)
    reading[BETA].commit(2, 4)
    beta = reading[BETA].catalog
    beta.trim(a.SUMS, BETA, 2 * a.WIDTH_US, needed={}, segments_max=9)
    reading.hear(BETA)
    reading.settle()
    assert reading.shown() == [], "gamma may have what beta has trimmed"
    reading[GAMMA].commit(0, 2)
    reading.hear()
    reading.settle()
    assert {row.stability for row in reading.rows()} == {S}
    assert reading.catalog.lines(a.SUMS)[0].boundary_us == 4 * a.WIDTH_US


def test_what_is_in_dispute_is_kept_by_those_who_must_take_it_back(home: HomeUnderTest) -> None:
    reading = Reading(home.catalog)
    reading[BETA].commit(0, 4)
    reading.hear()
    reading.settle()
    safe = {s.producer: s.safe_through_us for s in reading.catalog.imports()}
    assert safe == {BETA: 4 * a.WIDTH_US, GAMMA: None}
    reading[GAMMA].commit(0, 4, rows={0: 2, 1: 2, 2: 5, 3: 2})
    reading.hear()
    reading.settle()
    safe = {s.producer: s.safe_through_us for s in reading.catalog.imports()}
    assert safe == {BETA: 2 * a.WIDTH_US, GAMMA: 2 * a.WIDTH_US}
    trimmed = reading.catalog.trim(a.SUMS, BETA, 4 * a.WIDTH_US, needed={a.TAIL: 4 * a.WIDTH_US},
                                   segments_max=9)  # fmt: skip
    assert trimmed.trimmed_us == 2 * a.WIDTH_US
    assert trimmed.held_by is not None
    assert trimmed.held_by.purpose == "choice"


def test_a_producer_need_not_keep_what_others_disagree_about(home: HomeUnderTest) -> None:
    reading = reading_of_three(home, verify=1)
    reading[BETA].commit(0, 3)
    reading[GAMMA].commit(0, 3, rows={0: 2, 1: 9, 2: 2})
    reading[KAPPA].commit(0, 1)
    reading[KAPPA].commit(1, 2, G)
    reading[KAPPA].commit(2, 3)
    reading.hear()
    reading.settle()
    assert {d.producers for d in reading.catalog.divergences()} == {frozenset({BETA, GAMMA})}
    safe = {s.producer: s.safe_through_us for s in reading.catalog.imports()}
    assert safe == {BETA: a.WIDTH_US, GAMMA: a.WIDTH_US, KAPPA: 3 * a.WIDTH_US}


def test_what_one_producer_lost_is_a_gap_in_its_line_whatever_is_tentative_of_another(
    home: HomeUnderTest,
) -> None:
    reading = Reading(home.catalog)
    theirs = replicated()
    no_import = tuple(x for x in theirs.assignments if x.fragment != IMPORTING)
    reading.partners[GAMMA] = Partner(GAMMA, replace(theirs, assignments=no_import))
    reading[BETA].commit(0, 1)
    reading[BETA].commit(1, 2, T, missing=["src"])
    reading[GAMMA].commit(0, 3, T, missing=["src"])
    reading.hear()
    reading[GAMMA].commit(0, 3)
    reading[GAMMA].commit(3, 4)
    reading[GAMMA].catalog.trim(a.SUMS, GAMMA, 3 * a.WIDTH_US, needed={}, segments_max=9)
    reading.hear(GAMMA)
    found = reading.catalog.segments(a.SUMS, producer=GAMMA)
    assert [(s.range, s.stability) for s in found] == [
        (a.buckets(0, 3), G), (a.buckets(3, 4), S)
    ]  # fmt: skip


def test_what_comes_of_one_far_behind_is_compared_over_what_it_has() -> None:
    lines = [
        a_line(BETA, 1_000, compared=1_000),
        a_line(GAMMA, 1_000, compared=1_000),
        a_line(KAPPA, 10, compared=9),
    ]
    assert to_compare(lines) == a.buckets(9, 10)
    lines[2] = a_line(KAPPA, 1_005, compared=1_000)
    lines[0] = a_line(BETA, 1_002, compared=1_000)
    assert to_compare(lines) == a.buckets(1_000, 1_002)


def test_a_replica_that_comes_later_takes_nothing_from_what_reads_the_stream(
    home: HomeUnderTest, owner: Catalog
) -> None:
    """A home that read one producer's line goes on behind what it has computed of it."""
    catalog = home.catalog
    alone = replicated(PRODUCERS[:1])
    plain = Assignment(fragment=IMPORTING, producer=a.ME, epoch=Epoch(1), plan=a.PLAN)
    others = tuple(x for x in alone.assignments if x.fragment != IMPORTING)
    one = replace(
        alone,
        fragments={**alone.fragments, IMPORTING: ((), ())},
        assignments=(*others, plain),
    )
    catalog.deploy(one)
    beta = Partner(BETA, alone)
    lease = catalog.acquire_lease(
        LeaseKey(fragment=IMPORTING, producer=a.ME), a.FIRST, "me", a.HOUR_MS
    )
    beta.commit(0, 2)
    beta.commit(2, 3, T, missing=["src"])
    (status,) = catalog.imports()
    news = beta.catalog.line_news(a.SUMS, BETA, status.version, segments_max=99)
    catalog.import_line(lease, replace(news, requested_at_ms=status.read_at_ms), a.PLAN)
    tail = catalog.acquire_lease(a.a_key(a.TAIL), a.FIRST, "me", a.HOUR_MS)
    for from_, to, stability, version in ((0, 2, S, 1), (2, 3, T, 2)):
        read = a.Read(output=a.BIG, input=a.SUMS, producer=BETA, range=a.buckets(from_, to),
                      version=version)  # fmt: skip
        row = a.a_segment(from_, to, stability, stream=a.BIG, rows={from_: 1},
                          missing=("src",) if stability is T else ())  # fmt: skip
        catalog.commit(a.a_commit(row, lease=tail, lineage=(read,)))

    # Gamma comes: the log has one more line of the fragment, and one of the import.
    replicas = replicated(PRODUCERS[:2])
    chosen = Assignment(fragment=IMPORTING, producer=CHOSEN, epoch=Epoch(2), plan=a.PLAN)
    kept = tuple(x for x in replicas.assignments if x.fragment != IMPORTING)
    catalog.deploy(replace(replicas, assignments=(*kept, chosen)))
    reading = Reading.__new__(Reading)
    reading.catalog, reading.wait_budget = catalog, None
    gamma = Partner(GAMMA, replicas)
    reading.partners = {BETA: beta, GAMMA: gamma}
    key = LeaseKey(fragment=IMPORTING, producer=CHOSEN)
    reading.lease = catalog.acquire_lease(key, Epoch(2), "me", a.HOUR_MS)
    reading.settle()
    assert reading.shown() == ["0-2 stable beta", "2-3 tentative beta without src"]
    gamma.commit(0, 4)
    reading.hear()
    reading.settle()
    assert {row.stability for row in reading.rows()} == {S}
    assert catalog.divergences() == ()

    # What is owed and what comes next of big are found over the line that is chosen now.
    knowledge = catalog.read_knowledge(a.some_fragments("10s"), LIMITS)
    steps = [d for d in decide(knowledge, knowledge.clock_ms) if isinstance(d, ComputeStep)]
    assert {(s.fragment.fragment.id, s.range) for s in steps} == {
        (a.TAIL, a.buckets(2, 3)), (a.TAIL, a.buckets(3, 4))
    }  # fmt: skip
    # And a recall of beta takes what was computed of its line before there was a choice.
    beta.catalog.recall(expected(BETA, 1))
    told = owner.recall(expected(BETA, 1, follows=2))
    assert (a.BIG, a.ME) in {(r.stream, r.producer) for r in told}


def test_what_was_chosen_may_be_taken_back_and_is_chosen_anew(
    home: HomeUnderTest, owner: Catalog
) -> None:
    reading = Reading(home.catalog)
    reading[BETA].commit(0, 3, ends=True)
    reading[GAMMA].commit(0, 3, ends=True)
    reading.hear()
    reading.settle()
    compute_big(reading, 0, 3)
    version = next(ln.version for ln in reading.catalog.lines(a.SUMS) if ln.producer == CHOSEN)
    for _ in range(2):
        told = owner.recall(expected(CHOSEN, 1))
        assert (a.SUMS, CHOSEN) in {(r.stream, r.producer) for r in told}
        reading.settle()
        assert reading.shown() == ["0-1 stable beta", "1-3 stable beta"]
    assert reading.catalog.lines(a.BIG)[0].boundary_us == a.WIDTH_US
    line = next(ln for ln in reading.catalog.lines(a.SUMS) if ln.producer == CHOSEN)
    assert line.boundary_us == FOREVER_US
    was = reading.catalog.segments(a.SUMS, producer=CHOSEN, as_of=version)
    assert [s.range for s in was] == [a.buckets(0, 3)]


def test_a_choice_decided_before_a_recall_is_refused_and_decided_again(
    home: HomeUnderTest, owner: Catalog
) -> None:
    reading = Reading(home.catalog)
    reading[BETA].commit(0, 1)
    reading.hear()
    reading.settle()
    reading[BETA].commit(1, 3)
    reading.hear()
    known = reading.known()
    decided = choose(known, None, known.clock_ms)
    reading[BETA].catalog.recall(expected(BETA, 1))
    reading[BETA].commit(1, 3, rows={1: 9, 2: 9})
    owner.recall(expected(BETA, 1, follows=2))
    reading.hear()
    with pytest.raises(Conflict, match="recalled"):
        reading.catalog.commit_choice(reading.lease, decided)
    reading.settle()
    rows = {b // a.WIDTH_US: d.rows for r in reading.rows() for b, d in r.buckets.items()}
    assert rows == {0: 2, 1: 9, 2: 9}


def test_a_home_that_computes_a_stream_itself_reads_its_own_line_like_any_other(
    home: HomeUnderTest, owner: Catalog
) -> None:
    reading = Reading(home.catalog, (a.ME, GAMMA))
    own = reading.catalog.acquire_lease(a.a_key(a.MAIN, producer=a.ME), Epoch(1), "me", a.HOUR_MS)
    reading.catalog.commit(
        a.a_commit(a.a_segment(0, 3, rows=dict.fromkeys(range(3), 2)), lease=own)
    )
    reading.settle()
    compute_big(reading, 0, 3)
    reading[GAMMA].commit(0, 3, rows={0: 2, 1: 9, 2: 2})
    reading.hear()
    reading.settle()
    assert [d.producers for d in reading.catalog.divergences()] == [{a.ME, GAMMA}]
    # What has been computed of it and is trimmed does not keep it from being taken back.
    reading.catalog.trim(a.BIG, a.ME, 2 * a.WIDTH_US, needed={}, segments_max=9)
    told = owner.recall(expected(a.ME, 1))
    assert {(r.stream, r.producer, r.from_us // a.WIDTH_US) for r in told} == {
        (a.SUMS, a.ME, 1),
        (a.SUMS, CHOSEN, 1),
        (a.BIG, a.ME, 2),
    }
    assert reading.catalog.divergences() == ()
    reading.settle()
    assert reading.shown() == ["0-1 stable alpha", "1-3 stable gamma"]
