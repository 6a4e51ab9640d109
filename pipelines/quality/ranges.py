"""Ranges of event time: the input records of a range of a stream, found from the boxes.

Lineage holds them too, but lineage is part of what is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from medusa_core.grid import Range
from medusa_core.network import Aggregate, Network, Port, inputs_of

Parts = tuple[Range, ...]
"""Ranges in order that neither overlap nor touch."""


def merged(parts: Iterable[Range]) -> Parts:
    """The union of ranges."""
    found: list[Range] = []
    for part in sorted(parts):
        if found and part.from_us <= found[-1].to_us:
            found[-1] = found[-1].hull(part)
        else:
            found.append(part)
    return tuple(found)


def needed(network: Network, port: Port, part: Range) -> Mapping[str, Range]:
    """Source -> the range of its records that a port's rows in a range are computed from."""
    if network.is_source(port.owner):
        return {port.owner: part}
    box = network.box(port.owner)
    if isinstance(box, Aggregate):
        # Windows end 1 us behind their rows: the first one ends at `from` or later.
        first = -((box.size_us - 1 - part.from_us) // box.advance_us) * box.advance_us
        last = (part.to_us - box.size_us) // box.advance_us * box.advance_us
        if first > last:
            return {}
        part = Range(first, last + box.size_us)
    found: dict[str, Range] = {}
    for reference in inputs_of(box):
        for source, range_ in needed(network, network.port(reference, box.name), part).items():
            found[source] = found[source].hull(range_) if source in found else range_
    return found


def needed_parts(network: Network, expected: Mapping[Port, Iterable[Range]]) -> Mapping[str, Parts]:
    """Source -> the ranges of its records that ranges of some ports are computed from."""
    found: dict[str, list[Range]] = {}
    for port, parts in expected.items():
        for part in parts:
            for source, range_ in needed(network, port, part).items():
                found.setdefault(source, []).append(range_)
    return {source: merged(ranges) for source, ranges in found.items()}
