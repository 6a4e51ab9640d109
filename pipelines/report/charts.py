"""Two pictures: rows per window of event time for each stream, and where the time of steps went.

A window is drawn as a bar from zero, never as a line to the next one: where there is nothing, there
is nothing to see. Where several windows share a pixel the greatest is drawn, and the caption says
so. Bars of steps are stacked by phase; one that would dwarf all others is cut off and labelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from medusa_core.suggest import counted
from pipelines.base.time_text import duration, iso
from pipelines.report.drawing import svg
from pipelines.report.markup import Markup, join, tag
from pipelines.report.time_axis import CUT_PX, LABEL_PX, TimeAxis, axis_over

WIDTH_PX = 880.0
LEFT_PX = 58.0
RIGHT_PX = 14.0
PANEL_PX = 104.0
HEAD_PX = 26.0
FOOT_PX = 38.0
GAP_PX = 12.0
EVEN_PX = 14.0
COLUMN_PX = 1.0
BARS_MAX = 120
DWARF = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One stream's rows: start of each non-empty window -> how many."""

    name: str
    kind: str
    counts: Mapping[int, int]

    @property
    def is_even(self) -> bool:
        """Whether all of several windows have as many rows: bars would be one block."""
        return len(self.counts) > 1 and len(set(self.counts.values())) == 1

    @property
    def height_px(self) -> float:
        """How high it is drawn: a strip if there is no height to compare."""
        return EVEN_PX if self.is_even else PANEL_PX


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One step, or the mean of several: milliseconds per phase, and what it is called."""

    label: str
    phases_ms: Mapping[str, float]

    @property
    def total_ms(self) -> float:
        """Milliseconds of all its phases."""
        return sum(self.phases_ms.values())


def draw_windows(panels: Sequence[Panel], window_us: int) -> Markup | None:
    """The panels one above the other on one axis of event time; None if nothing has a row."""
    starts = sorted({at for panel in panels for at in panel.counts})
    if not starts:
        return None
    axis = axis_over(starts, window_us, LEFT_PX, WIDTH_PX - LEFT_PX - RIGHT_PX)
    drawn = [(p.height_px, partial(_panel, p, axis, window_us)) for p in panels]
    text = "; ".join(_text_of(p) for p in panels)
    return stack(drawn, axis, f"Rows per {duration(window_us)} of event time (UTC)", text)


def stack(
    panels: Sequence[tuple[float, Callable[[float], Markup]]],
    axis: TimeAxis,
    title: str,
    description: str,
) -> Markup:
    """Panels one above the other over their axis.

    `panels`: the height of each, and a function that draws it with its top at a given y.
    """
    parts: list[Markup] = []
    y = 0.0
    for height_px, draw in panels:
        parts.append(draw(y))
        y += HEAD_PX + height_px + GAP_PX
    bottom = y - GAP_PX
    parts += draw_ticks(axis, bottom)
    return svg(WIDTH_PX, bottom + FOOT_PX, join(parts), title=title, description=description)


def _text_of(panel: Panel) -> str:
    if not panel.counts:
        return f"{panel.name}: no rows"
    if panel.is_even:
        each = counted(next(iter(panel.counts.values())), "row")
        return (
            f"{panel.name}: {sum(panel.counts.values()):,} rows, {each} in each of "
            f"{len(panel.counts):,} windows"
        )
    most_us = max(panel.counts, key=lambda at: (panel.counts[at], -at))
    return (
        f"{panel.name}: {sum(panel.counts.values()):,} rows in {len(panel.counts):,} windows, most "
        f"{panel.counts[most_us]:,} at {iso(most_us)}"
    )


def _panel(panel: Panel, axis: TimeAxis, window_us: int, top: float) -> Markup:
    full = panel.height_px
    base = top + HEAD_PX + full
    greatest = max(panel.counts.values(), default=1)
    most = greatest if panel.is_even else rounded_up(greatest)
    parts = [
        tag("text", _text_of(panel), x=f"{LEFT_PX:.0f}", y=f"{top + 17:.1f}", class_="heading")
    ]
    if not panel.is_even:
        parts += scale(most, base, PANEL_PX, lambda value: f"{value:,.0f}")
    columns: dict[int, int] = {}
    width = axis.x(axis.stretches[0].from_us + window_us) - axis.x(axis.stretches[0].from_us)
    path: list[str] = []
    if width >= 2 * COLUMN_PX:
        for at_us, rows in sorted(panel.counts.items()):
            height = max(rows / most * full, 1.0)
            bar = max(width - 1, 1.5)
            path.append(f"M{axis.x(at_us):.1f} {base:.1f}v-{height:.1f}h{bar:.1f}v{height:.1f}z")
    else:
        for at_us, rows in panel.counts.items():
            column = int(axis.x(at_us) / COLUMN_PX)
            columns[column] = max(columns.get(column, 0), rows)
        for column, rows in sorted(columns.items()):
            height = max(rows / most * full, 1.0)
            # A rare one must still be seen: never thinner than a pixel and a half.
            path.append(f"M{column * COLUMN_PX:.1f} {base:.1f}v-{height:.1f}h1.5v{height:.1f}z")
    parts.append(tag("path", d="".join(path), class_=f"bars {panel.kind}"))
    parts += [_cut(x, left_out_us, base, full) for x, left_out_us in axis.cuts]
    return join(parts)


def _cut(x: float, left_out_us: int, base: float, height: float) -> Markup:
    """A stretch of time that is left out, with its length."""
    middle, centre = x + CUT_PX / 2, base - height / 2
    band = tag("rect", x=f"{x + 3:.1f}", y=f"{base - height:.1f}", width=f"{CUT_PX - 6:.0f}",
               height=f"{height:.0f}", class_="cut")  # fmt: skip
    # Across in a panel of full height; a strip has no room for that.
    turned = None if height < PANEL_PX else f"rotate(-90 {middle:.1f} {centre:.1f})"
    words = tag("text", duration(left_out_us), x=f"{middle:.1f}", y=f"{centre + 4:.1f}",
                transform=turned, class_="label middle")  # fmt: skip
    return join([band, words])


def has_cuts(panels: Sequence[Panel], window_us: int) -> bool:
    """Whether a long stretch without any record is left out of the picture."""
    starts = sorted({at for panel in panels for at in panel.counts})
    return bool(starts) and len(axis_over(starts, window_us, 0, WIDTH_PX).stretches) > 1


def windows_per_column(panels: Sequence[Panel], window_us: int) -> int:
    """How many windows share a column of the picture at most (1: each has its own)."""
    starts = sorted({at for panel in panels for at in panel.counts})
    if not starts:
        return 1
    axis = axis_over(starts, window_us, LEFT_PX, WIDTH_PX - LEFT_PX - RIGHT_PX)
    first = axis.stretches[0].from_us
    width = axis.x(first + window_us) - axis.x(first)
    return 1 if width >= 2 * COLUMN_PX or width <= 0 else max(1, round(COLUMN_PX / width))


def draw_steps(bars: Sequence[Bar], phases: Sequence[str], title: str) -> Markup:
    """Stacked bars in the order of the commits; `phases` gives colours and order."""
    totals = sorted(bar.total_ms for bar in bars)
    usual = totals[int(0.9 * (len(totals) - 1))]
    most = rounded_up_ms(totals[-1] if totals[-1] <= DWARF * usual else usual * 1.15)
    height = PANEL_PX * 1.3
    base = HEAD_PX + 12 + height
    free_x = 0.0
    room = WIDTH_PX - LEFT_PX - RIGHT_PX
    width = min(room / len(bars), 46.0)
    parts = [tag("text", title, x=f"{LEFT_PX:.0f}", y="17", class_="heading")]
    parts += scale(most, base, height, lambda value: duration(value * 1_000))
    for at, bar in enumerate(bars):
        x, y, left = LEFT_PX + at * width, base, most
        stack = [tag("title", _bar_title(bar))]
        for number, phase in enumerate(phases):
            ms = min(bar.phases_ms.get(phase, 0.0), left)
            if ms <= 0:
                continue
            left -= ms
            tall = ms / most * height
            y -= tall
            stack.append(
                tag("rect", x=f"{x + width * 0.08:.1f}", y=f"{y:.2f}", width=f"{width * 0.84:.1f}",
                    height=f"{tall:.2f}", class_=f"phase{number % 8}")
            )  # fmt: skip
        if bar.total_ms > most * 1.001:
            stack.append(
                tag("path", d=f"M{x:.1f} {base - height + 9:.1f}l{width:.1f} -5v4l-{width:.1f} 5z",
                    class_="paper")
            )  # fmt: skip
            middle, words = x + width / 2, duration(bar.total_ms * 1_000)
            if middle - 4 * len(words) >= free_x:
                stack.append(tag("text", words, x=f"{middle:.1f}", y=f"{base - height - 4:.1f}",
                                 class_="label middle"))  # fmt: skip
                free_x = middle + 4 * len(words)
        parts.append(tag("g", *stack))
    for at in sorted({0, len(bars) - 1}):
        parts.append(tag("text", bars[at].label, x=f"{LEFT_PX + (at + 0.5) * width:.1f}",
                         y=f"{base + 18:.1f}", class_="label middle"))  # fmt: skip
    text = "; ".join(_bar_title(bar) for bar in bars[:12])
    return svg(WIDTH_PX, base + FOOT_PX, join(parts), title=title, description=text)


def _bar_title(bar: Bar) -> str:
    phases = ", ".join(f"{name} {duration(ms * 1_000)}" for name, ms in bar.phases_ms.items() if ms)
    return f"step {bar.label}: {duration(bar.total_ms * 1_000)} ({phases})"


def grouped(bars: Sequence[Bar]) -> list[Bar]:
    """At most BARS_MAX bars: neighbours become one with their mean."""
    size = -(-len(bars) // BARS_MAX) or 1
    found = []
    for at in range(0, len(bars), size):
        some = bars[at : at + size]
        names = dict.fromkeys(name for bar in some for name in bar.phases_ms)
        means = {n: sum(b.phases_ms.get(n, 0.0) for b in some) / len(some) for n in names}
        label = some[0].label if len(some) == 1 else f"{some[0].label}–{some[-1].label}"
        found.append(Bar(label=label, phases_ms=means))
    return found


def draw_ticks(axis: TimeAxis, bottom: float) -> list[Markup]:
    """The ticks of an axis below its panels, the day in a line of its own."""
    parts: list[Markup] = []
    for tick in axis.ticks():
        parts.append(tag("path", d=f"M{tick.x:.1f} {bottom:.1f}v5", class_="axis"))
        kind = "label end" if tick.x > WIDTH_PX - LABEL_PX else "label"
        for line, text in enumerate(filter(None, (tick.label, tick.day))):
            parts.append(tag("text", text, x=f"{tick.x:.1f}", y=f"{bottom + 18 + 12 * line:.1f}",
                             class_=kind))  # fmt: skip
    return parts


_MANTISSAS = (1, 2, 4, 6, 8, 10)
"""Of the top of a scale; its half is as short."""

_TOPS_MS = (
    *(m * 1_000 for m in (1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100)),
    *(m * 60_000 for m in (2, 4, 6, 8, 10, 20, 30, 40, 60)),
    *(m * 3_600_000 for m in (2, 4, 6, 8, 12, 24)),
)


def rounded_up(most: float) -> float:
    """The top of a scale that holds a value: a short number."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next((m * power for m in _MANTISSAS if m * power >= most), 10 * power)


def rounded_up_ms(most_ms: float) -> float:
    """The like for milliseconds, of which long ones are shown as minutes and hours."""
    if most_ms <= 1_000:
        return rounded_up(most_ms)
    return next((float(top) for top in _TOPS_MS if top >= most_ms), rounded_up(most_ms))


def scale(
    most: float,
    base: float,
    height: float,
    label: Callable[[float], str],
    *,
    left: float = LEFT_PX,
) -> list[Markup]:
    """Zero, the middle and the top of an axis, with lines across."""
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = base - share * height
        line = f"M{left:.0f} {y:.1f}H{WIDTH_PX - RIGHT_PX:.0f}"
        parts.append(tag("path", d=line, class_="axis" if not share else "grid"))
        if share != 0.5 or most >= 2:
            parts.append(tag("text", label(most * share) if share else "0", x=f"{left - 7:.0f}",
                             y=f"{y + 4:.1f}", class_="label end"))  # fmt: skip
    return parts
