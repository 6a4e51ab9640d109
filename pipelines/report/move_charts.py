"""The picture of a move: the load of both participants, and below it who owned each bucket.

Both are over the home's clock, on the axis of the pictures of answers, so that all pictures of the
page can be read one above the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medusa_core.names import Participant
from pipelines.base.time_text import iso
from pipelines.report.answer_axis import (
    LANE_PX,
    LEFT_PX,
    MARKS_PX,
    RIGHT_PX,
    WIDTH_PX,
    Clockwork,
    clockwork,
)
from pipelines.report.answer_charts import drawn
from pipelines.report.charts import FOOT_PX, rounded_up, scale
from pipelines.report.drawing import CHARACTER_PX, svg
from pipelines.report.markup import Markup, join, tag
from pipelines.report.move_figures import LoadSpan, MoveFigures

LOAD_PX, GAP_PX = 90.0, 30.0
PAYER, PROVIDER = "phase0", "phase2"
"""The colours of the two, as classes of the style sheet."""


def draw_move(figures: MoveFigures) -> Markup:
    """Load of the payer, load of the provider, and the owner of each bucket."""
    axis = replace(clockwork(drawn(figures.answers), figures.marks), top=MARKS_PX + 10)
    loads = [
        [
            s
            for s in figures.loads.get(who, ())
            if axis.first_ms < s.to_ms and s.from_ms < axis.last_ms
        ]
        for who in (figures.payer, figures.provider)
    ]
    most = rounded_up(max((span.cores for spans in loads for span in spans), default=0.0))
    bottom, parts = axis.top, list[Markup]()
    for who, spans, kind in zip(
        (figures.payer, figures.provider), loads, (PAYER, PROVIDER), strict=True
    ):
        bottom += LOAD_PX
        parts += _load(axis, who, spans, most=most, base=bottom, kind=kind)
        bottom += GAP_PX
    parts.append(_owners(axis, figures, bottom))
    bottom += LANE_PX + 8
    across = f"M{LEFT_PX:.0f} {bottom:.1f}H{WIDTH_PX - RIGHT_PX:.0f}"
    parts += [tag("path", d=across, class_="axis"), axis.frame(bottom)]
    owners = "; ".join(
        f"{who} from {iso(part.from_us)} to {iso(part.to_us)}" for who, part in figures.owned
    )
    return svg(
        WIDTH_PX, bottom + FOOT_PX, join(parts),
        title=f"Load of {figures.payer} and {figures.provider}, and the owner of each bucket of "
        f"{figures.answers.stream}",
        description=f"Owners: {owners}",
    )  # fmt: skip


def _load(
    axis: Clockwork, who: Participant, spans: Sequence[LoadSpan], *, most: float, base: float,
    kind: str,
) -> list[Markup]:  # fmt: skip
    """The CPU of a participant as bars as wide as the time over which it was measured."""
    parts = scale(most, base, LOAD_PX, lambda cores: f"{cores:g}", left=LEFT_PX)
    for span in spans:
        x, height = axis.x(span.from_ms), max(span.cores / most * LOAD_PX, 0.5)
        width = max(axis.x(span.to_ms) - x, 0.5)
        bar = tag("rect", x=f"{x:.1f}", y=f"{base - height:.1f}", width=f"{width:.1f}",
                  height=f"{height:.1f}", class_=kind)  # fmt: skip
        parts.append(tag("g", tag("title", f"{who}: {span.cores:.2f} cores"), bar))
    words = tag("text", f"load of {who}, in cores", x=f"{LEFT_PX + 6:.0f}",
                y=f"{base - LOAD_PX + 12:.1f}", class_="label")  # fmt: skip
    return [*parts, words]


def _owners(axis: Clockwork, figures: MoveFigures, y: float) -> Markup:
    """A block for each run of buckets of one owner, at their event time."""
    parts = [tag("text", "owner", x=f"{LEFT_PX - 7:.0f}", y=f"{y + 13:.1f}", class_="label end")]
    for who, part in figures.owned:
        x = axis.x(part.from_us // 1_000)
        width = max(axis.x(part.to_us // 1_000) - x, 1.0)
        kind = PAYER if who == figures.payer else PROVIDER
        text = f"{who} owns the buckets from {iso(part.from_us)} until before {iso(part.to_us)}"
        block = [
            tag("title", text),
            tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}", height=f"{LANE_PX:.0f}",
                class_=kind),
        ]  # fmt: skip
        if len(who) * CHARACTER_PX + 8 <= width:
            block.append(tag("text", who, x=f"{x + width / 2:.1f}", y=f"{y + 13:.1f}",
                             class_="label middle"))  # fmt: skip
        parts.append(tag("g", *block))
    return join(parts)
