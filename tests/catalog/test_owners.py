"""The log of owners: who owns a fragment's buckets from one on, in memory and in Postgres."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.adopting import adopting_commit
from medusa_core.decide import Adopt, ComputeStep, decide
from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import import_fragment
from medusa_core.fragments import Move, moved_fragment
from medusa_core.grid import Range
from medusa_core.knowledge import FragmentKnowledge, Limits
from medusa_core.names import Epoch, Participant
from medusa_core.recalls import RecallRequest
from medusa_core.segments import Producer, Stability
from medusa_core.trims import PROGRESS
from pipelines.catalog.interface import Catalog
from pipelines.catalog.records import Deployment, OwnerLine
from pipelines.participant.trimming import needs_of, trim_once
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest
from tests.catalog.producing import Partner

BETA = Producer(Participant("beta"), 1)
IMPORTING = import_fragment(a.SUMS)


def deployed() -> Deployment:
    """Alpha computes `sums`; beta does too, and alpha has a copy of its line."""
    base = a.a_deployment()
    return replace(
        base,
        fragments={**base.fragments, IMPORTING: ((), ())},
        assignments=(
            *base.assignments,
            a.an_assignment(a.MAIN, a.SECOND, BETA),
            a.an_assignment(IMPORTING),
        ),
    )


def owned(from_bucket: int, epoch: int = 1, by: Producer = BETA) -> OwnerLine:
    return OwnerLine(fragment=a.MAIN, epoch=Epoch(epoch), owner=by, timeout_ms=5_000,
                     from_us=from_bucket * a.WIDTH_US, because="a move")  # fmt: skip


@pytest.fixture
def catalog(home: HomeUnderTest) -> Catalog:
    home.catalog.deploy(deployed())
    for fragment in (a.LANDING, a.MAIN, a.TAIL):
        home.catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    return home.catalog


def compute(catalog: Catalog, from_bucket: int, to_bucket: int) -> None:
    catalog.commit(a.a_commit(a.a_segment(from_bucket, to_bucket)))


def test_the_log_has_a_line_for_each_change_and_the_same_again_is_nothing(
    catalog: Catalog,
) -> None:
    for _ in range(2):
        catalog.change_owner(owned(3))
    catalog.change_owner(owned(3, 2, a.ME))
    assert catalog.fragment_owners(a.MAIN) == (owned(3), owned(3, 2, a.ME))
    assert catalog.fragment_owners(a.TAIL) == ()


def test_an_epoch_of_the_log_is_the_next_one(catalog: Catalog) -> None:
    for epoch in (0, 2):
        with pytest.raises(Conflict, match="not the next one"):
            catalog.change_owner(owned(3, epoch))
    catalog.change_owner(owned(3))
    with pytest.raises(Conflict, match="not the next one"):
        catalog.change_owner(owned(4))


def test_a_bucket_that_is_computed_keeps_its_owner(catalog: Catalog) -> None:
    compute(catalog, 0, 4)
    with pytest.raises(Conflict, match="computed up to"):
        catalog.change_owner(owned(3))
    catalog.change_owner(owned(4))


def test_one_change_of_owner_is_ahead_at_a_time(catalog: Catalog) -> None:
    compute(catalog, 0, 2)
    catalog.change_owner(owned(5))
    with pytest.raises(Conflict, match="already"):
        catalog.change_owner(owned(7, 2, a.ME))
    catalog.change_owner(owned(2, 2, a.ME))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (replace(owned(3), from_us=5), "no bucket"),
        (owned(3, by=Producer(Participant("gamma"))), "writes no line"),
        (replace(owned(3), fragment=a.LANDING), "not computed here"),
        (replace(owned(3), fragment="example/unheard"), "not computed here"),
    ],
)
def test_an_impossible_owner_is_refused(catalog: Catalog, line: OwnerLine, why: str) -> None:
    with pytest.raises(Refused, match=why):
        catalog.change_owner(line)
    assert catalog.fragment_owners(line.fragment) == ()


def known(catalog: Catalog) -> FragmentKnowledge:
    found = catalog.read_knowledge(a.some_fragments(), Limits()).fragments
    return next(f for f in found if f.fragment.id == a.MAIN)


def test_what_is_known_of_a_provider_is_the_owner_of_the_next_bucket_or_of_a_later_one(
    catalog: Catalog,
) -> None:
    catalog.commit(
        a.a_commit(a.a_segment(0, 8, stream=a.SRC, rows={0: 3, 6: 3}), lease=a.a_lease(a.LANDING))
    )
    compute(catalog, 0, 2)
    assert known(catalog).provider is None
    catalog.change_owner(owned(4))
    ahead = known(catalog).provider
    assert ahead is not None
    assert (ahead.producer, ahead.range.from_us) == (BETA, 4 * a.WIDTH_US)
    compute(catalog, 2, 6)
    catalog.change_owner(owned(7, 2, a.ME))
    now = known(catalog).provider
    assert now is not None
    assert now.range == Range(4 * a.WIDTH_US, 7 * a.WIDTH_US)
    compute(catalog, 6, 8)
    assert known(catalog).provider is None


def test_after_a_recall_rows_of_the_provider_are_not_adopted(
    home: HomeUnderTest, owner: Catalog
) -> None:
    """What it has read of the stream that was recalled is not known here."""
    catalog = home.catalog
    catalog.deploy(deployed())
    for fragment in (a.LANDING, a.MAIN):
        catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    catalog.commit(
        a.a_commit(a.a_segment(0, 8, stream=a.SRC, rows={0: 3}), lease=a.a_lease(a.LANDING))
    )
    catalog.change_owner(owned(2))
    assert known(catalog).provider is not None
    request = RecallRequest(
        stream=a.SRC, producer=a.ME, from_us=4 * a.WIDTH_US, because="half a file", who="ada"
    )
    assert owner.recall(request)
    assert known(catalog).provider is None


def test_rows_of_the_provider_become_rows_of_this_home(catalog: Catalog) -> None:
    catalog.commit(
        a.a_commit(a.a_segment(0, 8, stream=a.SRC, rows={0: 3, 6: 3}), lease=a.a_lease(a.LANDING))
    )
    catalog.change_owner(owned(0))
    lease = catalog.acquire_lease(a.a_key(IMPORTING), a.FIRST, "me", a.HOUR_MS)
    beta = Partner(BETA, deployed())
    beta.commit(0, 4, rows={0: 3})
    beta.commit(4, 6, Stability.TENTATIVE, rows={5: 1}, missing=("src",))
    (status,) = catalog.imports()
    news = beta.catalog.line_news(a.SUMS, BETA, status.version, segments_max=10)
    told = replace(news, requested_at_ms=status.read_at_ms)
    assert catalog.import_line(lease, told, status.plan)
    decisions = decide(
        catalog.read_knowledge(a.some_fragments(), Limits()), catalog.read_clock_ms()
    )
    (adopt,) = [d for d in decisions if isinstance(d, Adopt)]
    assert not [d for d in decisions if isinstance(d, ComputeStep)]
    assert adopt.range == a.buckets(0, 4)
    assert not catalog.commit(adopting_commit(adopt, a.a_lease())).again
    assert catalog.commit(adopting_commit(adopt, a.a_lease())).again
    (own,) = catalog.segments(a.SUMS, producer=a.ME)
    (theirs, *_) = catalog.segments(a.SUMS, producer=BETA)
    assert (own.range, own.buckets, own.files) == (theirs.range, theirs.buckets, theirs.files)
    assert own.producer == a.ME


def test_rows_that_are_not_adopted_yet_are_not_trimmed(catalog: Catalog) -> None:
    def needed_us() -> int | None:
        needs = needs_of(catalog, a.some_fragments())
        return needs.get(a.SUMS, {}).get(a.MAIN)

    catalog.commit(
        a.a_commit(a.a_segment(0, 8, stream=a.SRC, rows={0: 3, 6: 3}), lease=a.a_lease(a.LANDING))
    )
    compute(catalog, 0, 2)
    assert needed_us() is None
    catalog.change_owner(owned(3))
    assert needed_us() == 2 * a.WIDTH_US
    compute(catalog, 2, 5)
    assert needed_us() == 5 * a.WIDTH_US
    catalog.commit(a.a_commit(a.a_segment(5, 6, Stability.TENTATIVE, missing=(a.SRC,))))
    assert needed_us() == 5 * a.WIDTH_US, "it is replaced by what the provider has of it"


def test_rows_that_may_be_adopted_are_held_by_the_fragment_that_adopts_them(
    catalog: Catalog,
) -> None:
    def held() -> dict[str, int]:
        needs = needs_of(catalog, a.some_fragments())
        status = next(line for line in catalog.lines(a.SUMS) if line.producer == BETA)
        trim_once(catalog, status, a.WIDTH_US, needs)
        holds = (h for h in catalog.holds(a.SUMS) if h.holder == a.MAIN)
        return {hold.purpose: hold.from_us // a.WIDTH_US for hold in holds}

    rows = a.a_segment(0, 8, stream=a.SRC, rows={0: 3, 6: 3})
    catalog.commit(a.a_commit(rows, lease=a.a_lease(a.LANDING)))
    compute(catalog, 0, 3)
    assert held() == {}
    catalog.change_owner(owned(4))
    assert held() == {PROGRESS: 3}
    catalog.change_owner(owned(3, 2, a.ME))
    assert held() == {PROGRESS: 3}, "a step that adopts may be under way"
    compute(catalog, 3, 4)
    assert held() == {}


MOVED = moved_fragment(a.MAIN, Move(a.ALPHA, 1))


def moved(home: HomeUnderTest) -> None:
    """What alpha's home has of a move to beta: beta's fragment, and the import of its line."""
    base = a.a_deployment()
    home.catalog.deploy(base)
    home.catalog.deploy(
        replace(
            base,
            fragments={MOVED: ((a.SRC,), (a.SUMS,)), IMPORTING: ((), ())},
            assignments=(a.an_assignment(MOVED, producer=BETA), a.an_assignment(IMPORTING)),
            starts_us={MOVED: 2 * a.WIDTH_US},
        )
    )


def test_a_moved_fragment_writes_a_line_of_its_own_which_is_imported(home: HomeUnderTest) -> None:
    moved(home)
    assert [status.producer for status in home.catalog.imports()] == [BETA]
    assert {line.producer for line in home.catalog.lines(a.SUMS)} == {a.ME, BETA}


def test_a_moved_fragment_that_is_stopped_is_neither_computed_nor_imported(
    home: HomeUnderTest,
) -> None:
    moved(home)
    assert home.catalog.stop_fragment(MOVED)
    assert not home.catalog.stop_fragment(MOVED)
    assert home.catalog.imports() == ()
    assert MOVED not in {one.fragment for one in home.catalog.assignments()}
    assert {line.producer for line in home.catalog.lines(a.SUMS)} == {a.ME, BETA}


def test_only_a_moved_fragment_is_stopped_alone(home: HomeUnderTest) -> None:
    moved(home)
    with pytest.raises(Refused, match="no moved one"):
        home.catalog.stop_fragment(a.MAIN)
    assert not home.catalog.stop_fragment(moved_fragment(a.MAIN, Move(a.ALPHA, 2)))


def test_the_inputs_of_a_stopped_fragment_are_imported_as_long_as_another_reads_them(
    home: HomeUnderTest,
) -> None:
    """As in the home of a provider, whose own fragments may read the same streams."""
    source = Producer(Participant("gamma"))
    base = a.a_deployment(assignments=())
    importing = import_fragment(a.SRC)
    home.catalog.deploy(
        replace(
            base,
            fragments={**base.fragments, importing: ((), ())},
            assignments=(a.an_assignment(a.LANDING, producer=source), a.an_assignment(importing)),
        )
    )
    for number in (1, 2):
        fragment = moved_fragment(a.MAIN, Move(source.participant, number))
        home.catalog.deploy(
            replace(
                base,
                fragments={fragment: ((a.SRC,), (a.SUMS,))},
                assignments=(a.an_assignment(fragment, producer=Producer(a.ALPHA, number)),),
            )
        )
    for number, still in ((1, [source]), (2, [])):
        home.catalog.stop_fragment(moved_fragment(a.MAIN, Move(source.participant, number)))
        assert [status.producer for status in home.catalog.imports()] == still
    home.catalog.deploy(replace(base, fragments={importing: ((), ())}))
    assert [status.producer for status in home.catalog.imports()] == [source]
