"""The report: one HTML file that opens anywhere, with nothing but itself (`html_file.py`).

Every figure is read from the home that is shown (`figures.py`); everything is escaped when it is
added (`markup.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medusa_core.mermaid import draw as draw_mermaid
from medusa_core.network import Network
from medusa_core.suggest import counted
from pipelines.base.time_text import duration, iso
from pipelines.homes.home import Home
from pipelines.report.charts import (
    Panel,
    draw_steps,
    draw_windows,
    grouped,
    has_cuts,
    windows_per_column,
)
from pipelines.report.figures import FIRST_ROWS, Figures, StreamFigures, read_figures
from pipelines.report.html_file import fact_list, html_page, legend, section, write_whole
from pipelines.report.lineage import draw_lineage, short_digest
from pipelines.report.markup import Markup, join, table, tag
from pipelines.report.network_picture import draw_network
from pipelines.report.next_steps import next_commands
from pipelines.report.step_times import BETWEEN, phases_of, step_times
from pipelines.report.value_charts import draw_values, value_series
from pipelines.storage.stable_rows import EVENT_TIME, Rows, plain


def write_page(
    path: Path, *, home: Home, network: Network, result: Mapping[str, Any] | None = None
) -> None:
    """Write the report of a home in which this network was run, replacing what is at `path`.

    `result` is what a replay says of itself; only the wall time of the run is taken from it.
    Raises Unavailable, naming the file, if it cannot be written.
    """
    write_whole(path, page(home, network, (result or {}).get("seconds", {})))


def page(home: Home, network: Network, seconds: Mapping[str, float]) -> str:
    """The whole page."""
    figures = read_figures(home, network)
    title = f"Medusa: {network.name}, home of {home.participant}"
    return html_page(title, _sections(home, figures, seconds))


def _sections(home: Home, figures: Figures, seconds: Mapping[str, float]) -> Iterator[Markup]:
    yield from _summary(home, figures, seconds)
    yield section("The query network", *_network(figures))
    yield section("Records in, results out, over event time", *_windows(figures))
    yield section("What came out", *_first_rows(figures))
    yield section("Where the time went", *_steps(figures))
    yield section("Where one result came from", *_lineage(home, figures))
    yield section("Streams", *_streams(figures))
    yield section("Quarantine", *_quarantine(figures))
    yield section("Plan and engine", *_plan(figures))
    yield section("What to type next", *_next(home, figures))


def _summary(home: Home, figures: Figures, seconds: Mapping[str, float]) -> Iterator[Markup]:
    network = figures.network.name
    yield tag("h1", f"{network}: what went in, what came out, and how it is known")
    computed = [s for s in figures.steps if s.metrics.spark_jobs]
    facts = [
        (f"{sum(s.status.rows for s in figures.sources):,}", "records in"),
        *((f"{o.status.rows:,}", o.name) for o in figures.outputs),
        (f"{len(figures.steps):,}", "steps committed"),
        (f"{len(computed):,}", "of them with a Spark job"),
        (f"{figures.quarantine.count:,}", "records in quarantine"),
    ]
    if "total" in seconds:
        facts.append((duration(seconds["total"] * 1e6), "this run took"))
    yield fact_list(facts)
    is_stable = all(o.has_ended for o in figures.outputs)
    state = (
        "Every output has ended and is stable to its end: none of its rows will ever change."
        if is_stable
        else "Not every output has come to its end; what is shown is stable as far as it says."
    )
    read = f"All figures are read from the catalog and the storage in {home.directory}."
    yield tag("p", state, " ", tag("span", read, class_="soft"))


def _network(figures: Figures) -> Iterator[Markup]:
    yield tag(
        "p",
        "Records enter at the top; each box is applied to what the arrow brings. The boxes of a "
        "fragment are computed together, as one Spark job per step.",
    )
    yield draw_network(figures.network)
    mermaid = tag("pre", tag("code", draw_mermaid(figures.network)))
    yield tag("details", tag("summary", "The same as Mermaid text"), mermaid)


def _windows(figures: Figures) -> Iterator[Markup]:
    panels = [Panel(name=s.name, kind="source", counts=s.rows_per_window(figures.window_us))
              for s in figures.sources]  # fmt: skip
    panels += [Panel(name=s.name, kind="output", counts=s.rows_per_window(figures.window_us))
               for s in figures.outputs]  # fmt: skip
    picture = draw_windows(panels, figures.window_us)
    if picture is None:
        yield tag("p", "There is no record and no result.")
        return
    shared = windows_per_column(panels, figures.window_us)
    words = f"Each bar is one window of {duration(figures.window_us)}; where there is no bar, there"
    words += " was nothing."
    if shared > 1:
        words += f" Up to {shared} windows share a pixel: the greatest of them is drawn."
    if has_cuts(panels, figures.window_us):
        words += " A dashed band is a stretch without records; its length is written in it."
    yield tag("p", words)
    yield picture


def _first_rows(figures: Figures) -> Iterator[Markup]:
    for output in figures.outputs:
        rows = figures.rows[output.name]
        yield tag("h3", output.name)
        if not rows.values:
            yield tag("p", "It has no rows.")
            continue
        yield from _values(output, rows, figures.window_us)
        names = [EVENT_TIME, *(c.name for c in rows.columns)]
        body = [
            [iso(at), *(v if type(v) is int else plain(v) for v in values)]
            for at, values in zip(
                rows.stimes_us[:FIRST_ROWS], rows.values[:FIRST_ROWS], strict=True
            )
        ]
        # Numbers may be names or times: their digits are not set apart.
        text = f"the first {len(body):,} of {output.status.rows:,} rows"
        yield table(names, body, text, thousands="")


def _values(output: StreamFigures, rows: Rows, window_us: int) -> Iterator[Markup]:
    """The numbers of an output over event time."""
    picture = draw_values(output.name, value_series(rows, window_us), window_us)
    if picture is None:
        return
    text = (
        f"Its numbers per window of {duration(window_us)}: a dot where a window has one "
        "value, else from the smallest to the greatest."
    )
    if rows.has_more:
        text += f" Drawn are the first {len(rows.values):,} of {output.status.rows:,} rows."
    yield tag("p", text)
    yield picture


def _steps(figures: Figures) -> Iterator[Markup]:
    times = step_times(figures.steps)
    if not times:
        yield tag("p", "No step has been made.")
        return
    phases = phases_of(times)
    words = "One bar for each step, in the order of their commits, as the commits metered them."
    if BETWEEN in phases:
        words += f" “{BETWEEN}” is the time between two commits that is in no other phase."
    yield tag("p", words)
    yield legend((f"phase{n % 8}", name) for n, name in enumerate(phases))
    for fragment in times:
        bars = grouped(fragment.bars)
        size = -(-len(fragment.bars) // len(bars))
        shown = "" if size == 1 else f", each bar the mean of up to {size}"
        steps = counted(len(fragment.bars), "step")
        yield draw_steps(bars, phases, f"{fragment.fragment}: {steps}{shown}")
    rows = [
        [f.fragment, len(f.steps), sum(s.metrics.records_in for s in f.steps),
         sum(s.metrics.records_out for s in f.steps),
         *(duration(f.total_ms(p) * 1_000) if f.total_ms(p) else "" for p in phases)]
        for f in times
    ]  # fmt: skip
    yield table(["fragment", "steps", "records in", "rows out", *phases], rows,
                "time of all steps, by fragment and phase")  # fmt: skip


def _lineage(home: Home, figures: Figures) -> Iterator[Markup]:
    drawn = draw_lineage(home, figures)
    if drawn is None:
        yield tag("p", "No output has a row.")
        return
    sentence, picture = drawn
    yield tag(
        "p",
        sentence,
        " From top to bottom: the input segments that its step read, with the part that this "
        "bucket needs; the step; the bucket. Versions, digests and files are those in the catalog.",
    )
    yield picture


def _streams(figures: Figures) -> Iterator[Markup]:
    def row(stream: StreamFigures) -> list[object]:
        status = stream.status
        through_us = stream.stable_through_us
        return [
            stream.name, status.stream.kind, status.rows, len(stream.buckets),
            len(stream.segments), duration(status.stream.width_us),
            "not begun" if through_us is None else iso(through_us),
            "yes" if stream.has_ended else "no",
            tag("code", short_digest(stream.digest), title=stream.digest),
        ]  # fmt: skip

    names = ["stream", "kind", "rows", "non-empty buckets", "segments", "width", "stable through",
             "ended", "digest"]  # fmt: skip
    yield table(names, map(row, figures.streams), "every stream of this home")


def _quarantine(figures: Figures) -> Iterator[Markup]:
    quarantine = figures.quarantine
    if not quarantine.count:
        yield tag("p", "No record is in quarantine.")
        return
    seen = "" if quarantine.looked_at == quarantine.count else (
        f" (among the first {quarantine.looked_at:,})"
    )  # fmt: skip
    reasons = sorted(quarantine.by_reason.items(), key=lambda item: (-item[1], item[0]))
    yield table(["stream", "reason", "records"], [[*why, n] for why, n in reasons[:20]],
                f"in quarantine: {counted(quarantine.count, 'record')}{seen}")  # fmt: skip
    yield table(
        ["stream", "from", "position", "field", "reason", "content", "outputs without it"],
        [[r.stream, Path(r.origin).name or r.origin, r.position if r.position is not None else "",
          r.field, r.reason, r.content, ", ".join(r.outputs)] for r in quarantine.first],
        "the first of them",
    )  # fmt: skip


def _plan(figures: Figures) -> Iterator[Markup]:
    for plan in figures.plans:
        same = (
            "which is what this network and the engine installed here give"
            if plan == figures.plan_here
            else f"while this network and the engine installed here give {figures.plan_here}"
        )
        yield tag("p", "Plan ", tag("code", plan), f", {same}. Equal plans and equal lineage give "
                  "equal digests.")  # fmt: skip
    if set(figures.plans) <= {figures.plan_here}:
        rows = sorted(figures.engine_here.items())
        yield table(["part of the engine", "value"], rows, "what of the engine the plan covers")


def _next(home: Home, figures: Figures) -> Iterator[Markup]:
    output = max(figures.outputs, key=lambda o: o.status.rows, default=None)
    first_us = min(output.buckets, default=None) if output else None
    commands = next_commands(
        home.directory,
        stream=output.name if output else None,
        from_us=first_us,
        has_quarantine=bool(figures.quarantine.count),
    )
    yield tag("pre", tag("code", join(commands, "\n")))
