"""A query network as a picture: its sources, boxes with their expressions, and outputs."""

from __future__ import annotations

from typing import assert_never

from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Network,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
)
from pipelines.report.drawing import Edge, Node, draw
from pipelines.report.markup import Markup


def draw_network(network: Network) -> Markup:
    """The picture of a network; what a box cannot show in full it tells when pointed at."""
    nodes = [
        Node(
            id=f"source {s.name}",
            heading=f"source {s.name}",
            lines=(f"{', '.join(s.columns)}; {_origin_of(s)}",),
            kind="source",
            hint=", ".join(f"{name} {type_}" for name, type_ in s.columns.items()),
        )
        for s in network.sources
    ]
    nodes += [_node(network.box(name)) for name in network.order]
    nodes += [
        Node(id=f"output {o.name}", heading=f"output {o.name}", kind="output")
        for o in network.outputs
    ]
    edges = [
        Edge(
            start=("source " if network.is_source(arc.start.owner) else "box ") + arc.start.owner,
            end=f"{kind} {arc.end}",
            label=arc.start.port,
        )
        for arcs, kind in ((network.box_arcs, "box"), (network.output_arcs, "output"))
        for arc in arcs
    ]
    title = f"Query network {network.name}"
    text = f"{len(network.sources)} sources, {len(network.boxes)} boxes, and the outputs "
    outputs = ", ".join(o.name for o in network.outputs)
    return draw(nodes, edges, title=title, description=text + outputs)


def _origin_of(source: Source) -> str:
    """Where a source's event times come from."""
    return f"time: {source.time}" if source.is_landed else f"stream: {source.stream}"


def _node(box: Box) -> Node:
    lines = _lines(box)
    return Node(
        id=f"box {box.name}",
        heading=f"{type(box).__name__} {box.name}",
        lines=lines,
        kind=type(box).__name__.lower(),
        hint="\n".join(lines),
    )


def _lines(box: Box) -> tuple[str, ...]:
    match box:
        case Filter():
            cases = [f"{port}: {predicate}" for port, predicate in box.cases.items()]
            return (*cases, *([f"{box.otherwise}: otherwise"] if box.otherwise else []))
        case Map():
            return tuple(
                name if name == expression else f"{name} = {expression}"
                for name, expression in box.columns.items()
            )
        case Union():
            return (f"of {', '.join(box.inputs)}",)
        case Aggregate():
            groups = f" per {', '.join(box.group_by)}" if box.group_by else ""
            columns = [f"{name} = {expression}" for name, expression in box.columns.items()]
            return (f"windows of {box.windows_shown}{groups}", *columns)
        case Session():
            groups = f" per {', '.join(box.by)}" if box.by else ""
            columns = [f"{name} = {expression}" for name, expression in box.columns.items()]
            sessions = f"sessions, {box.gap} apart{groups}"
            return (sessions, f"shorter than {box.length_max}", *columns)
        case Join():
            lo, hi = box.within
            keys = ", ".join(box.on)
            columns = [f"{name} = {column}" for name, column in box.columns.items()]
            return (
                f"{box.how}: {box.left} with {box.right}",
                f"on {keys}",
                f"{lo} to {hi} later",
                *columns,
            )
        case Lookup():
            columns = [f"{name} = {column}" for name, column in box.columns.items()]
            return (
                f"{box.how}: {box.input} with the newest of {box.table}",
                f"on {', '.join(box.on)}",
                f"at most {box.max_age} old",
                *columns,
            )
        case Resample():
            groups = f" per {', '.join(box.by)}" if box.by else ""
            kept = (f"gives {', '.join(box.columns)}",) if box.columns else ()
            return (f"{box.method} every {box.step}{groups}", f"at most {box.max_age} old", *kept)
        case Rank():
            groups = f" per {', '.join(box.group_by)}" if box.group_by else ""
            ordered = f"{box.number_shown} by {', '.join(box.order) or 'event time'}"
            return (f"windows of {box.windows_shown}{groups}", ordered, f"{box.column} = 1, 2, …")
        case Deduplicate():
            return (f"first per {', '.join(box.by)}", f"within {box.within}")
        case Running() | Every():
            groups = f" per {', '.join(box.by)}" if box.by else ""
            records = "up to each record" if isinstance(box, Running) else f"every {box.n} records"
            columns = [f"{name} = {expression}" for name, expression in box.columns.items()]
            return (f"{records}{groups}", f"within {box.within}", *columns)
        case Function():
            called = getattr(box.function, "__qualname__", "function")
            return (f"{called}(frame)", f"gives {', '.join(box.columns)}")
    assert_never(box)
