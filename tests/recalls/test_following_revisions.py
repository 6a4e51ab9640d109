"""A partner's revision is followed by contract, or when the operator says so, over the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from medusa_core.commits import Cause
from medusa_core.names import Version
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Stability
from pipelines.homes.home import open_home
from pipelines.participant.revising import reach_of_import
from tests.catalog import building as a
from tests.changes.building import SUMS, RowValues
from tests.recalls.building import Pair

MONKEY = pytest.MonkeyPatch
CAPTURED = pytest.CaptureFixture[str]
WHY = "a feed was read twice"
Contents = Mapping[int, Sequence[RowValues]]


def compute(pair: Pair, from_: int, to: int, contents: Contents, version: int = 1) -> None:
    """Alpha's buckets of `sums`, computed from a version of `src`: a later one corrects."""
    segment = pair.alpha.segment(SUMS, from_, to, contents, Stability.STABLE)
    read = a.a_read(part=a.buckets(from_, to), version=version)
    commit = a.a_commit(segment, lease=pair.alpha.leases[SUMS], lineage=(read,))
    pair.alpha.catalog.commit(
        replace(commit, cause=Cause.NORMAL if version == 1 else Cause.CORRECTION)
    )


def begin(pair: Pair) -> None:
    """Alpha computes three buckets of `sums` from its source; beta reads them."""
    catalog = pair.alpha.catalog
    lease = catalog.acquire_lease(a.a_key(a.LANDING), a.FIRST, "me", a.HOUR_MS)
    source = a.a_segment(0, 3, stream=a.SRC, rows={0: 1, 1: 1, 2: 1})
    catalog.commit(a.a_commit(source, lease=lease))
    compute(pair, 0, 3, {0: [("a", 1)], 1: [("b", 2)], 2: [("c", 3)]})
    pair.poll()
    pair.compute_big(0, 3)


def revise(pair: Pair, bucket: int, rows: int) -> int:
    """Alpha's operator revises a bucket of the source; its version since."""
    with open_home(pair.alpha.settings, a.ALPHA, as_owner=True) as home:
        (line,) = home.catalog.lines(a.SRC)
        segment = a.a_segment(bucket, bucket + 1, stream=a.SRC, rows={bucket: rows})
        done = home.catalog.revise(
            RevisionRequest(
                stream=a.SRC,
                producer=a.ME,
                generation=line.generation,
                segments=(RevisedSegment(segment=segment, plan=a.PLAN),),
                because=WHY,
                who="ada",
                behind={SUMS: bucket * a.WIDTH_US},
            )
        )
    return done.version


def test_a_revision_is_reported_agreed_to_and_followed(
    pair: Pair, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    begin(pair)
    compute(pair, 1, 2, {1: [("b", 7)]}, version=revise(pair, 1, 5))
    pair.alpha.write(SUMS, 3, 4, {3: [("d", 4)]})

    (told,) = pair.poll()
    assert told.problem is not None
    assert "partner alpha revised sums in 1 range from 1970-01-01T00:00:10Z on" in told.problem
    assert f"(generation 2: {WHY})" in told.problem
    assert "`medusa revise sums --follow alpha`" in told.problem
    assert pair.current("sums") == [(0, 3, 1)], "nothing is imported before somebody agrees"
    holds = [h.from_us for h in pair.alpha.catalog.holds(SUMS) if h.purpose == "import"]
    assert holds == [a.WIDTH_US], "what it has to read again is kept for it"

    follow = ("revise", "sums", "--follow", "alpha", "--participant", "beta")
    assert pair.alpha.command(monkeypatch, *follow) == 2, "nobody is asked, and nothing said yes"
    assert "--yes" in capsys.readouterr().err
    assert pair.alpha.command(monkeypatch, *follow, "--explain", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["follows"], plan["because"]) == (2, f"alpha: {WHY}")
    assert plan["ranges"] == [{"from": "1970-01-01T00:00:10Z", "to": "1970-01-01T00:00:20Z"}]
    assert pair.poll()[0].problem is not None, "explaining agrees to nothing"

    assert pair.alpha.command(monkeypatch, *follow, "--yes") == 0
    assert "agreed up to generation 2" in capsys.readouterr().out
    assert [told.problem for told in (*pair.poll(), *pair.poll())] == [None, None]
    assert pair.current("sums") == [(0, 1, 1), (1, 2, 2), (2, 3, 1), (3, 4, 3)]
    assert pair.poll() == []
    assert pair.alpha.command(monkeypatch, *follow, "--yes") == 2
    assert "nothing to follow" in capsys.readouterr().err


def test_a_contract_that_says_follow_asks_nobody(pair: Pair) -> None:
    begin(pair)
    pair.beta.catalog.declare_following(SUMS, True)
    compute(pair, 1, 2, {1: [("b", 7)]}, version=revise(pair, 1, 5))
    compute(pair, 0, 1, {0: [("a", 9)]}, version=revise(pair, 0, 5))
    pair.alpha.write(SUMS, 3, 4, {3: [("d", 4)]})
    told = [one.problem for _ in range(3) for one in pair.poll()]
    assert told == [None, None, None], "each revision is news of its own"
    assert pair.current("sums") == [(0, 1, 3), (1, 2, 2), (2, 3, 1), (3, 4, 4)]
    recalls = pair.beta.catalog.recalls(SUMS)
    assert [(r.who, r.because, r.changed) for r in recalls] == [
        ("alpha", WHY, (a.buckets(1, 2),)),
        ("alpha", WHY, (a.buckets(0, 1),)),
    ]


def test_what_was_revised_is_kept_until_it_is_followed_and_no_longer(pair: Pair) -> None:
    begin(pair)
    version = revise(pair, 1, 5)
    pair.poll()  # acknowledges all of `sums`, of which nothing is revised yet
    compute(pair, 1, 2, {1: [("b", 7)]}, version=version)
    for _ in range(2):
        assert pair.poll()[0].problem is not None, "nobody has agreed"
        assert trimmed_us(pair) == a.WIDTH_US
    pair.beta.catalog.declare_following(SUMS, True)
    pair.poll()
    pair.poll()  # the next look at the own home acknowledges what was followed
    assert trimmed_us(pair) == 3 * a.WIDTH_US


def trimmed_us(pair: Pair) -> int | None:
    """How far alpha may trim `sums`."""
    needed = {a.TAIL: 3 * a.WIDTH_US}
    done = pair.alpha.catalog.trim(SUMS, a.ME, 3 * a.WIDTH_US, needed=needed, segments_max=99)
    return done.trimmed_us


def test_a_revised_bucket_with_the_same_rows_changes_nothing(pair: Pair) -> None:
    begin(pair)
    pair.beta.catalog.declare_following(SUMS, True)
    compute(pair, 1, 2, {1: [("b", 2)]}, version=revise(pair, 1, 5))
    assert [told.problem for told in pair.poll()] == [None]
    (done,) = pair.beta.catalog.recalls(SUMS)
    assert (done.ranges, done.changed) == ((a.buckets(1, 2),), ())
    before = pair.alpha.held_at(SUMS, Version(1))
    assert pair.alpha.held_at(SUMS, Version(2)) == before


def test_what_a_partners_revision_leads_to_is_found_without_a_plan_that_can_be_read(
    pair: Pair,
) -> None:
    begin(pair)
    reach = reach_of_import(pair.beta.catalog, SUMS, [a.buckets(1, 2)])
    assert (reach.streams, dict(reach.needed)) == ((), {})
