"""The facts of a window of a line, read once: the input of the checks of certificates.

Facts are values, so that a copy of them can be broken on purpose
(`pipelines.quality.planted_faults`) and judged like any other, while the home stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from medusa_core.certificates import LineEvent
from medusa_core.columns import Column, declare_columns
from medusa_core.errors import Refused
from medusa_core.grid import Range, ceil_us
from medusa_core.names import PlanId, StreamName
from medusa_core.plans import network_of_document
from medusa_core.segments import Segment, Stability
from pipelines.base.time_text import iso
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.records import LineStatus
from pipelines.homes.deployed_fragments import plan_in
from pipelines.homes.home import Home
from pipelines.quality.ranges import merged, needed
from pipelines.quality.recompute_jobs import (
    Made,
    Plans,
    Recomputed,
    ports_of_streams,
    recompute_streams,
)
from pipelines.quality.spark_boxes import SparkBatch
from pipelines.quality.stored_rows import final_rows, row_schema, within
from pipelines.quality.windows import Subject

LANDED = "landed records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A window of a line. `recomputed` is None if it cannot be recomputed; `reason` says why.

    `columns` are those that the stream is declared with, `derived` those that it has by the
    oracle's rules, and `stored_types` the types that differ in its files from the declared ones.
    `stable` and `recomputed` hold final rows only. `failed` counts the records that a box failed on
    in the recomputation, by column and cause; `quarantine` those in quarantine that the stream and
    its sources lack.
    `recalled_at` are the versions of the line that recalled final rows.
    """

    subject: Subject
    columns: tuple[Column, ...]
    segments: tuple[Segment, ...]
    events: tuple[LineEvent, ...]
    stable: pa.Table
    stored_types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    recomputed: pa.Table | None = None
    derived: tuple[Column, ...] = ()
    reason: str = ""
    engines: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bound_ms: int | None = None
    quarantine: Mapping[str, int] = field(default_factory=dict)
    recalled_at: frozenset[int] = frozenset()

    @property
    def stream(self) -> StreamName:
        """The name of the stream."""
        return self.subject.stream

    @property
    def dropped_us(self) -> int:
        """How much of the window was dropped in an overload, and is not corrected."""
        parts = (s.range.intersection(self.window) for s in self.segments if s.drop_rate)
        return sum(part.to_us - part.from_us for part in parts if part is not None)

    @property
    def window(self) -> Range:
        """The range of the buckets."""
        return self.subject.window

    def ranges(self, *stabilities: Stability) -> tuple[Range, ...]:
        """The parts of the window with one of the stabilities."""
        found = []
        for segment in self.segments:
            part = segment.range.intersection(self.window)
            if part is not None and segment.stability in stabilities:
                found.append(part)
        return tuple(found)


def gather(
    home: Home, subjects: Sequence[Subject], batch: SparkBatch, *, is_default: bool = False
) -> list[Facts]:
    """Read the facts of windows and recompute the windows, from the records that they need.

    `is_default`: a window whose start was not requested is cut to where records are still kept.
    Raises Refused if records that are needed are trimmed, Unavailable if a file is missing or
    damaged.
    """
    plans = {p.id: plan_in(p.document) for p in home.catalog.plans(superseded=True)}
    lines = lines_read(home.catalog.lines(), home.participant)
    read = [
        _read(home, _computable(home, subject, plans, lines, is_default=is_default))
        for subject in subjects
    ]
    bounds = {
        stream: bound.bound_ms for stream, (bound, _) in home.catalog.bounds().items() if bound
    }
    quarantine = _quarantine(home)
    reasons = [_not_here(home, facts, plans) for facts in read]
    here = [facts for facts, reason in zip(read, reasons, strict=True) if not reason]
    recomputed = recompute_streams(home, _made(here), plans, batch)
    return [
        replace(
            _with_recomputed(facts, reason, recomputed.get(facts.stream, ())),
            bound_ms=bounds.get(facts.stream),
            quarantine={s: quarantine[s] for s in _behind(facts, plans) if s in quarantine},
        )
        for facts, reason in zip(read, reasons, strict=True)
    ]


def _with_recomputed(facts: Facts, reason: str, recomputed: Sequence[Recomputed]) -> Facts:
    """Facts with what was recomputed of their stream, by one or more plans."""
    reason = reason or next((one.reason for one in recomputed if one.reason), "")
    if reason:
        return replace(facts, reason=reason)
    # Plans that give the stream different columns: one that differs from the declared ones is
    # shown, and fails the check whatever the rows are.
    others = (one.columns for one in recomputed if one.columns != facts.columns)
    derived = next(others, facts.columns)
    stable = merged(facts.ranges(Stability.STABLE))
    tables = [row_schema(derived).empty_table()]
    tables += [within(one.rows, stable) for one in recomputed if one.columns == derived]
    return replace(
        facts,
        derived=derived,
        recomputed=pa.concat_tables(tables),
        engines={box: engine for one in recomputed for box, engine in one.engines.items()},
        failed={box: count for one in recomputed for box, count in one.failed.items()},
    )


def _read(home: Home, subject: Subject) -> Facts:
    status, window = subject.status, subject.window
    columns = declare_columns(f"stream {status.stream.name}", status.stream.columns)
    segments = home.catalog.segments(subject.stream, window, producer=status.producer)
    stored = final_rows(home.storage, segments, columns, window)
    return Facts(
        subject=subject,
        columns=columns,
        segments=segments,
        events=home.catalog.history(subject.stream, status.producer, window),
        stable=stored.rows,
        stored_types=stored.types,
        recalled_at=frozenset(
            recall.version
            for recall in home.catalog.recalls(subject.stream)
            if recall.producer == status.producer
        ),
    )


def _not_here(home: Home, facts: Facts, plans: Plans) -> str:
    """Why a line cannot be recomputed in this home, or nothing."""
    status = facts.subject.status
    if not _is_computed_here(home, status):
        by = {line.producer for line in home.catalog.lines(status.stream.name)}
        names = sorted({p.participant for p in by if not p.is_import})
        return f"it is computed by {', '.join(names)}: ask there"
    here = {str(line.stream.name) for line in home.catalog.lines()}
    away: set[str] = set()
    for plan in {segment.plan for segment in facts.segments} & set(plans):
        network = network_of_document(plans[plan]["network"])
        port = ports_of_streams(network)[facts.stream]
        read = needed(network, port, facts.window)
        away |= {str(network.source(source).stream_name) for source in read} - here
    if away:
        return f"the records of {', '.join(sorted(away))} are not in this home: ask where they land"
    return ""


def _is_computed_here(home: Home, status: LineStatus) -> bool:
    """Whether this home computes the rows of a line, alone or as one of several producers."""
    if status.producer.participant != home.participant or not status.producer.is_import:
        return status.producer.participant == home.participant
    by = [line.producer for line in home.catalog.lines(status.stream.name)]
    return any(p.participant == home.participant and not p.is_import for p in by)


def _made(read: Sequence[Facts]) -> Made:
    """The stable ranges of the windows, by the plan that made them."""
    made: dict[PlanId, dict[StreamName, list[Range]]] = {}
    for facts in read:
        for segment in facts.segments:
            part = segment.range.intersection(facts.window)
            if part is not None and segment.stability is Stability.STABLE:
                made.setdefault(segment.plan, {}).setdefault(facts.stream, []).append(part)
    return made


def _computable(
    home: Home,
    subject: Subject,
    plans: Plans,
    lines: Mapping[StreamName, LineStatus],
    *,
    is_default: bool,
) -> Subject:
    """The window; if `is_default`, cut to where the records that it needs are kept."""
    status, window = subject.status, subject.window
    if not _is_computed_here(home, status):
        return subject
    least_us = window.from_us
    segments = home.catalog.segments(subject.stream, window, producer=status.producer)
    made_by = {s.plan for s in segments}
    for plan in made_by & set(plans):
        network = network_of_document(plans[plan]["network"])
        port = ports_of_streams(network)[subject.stream]
        for source, part in needed(network, port, window).items():
            stream = network.source(source).stream_name
            line = lines.get(stream)
            trimmed_us = None if line is None else line.trimmed_us
            if trimmed_us is not None and part.from_us < trimmed_us:
                behind_us = window.from_us - part.from_us
                first_us = ceil_us(trimmed_us + behind_us, status.stream.width_us)
                least_us = max(least_us, first_us)
                if not is_default or first_us >= window.to_us:
                    raise Refused(
                        f"{stream} is trimmed before {iso(trimmed_us)}, so {subject.stream} can be "
                        f"recomputed from {iso(first_us)} on: give --from that, or later"
                    )
    return Subject(status=status, window=Range(least_us, window.to_us))


def _quarantine(home: Home) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for reason in home.catalog.quarantine_reasons():
        counts[reason.stream] = counts.get(reason.stream, 0) + reason.records
    return counts


def _behind(facts: Facts, plans: Plans) -> set[str]:
    """The stream and the streams that the sources of its networks read."""
    found: set[str] = {facts.stream}
    for plan in {segment.plan for segment in facts.segments} & set(plans):
        for source in plans[plan].get("network", {}).get("sources", ()):
            found.add((source.get("stream") or source["name"]).rpartition("/")[2])
    return found
