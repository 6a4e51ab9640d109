"""The wait before the next try doubles up to its most, and there is none without a failure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.restart import back_off_ms

FAILURES = st.integers(0, 10**9)


def test_the_first_waits_are_these() -> None:
    waits = [back_off_ms(n, first_ms=500, most_ms=10_000) for n in range(8)]
    assert waits == [0, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]


@given(FAILURES, st.integers(1, 10**6), st.integers(0, 10**9))
def test_it_never_shrinks_and_stays_below_its_most(failures: int, first_ms: int, more: int) -> None:
    most_ms = first_ms + more
    wait_ms = back_off_ms(failures, first_ms=first_ms, most_ms=most_ms)
    assert wait_ms <= back_off_ms(failures + 1, first_ms=first_ms, most_ms=most_ms) <= most_ms
    assert (wait_ms == 0) == (failures == 0)
