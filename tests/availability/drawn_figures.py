"""Figures of fragments, drawn."""

from __future__ import annotations

from hypothesis import strategies as st

from medusa_core.availability.measured_figures import Figure, FragmentFigures
from medusa_core.availability.recommendation import ResourcePrices


def numbers(most: float) -> st.SearchStrategy[Figure]:
    return st.floats(0, most).map(Figure)


figures = st.builds(
    FragmentFigures,
    fragment=st.just("counts/main"),
    width_us=st.integers(1, 60_000_000),
    reach_us=st.integers(0, 3_600_000_000),
    unread_us=numbers(1e9),
    cpu=numbers(4),
    input_records=numbers(1e5),
    input_bytes=numbers(1e7),
    output_records=numbers(1e5),
    output_bytes=numbers(1e7),
    step_ms=numbers(1e4),
    record_us=numbers(20),
    takeover_ms=numbers(6e4),
    link_ms=numbers(1e4),
    link_bytes=numbers(1e8),
    copy_us=numbers(10),
)
prices = st.builds(
    ResourcePrices, core_hour=numbers(10), gib_sent=numbers(10), gib_hour=numbers(10)
)
