"""Two pictures of a stream's answers over the home's clock: delay, and stability.

The first draws the delay of each first answer against the bound. The second has event time on the
other axis: each bucket is a stripe that begins when it was answered, tentative until its
correction arrived. Limit: only the newest ANSWERS_MAX answers are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medusa_core.first_outputs import FirstOutput
from medusa_core.suggest import counted
from pipelines.base.time_text import duration, iso, time_of_day
from pipelines.report.answer_axis import (
    LEFT_PX,
    RIGHT_PX,
    WIDTH_PX,
    clockwork,
)
from pipelines.report.answer_figures import AnswerFigures, Mark
from pipelines.report.charts import FOOT_PX, rounded_up_ms, scale
from pipelines.report.drawing import svg
from pipelines.report.markup import Markup, join, tag
from pipelines.report.time_axis import axis_over

ANSWERS_MAX = 2_000
TITLES_MAX = 400
"""So many bars say what they are when pointed at."""
DELAYS_PX = 150.0
BAND_PX_MIN, BAND_PX_MAX, BUCKET_PX = 120.0, 420.0, 9.0
BAR_PX = 3.0


def drawn(figures: AnswerFigures) -> AnswerFigures:
    """The figures with the answers that are drawn: the newest in event time."""
    return replace(figures, answers=figures.answers[-ANSWERS_MAX:])


def draw_delays(figures: AnswerFigures, marks: Sequence[Mark] = ()) -> Markup | None:
    """The delay of each first answer, against the bound; None if no delay is known."""
    figures = drawn(figures)
    known = [(a, a.delay_ms) for a in figures.answers if a.delay_ms is not None]
    if not known:
        return None
    axis = clockwork(figures, marks)
    base = axis.top + DELAYS_PX
    most = rounded_up_ms(max(max(ms for _, ms in known), (figures.bound_ms or 0) * 1.1, 1))
    parts = scale(most, base, DELAYS_PX, lambda ms: duration(ms * 1_000), left=LEFT_PX)
    # Where several share a place the greatest is seen: it is drawn first, and wider than nothing.
    for at, (answer, ms) in enumerate(sorted(known, key=lambda pair: -pair[1])):
        height = max(ms / most * DELAYS_PX, 1.0)
        kind = "tentative" if answer.is_tentative else "stable"
        x = axis.x(answer.came_at_ms) - BAR_PX / 2
        bar = tag("path", d=f"M{x:.1f} {base:.1f}v-{height:.1f}h{BAR_PX:g}v{height:.1f}z",
                  class_=f"bars {kind}")  # fmt: skip
        if at < TITLES_MAX:
            text = f"{iso(answer.range.from_us)}: {kind}, {duration(ms * 1_000)}"
            bar = tag("g", tag("title", text), bar)
        parts.append(bar)
    if figures.bound_ms is not None:
        y = base - figures.bound_ms / most * DELAYS_PX
        line = f"M{LEFT_PX:.0f} {y:.1f}H{WIDTH_PX - RIGHT_PX:.0f}"
        parts.append(tag("path", d=line, class_="bound"))
        words = f"bound {duration(figures.bound_ms * 1_000)}"
        parts.append(tag("text", words, x=f"{LEFT_PX + 6:.0f}", y=f"{y - 5:.1f}", class_="label"))
    parts += [axis.frame(base), axis.lanes]
    greatest = duration(max(ms for _, ms in known) * 1_000)
    bound = "none declared" if figures.bound_ms is None else duration(figures.bound_ms * 1_000)
    return svg(
        WIDTH_PX, base + FOOT_PX, join(parts),
        title=f"Delay of each first answer of {figures.stream}, by the time at which it came",
        description=f"{counted(len(known), 'answer')}, {greatest} at most; bound: {bound}",
    )  # fmt: skip


def draw_band(figures: AnswerFigures, marks: Sequence[Mark] = ()) -> Markup | None:
    """Each bucket as a stripe over the clock; None if there is no answer."""
    figures = drawn(figures)
    if not figures.answers:
        return None
    clock_axis = clockwork(figures, marks)
    width_us = figures.line.stream.width_us
    starts = sorted(a.range.from_us for a in figures.answers)
    ends_us = figures.answers[-1].range.to_us
    buckets = (ends_us - starts[0]) / width_us
    height = min(max(buckets * BUCKET_PX, BAND_PX_MIN), BAND_PX_MAX)
    # Long answers to nothing (a quiet night in one row) end the axis at their last bucket.
    axis = axis_over(
        [*starts, max(ends_us - width_us, starts[-1] + 1)], width_us, clock_axis.top, height
    )
    bottom, right = clock_axis.top + height, WIDTH_PX - RIGHT_PX
    parts: list[Markup] = []
    for tick in axis.ticks():
        parts.append(tag("path", d=f"M{LEFT_PX:.0f} {tick.x:.1f}H{right:.0f}", class_="grid"))
        for line, text in enumerate(filter(None, (tick.label, tick.day))):
            parts.append(tag("text", text, x=f"{LEFT_PX - 7:.0f}",
                             y=f"{tick.x + 4 + 12 * line:.1f}", class_="label end"))  # fmt: skip
    for number, answer in enumerate(figures.answers):
        y = axis.x(answer.range.from_us)
        tall = max(axis.x(answer.range.to_us) - y - 0.6, 0.8)
        came = clock_axis.x(answer.came_at_ms)
        final = right if answer.final_at_ms is None else clock_axis.x(answer.final_at_ms)
        stripes = [_stripe(came, final, y, tall, "tentative")] if answer.is_tentative else []
        if answer.final_at_ms is not None:
            kind = "corrected" if answer.is_tentative else "stable"
            stripes.append(_stripe(final, right, y, tall, kind))
        if number < TITLES_MAX:
            stripes.insert(0, tag("title", _text_of(answer)))
        parts.append(tag("g", *stripes))
    parts += [clock_axis.frame(bottom), clock_axis.lanes]
    parts.append(tag("path", d=f"M{LEFT_PX:.0f} {bottom:.1f}H{right:.0f}", class_="axis"))
    return svg(
        WIDTH_PX, bottom + FOOT_PX, join(parts),
        title=f"What each bucket of {figures.stream} was, over the time at which it came",
        description=f"{figures.buckets_tentative:,} buckets were tentative at first, "
        f"{figures.buckets_corrected:,} of them are corrected",
    )  # fmt: skip


def _stripe(from_x: float, to_x: float, y: float, height: float, kind: str) -> Markup:
    width = max(to_x - from_x, 1.0)
    return tag("path", d=f"M{from_x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z",
               class_=f"bars {kind}")  # fmt: skip


def _text_of(answer: FirstOutput) -> str:
    at_us = answer.range.from_us
    came = time_of_day(answer.came_at_ms * 1_000)
    if not answer.is_tentative:
        return f"{iso(at_us)}: stable at {came}"
    lacked = ", ".join(answer.event.missing) or "something"
    if answer.final_at_ms is None:
        return f"{iso(at_us)}: tentative since {came}, without {lacked}"
    return f"{iso(at_us)}: tentative at {came}, without {lacked}; corrected at " + time_of_day(
        answer.final_at_ms * 1_000
    )
