"""Certificates say what they are exact except for, and how much of it was dropped."""

from __future__ import annotations

from medusa_core.certificates import Suite
from pipelines.quality.certificate_text import figures_text


def said(tentative_us: int, gap_us: int, dropped_us: int) -> str:
    figures = {
        "final_rows": 5,
        "recomputed_rows": 5,
        "tentative_us_not_compared": tentative_us,
        "gap_us_not_compared": gap_us,
        "dropped_us_not_compared": dropped_us,
    }
    return figures_text(Suite.CONVERGED, figures, {})


def test_a_window_that_is_compared_as_a_whole_is_exact_without_an_exception() -> None:
    assert said(0, 0, 0) == "5 rows and 5 again"


def test_what_was_dropped_is_named_as_an_exception() -> None:
    assert said(20_000_000, 10_000_000, 20_000_000) == (
        "5 rows and 5 again, exact except 30 s that is tentative or a gap (20 s dropped)"
    )


def test_what_is_tentative_for_another_reason_is_no_drop() -> None:
    assert said(20_000_000, 0, 0).endswith("exact except 20 s that is tentative or a gap")
