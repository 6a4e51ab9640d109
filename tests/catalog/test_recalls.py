"""A recall takes back what is final from a bucket on, with all that it led to, and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from medusa_core.changes import bucket_changes, uncovered
from medusa_core.commits import Hold
from medusa_core.decide import decide
from medusa_core.decisions import ComputeStep
from medusa_core.errors import Conflict, MedusaError, Refused
from medusa_core.exchange import LineNews, import_fragment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, StreamName, Version
from medusa_core.recalls import LineRecall, RecallRequest, RecallResult
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import Deployment, LineStatus
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest
from tests.sweeps import long_but
from tests.waiting import until

STABLE, TENTATIVE = Stability.STABLE, Stability.TENTATIVE
WIDTH = a.WIDTH_US
BETA = Participant("beta")
THEIRS = Producer(BETA)
IMPORT = import_fragment(a.SUMS)
WHY = "the sensor was upside down"


def expected(
    at: int, stream: StreamName = a.SUMS, producer: Producer = a.ME, **said: Any
) -> RecallRequest:
    return RecallRequest(
        stream=stream,
        producer=producer,
        from_us=at * WIDTH,
        **{"because": WHY, "who": "ada", **said},
    )


def line(catalog: Catalog, stream: StreamName = a.SUMS, producer: Producer = a.ME) -> LineStatus:
    return next(s for s in catalog.lines(stream) if s.producer == producer)


def status(catalog: Catalog, stream: StreamName = a.SUMS, **at: Any) -> list[tuple[Any, ...]]:
    """Ranges in buckets, stability and version of what is live."""
    return [
        (s.range.from_us // WIDTH, s.range.to_us // WIDTH, s.stability.value, s.version)
        for s in catalog.segments(stream, **at)
    ]


def sums(from_: int, to: int, rows: int = 1, stability: Stability = STABLE) -> a.OutputSegment:
    return a.a_segment(from_, to, stability, rows=dict.fromkeys(range(from_, to), rows))


def read_of_sums(part: Range, version: int) -> a.Read:
    return a.a_read(a.BIG, a.SUMS, part, version)


def big(catalog: Catalog, from_: int, to: int, version: int) -> None:
    """A commit of `big`, computed from a version of `sums`."""
    part = a.a_segment(from_, to, stream=a.BIG, rows={from_: 1})
    catalog.commit(
        a.a_commit(
            part,
            lease=a.a_lease(a.TAIL),
            lineage=(read_of_sums(a.buckets(from_, to), version),),
        )
    )


def told(recalled: RecallResult) -> tuple[str, int, int]:
    return (recalled.stream, recalled.from_us // WIDTH, recalled.generation)


# ------------------------------------------------------------ what goes, what stays


def test_a_recall_ends_the_line_at_the_bucket_and_what_lies_before_stays(
    catalog: Catalog, owner: Catalog
) -> None:
    catalog.commit(a.a_commit(sums(0, 3)))
    catalog.commit(a.a_commit(sums(3, 5)))
    before = catalog.segments(a.SUMS, a.buckets(0, 2))
    (done,) = owner.recall(expected(2))
    assert (done.generation, done.from_us, done.version) == (2, 2 * WIDTH, 3)
    assert (done.segments, done.rows) == (2, 3)
    assert status(catalog) == [(0, 2, "stable", 1)]
    (left,) = catalog.segments(a.SUMS)
    assert (left.files, left.buckets) == (before[0].files, before[0].within(a.buckets(0, 2)))
    assert (line(catalog).boundary_us, line(catalog).generation) == (2 * WIDTH, 2)
    assert [told(r) for r in catalog.recalls()] == [(a.SUMS, 2, 2)]
    assert (catalog.recalls()[0].because, catalog.recalls()[0].who) == (WHY, "ada")


def test_time_travel_still_reads_what_was_taken_back(catalog: Catalog, owner: Catalog) -> None:
    catalog.commit(a.a_commit(sums(0, 3)))
    owner.recall(expected(1))
    catalog.commit(a.a_commit(sums(1, 3, rows=2)))
    assert status(catalog, as_of=Version(1)) == [(0, 3, "stable", 1)]
    assert status(catalog, as_of=Version(2)) == [(0, 1, "stable", 1)]
    assert status(catalog) == [(0, 1, "stable", 1), (1, 3, "stable", 3)]


def test_all_results_computed_from_it_are_removed_with_it_and_nothing_else(
    catalog: Catalog, owner: Catalog
) -> None:
    catalog.commit(a.a_commit(sums(0, 2)))
    catalog.commit(a.a_commit(sums(2, 4)))
    big(catalog, 0, 1, 1)
    big(catalog, 1, 3, 2)
    assert [told(r) for r in owner.recall(expected(2), explain=True)] == [
        (a.SUMS, 2, 2),
        (a.BIG, 2, 2),
    ]
    assert line(catalog).generation == 1, "explaining changes nothing"
    assert [told(r) for r in owner.recall(expected(3))] == [(a.SUMS, 3, 2)]
    assert [told(r) for r in owner.recall(expected(1))] == [(a.SUMS, 1, 3), (a.BIG, 1, 2)]
    assert status(catalog, a.BIG) == [(0, 1, "stable", 1)]


def test_what_is_owed_after_a_recall_is_found_like_any_frontier(
    catalog: Catalog, owner: Catalog
) -> None:
    catalog.land(a.a_lease(a.LANDING), a.a_batch(0, {0: 1, 1: 1, 2: 1}))
    catalog.promise(a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=3 * WIDTH, end_us=None)
    source = a.a_segment(0, 3, stream=a.SRC, rows={0: 1, 1: 1, 2: 1})
    catalog.commit(a.a_commit(source, lease=a.a_lease(a.LANDING)))
    catalog.commit(a.a_commit(sums(0, 3), lineage=(a.a_read(part=a.buckets(0, 3)),)))
    owner.recall(expected(1))
    knowledge = catalog.read_knowledge(a.some_fragments("10s"), Limits())
    steps = [d for d in decide(knowledge, knowledge.clock_ms) if isinstance(d, ComputeStep)]
    assert (a.MAIN, a.buckets(1, 3)) in [(s.fragment.fragment.id, s.range) for s in steps]


def test_landed_records_are_closed_again_and_the_promise_remains(
    catalog: Catalog, owner: Catalog
) -> None:
    catalog.land(a.a_lease(a.LANDING), a.a_batch(0, {0: 1, 1: 1, 2: 1}))
    end_us = 3 * WIDTH
    catalog.promise(a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=end_us, end_us=end_us)
    source = a.a_segment(0, 3, stream=a.SRC, rows={0: 1, 1: 1, 2: 1})
    catalog.commit(a.a_commit(source, lease=a.a_lease(a.LANDING), ends=True))
    assert line(catalog, a.SRC).has_ended
    owner.recall(expected(1, a.SRC))
    current = line(catalog, a.SRC)
    assert (current.boundary_us, current.promised_us, current.end_us) == (WIDTH, end_us, end_us)
    again = a.a_segment(1, 3, stream=a.SRC, rows={1: 1, 2: 1})
    catalog.commit(a.a_commit(again, lease=a.a_lease(a.LANDING), ends=True))
    assert line(catalog, a.SRC).has_ended


def test_a_derived_line_that_had_ended_ends_again(catalog: Catalog, owner: Catalog) -> None:
    catalog.commit(a.a_commit(sums(0, 4), ends=True))
    owner.recall(expected(1))
    assert (line(catalog).end_us, line(catalog).has_ended) == (None, False)
    catalog.commit(a.a_commit(sums(1, 3), ends=True))
    assert (line(catalog).end_us, line(catalog).has_ended) == (3 * WIDTH, True)


def test_tentative_rows_are_removed_too_and_a_line_is_recalled_again(
    catalog: Catalog, owner: Catalog
) -> None:
    catalog.commit(a.a_commit(sums(0, 1)))
    catalog.commit(a.a_commit(sums(1, 3, stability=TENTATIVE)))
    owner.recall(expected(2))
    assert status(catalog) == [(0, 1, "stable", 1), (1, 2, "tentative", 2)]
    owner.recall(expected(1))
    assert status(catalog) == [(0, 1, "stable", 1)]
    assert [told(r) for r in catalog.recalls(a.SUMS)] == [(a.SUMS, 2, 2), (a.SUMS, 1, 3)]


def test_what_is_computed_again_from_the_same_is_a_commit_of_its_own(
    catalog: Catalog, owner: Catalog
) -> None:
    commit = a.a_commit(sums(0, 3), lineage=(a.a_read(part=a.buckets(0, 3)),))
    catalog.commit(commit)
    owner.recall(expected(0))
    again = catalog.commit(commit)
    assert (again.again, again.versions) == (False, {a.SUMS: 3})
    assert status(catalog) == [(0, 3, "stable", 3)]
    assert catalog.commit(commit).again


# ------------------------------------------------------------ who was under way


def test_a_step_that_read_recalled_rows_is_refused_and_decided_again(
    catalog: Catalog, owner: Catalog
) -> None:
    catalog.commit(a.a_commit(sums(0, 3)))
    big(catalog, 0, 1, 1)
    owner.recall(expected(1))
    with pytest.raises(Conflict):
        big(catalog, 1, 2, 1)
    catalog.commit(a.a_commit(sums(1, 3, rows=2)))
    with pytest.raises(Conflict):
        big(catalog, 1, 2, 1)
    big(catalog, 1, 2, 3)
    assert status(catalog, a.BIG) == [(0, 1, "stable", 1), (1, 2, "stable", 2)]


def test_a_step_under_way_leaves_no_row_behind_the_frontier_of_a_recall(
    catalog: Catalog, owner: Catalog
) -> None:
    catalog.commit(a.a_commit(sums(0, 3)))
    owner.recall(expected(1))
    with pytest.raises(Conflict):
        catalog.commit(a.a_commit(sums(3, 4)))
    catalog.commit(a.a_commit(sums(1, 4)))
    assert line(catalog).boundary_us == 4 * WIDTH


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_holds_of_those_who_read_again_move_back(catalog: Catalog, owner: Catalog) -> None:
    catalog.commit(a.a_commit(sums(0, 4)))
    catalog.acknowledge(a.SUMS, BETA, 4 * WIDTH, a.HOUR_MS)
    catalog.place_cursor(a.SUMS, "mine", a.ME, from_us=0, limit_ms=a.HOUR_MS)
    catalog.move_cursor(a.SUMS, "mine", Version(1), a.HOUR_MS)
    catalog.place_hold(Hold(stream=a.SUMS, holder="x", purpose="dispute", from_us=3 * WIDTH))
    owner.recall(expected(2, needed={a.MAIN: {a.SRC: WIDTH}}))
    holds = {h.purpose: h.from_us // WIDTH for h in catalog.holds(a.SUMS)}
    assert holds == {"import": 2, "changes": 2, "dispute": 3}
    assert [(h.purpose, h.from_us // WIDTH) for h in catalog.holds(a.SRC)] == [("recall", 1)]
    catalog.move_cursor(a.SUMS, "mine", Version(1), a.HOUR_MS)
    holds = {h.purpose: h.from_us // WIDTH for h in catalog.holds(a.SUMS)}
    assert holds["changes"] == 2, "what changed behind the cursor's version is kept for it"


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_changes_go_over_a_recall_as_over_any_version(catalog: Catalog, owner: Catalog) -> None:
    catalog.commit(a.a_commit(sums(0, 3)))
    owner.recall(expected(1))
    whole = a.buckets(0, 9)
    gone = catalog.difference(a.SUMS, a.ME, Version(1), Version(2), whole)
    assert uncovered(gone, whole) == ()
    assert [(c.at_us // WIDTH, c.version, c.was, c.after) for c in bucket_changes(gone, whole)] == [
        (1, 2, STABLE, None),
        (2, 2, STABLE, None),
    ]
    catalog.commit(a.a_commit(a.a_segment(1, 3, rows={1: 1, 2: 5})))
    over = catalog.difference(a.SUMS, a.ME, Version(1), Version(3), whole)
    assert [c.at_us // WIDTH for c in bucket_changes(over, whole)] == [2]
    stood = catalog.line_version(a.SUMS, a.ME, Version(1))
    assert stood is not None
    assert stood.stable_us == WIDTH, "what was final and still is"


WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_a_recall_during_which_more_was_computed_is_made_again(
    home: HomeUnderTest, catalog: Catalog, owner: Catalog, watcher: Engine
) -> None:
    """By medusa.recall, which has waited for the commit and else would leave its rows."""
    catalog.commit(a.a_commit(sums(0, 3)))
    writer = home.session()
    writer.begin()
    big(writer.catalog, 0, 2, version=1)
    with ThreadPoolExecutor(1) as threads, watcher.connect() as connection:
        recall = threads.submit(owner.recall, expected(0))
        until(lambda: connection.exec_driver_sql(WAITING).scalar_one(), "the recall waits")
        writer.end(keep=True)
        writer.close()
        with pytest.raises(Conflict, match="more was computed of sums while it was looked at"):
            recall.result(timeout=60)
    assert catalog.recalls() == ()
    assert {told(done)[0] for done in owner.recall(expected(0))} == {a.SUMS, a.BIG}


# ------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("said", "words"),
    long_but(
        5,
        [
            (expected(1, needed={a.MAIN: {a.SRC: 0}}), "trimmed"),
            (expected(9), "reaches to"),
            (expected(4), "reaches to"),
            (expected(-1), "begins at"),
            (replace(expected(1), from_us=WIDTH + 1), "grid"),
            (expected(1, producer=Producer(a.ALPHA, 7)), "no line"),
            (expected(1, follows=2), "line of sums"),
        ],
        quick=True,
    ),
    ids=["input trimmed", "future", "boundary", "before the origin", "off grid", "no line", "own"],
)
def test_what_cannot_be_recalled_is_refused_with_a_sentence(
    catalog: Catalog, owner: Catalog, said: RecallRequest, words: str
) -> None:
    """By medusa.recall."""
    catalog.land(a.a_lease(a.LANDING), a.a_batch(0, {0: 1, 1: 1}))
    catalog.promise(a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=2 * WIDTH, end_us=None)
    source = a.a_segment(0, 2, stream=a.SRC, rows={0: 1, 1: 1})
    catalog.commit(a.a_commit(source, lease=a.a_lease(a.LANDING)))
    catalog.trim(a.SRC, a.ME, WIDTH, needed={a.MAIN: WIDTH}, segments_max=9)
    catalog.commit(a.a_commit(sums(0, 4)))
    with pytest.raises(Refused, match=words):
        owner.recall(said)
    assert line(catalog).generation == 1
    assert catalog.recalls() == ()


@pytest.mark.parametrize("text", ["", "  ", "x" * 10_000_000, "two\nlines", "\x1b[31mred", "\0"])
def test_a_reason_is_one_short_line(text: str) -> None:
    with pytest.raises(Refused):
        expected(1, because=text)
    with pytest.raises(Refused):
        expected(1, who=text)


def test_what_is_trimmed_is_not_recalled(catalog: Catalog, owner: Catalog) -> None:
    catalog.commit(a.a_commit(sums(0, 4)))
    catalog.trim(a.SUMS, a.ME, 2 * WIDTH, needed={a.TAIL: 2 * WIDTH}, segments_max=9)
    with pytest.raises(Refused, match="trimmed before"):
        owner.recall(expected(1))
    owner.recall(expected(2))
    assert status(catalog) == [(0, 2, "stable", 1)]


# ------------------------------------------------------------ partners


@pytest.fixture
def partner() -> Catalog:
    """The home of beta, who computes `sums`."""
    catalog = MemoryCatalog(BETA, ManualClock(1_000))
    mine = [a.an_assignment(name, producer=THEIRS) for name in (a.LANDING, a.MAIN)]
    catalog.deploy(a.a_deployment(assignments=tuple(mine)))
    catalog.acquire_lease(a.a_key(producer=THEIRS), a.FIRST, "them", a.HOUR_MS)
    return catalog


@pytest.fixture
def reader(home: HomeUnderTest) -> Catalog:
    """A home of alpha that reads `sums` of beta and computes `big` from it."""
    home.catalog.deploy(reader_deployment())
    for fragment in (IMPORT, a.TAIL):
        home.catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    return home.catalog


def reader_deployment() -> Deployment:
    deployment = a.a_deployment()
    return Deployment(
        network=deployment.network,
        document="{}",
        plan=a.PLAN,
        plan_document="{}",
        streams=deployment.streams,
        fragments={**deployment.fragments, IMPORT: ((), ())},
        assignments=(
            a.an_assignment(a.MAIN, producer=THEIRS),
            a.an_assignment(a.TAIL),
            a.an_assignment(IMPORT),
        ),
    )


def write(partner: Catalog, *segments: a.OutputSegment) -> None:
    lease = a.Lease(key=a.a_key(producer=THEIRS), epoch=a.FIRST, holder="them", expires_at_ms=0)
    partner.commit(a.a_commit(*segments, lease=lease))


def news(partner: Catalog, after: int, segments_max: int = 1_000) -> LineNews:
    return partner.line_news(a.SUMS, THEIRS, Version(after), segments_max=segments_max)


def bring(reader: Catalog, told: LineNews) -> bool:
    return reader.import_line(a.a_lease(IMPORT), told, a.PLAN)


def theirs_computed(reader: Catalog) -> None:
    """`big`, computed from the copy of the partner's first three buckets."""
    lineage = tuple(replace(read_of_sums(a.buckets(0, 3), 1), producer=THEIRS) for _ in range(1))
    part = a.a_segment(0, 3, stream=a.BIG, rows={0: 1, 2: 1})
    reader.commit(a.a_commit(part, lease=a.a_lease(a.TAIL), lineage=lineage))


def test_a_reader_stops_before_what_a_partner_recalled_until_its_operator_moves(
    partner: Catalog, reader: Catalog, owner: Catalog
) -> None:
    write(partner, sums(0, 3))
    bring(reader, news(partner, 0))
    theirs_computed(reader)
    partner.recall(expected(1, producer=THEIRS))
    write(partner, sums(1, 4, rows=2))

    with pytest.raises(Refused, match="--follow beta") as refused:
        bring(reader, news(partner, 1))
    assert WHY in str(refused.value)
    assert status(reader) == [(0, 3, "stable", 1)]

    with pytest.raises(Refused, match="partner"):
        owner.recall(expected(1, producer=THEIRS))
    agreed = expected(1, producer=THEIRS, follows=2, because="beta said so")
    assert [told(r) for r in owner.recall(agreed)] == [(a.SUMS, 1, 2), (a.BIG, 1, 2)]
    assert status(reader) == [(0, 3, "stable", 1)], "it is made when the news comes"

    assert bring(reader, news(partner, 1))
    assert status(reader) == status(partner) == [(0, 1, "stable", 1), (1, 4, "stable", 3)]
    assert status(reader, a.BIG) == [(0, 1, "stable", 1)]
    copied = line(reader, a.SUMS, THEIRS)
    assert (copied.version, copied.boundary_us, copied.generation) == (3, 4 * WIDTH, 2)
    assert status(reader, as_of=Version(1), producer=THEIRS) == [(0, 3, "stable", 1)]
    assert [(r.stream, r.generation, r.because, r.who) for r in reader.recalls()] == [
        (a.BIG, 2, "beta said so", "ada"),
        (a.SUMS, 2, WHY, "beta"),
    ]
    assert not bring(reader, news(partner, 1)), "the same news again is nothing"
    with pytest.raises(Refused, match="already"):
        owner.recall(agreed)


def test_who_has_read_nothing_of_it_goes_on_without_a_word(
    partner: Catalog, reader: Catalog
) -> None:
    write(partner, sums(0, 1))
    bring(reader, news(partner, 0))
    write(partner, sums(1, 3))
    partner.recall(expected(1, producer=THEIRS))
    write(partner, sums(1, 2, rows=2))
    bring(reader, news(partner, 1))
    assert status(reader) == status(partner)
    assert line(reader, a.SUMS, THEIRS).generation == 2
    write(partner, sums(2, 3))
    bring(reader, news(partner, 4))
    assert status(reader) == status(partner)


@pytest.mark.parametrize("segments_max", [1, 2, 1_000])
def test_a_new_reader_never_receives_recalled_rows(
    partner: Catalog, reader: Catalog, segments_max: int
) -> None:
    for at in range(3):
        write(partner, sums(at, at + 1))
    write(partner, sums(3, 6))
    partner.recall(expected(4, producer=THEIRS))
    partner.recall(expected(2, producer=THEIRS))
    write(partner, sums(2, 3, rows=7))
    at = 0
    while at < line(partner, a.SUMS, THEIRS).version:
        page = news(partner, at, segments_max)
        bring(reader, page)
        at = page.version
        assert all(to <= 2 or version > 6 for _, to, _, version in status(reader))
    assert status(reader) == status(partner)
    assert line(reader, a.SUMS, THEIRS).generation == 3


def test_an_agreement_reaches_no_further_than_it_says(
    partner: Catalog, reader: Catalog, owner: Catalog
) -> None:
    write(partner, sums(0, 4))
    bring(reader, news(partner, 0))
    partner.recall(expected(2, producer=THEIRS))
    owner.recall(expected(3, producer=THEIRS, follows=2))
    with pytest.raises(Refused, match="recalled"):
        bring(reader, news(partner, 1))
    owner.recall(expected(2, producer=THEIRS, follows=2))
    partner.recall(expected(1, producer=THEIRS))
    with pytest.raises(Refused, match="generation 3"):
        bring(reader, news(partner, 1))
    owner.recall(expected(1, producer=THEIRS, follows=3))
    bring(reader, news(partner, 1))
    assert status(reader) == status(partner) == [(0, 1, "stable", 1)]


def test_what_is_final_changes_for_no_news_that_tells_of_no_recall(
    partner: Catalog, reader: Catalog
) -> None:
    write(partner, sums(0, 3))
    bring(reader, news(partner, 0))
    partner.recall(expected(1, producer=THEIRS))
    with pytest.raises(MedusaError):
        bring(reader, replace(news(partner, 1), recalls=()))
    assert status(reader) == [(0, 3, "stable", 1)]


@pytest.mark.parametrize(
    "said",
    [
        {"generation": 1},
        {"generation": 2**31},
        {"version": Version(0)},
        {"from_us": FOREVER_US},
        {"from_us": -(2**63)},
        {"because": "x" * 1_001},
        {"because": "a\x1b[2Jb"},
        {"because": ""},
    ],
    ids=str,
)
def test_invalid_news_of_a_recall_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        LineRecall(**{"generation": 2, "from_us": 0, "version": Version(3), "because": "x", **said})
