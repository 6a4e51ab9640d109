"""A certificate in a sentence: what was checked, over which window, by which engine, and found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

from medusa_core.certificates import Suite
from medusa_core.suggest import counted
from pipelines.base.time_text import duration, iso

if TYPE_CHECKING:
    from pipelines.quality.check_run import Found


def certificate_line(found: Found) -> str:
    """The sentence: `busy passed L2 (converged) from … to …: 12 rows and 12 again by DuckDB`."""
    one = found.certificate
    verdict = "passed" if one.passed else "broke"
    window = f"from {iso(one.range.from_us)} to {iso(one.range.to_us)}"
    text = f"{one.stream} {verdict} {one.law} ({one.suite.value}) {window}: "
    figures = figures_text(one.suite, one.figures, one.engines)
    if one.passed:
        return text + figures
    return f"{text}{'; '.join(found.broken) or 'see its page'}; {figures}"


def _except(figures: Mapping[str, Any]) -> str:
    """What was not compared: it is exact except for that."""
    gap_us, dropped_us = figures["gap_us_not_compared"], figures.get("dropped_us_not_compared", 0)
    open_us = figures["tentative_us_not_compared"] + gap_us
    if not open_us:
        return ""
    dropped = f" ({duration(dropped_us)} dropped)" if dropped_us else ""
    return f", exact except {duration(open_us)} that is tentative or a gap{dropped}"


def figures_text(suite: Suite, figures: Mapping[str, Any], engines: Mapping[str, str]) -> str:
    """The most important figures of a check, in a few words."""
    match suite:
        case Suite.CONVERGED:
            names = sorted({e.partition(":")[0] for e in engines.values()})
            rows = (
                f"{counted(figures['final_rows'], 'row')} and {figures['recomputed_rows']:,} again"
            )
            by = f" by {' and '.join(names)}" if names else ""
            return rows + by + _except(figures)
        case Suite.COMPLETE:
            in_quarantine = sum(figures["in_quarantine"].values())
            return f"{counted(figures['final_rows'], 'row')}, {in_quarantine:,} in quarantine"
        case Suite.BOUNDARIES:
            return counted(figures["versions"], "version")
        case Suite.AVAILABILITY:
            delays = [figures["delay_ms_max_final"], figures["delay_ms_max_tentative"]]
            longest = max((d for d in delays if d is not None), default=None)
            bound = figures["bound_ms"]
            text = "no bound declared" if bound is None else f"bound {bound:,} ms"
            return text if longest is None else f"{longest:,} ms at most, {text}"
    assert_never(suite)
