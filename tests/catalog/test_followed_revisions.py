"""A home follows the revisions of a partner's line, in its ranges and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from medusa_core.commits import Cause, Hold
from medusa_core.decide import decide
from medusa_core.decisions import ComputeStep
from medusa_core.errors import Refused
from medusa_core.exchange import LineNews, import_fragment
from medusa_core.knowledge import Limits
from medusa_core.line_revisions import (
    NO_REACH,
    RevisedStream,
    RevisionAgreement,
    RevisionReach,
)
from medusa_core.names import Participant, Version
from medusa_core.plans import fingerprint_of, network_document
from medusa_core.protocol.news_documents import check_news
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import Deployment
from pipelines.participant.revising import reach_of_import
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

BETA = Participant("beta")
THEIRS = Producer(BETA)
IMPORT, LANDED = import_fragment(a.SUMS), f"landing/{a.SUMS}"
WHY = "a feed was read twice"
WIDTH, BUCKETS = a.WIDTH_US, 8


@pytest.fixture
def partner() -> Catalog:
    """The home of beta, where `sums` is a source of eight final buckets of one row each."""
    catalog = MemoryCatalog(BETA, ManualClock(1_000))
    catalog.deploy(
        Deployment(
            network=a.a_deployment().network,
            document="{}",
            plan=a.PLAN,
            plan_document="{}",
            streams=(a.a_stream(a.SUMS, "source"),),
            fragments={LANDED: ((), (a.SUMS,))},
            assignments=(a.an_assignment(LANDED, producer=THEIRS),),
        )
    )
    catalog.acquire_lease(a.a_key(LANDED, producer=THEIRS), a.FIRST, "them", a.HOUR_MS)
    write(catalog, 0, BUCKETS, dict.fromkeys(range(BUCKETS), 1))
    return catalog


@pytest.fixture
def reader(home: HomeUnderTest, partner: Catalog) -> Catalog:
    """A home of alpha that has read `sums` of beta and computed `big` from it, in memory and in
    Postgres."""
    deployment = a.a_deployment()
    home.catalog.deploy(
        Deployment(
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
    )
    for fragment in (IMPORT, a.TAIL):
        home.catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    bring(home.catalog, partner)
    assert compute(home.catalog) == [(0, BUCKETS)]
    return home.catalog


def write(
    partner: Catalog, from_: int, to: int, rows: Mapping[int, int],
    stability: Stability = Stability.STABLE,
) -> None:  # fmt: skip
    missing = () if stability.is_final else (a.SRC,)
    segment = a.a_segment(from_, to, stability, stream=a.SUMS, rows=rows, missing=missing)
    lease = a.Lease(
        key=a.a_key(LANDED, producer=THEIRS), epoch=a.FIRST, holder="them", expires_at_ms=0
    )
    partner.commit(a.a_commit(segment, lease=lease))


def revise(partner: Catalog, *parts: tuple[int, Mapping[int, int]]) -> None:
    """Per part its first bucket, and the rows of each of its buckets."""
    (line,) = partner.lines(a.SUMS)
    segments = tuple(
        RevisedSegment(
            segment=a.a_segment(at, at + len(rows), rows={b: n for b, n in rows.items() if n}),
            plan=a.PLAN,
        )
        for at, rows in parts
    )
    partner.revise(
        RevisionRequest(
            stream=a.SUMS,
            producer=THEIRS,
            generation=line.generation,
            segments=segments,
            because=WHY,
            who="grace",
        )
    )


def news(partner: Catalog, after: int, segments_max: int = 1_000) -> LineNews:
    told = partner.line_news(a.SUMS, THEIRS, Version(after), segments_max=segments_max)
    check_news(told)
    return told


def version_of(reader: Catalog) -> Version:
    (line,) = (line for line in reader.lines(a.SUMS) if line.producer == THEIRS)
    return line.version


def take(reader: Catalog, told: LineNews, reach: RevisionReach = NO_REACH) -> bool:
    return reader.import_line(a.a_lease(IMPORT), told, a.PLAN, reach)


def bring(reader: Catalog, partner: Catalog, segments_max: int = 1_000) -> list[int]:
    """Take over all that there is; the versions to which the news led."""
    versions: list[int] = []
    while (told := news(partner, version_of(reader), segments_max)).version > told.after:
        assert take(reader, told)
        versions.append(told.version)
    return versions


def counts(catalog: Catalog, **at: Version) -> dict[int, int]:
    return {
        at_us // WIDTH: digest.rows
        for segment in catalog.segments(a.SUMS, producer=THEIRS, **at)
        for at_us, digest in segment.buckets.items()
    }


def shapes(catalog: Catalog, as_of: int | None = None) -> list[tuple[object, ...]]:
    version = None if as_of is None else Version(as_of)
    found = catalog.segments(a.SUMS, producer=THEIRS, as_of=version)
    return [(s.range, s.version, s.stability, dict(s.buckets), s.files) for s in found]


def compute(reader: Catalog) -> list[tuple[int, int]]:
    """Compute `big` until nothing is owed; which buckets were computed."""
    done: list[tuple[int, int]] = []
    while True:
        known = reader.read_knowledge(a.some_fragments(), Limits())
        found = [d for d in decide(known, known.clock_ms) if isinstance(d, ComputeStep)]
        for step in found:
            part = step.range
            from_, to = part.from_us // WIDTH, part.to_us // WIDTH
            rows = {b: n for b, n in counts(reader).items() if from_ <= b < to and n > 1}
            segment = a.a_segment(from_, to, stream=a.BIG, rows=rows)
            commit = a.a_commit(segment, lease=a.a_lease(a.TAIL), lineage=step.reads)
            reader.commit(replace(commit, cause=step.cause))
            done.append((from_, to))
            assert (step.cause is Cause.CORRECTION) == (to <= BUCKETS and to - from_ < BUCKETS)
        if not found:
            return done


# ------------------------------------------------------------ followed by the contract


def test_a_copy_follows_a_revision_in_its_ranges_and_nowhere_else(
    partner: Catalog, reader: Catalog
) -> None:
    reader.declare_following(a.SUMS, True)
    revise(partner, (2, {2: 5}), (5, {5: 0}))
    assert bring(reader, partner) == [2]
    assert shapes(reader) == shapes(partner)
    assert counts(reader, as_of=Version(1)) == dict.fromkeys(range(BUCKETS), 1)
    (done,) = reader.recalls(a.SUMS)
    assert (done.generation, done.version, done.because, done.who) == (2, 2, WHY, "beta")
    assert done.ranges == done.changed == (a.buckets(2, 3), a.buckets(5, 6))
    (line,) = (line for line in reader.lines(a.SUMS) if line.producer == THEIRS)
    assert (line.generation, line.boundary_us) == (2, BUCKETS * WIDTH)


def test_exactly_the_buckets_behind_the_named_ranges_are_owed(
    partner: Catalog, reader: Catalog
) -> None:
    reader.declare_following(a.SUMS, True)
    revise(partner, (2, {2: 5}), (5, {5: 0}))
    bring(reader, partner)
    assert compute(reader) == [(2, 3), (5, 6)]
    assert [r.ranges for r in reader.recalls(a.BIG)] == [(a.buckets(2, 3),), (a.buckets(5, 6),)]


def test_a_bucket_that_a_partner_names_and_that_is_equal_is_not_owed(
    partner: Catalog, reader: Catalog
) -> None:
    reader.declare_following(a.SUMS, True)
    revise(partner, (2, {2: 1, 3: 7, 4: 1}))
    bring(reader, partner)
    assert reader.recalls(a.SUMS)[0].changed == (a.buckets(3, 4),)
    assert compute(reader) == [(3, 4)]


@pytest.mark.parametrize("segments_max", [1, 2, 1_000])
def test_each_revision_is_news_of_its_own_and_the_copy_is_the_line_at_every_version(
    partner: Catalog, reader: Catalog, segments_max: int
) -> None:
    reader.declare_following(a.SUMS, True)
    write(partner, 8, 10, {8: 2, 9: 1}, Stability.TENTATIVE)
    revise(partner, (2, {2: 5}))
    revise(partner, (2, {2: 3, 3: 0}))
    write(partner, 8, 10, {8: 4})
    revise(partner, (1, {1: 9}), (8, {8: 1, 9: 1}))
    versions = bring(reader, partner, segments_max)
    assert versions == [2, 3, 4, 5, 6]
    for version in range(1, 7):
        assert shapes(reader, version) == shapes(partner, version)
    compute(reader)
    assert bring(reader, partner) == []


def test_a_copy_that_is_begun_has_what_is_live_in_its_first_news(
    home: HomeUnderTest, partner: Catalog, reader: Catalog
) -> None:
    revise(partner, (2, {2: 5}))
    revise(partner, (2, {2: 6}), (7, {7: 2}))
    write(partner, 8, 9, {8: 1})
    whole = news(partner, 0, segments_max=1)
    assert (whole.version, whole.revision) == (3, None)
    live = [p.segment for p in whole.segments if p.end_version is None]
    rows = {at // WIDTH: d.rows for s in live for at, d in s.buckets.items()}
    assert rows == {**dict.fromkeys(range(BUCKETS), 1), 2: 6, 7: 2}


# ------------------------------------------------------------ agreed to, or not


def test_without_an_agreement_the_copy_stops_before_the_revision(
    partner: Catalog, reader: Catalog
) -> None:
    revise(partner, (2, {2: 5}))
    before = shapes(reader)
    words = r"beta revised sums in 1 range from .* \(generation 2: a feed.*medusa revise sums --fol"
    for _ in range(2):
        with pytest.raises(Refused, match=words):
            bring(reader, partner)
    assert shapes(reader) == before
    assert (reader.recalls(), compute(reader)) == ((), [])


def test_an_operator_agrees_to_revisions_up_to_a_generation(
    partner: Catalog, reader: Catalog, owner: Catalog
) -> None:
    revise(partner, (2, {2: 5}))
    revise(partner, (1, {1: 9}))
    told = news(partner, 1)
    assert told.revision is not None
    assert (told.revision.generation, told.revision.last_generation) == (2, 3)
    assert told.revision.from_us == WIDTH
    agreement = RevisionAgreement(
        stream=a.SUMS, producer=THEIRS, generation=3, from_us=WIDTH, because=WHY, who="ada"
    )
    owner.agree_to_revisions(agreement)
    assert bring(reader, partner) == [2, 3]
    assert counts(reader) == counts(partner)
    revise(partner, (4, {4: 9}))
    with pytest.raises(Refused, match="generation 4"):
        bring(reader, partner)
    with pytest.raises(Refused, match="already"):
        owner.agree_to_revisions(agreement)


def test_a_line_is_revised_in_the_home_that_writes_it_and_followed_in_others(
    reader: Catalog, owner: Catalog
) -> None:
    """By medusa.revise and medusa.agree_to_revisions."""
    part = RevisedSegment(segment=a.a_segment(2, 3, rows={2: 5}), plan=a.PLAN)
    request = RevisionRequest(
        stream=a.SUMS, producer=THEIRS, generation=1, segments=(part,), because=WHY, who="ada"
    )
    with pytest.raises(Refused, match=r"the line of sums by .* is not written here"):
        owner.revise(request)
    agreement = RevisionAgreement(
        stream=a.BIG, producer=a.ME, generation=2, from_us=0, because=WHY, who="ada"
    )
    with pytest.raises(Refused, match="the line of big is written here"):
        owner.agree_to_revisions(agreement)


def test_an_agreement_is_for_no_event_time_before_the_one_that_it_names(
    partner: Catalog, reader: Catalog, owner: Catalog
) -> None:
    revise(partner, (2, {2: 5}))
    owner.agree_to_revisions(
        RevisionAgreement(
            stream=a.SUMS, producer=THEIRS, generation=2, from_us=3 * WIDTH, because=WHY, who="ada"
        )
    )
    with pytest.raises(Refused, match="--follow"):
        bring(reader, partner)


def test_a_contract_that_follows_no_more_stops_the_copy(partner: Catalog, reader: Catalog) -> None:
    reader.declare_following(a.SUMS, True)
    assert reader.followings() == (a.SUMS,)
    reader.declare_following(a.SUMS, False)
    assert reader.followings() == ()
    revise(partner, (2, {2: 5}))
    with pytest.raises(Refused, match="--follow"):
        bring(reader, partner)


# ------------------------------------------------------------ trims and holds


def test_what_is_trimmed_here_is_not_taken_over(partner: Catalog, reader: Catalog) -> None:
    reader.declare_following(a.SUMS, True)
    write(partner, 8, 9, {8: 1})
    bring(reader, partner)
    compute(reader)
    done = reader.trim(a.SUMS, THEIRS, 3 * WIDTH, needed={a.TAIL: 9 * WIDTH}, segments_max=9)
    assert done.trimmed_us == 3 * WIDTH
    revise(partner, (1, {1: 4}))
    revise(partner, (2, {2: 5, 3: 6}))
    revise(partner, (6, {6: 9}))
    assert bring(reader, partner) == [3, 4, 5]
    kept = {b: n for b, n in counts(reader).items() if b >= 3}
    assert kept == {b: n for b, n in counts(partner).items() if b >= 3}
    compute(reader)


def test_what_the_partner_trims_of_a_revision_stays_as_it_was(
    partner: Catalog, reader: Catalog
) -> None:
    reader.declare_following(a.SUMS, True)
    revise(partner, (1, {1: 4}), (3, {3: 5}))
    partner.trim(a.SUMS, THEIRS, 3 * WIDTH, needed={}, segments_max=99)
    assert bring(reader, partner) == [2]
    assert counts(reader) == {**dict.fromkeys(range(BUCKETS), 1), 3: 5}
    assert all(s.stability is Stability.STABLE for s in reader.segments(a.SUMS))


def test_who_reads_again_is_held_for(partner: Catalog, reader: Catalog) -> None:
    reader.declare_following(a.SUMS, True)
    for holder, purpose in (("gamma", "import"), ("mine", "delivery")):
        hold = Hold(stream=a.BIG, holder=holder, purpose=purpose, from_us=8 * WIDTH)
        reader.place_hold(hold)
    revise(partner, (2, {2: 5}))
    reach = RevisionReach(
        streams=(RevisedStream(stream=a.BIG, from_us=2 * WIDTH, buckets=1),),
        needed={a.TAIL: {a.SUMS: 2 * WIDTH}},
    )
    take(reader, news(partner, 1), reach)
    assert {h.purpose: h.from_us // WIDTH for h in reader.holds(a.BIG)} == {
        "import": 2,
        "delivery": 2,
    }
    assert {h.purpose: h.from_us // WIDTH for h in reader.holds(a.SUMS)}["recall"] == 2


# ------------------------------------------------------------ what a partner cannot do


def test_a_revision_of_what_is_not_final_here_is_refused(partner: Catalog, reader: Catalog) -> None:
    """A partner that lies about where its line is final: news is a revision of what was never
    read."""
    reader.declare_following(a.SUMS, True)
    write(partner, 8, 10, {8: 1})
    revise(partner, (8, {8: 2}))
    told = replace(news(partner, 2), after=Version(1), version=Version(2))
    assert told.revision is not None
    lie = replace(told.revision, version=Version(2))
    segments = tuple(
        replace(p, begin_version=Version(2), segment=replace(p.segment, version=Version(2)))
        for p in told.segments
        if p.end_version is None and p.segment.version == 3
    )
    before = shapes(reader)
    with pytest.raises(Refused, match="not final here"):
        take(reader, replace(told, revision=lie, segments=segments, chain_after=None))
    assert (shapes(reader), reader.recalls()) == (before, ())


def test_a_revision_of_a_generation_that_is_here_already_is_refused(
    partner: Catalog, reader: Catalog
) -> None:
    reader.declare_following(a.SUMS, True)
    revise(partner, (2, {2: 5}))
    bring(reader, partner)
    revise(partner, (2, {2: 6}))
    told = news(partner, 2)
    assert told.revision is not None
    with pytest.raises(Refused, match="not final here"):
        take(reader, replace(told, revision=replace(told.revision, generation=2)))


def test_rows_that_a_revision_leaves_are_the_readers_own(partner: Catalog, reader: Catalog) -> None:
    """What a partner says of them is not taken over: it could be something else."""
    reader.declare_following(a.SUMS, True)
    revise(partner, (2, {2: 5}))
    told = news(partner, 1)
    other = a.a_segment(3, BUCKETS, rows={3: 99})
    segments = tuple(
        replace(p, segment=replace(p.segment, buckets=other.buckets, files=other.files))
        if p.end_version is None and p.segment.version == 1 and p.segment.range.from_us
        else p
        for p in told.segments
    )
    assert segments != told.segments
    assert take(reader, replace(told, segments=segments))
    assert counts(reader) == {**dict.fromkeys(range(BUCKETS), 1), 2: 5}


def test_a_stream_of_several_producers_does_not_follow(
    home: HomeUnderTest, partner: Catalog, reader: Catalog
) -> None:
    reader.declare_following(a.SUMS, True)
    deployment = a.a_deployment()
    second = a.an_assignment(a.MAIN, a.SECOND, producer=Producer(Participant("gamma"), 1))
    reader.deploy(replace(deployment, assignments=(second,)))
    revise(partner, (2, {2: 5}))
    with pytest.raises(Refused, match="several producers"):
        take(reader, news(partner, 1))


# ------------------------------------------------------------ what it leads to


def test_what_a_revision_leads_to_in_a_reading_home_is_found_by_its_plans() -> None:
    document = json.dumps({"network": network_document(a.a_network())})
    catalog = MemoryCatalog(a.ALPHA, ManualClock(1_000))
    deployment = a.a_deployment(plan=fingerprint_of(document), plan_document=document)
    assigned = (
        replace(a.an_assignment(a.MAIN, producer=THEIRS), plan=deployment.plan),
        replace(a.an_assignment(a.TAIL), plan=deployment.plan),
        replace(a.an_assignment(IMPORT), plan=deployment.plan),
    )
    fragments = {**deployment.fragments, IMPORT: ((), ())}
    catalog.deploy(
        replace(deployment, document=document, fragments=fragments, assignments=assigned)
    )
    catalog.acquire_lease(a.a_key(a.TAIL), a.FIRST, "me", a.HOUR_MS)
    big = a.a_segment(0, BUCKETS, stream=a.BIG, rows={2: 1})
    catalog.commit(a.a_commit(big, lease=a.a_lease(a.TAIL), plan=deployment.plan))
    reach = reach_of_import(catalog, a.SUMS, [a.buckets(2, 3), a.buckets(5, 7)])
    assert reach.streams == (RevisedStream(stream=a.BIG, from_us=2 * WIDTH, buckets=3),)
    assert {name: dict(inputs) for name, inputs in reach.needed.items()} == {
        a.TAIL: {a.SUMS: 2 * WIDTH, a.BIG: 2 * WIDTH}
    }
    assert reach_of_import(catalog, a.SUMS, [a.buckets(8, 9)]).streams == ()
