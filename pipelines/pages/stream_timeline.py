"""The timeline of a stream: a lane for each kind of bucket, and the delays of first answers.

Each kind has a lane with its name and its count, so that colour says nothing alone. A lane's bar is
as high as the kind's share of the cell, and never so low that it cannot be seen. A cell leads to
its part of the range, or to its bucket. Without colours and pictures the name and
the count of each lane say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipelines.base.time_text import duration, iso
from pipelines.pages.elements import event_time
from pipelines.report.markup import Markup, join, tag

LANES = ("stable", "corrected", "revised", "tentative", "gap")
ALWAYS = ("stable", "tentative")
HEIGHT, LOWEST = 20, 5
DELAY_HEIGHT = 60
TICKS = 5
MEANINGS = {
    "stable": "final at first",
    "corrected": "tentative at first, final now",
    "revised": "final, and replaced by a revision or a recall",
    "tentative": "not final yet: an input was missing",
    "gap": "lost for good, and declared so",
}

Address = Callable[..., str]
"""The address of the page with other values after `?`."""


def draw_timeline(timeline: Mapping[str, Any], width_us: int, bound_ms: int | None,
                  address: Address) -> Markup:  # fmt: skip
    """Lanes, delays, and the axis below them."""
    cells, cell_us = timeline["cells"], timeline["cell_us"]
    lanes = [kind for kind in LANES if kind in ALWAYS or timeline["totals"][kind]]
    parts: list[Markup] = []
    for row, kind in enumerate(lanes, start=1):
        total = timeline["totals"][kind]
        parts += [
            tag("span", tag("span", class_=f"key {kind}"), kind,
                class_=f"lane-label row-{row}", title=MEANINGS[kind]),
            _lane(cells, cell_us, kind, row),
            tag("span", f"{total:,}", class_=f"lane-total row-{row}" + ("" if total else " none")),
        ]  # fmt: skip
    rows = len(lanes) + 1
    parts += _delays(timeline["answers"], len(cells), bound_ms, f"tall row-{rows}")
    parts.append(tag("div", _links(timeline, width_us, address), class_=f"lane-links over-{rows}"))
    parts.append(_ticks(timeline))
    return tag("div", *parts, class_="timeline")


def _lane(cells: Sequence[Mapping[str, int]], cell_us: int, kind: str, row: int) -> Markup:
    words: list[str] = []
    for at, cell in enumerate(cells):
        length = cell.get(kind, 0)
        if length:
            height = max(round(length / cell_us * HEIGHT), LOWEST)
            words.append(f"M{at} {HEIGHT - height}h1v{height}h-1z")
    path = [tag("path", d="".join(words), class_=f"bar {kind}")] if words else []
    return _picture(join(path), len(cells), HEIGHT, f"lane-bars row-{row}")


def _picture(content: Markup, width: int, height: int, class_: str) -> Markup:
    return tag("svg", content, viewBox=f"0 0 {width} {height}", preserveAspectRatio="none",
               class_=class_, aria_hidden="true", focusable="false")  # fmt: skip


def _delays(
    answers: Mapping[str, Any], count: int, bound_ms: int | None, place: str
) -> list[Markup]:
    """Bars of the greatest delay of each cell, below the line of the bound."""
    greatest = answers["delay_ms_max"]
    top = max(bound_ms or 0, greatest or 0, 1) * 1.12
    kinds: dict[str, list[str]] = {"on-time": [], "late": []}
    for at, delay_ms, _ in answers["of_cells"]:
        height = max(delay_ms / top * DELAY_HEIGHT, 1.5)
        kind = "late" if bound_ms is not None and delay_ms > bound_ms else "on-time"
        kinds[kind].append(f"M{at} {DELAY_HEIGHT - height:.1f}h1v{height:.1f}h-1z")
    parts = [
        tag("path", d="".join(words), class_=f"delay {kind}")
        for kind, words in kinds.items() if words
    ]  # fmt: skip
    if bound_ms is not None:
        y = DELAY_HEIGHT - bound_ms / top * DELAY_HEIGHT
        parts.append(tag("path", d=f"M0 {y:.1f}H{count}", class_="bound"))
    lines = [tag("span", "delay", class_="lane-name")]
    if bound_ms is not None:
        lines.append(tag("small", f"bound X {duration(bound_ms * 1_000)}"))
    worst = "–" if greatest is None else f"max {duration(greatest * 1_000)}"
    return [
        tag("span", *lines, class_=f"lane-label {place}"),
        _picture(join(parts), count, DELAY_HEIGHT, f"lane-bars {place}"),
        tag("span", worst, class_=f"lane-total {place}"),
    ]


def _links(timeline: Mapping[str, Any], width_us: int, address: Address) -> Markup:
    """A cell leads to its part of the range, or to its bucket; the form does so by keyboard."""
    cells, cell_us, begins_us = timeline["cells"], timeline["cell_us"], timeline["from_us"]
    is_bucket = cell_us == width_us
    links = []
    for at, cell in enumerate(cells):
        from_us = begins_us + at * cell_us
        ends = {"from": iso(from_us), "to": iso(from_us + cell_us)}
        place = address(span=None, bucket=None, **ends)
        if is_bucket:
            place = address(bucket=f"{from_us}us") + "#bucket"
        counts = [f"{-(-cell[kind] // width_us):,} {kind}" for kind in LANES if cell.get(kind)]
        words = f"{iso(from_us)} · {', '.join(counts) or 'nothing'}"
        rect = tag("rect", x=str(at), y="0", width="1", height="1")
        links.append(tag("a", tag("title", words), rect, href=place, tabindex="-1"))
    return _picture(join(links), len(cells), 1, "lane-hits")


def _ticks(timeline: Mapping[str, Any]) -> Markup:
    begins, ends = timeline["from_us"], timeline["to_us"]
    times = [begins + (ends - begins) * at // (TICKS - 1) for at in range(TICKS)]
    return tag("div", *(event_time(at) for at in times), class_="lane-ticks")
