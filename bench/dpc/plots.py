"""Three pictures as SVG files that need nothing else: written by the report's own markup.

Proc_new of each bucket over the time of a failure; N_tentative and reconciliation time against the
length of the failure, points as measured, lines as the originals' formulas say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from statistics import median
from typing import Any

from bench.dpc import originals
from bench.dpc.metrics import CellFigures, figures_of
from bench.dpc.scenario import BUCKET_S, DEPTHS, POLICIES, X_S, chains
from pipelines.report.markup import Markup, join, tag

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 64, 190, 34, 46
TICKS = 5
STEPS = 60
COLOURS = {"process": ("#3570b4", "#6aa5e6", "#1b304a"), "delay": ("#b4543c", "#e08b72", "#6d2c1d")}
STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1d2126}"
    ".grid{stroke:#d9dcd8;fill:none}.axis{stroke:#5d6670;fill:none}"
    ".end{text-anchor:end}.middle{text-anchor:middle}.heading{font-weight:700}"
)
SHOWN = "F=3X"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line or, where `is_dots`, points, with its name in the legend."""

    name: str
    points: tuple[tuple[float, float], ...]
    colour: str
    is_dots: bool = False
    is_dashed: bool = False


def write_plots(cells: Mapping[str, Any], folder: Path) -> list[Path]:
    """The pictures for which there are figures; their files."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[int, str], dict[str, CellFigures]] = {}
    for chain in chains():
        for cell in chain.cells:
            kept = cells.get(f"{chain.name}/{cell.name}", {})
            if "figures" in kept:
                figures = figures_of(kept["figures"])
                found.setdefault((chain.depth, chain.policy), {})[cell.name] = figures
    drawn = {
        "proc_new.svg": ("Proc_new of each bucket, F = 3 X (s from the cut; s)", _over_time(found)),
        "tentative.svg": (
            "N_tentative against F (s; rows), lines: the originals'",
            _tentative(found),
        ),
        "reconciliation.svg": (
            "Reconciliation time against F (s; s), lines: the originals'",
            _reconciliation(found),
        ),
    }
    files = []
    for name, (title, lines) in drawn.items():
        if any(line.points for line in lines):
            files.append(folder / name)
            files[-1].write_text(chart(title, lines) + "\n")
    return files


Found = Mapping[tuple[int, str], Mapping[str, CellFigures]]


def _over_time(found: Found) -> list[Line]:
    lines = [
        Line(
            name=f"depth {depth} {policy}",
            points=tuple((p.at_s, p.proc_s) for p in cells[SHOWN].points),
            colour=_colour(depth, policy),
        )
        for (depth, policy), cells in found.items()
        if SHOWN in cells
    ]
    if lines:
        least, most = (f(x for line in lines for x, _ in line.points) for f in (min, max))
        bound = Line(name="X", points=((least, X_S), (most, X_S)), colour="#5d6670", is_dashed=True)
        lines.append(bound)
    return lines


def _tentative(found: Found) -> list[Line]:
    lines = _dots(found, lambda figures: float(figures.end.tentative_rows))
    for policy in POLICIES:
        of = [c for (_, p), cells in found.items() if p == policy for c in _singles(cells)]
        if not of:
            continue
        rate = median(c.rate_left_per_s for c in of)
        again_s = median(c.end.reconciliation_s or 0.0 for c in of)
        lines.append(
            _formula(policy, of, lambda f, p=policy, r=rate, again=again_s: (
                originals.tentative_rows(p, f, again, r, X_S)))  # type: ignore[misc]
        )  # fmt: skip
    return lines


def _reconciliation(found: Found) -> list[Line]:
    lines = _dots(found, lambda figures: figures.end.reconciliation_s or 0.0)
    of = [c for cells in found.values() for c in _singles(cells)]
    steps = [ms for c in of for ms in c.steps_ms]
    if of and steps:
        busy = min(median(steps) / 1_000 / BUCKET_S, 0.9)
        lines.append(_formula("theirs", of, lambda f: originals.correction_s(f, busy)))
    return lines


def _dots(found: Found, value: Any) -> list[Line]:
    return [
        Line(
            name=f"depth {depth} {policy}",
            points=tuple(sorted((c.failure_s, value(c)) for c in _singles(cells))),
            colour=_colour(depth, policy),
            is_dots=True,
        )
        for (depth, policy), cells in found.items()
    ]


def _formula(name: str, of: Sequence[CellFigures], value: Any) -> Line:
    most = max(c.failure_s for c in of)
    return Line(
        name=f"{name}, formula",
        points=tuple((most * at / STEPS, value(most * at / STEPS)) for at in range(STEPS + 1)),
        colour=COLOURS.get(name, ("#5d6670",))[0],
        is_dashed=True,
    )


def _singles(cells: Mapping[str, CellFigures]) -> list[CellFigures]:
    return [figures for name, figures in cells.items() if name.startswith("F=")]


def _colour(depth: int, policy: str) -> str:
    return COLOURS[policy][DEPTHS.index(depth)]


def ticks(least: float, most: float) -> list[float]:
    """Round values between two, about TICKS of them."""
    rough = (most - least) / TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
    return [round(step * n, 9) for n in range(ceil(least / step), floor(most / step) + 1)]


def chart(title: str, lines: Sequence[Line]) -> Markup:
    """The picture: axes from 0 (or the least) to the greatest value, lines, dots, a legend."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x0, x1, y1 = min(0.0, *xs), max(*xs, 1e-9), max(*ys, 1e-9) * 1.05

    def at(x: float, y: float) -> tuple[float, float]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + (x - x0) / (x1 - x0) * wide, HEIGHT - BOTTOM - max(y, 0) / y1 * high

    parts: list[Markup] = [tag("text", title, x=LEFT, y=20, class_="heading")]
    for value in ticks(0.0, y1):
        _, y = at(x0, value)
        kind = "grid" if value else "axis"
        parts.append(tag("path", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", class_=kind))
        parts.append(tag("text", f"{value:g}", x=LEFT - 7, y=f"{y + 4:.1f}", class_="end"))
    for value in ticks(x0, x1):
        x, _ = at(value, 0)
        parts.append(tag("text", f"{value:g}", x=f"{x:.1f}", y=HEIGHT - BOTTOM + 18,
                         class_="middle"))  # fmt: skip
    for number, line in enumerate(lines):
        places = [at(*point) for point in line.points]
        if line.is_dots:
            parts += [tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3.5, fill=line.colour)
                      for x, y in places]  # fmt: skip
        elif places:
            drawn = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            dash = "6 4" if line.is_dashed else None
            parts.append(tag("path", d=drawn, fill="none", stroke=line.colour, stroke_width=1.6,
                             stroke_dasharray=dash))  # fmt: skip
        y = TOP + 14 + number * 18
        parts.append(tag("circle", cx=WIDTH - RIGHT + 18, cy=y - 4, r=4, fill=line.colour))
        parts.append(tag("text", line.name, x=WIDTH - RIGHT + 28, y=y))
    ground = tag("rect", width=WIDTH, height=HEIGHT, fill="#fdfdfb")
    return tag(
        "svg", tag("title", title), tag("style", Markup(STYLE)), ground, join(parts),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH,
        height=HEIGHT, role="img",
    )  # fmt: skip
