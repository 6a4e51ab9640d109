"""The figures of a home's fragments, from which costs of availability are computed.

Rates and sizes are of the newest rows, at most `SPAN_US` of event time; loads are of the last hour.
What was not measured is assumed, and each assumption is a sentence in its figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from medusa_core.availability.measured_figures import (
    MS_US,
    SECOND_US,
    Figure,
    FragmentFigures,
    record_cost,
)
from medusa_core.box_costs import READ_US
from medusa_core.exchange import import_fragment
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.loads import Load, load_of
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Segment
from medusa_core.step_costs import NOT_MEASURED, RECORD_US, Cost
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.partner_records import PartnerLinks
from pipelines.catalog.reading_roles import LoadLog
from pipelines.catalog.records import LineStatus
from pipelines.homes.lease_renewer import LEASE_MS

SPAN_US = 3_600 * SECOND_US
LOAD_WINDOW_MS = 3_600_000
START_MS = 9_000
LINK_MS = 50
LINK_BYTES = 10_000_000


class MeasuredHome(LoadLog, Protocol):
    """What is read of a home."""

    @property
    def participant(self) -> Participant:
        """Whose home it is."""

    def read_clock_ms(self) -> int:
        """The catalog's clock."""

    def step_costs(self) -> Mapping[str, Cost]:
        """What the last steps of each fragment cost."""

    def links(self) -> tuple[PartnerLinks, ...]:
        """The links with partners."""


@dataclass(frozen=True, slots=True)
class _Rate:
    """What a second of a stream's event time has; None: no bucket of it is known."""

    records: float
    bytes: float


@dataclass(frozen=True, slots=True)
class HomeFigures:
    """What is measured of a home once, for all of its fragments."""

    lines: Mapping[StreamName, LineStatus]
    costs: Mapping[str, Cost]
    load: Load | None
    link_ms: Figure
    takeover_ms: Figure


def home_figures(
    home: MeasuredHome, lines: Iterable[LineStatus], takeover_ms: float | None
) -> HomeFigures:
    """Read what all fragments share; `takeover_ms` is what the operator has measured."""
    return HomeFigures(
        lines=lines_read(lines, home.participant),
        costs=home.step_costs(),
        load=load_of(home.loads_since(LOAD_WINDOW_MS), home.read_clock_ms(), LOAD_WINDOW_MS),
        link_ms=_link_ms(home.links()),
        takeover_ms=Figure(
            float(LEASE_MS + START_MS),
            f"a lease of {LEASE_MS} ms, and {START_MS} ms until Spark has started; give yours "
            "with --takeover",
        )
        if takeover_ms is None
        else Figure(takeover_ms),
    )


def fragment_figures(
    fragment: Fragment,
    of: HomeFigures,
    segments: Mapping[StreamName, Sequence[Segment]],
    held_us: Mapping[StreamName, int],
) -> FragmentFigures:
    """The figures of one fragment.

    `segments` are the newest live ones of its streams, `held_us` from where on a reader holds an
    output.
    """
    width_us = max(of.lines[name].stream.width_us for name in fragment.outputs)
    inputs = [_rate(segments.get(name, ())) for name in fragment.input_streams]
    outputs = [_rate(segments.get(name, ())) for name in fragment.outputs]
    cost = of.costs.get(fragment.home_id, NOT_MEASURED)
    records = _sum([None if rate is None else rate.records for rate in inputs], "inputs")
    cpu = _cpu(fragment, of.load, cost, records.value, width_us)
    seen_us = Figure(
        cost.record_us,
        "no step was much larger than the others" if cost.record_us == RECORD_US else None,
    )
    return FragmentFigures(
        fragment=fragment.home_id,
        width_us=width_us,
        reach_us=_reach_us(fragment),
        unread_us=_unread_us(fragment, of.lines, held_us, width_us),
        cpu=cpu,
        input_records=records,
        input_bytes=_sum([None if rate is None else rate.bytes for rate in inputs], "inputs"),
        output_records=_sum([None if r is None else r.records for r in outputs], "outputs"),
        output_bytes=_sum([None if rate is None else rate.bytes for rate in outputs], "outputs"),
        step_ms=Figure(
            cost.path_ms, None if fragment.home_id in of.costs else "no step was made yet"
        ),
        record_us=record_cost(seen_us, cpu, records),
        takeover_ms=of.takeover_ms,
        link_ms=of.link_ms,
        link_bytes=Figure(LINK_BYTES, "10 MB pass a link in a second"),
        copy_us=_copy_us(fragment, of.load, records.value),
    )


def newest(line: LineStatus) -> Range | None:
    """The range of a line whose rows are measured; None if it has none."""
    from_us, to_us = line.kept_from_us, line.live_through_us
    if from_us is None or to_us is None or to_us <= from_us:
        return None
    return Range(max(from_us, to_us - SPAN_US), to_us)


def _rate(segments: Sequence[Segment]) -> _Rate | None:
    """Records and bytes per second; a file that several segments share counts by its rows."""
    if not segments:
        return None
    span_s = sum(s.range.to_us - s.range.from_us for s in segments) / SECOND_US
    files = {file.path: file for segment in segments for file in segment.files}.values()
    stored = sum(file.rows for file in files)
    row_bytes = sum(file.size_bytes for file in files) / stored if stored else 0.0
    rows = sum(segment.rows for segment in segments)
    return _Rate(rows / span_s, rows * row_bytes / span_s)


def _sum(values: Sequence[float | None], what: str) -> Figure:
    known = [value for value in values if value is not None]
    lacks = len(values) - len(known)
    return Figure(sum(known), f"{lacks} of the {what} have no rows yet" if lacks else None)


def _reach_us(fragment: Fragment) -> int:
    reaches = (
        back_us for output in fragment.outputs for back_us, _ in fragment.reaches(output).values()
    )
    return max(reaches, default=0)


def _unread_us(
    fragment: Fragment,
    lines: Mapping[StreamName, LineStatus],
    held_us: Mapping[StreamName, int],
    width_us: int,
) -> Figure:
    behind = [
        max((lines[name].live_through_us or 0) - held_us[name], 0)
        for name in fragment.outputs
        if name in held_us and name in lines
    ]
    if not behind:
        return Figure(width_us, "no reader holds an output: one bucket is not read yet")
    return Figure(max(behind))


def _cpu(
    fragment: Fragment, load: Load | None, cost: Cost, records: float, width_us: int
) -> Figure:
    spent = 0.0 if load is None else load.of(fragment.home_id)
    if spent:
        return Figure(spent)
    each = cost.step_ms * MS_US / width_us
    return Figure(
        each + records * cost.record_us / SECOND_US,
        "no load was recorded in the last hour: one core is busy during each step",
    )


def _copy_us(fragment: Fragment, load: Load | None, records: float) -> Figure:
    spent = 0.0 if load is None else sum(
        load.of(import_fragment(name)) for name in fragment.input_streams
    )  # fmt: skip
    if spent and records:
        return Figure(spent * SECOND_US / records)
    return Figure(READ_US, "no import of its inputs was metered: as a record is read")


def _link_ms(links: Iterable[PartnerLinks]) -> Figure:
    known = [
        one.client.report.answer_ms
        for one in links
        if one.client is not None and one.client.report.answer_ms is not None
    ]
    return Figure(max(known)) if known else Figure(LINK_MS, "no answer of a partner was measured")
