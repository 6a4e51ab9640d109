"""The axis that both pictures of answers share: the home's clock, with the faults above it.

Each picture has the same lanes, so that delays and the band can be read one above the other: the
state of the fragment, times without an input, and actions of people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from medusa_core.states import State
from pipelines.base.time_text import duration, time_of_day
from pipelines.report.answer_figures import AnswerFigures, Mark
from pipelines.report.charts import draw_ticks
from pipelines.report.drawing import CHARACTER_PX
from pipelines.report.markup import Markup, join, tag
from pipelines.report.time_axis import CUT_PX, TimeAxis, axis_over

WIDTH_PX = 880.0
LEFT_PX = 72.0
RIGHT_PX = 14.0
LANE_PX = 18.0
LANE_GAP_PX = 5.0
MARKS_PX = 20.0
SECOND_US = 1_000_000
PAUSE_KEPT_S = 600
"""A shorter pause is part of what is to be seen: it is never cut out of the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clockwork:
    """The axis and what stands above it; pictures begin at `top`."""

    axis: TimeAxis
    lanes: Markup
    marks: tuple[Mark, ...]
    first_ms: int
    last_ms: int
    top: float

    def x(self, at_ms: int) -> float:
        """Where a time of the home's clock lies."""
        return self.axis.x(min(max(at_ms, self.first_ms), self.last_ms) * 1_000)

    def frame(self, bottom: float) -> Markup:
        """Marks from the top down to the foot, cuts, ticks and their labels."""
        parts: list[Markup] = []
        for x, left_out_us in self.axis.cuts:
            band = tag("rect", x=f"{x + 3:.1f}", y=f"{self.top:.1f}", width=f"{CUT_PX - 6:.0f}",
                       height=f"{bottom - self.top:.1f}", class_="cut")  # fmt: skip
            middle, centre = x + CUT_PX / 2, (self.top + bottom) / 2
            words = tag("text", duration(left_out_us), x=f"{middle:.1f}", y=f"{centre + 4:.1f}",
                        transform=f"rotate(-90 {middle:.1f} {centre:.1f})",
                        class_="label middle")  # fmt: skip
            parts += [band, words]
        free_x = 0.0
        for mark in sorted(self.marks, key=lambda m: m.at_ms):
            x = self.x(mark.at_ms)
            parts.append(tag("path", d=f"M{x:.1f} {MARKS_PX - 4:.1f}V{bottom:.1f}", class_="mark"))
            half = len(mark.label) * CHARACTER_PX / 2
            if x - half >= free_x:
                parts.append(tag("text", mark.label, x=f"{x:.1f}", y="12",
                                 class_="heading middle"))  # fmt: skip
                free_x = x + half + 4
        return join([*parts, *draw_ticks(self.axis, bottom)])


def clockwork(figures: AnswerFigures, marks: Sequence[Mark]) -> Clockwork:
    """The axis over all arrivals and corrections of at least one answer."""
    times = {a.came_at_ms for a in figures.answers}
    times |= {a.final_at_ms for a in figures.answers if a.final_at_ms is not None}
    if any(a.final_at_ms is None for a in figures.answers):
        times.add(figures.clock_ms)
    inside = tuple(m for m in marks if min(times) - 60_000 <= m.at_ms <= max(times) + 60_000)
    times |= {m.at_ms for m in inside}
    starts = sorted({at // 1_000 for at in times})
    seconds = sorted({s for a, b in pairwise(starts) for s in _kept(a, b)} | set(starts))
    axis = axis_over([s * SECOND_US for s in seconds], SECOND_US, LEFT_PX,
                     WIDTH_PX - LEFT_PX - RIGHT_PX)  # fmt: skip
    bare = Clockwork(axis=axis, lanes=join(()), marks=inside, first_ms=seconds[0] * 1_000,
                     last_ms=(seconds[-1] + 1) * 1_000, top=0)  # fmt: skip
    lanes, y = [], MARKS_PX
    for lane in (_states(bare, figures, y), *_outages(bare, figures, y + LANE_PX + LANE_GAP_PX)):
        lanes.append(lane)
        y += LANE_PX + LANE_GAP_PX
    return Clockwork(axis=axis, lanes=join(lanes), marks=inside, first_ms=bare.first_ms,
                     last_ms=bare.last_ms, top=y + 6)  # fmt: skip


def _kept(begin_s: int, end_s: int) -> Iterator[int]:
    """What fills a pause that is not to be cut out."""
    if end_s - begin_s <= PAUSE_KEPT_S:
        yield from range(begin_s, end_s)


def _states(axis: Clockwork, figures: AnswerFigures, y: float) -> Markup:
    """The fragment's state; before the first transition it is STABLE, unless it came into that."""
    blocks: list[tuple[int, State]] = []
    changes = figures.transitions
    if not changes or changes[0].state is not State.STABLE:
        blocks.append((axis.first_ms, State.STABLE))
    blocks += [(c.changed_at_ms or 0, c.state) for c in changes]
    ends = [*(at for at, _ in blocks[1:]), axis.last_ms]
    parts = [_side("state", y)]
    for (at_ms, state), to_ms in zip(blocks, ends, strict=True):
        text = f"{state.value} from {time_of_day(at_ms * 1_000)}"
        parts.append(
            _block(axis, at_ms, to_ms, y, f"state {state.name.lower()}", state.value, text)
        )
    return join(parts)


def _outages(axis: Clockwork, figures: AnswerFigures, y: float) -> Iterator[Markup]:
    """A lane for each input of which nothing came."""
    for stream in sorted({o.stream for o in figures.outages}):
        parts = [_side("input", y)]
        for outage in figures.outages:
            if outage.stream == stream:
                to_ms = axis.last_ms if outage.to_ms is None else outage.to_ms
                words = f"nothing of {stream}"
                text = f"{words} for {duration((to_ms - outage.from_ms) * 1_000)}"
                parts.append(_block(axis, outage.from_ms, to_ms, y, "cut", words, text))
        yield join(parts)
        y += LANE_PX + LANE_GAP_PX


def _side(label: str, y: float) -> Markup:
    return tag("text", label, x=f"{LEFT_PX - 7:.0f}", y=f"{y + 13:.1f}", class_="label end")


def _block(
    axis: Clockwork, from_ms: int, to_ms: int, y: float, kind: str, words: str, text: str
) -> Markup:
    """A stretch of a lane, with its words inside where there is room."""
    x, width = axis.x(from_ms), max(axis.x(to_ms) - axis.x(from_ms), 1.5)
    parts = [tag("title", text), tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}",
                                     height=f"{LANE_PX:.0f}", class_=kind)]  # fmt: skip
    if len(words) * CHARACTER_PX + 8 <= width:
        middle = x + width / 2
        parts.append(tag("text", words, x=f"{middle:.1f}", y=f"{y + 13:.1f}", class_="middle"))
    return tag("g", *parts)
