"""The lineage of one output bucket, back to the segments of the sources, as a picture.

Each step is drawn with the input ranges that its commit names and this bucket needs; the rest of
the step's inputs is counted. Drawn from the catalog alone: lineage, segments, digests, files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from medusa_core.digest import Digest
from medusa_core.fragments import Fragment
from medusa_core.grid import Range, merged_ranges
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Segment, digest_over
from medusa_core.suggest import counted
from pipelines.base.time_text import iso, size_of, time_of_day
from pipelines.catalog.records import StepRecord
from pipelines.homes.home import Home
from pipelines.language.check import check_network, fragments_for
from pipelines.report.drawing import Edge, Node, draw
from pipelines.report.figures import Figures, busiest_bucket
from pipelines.report.markup import Markup

SEGMENTS_MAX = 5
FILES_MAX = 3
DIGITS_MAX = 8
HOPS_MAX = 4


@dataclass(slots=True)
class _Drawn:
    """The picture as it grows: nodes by id, arrows."""

    home: Home
    fragments: Mapping[StreamName, Fragment]
    widths_us: Mapping[StreamName, int]
    steps: Iterable[StepRecord]
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)


def draw_lineage(home: Home, figures: Figures) -> tuple[str, Markup] | None:
    """What was chosen, in a sentence, and the picture; None if no output has a row."""
    chosen = busiest_bucket(figures.outputs)
    if chosen is None:
        return None
    stream, segment, at_us = chosen
    digest = segment.buckets[at_us]
    part = Range(at_us, at_us + stream.status.stream.width_us)
    drawn = _Drawn(
        home=home,
        fragments={
            name: f for f in fragments_for(check_network(figures.network)) for name in f.outputs
        },
        widths_us={s.name: s.status.stream.width_us for s in figures.streams},
        steps=figures.steps,
    )
    node = Node(
        id="bucket",
        heading=f"bucket of {stream.name}",
        lines=(
            _span(part),
            f"{counted(digest.rows, 'row')}, {segment.stability.value}, version {segment.version}",
            f"digest {short_digest(digest)}",
            *_files(segment),
        ),
        kind="output",
        hint=str(digest),
    )
    drawn.nodes[node.id] = node
    _draw_step(drawn, segment, part, node.id, HOPS_MAX)
    sentence = (
        f"The bucket with most rows of all outputs: {digest.rows:,} of "
        f"{stream.name} at {iso(at_us)}."
    )
    edges = list(reversed(drawn.edges))
    nodes = list(reversed(drawn.nodes.values()))
    title = f"Lineage of one bucket of {stream.name}"
    return sentence, draw(nodes, edges, title=title, description=sentence)


def _draw_step(drawn: _Drawn, segment: Segment, part: Range, below: str, hops: int) -> None:
    """The step that wrote a segment, and what a part of it needs of the step's inputs."""
    fragment = drawn.fragments.get(segment.stream)
    if fragment is None or hops == 0:
        return
    step = _step_of(drawn, segment)
    id_ = f"step {segment.stream} {segment.version}"
    if step is not None and id_ not in drawn.nodes:
        metrics = step.metrics
        records, rows = (
            counted(metrics.records_in, "record"),
            counted(metrics.records_out, "row"),
        )
        at = time_of_day(step.committed_at_ms * 1_000)[:12]
        drawn.nodes[id_] = Node(
            id=id_,
            heading=f"step of {step.fragment}",
            lines=(
                _span(step.range),
                f"{records} in, {rows} out, {step.cause}",
                f"plan {step.plan[:12]}…",
                f"commit {step.commit_key[:12]}… at {at}",
            ),
            kind="step",
            hint=f"plan {step.plan}\ncommit {step.commit_key}",
        )
    drawn.edges.append(Edge(start=id_, end=below))
    need = {
        name: range_.widened(drawn.widths_us[name])
        for name, range_ in fragment.needed(segment.stream, part).items()
    }
    # The lineage of the commit also holds what its other ranges read, which may overlap.
    read_ranges: dict[tuple[StreamName, Producer, Version], list[Range]] = {}
    for read in drawn.home.catalog.lineage(segment):
        overlap = read.range.intersection(need[read.input]) if read.input in need else None
        if overlap is not None:
            of = (read.input, read.producer, read.version)
            read_ranges.setdefault(of, []).append(overlap)
    inputs = [
        (stream, found, overlap)
        for (stream, producer, version), ranges in read_ranges.items()
        for overlap in merged_ranges(ranges)
        for found in drawn.home.catalog.segments(stream, overlap, producer=producer)
        if found.version == version
    ]
    for stream, found, overlap in inputs[:SEGMENTS_MAX]:
        _draw_segment(drawn, stream, found, overlap, id_, hops)
    if len(inputs) > SEGMENTS_MAX:
        more = f"more {id_}"
        lines = (f"{len(inputs) - SEGMENTS_MAX} more segments",)
        drawn.nodes[more] = Node(id=more, heading="and", lines=lines, kind="segment")
        drawn.edges.append(Edge(start=more, end=id_))


def _draw_segment(
    drawn: _Drawn, stream: StreamName, segment: Segment, need: Range, below: str, hops: int
) -> None:
    inside = digest_over((segment,), need)
    id_ = f"segment {stream} {segment.version} {segment.range}"
    is_new = id_ not in drawn.nodes
    drawn.nodes[id_] = Node(
        id=id_,
        heading=f"{stream} v{segment.version}, {segment.stability.value}",
        lines=(
            f"segment {_span(segment.range)}",
            f"{counted(segment.rows, 'row')} in {counted(len(segment.buckets), 'bucket')}",
            f"digest {short_digest(segment.digest)}",
            f"needed {_span(need)}: {counted(inside.rows, 'row')}",
            *_files(segment),
        ),
        kind="source" if stream not in drawn.fragments else "segment",
        hint=f"digest {segment.digest}\nneeded part {inside}",
    )
    drawn.edges.append(Edge(start=id_, end=below))
    if is_new:
        _draw_step(drawn, segment, need, id_, hops - 1)


def _step_of(drawn: _Drawn, segment: Segment) -> StepRecord | None:
    return next(
        (
            step
            for step in drawn.steps
            if step.versions.get(segment.stream) == segment.version
            and step.range.covers(segment.range)
        ),
        None,
    )


def _files(segment: Segment) -> list[str]:
    lines = [
        f"file {file.path.rpartition('/')[2][:8]}…, {size_of(file.size_bytes)}, SHA-256 "
        f"{file.sha256[:8]}…"
        for file in segment.files[:FILES_MAX]
    ]
    more = len(segment.files) - FILES_MAX
    return [*lines, f"and {counted(more, 'more file')}"] if more > 0 else lines


def short_digest(digest: Digest) -> str:
    """Count and the beginning of the two sums: enough to see that two differ."""
    if not digest.rows:
        return "no rows"
    return f"{digest.rows}:{_beginning(f'{digest.sum_a:x}')}:{_beginning(f'{digest.sum_b:x}')}"


def _beginning(text: str) -> str:
    return text if len(text) <= DIGITS_MAX else f"{text[:DIGITS_MAX]}…"


def _span(part: Range) -> str:
    first, last = iso(part.from_us), iso(part.to_us)
    same_day = first[:10] == last[:10] and "T" in first and "T" in last
    return f"{first} to {last.partition('T')[2] if same_day else last}"
