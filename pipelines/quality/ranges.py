"""Ranges of event time: the input records of a range of a stream, found from the boxes.

Lineage holds them too, but lineage is part of what is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from medusa_core.grid import Range
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Join,
    Lookup,
    Network,
    Port,
    Rank,
    Resample,
    Running,
    Session,
    inputs_of,
)
from pipelines.quality.period_bounds import period_at

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
    found = needed_of_all(network, port, part)
    return {name: range_ for name, range_ in found.items() if network.is_source(name)}


def needed_of_all(network: Network, port: Port, part: Range) -> Mapping[str, Range]:
    """Source or box -> the range of its rows that a port's rows in a range are computed from."""
    if network.is_source(port.owner):
        return {port.owner: part}
    rows = part
    box = network.box(port.owner)
    if isinstance(box, Aggregate) and box.every is not None:
        from_us, to_us = (period_at(box, at_us).from_us for at_us in (part.from_us, part.to_us))
        if from_us == to_us:
            return {box.name: rows}
        part = Range(from_us, to_us)
    elif isinstance(box, Aggregate | Rank):
        # Windows end 1 us behind their rows: the first one ends at `from` or later.
        first = -((box.size_us - 1 - part.from_us) // box.advance_us) * box.advance_us
        last = (part.to_us - box.size_us) // box.advance_us * box.advance_us
        if first > last:
            return {box.name: rows}
        part = Range(first, last + box.size_us)
    if isinstance(box, Deduplicate | Running | Every):
        # A row depends on the records of its span, from the beginning on.
        into_span_us = part.from_us % box.within_us
        part = Range(part.from_us - into_span_us, part.to_us)
    if isinstance(box, Session):
        part = Range(_first_that_matters(box, part.from_us), part.to_us)
    found: dict[str, Range] = {box.name: rows}
    for reference, reach_us in zip(inputs_of(box), reaches_us(box), strict=True):
        behind = part
        if isinstance(box, Join | Lookup | Resample):
            behind = Range(part.from_us - reach_us, part.to_us)
        input_ = network.port(reference, box.name)
        for name, range_ in needed_of_all(network, input_, behind).items():
            found[name] = found[name].hull(range_) if name in found else range_
    return found


def _first_that_matters(box: Session, from_us: int) -> int:
    """The first record that can change a session whose row lies at `from_us` or later.

    The last record of such a session lies less than a gap before. Of its run, only the records from
    one length before the last cut on matter, and the one before them.
    """
    last_us = from_us - (box.gap_us - 1)
    cut_us = last_us - last_us % box.length_us_max
    return cut_us - (box.length_us_max - 1) - (box.gap_us - 1)


def reaches_us(box: Box) -> tuple[int, ...]:
    """For each input of a box: how long after a record, at most, a row depends on the record."""
    match box:
        case Aggregate() | Rank():
            return (box.size_us,)
        case Deduplicate() | Running() | Every():
            return (box.within_us,)
        case Session():
            return (2 * (box.gap_us + box.length_us_max),)
        case Join():
            # A row waits for the right rows that a left row may still meet, up to `hi` after it.
            latest_us, earliest_us = max(box.hi_us, 0), box.lo_us
            if box.how == "inner":
                return (latest_us, max(-earliest_us, 0))
            return (latest_us, latest_us - earliest_us)
        case Lookup():
            return (0, box.max_age_us)
        case Resample():
            return (box.max_age_us * (2 if box.method == "linear" else 1),)
    return (0,) * len(inputs_of(box))


def needed_parts(network: Network, expected: Mapping[Port, Iterable[Range]]) -> Mapping[str, Parts]:
    """Source -> the ranges of its records that ranges of some ports are computed from."""
    found = needed_parts_of_all(network, expected)
    return {name: parts for name, parts in found.items() if network.is_source(name)}


def needed_parts_of_all(
    network: Network, expected: Mapping[Port, Iterable[Range]]
) -> Mapping[str, Parts]:
    """Source or box -> the ranges of its rows that ranges of some ports are computed from."""
    found: dict[str, list[Range]] = {}
    for port, parts in expected.items():
        for part in parts:
            for name, range_ in needed_of_all(network, port, part).items():
                found.setdefault(name, []).append(range_)
    return {name: merged(ranges) for name, ranges in found.items()}
