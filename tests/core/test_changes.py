"""The difference of two versions as values: multisets, pairs, ends of answers, trims."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.changes import (
    Difference,
    LineVersion,
    as_one_change,
    bucket_changes,
    multiset_difference,
    paired_by_key,
    uncovered,
    versions_to_report,
)
from medusa_core.digest import Digest
from medusa_core.grid import Range
from medusa_core.names import Participant, PlanId, StreamName, Version
from medusa_core.segments import Producer, Segment, Stability

words = st.lists(st.sampled_from("abc"), max_size=12)


def a_segment(from_us: int, to_us: int, stability: Stability, version: int,
              rows: dict[int, int]) -> Segment:  # fmt: skip
    return Segment(
        stream=StreamName("s"),
        producer=Producer(Participant("alpha")),
        range=Range(from_us, to_us),
        stability=stability,
        version=Version(version),
        plan=PlanId("p"),
        buckets={at: Digest(n, n, n) for at, n in rows.items()},
    )


@given(words, words)
def test_taking_away_and_adding_the_difference_leads_from_one_multiset_to_the_other(
    before: list[str], after: list[str]
) -> None:
    gone, come = multiset_difference(before, after)
    left = Counter(before)
    left.subtract(before[i] for i in gone)
    assert all(n >= 0 for n in left.values())
    assert left + Counter(after[i] for i in come) == Counter(after)
    assert not Counter(before[i] for i in gone) & Counter(after[i] for i in come)


@given(words, words)
def test_rows_are_paired_with_rows_of_their_key_each_once(
    deleted: list[str], inserted: list[str]
) -> None:
    pairs = paired_by_key(deleted, inserted)
    assert len(set(pairs.values())) == len(pairs)
    assert all(deleted[old] == inserted[new] for old, new in pairs.items())
    both = Counter(deleted) & Counter(inserted)
    assert len(pairs) == both.total()


def test_rows_with_a_key_are_paired_in_order() -> None:
    assert paired_by_key(["k", "k"], ["k", "x", "k"]) == {0: 0, 1: 2}


def test_equal_digests_and_stability_are_no_change_however_segments_are_cut() -> None:
    difference = Difference(
        before=(a_segment(0, 40, Stability.TENTATIVE, 1, {0: 1, 10: 2, 20: 3, 30: 4}),),
        after=(
            a_segment(0, 10, Stability.TENTATIVE, 1, {0: 1}),
            a_segment(10, 20, Stability.STABLE, 5, {10: 2}),
            a_segment(20, 30, Stability.STABLE, 4, {}),
            a_segment(30, 40, Stability.TENTATIVE, 1, {30: 4}),
        ),
    )
    changes = bucket_changes(difference, Range(0, 40))
    assert [(c.at_us, c.version, c.is_promoted) for c in changes] == [(20, 4, False), (10, 5, True)]
    assert uncovered(difference, Range(0, 40)) == ()
    assert uncovered(Difference(before=difference.before), Range(10, 40)) == (10, 20, 30)


def test_an_answer_ends_between_versions_and_tells_one_at_least() -> None:
    versions = [LineVersion(version=Version(v), rows_max=10) for v in (3, 4, 7)]
    told = [versions_to_report(versions, most) for most in (1, 10, 20, 29, None)]
    assert [v.version for v in told if v] == [3, 3, 4, 4, 7]
    assert versions_to_report([], 5) is None


def test_a_trim_takes_no_change_away_that_was_final_before() -> None:
    stood = LineVersion(version=Version(3), stable_us=30)
    assert as_one_change(stood, 30, 0)
    assert not as_one_change(stood, 31, 0)
    assert as_one_change(stood, 31, 31)
    assert as_one_change(None, None, 0)
    assert not as_one_change(None, 1, 0)
    assert not as_one_change(LineVersion(version=Version(3)), 1, 0)
