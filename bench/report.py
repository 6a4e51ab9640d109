"""The table that `make bench` ends with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.figures import Target, figure_of, p90, phases_of
from bench.growth import Growth
from bench.rounds import Measured

LETTERS = {"bare": "a bare Spark", "streaming": "b Structured Streaming", "medusa": "c Medusa"}


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows as aligned lines, the first column to the left, the others to the right."""
    lines = [list(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        first, *others = line
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()


def lines_of(measured: Measured) -> Iterator[str]:
    """A workload: contenders beside each other, then where a step of Medusa spends its time."""
    workload = measured.workload
    rows = ", ".join(f"{name} {n:,}" for name, n in measured.rows.items())
    yield (
        f"{workload.query}: {workload.records:,} records a step, {workload.steps} steps counted "
        f"after {workload.warm_up} to warm up; equal results: {rows}"
    )
    header = ["", "p50 ms", "p90 ms", "least ms", "records/s"]
    figures = {name: figure_of(steps, workload.records) for name, steps in measured.steps.items()}
    yield from table(
        [header]
        + [
            [LETTERS[name], f"{f.p50_ms:.0f}", f"{f.p90_ms:.0f}", f"{f.min_ms:.0f}",
             f"{f.records_per_s:,.0f}"]
            for name, f in figures.items()
        ]
    )  # fmt: skip
    phases = phases_of(measured.steps["medusa"])
    yield "a step of c: " + ", ".join(
        f"{name} {ms:.1f}" for name, ms in phases.items() if name != "total"
    )
    yield ""


def growth_lines_of(growth: Growth) -> Iterator[str]:
    """Ticks by the size of the catalog."""
    yield "a tick (knowledge, decide, commit; no Spark) by segments in the catalog"
    rows = [["segments", "p50 ms", "p90 ms", "knowledge", "commit", "filled in s"]]
    for size, ticks in growth.ticks.items():
        phases = phases_of(ticks)
        ninety = p90([ms["total"] for ms in ticks])
        rows.append(
            [f"{growth.segments[size]:,}", f"{phases['total']:.1f}", f"{ninety:.1f}",
             f"{phases['knowledge']:.1f}", f"{phases['commit']:.1f}", f"{growth.fill_s[size]:.0f}"]
        )  # fmt: skip
    yield from table(rows)
    yield ""


def target_lines_of(targets: Sequence[Target]) -> Iterator[str]:
    """What was promised and what was measured."""
    rows = [["promise", "measured", "paired", "bound", ""]]
    for target in targets:
        verdict = "met" if target.is_met else "MISSED"
        rows.append(
            [target.what, f"{target.measured:.2f}", f"{target.paired:.2f}",
             f"{target.sign} {target.bound}", verdict]
        )  # fmt: skip
    yield from table(rows)
