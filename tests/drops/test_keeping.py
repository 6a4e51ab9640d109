"""Which windows and records are kept: about the share of them, and always the same ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.drops.keeping import is_record_kept, is_unit_kept, seed_of

shares = st.floats(0, 1)
seeds = st.integers(0, 2**64 - 1)


@given(share=shares, seed=seeds, first=st.integers(-(2**40), 2**40))
def test_of_any_hundred_units_about_the_share_is_kept(share: float, seed: int, first: int) -> None:
    kept = sum(is_unit_kept(first + n, share, seed) for n in range(100))
    assert abs(kept - 100 * share) <= 3.5


@given(low=shares, high=shares, seed=seeds, number=st.integers(0, 2**63))
def test_what_is_kept_at_a_share_is_kept_at_every_larger_one(
    low: float, high: float, seed: int, number: int
) -> None:
    low, high = sorted((low, high))
    for is_kept in (is_unit_kept, is_record_kept):
        assert is_kept(number, low, seed) <= is_kept(number, high, seed)


@given(seed=seeds, number=st.integers(0, 2**63))
def test_at_a_share_of_1_everything_is_kept_and_at_0_nothing(seed: int, number: int) -> None:
    for is_kept in (is_unit_kept, is_record_kept):
        assert is_kept(number, 1.0, seed)
        assert not is_kept(number, 0.0, seed)


def test_the_kept_records_are_the_share_within_three_standard_deviations() -> None:
    seed, rows = seed_of("0" * 32), 20_000
    for share in (0.1, 0.5, 0.9):
        kept = sum(is_record_kept(number, share, seed) for number in range(rows))
        assert abs(kept - rows * share) <= 3 * (rows * share * (1 - share)) ** 0.5


def test_another_plan_keeps_other_records() -> None:
    first, second = seed_of("0" * 32), seed_of("1" * 32)
    kept = [[is_record_kept(n, 0.5, seed) for n in range(64)] for seed in (first, second)]
    assert kept[0] != kept[1]
