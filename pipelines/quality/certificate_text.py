"""A certificate in a sentence: what was checked, over which window, by which engine, and found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

from medusa_core.certificates import Certificate, Suite
from medusa_core.suggest import counted
from pipelines.base.time_text import iso

if TYPE_CHECKING:
    from pipelines.quality.check_run import Found


def certificate_line(found: Found) -> str:
    """The sentence: `busy passed L2 (converged) from … to …: 12 rows and 12 again by DuckDB`."""
    one = found.certificate
    verdict = "passed" if one.passed else "broke"
    window = f"from {iso(one.range.from_us)} to {iso(one.range.to_us)}"
    text = f"{one.stream} {verdict} {one.law} ({one.suite.value}) {window}: "
    if one.passed:
        return text + figures_text(one)
    return f"{text}{'; '.join(found.broken) or 'see its page'}; {figures_text(one)}"


def figures_text(certificate: Certificate) -> str:
    """The most important figures of a check, in a few words."""
    figures: Mapping[str, Any] = certificate.figures
    match certificate.suite:
        case Suite.CONVERGED:
            engines = sorted({e.partition(":")[0] for e in certificate.engines.values()})
            rows = (
                f"{counted(figures['final_rows'], 'row')} and {figures['recomputed_rows']:,} again"
            )
            return rows + (f" by {' and '.join(engines)}" if engines else "")
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
    assert_never(certificate.suite)
