"""A query network drawn as a Mermaid flowchart, for documents and pull requests."""

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


def describe_box(box: Box) -> str:
    """One line that says what the box does."""
    match box:
        case Filter():
            return "Filter " + "; ".join(box.cases.values())
        case Map():
            return "Map " + ", ".join(box.columns)
        case Union():
            return "Union"
        case Aggregate():
            groups = f" per {', '.join(box.group_by)}" if box.group_by else ""
            return f"Aggregate {box.windows_shown}{groups}: {', '.join(box.columns)}"
        case Session():
            groups = f" per {', '.join(box.by)}" if box.by else ""
            lengths = f"{box.gap} apart, shorter than {box.length_max}"
            return f"Session {lengths}{groups}: {', '.join(box.columns)}"
        case Join():
            lo, hi = box.within
            return f"Join {box.how} on {', '.join(box.on)}, within {lo} to {hi}"
        case Lookup():
            return f"Lookup {box.how} on {', '.join(box.on)}, at most {box.max_age} old"
        case Resample():
            groups = f" per {', '.join(box.by)}" if box.by else ""
            return f"Resample {box.method} every {box.step}{groups}, at most {box.max_age} old"
        case Rank():
            groups = f" per {', '.join(box.group_by)}" if box.group_by else ""
            order = ", ".join(box.order) or "event time"
            return f"Rank {box.windows_shown}{groups}: {box.number_shown} by {order}"
        case Deduplicate():
            return f"Deduplicate first per {', '.join(box.by)} within {box.within}"
        case Running():
            keys = f" per {', '.join(box.by)}" if box.by else ""
            return f"Running{keys} within {box.within}: {', '.join(box.columns)}"
        case Every():
            keys = f" per {', '.join(box.by)}" if box.by else ""
            return f"Every {box.n}{keys} within {box.within}: {', '.join(box.columns)}"
        case Function():
            return "Function"
    assert_never(box)


_ENTITIES = str.maketrans(
    {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "|": "#124;"}
)


def _label(text: str) -> str:
    """Text as a Mermaid label: entities for what would end it or be read as markup."""
    return " ".join(text.translate(_ENTITIES).split())


def _source_text(source: Source) -> str:
    """Its name, and the stream that it reads if that is another network's."""
    return source.name if source.is_landed else f"{source.name}: {source.stream}"


def draw(network: Network) -> str:
    """The flowchart, one line for each source, box, output and arrow."""
    lines = ["flowchart LR"]
    lines += [f'  source_{s.name}[("{_source_text(s)}")]' for s in network.sources]
    lines += [
        f'  box_{b.name}["<b>{b.name}</b><br>{_label(describe_box(b))}"]' for b in network.boxes
    ]
    lines += [f'  output_{o.name}(["{o.name}"])' for o in network.outputs]
    for arcs, end in ((network.box_arcs, "box"), (network.output_arcs, "output")):
        for arc in arcs:
            start = "source" if network.is_source(arc.start.owner) else "box"
            label = f"|{arc.start.port}|" if arc.start.port else ""
            lines.append(f"  {start}_{arc.start.owner} -->{label} {end}_{arc.end}")
    return "\n".join(lines) + "\n"
