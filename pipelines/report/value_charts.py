"""Pictures of an output's values: for each number that it holds, what it was in each window.

Where a window has one row its value is a dot; where it has several, a bar from the smallest to the
greatest. Nothing is drawn between windows. Of very many windows those that share a pixel are one
bar. A number that only repeats event time is left out. Limit: COLUMNS_MAX columns are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from medusa_core.grid import floor_us
from pipelines.base.time_text import duration
from pipelines.report.charts import HEAD_PX, LEFT_PX, PANEL_PX, RIGHT_PX, WIDTH_PX, stack
from pipelines.report.markup import Markup, join, tag
from pipelines.report.time_axis import TimeAxis, axis_over
from pipelines.storage.stable_rows import Rows

COLUMNS_MAX = 4
TIMES_MIN = 3
DOT_PX = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSeries:
    """The values of one column: start of each window -> its smallest and its greatest value."""

    name: str
    spans: dict[int, tuple[float, float]]

    @property
    def low(self) -> float:
        """The smallest value of all."""
        return min(low for low, _ in self.spans.values())

    @property
    def is_time(self) -> bool:
        """Whether the values grow exactly as event time does, in whatever unit."""
        if len(self.spans) < TIMES_MIN:
            return False
        (first_us, (first, _)), *others = sorted(self.spans.items())
        if any(low != high for _, (low, high) in others):
            return False
        rates = [(high - first) / (at_us - first_us) for at_us, (_, high) in others]
        return max(rates) - min(rates) <= 1e-9 * abs(rates[0])

    @property
    def high(self) -> float:
        """The greatest value of all."""
        return max(high for _, high in self.spans.values())


def value_series(rows: Rows, window_us: int) -> list[ValueSeries]:
    """A series for each of the first columns with numbers that differ, in the order of columns."""
    found: list[ValueSeries] = []
    for at, column in enumerate(rows.columns):
        if column.type not in ("int", "bigint", "double") and "decimal" not in column.type:
            continue
        spans: dict[int, tuple[float, float]] = {}
        for stime_us, values in zip(rows.stimes_us, rows.values, strict=True):
            if (value := _number(values[at])) is not None:
                start_us = floor_us(stime_us, window_us)
                low, high = spans.get(start_us, (value, value))
                spans[start_us] = (min(low, value), max(high, value))
        series = ValueSeries(name=column.name, spans=spans)
        if spans and series.low < series.high and not series.is_time:
            found.append(series)
    return found[:COLUMNS_MAX]


def _number(value: object) -> float | None:
    """A value that can be drawn; None for NULL, NaN and what is infinite."""
    if not isinstance(value, int | float | Decimal):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def draw_values(output: str, series: Sequence[ValueSeries], window_us: int) -> Markup | None:
    """The series one above the other on one axis of event time; None if there is none."""
    starts = sorted({at for one in series for at in one.spans})
    if not starts:
        return None
    axis = axis_over(starts, window_us, LEFT_PX, WIDTH_PX - LEFT_PX - RIGHT_PX)
    drawn = [(PANEL_PX, partial(_panel, one, axis, window_us)) for one in series]
    text = "; ".join(_text_of(one) for one in series)
    title = f"Values of {output} per {duration(window_us)} of event time (UTC)"
    return stack(drawn, axis, title, text)


def _text_of(series: ValueSeries) -> str:
    return f"{series.name}: from {series.low:,.6g} to {series.high:,.6g}"


def _panel(series: ValueSeries, axis: TimeAxis, window_us: int, top: float) -> Markup:
    base = top + HEAD_PX + PANEL_PX
    low, high = series.low, series.high

    def y(value: float) -> float:
        return base - (value - low) / (high - low) * PANEL_PX

    parts = [
        tag("text", _text_of(series), x=f"{LEFT_PX:.0f}", y=f"{top + 17:.1f}", class_="heading")
    ]
    for value in (low, (low + high) / 2, high):
        line = f"M{LEFT_PX:.0f} {y(value):.1f}H{WIDTH_PX - RIGHT_PX:.0f}"
        parts.append(tag("path", d=line, class_="grid"))
        parts.append(tag("text", f"{value:.4g}", x=f"{LEFT_PX - 7:.0f}", y=f"{y(value) + 4:.1f}",
                         class_="label end"))  # fmt: skip
    columns: dict[int, tuple[float, float]] = {}
    for at_us, (least, most) in series.spans.items():
        column = round(axis.x(at_us + window_us // 2))
        smaller, greater = columns.get(column, (least, most))
        columns[column] = (min(smaller, least), max(greater, most))
    path = [
        f"M{column - DOT_PX / 2:.1f} {y(most) - DOT_PX / 2:.1f}h{DOT_PX:g}"
        f"v{y(least) - y(most) + DOT_PX:.1f}h-{DOT_PX:g}z"
        for column, (least, most) in sorted(columns.items())
    ]
    parts.append(tag("path", d="".join(path), class_="bars output"))
    return join(parts)
